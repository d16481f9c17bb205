"""Alarms over HTTP: set, list, change, act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from msgspec import UNSET, Raw
from msgspec.structs import asdict, replace
from starlette.responses import Response

from wakeful.clock import LoopShare, turn
from wakeful.errors import InvalidRequest, NotFound, WakefulError
from wakeful.http import answers as shape
from wakeful.http import operations
from wakeful.http.endpoint import Context, further, tagged
from wakeful.http.operations import CURSOR, PAGE, Header, Operation, OperationRequest
from wakeful.http.security.guard import answer, body, header, problem
from wakeful.model.alarm import ALARM_STATUSES, Alarm, Kind, is_fire_id
from wakeful.model.requests import CreateRequest, EditRequest
from wakeful.rules.wanted import decode
from wakeful.service import Alarms, Created, Why
from wakeful.service.create import numbered
from wakeful.service.views import AlarmView
from wakeful.store.filters import AlarmFilter

READ_AT_ONCE: Final = 8  # items of a batch, before others have their turn
KEY: Final = Header("Idempotency-Key", "The same as idempotency_key in the body.", ".+")
MATCH: Final = Header(
    "If-Match", 'The version the change is based on, in quotes: "3". 412 if the alarm has another.', r'^("\d{1,9}"|\*)$'
)


async def create(context: Context, call: OperationRequest) -> Response:
    request = _keyed(await body(call.request, CreateRequest), call)
    if context.settings.chronos_envelope and request.on_conflict is None:
        request = replace(request, on_conflict="return")  # to Chronos's clients a taken key is never a conflict
    made = await context.of(call).create(request)
    notes = made.notes or UNSET
    if made.deduped:
        in_flight = made.in_flight if request.on_conflict == "replace" else UNSET
        more = {"deduped": True, "in_flight": in_flight, "notes": notes}
        return tagged(shape.DedupedAnswer.of(made.alarm, **more, now=await context.now()))
    similar = UNSET if made.similar is None else made.similar
    shown = shape.CreatedAnswer.of(made.alarm, similar=similar, notes=notes, now=await context.now())
    return tagged(shown, 201, _place(call, made.alarm))


def _keyed(given: CreateRequest, call: OperationRequest) -> CreateRequest:
    """Return the request with the key from the header, if there is one, without quotes."""
    said = header(call.request.scope, b"idempotency-key")
    if said is None:
        return given
    key = said.strip().strip('"').strip()
    if (given.idempotency_key or "").strip() not in ("", key):
        raise InvalidRequest(
            "the header Idempotency-Key has another key", field="idempotency_key", fix="Give one of them."
        )
    return replace(given, idempotency_key=key)


def _place(call: OperationRequest, alarm: Alarm) -> dict[str, str]:
    return {"location": f"{call.request.scope.get('root_path', '')}/v1/alarms/{alarm.id}"}


async def create_many(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.BatchBody)
    of_many = _all_or_none if call["all_or_none"] == "true" else _all_of_many
    results = await of_many(context.of(call), request.alarms)
    statuses = [result.status for result in results]
    created, deduped = statuses.count(201), statuses.count(200)
    return answer(
        shape.BatchAnswer(
            results=results,
            created=created,
            deduped=deduped,
            refused=len(statuses) - created - deduped,
            now=await context.now(),
        )
    )


async def _all_or_none(alarms: Alarms, given: Sequence[Raw]) -> list[shape.BatchItem]:
    """One bad request and none is kept: the first is what is answered."""
    asked: list[CreateRequest] = []
    for at, one in enumerate(await _read(given)):
        if isinstance(one, WakefulError):
            raise numbered(one, at, of=len(given))
        asked.append(one)
    return await _told(await alarms.create_many(asked))


async def _all_of_many(alarms: Alarms, given: Sequence[Raw]) -> list[shape.BatchItem]:
    """Each on its own: what cannot be read, or is refused, is told in its place."""
    asked = await _read(given)
    made = iter(await alarms.create_each([one for one in asked if isinstance(one, CreateRequest)]))
    return await _told([next(made) if isinstance(one, CreateRequest) else one for one in asked])


async def _read(given: Sequence[Raw]) -> list[CreateRequest | WakefulError]:
    """What is asked for. Reading it is work: others on this loop get their turn in between."""
    asked: list[CreateRequest | WakefulError] = []
    for at, raw in enumerate(given):
        try:
            asked.append(decode(bytes(raw), CreateRequest))
        except WakefulError as error:
            asked.append(error)
        if at % READ_AT_ONCE == 0:
            await turn()
    return asked


async def _told(made: Sequence[Created | WakefulError]) -> list[shape.BatchItem]:
    told: list[shape.BatchItem] = []
    share = LoopShare()
    for one in made:
        if isinstance(one, Created):
            status, notes = 200 if one.deduped else 201, one.notes or UNSET
            item = shape.BatchItem(status=status, alarm=AlarmView.of(one.alarm), notes=notes)
        else:
            refusal = problem(one)
            item = shape.BatchItem(status=refusal.status, problem=refusal)
        told.append(item)
        if share.is_used_up():
            await share.give_way()
    return told


async def find(context: Context, call: OperationRequest) -> Response:
    found = await context.of(call).find(
        **operations.filter_values(AlarmFilter, call),
        cursor=call["cursor"],
        limit=call["limit"],
        most=operations.PAGE_SIZE,
    )
    alarms = [AlarmView.of(alarm) for alarm in found]
    return answer(shape.AlarmsAnswer(alarms=alarms, next_cursor=further(found.further), now=await context.now()))


async def reset(context: Context, call: OperationRequest) -> Response:
    if call["root_id"]:
        count = await context.of(call).cancel_chain(call["root_id"])
    elif call["all"] == "true":
        count = await context.of(call).reset()
    else:
        raise InvalidRequest("this cancels every pending alarm", field="all", fix="Add ?all=true to confirm.")
    return answer(shape.ResetAnswer(cancelled=count, now=await context.now()))


async def cancel_many(context: Context, call: OperationRequest) -> Response:
    done = await context.of(call).cancel_many(**asdict(await body(call.request, shape.CancelBody)))
    return answer(
        shape.CancelledAnswer(
            cancelled=0 if done.dry_run else len(done.alarms),
            dry_run=done.dry_run,
            in_flight=done.in_flight,
            alarms=[AlarmView.of(alarm) for alarm in done.alarms[: operations.LIMIT]],
            skipped=done.skipped,
            notes=done.notes or UNSET,
            now=await context.now(),
        )
    )


async def move_many(context: Context, call: OperationRequest) -> Response:
    done = await context.of(call).move_many(**asdict(await body(call.request, shape.MoveBody)))
    return answer(
        shape.MovedAnswer(
            moved=0 if done.dry_run else len(done.alarms),
            dry_run=done.dry_run,
            in_flight=done.in_flight,
            alarms=[AlarmView.of(alarm) for alarm in done.alarms[: operations.LIMIT]],
            notes=done.notes or UNSET,
            now=await context.now(),
        )
    )


async def signal(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.SignalRequest, optional=True)
    payload = None if request.payload is UNSET else request.payload
    done = await context.of(call).signal(call.request.path_params["name"], payload)
    return answer(shape.SignalledAnswer.of(done, now=await context.now(), limit=operations.LIMIT))


async def get(context: Context, call: OperationRequest) -> Response:
    found = await context.of(call).details(call.id)
    return tagged(shape.NotedAnswer.of(found.alarm, notes=found.notes or UNSET, now=await context.now()))


async def edit(context: Context, call: OperationRequest) -> Response:
    version = _match(call.request.headers.get("if-match"))
    request = await body(call.request, EditRequest)
    return await context.changed(await context.of(call).edit(call.id, request, version=version))


def _match(header: str | None) -> int | None:
    """Return the version in an `If-Match` header; None for any version."""
    if header is None or header.strip() == "*":
        return None
    tag = header.strip().removeprefix("W/")
    number = tag[1:-1] if len(tag) > 2 and tag[0] == tag[-1] == '"' else tag
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        raise InvalidRequest(
            f"{header[:100]!r} is not a version", field="If-Match", fix='Give the version in quotes, as in ETag: "3".'
        )
    return int(number)


async def cancel(context: Context, call: OperationRequest) -> Response:
    return await context.changed(await context.of(call).cancel(call.id, reason=call["reason"]))


async def pause(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.PauseBody, optional=True)
    return await context.changed(await context.of(call).pause(call.id, reason=request.reason))


async def resume(context: Context, call: OperationRequest) -> Response:
    return await context.changed(await context.of(call).resume(call.id))


async def snooze(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.SnoozeBody)
    return await context.changed(await context.of(call).snooze(call.id, request.wait, until=request.until))


async def skip(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.SkipBody, optional=True)
    return await context.changed(await context.of(call).skip(call.id, at=request.at))


async def append(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.AppendBody)
    return await context.changed(await context.of(call).append(call.id, request.payload))


async def undo(context: Context, call: OperationRequest) -> Response:
    request = await body(call.request, shape.UndoBody, optional=True)
    return await context.changed(await context.of(call).undo(call.id, when=request.when))


async def fire(context: Context, call: OperationRequest) -> Response:
    made = await context.of(call).fire(call.id)
    shown = shape.NotedAnswer.of(made.alarm, notes=made.notes or UNSET, now=await context.now())
    return tagged(shown, 201, _place(call, made.alarm))


async def why(context: Context, call: OperationRequest) -> Response:
    if is_fire_id(call.id):
        raise NotFound(f"there is no alarm {call.id!r}", field="id", fix="For a fire use /v1/fires/{fire_id}/why.")
    return answer(await context.of(call).why(call.id))


_CHANGED: Final[Mapping[int, Any]] = {200: shape.ChangedAnswer}
_ID: Final = "/v1/alarms/{id}"

OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/alarms",
        run=create,
        says="Set an alarm",
        scope="write",
        headers=(KEY,),
        body=CreateRequest,
        answers={201: shape.CreatedAnswer, 200: shape.DedupedAnswer},
        refuses=(404, 409),
        for_wakes=True,
    ),
    Operation(
        method="GET",
        path="/v1/alarms",
        run=find,
        says="List alarms, newest first",
        scope="read",
        query=(
            *operations.filters(AlarmFilter, ALARM_STATUSES, kind=get_args(Kind)),
            PAGE,
            CURSOR,
        ),
        answers={200: shape.AlarmsAnswer},
        for_wakes=True,
    ),
    Operation(
        method="DELETE",
        path="/v1/alarms",
        run=reset,
        says="Cancel every pending alarm of the owner, or of one chain",
        scope="write",
        query=(
            operations.choice("all", ("true",), "Must be true, unless root_id is given."),
            operations.text("root_id", "Cancel only this alarm and those set because of its wakes."),
        ),
        answers={200: shape.ResetAnswer},
        refuses=(404, 409),
        waits=True,
    ),
    Operation(
        method="POST",
        path="/v1/alarms/batch",
        run=create_many,
        says=f"Set up to {shape.BATCH_LIMIT} alarms; a bad one does not stop the others",
        scope="write",
        query=(
            operations.choice(
                "all_or_none", ("true",), "Refuse them all where one is bad; a taken key answers with its alarm."
            ),
        ),
        body=shape.BatchBody,
        answers={200: shape.BatchAnswer},
        refuses=(404, 409),
        for_wakes=True,
    ),
    Operation(
        method="POST",
        path="/v1/alarms/cancel",
        run=cancel_many,
        says="Cancel the alarms that are named, or all pending ones that fit; or only say which",
        scope="write",
        body=shape.CancelBody,
        answers={200: shape.CancelledAnswer},
        refuses=(404, 409),
        waits=True,
        for_wakes=True,
    ),
    Operation(
        method="POST",
        path="/v1/alarms/move",
        run=move_many,
        says="Move the alarms that are named, or all pending ones that fit; or only say which",
        scope="write",
        body=shape.MoveBody,
        answers={200: shape.MovedAnswer},
        refuses=(404, 409),
        waits=True,
    ),
    Operation(
        method="GET",
        path=_ID,
        run=get,
        says="Get an alarm",
        scope="read",
        answers={200: shape.NotedAnswer},
        for_wakes=True,
    ),
    Operation(
        method="POST",
        path="/v1/signals/{name}",
        run=signal,
        says="Say that something happened, to the alarms with it as unless or or_when",
        scope="write",
        body=shape.SignalRequest,
        body_optional=True,
        answers={200: shape.SignalledAnswer},
        refuses=(409,),
        waits=True,
    ),
    Operation(
        method="PATCH",
        path=_ID,
        run=edit,
        says="Change an alarm",
        scope="write",
        headers=(MATCH,),
        body=EditRequest,
        answers=_CHANGED,
        refuses=(409, 412),
    ),
    Operation(
        method="DELETE",
        path=_ID,
        run=cancel,
        says="Cancel an alarm",
        scope="write",
        query=(operations.text("reason", "Why, for those who ask later."),),
        answers=_CHANGED,
        refuses=(409,),
        for_wakes=True,
    ),
    Operation(
        method="POST",
        path=f"{_ID}/pause",
        run=pause,
        says="Pause an alarm until it is resumed",
        scope="write",
        body=shape.PauseBody,
        body_optional=True,
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/resume",
        run=resume,
        says="Resume a paused alarm",
        scope="write",
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/snooze",
        run=snooze,
        says="Postpone the next fire of an alarm",
        scope="write",
        body=shape.SnoozeBody,
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/skip",
        run=skip,
        says="Skip the next fire of a series, which continues with the one after it",
        scope="write",
        body=shape.SkipBody,
        body_optional=True,
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/append",
        run=append,
        says="Add to the payload of an alarm: fields of an object, elements of a list",
        scope="write",
        body=shape.AppendBody,
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/undo",
        run=undo,
        says="Take back the last change of an alarm: a cancel, skip, pause or edit of the last 24 hours",
        scope="write",
        body=shape.UndoBody,
        body_optional=True,
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/fire",
        run=fire,
        says="Fire a one-shot copy now; the alarm itself is not changed",
        scope="write",
        answers={201: shape.NotedAnswer},
    ),
    Operation(
        method="GET",
        path=f"{_ID}/why",
        run=why,
        says="Explain why an alarm was late or did not fire, and when it will",
        scope="read",
        answers={200: Why},
        for_wakes=True,
    ),
)

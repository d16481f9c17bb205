"""Alarms over HTTP: set, list, change, act on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from msgspec import UNSET, Raw
from msgspec.structs import asdict, replace
from starlette.responses import Response

from wakeful.alarm import ALARM_STATUSES, Alarm, is_fire_id
from wakeful.alarm.model import Kind
from wakeful.alarm.request import CreateRequest, EditRequest, decode
from wakeful.clock import turn
from wakeful.errors import InvalidRequest, NotFound, WakefulError
from wakeful.http import answers as shape
from wakeful.http import operations
from wakeful.http.context import Context, further, tagged
from wakeful.http.operations import CURSOR, PAGE, Header, Operation, OperationRequest
from wakeful.http.security.guard import answer, body, header, problem
from wakeful.service import Alarms, Created, Why
from wakeful.views import AlarmView

READ_AT_ONCE: Final = 8  # items of a batch, before others have their turn
KEY: Final = Header("Idempotency-Key", "The same as idempotency_key in the body.", ".+")
MATCH: Final = Header(
    "If-Match", 'The version the change is based on, in quotes: "3". 412 if the alarm has another.', r'^("\d{1,9}"|\*)$'
)


async def create(context: Context, call: OperationRequest) -> Response:
    given = _keyed(await body(call.request, CreateRequest), call)
    alarms = context.of(call)
    added = await alarms.create(given)
    alarm = added.alarm
    notes = await alarms.notes(alarm, given) or UNSET
    if added.deduped:
        in_flight = added.in_flight if given.on_conflict == "replace" else UNSET
        more = {"deduped": True, "in_flight": in_flight, "notes": notes}
        return tagged(shape.DedupedAnswer.of(alarm, **more, now=await context.now()))
    like = await alarms.similar(given, alarm)
    similar = UNSET if like is None else shape.Like.of(like)
    shown = shape.CreatedAnswer.of(alarm, similar=similar, notes=notes, now=await context.now())
    return tagged(shown, 201, _place(call, alarm))


def _keyed(given: CreateRequest, call: OperationRequest) -> CreateRequest:
    """Return the request with the key from the header, if there is one, without quotes."""
    said = header(call.request, b"idempotency-key")
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
    given = await body(call.request, shape.BatchBody)
    of_many = _all_or_none if call["all_or_none"] == "true" else _all_of_many
    results = await of_many(context.of(call), given.alarms)
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
    for at, raw in enumerate(given):
        asked.append(decode(bytes(raw), CreateRequest))
        if at % READ_AT_ONCE == 0:
            await turn()
    return [await _made(alarms, one) for one in await alarms.create_many(asked)]


async def _made(alarms: Alarms, added: Created) -> shape.BatchItem:
    notes = await alarms.notes(added.alarm) or UNSET
    return shape.BatchItem(status=200 if added.deduped else 201, alarm=AlarmView.of(added.alarm), notes=notes)


async def _all_of_many(alarms: Alarms, given: Sequence[Raw]) -> list[shape.BatchItem]:
    """Set all items concurrently: the store commits together what arrives together.

    They begin a few at a time, since reading what was asked for is work: others on this loop get their turn in between.
    """
    asked: list[asyncio.Task[shape.BatchItem]] = []
    async with asyncio.TaskGroup() as group:
        for at in range(0, len(given), READ_AT_ONCE):
            asked += [group.create_task(_one_of_many(alarms, raw)) for raw in given[at : at + READ_AT_ONCE]]
            await turn()
    return [task.result() for task in asked]


async def _one_of_many(alarms: Alarms, raw: Raw) -> shape.BatchItem:
    try:
        added = await alarms.create(decode(bytes(raw), CreateRequest))
    except WakefulError as error:
        told = problem(error)
        return shape.BatchItem(status=told.status, problem=told)
    return await _made(alarms, added)


async def find(context: Context, call: OperationRequest) -> Response:
    found = await context.of(call).find(
        status=call["status"],
        kind=call["kind"],
        target=call["target"],
        label=call["label"],
        conversation_id=call["conversation_id"],
        root_id=call["root_id"],
        key=call["key"],
        text=call["q"],
        since=call["since"],
        until=call["until"],
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
            now=await context.now(),
        )
    )


async def get(context: Context, call: OperationRequest) -> Response:
    alarm = await context.of(call).get(call.id)
    return tagged(shape.AlarmAnswer.of(alarm, now=await context.now()))


async def edit(context: Context, call: OperationRequest) -> Response:
    version = _match(call.request.headers.get("if-match"))
    given = await body(call.request, EditRequest)
    alarms = context.of(call)
    return await context.changed(alarms, await alarms.edit(call.id, given, version=version), given)


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
    alarms = context.of(call)
    return await context.changed(alarms, await alarms.cancel(call.id, reason=call["reason"]))


async def pause(context: Context, call: OperationRequest) -> Response:
    given = await body(call.request, shape.PauseBody, optional=True)
    alarms = context.of(call)
    return await context.changed(alarms, await alarms.pause(call.id, reason=given.reason))


async def resume(context: Context, call: OperationRequest) -> Response:
    alarms = context.of(call)
    return await context.changed(alarms, await alarms.resume(call.id))


async def snooze(context: Context, call: OperationRequest) -> Response:
    given = await body(call.request, shape.SnoozeBody)
    alarms = context.of(call)
    return await context.changed(alarms, await alarms.snooze(call.id, given.wait, until=given.until))


async def skip(context: Context, call: OperationRequest) -> Response:
    given = await body(call.request, shape.SkipBody, optional=True)
    alarms = context.of(call)
    return await context.changed(alarms, await alarms.skip(call.id, at=given.at))


async def fire(context: Context, call: OperationRequest) -> Response:
    made = await context.of(call).fire(call.id)
    return tagged(shape.AlarmAnswer.of(made, now=await context.now()), 201, _place(call, made))


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
    ),
    Operation(
        method="GET",
        path="/v1/alarms",
        run=find,
        says="List alarms, newest first",
        scope="read",
        query=(
            operations.several("status", ALARM_STATUSES, "Alarms in this state."),
            operations.choice("kind", get_args(Kind), "One-shots or series."),
            operations.text("target", "Alarms of this target."),
            operations.text("label", "Alarms with exactly this label."),
            operations.text("conversation_id", "Alarms of this conversation."),
            operations.text("root_id", "Alarms of the chain that this alarm started."),
            operations.text("key", "The alarm with exactly this idempotency_key."),
            operations.text("q", "A part of the label, the message or the key, in any case."),
            operations.moment("since", "Created at or after."),
            operations.moment("until", "Created before."),
            PAGE,
            CURSOR,
        ),
        answers={200: shape.AlarmsAnswer},
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
    ),
    Operation(method="GET", path=_ID, run=get, says="Get an alarm", scope="read", answers={200: shape.AlarmAnswer}),
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
        path=f"{_ID}/fire",
        run=fire,
        says="Fire a one-shot copy now; the alarm itself is not changed",
        scope="write",
        answers={201: shape.AlarmAnswer},
    ),
    Operation(
        method="GET",
        path=f"{_ID}/why",
        run=why,
        says="Explain why an alarm was late or did not fire, and when it will",
        scope="read",
        answers={200: Why},
    ),
)

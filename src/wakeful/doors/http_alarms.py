"""Alarms over HTTP: set, list, change, act on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Raw
from msgspec.structs import replace
from starlette.responses import Response

from wakeful.alarm import ALARM_STATUSES, Alarm, Edit, Policy
from wakeful.alarm.create import TEXT_LIMIT, check_text
from wakeful.clock import turn
from wakeful.doors import answers as shape
from wakeful.doors import table, wire
from wakeful.doors.guard import body, header, problem
from wakeful.doors.hall import Hall
from wakeful.doors.table import CURSOR, PAGE, Ask, Header, Operation
from wakeful.errors import InvalidRequest, NotFound, WakefulError
from wakeful.service import Kept
from wakeful.service.guards import check_backoff
from wakeful.store import AlarmQuery

READ_AT_ONCE: Final = 8  # items of a batch, before others have their turn
KEY: Final = Header("Idempotency-Key", "The same as idempotency_key in the body.", ".+")
MATCH: Final = Header(
    "If-Match", 'The version the change is meant for, in quotes: "3". 412 when it is another.', r'^("\d{1,9}"|\*)$'
)


async def create(hall: Hall, ask: Ask) -> Response:
    given = _keyed(await body(ask.request, wire.CreateBody), ask)
    added = await _set(hall, ask, given)
    shown = wire.view(added.alarm)
    if added.deduped:
        under_way = {"in_flight": added.in_flight} if given.on_conflict == "replace" else {}
        return await hall.alarm(added.alarm, shown | {"deduped": True} | under_way)
    if _may_be_like_another(given) and (like := await hall.service.similar(added.alarm)) is not None:
        shown["similar"] = {
            "id": like.id,
            "label": like.label,
            "created_at": like.created_at,
            "next_fire_at": like.next_fire_at,
        }
    return await hall.alarm(added.alarm, shown, 201, _place(ask, added.alarm))


def _may_be_like_another(given: wire.CreateBody) -> bool:
    """Whether to look for one: with a key it is that one itself, and what counts from now is never the same twice."""
    return not given.idempotency_key and given.delay_seconds is None and not (given.when or "").startswith("in ")


def _keyed(given: wire.CreateBody, ask: Ask) -> wire.CreateBody:
    """With the key from the header, where there is one; quotes around it are not part of it."""
    said = header(ask.request, b"idempotency-key")
    if said is None:
        return given
    key = said.strip().strip('"').strip()
    if given.idempotency_key.strip() not in ("", key):
        raise InvalidRequest(
            "the header Idempotency-Key says another key", field="idempotency_key", fix="Give one of them."
        )
    return replace(given, idempotency_key=key)


async def _set(hall: Hall, ask: Ask, given: wire.CreateBody) -> Kept:
    draft = wire.draft(
        given,
        owner=ask.owner,
        timezone=hall.settings.timezone,
        target=hall.settings.default_target,
        max_failures=hall.settings.max_failures,
        default=hall.service.default_policy,
        via="http",
        by=ask.owner,
    )
    _check_pace(given.policy, draft.policy)
    return await hall.service.set(draft, on_conflict=given.on_conflict, guarded=ask.guarded, by=ask.by)


def _place(ask: Ask, alarm: Alarm) -> dict[str, str]:
    return {"location": f"{ask.request.scope.get('root_path', '')}/v1/alarms/{alarm.id}"}


async def create_many(hall: Hall, ask: Ask) -> Response:
    given = await body(ask.request, shape.BatchBody)
    results = await _all_of_many(hall, ask, given.alarms)
    statuses = [result["status"] for result in results]
    counts = {"created": statuses.count(201), "deduped": statuses.count(200)}
    refused = len(statuses) - sum(counts.values())
    return await hall.answer({"results": results} | counts | {"refused": refused})


async def _all_of_many(hall: Hall, ask: Ask, given: Sequence[Raw]) -> list[dict[str, Any]]:
    """None waits for the one before it: the store commits together what comes together.

    They begin a few at a time, since reading what was asked for is work: others on this loop get their turn in between.
    """
    asked: list[asyncio.Task[dict[str, Any]]] = []
    async with asyncio.TaskGroup() as group:
        for at in range(0, len(given), READ_AT_ONCE):
            asked += [group.create_task(_one_of_many(hall, ask, raw)) for raw in given[at : at + READ_AT_ONCE]]
            await turn()
    return [task.result() for task in asked]


async def _one_of_many(hall: Hall, ask: Ask, raw: Raw) -> dict[str, Any]:
    try:
        added = await _set(hall, ask, wire.decode(bytes(raw), wire.CreateBody))
    except WakefulError as error:
        told = problem(error)
        return {"status": told["status"], "problem": told}
    return {"status": 200 if added.deduped else 201, "alarm": wire.view(added.alarm)}


async def find(hall: Hall, ask: Ask) -> Response:
    found = await hall.service.find(
        AlarmQuery(
            owner=ask.owner,
            statuses=ask["status"],
            kind=ask["kind"],
            target=ask["target"],
            label=ask["label"],
            conversation_id=ask["conversation_id"],
            root_id=ask["root_id"],
            text=ask["q"],
            since=ask["since"],
            until=ask["until"],
            cursor=ask["cursor"],
            limit=ask["limit"],
            most=table.PAGE_SIZE,
        )
    )
    shown: dict[str, Any] = {"alarms": [wire.view(alarm) for alarm in found]}
    if found.further is not None:
        shown["next_cursor"] = table.next_cursor(*found.further)
    return await hall.answer(shown)


async def reset(hall: Hall, ask: Ask) -> Response:
    if ask["root_id"]:
        count = await hall.service.cancel_chain(ask["root_id"], owner=ask.owner, by=ask.by)
        return await hall.answer({"cancelled": count})
    if ask["all"] != "true":
        raise InvalidRequest("this cancels every pending alarm", field="all", fix="Say ?all=true if you mean it.")
    return await hall.answer({"cancelled": await hall.service.reset(owner=ask.owner, by=ask.by)})


async def get(hall: Hall, ask: Ask) -> Response:
    return await hall.alarm(await hall.service.get(ask.id, owner=ask.owner))


async def edit(hall: Hall, ask: Ask) -> Response:
    version = _match(ask.request.headers.get("if-match"))
    change = _edit(await body(ask.request, shape.EditBody), hall.service.default_policy)
    return await hall.changed(
        await hall.service.update(ask.id, change, owner=ask.owner, version=version, by=ask.by, guarded=ask.guarded)
    )


def _match(header: str | None) -> int | None:
    """The version an `If-Match` header names; None for any."""
    if header is None or header.strip() == "*":
        return None
    tag = header.strip().removeprefix("W/")
    number = tag[1:-1] if len(tag) > 2 and tag[0] == tag[-1] == '"' else tag
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        raise InvalidRequest(
            f"{header[:100]!r} is no version", field="If-Match", fix='Give the version in quotes: "3", as ETag has it.'
        )
    return int(number)


def _edit(given: shape.EditBody, default: Policy) -> Edit:
    wire.check_kind(given.kind, once=(given.fire_at, given.delay_seconds), cron=given.cron_expr)
    fields: dict[str, Any] = {
        name: value
        for name in shape.EditBody.__struct_fields__
        if name not in ("kind", "payload", "delay_seconds") and (value := getattr(given, name)) is not None
    }
    for name in ("label", "conversation_id"):
        if name in fields:
            fields[name] = fields[name].strip()
    if given.payload is not UNSET:
        fields["payload"] = wire.raw_text(given.payload)
    if given.delay_seconds is not None:
        fields["delay"] = wire.span(given.delay_seconds, "delay_seconds")
    if not fields:
        raise InvalidRequest("nothing is to be changed", field="body", fix="Name at least one field.")
    change = wire.edit(fields, default)
    _check_pace(given.policy, change.policy)
    return change


def _check_pace(said: wire.PolicyBody | None, meant: Policy | None) -> None:
    """What is asked for here comes over the network, also where no token is needed: a loop harms everyone."""
    if said is not None and meant is not None:
        check_backoff(meant, [name for name in ("backoff_base", "backoff_cap") if getattr(said, name) is not None])


async def cancel(hall: Hall, ask: Ask) -> Response:
    return await hall.changed(await hall.service.cancel(ask.id, owner=ask.owner, by=ask.by))


async def pause(hall: Hall, ask: Ask) -> Response:
    given = await body(ask.request, shape.PauseBody, optional=True)
    check_text("reason", given.reason, TEXT_LIMIT)
    return await hall.changed(await hall.service.pause(ask.id, owner=ask.owner, reason=given.reason, by=ask.by))


async def resume(hall: Hall, ask: Ask) -> Response:
    return await hall.changed(await hall.service.resume(ask.id, owner=ask.owner, by=ask.by))


async def snooze(hall: Hall, ask: Ask) -> Response:
    given = await body(ask.request, shape.SnoozeBody)
    if (given.wait is None) == (given.until is None):
        raise InvalidRequest("exactly one of for and until is needed", field="for", fix='For example {"for": "1h"}.')
    wait = None if given.wait is None else wire.span(given.wait, "for")
    until = None if given.until is None else wire.moment(given.until, "until")
    return await hall.changed(await hall.service.snooze(ask.id, wait, until=until, owner=ask.owner, by=ask.by))


async def fire(hall: Hall, ask: Ask) -> Response:
    made = await hall.service.fire(ask.id, owner=ask.owner, by=ask.owner, via="http", guarded=ask.guarded)
    return await hall.alarm(made, None, 201, _place(ask, made))


async def why(hall: Hall, ask: Ask) -> Response:
    if "@" in ask.id:
        raise NotFound(f"there is no alarm {ask.id!r}", field="id", fix="Fires are at /v1/fires/{fire_id}/why.")
    return await hall.why(await hall.service.why(ask.id, owner=ask.owner, operator=not ask.guarded))


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
        body=wire.CreateBody,
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
            table.several("status", ALARM_STATUSES, "Alarms in this state."),
            table.choice("kind", ("once", "cron"), "One-shots or series."),
            table.text("target", "Alarms that go there."),
            table.text("label", "Alarms with exactly this label."),
            table.text("conversation_id", "Alarms of this conversation."),
            table.text("root_id", "Alarms that came from this one: the chain it started."),
            table.text("q", "Part of the label or the message, any case."),
            table.moment("since", "Created at or after."),
            table.moment("until", "Created before."),
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
            table.choice("all", ("true",), "Must be said, unless root_id is: true."),
            table.text("root_id", "Cancel this alarm and what was set because of its wakes, and nothing else."),
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
        body=shape.BatchBody,
        answers={200: shape.BatchAnswer},
    ),
    Operation(method="GET", path=_ID, run=get, says="One alarm", scope="read", answers={200: shape.AlarmAnswer}),
    Operation(
        method="PATCH",
        path=_ID,
        run=edit,
        says="Change an alarm",
        scope="write",
        headers=(MATCH,),
        body=shape.EditBody,
        answers=_CHANGED,
        refuses=(409, 412),
    ),
    Operation(
        method="DELETE",
        path=_ID,
        run=cancel,
        says="Cancel an alarm",
        scope="write",
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/pause",
        run=pause,
        says="Hold an alarm until it is resumed",
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
        says="Let a paused alarm go on",
        scope="write",
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/snooze",
        run=snooze,
        says="Put off the next fire of an alarm",
        scope="write",
        body=shape.SnoozeBody,
        answers=_CHANGED,
        refuses=(409,),
    ),
    Operation(
        method="POST",
        path=f"{_ID}/fire",
        run=fire,
        says="A one-shot copy that is due now; the alarm itself is left alone",
        scope="write",
        answers={201: shape.AlarmAnswer},
    ),
    Operation(
        method="GET",
        path=f"{_ID}/why",
        run=why,
        says="Why an alarm fired late, did not fire, or when it will",
        scope="read",
        answers={200: shape.WhyAnswer},
    ),
)

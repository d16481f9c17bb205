"""The seven tools: each reads its arguments, calls one verb of the service, and describes the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from wakeful.alarm import Alarm, coming, parse_fire_id
from wakeful.alarm.model import PENDING
from wakeful.alarm.request import CreateRequest, EditRequest, ReportRequest, request_of
from wakeful.errors import InvalidRequest, NotFound
from wakeful.http import operations
from wakeful.mcp import views
from wakeful.mcp.schemas import (
    EDITABLE,
    RENAMED,
    ActArguments,
    AgentAlarm,
    AlarmResult,
    CancelArguments,
    GetArguments,
    GetResult,
    InboxArguments,
    InboxResult,
    ListArguments,
    ListResult,
    ReportArguments,
    ReportResult,
    given,
)
from wakeful.mcp.views import BUDGET, TextBudget
from wakeful.service import Alarms, Changed, Created

NUMBERS: Final = 80  # bytes of each wake that tell how late it is
PIECE: Final = 4800  # bytes of a long text read in pieces
NAMES: Final = {mine: theirs for theirs, mine in RENAMED.items()}
_FOR_ACTION: Final[Mapping[str, tuple[str, ...]]] = {
    "edit": (*EDITABLE, "version"),
    "pause": ("reason",),
    "resume": (),
    "snooze": ("wait",),
    "skip": ("at",),
}


class Tools:
    """The tools for one caller."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._service = alarms.service

    async def set(self, asked: Any) -> AlarmResult:
        asked_for = {NAMES.get(name, name): value for name, value in _said(asked).items()}
        request = request_of(CreateRequest, asked_for)
        on_conflict = request.on_conflict
        added = await self._alarms.create(request)
        if not added.deduped:
            return await self._set(added, await self._alarms.similar(request, added.alarm))
        if on_conflict == "replace":
            return await self._alarm("Replaced", added.alarm, deduped=True, in_flight=added.in_flight)
        if added.alarm.finished:
            what = f"Nothing was set: the key belongs to an alarm that is {added.alarm.status}"
            note = 'To set it again, repeat the call with "on_conflict": "replace", or use another key.'
            return await self._alarm(what, added.alarm, deduped=True, notes=[note])
        return await self._alarm("It exists already and was not changed", added.alarm, deduped=True)

    async def _set(self, added: Created, like: Alarm | None) -> AlarmResult:
        alarm, notes = added.alarm, [*added.notes]
        if like is not None:
            notes.append(f"Alarm {like.id} has the same message and time: cancel one if you meant one.")
        if not (await self._service.targets.served()).get(alarm.target):
            notes.append(f"No running worker serves {alarm.target!r} yet: it fires once one does (`wakeful serve`).")
        return await self._alarm("Set", alarm, similar=like.id if like else "", notes=notes)

    async def list(self, asked: ListArguments) -> ListResult:
        statuses: Any = {"all": (), "pending": PENDING}.get(asked.status, (asked.status,))
        found = await self._alarms.find(
            status=statuses,
            text=asked.text,
            target=asked.target,
            conversation_id=asked.conversation_id,
            cursor=views.cursor(asked.cursor),
            limit=asked.limit,
            most=operations.PAGE_SIZE,
        )
        shown: list[AgentAlarm] = []
        room = BUDGET - 400
        for alarm in found:
            line = views.brief(alarm)
            room -= len(msgspec.json.encode(line)) + 1
            if room < 0 and shown:
                break
            shown.append(line)
        last = found[len(shown) - 1] if len(shown) < len(found) else None
        further = found.further if last is None else (last.created_at, last.id)
        more = further is not None
        what = f"{len(shown)} alarms, newest first" if len(shown) != 1 else "1 alarm"
        kind = "" if asked.status == "all" else f" ({asked.status})"
        return ListResult(
            summary=f"{what}{kind}." + (" There are more: call again with cursor." if more else ""),
            now=await self._now(),
            alarms=shown,
            next_cursor="" if further is None else views.cursor_of(*further),
        )

    async def get(self, asked: GetArguments) -> GetResult:
        try:
            return await self._got(asked)
        except NotFound as error:  # be it an alarm or a fire: here it is called id
            raise NotFound(error.message, field="id", fix=error.fix) from None

    async def _got(self, asked: GetArguments) -> GetResult:
        alarm_id = parse_fire_id(asked.id)[0] if "@" in asked.id else asked.id
        alarm = await self._alarms.get(alarm_id)
        if asked.part is not UNSET:
            return await self._part(alarm, asked.id, asked.part, asked.offset)
        why = await self._alarms.why(asked.id)
        one = [await self._alarms.fire_of(asked.id)] if "@" in asked.id else None
        fires = one or await self._alarms.fires(alarm.id, limit=3)
        room = TextBudget()
        return GetResult(
            summary=f"{views.words(alarm)}. {views.ahead(alarm, why.now)}",
            now=views.utc(why.now),
            why=room.text(why.summary, 800, "why", views.part_call(asked.id, "facts")),
            alarm=views.alarm_view(alarm, room, message=900, payload=900),
            next_fires=[views.local(at, alarm.timezone) for at in _next(alarm, 3)],
            fires=[views.fire_view(fire, room) for fire in fires],
            notes=room.notes,
        )

    async def update(self, asked: ActArguments) -> AlarmResult:
        _check_action(asked)
        match asked.action:
            case "pause":
                reason = asked.reason if asked.reason is not UNSET else ""
                return await self._changed("Paused", await self._alarms.pause(asked.id, reason=reason))
            case "resume":
                return await self._changed("Resumed", await self._alarms.resume(asked.id))
            case "snooze":
                if asked.wait is UNSET:
                    raise InvalidRequest("a snooze needs a length", field="for", fix='Give "for", such as "1h".')
                return await self._changed("Snoozed", await self._alarms.snooze(asked.id, asked.wait))
            case "skip":
                meant = asked.at if asked.at is not UNSET else None
                return await self._changed("Skipped the next fire", await self._alarms.skip(asked.id, at=meant))
        version = asked.version if asked.version is not UNSET else None
        fields = {name: value for name, value in _said(asked).items() if name in EDITABLE}
        changed = await self._alarms.edit(asked.id, request_of(EditRequest, fields), version=version)
        return await self._changed("Changed", changed)

    async def cancel(self, asked: CancelArguments) -> AlarmResult:
        done = await self._alarms.cancel(asked.id, reason=asked.reason)
        return await self._changed("Cancelled" if done.status == "cancelled" else "It had ended already", done)

    async def report(self, asked: ReportArguments) -> ReportResult:
        wait = asked.wait if asked.wait is not UNSET else None
        cost = asked.cost if asked.cost is not UNSET else None
        said = ReportRequest(outcome=asked.outcome, result=asked.result, reason=asked.reason, wait=wait, cost=cost)
        try:
            fire = await self._alarms.report(asked.fire_id, said)
        except NotFound:  # be it the fire or its alarm: the caller named a fire
            raise NotFound(
                f"there is no fire {asked.fire_id!r} to report on",
                field="fire_id",
                fix="Give the fire_id of your wake.",
            ) from None
        alarm = await self._alarms.get(fire.alarm_id)
        now, room = await self._service.now(), TextBudget()
        again = await self._alarms.retry_at(fire)
        then = f"It is tried again at {views.utc(again)}." if again else views.ahead(alarm, now)
        return ReportResult(
            summary=f"Noted: the fire is {fire.status}. {then}",
            now=views.utc(now),
            fire=views.fire_view(fire, room, result=600),
            alarm=views.alarm_view(alarm, room, message=600, payload=0),
            notes=room.notes,
        )

    async def inbox(self, asked: InboxArguments) -> InboxResult:
        found = await self._alarms.inbox(limit=asked.limit, wait=asked.wait)
        room = TextBudget()
        each = (BUDGET - 400) // max(1, len(found)) - NUMBERS
        wakes = [views.wake_view(taken, room, each=each) for taken in found]
        what = f"{len(wakes)} wakes" if len(wakes) != 1 else "1 wake"
        then = "Do the work, then call alarm_report with each fire_id." if wakes else "Nothing is due."
        return InboxResult(summary=f"{what}. {then}", now=await self._now(), wakes=wakes, notes=room.notes)

    async def _changed(self, what: str, done: Changed) -> AlarmResult:
        return await self._alarm(what, done, in_flight=done.in_flight)

    async def _alarm(self, what: str, alarm: Alarm, *, notes: Sequence[str] = (), **more: Any) -> AlarmResult:
        now, room = await self._service.now(), TextBudget()
        return AlarmResult(
            summary=f"{what}: {views.words(alarm)}. {views.ahead(alarm, now)}",
            now=views.utc(now),
            alarm=views.alarm_view(alarm, room, message=600, payload=600),
            notes=[*notes, *room.notes],
            **more,
        )

    async def _part(self, alarm: Alarm, id: str, part: str, offset: int) -> GetResult:
        text = await self._text(alarm, id, part)
        kept = views.cut(text[offset:], PIECE)
        end = offset + len(kept) - (1 if kept != text[offset:] else 0)
        more = end < len(text)
        return GetResult(
            summary=f"{part}: characters {offset} to {end} of {len(text)}."
            + (" Call again with offset." if more else ""),
            now=await self._now(),
            part=part,
            text=kept.removesuffix("…") if more else kept,
            next_offset=end if more else 0,
        )

    async def _text(self, alarm: Alarm, id: str, part: str) -> str:
        if part == "facts":
            why = await self._alarms.why(id)
            return "\n".join(why.facts)
        if part == "result":
            if "@" not in id:
                raise InvalidRequest(
                    "only a fire has a result", field="id", fix="Give a fire_id from alarm_get's fires."
                )
            return (await self._alarms.fire_of(id)).result
        return alarm.payload_json if part == "payload" else alarm.wake_message

    async def _now(self) -> str:
        return views.utc(await self._service.now())


def _check_action(asked: ActArguments) -> None:
    """Refuse arguments that do not belong to the action: a `when` with `pause` would be silently ignored."""
    mine = _FOR_ACTION[asked.action]
    strange = [name for name in given(asked) if name not in ("id", "action", *mine)]
    if strange:
        name = "for" if strange[0] == "wait" else strange[0]
        takes = ", ".join("for" if field == "wait" else field for field in mine) or "nothing else"
        raise InvalidRequest(
            f"it does not go with action {asked.action!r}", field=name, fix=f"{asked.action} takes: {takes}."
        )
    if asked.action == "edit" and not set(given(asked)) & set(mine[:-1]):
        raise InvalidRequest("nothing to change was given", field="action", fix=f"Give one of: {', '.join(mine[:-1])}.")


def _said(asked: Struct) -> dict[str, Any]:
    """What was given, the policy as a mapping."""
    fields = given(asked)
    return fields | ({"policy": given(fields["policy"])} if "policy" in fields else {})


def _next(alarm: Alarm, count: int) -> Sequence[datetime]:
    return [] if alarm.status != "active" else list(islice(coming(alarm), count))

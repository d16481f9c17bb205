"""The tools that look: list, agenda, history, and one alarm with why it did what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct

from wakeful.alarm import Alarm, is_fire_id, parse_fire_id
from wakeful.alarm.model import PENDING
from wakeful.errors import InvalidRequest, NotFound
from wakeful.http import operations
from wakeful.mcp import views
from wakeful.mcp.schemas import (
    AgendaArguments,
    AgendaEntry,
    AgendaResult,
    AgentAlarm,
    GetArguments,
    GetResult,
    HistoryArguments,
    HistoryLine,
    HistoryResult,
    ListArguments,
    ListResult,
)
from wakeful.mcp.views import BUDGET, TextBudget
from wakeful.service import Alarms, HistoryEntry
from wakeful.service.history import next_fires
from wakeful.service.taken_wake import missed

HEAD: Final = 400  # bytes of an answer around its list
PIECE: Final = 4800  # bytes of a long text read in pieces, unless more are asked for
Line = TypeVar("Line", bound=Struct)


class LookTools:
    """What one caller can look at."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._service = alarms.service

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
        shown: list[AgentAlarm] = that_fit(views.brief(alarm) for alarm in found)
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

    async def agenda(self, asked: AgendaArguments) -> AgendaResult:
        found = await self._alarms.agenda(hours=asked.hours, limit=asked.limit, most=operations.PAGE_SIZE)
        now = await self._service.now()
        shown = that_fit(_coming(at, alarm) for at, alarm in found)
        more = len(shown) < len(found) or found.further is not None
        what = f"{len(shown)} fires" if len(shown) != 1 else "1 fire"
        first = f" The next is {views.away(found[0][0] - now)}." if found else ""
        return AgendaResult(
            summary=f"{what} in the next {asked.hours:g} hours, soonest first.{first}"
            + (" There are more: ask for fewer hours." if more else ""),
            now=views.utc(now),
            agenda=shown,
            more=more,
            notes=found.notes,
        )

    async def history(self, asked: HistoryArguments) -> HistoryResult:
        since = None if asked.since is UNSET else asked.since
        found = await self._alarms.history(
            status=asked.status, target=asked.target, since=since, limit=asked.limit, most=operations.PAGE_SIZE
        )
        shown = that_fit(map(_line, found))
        more = len(shown) < len(found) or found.further is not None
        kinds = Counter(entry.status for entry in found[: len(shown)])
        told = ", ".join(f"{number} {status}" for status, number in kinds.most_common()) or "nothing happened"
        return HistoryResult(
            summary=f"{told}, newest first." + (" There are more: give since, status or target." if more else ""),
            now=await self._now(),
            history=shown,
            missed=missed(found[: len(shown)]),
            more=more,
            notes=found.notes,
        )

    async def get(self, asked: GetArguments) -> GetResult:
        try:
            return await self._got(asked)
        except NotFound as error:  # be it an alarm or a fire: here it is called id
            raise NotFound(error.message, field="id", fix=error.fix) from None

    async def _got(self, asked: GetArguments) -> GetResult:
        is_fire = is_fire_id(asked.id)
        found = await self._alarms.details(parse_fire_id(asked.id)[0] if is_fire else asked.id)
        alarm = found.alarm
        if asked.part is not UNSET:
            return await self._part(alarm, asked)
        why = await self._alarms.why(asked.id)
        one = [await self._alarms.fire_of(asked.id)] if is_fire else None
        fires = one or await self._alarms.fires(alarm.id, limit=3)
        ahead = await next_fires(alarm, 3) if alarm.status == "active" else []
        room = TextBudget()
        return GetResult(
            summary=f"{views.words(alarm)}. {views.ahead(alarm, why.now)}",
            now=views.utc(why.now),
            why=room.text(why.summary, 800, "why", views.part_call(asked.id, "facts")),
            alarm=views.alarm_view(alarm, room, message=900, payload=900),
            next_fires=[views.local(at, alarm.timezone) for at in ahead],
            fires=[views.fire_view(fire, room, manual=fire.alarm_id != alarm.id) for fire in fires],
            notes=[*room.notes, *found.notes],
        )

    async def _part(self, alarm: Alarm, asked: GetArguments) -> GetResult:
        assert asked.part is not UNSET
        part, offset = asked.part, asked.offset
        text = await self._text(alarm, asked.id, part)
        kept = views.cut(text[offset:], PIECE if asked.length is UNSET else max(asked.length, views.SHORTEST_PIECE))
        end = offset + len(kept) - (1 if kept != text[offset:] else 0)
        more = end < len(text)
        return GetResult(
            summary=f"{part}: characters {offset} to {end} of {len(text)}."
            + (" Call again with offset; a greater length takes fewer calls." if more else ""),
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
            if not is_fire_id(id):
                raise InvalidRequest(
                    "only a fire has a result", field="id", fix="Give a fire_id from alarm_get's fires."
                )
            return (await self._alarms.fire_of(id)).result
        return alarm.payload_json if part == "payload" else alarm.wake_message

    async def _now(self) -> str:
        return views.utc(await self._service.now())


def that_fit(lines: Iterable[Line], room: int = BUDGET - HEAD) -> list[Line]:
    """As many lines as there is room for in an answer, but always one."""
    shown: list[Line] = []
    for line in lines:
        room -= len(msgspec.json.encode(line)) + 1
        if room < 0 and shown:
            break
        shown.append(line)
    return shown


def _coming(at: datetime, alarm: Alarm) -> AgendaEntry:
    return AgendaEntry(
        at=views.utc(at),
        local=views.local(at, alarm.timezone),
        alarm_id=alarm.id,
        target=views.cut(alarm.target, 80),
        label=views.cut(alarm.label, 80),
        key=views.cut(alarm.idempotency_key, 80),
        message=views.cut(alarm.wake_message, 120),
    )


def _line(entry: HistoryEntry) -> HistoryLine:
    return HistoryLine(
        id=entry.id,
        status=entry.status,
        scheduled_for=views.utc(entry.scheduled_for),
        late_ms=entry.late_ms or 0,
        count=entry.count,
        manual=entry.manual,
        reason=views.cut(entry.reason, 120),
        attempts=entry.attempts,
        outcome=views.cut(entry.result or entry.error, 160),
        message=views.cut(entry.label or entry.message, 100),
    )

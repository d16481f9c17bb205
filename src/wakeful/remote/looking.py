"""The verbs with which a program that is elsewhere looks: each is a request that changes nothing on the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeVar, get_args

import msgspec

from wakeful.errors import InvalidRequest, NotFound
from wakeful.model.alarm import ALARM_STATUSES, FIRE_STATUSES, Alarm, AlarmStatus, Fire, FireStatus, Kind, is_fire_id
from wakeful.moments import cursor_text
from wakeful.python.client import Wakeful
from wakeful.remote.connection import Answered, ServerConnection
from wakeful.remote.decoding import (
    alarm_of,
    alarm_path,
    alarms_of,
    entries_of,
    fields_of,
    fire_path,
    fire_read,
    fires_of,
    further,
    is_said,
    moment_text,
    notes_of,
    value,
)
from wakeful.rules.arguments import accepted
from wakeful.rules.budget import BudgetUse
from wakeful.rules.wanted import moment_or_ago
from wakeful.schedule import Understood
from wakeful.schedule.days_off import without_days_off
from wakeful.service import Details, HistoryEntry, Noted, Why
from wakeful.service.history import STATUSES, HistoryStatus, Pending, offset
from wakeful.service.live import LiveEvent
from wakeful.service.read import Cursor
from wakeful.service.watch import Overview, TargetStatus
from wakeful.store import Matches, Stats

T = TypeVar("T")
PAGE: Final = 500
PREVIEWED: Final = 100


def _left_out(told: Answered) -> tuple[tuple[datetime, str], ...]:
    several = value(told, "skipped", list[Answered]) if "skipped" in told else []
    return tuple((value(one, "utc", datetime), value(one, "holiday", str)) for one in several)


class RemoteLookVerbs(Wakeful):
    """The verbs of a remote client that only read."""

    _connection: ServerConnection

    async def parse(self, when: str, *, timezone: str = "") -> Understood:
        told = await self._preview(when, timezone)
        return Understood(
            kind=msgspec.json.decode(told["kind"], type=Kind),
            fire_at=value(told, "fire_at", datetime) if "fire_at" in told else None,
            cron_expr=value(told, "cron_expr", str) if "cron_expr" in told else "",
            timezone=value(told, "timezone", str),
            description=value(told, "description", str),
            now=value(told, "now", datetime),
            _remarks=tuple(value(told, "remarks", list[str])),
            starts_at=value(told, "starts_at", datetime) if "starts_at" in told else None,
            ends_at=value(told, "ends_at", datetime) if "ends_at" in told else None,
            max_fires=value(told, "max_fires", int) if "max_fires" in told else None,
            skips_holidays="calendar" in told,
            calendar=value(told, "calendar", str) if "calendar" in told else "",
            left_out=_left_out(told),
        )

    async def _preview(self, when: str, timezone: str = "") -> Answered:
        n = PREVIEWED if without_days_off(when)[1] else 1  # what is left out only the server knows
        body = {"when": when, "n": n} | ({"timezone": timezone} if timezone else {})
        return await self._ask("POST", "/v1/preview", body=body, repeatable=True)

    async def get(self, id: str) -> Alarm:
        return alarm_of(await self._ask("GET", alarm_path(id)))

    async def details(self, id: str) -> Details:
        told = await self._ask("GET", alarm_path(id))
        return Details(alarm_of(told), notes_of(told))

    async def fire_of(self, fire_id: str) -> Fire:
        return fire_read(await self._ask("GET", fire_path(fire_id)))

    async def find(
        self,
        *,
        status: AlarmStatus | Sequence[AlarmStatus] = (),
        kind: Kind | Literal[""] = "",
        target: str = "",
        label: str = "",
        conversation_id: str = "",
        root_id: str = "",
        key: str = "",
        text: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        cursor: Alarm | Cursor | None = None,
        most: int = 0,
    ) -> Matches[Alarm]:
        after = (cursor.created_at, cursor.id) if isinstance(cursor, Alarm) else cursor
        query = {
            "status": ",".join(accepted("status", status, ALARM_STATUSES)),
            "kind": "".join(accepted("kind", kind, get_args(Kind))),
            "target": target,
            "label": label,
            "conversation_id": conversation_id,
            "root_id": root_id,
            "key": key,
            "q": text,
            "since": moment_text(since),
            "until": moment_text(until),
        }
        return await self._pages("/v1/alarms", query, lambda told: alarms_of(told["alarms"]), limit, after, most)

    async def fires(
        self,
        id: str = "",
        *,
        status: FireStatus | Sequence[FireStatus] = (),
        target: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        cursor: Cursor | None = None,
        most: int = 0,
    ) -> Matches[Fire]:
        query = {
            "status": ",".join(accepted("status", status, FIRE_STATUSES)),
            "since": moment_text(since),
            "until": moment_text(until),
        }
        if not id:
            query["target"] = target

        def read(told: Answered) -> list[Fire]:
            return [fire for fire in fires_of(told["fires"]) if target in ("", fire.target)]

        path = f"{alarm_path(id)}/fires" if id else "/v1/fires"
        try:
            return await self._pages(path, query, read, limit, cursor, most)
        except NotFound:  # nothing happened to what there is not
            return Matches()

    async def _pages(
        self,
        path: str,
        query: dict[str, str],
        read: Callable[[Answered], list[T]],
        limit: int,
        cursor: Cursor | None,
        most: int,
    ) -> Matches[T]:
        """As many as asked, page by page; with `most` only the first page, whose length the server decides."""
        found: Matches[T] = Matches((), cursor)
        while len(found) < limit:
            after = {} if found.further is None else {"cursor": cursor_text(*found.further)}
            size = {"limit": str(min(PAGE, limit - len(found)))}
            told = await self._ask("GET", path, query | after | size)
            found = Matches([*found, *read(told)], further(told))
            if found.further is None or most:
                break
        return found

    async def pending(self, *, limit: int | None = None) -> list[Pending]:
        return [Pending(alarm.id, alarm.next_fire_at, offset(alarm)) for alarm in await self.active(limit=limit)]

    async def active(self, *, limit: int | None = None, most: int = 0) -> Matches[Alarm]:
        if limit is not None and limit < 1:
            raise InvalidRequest(f"{limit} is less than 1", field="limit")
        found = await self.find(status="active", limit=1 << 62)
        return Matches(sorted(found, key=lambda alarm: (alarm.next_fire_at, alarm.id))[:limit])

    async def history(
        self,
        *,
        status: HistoryStatus | Literal[""] = "",
        target: str = "",
        since: datetime | float | str | None = None,
        limit: int = 50,
        most: int = 0,
    ) -> Noted[HistoryEntry]:
        begin = None if since is None else moment_or_ago(since, "since", now=await self.service.now())
        accepted("status", status, STATUSES)
        query = {"status": status, "target": target, "since": moment_text(begin), "limit": str(limit)}
        told = await self._ask("GET", "/v1/history", query)
        found = entries_of(told, "history")
        return Noted(found, found.further, notes_of(told))

    async def failed(self, *, limit: int = 20, most: int = 0) -> Matches[HistoryEntry]:
        return entries_of(await self._ask("GET", "/v1/failed", {"limit": str(limit)}), "failed")

    async def stats(self) -> Stats:
        return msgspec.json.decode(msgspec.json.encode(await self._ask("GET", "/v1/stats")), type=Stats)

    async def agenda(self, *, hours: float = 24, limit: int = 100, most: int = 0) -> Noted[tuple[datetime, Alarm]]:
        told = await self._ask("GET", "/v1/agenda", {"hours": f"{hours:.6f}", "limit": str(limit)})
        coming = [
            (value(one, "at", datetime), alarm_of(fields_of(one["alarm"])))
            for one in value(told, "agenda", list[Answered])
        ]
        last = (coming[-1][0], coming[-1][1].id) if coming and is_said(told, "more") else None
        return Noted(coming, last, notes_of(told))

    async def why(self, id: str) -> Why:
        told = await self._ask("GET", f"{fire_path(id) if is_fire_id(id) else alarm_path(id)}/why")
        return msgspec.json.decode(msgspec.json.encode(told), type=Why)

    # Watch

    async def targets(self) -> list[TargetStatus]:
        return value(await self._ask("GET", "/v1/targets"), "targets", list[TargetStatus])

    async def budget(self, id: str = "") -> list[BudgetUse]:
        return value(await self._ask("GET", "/v1/budget", {"alarm_id": id}), "budget", list[BudgetUse])

    async def overview(self) -> Overview:
        told = await self._ask("GET", "/v1/overview")
        rest = {name: text for name, text in told.items() if name != "next"}
        coming = msgspec.json.encode([msgspec.to_builtins(alarm) for alarm in alarms_of(told["next"])])
        return msgspec.json.decode(msgspec.json.encode(rest | {"next": msgspec.Raw(coming)}), type=Overview)

    async def recent_events(self, *whats: str, alarm_id: str = "", limit: int = 20) -> list[LiveEvent]:
        query = {"events": ",".join(whats), "alarm_id": alarm_id, "limit": str(limit)}
        return value(await self._ask("GET", "/v1/events/recent", query), "events", list[LiveEvent])

    async def _ask(self, method: str, path: str, query: dict[str, str] | None = None, **more: Any) -> Answered:
        return await self._connection.ask(method, path, query, **more)

"""The store in memory: for tests and for the simulator. What is acknowledged is gone with its process.

The data is a `MemoryDatabase`; a `MemoryStore` is what one process has open on it. Every verb is done when it is
called: there is no thread, no await inside it and no clock but the one that was handed in. So a verb is atomic, and a
run that is repeated with the same inputs goes the same way.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import Clock, SystemClock
from wakeful.errors import InvalidRequest, StoreUnavailable
from wakeful.model.alarm import FORMER, INBOX, PENDING, TASKS, Alarm, Change, Event, Fire
from wakeful.moments import MS, stamp, unix_ms, whole_ms
from wakeful.rules.task import speaks
from wakeful.store import (
    NO_TURNS,
    NOT_EARLY,
    Added,
    AlarmQuery,
    Claim,
    Claimed,
    DescribedFire,
    FireQuery,
    Followed,
    MovedFire,
    NewAlarm,
    Settled,
    Stats,
    Store,
    Turn,
    Usage,
)
from wakeful.store.filters import Cursor, EventQuery
from wakeful.store.memory.claiming import Claiming
from wakeful.store.memory.database import FireKey, MemoryDatabase, kept_alarm, storable
from wakeful.store.memory.maintenance import MemoryAccess, MemoryMaintenance
from wakeful.store.memory.searching import (
    alarm_filter,
    alarm_row,
    alarms_in_order,
    alarms_listed,
    described_fires_listed,
    fire_filter,
    fire_row,
    fires_in_order,
    fires_listed,
)
from wakeful.store.memory.settling import APPLIED, memory_tasks, settled
from wakeful.store.records import CLOCK_AHEAD, COUNTED, Matches, Page, filled, stats_of
from wakeful.store.rows import first_id, length_ms

__all__ = ["ENGINE", "MemoryDatabase", "MemoryStore"]
T = TypeVar("T", bound=Struct)
_TICK: Final = timedelta(seconds=1)
_REASON: Final = 500  # characters of why a fire went as it did, for those who follow along


class MemoryStore:
    """Alarms in a `MemoryDatabase`, as one process sees them."""

    def __init__(
        self,
        database: MemoryDatabase | None = None,
        *,
        clock: Clock = SystemClock(),  # noqa: B008 - stateless
        tick: timedelta = _TICK,
    ) -> None:
        self.hints = asyncio.Event()
        self._database = database or MemoryDatabase()
        self._database.listeners.append(self.hints)
        self._clock = clock
        self._tick = tick
        self._closed = False
        self.tasks = memory_tasks(self._open, clock)
        self.access = MemoryAccess(self._open)
        self.maintenance = MemoryMaintenance(self._open, clock)

    def _open(self) -> MemoryDatabase:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return self._database

    def _now(self) -> datetime:
        return whole_ms(self._clock.now())

    async def migrate(self) -> list[str]:
        self.maintenance.keep_first()  # else the first dispatcher does, in a thread
        return []

    async def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Let go of the database at once, as when the process is killed. What it acknowledged stays."""
        if not self._closed:
            self._closed = True
            self._database.listeners.remove(self.hints)

    async def now(self) -> datetime:
        return self._now()

    # Alarms

    async def add(self, alarms: Sequence[Alarm], *, connection: Any = None) -> list[Added]:
        if connection is not None:
            await self.within(connection)
        database = self._open()
        if alarms and not self.maintenance.has_edition:
            self.maintenance.keep_first()
        rows = [storable(alarm, kept_alarm) for alarm in alarms]
        answers = []
        for given, alarm in zip(alarms, rows, strict=True):
            there = database.alarms.get(alarm.id) or database.with_key(alarm.owner_did, alarm.idempotency_key)
            if there is None:
                database.put_alarm(alarm)
            answers.append(Added(given) if there is None else Added(there, deduped=there.id != alarm.id))
        self._hint(alarms)
        return answers

    async def within(self, connection: Any) -> Store:
        raise InvalidRequest(
            "a memory database has no connection of a caller's own",
            field="connection",
            fix="Leave it out, or use a SQLite file.",
        )

    async def claim(
        self,
        slots: Mapping[str, int],
        *,
        lease: timedelta,
        suspects: bool = True,
        turns: Mapping[str, Turn] = NO_TURNS,
        early: Mapping[str, timedelta] = NOT_EARLY,
    ) -> Claimed:
        free = {target: count for target, count in slots.items() if count > 0}
        return self._claiming(lease).claim(free, suspects=suspects, turns=turns, early=early)

    def _claiming(self, lease: timedelta) -> Claiming:
        return Claiming(self._open(), self._now(), length_ms(lease) * MS)

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        database = self._open()
        tasks = [change for change in changes if change.after.created_via == TASKS]
        tables = database.other_tables
        moved = self.tasks.overtaken(tables.db, [one.after.id for one in tasks if speaks(one)]) if tasks else {}
        now = stamp(self._clock.now())
        answers = [
            Settled("moved") if change.after.id in moved else settled(database, change, stamp=now) for change in changes
        ]
        if tasks:
            applied = {id(change) for change, answer in zip(changes, answers, strict=True) if answer is APPLIED}
            self.tasks.follow(tables.db, [change for change in tasks if id(change) in applied])
        self._hint(change.after for change in changes)
        return answers

    async def renew(self, claims: Sequence[Claim]) -> list[Claim]:
        database, now = self._open(), self._now()
        lost = []
        for claim in claims:
            alarm = database.alarms.get(claim.id)
            if alarm is None or alarm.claim != claim.claim or alarm.status != "active" or alarm.claimed_at is None:
                lost.append(claim)
            else:
                database.put_alarm(replace(alarm, claimed_at=now))
        return lost

    async def next_due(self, targets: Sequence[str]) -> datetime | None:
        database = self._open()
        moments = []
        for target in targets:
            for at, _, id in database.due.get(target, ()):
                alarm = database.alarms[id]
                if alarm.claimed_at is None and alarm.unsettled == 0:
                    moments.append(at)
                    break
        return min(moments, default=None)

    async def get(self, id: str, *, owner: str = "") -> Alarm | None:
        alarm = self._open().alarms.get(id)
        return alarm if alarm is not None and owner in ("", alarm.owner_did) else None

    async def named(
        self, owner: str, keys: Sequence[str], *, between: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[Alarm]:
        database = self._open()
        low, high = between or ("", "")
        ids = database.ids[bisect_left(database.ids, low) : bisect_right(database.ids, high)]
        found = [alarm for alarm in map(database.alarms.__getitem__, ids) if owner in ("", alarm.owner_did)]
        found += [alarm for key in keys if (alarm := database.with_key(owner, key)) is not None]
        return found[:limit]

    async def listening(self, owner: str, signal: str, *, after: str = "", limit: int) -> list[Alarm]:
        database = self._open()
        ids = sorted(id for _, id in database.ids_of.get(owner, ()) if id > after)
        alarms = (database.alarms[id] for id in ids)
        waiting = (
            one for one in alarms if one.status == "active" and signal in (one.policy.unless, one.policy.or_when)
        )
        return list(islice(waiting, limit))

    async def find(self, query: AlarmQuery) -> Matches[Alarm]:
        return alarms_listed(self._open(), query)

    async def similar(self, alarm: Alarm, *, among: int) -> Alarm | None:
        asked = kept_alarm(alarm)
        names = ["target", "kind", "fire_at", "timezone", "wake_message", "conversation_id", "payload_json", "policy"]
        names += ["cron_expr"] if alarm.kind == "cron" else []
        latest = islice(alarms_in_order(self._open(), AlarmQuery(owner=alarm.owner_did)), among)
        others = (one for one in latest if one.status == "active" and one.id != alarm.id)
        return next((one for one in others if all(getattr(one, name) == getattr(asked, name) for name in names)), None)

    async def agenda(self, *, owner: str, until: datetime, limit: int, most: int = 0) -> Matches[Alarm]:
        database, until = self._open(), whole_ms(until)
        lines = (takewhile(lambda place: place[0] < until, line) for line in database.due.values())
        alarms = (database.alarms[id] for line in lines for _, _, id in line)
        soonest = sorted(
            (alarm for alarm in alarms if owner in ("", alarm.owner_did)),
            key=lambda alarm: (alarm.next_fire_at, alarm.id),
        )
        page: Page[Any] = filled(map(alarm_row, soonest), Page(limit, most=most, among=()))
        return page.found(lambda row: row[0], lambda alarm: (alarm.next_fire_at, alarm.id))

    # Fires

    async def fires(self, query: FireQuery) -> Matches[Fire]:
        return fires_listed(self._open(), query)

    async def described_fires(self, query: FireQuery) -> Matches[DescribedFire]:
        return described_fires_listed(self._open(), query)

    async def count(self, query: AlarmQuery | FireQuery) -> int:
        database = self._open()
        if isinstance(query, AlarmQuery):
            fit = map(alarm_filter(query), alarms_in_order(database, query))
        else:
            fit = map(fire_filter(query), fires_in_order(database, query))
        return sum(islice(filter(None, fit), query.limit))

    async def fires_at(self, keys: Sequence[FireKey]) -> dict[FireKey, Fire]:
        fires = self._open().fires
        asked = ((id, whole_ms(at)) for id, at in keys)
        return {key: fires[key] for key in asked if key in fires}

    async def overdue(self, *, limit: int) -> list[tuple[Alarm, Fire]]:
        database, now = self._open(), self._now()
        fires = (database.fires[key] for key in database.reportable if key[0] in database.alarms)
        late = [
            (fire.report_by, fire.alarm_id, fire.scheduled_for, fire) for fire in fires if fire.status != "retrying"
        ]
        first = sorted(one for one in late if one[0] is not None and one[0] <= now)[:limit]
        return [(database.alarms[id], fire) for _, id, _, fire in first]

    async def waiting(
        self, owner: str, *, limit: int, most: int = 0, target: str = INBOX, conversation_id: str = ""
    ) -> Matches[tuple[Alarm, Fire]]:
        database = self._open()
        fires = (database.fires[key] for key in database.waiting if key[0] in database.alarms)
        own = [fire for fire in fires if fire.owner_did == owner and fire.target == target]
        own.sort(key=lambda fire: (fire.scheduled_for, fire.alarm_id))
        pairs = ((database.alarms[fire.alarm_id], fire) for fire in own)
        asked = (pair for pair in pairs if conversation_id in ("", pair[0].conversation_id))
        rows = ((pair, *fire_row(pair[1])[1:], *alarm_row(pair[0])[1:]) for pair in asked)
        page: Page[Any] = filled(rows, Page(limit, most=most, among=()))
        return page.found(lambda row: row[0], lambda pair: (pair[1].scheduled_for, pair[1].alarm_id))

    async def alarms_in_zones(self, zones: Collection[str], *, after: str, scan_limit: int) -> tuple[list[Alarm], str]:
        database = self._open()
        ids = database.ids_behind(after)
        found = [database.alarms[id] for id in ids[:scan_limit]]
        planned = [one for one in found if one.status in PENDING and (one.timezone in zones or "TZ" in one.cron_expr)]
        return planned, ids[scan_limit - 1] if len(ids) >= scan_limit else ""

    # Counts

    async def stats(self, owner: str = "", *, most: int = COUNTED) -> Stats:
        database = self._open()
        alarms = [alarm for alarm in database.alarms.values() if owner in ("", alarm.owner_did)]
        latest = list(islice(fires_in_order(database, FireQuery(owner=owner)), most))

        def of(*statuses: str) -> list[Fire]:
            return [fire for fire in latest if fire.status in statuses]

        lengths = [fire.duration_ms for fire in of("completed") if fire.duration_ms is not None]
        by_status = {"pending": "active", "paused": "paused", "cancelled": "cancelled"}
        counts: dict[str, Any] = {
            name: min(most, sum(alarm.status == status for alarm in alarms)) for name, status in by_status.items()
        }
        counts |= {
            "total": min(most, len(alarms)),
            "fired": len(of("delivered", "waiting")),
            "completed": len(of("completed")),
            "failed": len(of("failed")),
            "timeout_unknown": len(of("timed_out")),
            "skipped": sum(fire.count for fire in of("skipped")),
            "avg_duration_ms": int(sum(lengths) / len(lengths) + 0.5) if lengths else None,
            "fires": len(latest),
        }
        return stats_of(counts, most=most)

    async def usage(self, owner: str, *, cursor: Cursor | None = None, look_at: int = 0) -> Usage:
        rows = list(alarms_in_order(self._open(), AlarmQuery(owner=owner, cursor=cursor)))
        part = rows[:look_at] if look_at else rows
        further = (part[-1].created_at, part[-1].id) if len(part) < len(rows) else None
        size = sum(len(alarm.wake_message.encode()) + len(alarm.payload_json.encode()) for alarm in part)
        return Usage(sum(alarm.status in PENDING for alarm in part), size, further)

    # What happened

    async def events(self, query: EventQuery) -> list[tuple[int, Event]]:
        events = self._open().events
        since = None if query.since is None else whole_ms(query.since)
        behind = [*takewhile(lambda one: one[0] > query.after, reversed(events.items()))]
        fit = (
            (seq, event)
            for seq, event in (behind if query.latest else reversed(behind))
            if (query.latest or event.what != FORMER)
            and (since is None or event.at >= since)
            and query.owner in ("", event.owner_did)
            and (query.alarm_id == event.alarm_id or not (query.alarm_id or query.latest))
            and query.what in ("", event.what)
            and query.by in ("", event.by)
        )
        found = sorted(fit, key=lambda one: one[1].at) if query.by else fit
        rows = ((one, one[1].what, one[1].fire_id, one[1].by, one[1].reason) for one in found)
        page: Page[Any] = filled(rows, Page(query.limit, most=query.most, among=()))
        return [row[0] for row in page.rows]

    async def changes(self, *, owner: str, since: datetime, after_event: int, limit: int) -> Followed:
        database, since = self._open(), whole_ms(since)
        start = bisect_left(database.ids, first_id(unix_ms(since)))
        end = bisect_left(database.ids, first_id(unix_ms(self._clock.now() + CLOCK_AHEAD)))
        alarms = (database.alarms[id] for id in database.ids[start:end])
        new = (one for one in alarms if one.created_at >= since and owner in ("", one.owner_did))
        fires = [one for one in database.fires.values() if one.updated_at >= since and owner in ("", one.owner_did)]
        fires.sort(key=lambda fire: fire.updated_at)
        events = await self.events(EventQuery(owner=owner, after=after_event, limit=limit))
        return Followed(
            [_new_alarm(alarm) for alarm in islice(new, limit)],
            [_moved_fire(fire) for fire in fires[:limit]],
            events,
            database.last_event,
        )

    def _hint(self, alarms: Iterable[Alarm]) -> None:
        """Wake every sleeping dispatcher, where one of these is due before it would wake by itself."""
        soon = self._clock.now() + self._tick
        if any(alarm.status == "active" and alarm.next_fire_at <= soon for alarm in alarms):
            for hints in self._database.listeners:
                hints.set()


def _new_alarm(alarm: Alarm) -> NewAlarm:
    return NewAlarm(**{name: getattr(alarm, name) for name in NewAlarm.__struct_fields__})


def _moved_fire(fire: Fire) -> MovedFire:
    values = {name: getattr(fire, name) for name in MovedFire.__struct_fields__}
    return MovedFire(**values | {"reason": (fire.reason or fire.last_error)[:_REASON]})

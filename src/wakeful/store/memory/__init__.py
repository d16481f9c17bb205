"""The store in memory: for tests and for the simulator. What is acknowledged is gone with its process.

The data is a `MemoryDatabase`; a `MemoryStore` is what one process has open on it. Every verb is done when it is
called: there is no thread, no await inside it and no clock but the one that was handed in. So a verb is atomic, and a
run that is repeated with the same inputs goes the same way.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alarm import INBOX, TASKS, Alarm, Change, Event, Fire, speaks
from wakeful.alarm.model import FORMER, PENDING
from wakeful.clock import Clock, SystemClock
from wakeful.errors import InvalidRequest, StoreUnavailable
from wakeful.moments import MS, stamp, unix_ms, whole_ms
from wakeful.store import (
    AHEAD,
    BACKLOG_LIMIT,
    NO_TURNS,
    NOT_EARLY,
    Added,
    AlarmQuery,
    Claim,
    Claimed,
    DescribedFire,
    Door,
    FireQuery,
    Followed,
    Inspection,
    MovedFire,
    NewAlarm,
    Settled,
    Stats,
    Store,
    TargetState,
    Token,
    Turn,
    Usage,
    Worker,
)
from wakeful.store.batching import StoreRefused
from wakeful.store.counts import COUNTED, stats_of
from wakeful.store.keys import KEY_SIZE, ReportKeys
from wakeful.store.memory.beside import MemoryBudget, MemoryChecks, MemoryOwnerSettings, MemoryZones
from wakeful.store.memory.claiming import Claiming
from wakeful.store.memory.database import FireKey, MemoryDatabase, kept, kept_alarm
from wakeful.store.memory.figures import MemoryFigures
from wakeful.store.memory.finished import count_old, impossible, purge
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
from wakeful.store.pages import Cursor, Matches, Page, filled
from wakeful.store.queries import Naming, migrations
from wakeful.store.rows import first_id, length_ms

__all__ = ["ENGINE", "MemoryDatabase", "MemoryStore"]

T = TypeVar("T", bound=Struct)
ENGINE: Final = "memory"
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
        self.figures = MemoryFigures(self._open, clock)
        self.budget = MemoryBudget(self._open)
        self.checks = MemoryChecks(self._open)
        self.zones = MemoryZones(self._open, clock)
        self.owner_settings = MemoryOwnerSettings(self._open)

    def _open(self) -> MemoryDatabase:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return self._database

    def _now(self) -> datetime:
        return whole_ms(self._clock.now())

    async def migrate(self) -> list[str]:
        self.zones.keep_first()  # else the first dispatcher does, in a thread
        return []

    async def use_default_target(self, name: str) -> str:
        return name  # no other program inserts alarms here

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
        if alarms and not self.zones.has_edition:
            self.zones.keep_first()
        rows = [_storable(alarm, kept_alarm) for alarm in alarms]
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

    async def backlog(self, *, lease: timedelta) -> dict[str, tuple[int, datetime]]:
        claiming = self._claiming(lease)
        due = {target: list(islice(claiming.due(target), BACKLOG_LIMIT)) for target in sorted(claiming.database.due)}
        return {target: (len(alarms), alarms[0].next_fire_at) for target, alarms in due.items() if alarms}

    async def get(self, id: str, *, owner: str = "") -> Alarm | None:
        alarm = self._open().alarms.get(id)
        return alarm if alarm is not None and owner in ("", alarm.owner_did) else None

    async def keyed(self, owner: str, keys: Sequence[str]) -> list[Alarm]:
        database = self._open()
        return [alarm for key in keys if (alarm := database.with_key(owner, key)) is not None]

    async def resolve(self, low: str, high: str, *, key: str, owner: str, limit: int) -> list[Alarm]:
        database = self._open()
        ids = database.ids[bisect_left(database.ids, low) : bisect_right(database.ids, high)]
        found = [alarm for alarm in map(database.alarms.__getitem__, ids) if owner in ("", alarm.owner_did)]
        named = database.with_key(owner, key)
        return [*found, *([] if named is None else [named])][:limit]

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

    async def events(
        self, *, owner: str = "", alarm_id: str = "", after: int = 0, limit: int = 100, most: int = 0
    ) -> list[tuple[int, Event]]:
        events = self._open().events
        behind = [*takewhile(lambda one: one[0] > after, reversed(events.items()))][::-1]
        fit = (
            (seq, event)
            for seq, event in behind
            if event.what != FORMER and owner in ("", event.owner_did) and alarm_id in ("", event.alarm_id)
        )
        rows = (((seq, event), event.what, event.fire_id, event.by, event.reason) for seq, event in fit)
        page: Page[Any] = filled(rows, Page(limit, most=most, among=()))
        return [row[0] for row in page.rows]

    async def last_event_at(self, alarm_id: str, what: str) -> datetime | None:
        latest = (event for event in self._latest(alarm_id) if event.what == what)
        return next((event.at for event in latest), None)

    async def events_by(self, by: str, what: str, *, since: datetime, limit: int) -> list[Event]:
        since = whole_ms(since)
        done = [one for one in self._open().events.values() if (one.by, one.what) == (by, what) and one.at >= since]
        return sorted(done, key=lambda one: one.at)[:limit]

    async def latest_events(self, alarm_id: str, *, limit: int) -> list[Event]:
        return list(islice(self._latest(alarm_id), limit))

    def _latest(self, alarm_id: str) -> Iterator[Event]:
        return (event for event in reversed(self._open().events.values()) if event.alarm_id == alarm_id)

    async def changes(self, *, owner: str, since: datetime, after_event: int, limit: int) -> Followed:
        database, since = self._open(), whole_ms(since)
        start = bisect_left(database.ids, first_id(unix_ms(since)))
        end = bisect_left(database.ids, first_id(unix_ms(self._clock.now() + AHEAD)))
        alarms = (database.alarms[id] for id in database.ids[start:end])
        new = (one for one in alarms if one.created_at >= since and owner in ("", one.owner_did))
        fires = [one for one in database.fires.values() if one.updated_at >= since and owner in ("", one.owner_did)]
        fires.sort(key=lambda fire: fire.updated_at)
        events = await self.events(owner=owner, after=after_event, limit=limit)
        return Followed(
            [_new_alarm(alarm) for alarm in islice(new, limit)],
            [_moved_fire(fire) for fire in fires[:limit]],
            events,
            database.last_event,
        )

    # Workers, targets, access

    async def beat(self, worker: Worker) -> None:
        self._open().workers[worker.id] = _storable(replace(worker, seen_at=self._now()))

    async def workers(self) -> list[Worker]:
        return sorted(self._open().workers.values(), key=lambda worker: (worker.started_at, worker.id))

    async def target_states(self) -> dict[str, TargetState]:
        return dict(sorted(self._open().target_states.items()))

    async def set_target_state(self, state: TargetState, *, event: Event | None = None) -> None:
        database = self._open()
        state, events = _storable(state), [] if event is None else [_storable(event)]
        database.target_states[state.target] = state
        for one in events:
            database.add_event(one)

    async def report_keys(self) -> ReportKeys:
        database = self._open()
        if database.report_keys is None:
            database.report_keys = ReportKeys(database.random_bytes(KEY_SIZE))
        return database.report_keys

    async def rotate_report_key(self, now: datetime, event: Event) -> ReportKeys:
        database, keys, event = self._open(), await self.report_keys(), _storable(event)
        database.report_keys = keys.rotated(database.random_bytes(KEY_SIZE), whole_ms(now))
        database.add_event(event)
        return database.report_keys

    async def door(self) -> Door:
        return self._open().door

    async def open_door(self, event: Event) -> None:
        database, event = self._open(), _storable(event)
        database.door = "open"
        database.add_event(event)

    async def add_token(self, token: Token) -> bool:
        database = self._open()
        if token.id in database.tokens:
            return False
        database.tokens[token.id] = _storable(token)
        database.door = "closed"
        return True

    async def tokens(self) -> list[Token]:
        return sorted(self._open().tokens.values(), key=lambda token: (token.created_at, token.id))

    async def token(self, id: str) -> Token | None:
        return self._open().tokens.get(id)

    async def revoke_token(self, id: str, now: datetime) -> bool:
        tokens = self._open().tokens
        if id in tokens and tokens[id].revoked_at is None:
            tokens[id] = replace(tokens[id], revoked_at=whole_ms(now))
        return id in tokens

    async def touch_token(self, id: str, at: datetime) -> None:
        tokens = self._open().tokens
        if id in tokens:
            used, at = tokens[id].last_used_at, whole_ms(at)
            tokens[id] = replace(tokens[id], last_used_at=at if used is None else max(used, at))

    # Maintenance

    async def inspect(self, *, thorough: bool = False) -> Inspection:
        database = self._open()
        schema = migrations("sqlite", Naming())[-1].version  # what is kept is what its tables hold
        counts = impossible(database, self._now() + AHEAD) if thorough else {}
        return Inspection(engine=ENGINE, size=0, schema=schema, known=schema, impossible=counts)

    async def count_old(self, before: datetime, *, owner: str = "") -> dict[str, int]:
        return count_old(self._open(), whole_ms(before), owner)

    async def purge(self, before: datetime, *, owner: str = "", limit: int = 1000) -> int:
        return purge(self._open(), whole_ms(before), owner, limit)

    def _hint(self, alarms: Iterable[Alarm]) -> None:
        """Wake every sleeping dispatcher, where one of these is due before it would look."""
        soon = self._clock.now() + self._tick
        if any(alarm.status == "active" and alarm.next_fire_at <= soon for alarm in alarms):
            for hints in self._database.listeners:
                hints.set()


def _storable(value: T, keep: Callable[[T], T] = kept) -> T:
    """The value as a row holds it."""
    try:
        return keep(value)
    except (TypeError, ValueError) as error:
        raise StoreRefused(f"a row of the database cannot hold this: {error}") from error


def _new_alarm(alarm: Alarm) -> NewAlarm:
    return NewAlarm(**{name: getattr(alarm, name) for name in NewAlarm.__struct_fields__})


def _moved_fire(fire: Fire) -> MovedFire:
    told = {name: getattr(fire, name) for name in MovedFire.__struct_fields__}
    return MovedFire(**told | {"reason": (fire.reason or fire.last_error)[:_REASON]})

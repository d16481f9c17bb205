"""Maintenance of a memory database, with the bounds that the statements have: the same part of much is counted."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.model.alarm import FINISHED, PENDING, UNSUCCESSFUL, Alarm, Change, Event, Fire
from wakeful.model.owner_settings import OwnerSettings
from wakeful.moments import MS, whole_ms
from wakeful.rules.budget import BudgetCount, Charge, Refusal, charged, costs
from wakeful.store.access import KEY_SIZE, AuthState, ReportKeys, Token
from wakeful.store.filters import AlarmQuery, FireQuery
from wakeful.store.maintenance import (
    BACKLOG_LIMIT,
    IMPOSSIBLE,
    UNREAD,
    Edition,
    FireSummary,
    Inspection,
    OwnerBacklog,
    OwnerUse,
    Step,
    StepCount,
    Storage,
    TargetState,
    Worker,
    edition_planned_by,
    rules_of,
)
from wakeful.store.memory.claiming import Claiming
from wakeful.store.memory.database import KeptEdition, MemoryDatabase, storable
from wakeful.store.memory.searching import alarms_in_order, fires_in_order
from wakeful.store.queries import Naming, migrations
from wakeful.store.records import CLOCK_AHEAD
from wakeful.store.rows import length_ms
from wakeful.store.sqlite.access import read_only_rows

log = logging.getLogger("wakeful.store")

ENGINE: Final = "memory"
_EDITIONS_KEPT: Final = 2
_ERROR: Final = 300  # characters


class MemoryMaintenance:
    def __init__(self, open: Callable[[], MemoryDatabase], clock: Clock) -> None:
        self._open = open
        self._clock = clock
        self.has_edition = False
        self.keeping: asyncio.Task[None] | None = None  # nothing here takes long enough for a task

    def _now(self) -> datetime:
        return whole_ms(self._clock.now())

    async def use_default_target(self, name: str) -> str:
        return name  # no other program inserts alarms here

    async def inspect(self, *, thorough: bool = False) -> Inspection:
        database = self._open()
        schema = migrations("sqlite", Naming())[-1].version  # what is kept is what its tables hold
        counts = _impossible(database, self._now() + CLOCK_AHEAD) if thorough else {}
        return Inspection(engine=ENGINE, size=0, schema=schema, known=schema, impossible=counts)

    async def storage(self) -> Storage:
        self._open()
        return Storage(ENGINE, 0)

    async def beat(self, worker: Worker) -> None:
        self._open().workers[worker.id] = storable(replace(worker, seen_at=self._now()))

    async def workers(self) -> list[Worker]:
        return sorted(self._open().workers.values(), key=lambda worker: (worker.started_at, worker.id))

    async def target_states(self) -> dict[str, TargetState]:
        return dict(sorted(self._open().target_states.items()))

    async def set_target_state(self, state: TargetState, *, event: Event | None = None) -> None:
        database = self._open()
        state, events = storable(state), [] if event is None else [storable(event)]
        database.target_states[state.target] = state
        for one in events:
            database.add_event(one)

    async def count_old(self, before: datetime, *, owner: str = "") -> dict[str, int]:
        return _count_old(self._open(), whole_ms(before), owner)

    async def purge(self, before: datetime, *, owner: str = "", limit: int = 1000) -> int:
        return _purge(self._open(), whole_ms(before), owner, limit)

    async def purge_counts(self, before: datetime, *, limit: int) -> int:
        database, before = self._open(), whole_ms(before)
        old = [key for key, count in database.budget.items() if count.starts_at < before]
        for key in old:
            del database.budget[key]
        gone = list(islice((key for key in database.seen if key[0] not in database.alarms), limit))
        for seen in gone:
            del database.seen[seen]
        return len(old) + len(gone)

    async def backlog(self, *, lease: timedelta) -> dict[str, tuple[int, datetime]]:
        claiming = self._claiming(lease)
        due = {target: list(islice(claiming.due(target), BACKLOG_LIMIT)) for target in sorted(claiming.database.due)}
        return {target: (len(alarms), alarms[0].next_fire_at) for target, alarms in due.items() if alarms}

    async def backlog_by_owner(self, *, lease: timedelta, limit: int) -> list[OwnerBacklog]:
        claiming = self._claiming(lease)
        found: dict[tuple[str, str], list[datetime]] = {}
        for target in claiming.database.due:
            for alarm in islice(claiming.due(target), limit):
                found.setdefault((target, alarm.owner_did), []).append(alarm.next_fire_at)
        waiting = [OwnerBacklog(target, owner, len(at), min(at)) for (target, owner), at in found.items()]
        return sorted(waiting, key=lambda one: (-one.count, one.target, one.owner))

    def _claiming(self, lease: timedelta) -> Claiming:
        return Claiming(self._open(), self._now(), length_ms(lease) * MS)

    async def fire_counts(self, owner: str, steps: Sequence[Step], *, limit: int) -> list[StepCount]:
        if not owner:
            return [StepCount(min(limit, len(self._changed(since, until)))) for since, until in steps]
        found = []
        for since, until in steps:
            fires = list(fires_in_order(self._open(), FireQuery(owner=owner, since=since, until=until)))
            failed = sum(fire.status in UNSUCCESSFUL for fire in fires)
            statuses = Counter(fire.status for fire in fires[:limit])
            found.append(StepCount.of(dict(sorted(statuses.items())), min(limit, failed)))
        return found

    async def latest_fires(self, owner: str, steps: Sequence[Step], *, each: int) -> list[FireSummary]:
        found: list[Fire] = []
        for since, until in steps:
            if owner:
                own = fires_in_order(self._open(), FireQuery(owner=owner, since=since, until=until))
                found += islice(own, each)
            else:
                found += self._changed(since, until)[:each]
        return [_summary(fire) for fire in found]

    def _changed(self, since: datetime, until: datetime) -> list[Fire]:
        """The fires of all owners that last changed in a step, the latest first."""
        since, until = whole_ms(since), whole_ms(until)
        fires = [fire for fire in self._open().fires.values() if since <= fire.updated_at < until]
        return sorted(fires, key=lambda fire: fire.updated_at, reverse=True)

    async def owner_use(self, *, after: str, limit: int, scan_limit: int, since: datetime) -> list[OwnerUse]:
        database = self._open()
        named = sorted(owner for owner, alarms in database.ids_of.items() if owner > after and alarms)
        return [_use(database, owner, scan_limit, since) for owner in named[:limit]]

    def keep_first(self) -> None:
        """Keep the edition that this process plans by where there is none, as `keep_first_edition` does in a task."""
        kept = self._open().editions
        try:
            if not kept:
                version, now = edition_planned_by(), self._now()
                kept[version] = KeptEdition(Edition(version, now, now), rules_of(version))
        except OSError as error:
            log.warning(UNREAD, error)
        self.has_edition = bool(kept)

    async def editions(self) -> list[Edition]:
        kept = self._open().editions
        self.has_edition = bool(kept)
        return [kept[version].edition for version in sorted(kept, reverse=True)]

    async def zone_rules(self, version: str) -> bytes | None:
        kept = self._open().editions.get(version)
        return None if kept is None else kept.packed()

    async def put_edition(self, version: str, data: bytes) -> None:
        kept = self._open().editions
        if version not in kept:
            kept[version] = KeptEdition(Edition(version, self._now(), None), data=data)
        for old in sorted(kept)[:-_EDITIONS_KEPT]:
            del kept[old]

    async def note_planned(self, version: str) -> None:
        kept = self._open().editions.get(version)
        if kept is not None and kept.edition.planned_at is None:
            edition = kept.edition
            kept.edition = Edition(edition.version, edition.since, self._now())


def _count_old(database: MemoryDatabase, before: datetime, owner: str) -> dict[str, int]:
    gone = [fire for fire in database.fires.values() if _is_over(database, fire, before, owner)]
    kept = {
        fire.alarm_id
        for fire in database.fires.values()
        if fire.updated_at >= before or fire.status == "waiting" or fire.report_by is not None
    }
    return {
        "alarms": sum(_is_finished(one, before, owner) and one.id not in kept for one in database.alarms.values()),
        "fires": len(gone),
        "events": sum(1 for _ in _old_events(database, before, owner)),
        "tokens": sum(1 for _ in _old_tokens(database, before, owner)),
    }


def _purge(database: MemoryDatabase, before: datetime, owner: str, limit: int) -> int:
    fires = [fire for fire in database.fires.values() if _is_over(database, fire, before, owner)]
    fires = sorted(fires, key=lambda fire: fire.updated_at)[:limit]
    for fire in fires:
        database.remove_fire((fire.alarm_id, fire.scheduled_for))
    ended = [one for one in database.alarms.values() if _is_finished(one, before, owner)]
    ended.sort(key=lambda alarm: (alarm.updated_at, alarm.id))
    alarms = list(islice((alarm for alarm in ended if not database.fires_of(alarm.id)), limit))
    for alarm in alarms:
        database.remove_alarm(alarm.id)
    events = list(islice(_old_events(database, before, owner), limit))
    for seq in events:
        del database.events[seq]
    tokens = list(islice(_old_tokens(database, before, owner), limit))
    for id in tokens:
        del database.tokens[id]
    return len(fires) + len(alarms) + len(events) + len(tokens)


def _is_over(database: MemoryDatabase, fire: Fire, before: datetime, owner: str) -> bool:
    """Whether nothing more is expected of a fire, since before a moment."""
    if fire.updated_at >= before or fire.status == "waiting" or fire.report_by is not None:
        return False
    alarm = database.alarms.get(fire.alarm_id)
    is_current = alarm is not None and alarm.status in PENDING and alarm.occurrence_at == fire.scheduled_for
    return not is_current and owner in ("", fire.owner_did)


def _is_finished(alarm: Alarm, before: datetime, owner: str) -> bool:
    return alarm.status in FINISHED and alarm.updated_at < before and owner in ("", alarm.owner_did)


def _old_events(database: MemoryDatabase, before: datetime, owner: str) -> Iterator[int]:
    events = database.events.items()
    return (seq for seq, event in events if event.at < before and owner in ("", event.owner_did))


def _old_tokens(database: MemoryDatabase, before: datetime, owner: str) -> Iterator[str]:
    for token in database.tokens.values():
        ended = token.revoked_at or token.expires_at
        if ended is not None and ended < before and owner in ("", token.owner_did):
            yield token.id


def _impossible(database: MemoryDatabase, ahead: datetime) -> dict[str, int]:
    """What wakeful never writes, in the order of IMPOSSIBLE."""
    alarms, fires = database.alarms.values(), database.fires.values()
    pending = [one for one in alarms if one.status in PENDING]
    pairs = [(fire, database.alarms.get(fire.alarm_id)) for fire in fires]
    counts = (
        sum(one.fire_at is None if one.kind == "once" else not one.cron_expr for one in pending),
        sum(not one.owner_did for one in alarms),
        sum(one.version < 1 or min(one.claim, one.unsettled, one.fire_count, one.failure_count) < 0 for one in alarms),
        sum(one.claimed_at is not None and one.claimed_at > ahead for one in alarms),
        sum(alarm is None for _, alarm in pairs),
        sum(alarm is not None and alarm.owner_did != fire.owner_did for fire, alarm in pairs),
        sum(fire.status == "skipped" and fire.count < 1 for fire in fires),
    )
    return dict(zip(IMPOSSIBLE, counts, strict=True))


def _use(database: MemoryDatabase, owner: str, scan_limit: int, since: datetime) -> OwnerUse:
    alarms = list(islice(alarms_in_order(database, AlarmQuery(owner=owner)), scan_limit))
    fires = fires_in_order(database, FireQuery(owner=owner, since=since))
    return OwnerUse(
        owner,
        len(alarms),
        sum(alarm.status in PENDING for alarm in alarms),
        sum(len(alarm.wake_message.encode()) + len(alarm.payload_json.encode()) for alarm in alarms),
        min(scan_limit, sum(fire.status in UNSUCCESSFUL for fire in fires)),
    )


def _summary(fire: Fire) -> FireSummary:
    error = (fire.last_error or fire.reason)[:_ERROR]
    moments = (fire.scheduled_for, fire.started_at, fire.delivered_at, fire.updated_at)
    return FireSummary(fire.target, fire.owner_did, fire.status, *moments, error)


# Access and settings in a memory database.

Open = Callable[[], MemoryDatabase]  # StoreUnavailable where the store is closed


class MemoryAccess:
    def __init__(self, open: Open) -> None:
        self._open = open

    async def report_keys(self) -> ReportKeys:
        database = self._open()
        if database.report_keys is None:
            database.report_keys = ReportKeys(database.random_bytes(KEY_SIZE))
        return database.report_keys

    async def rotate_report_key(self, now: datetime, event: Event) -> ReportKeys:
        database, keys, event = self._open(), await self.report_keys(), storable(event)
        database.report_keys = keys.rotated(database.random_bytes(KEY_SIZE), whole_ms(now))
        database.add_event(event)
        return database.report_keys

    async def auth_state(self) -> AuthState:
        return self._open().auth_state

    async def open_auth(self, event: Event) -> None:
        database, event = self._open(), storable(event)
        database.auth_state = "open"
        database.add_event(event)

    async def add_token(self, token: Token) -> bool:
        database = self._open()
        if token.id in database.tokens:
            return False
        database.tokens[token.id] = storable(token)
        database.auth_state = "closed"
        return True

    async def tokens(self) -> list[Token]:
        return sorted(self._open().tokens.values(), key=lambda token: (token.created_at, token.id))

    async def token(self, id: str) -> Token | None:
        return self._open().tokens.get(id)

    async def update_token(
        self, id: str, *, revoked_at: datetime | None = None, last_used_at: datetime | None = None
    ) -> bool:
        tokens = self._open().tokens
        if (token := tokens.get(id)) is None:
            return False
        if revoked_at is not None and token.revoked_at is None:
            token = replace(token, revoked_at=whole_ms(revoked_at))
        if last_used_at is not None:
            used = whole_ms(last_used_at)
            token = replace(token, last_used_at=max(used, token.last_used_at or used))
        tokens[id] = token
        return True

    async def owner_settings(self, owner: str) -> OwnerSettings:
        return self._open().owner_settings.get(owner, OwnerSettings())

    async def put_owner_settings(self, owner: str, settings: OwnerSettings) -> None:
        self._open().owner_settings[owner] = settings

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        counts = self._open().budget
        known = {key: counts[key] for charge in charges for key in charge.keys if key in counts}
        answers, changed = charged(charges, known)
        counts.update((count.key, count) for count in changed)
        return answers

    async def spent(self, charge: Charge) -> list[BudgetCount]:
        counts = self._open().budget
        return [counts[key] for key in sorted(set(charge.keys)) if key in counts]

    async def check_value(self, alarm_id: str, name: str) -> str | None:
        return self._open().seen.get((alarm_id, name))

    async def check_rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        return self._open().other_tables.read(partial(read_only_rows, sql), within=within)


def add_costs(database: MemoryDatabase, change: Change) -> None:
    for count in costs(change):
        known = database.budget.get(count.key)
        database.budget[count.key] = replace(known, cost=known.cost + count.cost) if known else count

"""Figures from a memory database: the same bounds, so that the same part of much is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice

from wakeful.alarm import Fire
from wakeful.alarm.model import PENDING, UNSUCCESSFUL
from wakeful.clock import Clock
from wakeful.moments import whole_ms
from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.figures import DueOfOwner, FireSummary, OwnerUse, Step, StepCount, Storage
from wakeful.store.memory.claiming import Claiming
from wakeful.store.memory.database import MemoryDatabase
from wakeful.store.memory.searching import alarms_in_order, fires_in_order

_ERROR = 300  # characters


class MemoryFigures:
    def __init__(self, open: Callable[[], MemoryDatabase], clock: Clock) -> None:
        self._open = open
        self._clock = clock

    async def storage(self) -> Storage:
        self._open()
        return Storage("memory", 0)

    async def counts(self, owner: str, steps: Sequence[Step], *, most: int) -> list[StepCount]:
        found = []
        for since, until in steps:
            fires = list(fires_in_order(self._open(), FireQuery(owner=owner, since=since, until=until)))
            failed = sum(fire.status in UNSUCCESSFUL for fire in fires)
            statuses = Counter(fire.status for fire in fires[:most])
            found.append(StepCount(dict(sorted(statuses.items())), min(most, failed)))
        return found

    async def latest(self, owner: str, steps: Sequence[Step], *, each: int) -> list[FireSummary]:
        found: list[Fire] = []
        for since, until in steps:
            if owner:
                own = fires_in_order(self._open(), FireQuery(owner=owner, since=since, until=until))
                found += islice(own, each)
            else:
                found += self._changed(since, until)[:each]
        return [_summary(fire) for fire in found]

    async def changed(self, steps: Sequence[Step], *, most: int) -> list[int]:
        return [min(most, len(self._changed(since, until))) for since, until in steps]

    def _changed(self, since: datetime, until: datetime) -> list[Fire]:
        """The fires of all owners that last changed in a step, the latest first."""
        since, until = whole_ms(since), whole_ms(until)
        fires = [fire for fire in self._open().fires.values() if since <= fire.updated_at < until]
        return sorted(fires, key=lambda fire: fire.updated_at, reverse=True)

    async def due(self, *, lease: timedelta, most: int) -> list[DueOfOwner]:
        claiming = Claiming(self._open(), whole_ms(self._clock.now()), lease)
        found: dict[tuple[str, str], list[datetime]] = {}
        for target in claiming.database.due:
            for alarm in islice(claiming.due(target), most):
                found.setdefault((target, alarm.owner_did), []).append(alarm.next_fire_at)
        waiting = [DueOfOwner(target, owner, len(at), min(at)) for (target, owner), at in found.items()]
        return sorted(waiting, key=lambda one: (-one.count, one.target, one.owner))

    async def owners(self, *, after: str, limit: int, most: int, since: datetime) -> list[OwnerUse]:
        database = self._open()
        named = sorted(owner for owner, alarms in database.ids_of.items() if owner > after and alarms)
        return [_use(database, owner, most, since) for owner in named[:limit]]


def _use(database: MemoryDatabase, owner: str, most: int, since: datetime) -> OwnerUse:
    alarms = list(islice(alarms_in_order(database, AlarmQuery(owner=owner)), most))
    fires = fires_in_order(database, FireQuery(owner=owner, since=since))
    return OwnerUse(
        owner,
        len(alarms),
        sum(alarm.status in PENDING for alarm in alarms),
        sum(len(alarm.wake_message.encode()) + len(alarm.payload_json.encode()) for alarm in alarms),
        min(most, sum(fire.status in UNSUCCESSFUL for fire in fires)),
    )


def _summary(fire: Fire) -> FireSummary:
    error = (fire.last_error or fire.reason)[:_ERROR]
    moments = (fire.scheduled_for, fire.started_at, fire.delivered_at, fire.updated_at)
    return FireSummary(fire.target, fire.owner_did, fire.status, *moments, error)

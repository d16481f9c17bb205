"""Writing a change: an alarm, its fires, its events, its cost and its row together, and only by whoever holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar

import apsw
from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.model.alarm import Alarm, Change, Fire
from wakeful.moments import stamp
from wakeful.store import Settled
from wakeful.store.columns import DISPATCH, FIXED
from wakeful.store.memory.database import MemoryDatabase, kept, kept_alarm, kept_fire
from wakeful.store.memory.maintenance import add_costs
from wakeful.store.queries import Naming
from wakeful.store.records import written_events
from wakeful.store.sqlite.sql_tasks import SqliteTasks
from wakeful.store.sqlite.writer import Work
from wakeful.store.sqlite.writes import BAD_VALUE

APPLIED: Final = Settled("applied")
_EDITED: Final = Settled("edited")
_LOST: Final = Settled("lost")


def settled(database: MemoryDatabase, change: Change, *, stamp: str) -> Settled:
    """Write a change if its claim and version still hold. `stamp`: the moment, for rows that ask for it."""
    held = database.alarms.get(change.after.id)
    if held is None or held.claim != change.claim:
        return _LOST
    if held.version != change.version:
        return _EDITED
    try:
        return _write(database, held, change, stamp)
    except BAD_VALUE as error:
        return Settled("refused", str(error))


def _write(database: MemoryDatabase, held: Alarm, change: Change, stamp: str) -> Settled:
    # What may be refused comes first: nothing has to be taken back.
    after = kept_alarm(_written(held, change))
    fires = [kept_fire(fire) for fire in change.fires]
    events = [kept(event) for event in written_events(change)]
    is_settlement = change.after.version == change.version  # reports and edits raise it
    if is_settlement and any(_is_reported_otherwise(database, fire) for fire in fires):
        return _EDITED
    if change.row is not None:
        database.other_tables.put_row(change.row, stamp)
    database.put_alarm(after)
    for fire in fires:
        database.put_fire(fire)
    for event in events:
        database.add_event(event)
    if change.former is not None:
        database.forget_former(after.id)
    add_costs(database, change)
    if change.seen is not None:
        database.seen[after.id, change.seen.name] = change.seen.value
    return APPLIED


def _written(held: Alarm, change: Change) -> Alarm:
    """The alarm with what the change writes: an owner's words only where it is an edit, what is fixed never."""
    if change.edited:
        return replace(change.after, **{name: getattr(held, name) for name in FIXED})
    return replace(held, **{name: getattr(change.after, name) for name in DISPATCH})


def _is_reported_otherwise(database: MemoryDatabase, fire: Fire) -> bool:
    """Whether a report has set a status that this would replace."""
    known = database.fires.get((fire.alarm_id, fire.scheduled_for))
    if known is None:
        return False
    if known.status == "completed" and fire.status != "completed":
        return True
    return known.reason == "reported" and fire.status not in ("failed", "retrying")


T = TypeVar("T")
Open = Callable[[], MemoryDatabase]


def memory_tasks(open: Open, clock: Clock) -> SqliteTasks:
    async def read(work: Work[Any]) -> Any:
        return open().other_tables.read(work)

    async def long_read(work: Work[Any], _owner: str) -> Any:
        return open().other_tables.read(work)

    return SqliteTasks(
        _Writes(open), read, long_read, _AlarmsInMemory(open, clock), path="", naming=Naming(), clock=clock
    )


class _Writes:
    def __init__(self, open: Open) -> None:
        self._open = open

    async def submit(self, work: Work[T], *, alone: bool = False) -> T:
        return self._open().other_tables.write(work, alone=alone)


class _AlarmsInMemory:
    def __init__(self, open: Open, clock: Clock) -> None:
        self._open = open
        self._clock = clock

    def savepoint(self, db: apsw.Connection) -> AbstractContextManager[Any]:
        return self._both(db)

    @contextmanager
    def _both(self, db: apsw.Connection) -> Iterator[None]:
        with self._open().savepoint(), db:
            yield

    def settle(self, _db: apsw.Connection, change: Change) -> Settled:
        return settled(self._open(), change, stamp=stamp(self._clock.now()))

    def add(self, _db: apsw.Connection, alarm: Alarm) -> None:
        database, alarm = self._open(), kept_alarm(alarm)
        if alarm.id not in database.alarms and database.with_key(alarm.owner_did, alarm.idempotency_key) is None:
            database.put_alarm(alarm)

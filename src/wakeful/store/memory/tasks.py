"""SQL tasks beside a memory database: their table is one of the other tables, and their alarms are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import apsw

from wakeful.alarm import Alarm, Change
from wakeful.clock import Clock
from wakeful.moments import stamp
from wakeful.store import Settled
from wakeful.store.memory.database import MemoryDatabase, kept_alarm
from wakeful.store.memory.settling import settled
from wakeful.store.queries import Naming
from wakeful.store.sqlite.queued_work import Work
from wakeful.store.sqlite.tasks import SqliteTasks

T = TypeVar("T")
Open = Callable[[], MemoryDatabase]


def memory_tasks(open: Open, clock: Clock) -> SqliteTasks:
    async def read(work: Work[Any]) -> Any:
        return open().other_tables.read(work)

    async def look(work: Work[Any], _owner: str) -> Any:
        return open().other_tables.read(work)

    return SqliteTasks(_Writes(open), read, look, _AlarmsInMemory(open, clock), path="", naming=Naming(), clock=clock)


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

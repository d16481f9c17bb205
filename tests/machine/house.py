"""A real store with a clock moved by hand, on an event loop of its own: Hypothesis calls from outside any loop.

Nothing here waits for the disk: what survives a power cut is not asked, and the search gets further in the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from tests.conftest import Cluster
from wakeful.store import Store
from wakeful.store.sqlite import SqliteStore
from wakeful.store.sqlite import file as sqlite_file
from wakeful.testing import ManualClock
from wakeful.testing.manual_clock import NEW_YEAR

T = TypeVar("T")
_TABLES = ("events", "fires", "alarms")


class House:
    """One database for all examples; each finds it empty and the clock at New Year."""

    def __init__(self, store: Store, clock: ManualClock, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.store = store
        self.clock = clock
        self._run = run
        self._clear: Callable[[], Coroutine[Any, Any, None]]

    def do(self, verb: Coroutine[Any, Any, T]) -> T:
        done: T = self._run(verb)
        return done

    def begin(self) -> None:
        self.clock.set_back(self.clock.now() - NEW_YEAR)
        self.do(self._clear())


@contextmanager
def sqlite_house(directory: Path) -> Iterator[House]:
    path = str(directory / "wakeful.db")
    clock = ManualClock()
    with asyncio.Runner() as runner, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "SYNCHRONOUS", "off")
        house = House(SqliteStore(path, clock=clock), clock, runner.run)

        async def clear() -> None:
            db = apsw.Connection(path)
            try:
                with db:
                    for table in _TABLES:
                        db.execute(f"delete from {table}")
            finally:
                db.close()

        house._clear = clear
        house.do(house.store.migrate())
        try:
            yield house
        finally:
            house.do(house.store.close())


@contextmanager
def postgres_house() -> Iterator[House]:
    import asyncpg

    from wakeful.store.postgres import PostgresStore

    cluster = Cluster()
    clock = ManualClock()
    try:
        with asyncio.Runner() as runner:
            house = House(PostgresStore(cluster.dsn, clock=clock), clock, runner.run)
            connection = runner.run(asyncpg.connect(cluster.dsn))
            runner.run(connection.execute("alter system set fsync = off"))
            runner.run(connection.execute("select pg_reload_conf()"))

            async def clear() -> None:
                await connection.execute("".join(f"delete from {table};" for table in _TABLES))

            house._clear = clear
            house.do(house.store.migrate())
            try:
                yield house
            finally:
                house.do(house.store.close())
                house.do(connection.close())
    finally:
        cluster.stop()

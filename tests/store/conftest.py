"""The stores under test, each empty and on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from wakeful.store import Store
from wakeful.store.queries import Naming
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock

if TYPE_CHECKING:
    from wakeful.testing.conformance import Outbox

    from .postgres_world import World


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[tuple[Store, Outbox]]:
    """A migrated store, and another program's table in the same database."""
    if request.param == "sqlite":
        path = tmp_path / "wakeful.db"
        store: Any = SqliteStore(str(path), clock=clock)
        outbox: Any = SqliteOutbox(path)
        await store.migrate()
    else:
        from wakeful.store.postgres import PostgresStore  # not everyone has its driver

        dsn, schema = request.getfixturevalue("pg_dsn"), request.getfixturevalue("pg_migrated")
        store = PostgresStore(dsn, naming=Naming(schema=schema), clock=clock)
        outbox = PostgresOutbox(dsn, schema)
    await outbox.create()
    yield store, outbox
    await store.close()


@pytest.fixture
def store(place: tuple[Store, Outbox]) -> Store:
    return place[0]


@pytest.fixture
def outbox(place: tuple[Store, Outbox]) -> Outbox:
    return place[1]


@pytest.fixture
async def own_world(pg_own_dsn: str, pg_own_schema: str) -> AsyncIterator[World]:
    """Tables in a cluster of the tests' own: its socket can be reached by another way, and every role is let in."""
    from .postgres_world import World

    world = World(pg_own_dsn, pg_own_schema)
    await world.store().migrate()
    yield world
    await world.close()


class SqliteOutbox:
    table = "outbox"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def create(self) -> None:
        self._run("create table outbox (fire_id text primary key, body text not null)")

    async def rows(self) -> list[tuple[str, str]]:
        return self._run("select fire_id, body from outbox")

    async def run(self, sql: str) -> None:
        self._run(sql)

    def _run(self, sql: str) -> list[Any]:
        # Not Python's own sqlite3: two copies of SQLite in one process undo each other's locks on a file.
        db = apsw.Connection(str(self._path))
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()


class PostgresOutbox:
    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self.table = f"{schema}.outbox"

    async def create(self) -> None:
        await self._run(f"create table {self.table} (fire_id text primary key, body text not null)")

    async def rows(self) -> list[tuple[str, str]]:
        return [tuple(row) for row in await self._run(f"select fire_id, body from {self.table}")]

    async def run(self, sql: str) -> None:
        await self._run(sql)

    async def _run(self, sql: str) -> list[Any]:
        import asyncpg

        db = await asyncpg.connect(self._dsn)
        try:
            return list(await db.fetch(sql))
        finally:
            await db.close()

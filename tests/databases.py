"""A database for each test. In PostgreSQL a schema is migrated once and emptied for the next: that is what costs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg
import pytest

from wakeful.store.postgres import PostgresStore
from wakeful.store.queries import Naming

T = TypeVar("T")
OUTBOX = "outbox"  # another program's table, which a test may have made beside ours

# Whatever a test may have changed of the schema itself, or of its ledger, which is not emptied: then it is not used
# again.
_SHAPE = """
select array(select (relname, relkind, relnatts, relacl, reloptions)::text from pg_class
              where relnamespace = $1::regnamespace order by relname)
    || array(select (proname, prosrc)::text from pg_proc where pronamespace = $1::regnamespace order by proname)
    || array(select (tgrelid::regclass, tgname, tgenabled)::text from pg_trigger
               join pg_class on pg_class.oid = tgrelid where relnamespace = $1::regnamespace order by 1)
    || array(select (conrelid::regclass, conname, convalidated)::text from pg_constraint
              where connamespace = $1::regnamespace order by 1)
"""
_EMPTY = """
do $$ declare name regclass; filled boolean; begin
    for name in select oid from pg_class
                 where relnamespace = '{schema}'::regnamespace and relkind = 'r' and relname <> 'wakeful_migrations'
    loop
        execute format('select exists (select from %s)', name) into filled;
        if filled then
            execute format('truncate %s restart identity', name);
        end if;
    end loop;
end $$
"""


def database_of(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """The settings of an empty database of the store that the fixture's parameter names."""
    if request.param == "sqlite":
        return {"db": str(tmp_path / "wakeful.db")}
    return {"db": request.getfixturevalue("pg_dsn"), "schema": request.getfixturevalue("pg_migrated")}


class MigratedSchemas:
    """Those of one database. Its connection has a loop and a thread of its own: fixtures of every kind can ask."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="schemas", daemon=True)
        self._thread.start()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._free: list[str] = []
        self._shapes: dict[str, list[str]] = {}

    def take(self) -> str:
        """The name of one that is as after a migration."""
        return self._free.pop() if self._free else self._run(self._make())

    def give_back(self, name: str) -> None:
        if self._run(self._as_before(name)):
            self._free.append(name)

    def drop(self, name: str) -> None:
        self._run(self._drop(name))

    def close(self) -> None:
        if self._connection is not None:
            self._run(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _make(self) -> str:
        name = f"w{uuid4().hex[:12]}"
        store = PostgresStore(self._dsn, naming=Naming(schema=name))
        await store.migrate()
        await store.close()
        self._shapes[name] = await self._shape(name)
        return name

    async def _as_before(self, name: str) -> bool:
        """Emptied, if nothing else was changed; dropped if something was."""
        connection = await self._connected()
        await connection.execute(f"drop table if exists {name}.{OUTBOX}")
        if await self._shape(name) != self._shapes[name]:
            await self._drop(name)
            return False
        await connection.execute(_EMPTY.format(schema=name))
        return True

    async def _drop(self, name: str) -> None:
        connection = await self._connected()
        await connection.execute(f"drop schema if exists {name} cascade")

    async def _shape(self, name: str) -> list[str]:
        connection = await self._connected()
        if await connection.fetchval("select to_regnamespace($1)", name) is None:
            return []
        shape: list[str] = await connection.fetchval(_SHAPE, name)
        ledger = f"{name}.wakeful_migrations"
        if await connection.fetchval("select to_regclass($1)", ledger) is None:
            return shape
        steps = await connection.fetch(f"select (service, version)::text from {ledger} order by 1")
        return [*shape, *(step[0] for step in steps)]

    async def _connected(self) -> asyncpg.Connection[asyncpg.Record]:
        try:
            if self._connection is not None:
                await self._connection.execute("select 1")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            self._connection = None  # a test ended every session there was
        if self._connection is None:
            self._connection = await asyncpg.connect(self._dsn)
            # A store that a failed test left open must not keep the next tests waiting.
            await self._connection.execute("set lock_timeout = '5s'; set client_min_messages = warning")
        return self._connection

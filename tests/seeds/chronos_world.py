"""A Chronos that has been running for a while: its table as its own migration makes it, and rows of every kind."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest

import tests.store.conftest  # noqa: F401 - before the suite below: it wants its assertions rewritten
from wakeful.clock import Clock
from wakeful.model.alarm import Alarm
from wakeful.process.application import build_store
from wakeful.settings import Settings, load
from wakeful.store import AlarmQuery, Store
from wakeful.store.queries import Naming
from wakeful.store.sqlite import SqliteStore
from wakeful.testing.conformance.making import an_alarm

__all__ = ["DID", "TABLE", "USER", "Chronos", "Here", "an_alarm", "chronos_in", "here_on", "store_on"]

T = TypeVar("T")

DID = "did:matrix:7f3c1a52-9e0b-4d8e-8a61-2b5f0c9d4e11:5d1e7a0c93b2f846"
USER = "7f3c1a52-9e0b-4d8e-8a61-2b5f0c9d4e11"

# Word for word from the page about the data model.
TABLE = """
CREATE TABLE alarms (
    id               UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_did        TEXT NOT NULL,
    user_id          TEXT NOT NULL,
    label            TEXT NOT NULL DEFAULT '',
    kind             TEXT NOT NULL CHECK (kind IN ('once', 'cron')),
    fire_at          TIMESTAMPTZ,
    cron_expr        TEXT NOT NULL DEFAULT '',
    timezone         TEXT NOT NULL DEFAULT 'UTC',
    next_fire_at     TIMESTAMPTZ NOT NULL,
    conversation_id  TEXT NOT NULL DEFAULT '',
    wake_message     TEXT NOT NULL DEFAULT '',
    payload          JSONB NOT NULL DEFAULT '{}'::jsonb,
    status           TEXT NOT NULL DEFAULT 'active'
                     CHECK (status IN ('active', 'fired', 'cancelled', 'failed')),
    idempotency_key  TEXT NOT NULL DEFAULT '',
    max_failures     INT  NOT NULL DEFAULT 5,
    failure_count    INT  NOT NULL DEFAULT 0,
    last_error       TEXT NOT NULL DEFAULT '',
    claimed_at       TIMESTAMPTZ,
    created_at       TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at       TIMESTAMPTZ NOT NULL DEFAULT now(),
    last_fired_at    TIMESTAMPTZ
);
CREATE INDEX alarms_due_idx ON alarms (next_fire_at) WHERE status = 'active';
CREATE INDEX alarms_owner_idx ON alarms (owner_did, created_at DESC);
CREATE UNIQUE INDEX alarms_idempotency_idx
    ON alarms (owner_did, idempotency_key)
    WHERE idempotency_key <> '';
"""
# What a later Chronos added.
LATER = """
ALTER TABLE alarms ADD COLUMN target TEXT NOT NULL DEFAULT 'neo_chat' CHECK (target IN ('neo_chat', 'workforced'));
ALTER TABLE alarms ADD COLUMN occurrence_at TIMESTAMPTZ;
"""


class Chronos:
    """Its table, in a schema of its own."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema
        self.table = f"{schema}.alarms"

    def sql(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        async def ask() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self.dsn, server_settings={"search_path": self.schema})
            try:
                return await connection.fetch(sql, *args)
            finally:
                await connection.close()

        return asyncio.run(ask())

    def script(self, sql: str) -> None:
        for statement in filter(str.strip, sql.split(";\n")):
            self.sql(statement)

    def add(self, **given: Any) -> str:
        """A row of the table; what is not given is what Chronos's own insert leaves to the table, or due in an hour."""
        soon = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
        row: dict[str, Any] = {"owner_did": DID, "user_id": USER, "kind": "once", "wake_message": "wake up"}
        row |= (
            {"fire_at": soon, "next_fire_at": soon} if given.get("kind", "once") == "once" else {"next_fire_at": soon}
        )
        row |= given
        names = ", ".join(row)
        places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
        [added] = self.sql(f"insert into alarms ({names}) values ({places}) returning id", *row.values())
        return str(added[0])

    def add_many(self, count: int) -> None:
        self.sql(
            "insert into alarms (owner_did, user_id, kind, fire_at, next_fire_at, wake_message, idempotency_key)"
            " select $1, $2, 'once', moment, moment, 'number ' || n, 'k' || n"
            " from generate_series(1, $3::integer) as n, lateral (select now() + n * interval '1 day') as at (moment)",
            *(DID, USER, count),
        )

    def rows(self) -> dict[str, dict[str, Any]]:
        found = self.sql("select *, payload::text as payload_text from alarms order by id")
        return {str(row["id"]): dict(row.items()) for row in found}


@contextmanager
def chronos_in(dsn: str, *, later: bool = False) -> Iterator[Chronos]:
    chronos = Chronos(dsn, f"chronos_{uuid.uuid4().hex[:12]}")
    chronos.sql(f"create schema {chronos.schema}")
    chronos.script(TABLE + (LATER if later else ""))
    yield chronos
    chronos.sql(f"drop schema {chronos.schema} cascade")


class Here:
    """Where wakeful keeps its alarms: which database, and the settings that say so."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.given = settings

    @property
    def settings(self) -> Settings:
        return load(environ={}, flags=self.given)

    @property
    def environ(self) -> dict[str, str]:
        return {f"WAKEFUL_{name.upper()}": value for name, value in self.given.items()}

    def ask(self, verb: Callable[[Store], Awaitable[T]]) -> T:
        """Do something with the store, and let go of it."""

        async def asked() -> T:
            store = build_store(self.settings)
            await store.migrate()
            try:
                return await verb(store)
            finally:
                await store.close()

        return asyncio.run(asked())

    def alarms(self) -> dict[str, Alarm]:
        async def read(store: Store) -> dict[str, Any]:
            return {alarm.id: alarm for alarm in await store.find(AlarmQuery(limit=100_000))}

        found: dict[str, Any] = self.ask(read)
        return found


@contextmanager
def here_on(kind: str, request: pytest.FixtureRequest, tmp_path: Path, **more: str) -> Iterator[Here]:
    if kind == "sqlite":
        yield Here({"db": str(tmp_path / "wakeful.db"), **more})
        return
    dsn, schema = request.getfixturevalue("pg_dsn"), f"here_{uuid.uuid4().hex[:12]}"
    yield Here({"db": dsn, "schema": schema, **more})
    Chronos(dsn, schema).sql(f"drop schema if exists {schema} cascade")


@asynccontextmanager
async def store_on(kind: str, request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    """An empty, migrated store on a clock that is moved by hand."""
    store: Any
    if kind == "sqlite":
        store = SqliteStore(str(tmp_path / "wakeful.db"), clock=clock)
    else:
        from wakeful.store.postgres import PostgresStore

        naming = Naming(schema=f"w{uuid.uuid4().hex[:12]}")
        store = PostgresStore(request.getfixturevalue("pg_dsn"), naming=naming, clock=clock)
    await store.migrate()
    yield store
    await store.close()

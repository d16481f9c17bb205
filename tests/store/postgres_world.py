"""What the PostgreSQL tests share: stores that are closed afterwards, alarms to put in, and a look behind the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from wakeful.ids import Ids
from wakeful.model.alarm import Alarm, Change
from wakeful.model.outcome import Completed, Try
from wakeful.rules.settle import settle
from wakeful.store.postgres import PostgresStore
from wakeful.store.queries import Naming

LEASE = timedelta(seconds=30)
_ids = Ids()


def new_alarm(*, due_in: float = -1.0, **fields: Any) -> Alarm:
    now = datetime.now(UTC).replace(microsecond=0)
    due = now + timedelta(seconds=due_in)
    common = {"id": _ids.new(now), "owner_did": "did:x", "user_id": "x", "target": "t", "created_at": now}
    times = {"updated_at": now, "fire_at": due, "next_fire_at": due, "occurrence_at": due}
    return Alarm(**{**common, **times, **fields})


def completed(alarm: Alarm, *, result: str = "ok") -> Change:
    at = alarm.claimed_at or alarm.updated_at
    return settle(alarm, None, Completed(result), Try(at, at))


class World:
    """One schema in one database."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema
        self.alarms = f"{schema}.alarms"
        self._stores: list[PostgresStore] = []
        self._connections: list[asyncpg.Connection[asyncpg.Record]] = []

    def store(self, *, dsn: str = "", **options: Any) -> PostgresStore:
        options.setdefault("naming", Naming(schema=self.schema))
        store = PostgresStore(dsn or self.dsn, **options)
        self._stores.append(store)
        return store

    def dsn_as(self, role: str) -> str:
        """The same database for another role; only in a cluster of the tests' own is everybody let in."""
        assert "postgres:@" in self.dsn, "only of own_world"
        return self.dsn.replace("postgres:@", f"{role}:@")

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        connection = await asyncpg.connect(self.dsn)
        self._connections.append(connection)
        return connection

    async def sql(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(self.dsn)
        try:
            return await connection.fetch(sql, *args)
        finally:
            await connection.close()

    async def value(self, sql: str, *args: Any) -> Any:
        [row] = await self.sql(sql, *args)
        return row[0]

    async def close(self) -> None:
        for connection in self._connections:
            if not connection.is_closed():
                await connection.close()
        for store in self._stores:
            await store.close()

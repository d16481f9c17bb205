"""A gateway's database, SQLite or PostgreSQL, with wakeful in it and another program that speaks only SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import apsw
import asyncpg
import pytest

from tests.acting import acting
from wakeful.dispatcher.sql_tasks import SqlTasks
from wakeful.model.alarm import Alarm, AlarmStatus
from wakeful.process.application import open_local
from wakeful.python.client import LocalWakeful
from wakeful.testing import ManualClock, store_of

MESSAGES = """
create table messages (
    id text primary key, chat_jid text not null, sender text not null, content text not null, timestamp text not null)
"""


def sql_tasks_of(alarms: LocalWakeful) -> SqlTasks:
    [feature] = alarms.dispatcher._features
    assert isinstance(feature, SqlTasks)
    return feature


class Gateway:
    """The other program: SQL, and nothing else."""

    def __init__(self, db: str, clock: ManualClock) -> None:
        self.db = db
        self.clock = clock
        self.is_postgres = "://" in db
        self._wakeful: LocalWakeful | None = None

    async def sql(self, statement: str) -> list[tuple[Any, ...]]:
        if self.is_postgres:
            connection = await asyncpg.connect(self.db)
            try:
                return [tuple(row) for row in await connection.fetch(statement)]
            finally:
                await connection.close()
        db = apsw.Connection(self.db)
        try:
            db.set_busy_timeout(5000)
            return db.execute(statement).fetchall()
        finally:
            db.close()

    async def connect(self) -> bool:
        """What `wakeful db scheduled-tasks` does, and then a process that serves."""
        await self.stop()
        async with open_local(self.db, clock=self.clock) as alarms:
            made = await store_of(alarms).tasks.connect("scheduled_tasks")
        await self.start()
        return made

    async def start(self, **settings: Any) -> None:
        self._wakeful = await open_local(self.db, clock=self.clock, **settings).__aenter__()

    async def stop(self) -> None:
        if self._wakeful is not None:
            await self._wakeful.close()
        self._wakeful = None

    @property
    def wakeful(self) -> LocalWakeful:
        assert self._wakeful is not None
        return self._wakeful

    @property
    def sql_tasks(self) -> SqlTasks:
        return sql_tasks_of(self.wakeful)

    async def pass_time(self, seconds: float = 0) -> int:
        """Let time pass, then let wakeful see to what was changed and what is due."""
        await self.clock.advance(seconds)
        return await self.wakeful.run_due()

    def at(self, seconds: float) -> str:
        """A moment from now as Go writes it."""
        return (self.clock.now() + timedelta(seconds=seconds)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def add(self, id: str, **columns: Any) -> None:
        given = {"id": id, "owner": "main", "chat_jid": "1@g.us", "prompt": f"do {id}", "status": "active"} | columns
        values = ", ".join(
            "null" if value is None else "'" + str(value).replace("'", "''") + "'" for value in given.values()
        )
        await self.sql(f"insert into scheduled_tasks ({', '.join(given)}) values ({values})")

    async def task(self, id: str) -> tuple[str, datetime | None]:
        """Its status and next_run."""
        [(status, next_run)] = await self.sql(f"select status, next_run from scheduled_tasks where id = '{id}'")
        if next_run is None or isinstance(next_run, datetime):
            return status, next_run
        return status, datetime.fromisoformat(next_run)

    async def messages(self) -> list[str]:
        return [row[0] for row in await self.sql("select content from messages order by timestamp, id")]

    async def alarms(self, task: str = "", *, statuses: tuple[AlarmStatus, ...] = ()) -> list[Alarm]:
        found = await acting(self.wakeful.service, "").find(label=task, status=statuses)
        return [alarm for alarm in found if alarm.created_via == "sql"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres"])
async def gateway(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Gateway]:
    """Its database has a table `messages`, and wakeful is not in it yet."""
    if request.param == "sqlite":
        gateway = Gateway(str(tmp_path / "messages.db"), clock)
        await gateway.sql(MESSAGES)
        yield gateway
        await gateway.stop()
        return
    dsn, name = request.getfixturevalue("pg_dsn"), f"g{uuid4().hex[:12]}"
    await _execute(dsn, f"create database {name}")
    gateway = Gateway(urlunsplit(urlsplit(dsn)._replace(path=f"/{name}")), clock)
    await gateway.sql(MESSAGES)
    yield gateway
    await gateway.stop()
    await _execute(dsn, f"drop database {name} with (force)")


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()

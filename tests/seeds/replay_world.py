"""The gateway's own statements, as its programs send them: tables, tasks, run logs and the reading of messages."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import apsw
import asyncpg

from .conftest import Gateway

TASKS_V1: Final = """
create table if not exists scheduled_tasks (
    id text primary key, owner text not null, chat_jid text not null, prompt text not null, cron text, next_run text,
    status text not null default 'active', created_at text not null)
"""
BY_NEXT_RUN: Final = "create index if not exists idx_tasks_next on scheduled_tasks (status, next_run)"
TASKS_V2: Final = "alter table scheduled_tasks add column context_mode text not null default 'group'"
RUN_LOGS: Final = """
create table if not exists task_run_logs (
    id integer primary key autoincrement, task_id text not null references scheduled_tasks (id) on delete cascade,
    run_at text not null, duration_ms integer, status text not null, result text, error text)
"""
BY_TASK: Final = "create index if not exists idx_task_run_logs_task on task_run_logs (task_id)"
LEDGER: Final = """
create table if not exists migrations (
    service text not null, version integer not null, applied_at text not null, primary key (service, version))
"""
MESSAGES: Final = """
create table if not exists messages (
    id text primary key, chat_jid text not null, sender text not null, sender_name text, content text not null,
    timestamp text not null, is_from_me integer default 0, is_bot_message integer default 0, forwarded_from text,
    reply_to_text text, reply_to_sender text, reply_to_id text, source text, group_folder text,
    topic text not null default '', routed_to text not null default '', verb text not null default '')
"""
BY_CHAT: Final = "create index if not exists idx_messages_chat_ts on messages (chat_jid, timestamp)"
SCHEMA: Final = (LEDGER, MESSAGES, BY_CHAT, TASKS_V1, BY_NEXT_RUN, TASKS_V2, RUN_LOGS, BY_TASK)

INSERT: Final = (
    "insert into scheduled_tasks (id, owner, chat_jid, prompt, cron, next_run, status, created_at, context_mode) "
    "values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
LIST: Final = "select id from scheduled_tasks where owner = ? order by created_at desc"
STATUS: Final = "update scheduled_tasks set status = ? where id = ?"
ADVANCE: Final = "update scheduled_tasks set next_run = ?, status = ? where id = ?"
DELETE: Final = "delete from scheduled_tasks where id = ?"
DUE: Final = "select id, chat_jid, prompt, cron from scheduled_tasks where status = 'active' and next_run <= ?"
TAKE: Final = "update scheduled_tasks set status = 'firing' where status = 'active' and next_run <= ?"
STRANDED: Final = "update scheduled_tasks set status = 'active' where status = 'firing'"
LOG: Final = "insert into task_run_logs (task_id, run_at, duration_ms, status, error) values (?, ?, ?, ?, ?)"
LOGS: Final = "select status, error from task_run_logs where task_id = ? order by id desc limit 50"
STORE: Final = (
    "insert or ignore into messages (id, chat_jid, sender, sender_name, content, timestamp, is_from_me) "
    "values (?, ?, ?, ?, ?, ?, 0)"
)
PICK_UP: Final = (
    "select id, sender, content, timestamp from messages where chat_jid in (?, ?) and timestamp > ? "
    "and is_bot_message = 0 and sender not like ? || '%' order by timestamp limit 200"
)


class Program:
    """One of the gateway's programs, with a connection of its own that keeps foreign keys."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._db: apsw.Connection | None = None
        if not gateway.is_postgres:
            self._db = apsw.Connection(gateway.db)
            self._db.set_busy_timeout(5000)
            self._db.execute("pragma journal_mode = wal; pragma foreign_keys = on").fetchall()

    async def __call__(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        if self._db is not None:
            return self._db.execute(statement, values).fetchall()
        connection = await asyncpg.connect(self._gateway.db)
        try:
            return [tuple(row) for row in await connection.fetch(_postgres(statement), *values)]
        finally:
            await connection.close()

    async def make_tables(self) -> None:
        """Its migrations, each with its line in the shared ledger."""
        await self("drop table messages")  # the fixture's, which is smaller
        for statement in SCHEMA:
            await self(statement)
        for service, version in (("store", 1), ("timed", 1), ("timed", 2)):
            await self("insert into migrations values (?, ?, ?)", service, version, self.go(0))

    async def schedule(self, id: str, cron: str | None, next_run: str | None, **more: str) -> None:
        given = {"owner": "main", "jid": "1@g.us", "status": "active", "mode": "group", "created": self.go(0)} | more
        start = (id, given["owner"], given["jid"], f"do {id}", cron, next_run)
        await self(INSERT, *start, given["status"], given["created"], given["mode"])

    async def task(self, id: str) -> tuple[Any, ...]:
        [row] = await self("select status, next_run from scheduled_tasks where id = ?", id)
        return row

    def go(self, seconds: float, offset: float | None = 0) -> str:
        """A moment from now as Go writes it: whole seconds, with the zone of the writing process."""
        zone = timezone(timedelta(hours=offset or 0))
        text = (self._gateway.clock.now() + timedelta(seconds=seconds)).astimezone(zone).isoformat(timespec="seconds")
        return text.replace("+00:00", "Z")

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


def nanoseconds(moment: datetime, more: int = 0) -> str:
    """As the gateway's own messages have it: as many decimals as are needed."""
    digits = f"{moment.microsecond * 1000 + more:09}".rstrip("0")
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{digits}" if digits else "") + "Z"


def _postgres(statement: str) -> str:
    numbers = iter(range(1, 20))
    statement = re.sub(r"\?", lambda _: f"${next(numbers)}", statement)
    statement = statement.replace(
        "integer primary key autoincrement", "bigint generated always as identity primary key"
    )
    if "insert or ignore" in statement:
        statement = statement.replace("insert or ignore", "insert") + " on conflict do nothing"
    return statement

"""The SQL door on PostgreSQL: one transaction for each plan, on the row's own lock."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from wakeful.alarm import Change, Task, TaskNews, TaskPlan, shows, task_state
from wakeful.errors import InvalidConfig, InvalidRequest, StoreBusy
from wakeful.store import Settled
from wakeful.store.batching import StoreRefused
from wakeful.store.postgres.database import DRIVER_ERRORS, Database, translated
from wakeful.store.postgres.hosts import Lost
from wakeful.store.postgres.writes import LOCK_WAIT, Writes
from wakeful.store.queries import Naming
from wakeful.store.tasks import (
    ID_LENGTH,
    MOVED,
    WRITTEN,
    NotAsRead,
    Planned,
    TaskTable,
    check_columns,
    check_mode,
    check_name,
    filled,
    news_of,
    seen_of,
    seen_text,
    task_of,
    task_sql,
    together,
    unfit_id,
)

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection, Record

_TRIGGERS: Final = 2
_KIND: Final = "select relkind::text from pg_class where oid = to_regclass($1)"
_COLUMNS: Final = """
select attname, format_type(atttypid, atttypmod), attnotnull and not atthasdef and attidentity = ''
  from pg_attribute
 where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""
_TEXT: Final = re.compile(r"(text|citext|name|character|character varying)(\((?P<length>\d+)\))?")
_UTC: Final = """to_char({}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_Sql = Mapping[str, str]


class PostgresTasks:
    def __init__(
        self, database: Database, writes: Writes, *, naming: Naming, moment: Callable[[], datetime | None]
    ) -> None:
        self._database = database
        self._writes = writes
        self._moment = moment
        self._sql = task_sql("postgres", naming)
        self._door: tuple[TaskTable, dict[str, str]] | None = None  # as last seen

    async def connect(self, table: str) -> bool:
        check_name(table)

        async def work(connection: Connection, again: bool) -> bool:
            async with connection.transaction():
                before = await _fit(connection, table)
                if before is None:
                    await connection.execute(self._sql["create_table"].replace("{tasks}", TaskTable(table, {}).quoted))
                found = before or await _shape(connection, table)
                sql = self._filled(found)
                for other in await connection.fetch(sql["disconnect"], table):
                    await connection.execute(self._filled(TaskTable(other[0], found.columns))["unwatch"])
                await connection.fetch(sql["connect"], table, self._moment())
                await connection.execute(sql["watch"])
                await connection.execute(sql["queue_all"])
                return before is None

        return await self._database.run(work)

    async def disconnect(self) -> str:
        async def work(connection: Connection, again: bool) -> str:
            async with connection.transaction():
                name = str(await connection.fetchval(self._sql["connected"]) or "")
                if name and (await _shape(connection, name)).columns:  # else it is gone, and its triggers with it
                    await connection.execute(self._filled(TaskTable(name, {}))["unwatch"])
                await connection.execute(self._sql["disconnect_all"])
                self._door = None
                return name

        return await self._database.run(work)

    async def links(self, *, limit: int) -> dict[str, str]:
        return {row[0]: row[1] for row in await self._database.fetch(self._sql["links"], limit)}

    async def unlink(self, task_ids: Sequence[str]) -> None:
        async def work(connection: Connection, again: bool) -> None:
            await connection.executemany(self._sql["unlink"], [(id,) for id in task_ids])

        await self._database.run(work)

    async def rows(self, table: str, *, limit: int) -> list[Task] | None:
        check_name(table)

        async def work(connection: Connection, again: bool) -> list[Record] | None:
            found = await _fit(connection, table)
            return None if found is None else await connection.fetch(self._filled(found)["list"], "", "", limit)

        rows = await self._database.run(work)
        return None if rows is None else [task for row in rows if (task := task_of(tuple(row))) is not None]

    async def table(self) -> str:
        rows = await self._database.fetch(self._sql["connected"])
        return str(rows[0][0]) if rows else ""

    async def mend(self) -> bool:
        before, self._door = self._door, None  # columns may have been added since

        async def work(connection: Connection, again: bool) -> bool:
            async with connection.transaction():
                door = await self._known_door(connection)
                if door is None:
                    return False
                is_other = before is not None and before[0] != door[0]
                if not is_other and await connection.fetchval(door[1]["watching"], door[0].quoted) == _TRIGGERS:
                    return False
                for name in ("watch", "queue_all"):
                    await connection.execute(door[1][name])
                return True

        return await self._database.run(work)

    async def news(self, *, limit: int, after: int = 0) -> list[TaskNews]:
        async def work(connection: Connection, again: bool) -> list[Record]:
            door = await self._known_door(connection)
            return [] if door is None else await connection.fetch(door[1]["news"], limit, after)

        return [news_of(tuple(row)) for row in await self._database.run(work)]

    async def moved(self, alarm_ids: Sequence[str]) -> dict[str, TaskNews | None]:
        async def work(connection: Connection, again: bool) -> dict[str, TaskNews | None]:
            async with connection.transaction():
                return await self._standing(connection, alarm_ids)

        return await self._database.run(work) if alarm_ids else {}

    async def overtaken(self, connection: Connection, alarm_ids: Sequence[str], *, wait: str) -> Set[str]:
        """Of these alarms, about to be settled, those whose row is not the one that was planned. The rest is held."""
        await connection.fetch(self._sql["hold_alarms"], wait, alarm_ids)
        return (await self._standing(connection, alarm_ids, hold=True)).keys()

    async def _standing(
        self, connection: Connection, alarm_ids: Sequence[str], *, hold: bool = False
    ) -> dict[str, TaskNews | None]:
        linked = [row[0] for row in await connection.fetch(self._sql["links_of"], alarm_ids)]
        door = await self._known_door(connection) if linked else None
        if door is None:
            return dict.fromkeys(linked)
        try:
            async with connection.transaction():  # a savepoint
                held = {row[0] for row in await connection.fetch(door[1]["hold_rows"], linked)} if hold else None
                found = [news_of(tuple(row)) for row in await connection.fetch(door[1]["standing"], linked)]
        except DRIVER_ERRORS as error:
            if isinstance(translated(error), Lost | StoreBusy) or isinstance(error, TimeoutError):
                raise
            self._door = None  # it may have been altered: look again
            return dict.fromkeys(linked)
        is_free = {news.task_id: held is None or news.task_id in held for news in found}
        return {news.alarm_id: news for news in found if news.task != news.seen or not is_free[news.task_id]}

    async def plan(self, plans: Sequence[TaskPlan]) -> list[Planned]:
        async def work(connection: Connection, again: bool) -> list[Planned]:
            door = await self._known_door(connection)
            return [MOVED if door is None else await self._plan(connection, door[1], plan) for plan in plans]

        return await self._database.run(work) if plans else []

    async def _plan(self, connection: Connection, sql: _Sql, plan: TaskPlan) -> Planned:
        try:
            async with connection.transaction():
                # Not long: whoever holds one row keeps the others from being planned, and it is tried again each tick.
                await connection.execute(f"set local lock_timeout = '{LOCK_WAIT}'")
                await self._write_plan(connection, sql, plan)
        except NotAsRead:
            return MOVED
        except DRIVER_ERRORS as error:
            meaning = translated(error)
            if isinstance(meaning, StoreBusy):
                return MOVED
            if isinstance(meaning, StoreRefused):
                return Planned("refused", meaning.message)
            raise
        return WRITTEN

    async def _write_plan(self, connection: Connection, sql: _Sql, plan: TaskPlan) -> None:
        news, id = plan.news, plan.news.task_id
        if news.alarm_id:
            await connection.fetch(sql["hold_alarms"], LOCK_WAIT, [news.alarm_id])
        row = await connection.fetchrow(sql["read"], id)
        link = await connection.fetchrow(sql["linked"], id)
        held = None if link is None else seen_of(link["seen"])
        is_same_link = (link["alarm_id"] if link else "") == news.alarm_id
        if (row and task_of(tuple(row))) != news.task or held != news.seen or not is_same_link:
            raise NotAsRead
        await self._write_alarm(connection, plan)
        if plan.task is None:
            await connection.execute(sql["unlink"], id)
        else:
            seen, trouble = plan.task, ""
            if news.task is not None and (plan.task != news.task or plan.note):
                values = [id, plan.task.status, plan.task.next_run]
                values += [plan.note or None] if "$4" in sql["write"] else []
                seen, trouble = await self._quietly(connection, sql, "write", values, news.task)
            await connection.execute(sql["link"], id, plan.alarm_id, seen_text(seen), together(plan.note, trouble))
        await connection.execute(sql["done"], id, news.upto)

    async def _write_alarm(self, connection: Connection, plan: TaskPlan) -> None:
        now = self._moment()
        if plan.change is not None:
            [answer], _ = await self._writes.settle_slowly(connection, [plan.change], now=now, alone=True, again=False)
            if answer.what != "applied":
                raise NotAsRead
        if plan.new is not None:
            await self._writes.add(connection, [plan.new], now=now, alone=True)

    async def write_back(self, connection: Connection, changes: Sequence[Change], answers: Sequence[Settled]) -> None:
        """Bring the rows of tasks up to date with their alarms, which have just been settled."""
        tasks = [
            change
            for change, answer in zip(changes, answers, strict=True)
            if shows(change) and answer.what == "applied"
        ]
        door = await self._known_door(connection) if tasks else None
        if door is not None:
            for change in tasks:
                await self._follow(connection, door[1], change)

    async def _follow(self, connection: Connection, sql: _Sql, change: Change) -> None:
        alarm = change.after
        link = await connection.fetchrow(sql["link_of"], alarm.id)
        if link is None:
            return
        id, seen = link["task_id"], seen_of(link["seen"])
        status, next_run = task_state(alarm)
        values = [id, status, next_run, seen.status, seen.next_run, seen.cron]
        now, trouble = await self._quietly(connection, sql, "write_back", values, seen)
        if now != seen or trouble:
            await connection.execute(sql["link"], id, alarm.id, seen_text(now), trouble or link["note"])

    async def _quietly(
        self, connection: Connection, sql: _Sql, name: str, values: Sequence[Any], before: Task
    ) -> tuple[Task, str]:
        """Write to the other program's table. What it refuses is noted: the alarm goes on."""
        try:
            async with connection.transaction():
                row = await connection.fetchrow(sql[name], *values)
                # Read again: the table may have triggers of its own, and what they left is what stands.
                row = row and (await connection.fetchrow(sql["read"], before.id) or row)
        except DRIVER_ERRORS as error:
            if isinstance(translated(error), Lost) or isinstance(error, TimeoutError):
                raise
            self._door = None  # it may have been altered: look again
            return before, f"the row could not be written: {str(error).strip()}"
        return (row and task_of(tuple(row))) or before, ""

    async def find(self, *, owner: str = "", id: str = "", limit: int = 500) -> list[Task]:
        async def work(connection: Connection, again: bool) -> list[Record]:
            return await connection.fetch((await self._must_door(connection))[1]["list"], owner, id, limit)

        rows = await self._database.run(work)
        return [task for row in rows if (task := task_of(tuple(row))) is not None]

    async def insert(self, task: Task) -> bool:
        return await self._changed("insert", [*_given(task), task.created_at, task.context_mode], task)

    async def update(self, task: Task, *, was: Task) -> bool:
        before = [was.prompt, was.cron, was.next_run, was.status]
        return await self._changed("update", [*_given(task), *before, task.context_mode], task)

    async def delete(self, id: str, *, owner: str | None) -> bool:
        return await self._changed("delete", [id, owner, None], Task(id=id))

    async def notes(self, *, limit: int = 100) -> dict[str, str]:
        return {row[0]: row[1] for row in await self._database.fetch(self._sql["notes"], limit)}

    async def _changed(self, name: str, values: list[Any], task: Task) -> bool:
        async def work(connection: Connection, again: bool) -> bool:
            table, sql = await self._must_door(connection)
            check_mode(task, table)
            asked = values if f"${len(values)}" in sql[name] else values[:-1]  # a table may do without context_mode
            return not (await connection.execute(sql[name], *asked)).endswith(" 0")

        try:
            return await self._database.run(work)
        except StoreRefused as error:
            raise InvalidRequest(f"the table of tasks does not take it: {error.message}", field="task") from error

    async def _known_door(self, connection: Connection) -> tuple[TaskTable, dict[str, str]] | None:
        if self._door is None and (name := await connection.fetchval(self._sql["connected"])):
            found = await _shape(connection, name)
            if found.columns:  # a table that was dropped may come back
                self._door = found, self._filled(found)
        return self._door

    async def _must_door(self, connection: Connection) -> tuple[TaskTable, dict[str, str]]:
        door = await self._known_door(connection)
        if door is None:
            raise InvalidRequest("no table of tasks is connected", fix="Run `wakeful db scheduled-tasks`.")
        return door

    def _filled(self, table: TaskTable) -> dict[str, str]:
        texts = {name: _text(name, table.columns.get(name)) for name in Task.__struct_fields__}
        parts = {f"{name}_type": table.columns.get(name, "text") for name in ("id", "next_run", "created_at")}
        mode = {"insert": "$9", "update": "$12"}
        parts |= {"columns": ", ".join(texts.values()), "next_run": texts["next_run"], "note": "$4", "mode": "$mode"}
        sql = filled(self._sql, table, parts)
        return {name: text.replace("$mode", mode.get(name, "")) for name, text in sql.items()}


def _given(task: Task) -> list[str | None]:
    return [task.id, task.owner, task.chat_jid, task.prompt, task.cron, task.next_run, task.status]


def _text(column: str, type: str | None) -> str:
    """A column as text; moments in UTC whatever the session's zone."""
    match type:
        case None:
            return "null::text"
        case "timestamp with time zone":
            return _UTC.format(f"task.{column} at time zone 'utc'")
        case "timestamp without time zone":
            return _UTC.format(f"task.{column}")
        case _:
            return f"task.{column}::text"


async def _shape(connection: Connection, table: str) -> TaskTable:
    found = TaskTable(table, {})
    rows = await connection.fetch(_COLUMNS, found.quoted)
    return TaskTable(table, {row[0]: row[1] for row in rows}, tuple(row[0] for row in rows if row[2]))


async def _fit(connection: Connection, table: str) -> TaskTable | None:
    """A table as it is, where it can be one of tasks; None where there is none."""
    kind = await connection.fetchval(_KIND, TaskTable(table, {}).quoted)
    if kind is None:
        return None
    if kind not in ("r", "p"):
        raise InvalidConfig(f"{table} is not a table", field="table", fix="Name a table.")
    found = await _shape(connection, table)
    check_columns(found)
    type = found.columns["id"]
    is_text = _TEXT.fullmatch(type)
    if is_text is None or int(is_text["length"] or ID_LENGTH) < ID_LENGTH:
        raise unfit_id(table, type)
    return found

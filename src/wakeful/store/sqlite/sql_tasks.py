"""SQL tasks on SQLite: everything that touches the other program's table goes through the writer thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

import apsw
from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.alarm import Alarm, Change
from wakeful.moments import unix_ms
from wakeful.rules.task import Task, TaskNews, shows
from wakeful.store import Settled
from wakeful.store.queries import Naming, migrations
from wakeful.store.rows import Row, from_alarm
from wakeful.store.sql_tasks import (
    Planned,
    SqlTasks,
    TaskConnection,
    TaskTable,
    TaskWork,
    at_once,
    check_name,
    filled,
    news_of,
    task_of,
    unfit_id,
)
from wakeful.store.sqlite import writes as sqlite_writes
from wakeful.store.sqlite.file import describe, open_as_it_is
from wakeful.store.sqlite.schema import apply_steps
from wakeful.store.sqlite.writer import Work

log = logging.getLogger("wakeful.store")

T = TypeVar("T")
_COLUMNS: Final = """select name, type, "notnull" and dflt_value is null, pk from pragma_table_info(?)"""
_REFUSED: Final = (apsw.ConstraintError, apsw.SQLError, apsw.MismatchError)


class AlarmWrites(Protocol):
    """How alarms are written together with a table of tasks: beside it in the same file, or in memory."""

    def savepoint(self, db: apsw.Connection) -> AbstractContextManager[Any]:
        """What is written inside is taken back if that fails, in the table of tasks too."""
        ...

    def settle(self, db: apsw.Connection, change: Change) -> Settled: ...

    def add(self, db: apsw.Connection, alarm: Alarm) -> None: ...


class AlarmsInFile:
    def __init__(self, sql: Mapping[str, str]) -> None:
        self._sql = sql

    def savepoint(self, db: apsw.Connection) -> AbstractContextManager[Any]:
        return db

    def settle(self, db: apsw.Connection, change: Change) -> Settled:
        [answer] = sqlite_writes.settle(db, self._sql, [sqlite_writes.written(change)])
        return answer

    def add(self, db: apsw.Connection, alarm: Alarm) -> None:
        sqlite_writes.add(db, self._sql, [from_alarm(alarm)])


class SubmitsWork(Protocol):
    """A writer, as far as tasks need one."""

    def submit(self, work: Work[T], *, alone: bool = False) -> Awaitable[T]: ...


class SqliteTaskConnection(TaskConnection):
    """Every call is done when it returns: nothing here waits."""

    def __init__(self, db: apsw.Connection, alarms: AlarmWrites) -> None:
        self.db = db
        self._alarms = alarms

    async def fetch(self, sql: str, /, **values: Any) -> Sequence[Row]:
        return self.db.execute(sql, values).fetchall()

    async def run(self, sql: str) -> None:
        self.db.execute(sql)

    def transaction(self) -> Savepoint:
        return Savepoint(self._alarms.savepoint(self.db))

    async def check(self, table: str) -> bool:
        if "." in table:
            raise InvalidConfig("SQLite has no schemas", field="table", fix="Name a table of this file.")
        kind = self.db.execute("select type from sqlite_master where name = ? collate nocase", (table,)).get
        if kind not in (None, "table"):
            raise InvalidConfig(f"{table} is a {kind}", field="table", fix="Name a table.")
        return kind is not None

    async def shape(self, table: str) -> TaskTable:
        rows = [(str(name).lower(), str(type), bool(needed)) for name, type, needed, _ in self._columns(table)]
        required = tuple(name for name, _, needed in rows if needed)
        return TaskTable(table, {name: type for name, type, _ in rows}, required)

    async def edition(self, table: TaskTable) -> Any:
        return self.db.execute("pragma schema_version").get

    def check_types(self, table: TaskTable) -> None:
        # An integer that is the primary key alone is the row's number: no text fits. Elsewhere types are only a hint.
        keys = [(str(name).lower(), str(type).lower()) for name, type, _, pk in self._columns(table.name) if pk]
        if keys == [("id", "integer")] or "blob" in table.columns["id"].lower():
            raise unfit_id(table.name, table.columns["id"])

    def _columns(self, table: str) -> Iterable[Row]:
        return self.db.execute(_COLUMNS, (table,))

    def task(self, row: Row) -> Task | None:
        return task_of(texts(self.db, row))

    async def hold(self, sql: Mapping[str, str], alarm_id: str) -> None:
        """The whole database is ours until the transaction ends."""

    async def settle(self, change: Change) -> Settled:
        return self._alarms.settle(self.db, change)

    async def add(self, alarm: Alarm) -> None:
        self._alarms.add(self.db, alarm)

    async def quietly(self, sql: Mapping[str, str], name: str, values: Mapping[str, Any]) -> Row | None:
        last = self.db.execute(sql["last_change"]).get
        row: Row | None = self.db.execute(sql[name], values).fetchone()
        self.db.execute(sql["forget_own"], {"last": last})
        return row

    def refusal(self, error: Exception) -> Planned | None:
        return Planned("refused", str(error)) if isinstance(error, sqlite_writes.BAD_VALUE) else None

    def complaint(self, error: Exception) -> str | None:
        return str(error) if isinstance(error, _REFUSED) else None


class Savepoint:
    def __init__(self, savepoint: AbstractContextManager[Any]) -> None:
        self._savepoint = savepoint

    async def __aenter__(self) -> None:
        self._savepoint.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._savepoint.__exit__(kind, error, trace)


class SqliteTasks(SqlTasks[SqliteTaskConnection]):
    def __init__(
        self,
        writer: SubmitsWork,
        read: Callable[[Work[Any]], Awaitable[Any]],
        long_read: Callable[[Work[Any], str], Awaitable[Any]],
        alarms: AlarmWrites,
        *,
        path: str,
        naming: Naming,
        clock: Clock,
    ) -> None:
        super().__init__("sqlite", naming)
        self._path = path
        self._naming = naming
        self._writer = writer
        self._reader = read
        self._long_reader = long_read
        self._alarms = alarms
        self._clock = clock

    def _on(self, db: apsw.Connection) -> SqliteTaskConnection:
        return SqliteTaskConnection(db, self._alarms)

    async def _read(self, work: TaskWork[SqliteTaskConnection, T]) -> T:
        found: T = await self._reader(lambda db: at_once(work(self._on(db))))
        return found

    async def _write(self, work: TaskWork[SqliteTaskConnection, T]) -> T:
        return await self._writer.submit(lambda db: at_once(work(self._on(db))))

    async def _long_read(self, work: TaskWork[SqliteTaskConnection, T], owner: str) -> T:
        found: T = await self._long_reader(lambda db: at_once(work(self._on(db))), owner)
        return found

    async def _change(self, work: TaskWork[SqliteTaskConnection, bool], *, alone: bool = False) -> bool:
        def refusing(db: apsw.Connection) -> bool:
            try:
                return at_once(work(self._on(db)))
            except _REFUSED as error:
                raise InvalidRequest(f"the table of tasks does not take it: {error}", field="task") from error

        return await self._writer.submit(refusing, alone=alone)

    def _moment(self) -> int:
        return unix_ms(self._clock.now())

    def _filled(self, table: TaskTable) -> dict[str, str]:
        # As bytes, and read here: what another program wrote need not be text at all.
        own = ", ".join(f"cast({name} as blob)" if name in table.columns else "null" for name in Task.__struct_fields__)
        return filled(self._sql, table, {"columns": own.replace("cast(", "cast(task."), "own_columns": own})

    async def rehearse(self, table: str) -> None:
        check_name(table)
        await asyncio.to_thread(self._rehearse, table)

    def _rehearse(self, table: str) -> None:
        if not os.path.exists(self._path):
            return  # a new file takes everything
        try:
            with contextlib.closing(open_as_it_is(self._path)) as db:
                db.execute("begin immediate")
                try:
                    apply_steps(db, self._naming, migrations("sqlite", self._naming), self._clock.now())
                    at_once(self._connect(self._on(db), table))
                finally:
                    db.execute("rollback")
        except Exception as error:
            raise describe(error, self._path) from error

    async def news(self, *, limit: int, after: int = 0) -> list[TaskNews]:
        async def work(connection: SqliteTaskConnection) -> list[FoundTask]:
            if (known := await self._known_table(connection)) is None:
                return []
            return read_news(connection.db, known[1]["news"], {"limit": limit, "after": after})

        found = await self._read(work)
        for one in found:
            if one.nameless:
                await self._set_aside(one)
        return [one.news for one in found if not one.nameless]

    async def _set_aside(self, found: FoundTask) -> None:
        """A row whose id no link and no alarm could name: it says so itself, and is not read again as it is."""
        task = Task(id=found.news.task_id)
        values = {"id": found.id, "status": "error", "note": "id: it is not text"}
        as_text = "cast(:id as text)"

        async def work(connection: SqliteTaskConnection) -> None:
            if (known := await self._known_table(connection)) is None:
                return
            _, sql = known
            # Bytes equal nothing but a BLOB: a row of the same name that was written since is not touched.
            write = sql["write"].replace("= :id", "= :id" if found.is_text else f"in (:id, {as_text})")
            write = write.replace(":next_run", "next_run")
            await self._write_row(connection, sql | {"write": write}, "write", values, task)
            await connection.fetch(sql["done"].replace(":id", as_text), id=found.id, upto=found.news.upto)

        await self._write(work)

    def overtaken(self, db: apsw.Connection, alarm_ids: Sequence[str]) -> dict[str, TaskNews | None]:
        """`moved` on a connection that is handed in: inside the writer's transaction nobody can change a row."""
        return at_once(self._standing(self._on(db), alarm_ids))

    async def _standing(self, connection: SqliteTaskConnection, alarm_ids: Sequence[str]) -> dict[str, TaskNews | None]:
        known = await self._known_table(connection)
        found: dict[str, TaskNews | None] = {}
        for alarm_id in alarm_ids:
            if not await connection.fetch(self._sql["link_of"], alarm_id=alarm_id):
                continue
            news = None if known is None else self._news_of(connection.db, known[1], alarm_id)
            if news is None or news.task != news.seen:
                found[alarm_id] = news
        return found

    def _news_of(self, db: apsw.Connection, sql: Mapping[str, str], alarm_id: str) -> TaskNews | None:
        try:
            row = db.execute(sql["standing"], {"alarm_id": alarm_id}).fetchone()
            return None if row is None else news_from(db, row)
        except (apsw.SQLError, ValueError):  # one row, or a table in the making, is nobody else's trouble
            self._table = None  # it may have been altered: read again
            return None

    def follow(self, db: apsw.Connection, changes: Sequence[Change]) -> None:
        """Bring the rows of tasks up to date with their alarms, which have just been settled."""
        connection = self._on(db)
        if (known := at_once(self._known_table(connection))) is None:
            return
        for change in changes:
            try:
                with db:
                    if shows(change):
                        at_once(self._follow(connection, known[1], change.after))
            except sqlite_writes.BAD_VALUE as error:  # the alarm is settled; its row, or what we kept of it, is not fit
                of = {"alarm_id": change.after.id}
                log.warning("a task's row does not follow its alarm: %s", type(error).__name__, extra=of)

    async def delete(self, id: str, *, owner: str | None) -> bool:
        async def work(connection: SqliteTaskConnection) -> bool:
            _, sql = await self._required_table(connection)
            db = connection.db
            # Rows that hang on the task go with it, as its own program would have it; for nothing else of ours.
            db.execute("pragma foreign_keys=on; begin immediate")
            try:
                deleted = bool(await connection.fetch(sql["delete"], id=id, owner=owner))
                db.execute("commit")
                return deleted
            finally:
                if db.in_transaction:
                    db.execute("rollback")
                db.execute("pragma foreign_keys=off")

        return await self._change(work, alone=True)


class FoundTask(Struct, frozen=True):
    """A task that was changed, and its id as the table has it."""

    news: TaskNews
    id: bytes
    is_text: bool  # the id, as it was queued
    nameless: bool  # it may be no text in the table: then no link and no alarm could name it


def texts(db: apsw.Connection, row: Row) -> Row:
    codec = _codec(db)
    return tuple(None if value is None else value.decode(codec, "replace") for value in row)


def read_news(db: apsw.Connection, sql: str, values: Mapping[str, Any]) -> list[FoundTask]:
    codec, found = _codec(db), []
    rows: list[Row] = db.execute(sql, values).fetchall()
    for id, *row in rows:
        news = news_from(db, (id.decode(codec, "replace"), *row))
        # Queued, never planned and not there: either it is deleted already, or its id is a BLOB.
        is_gone = news.task is None and news.seen is None
        is_text = _is_text(id, codec)
        found.append(FoundTask(news, id, is_text, is_gone or not is_text))
    return found


def news_from(db: apsw.Connection, row: Sequence[Any]) -> TaskNews:
    codec, known, columns = _codec(db), row[:5], tuple(row[5:])
    news = news_of((*known, *texts(db, columns)))
    bad = [name for name, value in zip(Task.__struct_fields__, columns, strict=True) if not _is_text(value, codec)]
    return replace(news, trouble=f"{bad[0]}: it is not text, or not in {codec}") if bad else news


def _codec(db: apsw.Connection) -> str:
    return str(db.execute("pragma encoding").get)


def _is_text(value: bytes | None, codec: str) -> bool:
    try:
        (value or b"").decode(codec)
    except UnicodeDecodeError:
        return False
    return True

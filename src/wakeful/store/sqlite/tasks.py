"""The SQL door on SQLite: everything that touches the other program's table goes through the writer thread."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import apsw
from msgspec.structs import asdict

from wakeful.alarm import Change, Task, TaskNews, TaskPlan, shows, task_state
from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.moments import unix_ms
from wakeful.store.queries import Naming
from wakeful.store.rows import Row, from_alarm
from wakeful.store.sqlite import writes as sqlite_writes
from wakeful.store.sqlite.texts import FoundTask, news_from, read_news, read_task, read_tasks, texts
from wakeful.store.sqlite.writer import Work, Writer
from wakeful.store.tasks import (
    MOVED,
    WRITTEN,
    NotAsRead,
    Planned,
    TaskTable,
    check_columns,
    check_mode,
    check_name,
    filled,
    seen_of,
    seen_text,
    task_of,
    task_sql,
    together,
    unfit_id,
)

log = logging.getLogger("wakeful.store")

T = TypeVar("T")
_TRIGGERS: Final = 3
_COLUMNS: Final = """select name, type, "notnull" and dflt_value is null, pk from pragma_table_info(?)"""


class SqliteTasks:
    def __init__(
        self,
        writer: Writer,
        read: Callable[[Work[Any]], Awaitable[Any]],
        look: Callable[[Work[Any], str], Awaitable[Any]],
        sql: Mapping[str, str],
        *,
        naming: Naming,
        clock: Clock,
    ) -> None:
        self._writer = writer
        self._read = read
        self._look = look  # what may take long
        self._store_sql = sql
        self._clock = clock
        self._sql = task_sql("sqlite", naming)
        self._door: tuple[TaskTable, dict[str, str]] | None = None  # as last seen

    async def connect(self, table: str) -> bool:
        check_name(table)
        if "." in table:
            raise InvalidConfig("SQLite has no schemas", field="table", fix="Name a table of this file.")

        def work(db: apsw.Connection) -> bool:
            before = _fit(db, table)
            if before is None:
                db.execute(self._sql["create_table"].replace("{tasks}", f'"{table}"'))
            found = before or _shape(db, table)
            sql = self._filled(found)
            if db.execute(sql["disconnect"], {"name": table}).fetchall():
                db.execute(sql["unwatch"])  # the triggers have the same names whatever the table
            db.execute(sql["connect"], {"name": table, "now": unix_ms(self._clock.now())})
            db.execute(sql["watch"])
            db.execute(sql["queue_all"])
            return before is None

        return await self._writer.submit(work)

    async def disconnect(self) -> str:
        def work(db: apsw.Connection) -> str:
            name = self._connected(db)
            for statement in ("unwatch", "disconnect_all"):
                db.execute(self._sql[statement])
            self._door = None
            return name

        return await self._writer.submit(work)

    async def links(self, *, limit: int) -> dict[str, str]:
        rows: list[Row] = await self._read(lambda db: db.execute(self._sql["links"], {"limit": limit}).fetchall())
        return dict(rows)

    async def unlink(self, task_ids: Sequence[str]) -> None:
        def work(db: apsw.Connection) -> None:
            db.executemany(self._sql["unlink"], [{"id": id} for id in task_ids])

        await self._writer.submit(work)

    async def rows(self, table: str, *, limit: int) -> list[Task] | None:
        def work(db: apsw.Connection) -> list[Task] | None:
            found = _fit(db, check_name(table))
            values = {"owner": "", "id": "", "limit": limit}
            return None if found is None else read_tasks(db, self._filled(found)["list"], values)

        rows: list[Task] | None = await self._read(work)
        return rows

    async def table(self) -> str:
        name: str = await self._read(self._connected)
        return name

    async def mend(self) -> bool:
        before, self._door = self._door, None  # columns may have been added since
        door = await self._read(self._known_door)
        if door is None:
            return False
        is_other = before is not None and before[0] != door[0]
        if not is_other and await self._read(lambda db: _watched(db, *door)):
            return False

        def work(db: apsw.Connection) -> bool:
            for name in ("unwatch", "watch", "queue_all"):
                db.execute(door[1][name])
            return True

        return await self._writer.submit(work)

    async def news(self, *, limit: int, after: int = 0) -> list[TaskNews]:
        def work(db: apsw.Connection) -> list[FoundTask]:
            door = self._known_door(db)
            return [] if door is None else read_news(db, door[1]["news"], {"limit": limit, "after": after})

        found: list[FoundTask] = await self._read(work)
        for one in found:
            if one.nameless:
                await self._writer.submit(self._set_aside(one))
        return [one.news for one in found if not one.nameless]

    def _set_aside(self, found: FoundTask) -> Work[None]:
        """A row whose id no link and no alarm could name: it says so itself, and is not looked at again as it is."""
        task = Task(id=found.news.task_id)
        values = {"id": found.id, "status": "error", "note": "id: it is not text"}
        as_text = "cast(:id as text)"

        def work(db: apsw.Connection) -> None:
            door = self._known_door(db)
            if door is None:
                return
            # Bytes equal nothing but a BLOB: a row of the same name that was written since is not touched.
            write = door[1]["write"].replace("= :id", "= :id" if found.is_text else f"in (:id, {as_text})")
            write = write.replace(":next_run", "next_run")
            self._quietly(db, door[1], lambda: db.execute(write, _named(write, values)).fetchone(), task)
            db.execute(door[1]["done"].replace(":id", as_text), {"id": found.id, "upto": found.news.upto})

        return work

    async def moved(self, alarm_ids: Sequence[str]) -> dict[str, TaskNews | None]:
        found: dict[str, TaskNews | None] = await self._read(lambda db: self.overtaken(db, alarm_ids))
        return found

    def overtaken(self, db: apsw.Connection, alarm_ids: Iterable[str]) -> dict[str, TaskNews | None]:
        """The same on a connection that is handed in: inside the writer's transaction nobody can change a row."""
        door, found = self._known_door(db), {}
        for alarm_id in alarm_ids:
            if db.execute(self._sql["link_of"], {"alarm_id": alarm_id}).fetchone() is None:
                continue
            news = None if door is None else self._standing(db, door[1], alarm_id)
            if news is None or news.task != news.seen:
                found[alarm_id] = news
        return found

    def _standing(self, db: apsw.Connection, sql: Mapping[str, str], alarm_id: str) -> TaskNews | None:
        try:
            row = db.execute(sql["standing"], {"alarm_id": alarm_id}).fetchone()
            return None if row is None else news_from(db, row)
        except (apsw.SQLError, ValueError):  # one row, or a table in the making, is nobody else's trouble
            self._door = None  # it may have been altered: look again
            return None

    async def plan(self, plans: Sequence[TaskPlan]) -> list[Planned]:
        def work(db: apsw.Connection) -> list[Planned]:
            door = self._known_door(db)
            return [MOVED if door is None else self._plan(db, door[1], plan) for plan in plans]

        return await self._writer.submit(work)

    def _plan(self, db: apsw.Connection, sql: Mapping[str, str], plan: TaskPlan) -> Planned:
        try:
            with db:  # a savepoint
                self._write_plan(db, sql, plan)
        except NotAsRead:
            return MOVED
        except sqlite_writes.BAD_VALUE as error:
            return Planned("refused", str(error))
        return WRITTEN

    def _write_plan(self, db: apsw.Connection, sql: Mapping[str, str], plan: TaskPlan) -> None:
        news, id = plan.news, plan.news.task_id
        link = db.execute(sql["linked"], {"id": id}).fetchone()
        held = None if link is None else seen_of(link[1])
        if (
            read_task(db, sql["read"], id) != news.task
            or held != news.seen
            or (link[0] if link else "") != news.alarm_id
        ):
            raise NotAsRead
        self._write_alarm(db, plan)
        if plan.task is None:
            db.execute(sql["unlink"], {"id": id})
        else:
            seen, trouble = self._write_row(db, sql, plan, plan.task)
            note = together(plan.note, trouble)
            values = {"id": id, "alarm_id": plan.alarm_id, "seen": seen_text(seen), "note": note}
            db.execute(sql["link"], values)
        db.execute(sql["done"], {"id": id, "upto": news.upto})

    def _write_alarm(self, db: apsw.Connection, plan: TaskPlan) -> None:
        if plan.change is not None:
            [answer] = sqlite_writes.settle(db, self._store_sql, [sqlite_writes.written(plan.change)])
            if answer.what != "applied":
                raise NotAsRead
        if plan.new is not None:
            sqlite_writes.add(db, self._store_sql, [from_alarm(plan.new)])

    def _write_row(self, db: apsw.Connection, sql: Mapping[str, str], plan: TaskPlan, task: Task) -> tuple[Task, str]:
        """The row as it then is, and what the table had against it."""
        before = plan.news.task
        if before is None or (task == before and not plan.note):
            return task, ""
        values = {"id": task.id, "status": task.status, "next_run": task.next_run, "note": plan.note or None}
        return self._quietly(db, sql, lambda: db.execute(sql["write"], _named(sql["write"], values)).fetchone(), before)

    def follow(self, db: apsw.Connection, changes: Sequence[Change]) -> None:
        """Bring the rows of tasks up to date with their alarms, which have just been settled."""
        door = self._known_door(db)
        if door is None:
            return
        for change in changes:
            try:
                with db:
                    self._follow(db, door[1], change)
            except sqlite_writes.BAD_VALUE as error:  # the alarm is settled; its row, or what we kept of it, is not fit
                log.warning("a task's row does not follow its alarm: %s", type(error).__name__, extra=_of(change))

    def _follow(self, db: apsw.Connection, sql: Mapping[str, str], change: Change) -> None:
        alarm = change.after
        if not shows(change):
            return
        link = db.execute(sql["link_of"], {"alarm_id": alarm.id}).fetchone()
        if link is None:
            return
        id, seen, note = link[0], seen_of(link[1]), link[2]
        status, next_run = task_state(alarm)
        if (status, next_run) == (seen.status, seen.next_run):
            return
        before = {"seen_status": seen.status, "seen_next_run": seen.next_run, "seen_cron": seen.cron}
        values = {"id": id, "status": status, "next_run": next_run, **before}
        now, trouble = self._quietly(db, sql, lambda: db.execute(sql["write_back"], values).fetchone(), seen)
        if now != seen or trouble:
            linked = {"id": id, "alarm_id": alarm.id, "seen": seen_text(now), "note": trouble or note}
            db.execute(sql["link"], linked)

    def _quietly(
        self, db: apsw.Connection, sql: Mapping[str, str], write: Callable[[], Row | None], before: Task
    ) -> tuple[Task, str]:
        """Write to the other program's table without queueing it. What it refuses is noted: the alarm goes on."""
        last = db.execute(sql["last_change"]).get
        try:
            with db:
                row = write()
                db.execute(sql["forget_own"], {"last": last})
                # Read again: the table may have triggers of its own, and what they left is what stands.
                now = row and (read_task(db, sql["read"], before.id) or task_of(texts(db, row)))
        except (apsw.ConstraintError, apsw.SQLError, apsw.MismatchError) as error:
            return before, f"the row could not be written: {error}"
        return now or before, ""

    async def find(self, *, owner: str = "", id: str = "", limit: int = 500) -> list[Task]:
        def work(db: apsw.Connection) -> list[Task]:
            values = {"owner": owner, "id": id, "limit": limit}
            return read_tasks(db, self._must_door(db)[1]["list"], values)

        tasks: list[Task] = await self._look(work, owner)
        return tasks

    async def insert(self, task: Task) -> bool:
        return await self._changed("insert", asdict(task), task)

    async def update(self, task: Task, *, was: Task) -> bool:
        before = {f"was_{name}": value for name, value in asdict(was).items()}
        return await self._changed("update", asdict(task) | before, task)

    async def delete(self, id: str, *, owner: str | None) -> bool:
        def work(db: apsw.Connection) -> bool:
            sql = self._must_door(db)[1]
            # Rows that hang on the task go with it, as its own program would have it; for nothing else of ours.
            db.execute("pragma foreign_keys=on; begin immediate")
            try:
                db.execute(sql["delete"], {"id": id, "owner": owner})
                deleted = db.changes() > 0
                db.execute("commit")
                return deleted
            finally:
                if db.in_transaction:
                    db.execute("rollback")
                db.execute("pragma foreign_keys=off")

        return await self._writer.submit(lambda db: _refusing(lambda: work(db)), alone=True)

    async def notes(self, *, limit: int = 100) -> dict[str, str]:
        rows: list[Row] = await self._read(lambda db: db.execute(self._sql["notes"], {"limit": limit}).fetchall())
        return dict(rows)

    async def _changed(self, name: str, values: Mapping[str, Any], task: Task) -> bool:
        def work(db: apsw.Connection) -> bool:
            table, sql = self._must_door(db)
            check_mode(task, table)
            db.execute(sql[name], _named(sql[name], values))
            return db.changes() > 0

        return await self._writer.submit(lambda db: _refusing(lambda: work(db)))

    def _connected(self, db: apsw.Connection) -> str:
        return str(db.execute(self._sql["connected"]).get or "")

    def _known_door(self, db: apsw.Connection) -> tuple[TaskTable, dict[str, str]] | None:
        if self._door is None and (name := self._connected(db)):
            found = _shape(db, name)
            if found.columns:  # a table that was dropped may come back
                self._door = found, self._filled(found)
        return self._door

    def _must_door(self, db: apsw.Connection) -> tuple[TaskTable, dict[str, str]]:
        door = self._known_door(db)
        if door is None:
            raise InvalidRequest("no table of tasks is connected", fix="Run `wakeful db scheduled-tasks`.")
        return door

    def _filled(self, table: TaskTable) -> dict[str, str]:
        # As bytes, and read here: what another program wrote need not be text at all.
        own = ", ".join(f"cast({name} as blob)" if name in table.columns else "null" for name in Task.__struct_fields__)
        columns = own.replace("cast(", "cast(task.")
        parts = {"columns": columns, "own_columns": own, "mode": ":context_mode", "note": ":note"}
        return filled(self._sql, table, parts)


def _refusing(work: Callable[[], T]) -> T:
    try:
        return work()
    except (apsw.ConstraintError, apsw.SQLError, apsw.MismatchError) as error:
        raise InvalidRequest(f"the table of tasks does not take it: {error}", field="task") from error


def _shape(db: apsw.Connection, table: str) -> TaskTable:
    rows = [(str(name).lower(), str(kind), bool(needed)) for name, kind, needed, _ in db.execute(_COLUMNS, (table,))]
    required = tuple(name for name, _, needed in rows if needed)
    return TaskTable(table, {name: kind for name, kind, _ in rows}, required)


def _fit(db: apsw.Connection, table: str) -> TaskTable | None:
    """A table as it is, where it can be one of tasks; None where there is none."""
    kind = db.execute("select type from sqlite_master where name = ? collate nocase", (table,)).get
    if kind is None:
        return None
    if kind != "table":
        raise InvalidConfig(f"{table} is a {kind}", field="table", fix="Name a table.")
    found = _shape(db, table)
    check_columns(found)
    # An integer that is the primary key alone is the row's number: no text fits. Elsewhere types are only a hint.
    keys = [(str(name).lower(), str(type).lower()) for name, type, _, pk in db.execute(_COLUMNS, (table,)) if pk]
    if keys == [("id", "integer")] or "blob" in found.columns["id"].lower():
        raise unfit_id(table, found.columns["id"])
    return found


def _watched(db: apsw.Connection, table: TaskTable, sql: Mapping[str, str]) -> bool:
    return bool(db.execute(sql["watching"], {"table": table.name}).get == _TRIGGERS)


def _of(change: Change) -> dict[str, str]:
    return {"alarm_id": change.after.id}


def _named(sql: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Only those a statement asks for: columns that a table lacks are not written."""
    return {name: value for name, value in values.items() if f":{name}" in sql}

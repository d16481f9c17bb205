"""SQL tasks: a table `scheduled_tasks` that other programs write to, and the alarms that its rows stand for.

Triggers on the table queue the ids of changed tasks. A dispatcher reads these, decides (rules/task.py) and writes the
alarm, the link to it and the row's progress in one transaction. When such an alarm settles, its row follows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from wakeful.clock import stopwatch
from wakeful.errors import InvalidConfig, InvalidRequest, InvalidSchedule
from wakeful.model.alarm import Alarm, Change, is_for_numbers
from wakeful.rules.task import ISOLATED, Task, TaskNews, TaskPlan, as_number, task_state
from wakeful.store.queries import Dialect, Naming, statements

if TYPE_CHECKING:
    from wakeful.store.records import Settled

NEEDED: Final = ("id", "owner", "chat_jid", "prompt", "cron", "next_run", "status", "created_at")
_EMPTIED: Final = ("cron", "next_run")
ID_LENGTH: Final = 27  # of those the task tools make
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")
_SQL: Final = Path(__file__).with_name("sql")
_decoder: Final = msgspec.json.Decoder(Task)


class Planned(Struct, frozen=True):
    """What became of a plan.

    written   all of it is
    moved     the task, its link or its alarm is no longer what was read, or somebody holds it: again at the next tick
    refused   the database does not take it; nothing was written, and `error` says why
    """

    what: Literal["written", "moved", "refused"]
    error: str = ""


WRITTEN: Final = Planned("written")
MOVED: Final = Planned("moved")


class NotAsRead(Exception):
    """Someone else was faster: decide again in the next round."""


class TaskTable(Struct, frozen=True):
    """A connected table: its name, and the types of its columns."""

    name: str
    columns: Mapping[str, str]
    required: tuple[str, ...] = ()  # columns that take no NULL and have no default

    @property
    def quoted(self) -> str:
        return ".".join(f'"{part}"' for part in self.name.split("."))


def check_name(table: str) -> str:
    if not _NAME.fullmatch(table):
        raise InvalidConfig(
            f"{table[:60]!r} is not a table name", field="table", fix="Use letters, digits and _; schema.table is fine."
        )
    return table


def check_columns(table: TaskTable) -> None:
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise InvalidConfig(
            f"{table.name} has no column {', '.join(missing)}", field="table", fix=f"A task needs {', '.join(NEEDED)}."
        )
    for name in table.required:
        if name in _EMPTIED:
            raise InvalidConfig(
                f"the column {name} of {table.name} is NOT NULL, but a task without {name} needs NULL there",
                field="table",
                fix=f"Allow NULL in {name}.",
            )
        if name not in (*NEEDED, "context_mode"):
            raise InvalidConfig(
                f"the column {name} of {table.name} is NOT NULL and has no default, so no new task could be written",
                field="table",
                fix=f"Give {name} a default, or allow NULL in it.",
            )


def check_next_run(table: TaskTable, fits: bool) -> None:
    if not fits:
        raise InvalidConfig(
            f"the column next_run of {table.name} is of type {table.columns['next_run']}, which holds no moment",
            field="table",
            fix="Make it text, a timestamp, or a number of seconds since 1970 (bigint, double precision).",
        )


def unfit_id(table: str, type: str) -> InvalidConfig:
    return InvalidConfig(
        f"the column id of {table} is of type {type}, which cannot hold the ids of tasks",
        field="table",
        fix=f"Make it text: ids such as task-1767225600000-1a2b3c4d have {ID_LENGTH} characters.",
    )


def task_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    return statements(dialect, naming, "tasks")


def filled(sql: Mapping[str, str], table: TaskTable, parts: Mapping[str, str]) -> dict[str, str]:
    """The statements for one table; `parts` are what depends on its columns."""
    has_mode = "context_mode" in table.columns
    common = {
        "tasks": table.quoted,
        "name_mode": ", context_mode" if has_mode else "",
        "set_mode": ", context_mode = :context_mode" if has_mode else "",
        "give_mode": ", :context_mode" if has_mode else "",
        "error": ", error = :note" if "error" in table.columns else "",
        "error_given": ", error = given.note" if "error" in table.columns else "",
    }
    return {name: _fill(text, {**common, **parts}) for name, text in sql.items()}


def _fill(text: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        text = text.replace("{" + name + "}", part)
    return text


def check_mode(task: Task, table: TaskTable) -> None:
    if task.context_mode == ISOLATED and "context_mode" not in table.columns:
        raise InvalidRequest(
            f"{table.name} has no column to mark a task as isolated",
            field="context_mode",
            fix=f"alter table {table.name} add column context_mode text not null default 'group'",
        )


def task_of(row: Sequence[Any]) -> Task | None:
    """Columns in the order of Task's fields; None for a row that is not there."""
    values = [None if value is None else str(value) for value in row]
    return None if values[0] is None else Task(**dict(zip(Task.__struct_fields__, values, strict=True)))  # type: ignore[arg-type]


def news_of(row: Sequence[Any]) -> TaskNews:
    task_id, upto, alarm_id, seen, note, *columns = row
    return TaskNews(
        task_id=task_id,
        upto=upto,
        alarm_id=alarm_id or "",
        seen=None if seen is None else _decoder.decode(seen),
        note=note or "",
        task=task_of(columns),
    )


def seen_of(text: str) -> Task:
    return _decoder.decode(text)


def seen_text(task: Task) -> str:
    return msgspec.json.encode(task).decode()


def together(*notes: str) -> str:
    return "; ".join(note for note in notes if note)[:1000]


T = TypeVar("T")
SHARE: Final = 0.010  # seconds that planning takes of a transaction
Sql = Mapping[str, str]
TaskWork = Callable[["C"], Coroutine[Any, Any, T]]


class TaskConnection(ABC):
    """A connection to the database that has wakeful's tables and the other program's."""

    @abstractmethod
    async def fetch(self, sql: str, /, **values: Any) -> Sequence[Any]:
        """The rows of a statement. Values it does not ask for are passed over: a table may do without a column."""

    @abstractmethod
    async def run(self, sql: str) -> None:
        """Statements without values."""

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A savepoint, inside another one."""

    @abstractmethod
    async def shape(self, table: str) -> TaskTable:
        """Without columns where there is no such table."""

    @abstractmethod
    async def edition(self, table: TaskTable) -> Any:
        """What changes whenever the table's columns do."""

    @abstractmethod
    async def check(self, table: str) -> bool:
        """Whether there is such a table. InvalidConfig where it is something else."""

    @abstractmethod
    def check_types(self, table: TaskTable) -> None:
        """InvalidConfig where its ids or its moments cannot be those of tasks."""

    @abstractmethod
    def task(self, row: Any) -> Task | None: ...

    @abstractmethod
    async def hold(self, sql: Sql, alarm_id: str) -> None:
        """Keep others from changing an alarm until the transaction ends; an empty id is nobody's."""

    @abstractmethod
    async def settle(self, change: Change) -> Settled: ...

    @abstractmethod
    async def add(self, alarm: Alarm) -> None: ...

    @abstractmethod
    async def quietly(self, sql: Sql, name: str, values: Mapping[str, Any]) -> Any | None:
        """Write to the other program's table without queueing it; the row as it was left, None where there is none."""

    @abstractmethod
    def refusal(self, error: Exception) -> Planned | None:
        """What became of a plan that ended so; None where the database itself is in trouble."""

    @abstractmethod
    def complaint(self, error: Exception) -> str | None:
        """What the other program's table had against a write; None where the database itself is in trouble."""


C = TypeVar("C", bound=TaskConnection)


class Link(Struct, frozen=True):
    """A task's alarm, and the task's row as wakeful left it."""

    task_id: str
    alarm_id: str
    seen: Task
    note: str


class SqlTasks(ABC, Generic[C]):
    """SQL tasks: what is read, decided and written, over what each dialect does its own way.

    Written for a connection that may have to be waited for. SQLite's is done when it is called: see `at_once`.
    """

    def __init__(self, dialect: Dialect, naming: Naming) -> None:
        self._sql = task_sql(dialect, naming)
        self._table: tuple[TaskTable, dict[str, str]] | None = None  # as last seen
        self._edition: Any = None  # of the schema, when that was seen
        self._mended: TaskTable | None = None  # as all of its rows were last queued for

    @abstractmethod
    async def _read(self, work: TaskWork[C, T]) -> T: ...

    @abstractmethod
    async def _write(self, work: TaskWork[C, T]) -> T: ...

    @abstractmethod
    async def _long_read(self, work: TaskWork[C, T], owner: str) -> T:
        """Read what may take long."""
        ...

    @abstractmethod
    async def _change(self, work: TaskWork[C, bool]) -> bool:
        """Write to the other program's table for somebody: InvalidRequest where it refuses that."""
        ...

    @abstractmethod
    def _filled(self, table: TaskTable) -> dict[str, str]:
        """The statements for one table."""
        ...

    @abstractmethod
    async def _standing(self, connection: C, alarm_ids: Sequence[str]) -> dict[str, TaskNews | None]:
        """As `moved`."""
        ...

    async def connect(self, table: str) -> bool:
        """Watch a table, made here where there is none (then True), and take over the rows it has.

        InvalidConfig if it is not a table, or lacks columns of a task. Safe to repeat.
        """
        check_name(table)

        async def work(connection: C) -> bool:
            async with connection.transaction():
                return await self._connect(connection, table)

        return await self._write(work)

    async def _connect(self, connection: C, table: str) -> bool:
        before = await self._fit(connection, table)
        if before is None:
            made = self._sql["create_table"].replace("{tasks}", TaskTable(table, {}).quoted)
            await connection.run(made)
        found = before or await connection.shape(table)
        sql = self._filled(found)
        for (other,) in await connection.fetch(sql["disconnect"], name=table):
            await connection.run(self._filled(TaskTable(other, found.columns))["unwatch"])
        await connection.fetch(sql["connect"], name=table, now=self._moment())
        await connection.run(sql["watch"])
        await connection.run(sql["queue_all"])
        return before is None

    @abstractmethod
    async def rehearse(self, table: str) -> None:
        """Make wakeful's tables and connect this one, all in one transaction, and take it back.

        What would stop `migrate` or `connect` is raised here, where nothing is left behind.
        """
        ...

    @abstractmethod
    async def news(self, *, limit: int, after: int = 0) -> list[TaskNews]:
        """Tasks that were changed since they were last planned, first changed first. Their alarms are not read here.

        `after`: the highest `upto` of those that were read before.
        """
        ...

    @abstractmethod
    def _moment(self) -> Any:
        """Now, as the database keeps it."""
        ...

    async def _fit(self, connection: C, table: str) -> TaskTable | None:
        """A table as it is, where it can be one of tasks; None where there is none."""
        if not await connection.check(table):
            return None
        found = await connection.shape(table)
        check_columns(found)
        connection.check_types(found)
        return found

    async def disconnect(self) -> str:
        """Watch no table any more, and forget what was queued; the name of the one that was watched. Its rows stay.

        The links stay too: until each is undone (`unlink`), its alarm says nothing.
        """

        async def work(connection: C) -> str:
            async with connection.transaction():
                if name := await self._connected(connection):
                    await connection.run(self._filled(TaskTable(name, {}))["unwatch"])
                await connection.run(self._sql["disconnect_all"])
                self._table = None
                return name

        return await self._write(work)

    async def links(self, *, limit: int) -> dict[str, str]:
        """Tasks by id, with the id of the alarm that stands for each; empty where none does."""
        return dict(map(tuple, await self._read(lambda its: its.fetch(self._sql["links"], limit=limit))))

    async def notes(self, *, limit: int = 100) -> dict[str, str]:
        """Why tasks do not run, or their rows could not be written."""
        noted = dict(map(tuple, await self._read(lambda its: its.fetch(self._sql["notes"], limit=limit))))
        return await self.nameless() | noted

    async def nameless(self) -> dict[str, str]:
        """Rows that no alarm can stand for, since their id is not text, as SQL writes it; and what is wrong with it."""

        async def work(connection: C) -> dict[str, str]:
            if (known := await self._known_table(connection)) is None:
                return {}
            return dict(map(tuple, await connection.fetch(known[1]["nameless"])))

        return await self._read(work)

    async def unlink(self, task_ids: Sequence[str]) -> None:
        async def work(connection: C) -> None:
            async with connection.transaction():
                for id in task_ids:
                    await connection.fetch(self._sql["unlink"], id=id)

        await self._write(work)

    async def rows(self, table: str, *, limit: int) -> list[Task] | None:
        """The rows of a table that need not be connected, newest first; None where there is no such table.

        InvalidConfig where it could not be connected. Nothing is written, and no table of wakeful's is needed.
        """
        check_name(table)

        async def work(connection: C) -> list[Task] | None:
            found = await self._fit(connection, table)
            return None if found is None else await _listed(connection, self._filled(found), limit=limit)

        return await self._read(work)

    async def table(self) -> str:
        """The table that is connected; empty when none is."""
        return await self._read(self._connected)

    async def mend(self) -> bool:
        """Watch the table again if it was recreated (then True), and read all of its rows."""
        before = self._mended

        async def state(connection: C) -> dict[str, str] | None:
            self._table = None
            if (known := await self._known_table(connection)) is None:
                return None
            table, sql = known
            self._mended = table
            is_other = before is not None and before != table
            [(is_watched,)] = await connection.fetch(sql["watching"], name=table.name, quoted=table.quoted)
            return None if is_watched and not is_other else sql

        if (sql := await self._read(state)) is None:
            return False

        async def watch(connection: C) -> None:
            async with connection.transaction():
                await connection.run(sql["watch"])
                await connection.run(sql["queue_all"])

        await self._write(watch)
        return True

    async def moved(self, alarm_ids: Sequence[str]) -> dict[str, TaskNews | None]:
        """Of these alarms, those whose task's row no longer stands as it was planned, with what it says now.

        None where that is not known: the table is gone, or nothing can be made of the row. An alarm that stands for
        no task is not among them.
        """
        return await self._read(lambda connection: self._standing(connection, alarm_ids)) if alarm_ids else {}

    async def plan(self, plans: Sequence[TaskPlan]) -> list[Planned]:
        """Write each plan whose task, link and alarm still are as its news says, all of it or nothing."""
        answers: list[Planned] = []
        while rest := plans[len(answers) :]:
            answers += await self._write(partial(self._plan_some, plans=rest))
        return answers

    async def _plan_some(self, connection: C, *, plans: Sequence[TaskPlan]) -> list[Planned]:
        """Of these the first: as many as take no longer than other programs can wait."""
        known, began = await self._known_table(connection), stopwatch()
        answers: list[Planned] = []
        while len(answers) < len(plans) and (not answers or stopwatch() - began < SHARE):
            plan = plans[len(answers)]
            answers.append(MOVED if known is None else await self._plan(connection, known[1], plan))
        return answers

    async def _plan(self, connection: C, sql: Sql, plan: TaskPlan) -> Planned:
        try:
            async with connection.transaction():
                await self._write_plan(connection, sql, plan)
        except NotAsRead:
            return MOVED
        except Exception as error:
            if (refusal := connection.refusal(error)) is None:
                raise
            return refusal
        return WRITTEN

    async def _write_plan(self, connection: C, sql: Sql, plan: TaskPlan) -> None:
        news, id = plan.news, plan.news.task_id
        await connection.hold(sql, news.alarm_id)
        task = await _task(connection, sql, id)
        link = await _link(connection, sql["linked"], id=id)
        if (task, link and link.seen, link.alarm_id if link else "") != (news.task, news.seen, news.alarm_id):
            raise NotAsRead
        if plan.change is not None and (await connection.settle(plan.change)).what != "applied":
            raise NotAsRead
        if plan.new is not None:
            await connection.add(plan.new)
        if plan.task is None:
            await connection.fetch(sql["unlink"], id=id)
        else:
            seen, trouble = await self._show(connection, sql, plan, plan.task)
            note = together(plan.note, trouble)
            await connection.fetch(sql["link"], id=id, alarm_id=plan.alarm_id, seen=seen_text(seen), note=note)
        await connection.fetch(sql["done"], id=id, upto=news.upto)

    async def _show(self, connection: C, sql: Sql, plan: TaskPlan, task: Task) -> tuple[Task, str]:
        """Have the row say what was planned: the row as it then is, and what the table had against it."""
        before = plan.news.task
        if before is None or (task == before and not plan.note):
            return task, ""
        values = {"id": task.id, "status": task.status, "next_run": self._fitted(task), "note": plan.note or None}
        return await self._write_row(connection, sql, "write", values, before)

    async def _follow(self, connection: C, sql: Sql, alarm: Alarm) -> None:
        """Bring a task's row up to date with its alarm, which has just been settled."""
        link = await _link(connection, sql["link_of"], alarm_id=alarm.id)
        if link is None:
            return
        id, seen = link.task_id, link.seen
        status, next_run = task_state(alarm, seen)
        next_run = self._fitted(replace(seen, next_run=next_run))
        if (status, next_run) == (seen.status, seen.next_run):
            return
        before = {"seen_status": seen.status, "seen_next_run": seen.next_run, "seen_cron": seen.cron}
        values = {"id": id, "status": status, "next_run": next_run, **before}
        now, trouble = await self._write_row(connection, sql, "write_back", values, seen)
        if now != seen or trouble:
            note = trouble or link.note
            await connection.fetch(sql["link"], id=id, alarm_id=alarm.id, seen=seen_text(now), note=note)

    async def _write_row(
        self, connection: C, sql: Sql, name: str, values: Mapping[str, Any], before: Task
    ) -> tuple[Task, str]:
        """Write to the other program's table. What it refuses is noted: the alarm goes on."""
        try:
            async with connection.transaction():
                row = await connection.quietly(sql, name, values)
                # Read again: the table may have triggers of its own, and what they left is what stands.
                now = None if row is None else await _task(connection, sql, before.id) or connection.task(row)
        except Exception as error:
            if (complaint := connection.complaint(error)) is None:
                raise
            self._table = None  # it may have been altered: read again
            return before, f"the row could not be written: {complaint}"
        return now or before, ""

    async def find(self, *, owner: str = "", id: str = "", limit: int = 500) -> list[Task]:
        """Rows as they are, newest first."""

        async def work(connection: C) -> list[Task]:
            _, sql = await self._required_table(connection)
            return await _listed(connection, sql, owner=owner, id=id, limit=limit)

        return await self._long_read(work, owner)

    async def insert(self, task: Task) -> bool:
        """False where the id is taken. InvalidRequest where the table refuses it."""
        return await self._changed("insert", task, asdict(task))

    def _fitted(self, task: Task) -> str | None:
        """Its next_run, as a number where the column is for numbers."""
        is_number = self._table is not None and is_for_numbers(self._table[0].columns["next_run"])
        with suppress(InvalidSchedule):  # what is not a moment stays as it is
            return as_number(task.next_run) if is_number and task.next_run else task.next_run
        return task.next_run

    async def update(self, task: Task, *, was: Task) -> bool:
        """False where its owner has no such task, or it is no longer what it was."""
        before = {f"was_{name}": value for name, value in asdict(was).items()}
        return await self._changed("update", task, asdict(task) | before)

    async def delete(self, id: str, *, owner: str | None) -> bool:
        return await self._changed("delete", Task(id=id), {"id": id, "owner": owner})

    async def _changed(self, name: str, task: Task, values: Mapping[str, Any]) -> bool:
        async def work(connection: C) -> bool:
            table, sql = await self._required_table(connection)
            check_mode(task, table)
            return bool(await connection.fetch(sql[name], **{**values, "next_run": self._fitted(task)}))

        return await self._change(work)

    async def _connected(self, connection: C) -> str:
        rows = await connection.fetch(self._sql["connected"])
        return str(rows[0][0]) if rows else ""

    async def _known_table(self, connection: C) -> tuple[TaskTable, dict[str, str]] | None:
        # Columns may have been added since: they count for the next fire.
        if self._table is not None and self._edition != await connection.edition(self._table[0]):
            self._table = None
        if self._table is None and (name := await self._connected(connection)):
            found = await connection.shape(name)
            self._edition = await connection.edition(found)
            if found.columns:  # a table that was dropped may come back
                self._table = found, self._filled(found)
        return self._table

    async def _required_table(self, connection: C) -> tuple[TaskTable, dict[str, str]]:
        known = await self._known_table(connection)
        if known is None:
            raise InvalidRequest("no table of tasks is connected", fix="Run `wakeful db scheduled-tasks`.")
        return known


async def _listed(connection: TaskConnection, sql: Sql, *, limit: int, owner: str = "", id: str = "") -> list[Task]:
    rows = await connection.fetch(sql["list"], owner=owner, id=id, limit=limit)
    return [task for row in rows if (task := connection.task(row)) is not None]


async def _task(connection: TaskConnection, sql: Sql, id: str) -> Task | None:
    rows = await connection.fetch(sql["read"], id=id)
    return connection.task(rows[0]) if rows else None


async def _link(connection: TaskConnection, sql: str, **values: str) -> Link | None:
    for task_id, alarm_id, seen, note in await connection.fetch(sql, **values):
        return Link(task_id, alarm_id, seen_of(seen), note)
    return None


def at_once(work: Awaitable[T]) -> T:
    """Run what waits for nothing, in whatever thread this is."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waited for something")

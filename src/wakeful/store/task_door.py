"""SQL tasks: the steps that both stores share, over what each of them does in its own way.

Everything here is written for a connection that may have to be waited for. SQLite's does its work at once, inside the
writer's thread: see `at_once`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from wakeful.alarm import Alarm, Change, Task, TaskNews, TaskPlan, task_state
from wakeful.alarm.model import is_for_numbers
from wakeful.alarm.task import as_number
from wakeful.clock import stopwatch
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.store.queries import Dialect, Naming
from wakeful.store.tasks import (
    MOVED,
    WRITTEN,
    NotAsRead,
    Planned,
    TaskTable,
    check_columns,
    check_mode,
    check_name,
    seen_of,
    seen_text,
    task_sql,
    together,
)

if TYPE_CHECKING:
    from wakeful.store import Settled

T = TypeVar("T")
SHARE: Final = 0.010  # seconds that planning takes of a transaction
Sql = Mapping[str, str]
Work = Callable[["C"], Coroutine[Any, Any, T]]


class TaskConnection(Protocol):
    """A connection to the database that has wakeful's tables and the other program's."""

    async def fetch(self, sql: str, /, **values: Any) -> Sequence[Any]:
        """The rows of a statement. Values it does not ask for are passed over: a table may do without a column."""
        ...

    async def run(self, sql: str) -> None:
        """Statements without values."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A savepoint, inside another one."""
        ...

    async def shape(self, table: str) -> TaskTable:
        """Without columns where there is no such table."""
        ...

    async def edition(self, table: TaskTable) -> Any:
        """What changes whenever the table's columns do."""
        ...

    async def check(self, table: str) -> bool:
        """Whether there is such a table. InvalidConfig where it is something else."""
        ...

    def check_types(self, table: TaskTable) -> None:
        """InvalidConfig where its ids or its moments cannot be those of tasks."""
        ...

    def task(self, row: Any) -> Task | None: ...

    async def hold(self, sql: Sql, alarm_id: str) -> None:
        """Keep others from changing an alarm until the transaction ends; an empty id is nobody's."""
        ...

    async def settle(self, change: Change) -> Settled: ...

    async def add(self, alarm: Alarm) -> None: ...

    async def quietly(self, sql: Sql, name: str, values: Mapping[str, Any]) -> Any | None:
        """Write to the other program's table without queueing it; the row as it was left, None where there is none."""
        ...

    def refusal(self, error: Exception) -> Planned | None:
        """What became of a plan that ended so; None where the database itself is in trouble."""
        ...

    def complaint(self, error: Exception) -> str | None:
        """What the other program's table had against a write; None where the database itself is in trouble."""
        ...


C = TypeVar("C", bound=TaskConnection)


class Link(Struct, frozen=True):
    """A task's alarm, and the task's row as wakeful left it."""

    task_id: str
    alarm_id: str
    seen: Task
    note: str


class TasksOver(ABC, Generic[C]):
    """`TaskDoor`, but for what a store does its own way."""

    def __init__(self, dialect: Dialect, naming: Naming) -> None:
        self._sql = task_sql(dialect, naming)
        self._door: tuple[TaskTable, dict[str, str]] | None = None  # as last seen
        self._edition: Any = None  # of the schema, when that was seen
        self._mended: TaskTable | None = None  # as all of its rows were last queued for

    @abstractmethod
    async def _read(self, work: Work[C, T]) -> T: ...

    @abstractmethod
    async def _write(self, work: Work[C, T]) -> T: ...

    @abstractmethod
    async def _look(self, work: Work[C, T], owner: str) -> T:
        """Read what may take long."""
        ...

    @abstractmethod
    async def _change(self, work: Work[C, bool]) -> bool:
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
    async def rehearse(self, table: str) -> None: ...

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
        async def work(connection: C) -> str:
            async with connection.transaction():
                if name := await self._connected(connection):
                    await connection.run(self._filled(TaskTable(name, {}))["unwatch"])
                await connection.run(self._sql["disconnect_all"])
                self._door = None
                return name

        return await self._write(work)

    async def links(self, *, limit: int) -> dict[str, str]:
        return dict(map(tuple, await self._read(lambda its: its.fetch(self._sql["links"], limit=limit))))

    async def notes(self, *, limit: int = 100) -> dict[str, str]:
        noted = dict(map(tuple, await self._read(lambda its: its.fetch(self._sql["notes"], limit=limit))))
        return await self.nameless() | noted

    async def nameless(self) -> dict[str, str]:
        async def work(connection: C) -> dict[str, str]:
            if (known := await self._known_door(connection)) is None:
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
        check_name(table)

        async def work(connection: C) -> list[Task] | None:
            found = await self._fit(connection, table)
            return None if found is None else await _listed(connection, self._filled(found), limit=limit)

        return await self._read(work)

    async def table(self) -> str:
        return await self._read(self._connected)

    async def mend(self) -> bool:
        before = self._mended

        async def look(connection: C) -> dict[str, str] | None:
            self._door = None
            if (door := await self._known_door(connection)) is None:
                return None
            table, sql = door
            self._mended = table
            is_other = before is not None and before != table
            [(is_watched,)] = await connection.fetch(sql["watching"], name=table.name, quoted=table.quoted)
            return None if is_watched and not is_other else sql

        if (sql := await self._read(look)) is None:
            return False

        async def watch(connection: C) -> None:
            async with connection.transaction():
                await connection.run(sql["watch"])
                await connection.run(sql["queue_all"])

        await self._write(watch)
        return True

    async def moved(self, alarm_ids: Sequence[str]) -> dict[str, TaskNews | None]:
        return await self._read(lambda connection: self._standing(connection, alarm_ids)) if alarm_ids else {}

    async def plan(self, plans: Sequence[TaskPlan]) -> list[Planned]:
        answers: list[Planned] = []
        while rest := plans[len(answers) :]:
            answers += await self._write(partial(self._plan_some, plans=rest))
        return answers

    async def _plan_some(self, connection: C, *, plans: Sequence[TaskPlan]) -> list[Planned]:
        """Of these the first: as many as take no longer than other programs can wait."""
        door, began = await self._known_door(connection), stopwatch()
        answers: list[Planned] = []
        while len(answers) < len(plans) and (not answers or stopwatch() - began < SHARE):
            plan = plans[len(answers)]
            answers.append(MOVED if door is None else await self._plan(connection, door[1], plan))
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
            self._door = None  # it may have been altered: look again
            return before, f"the row could not be written: {complaint}"
        return now or before, ""

    async def find(self, *, owner: str = "", id: str = "", limit: int = 500) -> list[Task]:
        async def work(connection: C) -> list[Task]:
            _, sql = await self._must_door(connection)
            return await _listed(connection, sql, owner=owner, id=id, limit=limit)

        return await self._look(work, owner)

    async def insert(self, task: Task) -> bool:
        return await self._changed("insert", task, asdict(task))

    def _fitted(self, task: Task) -> str | None:
        """Its next_run, as a number where the column is for numbers."""
        is_number = self._door is not None and is_for_numbers(self._door[0].columns["next_run"])
        with suppress(InvalidSchedule):  # what is not a moment stays as it is
            return as_number(task.next_run) if is_number and task.next_run else task.next_run
        return task.next_run

    async def update(self, task: Task, *, was: Task) -> bool:
        before = {f"was_{name}": value for name, value in asdict(was).items()}
        return await self._changed("update", task, asdict(task) | before)

    async def delete(self, id: str, *, owner: str | None) -> bool:
        return await self._changed("delete", Task(id=id), {"id": id, "owner": owner})

    async def _changed(self, name: str, task: Task, values: Mapping[str, Any]) -> bool:
        async def work(connection: C) -> bool:
            table, sql = await self._must_door(connection)
            check_mode(task, table)
            return bool(await connection.fetch(sql[name], **{**values, "next_run": self._fitted(task)}))

        return await self._change(work)

    async def _connected(self, connection: C) -> str:
        rows = await connection.fetch(self._sql["connected"])
        return str(rows[0][0]) if rows else ""

    async def _known_door(self, connection: C) -> tuple[TaskTable, dict[str, str]] | None:
        # Columns may have been added since: they count for the next fire.
        if self._door is not None and self._edition != await connection.edition(self._door[0]):
            self._door = None
        if self._door is None and (name := await self._connected(connection)):
            found = await connection.shape(name)
            self._edition = await connection.edition(found)
            if found.columns:  # a table that was dropped may come back
                self._door = found, self._filled(found)
        return self._door

    async def _must_door(self, connection: C) -> tuple[TaskTable, dict[str, str]]:
        door = await self._known_door(connection)
        if door is None:
            raise InvalidRequest("no table of tasks is connected", fix="Run `wakeful db scheduled-tasks`.")
        return door


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

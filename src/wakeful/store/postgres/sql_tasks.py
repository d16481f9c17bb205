"""SQL tasks on PostgreSQL: one transaction for each plan, on the row's own lock."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wakeful.errors import InvalidConfig, InvalidRequest, StoreBusy
from wakeful.model.alarm import Alarm, Change
from wakeful.rules.task import Task, TaskNews, TaskPlan, shows
from wakeful.store import Settled
from wakeful.store.batching import StoreRefused
from wakeful.store.postgres.database import DRIVER_ERRORS, LOCK_WAIT, Database, translated
from wakeful.store.postgres.hosts import Lost
from wakeful.store.postgres.migrate import Migrator
from wakeful.store.postgres.writes import Writes
from wakeful.store.queries import Naming
from wakeful.store.sql_tasks import (
    ID_LENGTH,
    MOVED,
    WRITTEN,
    Planned,
    SqlTasks,
    TaskConnection,
    TaskTable,
    TaskWork,
    check_name,
    check_next_run,
    filled,
    news_of,
    seen_of,
    seen_text,
    task_of,
    together,
    unfit_id,
)

if TYPE_CHECKING:
    from asyncpg.transaction import Transaction

    from wakeful.store.postgres.database import Connection, Record

T = TypeVar("T")
_KIND: Final = "select relkind::text from pg_class where oid = to_regclass(:name)"
_COLUMNS: Final = """
select attname, format_type(atttypid, atttypmod), attnotnull and not atthasdef and attidentity = ''
  from pg_attribute
 where attrelid = to_regclass(:name) and attnum > 0 and not attisdropped
"""
_TOGETHER: Final = 2  # plans
# The row of a table in the catalogue is written anew with every column that comes or goes.
_EDITION: Final = "select oid::text || ' ' || xmin::text from pg_class where oid = to_regclass(:name)"
_MOMENT: Final = re.compile(
    r"text|citext|character varying(\(\d+\))?|timestamp(\(\d\))? with(out)? time zone|integer|bigint|double precision"
)
_TEXT: Final = re.compile(r"(text|citext|name|character|character varying)(\((?P<length>\d+)\))?")
_UTC: Final = """to_char({}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_VALUE: Final = re.compile(r"(?<![:\w]):([a-z_]+)")


@lru_cache(maxsize=128)
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """A statement with its values by number, and their names in that order."""
    names = tuple(dict.fromkeys(_VALUE.findall(sql)))
    return _VALUE.sub(lambda found: f"${names.index(found[1]) + 1}", sql), names


class PostgresTaskConnection(TaskConnection):
    def __init__(self, connection: Connection, writes: Writes, now: datetime | None) -> None:
        self._connection = connection
        self._writes = writes
        self._now = now

    async def fetch(self, sql: str, /, **values: Any) -> Sequence[Record]:
        text, names = _numbered(sql)
        return await self._connection.fetch(text, *(values[name] for name in names))

    async def run(self, sql: str) -> None:
        await self._connection.execute(sql)

    def transaction(self) -> Transaction:
        return self._connection.transaction()

    async def check(self, table: str) -> bool:
        kinds = await self.fetch(_KIND, name=TaskTable(table, {}).quoted)
        if kinds and kinds[0][0] not in ("r", "p"):
            raise InvalidConfig(f"{table} is not a table", field="table", fix="Name a table.")
        return bool(kinds)

    async def shape(self, table: str) -> TaskTable:
        rows = await self.fetch(_COLUMNS, name=TaskTable(table, {}).quoted)
        return TaskTable(table, {row[0]: row[1] for row in rows}, tuple(row[0] for row in rows if row[2]))

    async def edition(self, table: TaskTable) -> Any:
        rows = await self.fetch(_EDITION, name=table.quoted)
        return rows[0][0] if rows else None

    def check_types(self, table: TaskTable) -> None:
        check_next_run(table, _MOMENT.fullmatch(table.columns["next_run"]) is not None)
        type = table.columns["id"]
        is_text = _TEXT.fullmatch(type)
        if is_text is None or int(is_text["length"] or ID_LENGTH) < ID_LENGTH:
            raise unfit_id(table.name, type)

    def task(self, row: Record) -> Task | None:
        return task_of(tuple(row))

    async def hold(self, sql: Mapping[str, str], *alarm_ids: str) -> None:
        # Not long: whoever holds one row keeps the others from being planned, and it is tried again each tick.
        await self.run(f"set local lock_timeout = '{LOCK_WAIT}'")
        if ids := list(filter(None, alarm_ids)):
            await self.fetch(sql["hold_alarms"], wait=LOCK_WAIT, alarm_ids=ids)

    async def settle(self, change: Change) -> Settled:
        settled = self._writes.settle_slowly(self._connection, [change], now=self._now, alone=True, again=False)
        [answer], _ = await settled
        return answer

    async def settle_all(self, changes: Sequence[Change]) -> list[Settled]:
        if not changes:
            return []
        settled = self._writes.settle_slowly(self._connection, changes, now=self._now, alone=False, again=False)
        return (await settled)[0]

    async def add_all(self, alarms: Sequence[Alarm]) -> None:
        if alarms:
            await self._writes.add(self._connection, alarms, now=self._now, alone=False)

    async def add(self, alarm: Alarm) -> None:
        await self._writes.add(self._connection, [alarm], now=self._now, alone=True)

    async def quietly(self, sql: Mapping[str, str], name: str, values: Mapping[str, Any]) -> Record | None:
        rows = await self.fetch(sql[name], **values)
        return rows[0] if rows else None

    def refusal(self, error: Exception) -> Planned | None:
        meaning = translated(error) if isinstance(error, DRIVER_ERRORS) else None
        if isinstance(meaning, StoreBusy):
            return MOVED
        return Planned("refused", meaning.message) if isinstance(meaning, StoreRefused) else None

    def complaint(self, error: Exception) -> str | None:
        return None if _is_trouble(error, Lost) else str(error).strip()


def _is_trouble(error: Exception, *kinds: type[Exception]) -> bool:
    """Whether it is the database that is in trouble, not the other program's table."""
    return (
        not isinstance(error, DRIVER_ERRORS) or isinstance(error, TimeoutError) or isinstance(translated(error), kinds)
    )


class PostgresTasks(SqlTasks[PostgresTaskConnection]):
    def __init__(
        self, database: Database, writes: Writes, *, naming: Naming, moment: Callable[[], datetime | None]
    ) -> None:
        super().__init__("postgres", naming)
        self._migrator = Migrator(naming)
        self._database = database
        self._writes = writes
        self._clock = moment

    def _on(self, connection: Connection) -> PostgresTaskConnection:
        return PostgresTaskConnection(connection, self._writes, self._moment())

    async def _read(self, work: TaskWork[PostgresTaskConnection, T]) -> T:
        return await self._database.run(lambda connection, again: work(self._on(connection)))

    async def _write(self, work: TaskWork[PostgresTaskConnection, T]) -> T:
        return await self._read(work)

    async def _long_read(self, work: TaskWork[PostgresTaskConnection, T], owner: str) -> T:
        return await self._read(work)

    async def _change(self, work: TaskWork[PostgresTaskConnection, bool]) -> bool:
        try:
            return await self._read(work)
        except StoreRefused as error:
            raise InvalidRequest(f"the table of tasks does not take it: {error.message}", field="task") from error

    def _moment(self) -> datetime | None:
        return self._clock()

    def _filled(self, table: TaskTable) -> dict[str, str]:
        texts = {name: _text(name, table.columns.get(name)) for name in Task.__struct_fields__}
        types = {f"{name}_type": table.columns.get(name, "text") for name in ("id", "next_run", "created_at")}
        parts = {"columns": ", ".join(texts.values()), "next_run": texts["next_run"]}
        return filled(self._sql, table, types | parts)

    async def rehearse(self, table: str) -> None:
        check_name(table)

        async def work(connection: Connection, again: bool) -> None:
            rehearsal = connection.transaction()
            await rehearsal.start()
            try:
                await self._migrator.apply_steps(connection)
                await self._connect(self._on(connection), table)
            finally:
                await rehearsal.rollback()

        await self._database.run(work)

    async def plan(self, plans: Sequence[TaskPlan]) -> list[Planned]:
        """All of them in one transaction, a statement for each step; one by one where that is refused."""
        if len({plan.news.task_id for plan in plans}) < len(plans) or len(plans) < _TOGETHER:
            return await super().plan(plans)

        async def work(connection: PostgresTaskConnection) -> list[Planned] | None:
            if (known := await self._known_table(connection)) is None:
                return [MOVED] * len(plans)
            try:
                async with connection.transaction():
                    return await self._plan_together(connection, known[1], plans)
            except (StoreBusy, StoreRefused):
                return None
            except DRIVER_ERRORS as error:
                if _is_trouble(error, Lost):
                    raise
                return None

        answers = await self._read(work)
        return await super().plan(plans) if answers is None else answers

    async def _plan_together(
        self, connection: PostgresTaskConnection, sql: Mapping[str, str], plans: Sequence[TaskPlan]
    ) -> list[Planned]:
        await connection.hold(sql, *(plan.news.alarm_id for plan in plans if plan.news.alarm_id))
        standing = await self._as_read(connection, sql, plans)
        changes = [plan.change for plan in standing if plan.change is not None]
        settled = await connection.settle_all(changes)
        lost = {change.after.id for change, one in zip(changes, settled, strict=True) if one.what != "applied"}
        left = [plan for plan in standing if plan.change is None or plan.change.after.id not in lost]
        await connection.add_all([plan.new for plan in left if plan.new is not None])
        rows = await self._show_all(connection, sql, left)
        gone = [plan.news.task_id for plan in left if plan.task is None]
        if gone:
            await connection.fetch(sql["unlink_all"], ids=gone)
        kept = [(plan, plan.task) for plan in left if plan.task is not None]
        await connection.fetch(
            sql["link_all"],
            ids=[plan.news.task_id for plan, _ in kept],
            alarm_ids=[plan.alarm_id for plan, _ in kept],
            seen=[seen_text(rows.get(plan.news.task_id, task)) for plan, task in kept],
            notes=[together(plan.note) for plan, _ in kept],
        )
        done = [plan.news for plan in left]
        await connection.fetch(sql["done_all"], ids=[one.task_id for one in done], uptos=[one.upto for one in done])
        written = {one.task_id for one in done}
        return [WRITTEN if plan.news.task_id in written else MOVED for plan in plans]

    async def _as_read(
        self, connection: PostgresTaskConnection, sql: Mapping[str, str], plans: Sequence[TaskPlan]
    ) -> list[TaskPlan]:
        """Those whose row and link are what they were decided from. The rows are held until the transaction ends."""
        ids = [plan.news.task_id for plan in plans]
        tasks = await self._tasks_now(connection, sql, ids)
        links = {row[0]: row for row in await connection.fetch(sql["linked_all"], ids=ids)}

        def stands(news: TaskNews) -> bool:
            link = links.get(news.task_id)
            seen, alarm_id = (seen_of(link[2]), link[1]) if link else (None, "")
            return (tasks.get(news.task_id), seen, alarm_id) == (news.task, news.seen, news.alarm_id)

        return [plan for plan in plans if stands(plan.news)]

    async def _tasks_now(
        self, connection: PostgresTaskConnection, sql: Mapping[str, str], ids: Sequence[str]
    ) -> dict[str, Task]:
        found = map(connection.task, await connection.fetch(sql["read_all"], ids=ids))
        return {task.id: task for task in found if task is not None}

    async def _show_all(
        self, connection: PostgresTaskConnection, sql: Mapping[str, str], plans: Sequence[TaskPlan]
    ) -> dict[str, Task]:
        """Have the rows say what was planned; those that were written, as they then are."""
        shown = [
            (plan.task, plan.note)
            for plan in plans
            if plan.task is not None and plan.news.task is not None and (plan.task != plan.news.task or plan.note)
        ]
        if not shown:
            return {}
        await connection.fetch(
            sql["write_all"],
            ids=[task.id for task, _ in shown],
            statuses=[task.status for task, _ in shown],
            next_runs=[self._fitted(task) for task, _ in shown],
            notes=[note or None for _, note in shown],
        )
        return await self._tasks_now(connection, sql, [task.id for task, _ in shown])

    async def news(self, *, limit: int, after: int = 0) -> list[TaskNews]:
        async def work(connection: PostgresTaskConnection) -> Sequence[Record]:
            known = await self._known_table(connection)
            return [] if known is None else await connection.fetch(known[1]["news"], limit=limit, after=after)

        return [news_of(tuple(row)) for row in await self._read(work)]

    async def overtaken(self, connection: Connection, alarm_ids: Sequence[str], *, wait: str) -> Set[str]:
        """Of these alarms, about to be settled, those whose row is not the one that was planned. The rest is held."""
        ours = self._on(connection)
        await ours.fetch(self._sql["hold_alarms"], wait=wait, alarm_ids=alarm_ids)
        return (await self._standing(ours, alarm_ids, hold=True)).keys()

    async def _standing(
        self, connection: PostgresTaskConnection, alarm_ids: Sequence[str], *, hold: bool = False
    ) -> dict[str, TaskNews | None]:
        linked = [row[0] for row in await connection.fetch(self._sql["links_of"], alarm_ids=alarm_ids)]
        known = await self._known_table(connection) if linked else None
        if known is None:
            return dict.fromkeys(linked)
        _, sql = known
        try:
            async with connection.transaction():
                held = {row[0] for row in await connection.fetch(sql["hold_rows"], alarm_ids=linked)} if hold else None
                rows = await connection.fetch(sql["standing"], alarm_ids=linked)
                found = [news_of(tuple(row)) for row in rows]
        except DRIVER_ERRORS as error:
            if _is_trouble(error, Lost, StoreBusy):
                raise
            self._table = None  # it may have been altered: read again
            return dict.fromkeys(linked)
        is_free = {news.task_id: held is None or news.task_id in held for news in found}
        return {news.alarm_id: news for news in found if news.task != news.seen or not is_free[news.task_id]}

    async def write_back(self, connection: Connection, changes: Sequence[Change], answers: Sequence[Settled]) -> None:
        """Bring the rows of tasks up to date with their alarms, which have just been settled."""
        tasks = [
            change
            for change, answer in zip(changes, answers, strict=True)
            if shows(change) and answer.what == "applied"
        ]
        ours = self._on(connection)
        known = await self._known_table(ours) if tasks else None
        if known is not None:
            for change in tasks:
                await self._follow(ours, known[1], change.after)


def _text(column: str, type: str | None) -> str:
    """A column as text; moments in UTC whatever the session's zone."""
    if type is None:
        return "null::text"
    if type.startswith("timestamp"):
        return _UTC.format(f"task.{column}" + (" at time zone 'utc'" if type.endswith("with time zone") else ""))
    return f"task.{column}::text"

"""The SQL door on PostgreSQL: one transaction for each plan, on the row's own lock."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wakeful.alarm import Alarm, Change, Task, TaskNews, shows
from wakeful.errors import InvalidConfig, InvalidRequest, StoreBusy
from wakeful.store import Settled
from wakeful.store.batching import StoreRefused
from wakeful.store.postgres.database import DRIVER_ERRORS, Database, translated
from wakeful.store.postgres.hosts import Lost
from wakeful.store.postgres.writes import LOCK_WAIT, Writes
from wakeful.store.queries import Naming
from wakeful.store.task_door import TasksOver, Work
from wakeful.store.tasks import ID_LENGTH, MOVED, Planned, TaskTable, filled, news_of, task_of, unfit_id

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
_TEXT: Final = re.compile(r"(text|citext|name|character|character varying)(\((?P<length>\d+)\))?")
_UTC: Final = """to_char({}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
_VALUE: Final = re.compile(r"(?<![:\w]):([a-z_]+)")


@lru_cache(maxsize=128)
def _numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """A statement with its values by number, and their names in that order."""
    names = tuple(dict.fromkeys(_VALUE.findall(sql)))
    return _VALUE.sub(lambda found: f"${names.index(found[1]) + 1}", sql), names


class PostgresTaskConnection:
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

    def check_id(self, table: TaskTable) -> None:
        type = table.columns["id"]
        is_text = _TEXT.fullmatch(type)
        if is_text is None or int(is_text["length"] or ID_LENGTH) < ID_LENGTH:
            raise unfit_id(table.name, type)

    def task(self, row: Record) -> Task | None:
        return task_of(tuple(row))

    async def hold(self, sql: Mapping[str, str], alarm_id: str) -> None:
        # Not long: whoever holds one row keeps the others from being planned, and it is tried again each tick.
        await self.run(f"set local lock_timeout = '{LOCK_WAIT}'")
        if alarm_id:
            await self.fetch(sql["hold_alarms"], wait=LOCK_WAIT, alarm_ids=[alarm_id])

    async def settle(self, change: Change) -> Settled:
        settled = self._writes.settle_slowly(self._connection, [change], now=self._now, alone=True, again=False)
        [answer], _ = await settled
        return answer

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


class PostgresTasks(TasksOver[PostgresTaskConnection]):
    def __init__(
        self, database: Database, writes: Writes, *, naming: Naming, moment: Callable[[], datetime | None]
    ) -> None:
        super().__init__("postgres", naming)
        self._database = database
        self._writes = writes
        self._clock = moment

    def _on(self, connection: Connection) -> PostgresTaskConnection:
        return PostgresTaskConnection(connection, self._writes, self._moment())

    async def _read(self, work: Work[PostgresTaskConnection, T]) -> T:
        return await self._database.run(lambda connection, again: work(self._on(connection)))

    async def _write(self, work: Work[PostgresTaskConnection, T]) -> T:
        return await self._read(work)

    async def _look(self, work: Work[PostgresTaskConnection, T], owner: str) -> T:
        return await self._read(work)

    async def _change(self, work: Work[PostgresTaskConnection, bool]) -> bool:
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

    async def news(self, *, limit: int, after: int = 0) -> list[TaskNews]:
        async def work(connection: PostgresTaskConnection) -> Sequence[Record]:
            known = await self._known_door(connection)
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
        known = await self._known_door(connection) if linked else None
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
            self._door = None  # it may have been altered: look again
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
        known = await self._known_door(ours) if tasks else None
        if known is not None:
            for change in tasks:
                await self._follow(ours, known[1], change.after)


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

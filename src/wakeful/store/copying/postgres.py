"""wakeful's tables in PostgreSQL, for copying: read through a cursor, written with COPY."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from wakeful.errors import InvalidRequest
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.store.copying import BATCH, CopiedTable, Row, Tables, copying_sql, filled
from wakeful.store.postgres.database import Database
from wakeful.store.postgres.migrate import Migrator
from wakeful.store.postgres.rows import uuid_of
from wakeful.store.queries import Ledger, Naming

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection

_PATIENCE: Final = 3600.0  # seconds for one statement: a backup of a large table takes long
_LOCK_WITHIN: Final = "30s"
_Convert = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _uuid(text: str) -> str:
    if uuid_of(text) is None:
        raise InvalidRequest(
            f"the alarm {text[:60]!r} has an id that is not a UUID, and PostgreSQL keeps no other",
            fix="Cancel it, set it anew, and delete its row.",
        )
    return text


_FROM: Final[dict[str, _Convert]] = {"uuid": str, "timestamp with time zone": unix_ms, "boolean": int, "bytea": bytes}
_TO: Final[dict[str, _Convert]] = {"uuid": _uuid, "timestamp with time zone": from_unix_ms, "boolean": bool}


class PostgresTables(Tables):
    def __init__(self, dsn: str, naming: Naming, *, pgbouncer: bool = False) -> None:
        self._naming = naming
        self._sql = copying_sql("postgres", naming)
        self._database = Database(dsn, pool_size=1, pgbouncer=pgbouncer)
        self._held = AsyncExitStack()
        self._connection: Connection | None = None
        self._types: dict[str, dict[str, str]] = {}

    async def close(self) -> None:
        await self._held.aclose()
        await self._database.close()

    async def columns(self, table: CopiedTable) -> tuple[str, ...]:
        if table.name not in self._types:
            rows = await self._fetch(filled(self._sql["columns"], table, (), ()))
            self._types[table.name] = dict(rows)
        return tuple(self._types[table.name])

    async def rows(
        self, table: CopiedTable, columns: Sequence[str], *, after: Row | None = None
    ) -> AsyncIterator[list[Row]]:
        converts = await self._converts(table, columns, _FROM)
        marks = [f"${at}" for at in range(1, len(table.key) + 1)]
        sql = filled(self._sql["all_rows" if after is None else "rows_after"], table, columns, marks)
        keys = await self._converts(table, table.key, _TO)
        with self._database.errors_translated():
            connection = await self._opened()
            async with connection.transaction():
                found = await connection.cursor(sql, *_converted(keys, after or ()), timeout=_PATIENCE)
                while rows := await found.fetch(BATCH, timeout=_PATIENCE):
                    yield [_converted(converts, tuple(row)) for row in rows]

    def fit(self, rows: list[Row]) -> list[Row]:
        return [row if not _has_nul(row) else tuple(map(_without_nul, row)) for row in rows]

    def check_ids(self, ids: Iterable[str]) -> None:
        for id in ids:
            _uuid(id)

    async def put(self, table: CopiedTable, columns: Sequence[str], rows: list[Row]) -> None:
        converts = await self._converts(table, columns, _TO)
        records = [_converted(converts, row) for row in rows]
        with self._database.errors_translated():
            await (await self._opened()).copy_records_to_table(
                f"{self._naming.prefix}{table.name}",
                schema_name=self._naming.schema or None,
                columns=list(columns),
                records=records,
                timeout=_PATIENCE,
            )

    async def last_key(self, table: CopiedTable) -> Row | None:
        converts = await self._converts(table, table.key, _FROM)
        found = await self._fetch(filled(self._sql["last_key"], table, (), ()))
        return _converted(converts, found[0]) if found else None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        with self._database.errors_translated():
            async with (await self._opened()).transaction():
                await self._fetch(f"set local lock_timeout = '{_LOCK_WITHIN}'")
                await self._fetch("set local synchronous_commit = on")
                yield

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        with self._database.errors_translated():
            async with (await self._opened()).transaction(isolation="repeatable_read", readonly=True):
                yield

    async def run(self, name: str, **values: Any) -> list[Row]:
        rows = [tuple(row) for row in await self._fetch(self._sql[name], *values.values())]
        return [tuple(unix_ms(value) if isinstance(value, datetime) else value for value in row) for row in rows]

    async def refuse_to_open(self) -> None:
        with self._database.errors_translated():
            await Migrator(self._naming).refuse_to_open(await self._opened())

    async def lift_refusal(self) -> None:
        with self._database.errors_translated():
            await Migrator(self._naming).lift_refusal(await self._opened())

    async def is_closed(self) -> bool:
        with self._database.errors_translated():
            return await Migrator(self._naming).is_closed(await self._opened())

    async def ledger(self) -> Ledger:
        with self._database.errors_translated():
            return await Migrator(self._naming).ledger(await self._opened())

    async def go_on_numbering(self) -> None:
        await self.run("go_on_numbering")

    async def _converts(self, table: CopiedTable, columns: Sequence[str], by: dict[str, _Convert]) -> list[_Convert]:
        await self.columns(table)
        return [by.get(self._types[table.name][name], _same) for name in columns]

    async def _fetch(self, sql: str, *args: Any) -> list[Any]:
        with self._database.errors_translated():
            return await (await self._opened()).fetch(sql, *args, timeout=_PATIENCE)

    async def _execute(self, sql: str) -> None:
        with self._database.errors_translated():
            await (await self._opened()).execute(sql, timeout=_PATIENCE)

    async def _opened(self) -> Connection:
        if self._connection is None:
            self._connection = await self._held.enter_async_context(self._database.connection())
        return self._connection


def _converted(converts: Sequence[_Convert], row: Sequence[Any]) -> Row:
    return tuple(
        None if value is None else convert(value) for convert, value in zip(converts, row, strict=len(row) > 0)
    )


def _has_nul(row: Row) -> bool:
    return any(isinstance(value, str) and "\0" in value for value in row)


def _without_nul(value: Any) -> Any:
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value

"""Rows into a PostgreSQL database that is not wakeful's own."""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import ERROR_LIMIT, Row
from wakeful.model.outcome import Outcome
from wakeful.targets.table_writer import (
    Unfit,
    check_texts,
    inserted,
    no_text_key,
    no_unique_key,
    no_value,
    not_inserted,
    quoted,
    verify_columns,
)
from wakeful.targets.text import one_line

_CONNECTIONS: Final = 4
_CLOSE_WITHIN: Final = 5  # seconds; then connections are dropped
_COLUMNS: Final = """
select attname, format_type(atttypid, atttypmod) as type
  from pg_attribute
 where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""
# Only these can serve `on conflict`: one plain column, no condition, not deferrable.
_UNIQUE_ON: Final = """
select 1
  from pg_index
  join pg_attribute on attrelid = indrelid and attnum = indkey[0]
 where indrelid = to_regclass($1) and indisunique and indimmediate and indisvalid and indpred is null
   and indnkeyatts = 1 and attname = $2
"""
_NEEDED: Final = """
select attname, format_type(atttypid, atttypmod)
  from pg_attribute
 where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
   and attnotnull and not atthasdef and attidentity = '' and not attname = any($2::text[])
"""
_NO_TEXT: Final = ("smallint", "integer", "bigint", "numeric", "uuid")
# The statement is wrong, or this row is: another try finds the same. Everything else may pass.
_OUR_FAULT: Final = ("22", "23", "42")


class PostgresWriter:
    """A few connections, made when needed and again when they broke."""

    def __init__(self, dsn: str, table: str, columns: tuple[str, ...], key: str, *, timeout: float) -> None:
        self._dsn = dsn
        self._table, self._columns, self._key = table, columns, key
        self._timeout = timeout
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        self._types: dict[str, str] = {}  # of the table's columns, as last seen

    async def check(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                async with (await self._opened()).acquire() as connection:
                    await self._prepare(connection)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            raise InvalidConfig(_explained(error), field="database") from None

    async def try_out(self, row: Row) -> None:
        async with asyncio.timeout(self._timeout), (await self._opened()).acquire() as connection:
            await self._prepare(connection)
            check_texts(self._table, self._types, {k: v for k, v in row.values.items() if k not in row.optional})
            trial = connection.transaction()
            await trial.start()
            try:
                await self._execute(connection, row)
            except asyncpg.NotNullViolationError as error:
                needed = await self._needed(row)
                raise no_value(self._table, needed) if needed else Unfit(_explained(error)) from None
            except (asyncpg.IntegrityConstraintViolationError, asyncpg.RaiseError):
                pass
            except asyncpg.PostgresError as error:
                raise Unfit(f"{self._table}: {_explained(error)}") from None
            finally:
                await trial.rollback()

    async def _needed(self, row: Row) -> dict[str, str]:
        async with (await self._opened()).acquire() as connection:
            return dict(map(tuple, await connection.fetch(_NEEDED, quoted(self._table), list(row.values))))

    async def insert(self, row: Row) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout):
                async with (await self._opened()).acquire() as connection:
                    if not self._types:
                        await self._prepare(connection)
                    done = await self._execute(connection, row)
        except TimeoutError:
            return not_inserted(f"not done within {self._timeout:g} s", unhealthy=True)
        except (InvalidConfig, Unfit) as error:
            return not_inserted(str(error), unhealthy=True)
        except asyncpg.PostgresError as error:
            self._types = {}  # it may have been altered: ask again
            ours = (error.sqlstate or "").startswith(_OUR_FAULT)
            return not_inserted(_explained(error), unhealthy=not ours)
        except (asyncpg.InterfaceError, OSError, ValueError) as error:
            return not_inserted(_explained(error), unhealthy=True)
        return inserted(self._table, int(done.rpartition(" ")[2]))

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                async with asyncio.timeout(_CLOSE_WITHIN):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    async def _opened(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                # No statement cache: it would not survive a pgbouncer in transaction mode.
                self._pool = await asyncpg.create_pool(
                    self._dsn, min_size=0, max_size=_CONNECTIONS, statement_cache_size=0
                )
            return self._pool

    async def _prepare(self, connection: asyncpg.pool.PoolConnectionProxy) -> None:
        name = quoted(self._table)
        types = {row["attname"]: row["type"] for row in await connection.fetch(_COLUMNS, name)}
        verify_columns(self._table, self._columns, types)
        if (type := types[self._key]).startswith(_NO_TEXT):
            raise no_text_key(self._table, self._key, type)
        if not await connection.fetch(_UNIQUE_ON, name, self._key):
            raise no_unique_key(self._table, self._key)
        self._types = types

    async def _execute(self, connection: asyncpg.pool.PoolConnectionProxy, row: Row) -> str:
        """The insert, with every text turned into its column's type by the database."""
        types = self._types
        values = row.fitted({name for name, kind in types.items() if kind.startswith(("text", "character"))}).values
        columns = ", ".join(map(quoted, values))
        places = ", ".join(f"${n}::text::{types[column]}" for n, column in enumerate(values, 1))
        into = f"insert into {quoted(self._table)} ({columns}) values ({places})"
        texts = [None if value is None else str(value) for value in values.values()]
        return await connection.execute(f"{into} on conflict ({quoted(self._key)}) do nothing", *texts)


def _explained(error: Exception) -> str:
    """The first line only: the next ones can show the row."""
    first = (str(error).splitlines() or [""])[0]
    return one_line(f"{type(error).__name__}: {first}", ERROR_LIMIT)

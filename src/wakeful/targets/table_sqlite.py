"""Rows into an SQLite file that is not wakeful's own."""

from __future__ import annotations

import asyncio

import apsw

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig
from wakeful.model.alarm import ERROR_LIMIT, Row, is_for_numbers
from wakeful.model.outcome import Outcome
from wakeful.moments import stamp
from wakeful.targets.calls import Threads
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
from wakeful.targets.text import described

# Somebody else has the file, or it is away: the table is not to blame.
_TROUBLE = (apsw.BusyError, apsw.LockedError, apsw.CantOpenError, apsw.IOError, apsw.FullError, apsw.ReadOnlyError)
_UNIQUE_ON = """
select 1
  from pragma_index_list(?1) as list
 where list."unique" and not list.partial
   and (select group_concat(lower(name)) from pragma_index_info(list.name)) = lower(?2)
"""
_TEXTS = """
select lower(name)
  from pragma_table_info(?)
 where type = '' or lower(type) like '%char%' or lower(type) like '%text%'
"""


_TYPES = "select lower(name), type from pragma_table_info(?)"
# Not a rowid's: SQLite finds its number itself.
_NEEDED = """
select name, type
  from pragma_table_info(?1)
 where "notnull" and dflt_value is null and not (pk > 0 and lower(type) = 'integer')
"""
# What the table's columns are against, whatever the row says.
_UNFIT = (apsw.SQLITE_CONSTRAINT_NOTNULL, apsw.SQLITE_CONSTRAINT_DATATYPE)


class SqliteWriter:
    """One connection in one thread; the file must exist, and its journal mode is left as it is."""

    def __init__(
        self, path: str, table: str, columns: tuple[str, ...], key: str, *, timeout: float, clock: Clock
    ) -> None:
        if "." in table:
            raise InvalidConfig("a table of an SQLite file has no schema", field="table")
        self._path = path.removeprefix("sqlite:///")
        self._table, self._columns, self._key = table, columns, key
        self._timeout = timeout
        self._clock = clock
        self._threads = Threads(1, "wakeful-table")
        self._database: apsw.Connection | None = None

    async def check(self) -> None:
        try:
            await self._threads.run(self._check)
        except apsw.Error as error:
            raise InvalidConfig(described(error, ERROR_LIMIT), field="database") from None

    async def try_out(self, row: Row) -> None:
        try:
            await self._threads.run(self._try_out, row)
        except apsw.Error as error:
            raise InvalidConfig(described(error, ERROR_LIMIT), field="database") from None

    async def insert(self, row: Row) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout):
                return inserted(self._table, await self._threads.run(self._write, row))
        except TimeoutError:
            return not_inserted(f"not done within {self._timeout:g} s", unhealthy=True)
        except apsw.Error as error:
            return not_inserted(described(error, ERROR_LIMIT), unhealthy=isinstance(error, _TROUBLE))

    async def close(self) -> None:
        if self._database is not None:
            await self._threads.run(self._forget)
        self._threads.close()

    def _open(self) -> apsw.Connection:
        if self._database is None:
            self._database = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READWRITE)
            self._database.set_busy_timeout(min(5000, int(self._timeout * 900)))
            self._database.execute("pragma synchronous = full")
        return self._database

    def _write(self, row: Row) -> int:
        try:
            database = self._open()
            database.execute("begin immediate")
            try:
                changed = self._insert(database, row)
                database.execute("commit")
                return changed
            finally:
                if database.in_transaction:
                    database.execute("rollback")
        except _TROUBLE:
            self._forget()  # perhaps the file was replaced: the next call opens it again
            raise

    def _insert(self, database: apsw.Connection, row: Row) -> int:
        # Stamped while nobody else can write: a reader that follows the stamps then misses none.
        row = row.fitted({name for (name,) in database.execute(_TEXTS, (self._table,))})
        values = row.values | dict.fromkeys(row.stamped, stamp(self._clock.now()))
        names, marks = ", ".join(map(quoted, values)), ", ".join("?" * len(values))
        into = f"insert into {quoted(self._table)} ({names}) values ({marks})"
        database.execute(f"{into} on conflict ({quoted(self._key)}) do nothing", tuple(values.values()))
        return database.changes()

    def _try_out(self, row: Row) -> None:
        database = self._open()
        values = {name.lower(): value for name, value in row.values.items() if name not in row.optional}
        types = {str(name): str(type) for name, type in database.execute(_TYPES, (self._table,))}
        check_texts(self._table, types, values)
        database.execute("begin immediate")
        try:
            self._insert(database, row)
        except apsw.ConstraintError as error:
            if error.extendedresult in _UNFIT:  # type: ignore[attr-defined]  # its stub lacks it
                found = dict(map(tuple, database.execute(_NEEDED, (self._table,))))
                needed = {name: type for name, type in found.items() if name.lower() not in values}
                raise no_value(self._table, needed) if needed else Unfit(f"{self._table}: {error}") from None
        except (apsw.SQLError, apsw.MismatchError) as error:
            raise Unfit(f"{self._table}: {error}") from None
        finally:
            database.execute("rollback")

    def _check(self) -> None:
        database = self._open()
        found = {str(name): str(type) for name, type in database.execute(_TYPES, (self._table,))}
        verify_columns(self._table, tuple(column.lower() for column in self._columns), found)
        if is_for_numbers(type := found[self._key.lower()]):
            raise no_text_key(self._table, self._key, type)
        if not list(database.execute(_UNIQUE_ON, (self._table, self._key))):
            raise no_unique_key(self._table, self._key)

    def _forget(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

"""wakeful's tables in a SQLite file, for copying. It blocks: a command that copies does nothing else meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import apsw

from wakeful.moments import unix_ms
from wakeful.store.copying import BATCH, CopiedTable, Row, Tables, copying_sql, filled
from wakeful.store.queries import Ledger, Naming
from wakeful.store.sqlite.file import describe, open_writer
from wakeful.store.sqlite.schema import is_closed, ledger_of, lift_refusal, refuse_to_open

if TYPE_CHECKING:
    from collections.abc import Iterator


class SqliteTables(Tables):
    def __init__(self, path: str, naming: Naming, *, now: datetime, db: apsw.Connection | None = None) -> None:
        self.path = path
        self._naming = naming
        self._now = now
        self._sql = copying_sql("sqlite", naming)
        with self._errors_described():
            self.db = open_writer(path) if db is None else db

    async def close(self) -> None:
        self.db.close(force=True)

    async def columns(self, table: CopiedTable) -> tuple[str, ...]:
        return tuple(str(name) for (name,) in await self._fetch(filled(self._sql["columns"], table, (), ())))

    async def rows(
        self, table: CopiedTable, columns: Sequence[str], *, after: Row | None = None
    ) -> AsyncIterator[list[Row]]:
        name = "all_rows" if after is None else "rows_after"
        with self._errors_described():
            found = self.db.execute(filled(self._sql[name], table, columns, ["?"] * len(table.key)), after or ())
            while rows := list(islice(found, BATCH)):
                yield rows

    def fit(self, rows: list[Row]) -> list[Row]:
        return rows

    def check_ids(self, ids: Iterable[str]) -> None:
        """Any text is kept."""

    async def put(self, table: CopiedTable, columns: Sequence[str], rows: list[Row]) -> None:
        with self._errors_described(), self.db:  # a savepoint, or a transaction of its own
            self.db.executemany(filled(self._sql["put"], table, columns, ["?"] * len(columns)), rows)

    async def last_key(self, table: CopiedTable) -> Row | None:
        found = await self._fetch(filled(self._sql["last_key"], table, (), ()))
        return found[0] if found else None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        outermost = not self.db.in_transaction
        await self._fetch("begin immediate" if outermost else "savepoint copying")
        try:
            yield
            await self._fetch("commit" if outermost else "release copying")
        except BaseException:
            if self.db.in_transaction:
                await self._fetch("rollback" if outermost else "rollback to copying; release copying")
            raise

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        # It begins with the first read, and no later write is seen until it ends.
        await self._fetch("begin; select count(*) from sqlite_master")
        try:
            yield
        finally:
            if self.db.in_transaction:
                await self._fetch("rollback")

    async def run(self, name: str, **values: Any) -> list[Row]:
        kept = {name: unix_ms(value) if isinstance(value, datetime) else value for name, value in values.items()}
        return await self._fetch(self._sql[name], kept)

    async def refuse_to_open(self) -> None:
        with self._errors_described():
            refuse_to_open(self.db, self._naming, self._now)

    async def lift_refusal(self) -> None:
        with self._errors_described():
            lift_refusal(self.db, self._naming)

    async def is_closed(self) -> bool:
        with self._errors_described():
            return is_closed(self.db, self._naming)

    async def ledger(self) -> Ledger:
        with self._errors_described():
            return ledger_of(self.db, self._naming)

    async def go_on_numbering(self) -> None:
        """SQLite does so by itself."""

    async def _execute(self, sql: str) -> None:
        await self._fetch(sql)

    async def _fetch(self, sql: str, values: Any = ()) -> list[Row]:
        with self._errors_described():
            return self.db.execute(sql, values or ()).fetchall()

    @contextmanager
    def _errors_described(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise describe(error, self.path) from error

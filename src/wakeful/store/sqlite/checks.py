"""What checks have seen, in a SQLite file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any

import apsw

from wakeful.alarm import Change
from wakeful.store.checks import MOST_ROWS, check_sql
from wakeful.store.queries import Naming
from wakeful.store.rows import Row
from wakeful.store.sqlite.readers import Readers
from wakeful.store.sqlite.writer import Writer
from wakeful.store.sqlite.writes import write_rows

Read = Callable[[Callable[[apsw.Connection], list[Row]]], Awaitable[list[Row]]]


class SqliteChecks:
    def __init__(self, writer: Writer, read: Read, lookers: Readers, *, naming: Naming) -> None:
        self._writer = writer
        self._read = read
        self._lookers = lookers
        self._sql = check_sql("sqlite", naming)

    async def seen(self, alarm_id: str, name: str) -> str | None:
        asked = {"alarm_id": alarm_id, "name": name}
        rows = await self._read(lambda db: db.execute(self._sql["seen"], asked).fetchall())
        return str(rows[0][0]) if rows else None

    async def rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        def work(db: apsw.Connection) -> list[tuple[Any, ...]]:
            return list(islice(db.execute(sql), MOST_ROWS + 1))

        return await self._lookers.read(work, within=within)

    async def forget(self, *, limit: int) -> int:
        def work(db: apsw.Connection) -> int:
            return len(db.execute(self._sql["forget_seen"], {"limit": limit}).fetchall())

        return await self._writer.submit(work)

    def keep(self, db: apsw.Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        kept = [(change.after.id, change.seen.name, change.seen.value) for change in changes if change.seen is not None]
        write_rows(db, self._sql["keep_seen"], kept)

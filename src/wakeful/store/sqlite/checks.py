"""What checks have seen, in a SQLite file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, Final

import apsw

from wakeful.alarm import Change
from wakeful.store.checks import MOST_ROWS, check_sql
from wakeful.store.queries import Naming
from wakeful.store.rows import Row
from wakeful.store.sqlite.readers import Readers
from wakeful.store.sqlite.writer import Writer
from wakeful.store.sqlite.writes import write_rows

Read = Callable[[Callable[[apsw.Connection], list[Row]]], Awaitable[list[Row]]]


_READS: Final = (
    apsw.SQLITE_SELECT,
    apsw.SQLITE_READ,
    apsw.SQLITE_FUNCTION,
    apsw.SQLITE_RECURSIVE,
)


def _only_reads(action: int, *_: str | None) -> int:
    """Allow a check to read: `pragma query_only = 0` would make its connection writable for all later reads."""
    return apsw.SQLITE_OK if action in _READS else apsw.SQLITE_DENY


class _OneStatement:
    """Refuses the second statement of a check."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        self._count += 1
        if self._count > 1:
            raise apsw.AuthError("the SQL of a check is one statement")
        return True


def read_only_rows(sql: str, db: apsw.Connection) -> list[tuple[Any, ...]]:
    """The rows of an operator's query, at most MOST_ROWS + 1."""
    cursor = db.cursor()
    cursor.exec_trace = _OneStatement()
    db.authorizer = _only_reads
    try:
        return list(islice(cursor.execute(sql), MOST_ROWS + 1))
    finally:
        db.authorizer = None
        cursor.close(force=True)


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
        return await self._lookers.read(partial(read_only_rows, sql), within=within)

    async def forget(self, *, limit: int) -> int:
        def work(db: apsw.Connection) -> int:
            return len(db.execute(self._sql["forget_seen"], {"limit": limit}).fetchall())

        return await self._writer.submit(work)

    def keep(self, db: apsw.Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        kept = [(change.after.id, change.seen.name, change.seen.value) for change in changes if change.seen is not None]
        write_rows(db, self._sql["keep_seen"], kept)

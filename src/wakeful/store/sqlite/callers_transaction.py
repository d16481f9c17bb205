"""The store inside a caller's own transaction: every statement on the caller's apsw connection, in its thread.

There is no hint: a dispatcher sees what was written at its next tick after the commit.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, TypeVar

import apsw

from wakeful.errors import InvalidRequest
from wakeful.store.sqlite import SqliteStore
from wakeful.store.sqlite.file import describe
from wakeful.store.sqlite.zones import SqliteZones

if TYPE_CHECKING:
    from wakeful.store.sqlite.queued_work import Joint, Work

T = TypeVar("T")


class CallersConnection:
    """In the place of the writer and the readers. A savepoint around each write: it is done as a whole, or not."""

    def __init__(self, db: apsw.Connection, path: str) -> None:
        self._db = db
        self._path = path

    async def submit(self, work: Work[T], **_: Any) -> T:
        try:
            with self._db:
                done = work(self._db)
        except Exception as error:
            raise describe(error, self._path) from error
        return done

    async def submit_joint(self, joint: Joint, item: Any, **_: Any) -> Any:
        [answer] = await self.submit(lambda db: joint(db, [item]))
        return answer

    async def read(self, work: Work[T], *, within: float = math.inf) -> T:
        try:
            return work(self._db)
        except Exception as error:
            raise describe(error, self._path) from error


class CallersTransaction(SqliteStore):
    def __init__(self, ours: SqliteStore, db: apsw.Connection) -> None:
        self.__dict__.update(ours.__dict__)
        connection: Any = CallersConnection(db, self._path)
        self._writer = self._readers = self._lookers = connection
        # What it keeps is the caller's too, and may be rolled back: nothing else remembers it.
        had_edition = ours.zones.has_edition
        self.zones = SqliteZones(self._write, self._read, naming=self._naming, clock=self._clock)
        self.zones.has_edition = had_edition


def callers_connection(given: Any, path: str) -> apsw.Connection:
    if not isinstance(given, apsw.Connection):
        raise InvalidRequest(
            f"a {type(given).__name__} is not a connection of apsw",
            field="connection",
            fix="Give an apsw.Connection; the standard library's sqlite3 must not open the same file in one process.",
        )
    if not given.filename or os.path.realpath(given.filename) != os.path.realpath(path):
        raise InvalidRequest(
            f"it is a connection to {given.filename or 'no file'}", field="connection", fix=f"Give one to {path}."
        )
    return given

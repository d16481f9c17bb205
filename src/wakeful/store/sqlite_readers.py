"""Two threads that read the SQLite file beside the one that writes to it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, local
from typing import TypeVar

import apsw

from wakeful.clock import running_loop
from wakeful.errors import StoreUnavailable
from wakeful.store.sqlite_file import describe, open_reader
from wakeful.store.sqlite_original import Original

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]


class Readers:
    """Two threads with a connection each. They never write and never checkpoint."""

    def __init__(self, path: str, original: Original) -> None:
        self._path = path
        self._original = original
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="wakeful-reader")
        self._mine = local()
        self._all: list[apsw.Connection] = []
        self._lock = Lock()
        self._closed = False

    async def read(self, work: Work[T]) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return await running_loop().run_in_executor(self._threads, self._run, work)

    def _run(self, work: Work[T]) -> T:
        try:
            found = work(self._connection())
            self._original.check()  # what was read may be of a file that is nobody's any more
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, apsw.BusyError):
                self._forget_mine()  # opened anew next time
            raise describe(error, self._path) from error
        return found

    def _connection(self) -> apsw.Connection:
        db: apsw.Connection | None = getattr(self._mine, "db", None)
        if db is None:
            self._original.check()
            db = open_reader(self._path)
            try:
                self._original.remember()
            except BaseException:
                db.close(force=True)  # of another file
                raise
            with self._lock:
                self._all.append(db)
            self._mine.db = db
        return db

    def _forget_mine(self) -> None:
        db: apsw.Connection | None = getattr(self._mine, "db", None)
        if db is None:
            return
        self._mine.db = None
        with self._lock:
            self._all.remove(db)
        with suppress(apsw.Error):
            db.close(force=True)

    def close(self) -> None:
        self._closed = True
        self._threads.shutdown(wait=True)
        for db in self._all:
            db.close(force=True)
        self._all.clear()

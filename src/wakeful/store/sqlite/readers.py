"""Threads that read the SQLite file beside the one that writes to it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, local
from typing import Final, TypeVar

import apsw

from wakeful.clock import stopwatch
from wakeful.cpu_time import charging
from wakeful.errors import OneProcess, StoreUnavailable
from wakeful.store.pages import too_slow
from wakeful.store.sqlite.file import describe, open_reader
from wakeful.store.sqlite.original import Original

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
STEPS: Final = 2000  # of SQLite's machine, between two looks at the time: a few dozen rows


class Readers:
    """Threads with a connection each. They never write and never checkpoint."""

    def __init__(self, path: str, original: Original, *, threads: int) -> None:
        self._path = path
        self._original = original
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="wakeful-reader")
        self._mine = local()
        self._all: list[apsw.Connection] = []
        self._lock = Lock()
        self._closed = False
        self._process = OneProcess()

    async def read(self, work: Work[T], *, within: float = math.inf) -> T:
        """Do it, but for no longer than so many seconds."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        self._process.check()
        return await asyncio.get_running_loop().run_in_executor(self._threads, charging(self._run), work, within)

    def _run(self, work: Work[T], within: float) -> T:
        try:
            db = self._connection()
            self._mine.ends = stopwatch() + within
            found = work(db)
            self._original.check()  # what was read may be of a file that is nobody's any more
        except apsw.InterruptError:
            raise too_slow(within) from None
        except Exception as error:
            if isinstance(error, apsw.Error) and not isinstance(error, apsw.BusyError):
                self._forget_mine()  # opened again next time
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
            db.set_progress_handler(self._is_too_slow, STEPS)
            with self._lock:
                self._all.append(db)
            self._mine.db = db
        return db

    def _is_too_slow(self) -> bool:
        ends: float = self._mine.ends
        return stopwatch() > ends

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
        if self._process.is_forked:
            return  # threads and connections are the parent's
        self._threads.shutdown(wait=True)
        for db in self._all:
            db.close(force=True)
        self._all.clear()

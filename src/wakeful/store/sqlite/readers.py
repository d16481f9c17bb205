"""Threads that read the SQLite file beside the one that writes to it, and the parameters of searches."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, local
from typing import Any, Final, TypeVar

import apsw
import msgspec
from msgspec.structs import asdict

from wakeful.clock import stopwatch
from wakeful.errors import OneProcess, StoreUnavailable
from wakeful.model.alarm import STEPPED_OVER, UNSUCCESSFUL
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.runtime.cpu_time import charging
from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.filters import CANCELLED, PAUSED, Cursor, indexed_statuses, is_by_id
from wakeful.store.records import too_slow
from wakeful.store.rows import Row
from wakeful.store.sqlite.file import Original, describe, open_reader

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
STEPS: Final = 2000  # of SQLite's machine, between two checks of the time: a few dozen rows


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


_WHEN: Final = re.compile(r"\n[^\n]* -- when (\w+)(?=\n|$)")


def narrowed(sql: str, values: Mapping[str, Any]) -> str:
    """The statement without the lines marked `-- when x` whose value is missing or empty.

    The text stays whole in its file, every value is a parameter, and an absent filter does not cost an index.
    """
    return _WHEN.sub(lambda line: line[0] if values[line[1]] not in ("", None) else "", sql)


def rows_of(sql: str, values: Mapping[str, Any] | Sequence[Any], db: apsw.Connection) -> list[Row]:
    return db.execute(sql, values).fetchall()


def search_values(query: AlarmQuery | FireQuery) -> dict[str, Any]:
    values = asdict(query)
    values["statuses"] = msgspec.json.encode(query.statuses).decode() if query.statuses else ""
    values["since"] = None if query.since is None else unix_ms(query.since)
    values["until"] = None if query.until is None else unix_ms(query.until)
    values["cursor"], values["cursor_id"] = (None, "") if query.cursor is None else query.cursor
    values["by_id"], values["before_id"], values["last_id"] = is_by_id(query), None, None
    if query.cursor is not None and is_by_id(query):
        values["cursor"], values["before_id"] = None, query.cursor[1]
    elif query.cursor is not None:
        values["cursor"] = unix_ms(query.cursor[0])
        if values["until"] is not None and values["cursor"] < values["until"]:
            values["until"] = None  # what is behind the cursor is before it: one end of a range is what an index has
    values["end"], values["end_id"] = None, ""
    return values | _index(query)


def _index(query: AlarmQuery | FireQuery) -> dict[str, bool | None]:
    """The lines that name the index, one of them at most."""
    statuses = indexed_statuses(query)
    by = {
        "by_paused": PAUSED,
        "by_cancelled": CANCELLED,
        "by_waiting": ("waiting",),
        "by_retrying": ("retrying",),
        "by_failed": UNSUCCESSFUL,
        "by_passed": STEPPED_OVER,
    }
    chosen: dict[str, bool | None] = {name: True if statuses == has else None for name, has in by.items()}
    key = isinstance(query, AlarmQuery) and bool(query.key)
    root = isinstance(query, AlarmQuery) and bool(query.root_id) and not key
    one_alarm = isinstance(query, FireQuery) and bool(query.alarm_id)
    chosen["by_key"] = (key and bool(query.owner)) or None
    chosen["by_root"] = root or None
    is_wide = not (statuses or chosen["by_key"] or root or one_alarm)
    chosen["by_owner"] = (is_wide and bool(query.owner)) or None
    chosen["by_scheduled"] = (is_wide and not query.owner and isinstance(query, FireQuery)) or None
    return chosen


def search_end(db: apsw.Connection, sql: str, values: dict[str, Any]) -> Cursor | None:
    """The last row that is read, noted in the values too; None where these are all."""
    by_id: bool = values["by_id"]
    in_order = values | {"since": None, "until": None} if by_id else values  # these are moments, and ids are the order
    rows: list[Row] = db.execute(narrowed(sql, in_order), in_order).fetchall()
    if len(rows) < 2:
        return None
    (moment, id), _ = rows
    values |= {"last_id": id} if by_id else {"end": moment, "end_id": id, "since": None}
    return from_unix_ms(moment), id

"""Somebody else's SQLite file, read without leaving a trace: not a byte in it, no new file beside it.

SQLite itself makes a `-wal` and a `-shm` when it opens a file in WAL mode, and finishes what a crash left open. So a
file at rest is read as one that cannot change; one in use is read beside its users, whose files are there already; and
one that a crash left with a log beside it is read from a copy.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import apsw

from wakeful.errors import InvalidRequest, StoreBusy, StoreUnavailable, WakefulError

_BUSY_MS: Final = 5000
_LOGS: Final = ("-wal", "-journal")
_FLAGS: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


class ForeignFile:
    """`field` and `whose` say in errors what was given, and whose database is in trouble."""

    def __init__(self, path: str, *, field: str, whose: str) -> None:
        self._path = os.path.abspath(path)
        self._field = field
        self._whose = whose
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._db: apsw.Connection | None = None

    def fetch(self, sql: str, args: Mapping[str, Any] | Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            if self._db is None:
                self._db = self._opened()
            return self._db.execute(sql, args).fetchall()
        except (apsw.Error, OSError) as error:
            raise self._described(error) from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _opened(self) -> apsw.Connection:
        if not os.path.isfile(self._path):
            raise InvalidRequest(f"there is no file {self._path}", field=self._field, fix="Name the file.")
        if self._has("-wal") and os.path.exists(self._path + "-shm"):
            return _open(self._path, "mode=ro")
        if not any(map(self._has, _LOGS)):
            return _open(self._path, "immutable=1")
        if not self._has("-wal"):
            # Somebody is writing just now, or died while writing: only asking tells.
            with suppress(apsw.ReadOnlyError, apsw.CantOpenError):
                return _open(self._path, "mode=ro")
        return _open(self._copied(), "mode=rw")

    def _has(self, log: str) -> bool:
        with suppress(OSError):
            return os.path.getsize(self._path + log) > 0
        return False

    def _copied(self) -> str:
        self._copy = tempfile.TemporaryDirectory(prefix="wakeful-import-")
        place = Path(self._copy.name, "copy")
        for ending in ("", *filter(self._has, _LOGS)):
            shutil.copyfile(self._path + ending, f"{place}{ending}")
        return str(place)

    def _described(self, error: Exception) -> WakefulError:
        match error:
            case apsw.NotADBError():
                return InvalidRequest(f"{self._path} is not a SQLite database", field=self._field)
            case apsw.BusyError():
                said = f"{self._path} was locked by another program for {_BUSY_MS // 1000} s"
                return StoreBusy(said, field=self._whose, fix="Try again.")
        said = f"{self._path} cannot be read: {type(error).__name__}: {error}"
        return StoreUnavailable(said, field=self._whose, passing=False)


def _open(path: str, how: str) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI if how == "mode=rw" else _FLAGS
    db = apsw.Connection(f"file:{quote(path)}?{how}", flags=flags)
    try:
        db.set_busy_timeout(_BUSY_MS)
        db.execute("select count(*) from sqlite_schema").fetchall()  # opening reads nothing yet
    except BaseException:
        db.close()
        raise
    return db

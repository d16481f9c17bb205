"""Opening a SQLite file the way wakeful needs it, and saying plainly why it cannot be opened.

Durability is decided here: a write-ahead log that is synced at every commit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

from wakeful.clock import nap, stopwatch
from wakeful.errors import InvalidConfig, StoreBusy, StoreUnavailable, WakefulError

BUSY_MS: Final = 5000
SYNCHRONOUS: Final = "full"  # anything less, and a power cut takes back what was acknowledged
_ASK_AGAIN: Final = 0.0003  # seconds
# Bytes the log is cut back to when it starts again: after a burst, or once a long reader that kept it growing is gone.
_WAL_LIMIT: Final = 8 * 1024 * 1024
_CACHE_KB: Final = 16_384


def check_path(path: str) -> str:
    """The file's absolute path; InvalidConfig where there can be no database."""
    if not path or path == ":memory:":
        fix = "Name a file, so that alarms survive the process."
        fix += " In a test, use `wakeful.testing.open_in_memory()`." if path else ""
        raise InvalidConfig(f"{path!r} is not a file", field="database", fix=fix)
    place = Path(os.path.abspath(path))  # absolute, so that no name is ever read as a URI
    if place.is_dir():
        raise InvalidConfig(f"{place} is a directory", field="database", fix="Name a file in it.")
    if not place.parent.is_dir():
        raise InvalidConfig(f"{place.parent} is not a directory", field="database", fix="Create it first.")
    return str(place)


def make(path: str) -> None:
    """An empty file only its owner can read, its name safe from a power cut. An existing one keeps its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be created: {error.strerror}", field="database") from error
    # SQLite syncs the directory for its journals only, not for the database itself.
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def open_as_it_is(path: str) -> apsw.Connection:
    """To write to a file that stays in whatever journal mode it has."""
    return _open(path)


def open_writer(path: str) -> apsw.Connection:
    db = _open(path)
    try:
        if db.readonly("main"):
            raise InvalidConfig(f"{path} cannot be written", field="database", fix="Check its permissions.")
        _use_wal(db)
        sync_commits(db, True)
        _pragma(db, f"journal_size_limit={_WAL_LIMIT}")
        _pragma(db, f"cache_size=-{_CACHE_KB}")
    except BaseException:
        db.close()
        raise
    return db


def sync_commits(db: apsw.Connection, wanted: bool) -> None:
    """Whether a commit waits for the disk. Not to be changed inside a transaction."""
    db.execute(f"pragma synchronous={SYNCHRONOUS if wanted else 'normal'}")


def open_reader(path: str) -> apsw.Connection:
    db = _open(path)
    try:
        _pragma(db, "query_only=1")
        _pragma(db, "wal_autocheckpoint=0")
    except BaseException:
        db.close(force=True)
        raise
    return db


# What is the same at the next try, until somebody does something.
_STAYS: Final = (apsw.CantOpenError, apsw.CorruptError, apsw.PermissionsError, apsw.AuthError, apsw.SQLError)
# What the machine is short of, or cannot do: it is not about what was to be written.
_BY_MACHINE: Final = (apsw.CantOpenError, apsw.FullError, apsw.IOError, apsw.NoMemError)


def describe(error: BaseException, path: str) -> WakefulError:
    """What a caller is told instead of the driver's exception."""
    told = _told(error, path)
    if told is not error:
        told.__cause__ = error
    return told


def _told(error: BaseException, path: str) -> WakefulError:
    match error:
        case WakefulError():
            return error
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"{path} was locked by another program for {BUSY_MS // 1000} s", fix="Try again.")
        case apsw.NotADBError():
            return InvalidConfig(f"{path} is not a SQLite database", field="database", fix="Name another file.")
        case apsw.SQLError() if "no such table" in str(error):
            return StoreUnavailable(
                f"{path} does not have wakeful's tables: {error}", fix="Run `wakeful db migrate`.", passing=False
            )
        case apsw.FullError():
            fix = "Free some space. Nothing was written."
            return StoreUnavailable(f"{path}: the disk is full", fix=fix, by_machine=True)
        case _:
            said = f"{path}: {type(error).__name__}: {error}"
            passing, by_machine = not isinstance(error, _STAYS), isinstance(error, _BY_MACHINE)
            return StoreUnavailable(said, passing=passing, by_machine=by_machine)


def _open(path: str) -> apsw.Connection:
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_handler(_Patience())
    return db


class _Patience:
    """Asks for a lock that somebody else has every millisecond or sooner, for five seconds.

    SQLite's own timeout soon asks every tenth of a second only: beside a program that writes without a pause it hardly
    ever finds the moment in between.
    """

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self, tries: int) -> bool:
        if tries == 0:
            self._since = stopwatch()
        if stopwatch() - self._since > BUSY_MS / 1000:
            return False
        nap(_ASK_AGAIN if tries < 1000 else 4 * _ASK_AGAIN)
        return True


def _use_wal(db: apsw.Connection) -> None:
    """Switching fails at once, whatever the busy timeout, while another process switches too: ask again."""
    began = stopwatch()
    while True:
        try:
            mode = _pragma(db, "journal_mode=wal")
        except apsw.BusyError:
            if stopwatch() - began > BUSY_MS / 1000:
                raise
            continue
        if mode != "wal":
            raise InvalidConfig(
                f"the database keeps journal_mode={mode}", field="database", fix="Put it on a local disk."
            )
        return


def _pragma(db: apsw.Connection, setting: str) -> object:
    row = db.execute(f"pragma {setting}").fetchone()
    return row[0] if row else None

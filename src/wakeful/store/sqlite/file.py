"""Opening a SQLite file the way wakeful needs it, and noticing when its name no longer leads to it.

Durability is decided here: a write-ahead log that is synced at every commit.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

import apsw

from wakeful.clock import nap, stopwatch
from wakeful.errors import InvalidConfig, InvalidRequest, StoreBusy, StoreUnavailable, WakefulError

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
    """What a caller gets instead of the driver's exception."""
    meaning = _meaning(error, path)
    if meaning is not error:
        meaning.__cause__ = error
    return meaning


def _meaning(error: BaseException, path: str) -> WakefulError:
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


log = logging.getLogger("wakeful.store")

_WORDS: Final = """wakeful keeps its alarms in {name}, beside this file.
While this note is here and {name} is not, wakeful does not begin with an empty database:
put {name} back, or start once with --create.
"""


class Original:
    """The file that a store began with, known by device and inode, and whether its name still leads there.

    A file that was deleted, moved away or replaced lives on for whoever has it open: what is written to it is kept for
    nobody. So no answer is given before its name was checked again. One for all connections of a store.

    The connections stay open while the file is away: they keep its inode from being given to another file, so what is
    found under it later is the same file again.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: tuple[int, int] | None = None
        self._away = False
        self._lock = Lock()

    @property
    def known(self) -> bool:
        return self._known is not None

    def remember(self) -> None:
        """The file was just opened: this is the one, or it must be the one that was opened before."""
        with self._lock:
            if self._known is None:
                self._known = _identity(self._path)
        self.check()

    def check(self) -> None:
        """StoreUnavailable, unless the name leads to the file that was opened. Takes about two microseconds."""
        if self._known is None:
            return
        try:
            found: tuple[int, int] | None = _identity(self._path)
            what = "was replaced by another file"
        except OSError as error:
            found, what = None, f"is gone ({error.strerror})"
        if (found != self._known) != self._away:
            self._changed(away=found != self._known, what=what)
        if found != self._known:
            raise StoreUnavailable(f"{self._path} {what} while it was in use", fix=_FIX)

    def _changed(self, *, away: bool, what: str) -> None:
        """Log it once, by the first thread that sees it."""
        with self._lock:
            if away == self._away:
                return
            self._away = away
        if away:
            log.critical("%s %s while it was in use: nothing is accepted or delivered. %s", self._path, what, _FIX)
        else:
            log.warning("%s is back: continuing", self._path)


_FIX: Final = "Put the same file back (a copy is another file), or restart."


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def check_expected(path: str) -> None:
    """Refuse to make a new file where there has been one: it would be an empty database that nobody notices."""
    if os.path.exists(path):
        return
    trace = next(filter(os.path.exists, _traces(path)), None)
    if trace is None:
        return
    name, log_size = os.path.basename(path), _size(f"{path}-wal")
    stale = f" (a backup: delete {name}-wal and {name}-shm first, they belong to the file that is gone)"
    raise StoreUnavailable(
        f"{path} is gone, and the note {os.path.basename(trace)} beside it says that there was a database",
        fix=f"Put it back{stale if log_size else ''}, or begin with an empty one: `wakeful serve --create` or "
        "`wakeful worker --create`.",
        passing=False,
    )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def begin_anew(path: str) -> None:
    """Let an empty file be made where there has been a database. The log of the old one would be read into it."""
    if not os.path.exists(path):
        for trace in _traces(path):
            Path(trace).unlink(missing_ok=True)


def expect(path: str) -> None:
    """Leave a note so that a missing file is not created again, by later processes either."""
    note = _note(path)
    if os.path.exists(note):
        return
    try:
        with open(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(_WORDS.format(name=os.path.basename(path)))
    except OSError as error:  # it is a safety net, and no reason not to run
        log.warning("%s cannot be written: %s", note, error.strerror)


def _traces(path: str) -> tuple[str, ...]:
    # SQLite removes the first two when the last one closes the file, but not those of a file that is gone.
    return f"{path}-wal", f"{path}-shm", _note(path)


def _note(path: str) -> str:
    """A small file beside the database. Not `<db>…`: it outlives `rm wakeful.db*`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.expected")


# Somebody else's SQLite file, read without leaving a trace: not a byte in it, no new file beside it.
#
# SQLite itself makes a `-wal` and a `-shm` when it opens a file in WAL mode, and finishes what a crash left open.
# So a file at rest is read as one that cannot change; one in use is read beside its users, whose files are there
# already; and one that a crash left with a log beside it is read from a copy.

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
            return _open_read_only(self._path, "mode=ro")
        if not any(map(self._has, _LOGS)):
            return _open_read_only(self._path, "immutable=1")
        if not self._has("-wal"):
            # Somebody is writing just now, or died while writing: only asking tells.
            with suppress(apsw.ReadOnlyError, apsw.CantOpenError):
                return _open_read_only(self._path, "mode=ro")
        return _open_read_only(self._copied(), "mode=rw")

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


def _open_read_only(path: str, how: str) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI if how == "mode=rw" else _FLAGS
    db = apsw.Connection(f"file:{quote(path)}?{how}", flags=flags)
    try:
        db.set_busy_timeout(_BUSY_MS)
        db.execute("select count(*) from sqlite_schema").fetchall()  # opening reads nothing yet
    except BaseException:
        db.close()
        raise
    return db

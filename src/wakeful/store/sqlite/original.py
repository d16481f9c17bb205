"""Which file a store began with, and whether its name still leads there.

A file that was deleted, moved away or replaced lives on for whoever has it open: what is written to it is kept for
nobody. So no answer is given before its name was looked at again.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from threading import Lock
from typing import Final

from wakeful.errors import StoreUnavailable

log = logging.getLogger("wakeful.store")

_WORDS: Final = """wakeful keeps its alarms in {name}, beside this file.
While this note is here and {name} is not, wakeful does not begin with an empty database:
put {name} back, or start once with --create.
"""


class Original:
    """The file itself, told by device and inode. One for all connections of a store: they must not part ways.

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
    """Refuse to make a new file where there has been one: it would be an empty clock that nobody notices."""
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

"""What happens to a SQLite file: somebody else's lock, a reader who stays, a bad page, a file moved or put back.

Everything that opens the file does so in a child: SQLite's locks belong to a process, and one that opens and closes the
file by another way, or has a second copy of SQLite, loses those it holds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Timer

if __package__:
    from .child import Child

_BESIDE = ("-wal", "-shm")
PATIENCE = 20.0


@contextmanager
def foreign_lock(path: Path, seconds: float) -> Iterator[None]:
    """Another program writes: nobody else can while the block lasts, for so many seconds at most."""
    with _held(path, "begin immediate", seconds):
        yield


@contextmanager
def long_reader(path: Path, seconds: float) -> Iterator[None]:
    """Another program reads, and keeps its view: the log beside the file grows and cannot be begun anew."""
    with _held(path, "begin; select count(*) from sqlite_master", seconds):
        yield


def corrupt_page(path: Path, table: str = "alarms") -> Callable[[], None]:
    """The page where a table begins is noise. Gives what puts it back, unless somebody has written it anew since."""
    kept = _do("corrupt", path, table)

    def mend() -> None:
        _do("mend", path, kept)

    return mend


def move_away(path: Path) -> Callable[[], None]:
    """The file, and what lies beside it, has another name. Gives what puts it back, over whatever is there by then."""
    away = path.with_name(path.name + ".away")
    _rename(path, away)
    return lambda: _rename(away, path)


def replace_with_copy(path: Path) -> None:
    """Another file by the same name with the same rows, as after a copy and a rename; who has it open has the old."""
    backup(path, copy := path.with_name(path.name + ".copy"))
    restore(path, copy)
    copy.unlink()


def backup(path: Path, to: Path) -> None:
    """A consistent copy while others read and write."""
    _do("backup", path, str(to))


def restore(path: Path, source: Path) -> None:
    """Back to a backup, as an operator does it: another file by the old name, and nothing of the old log beside it."""
    new = path.with_name(path.name + ".new")
    shutil.copyfile(source, new)
    for suffix in _BESIDE:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    new.replace(path)


def _rename(path: Path, to: Path) -> None:
    for suffix in ("", *_BESIDE):
        Path(f"{to}{suffix}").unlink(missing_ok=True)
    for suffix in (*_BESIDE, ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{to}{suffix}")


@contextmanager
def _held(path: Path, sql: str, seconds: float) -> Iterator[None]:
    child = Child(Path(__file__), json.dumps(["hold", str(path), sql, seconds]))
    try:
        child.hear()
        yield
    finally:
        child.close()


def _do(verb: str, path: Path, *args: object) -> object:
    child = Child(Path(__file__), json.dumps([verb, str(path), *args]))
    try:
        return child.hear()
    finally:
        child.close()


# The child's side.


def _open(path: str) -> sqlite3.Connection:
    if not os.path.exists(path):
        raise FileNotFoundError(path)
    return sqlite3.connect(path, isolation_level=None, timeout=PATIENCE)


def hold(path: str, sql: str, seconds: float) -> None:
    connection = _open(path)
    for statement in sql.split(";"):
        connection.execute(statement).fetchall()
    print("null", flush=True)
    # Ended by force: what a process held is free when it is gone.
    over = Timer(seconds, lambda: os._exit(0))
    over.daemon = True
    over.start()
    sys.stdin.read()  # to the end of our owner
    os._exit(0)


def corrupt(path: str, table: str) -> None:
    with closing(_open(path)) as connection:
        # Else the good page is read from the log. Who reads or writes just now is waited for.
        _until_written_back(connection)
        size: int = connection.execute("pragma page_size").fetchone()[0]
        number: int = connection.execute("select rootpage from sqlite_master where name = ?", [table]).fetchone()[0]
        noise = random.Random(number).randbytes(size)
        with open(path, "r+b") as file:
            good = _swap(file.fileno(), (number - 1) * size, noise)
    print(json.dumps([(number - 1) * size, good.hex(), noise.hex()]), flush=True)


def _until_written_back(connection: sqlite3.Connection) -> None:
    end = time.monotonic() + PATIENCE
    while connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0] != 0:
        if time.monotonic() > end:
            raise TimeoutError("somebody reads the log all the time")


def swap_back(path: str, kept: tuple[int, str, str]) -> None:
    at, good, noise = kept[0], bytes.fromhex(kept[1]), bytes.fromhex(kept[2])
    with open(path, "r+b") as file:
        if os.pread(file.fileno(), len(noise), at) == noise:
            _swap(file.fileno(), at, good)
    print("null", flush=True)


def _swap(file: int, at: int, new: bytes) -> bytes:
    old = os.pread(file, len(new), at)
    os.pwrite(file, new, at)
    os.fsync(file)
    return old


def copy(path: str, to: str) -> None:
    # Made under another name: who looks for a backup finds a whole one or none.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(to) or ".") as folder:
        half = os.path.join(folder, "half")
        with closing(_open(path)) as source, closing(sqlite3.connect(half)) as target:
            source.backup(target)
        os.replace(half, to)
    print("null", flush=True)


def main(verb: str, *args: object) -> None:
    verbs: dict[str, Callable[..., None]] = {"hold": hold, "corrupt": corrupt, "mend": swap_back, "backup": copy}
    try:
        verbs[verb](*args)
    except Exception as error:
        print(json.dumps({"error": f"{verb}: {error!r}"}), flush=True)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))

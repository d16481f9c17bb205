"""Backing up a database that is in use into one SQLite file, checked before it gets its name.

A SQLite database is copied page by page, other programs' tables included; of PostgreSQL wakeful's own tables are read
from one snapshot. Either way the file is a wakeful database: it can be looked at, restored from, or used as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from typing import Final

import apsw
from msgspec import Struct

from wakeful.errors import Conflict, InvalidRequest, StoreUnavailable
from wakeful.moments import unix_ms
from wakeful.store.copying import (
    TABLES,
    Seen,
    Tables,
    Watch,
    check_copied_whole,
    copy_table,
    copying_sql,
    total,
    verified,
)
from wakeful.store.copying.sqlite import SqliteTables
from wakeful.store.queries import Naming, migrations
from wakeful.store.sqlite.file import describe, make, open_reader
from wakeful.store.sqlite.schema import bring_up_to_date
from wakeful.store.transfer import refused

PAGES: Final = 512  # at a time: two megabytes
_PLAIN: Final = Naming()


class BackupMade(Struct, frozen=True):
    at: datetime
    rows: dict[str, int]
    bytes: int


class BackupFrom(Struct, frozen=True):
    """What a backup says of itself: the database, for people to read, wakeful's version, and the moment."""

    source: str
    version: str
    at: datetime


async def back_up_sqlite(path: str, naming: Naming, file: str, what: BackupFrom, watch: Watch) -> BackupMade:
    with _new_file(file) as part, _telling(path):
        with closing(open_reader(path)) as source, closing(apsw.Connection(part)) as copy:
            tables = SqliteTables(path, naming, now=what.at, db=source)
            # Held open: without it every commit of a server beside us would begin the copy anew.
            async with tables.snapshot():
                if (transfer := await tables.closed()) is not None:
                    raise refused(transfer)
                counts = {table.name: await tables.count(table) for table in TABLES}
                _copy_pages(source, copy, watch(int(source.execute("pragma page_count").get)))
            _finish(copy, what)
            copied = SqliteTables(part, naming, now=what.at, db=copy)
            if counts != {table.name: await copied.count(table) for table in TABLES}:
                raise StoreUnavailable(f"the copy of {path} has not as many rows", fix="Try again.")
    return _made(what, counts, file)


def _copy_pages(source: apsw.Connection, copy: apsw.Connection, seen: Seen) -> None:
    with copy.backup("main", source, "main") as copying:
        left = 0
        while not copying.done:
            copying.step(PAGES)
            done = copying.page_count - copying.remaining
            seen(done - left)
            left = done


async def back_up_postgres(source: Tables, file: str, what: BackupFrom, watch: Watch) -> BackupMade:
    with _new_file(file) as part, _telling(part):
        with closing(apsw.Connection(part)) as copy:
            steps = migrations("sqlite", _PLAIN)
            bring_up_to_date(copy, _PLAIN, steps, what.at)
            tables = SqliteTables(part, _PLAIN, now=what.at, db=copy)
            await check_copied_whole(source, steps[-1].version, "the database")
            async with source.snapshot(), tables.transaction():
                seen = watch(2 * await total(source))
                for table in TABLES:
                    await copy_table(source, tables, table, seen)
                sums = await verified(source, tables, seen)
            _finish(copy, what)
    return _made(what, {name: one.rows for name, one in sums.items()}, file)


def _made(what: BackupFrom, rows: dict[str, int], file: str) -> BackupMade:
    return BackupMade(what.at, rows, os.path.getsize(file))


def _finish(copy: apsw.Connection, what: BackupFrom) -> None:
    """What it is, in one file, and whole."""
    copy.execute("pragma journal_mode=delete")
    values = {"at": str(unix_ms(what.at)), "source": what.source, "version": what.version}
    sql = copying_sql("sqlite", _PLAIN)
    copy.execute(sql["forget_backup"])
    copy.execute(sql["describe_backup"], values)
    check_whole(copy, what.source)


def check_whole(db: apsw.Connection, name: str) -> None:
    found = [str(line) for (line,) in db.execute("pragma integrity_check(3)")]
    if found != ["ok"]:
        raise StoreUnavailable(f"{name} is damaged: {'; '.join(found)}", fix="Use another backup.", passing=False)


@contextmanager
def _new_file(file: str) -> Iterator[str]:
    """A file for its owner only that takes its name when all is well, and is gone when not."""
    if os.path.exists(file) and not os.path.isfile(file):
        raise InvalidRequest(f"{file} is not a file", field="FILE", fix="Name a file.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(file))):
        raise InvalidRequest(f"{os.path.dirname(file)} is not a directory", field="FILE", fix="Create it first.")
    part = f"{os.path.abspath(file)}.part"
    with suppress(FileNotFoundError):
        os.unlink(part)  # of a backup that was killed
    make(part)
    try:
        yield part
        put_in_place(part, file)
    except BaseException:
        for ending in ("", "-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(part + ending)
        raise


def put_in_place(part: str, file: str) -> None:
    """Give a finished file its name, safe from a power cut."""
    descriptor = os.open(part, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(part, file)
    directory = os.open(os.path.dirname(os.path.abspath(file)), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def check_new(file: str, *, overwrite: bool) -> None:
    if os.path.exists(file) and not overwrite:
        raise Conflict(f"{file} exists", fix="Name another file, or give --overwrite.")


@contextmanager
def _telling(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise describe(error, path) from error

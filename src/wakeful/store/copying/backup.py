"""Backing up a database that is in use into one SQLite file, checked before it gets its name.

A SQLite database is copied page by page, other programs' tables included; of PostgreSQL wakeful's own tables are read
from one snapshot. Either way the file is a wakeful database: it can be inspected, restored from, or used as it is.

A backup is restored as a whole or not at all. What had fired and was settled before the backup does not fire again: its
rows say so. What came due after it may have been fired by the database that was lost: nobody can know. It fires again
under the same ids, or is passed over.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from typing import Final, Literal

import apsw
from msgspec import Struct

from wakeful.errors import Conflict, InvalidRequest, StoreUnavailable
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.rules.passing import pass_over
from wakeful.store import Store
from wakeful.store.copying import (
    TABLES,
    CopyEnd,
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
from wakeful.store.maintenance import keep_first_edition
from wakeful.store.queries import Naming, Transfer, migrations, refused
from wakeful.store.sqlite import SqliteStore
from wakeful.store.sqlite.file import begin_anew, describe, make, open_reader
from wakeful.store.sqlite.schema import bring_up_to_date, is_closed, prefixes

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


Missed = Literal["fire", "skip"]
_AT_A_TIME: Final = 500
_MS: Final = timedelta(milliseconds=1)


class Restored(Struct, frozen=True, kw_only=True):
    """`due`: alarms whose moment has passed; `since`: of these, since the backup. `skipped`: how many were passed over.

    `task_table`: a table of tasks that the backup knows and this database lacks.
    """

    at: datetime
    rows: dict[str, int]
    due: int
    since: int
    skipped: int
    task_table: str = ""


class Backup:
    """A backup that was found whole, in a working copy with today's tables."""

    def __init__(self, file: str, place: str, naming: Naming, now: datetime) -> None:
        self.file = file
        self.place = place
        try:
            with closing(_copied(file, place)) as db:
                self.naming = _naming_in(db, naming, file)
                if is_closed(db, self.naming):
                    raise Conflict(
                        f"{file} was moved to another database before it was copied", fix="Restore that one."
                    )
                self.at = _moment(db, self.naming)
                db.execute(copying_sql("sqlite", self.naming)["forget_backup"])
                bring_up_to_date(db, self.naming, migrations("sqlite", self.naming), now)
        except apsw.Error as error:
            raise describe(error, file) from error
        self.tables = SqliteTables(place, self.naming, now=now)


def _copied(file: str, place: str) -> apsw.Connection:
    if not os.path.isfile(file):
        raise InvalidRequest(f"there is no file {file}", field="FILE", fix="Name a backup.")
    with closing(apsw.Connection(file, flags=apsw.SQLITE_OPEN_READONLY)) as source:
        try:
            check_whole(source, file)
        except apsw.NotADBError:
            raise InvalidRequest(f"{file} is not a backup", field="FILE", fix="Name one.") from None
        make(place)
        copy = apsw.Connection(place)
        with copy.backup("main", source, "main") as copying:
            copying.step()
    return copy


def _naming_in(db: apsw.Connection, wanted: Naming, file: str) -> Naming:
    found = prefixes(db)
    if wanted.prefix in found:
        return Naming(prefix=wanted.prefix)
    if len(found) != 1:
        what = f"has tables of wakeful under the prefixes {', '.join(found)}" if found else "has no tables of wakeful"
        raise InvalidRequest(f"{file} {what}", field="FILE", fix="Set `prefix`." if found else "Name a backup.")
    return Naming(prefix=found[0])


def _moment(db: apsw.Connection, naming: Naming) -> datetime:
    """When it was made; of a file that was copied by hand, when it last changed."""
    sql = copying_sql("sqlite", naming)
    if db.table_exists(None, "wakeful_backup"):
        said: dict[str, str] = {str(name): str(value) for name, value in db.execute(sql["backup"])}
        return from_unix_ms(int(said["at"]))
    return from_unix_ms(int(db.execute(sql["last_change"]).get))


async def restore(
    file: str, target: CopyEnd, naming: Naming, *, missed: Missed, replace: bool, by: str, now: datetime, watch: Watch
) -> Restored:
    if target.file is not None and not target.is_there:
        part = f"{target.file}.restoring"
        _unlink(part)
        try:
            backup = Backup(file, part, naming, now)
            if backup.naming == naming:
                return await _place_file(backup, target.file, missed=missed, by=by, now=now)
            await backup.tables.close()
        finally:
            _unlink(part)
        begin_anew(target.file)
    with tempfile.TemporaryDirectory(prefix="wakeful-restore-") as folder:
        backup = Backup(file, os.path.join(folder, "backup"), naming, now)
        try:
            await check_copied_whole(backup.tables, migrations("sqlite", naming)[-1].version, file)
            await check_target(target, replace=replace)
            return await _restore_rows(backup, target, missed=missed, by=by, seen=watch(2 * await total(backup.tables)))
        finally:
            await backup.tables.close()


async def check_target(target: CopyEnd, *, replace: bool) -> None:
    """Conflict where somebody uses the database, or where it holds what would be lost."""
    closed = await target.closed()
    if closed is not None and closed.state != "restoring":
        raise refused(closed)
    if closed is None:
        await target.store.migrate()
    await target.check_nobody_dispatches()
    there = await target.in_use()
    if there and not replace:
        counts = ", ".join(f"{name}: {count}" for name, count in there.items())
        raise Conflict(
            f"{target.name} is not empty ({counts})",
            fix="Restore into an empty database, or give --replace: all of that is deleted then.",
        )


async def _place_file(backup: Backup, file: str, *, missed: Missed, by: str, now: datetime) -> Restored:
    """The whole file, other programs' tables included: there is none yet."""
    store = SqliteStore(backup.place, naming=backup.naming)
    work = CopyEnd(file, store, lambda: backup.tables, file=backup.place)
    try:
        rows = {table.name: await work.tables.count(table) for table in TABLES}
        due, since = await _due(work.tables, backup.at, now)
        async with work.tables.transaction():
            await work.take_up("restored", _reason(backup, since, missed), by=by, now=now, lost=True)
        skipped = await pass_over_due(store, now) if missed == "skip" else 0
        await keep_first_edition(store.maintenance)
        missing = await work.missing_task_table()
    finally:
        await work.close()
    begin_anew(file)  # the log of a file that is gone would be read into this one
    _into_one_file(backup.place)
    put_in_place(backup.place, file)
    return Restored(at=backup.at, rows=rows, due=due, since=since, skipped=skipped, task_table=missing)


def _into_one_file(path: str) -> None:
    with closing(apsw.Connection(path)) as db:
        db.execute("pragma journal_mode=delete")


async def _restore_rows(backup: Backup, target: CopyEnd, *, missed: Missed, by: str, seen: Seen) -> Restored:
    tables, now = target.tables, await target.store.now()
    async with tables.transaction():
        for table in TABLES:
            await tables.clear(table)
        for table in TABLES:
            await copy_table(backup.tables, tables, table, seen)
        sums = await verified(backup.tables, tables, seen)
        due, since = await _due(tables, backup.at, now)
        await target.take_up("restored", _reason(backup, since, missed), by=by, now=now, lost=True)
        if missed == "skip":  # nobody begins before all of them are passed over
            transfer = Transfer(id=secrets.token_hex(8), state="restoring", other=backup.file, at=_text(now))
            await tables.run("set_transfer", value=transfer.encoded())
            await tables.refuse_to_open()
    skipped = 0
    if missed == "skip":
        skipped = await pass_over_due(target.store, now)
    async with tables.transaction():
        await tables.run("end_transfer")
        await tables.lift_fence()
    await keep_first_edition(target.store.maintenance)
    missing = await target.missing_task_table()
    rows = {name: one.rows for name, one in sums.items()}
    return Restored(at=backup.at, rows=rows, due=due, since=since, skipped=skipped, task_table=missing)


async def _due(tables: Tables, since: datetime, now: datetime) -> tuple[int, int]:
    [(due, later)] = await tables.run("due", since=since, now=now)
    return due, later


async def pass_over_due(store: Store, now: datetime) -> int:
    """Put every due instant on record as missed, undelivered; how many alarms that was."""
    done: set[str] = set()  # a series that its policy moves to an instant of just now comes twice
    while alarms := await store.agenda(owner="", until=now + _MS, limit=_AT_A_TIME):
        fires = await store.fires_at([(alarm.id, alarm.occurrence_at) for alarm in alarms])
        changes = [pass_over(alarm, fires.get((alarm.id, alarm.occurrence_at)), now=now) for alarm in alarms]
        answers = await store.settle(changes)
        written = {alarm.id for alarm, one in zip(alarms, answers, strict=True) if one.what == "applied"}
        if not written:
            raise Conflict(f"{len(alarms)} due alarms could not be passed over", fix="Run the command again.")
        done |= written
    return len(done)


def _reason(backup: Backup, since: int, missed: Missed) -> str:
    name = os.path.basename(backup.file)
    return f"from {name}, made at {_text(backup.at)}; {since} alarms fell due since: {missed}"


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _unlink(path: str) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        if os.path.exists(path + ending):
            os.unlink(path + ending)

"""Bringing a SQLite file's schema up to date, in a database that may be somebody else's as well.

The ledger is the shared table `migrations(service, version, applied_at)` where the database has one that takes our
lines, else our own of the same shape. All missing steps and their lines are one transaction: a start that fails leaves
nothing behind, and several processes may start at once.
Lines of `wakeful-oldest` say which schema a version must know to open the tables: see Ledger in store/queries.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import apsw
from msgspec import Struct

from wakeful.errors import InvalidConfig, StoreUnavailable
from wakeful.moments import unix_ms
from wakeful.store.queries import (
    CLOSED,
    OURS,
    Ledger,
    LedgerKey,
    Migration,
    Naming,
    closing_version,
    ledger_key,
    line_refused,
    newest_step,
    refused,
    versions_of,
    why_closed,
)

_SHAPE: Final = ("service", "version", "applied_at")
_DEFAULT_TARGET: Final = re.compile(r"(\btarget\s+text not null default )'((?:[^']|'')*)'")
# A key over part of the rows, or over an expression, counts as one that we cannot judge.
_KEYS: Final = """
select case when list.partial or sum(info.name is null) then '?' else group_concat(lower(info.name)) end
  from pragma_index_list(?) as list, pragma_index_info(list.name) as info
 where list."unique"
 group by list.name
"""
_PRIMARY: Final = "select group_concat(lower(name)) from pragma_table_info(?) where pk > 0"


class _LedgerTable(Struct, frozen=True):
    table: str
    exists: bool
    as_text: bool  # whether applied_at is text, as in the shared table
    key: LedgerKey = "version"

    def read(self, db: apsw.Connection, naming: Naming) -> Ledger:
        return Ledger(self._versions(db, naming.service), self._versions(db, naming.oldest_service))

    def _versions(self, db: apsw.Connection, service: str) -> frozenset[int]:
        if not self.exists:
            return frozenset()
        rows = db.execute(f'select version from "{self.table}" where service = ?', (service,))
        return versions_of((int(version) for (version,) in rows), self.key)

    def note(self, db: apsw.Connection, service: str, version: int, now: datetime) -> None:
        if not self.exists:
            db.execute(
                f'create table if not exists "{self.table}" (service text not null, version integer not null,'
                " applied_at text not null, primary key (service, version)) strict"
            )
        applied_at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self.as_text else unix_ms(now)
        # The newest step stands for all before it where a service has one row.
        if self.key == "service":
            db.execute(f'delete from "{self.table}" where service = ?', (service,))
        db.execute(
            f'insert into "{self.table}" (service, version, applied_at) values (?, ?, ?)',
            (service, version, applied_at),
        )


def ledger_of(db: apsw.Connection, naming: Naming) -> Ledger:
    """What was applied here; nothing where there are no tables of ours."""
    return _ledger(db, naming).read(db, naming)


def bring_up_to_date(db: apsw.Connection, naming: Naming, steps: list[Migration], now: datetime) -> list[str]:
    """Apply the steps that are missing, in one transaction; their names."""
    # Read under the lock: another process may have come first.
    db.execute("begin immediate")
    try:
        applied = apply_steps(db, naming, steps, now)
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise
    return applied


def apply_steps(db: apsw.Connection, naming: Naming, steps: list[Migration], now: datetime) -> list[str]:
    """As `bring_up_to_date`, in the transaction that is open."""
    applied = []
    for step in steps:
        table = _ledger(db, naming)
        ledger = table.read(db, naming)
        _refuse(db, naming, ledger, steps[-1].version)
        if step.version not in ledger.applied:
            db.execute(step.sql)
            try:
                table.note(db, naming.service, step.version, now)
                if (oldest := ledger.to_note(step)) is not None:
                    table.note(db, naming.oldest_service, oldest, now)
            except apsw.ConstraintError as error:
                raise line_refused(table.table, str(error)) from error
            applied.append(step.name)
    return applied


def use_default_target(db: apsw.Connection, sql: Mapping[str, str], name: str) -> str:
    """Change the default of the column `target`, inside the caller's transaction; return what it was.

    SQLite has no statement for that. A default is only read when a row is inserted, so the schema's own text may be
    changed; its version tells every open connection to read it again.
    """
    [(table,)] = db.execute(sql["default_target"])
    if (found := _DEFAULT_TARGET.search(table)) is None:
        raise StoreUnavailable("the table of alarms has no default for `target`", passing=False)
    before = found[2].replace("''", "'")
    if before != name:
        after = table[: found.start(2)] + name.replace("'", "''") + table[found.end(2) :]
        version = int(db.pragma("schema_version"))
        db.pragma("writable_schema", "on")
        try:
            db.execute(sql["set_default_target"], (after,))
            db.pragma("schema_version", version + 1)
        finally:
            db.pragma("writable_schema", "reset")
    return before


def refuse_to_open(db: apsw.Connection, naming: Naming, now: datetime) -> None:
    """From now on no wakeful opens this database, not an older one either: it takes it for a newer one's."""
    table = _ledger(db, naming)
    ledger = table.read(db, naming)
    if CLOSED not in ledger.applied:
        table.note(db, naming.service, closing_version(ledger, table.key), now)


def lift_refusal(db: apsw.Connection, naming: Naming) -> None:
    table = _ledger(db, naming)
    ledger = table.read(db, naming)
    if CLOSED not in ledger.applied:
        return
    if table.key == "service":
        newest = newest_step(ledger)
        db.execute(f'update "{table.table}" set version = ? where service = ?', (newest, naming.service))
    else:
        db.execute(f'delete from "{table.table}" where service = ? and version = ?', (naming.service, CLOSED))


def is_closed(db: apsw.Connection, naming: Naming) -> bool:
    return CLOSED in ledger_of(db, naming).applied


def prefixes(db: apsw.Connection) -> list[str]:
    """The prefixes under which the file has tables of wakeful's."""
    own = [name.removesuffix("wakeful_migrations") for name in _tables(db) if name.endswith("wakeful_migrations")]
    if tuple(sorted(_columns(db, "migrations"))) != tuple(sorted(_SHAPE)):
        return sorted(own)
    rows = db.execute("select distinct service from migrations where service = 'wakeful' or service like 'wakeful:%'")
    return sorted({*own, *(str(service).partition(":")[2] for (service,) in rows)})


def _refuse(db: apsw.Connection, naming: Naming, ledger: Ledger, known: int) -> None:
    if CLOSED in ledger.applied:
        raise refused(why_closed(db.execute(f"select value from {naming.prefix}secrets where name = 'transfer'").get))
    ledger.check_known(known)
    if not ledger.applied and (taken := _tables(db) & {naming.prefix + table for table in OURS}):
        raise InvalidConfig(
            f"the database has a table {min(taken)!r} that is not wakeful's",
            field="prefix",
            fix="Set `prefix`, so that wakeful's tables have other names.",
        )


def _ledger(db: apsw.Connection, naming: Naming) -> _LedgerTable:
    own = f"{naming.prefix}wakeful_migrations"
    if _columns(db, own):
        return _LedgerTable(own, exists=True, as_text=True)
    shared = _columns(db, "migrations")
    if sorted(shared) == sorted(_SHAPE) and (key := ledger_key(_keys(db, "migrations"))) is not None:
        return _LedgerTable("migrations", exists=True, as_text="INT" not in shared["applied_at"].upper(), key=key)
    return _LedgerTable(own, exists=False, as_text=True)


def _keys(db: apsw.Connection, table: str) -> list[frozenset[str]]:
    """The columns of each unique index, the primary key's included: one on an INTEGER has none."""
    found = [*db.execute(_KEYS, (table,)), *db.execute(_PRIMARY, (table,))]
    return [frozenset(str(names).split(",")) for (names,) in found if names]


def _tables(db: apsw.Connection) -> set[str]:
    return {str(name) for (name,) in db.execute("select name from sqlite_master where type in ('table', 'view')")}


def _columns(db: apsw.Connection, table: str) -> dict[str, str]:
    rows = db.execute("select name, type from pragma_table_info(?)", (table,)).fetchall()
    return {str(name): str(kind) for name, kind in rows}

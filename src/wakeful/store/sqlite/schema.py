"""Bringing a SQLite file's schema up to date, in a database that may be somebody else's as well.

The ledger is the shared table `migrations(service, version, applied_at)` where the database has one, else our own of
the same shape. Each step is one transaction with its line in the ledger, so several processes may start at once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import apsw
from msgspec import Struct

from wakeful.errors import InvalidConfig
from wakeful.store.queries import OURS, Migration, Naming
from wakeful.store.rows import to_ms

_SHAPE: Final = ("service", "version", "applied_at")


class _Ledger(Struct, frozen=True):
    table: str
    exists: bool
    as_text: bool  # whether applied_at is text, as in the shared table

    def applied(self, db: apsw.Connection, service: str) -> int:
        if not self.exists:
            return 0
        row = db.execute(f'select max(version) from "{self.table}" where service = ?', (service,)).fetchone()
        return row[0] or 0 if row else 0

    def note(self, db: apsw.Connection, service: str, version: int, now: datetime) -> None:
        if not self.exists:
            db.execute(
                f'create table if not exists "{self.table}" (service text not null, version integer not null,'
                " applied_at text not null, primary key (service, version)) strict"
            )
        applied_at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self.as_text else to_ms(now)
        db.execute(
            f'insert into "{self.table}" (service, version, applied_at) values (?, ?, ?)',
            (service, version, applied_at),
        )


def bring_up_to_date(db: apsw.Connection, naming: Naming, steps: list[Migration], now: datetime) -> list[str]:
    """Apply the steps that are missing; their names."""
    service = f"wakeful:{naming.prefix}" if naming.prefix else "wakeful"
    applied = []
    for step in steps:
        # Checked again under each lock: another process may have come first.
        db.execute("begin immediate")
        try:
            ledger = _ledger(db, naming)
            have = ledger.applied(db, service)
            _refuse(db, naming, have, len(steps))
            if step.version > have:
                db.execute(step.sql)
                ledger.note(db, service, step.version, now)
                applied.append(step.name)
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise
    return applied


def _refuse(db: apsw.Connection, naming: Naming, have: int, known: int) -> None:
    if have > known:
        raise InvalidConfig(
            f"the tables were made by a newer wakeful (schema {have}, this one knows {known})",
            field="database",
            fix="Install that version or a later one.",
        )
    if have == 0 and (taken := _tables(db) & {naming.prefix + table for table in OURS}):
        raise InvalidConfig(
            f"the database has a table {min(taken)!r} that is not wakeful's",
            field="prefix",
            fix="Set `prefix`, so that wakeful's tables have other names.",
        )


def _ledger(db: apsw.Connection, naming: Naming) -> _Ledger:
    own = f"{naming.prefix}wakeful_migrations"
    if _columns(db, own):
        return _Ledger(own, exists=True, as_text=True)
    shared = _columns(db, "migrations")
    if tuple(sorted(shared)) == tuple(sorted(_SHAPE)):
        return _Ledger("migrations", exists=True, as_text="INT" not in shared["applied_at"].upper())
    return _Ledger(own, exists=False, as_text=True)


def _tables(db: apsw.Connection) -> set[str]:
    return {str(name) for (name,) in db.execute("select name from sqlite_master where type in ('table', 'view')")}


def _columns(db: apsw.Connection, table: str) -> dict[str, str]:
    rows = db.execute("select name, type from pragma_table_info(?)", (table,)).fetchall()
    return {str(name): str(kind) for name, kind in rows}

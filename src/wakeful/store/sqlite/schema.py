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
from wakeful.moments import unix_ms
from wakeful.store.queries import OURS, Migration, Naming
from wakeful.store.transfer import CLOSED, refused, why_closed

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
        applied_at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if self.as_text else unix_ms(now)
        db.execute(
            f'insert into "{self.table}" (service, version, applied_at) values (?, ?, ?)',
            (service, version, applied_at),
        )


def version(db: apsw.Connection, naming: Naming) -> int:
    """The schema that is there; 0 where there is none of ours."""
    return _ledger(db, naming).applied(db, f"wakeful:{naming.prefix}" if naming.prefix else "wakeful")


def bring_up_to_date(db: apsw.Connection, naming: Naming, steps: list[Migration], now: datetime) -> list[str]:
    """Apply the steps that are missing; their names."""
    service = _service(naming)
    applied = []
    for step in steps:
        # Checked again under each lock: another process may have come first.
        db.execute("begin immediate")
        try:
            ledger = _ledger(db, naming)
            have = ledger.applied(db, service)
            _refuse(db, naming, have, steps[-1].version)
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


def refuse_to_open(db: apsw.Connection, naming: Naming, now: datetime) -> None:
    """From now on no wakeful opens this database, not an older one either: it takes it for a newer one's."""
    ledger, service = _ledger(db, naming), _service(naming)
    if ledger.applied(db, service) < CLOSED:
        ledger.note(db, service, CLOSED, now)


def lift_refusal(db: apsw.Connection, naming: Naming) -> None:
    db.execute(
        f'delete from "{_ledger(db, naming).table}" where service = ? and version = ?', (_service(naming), CLOSED)
    )


def is_closed(db: apsw.Connection, naming: Naming) -> bool:
    return _ledger(db, naming).applied(db, _service(naming)) == CLOSED


def prefixes(db: apsw.Connection) -> list[str]:
    """The prefixes under which the file has tables of wakeful's."""
    own = [name.removesuffix("wakeful_migrations") for name in _tables(db) if name.endswith("wakeful_migrations")]
    if tuple(sorted(_columns(db, "migrations"))) != tuple(sorted(_SHAPE)):
        return sorted(own)
    rows = db.execute("select distinct service from migrations where service = 'wakeful' or service like 'wakeful:%'")
    return sorted({*own, *(str(service).partition(":")[2] for (service,) in rows)})


def _service(naming: Naming) -> str:
    return f"wakeful:{naming.prefix}" if naming.prefix else "wakeful"


def _refuse(db: apsw.Connection, naming: Naming, have: int, known: int) -> None:
    if have == CLOSED:
        raise refused(why_closed(db.execute(f"select value from {naming.prefix}secrets where name = 'transfer'").get))
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

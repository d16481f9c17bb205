"""Bring a PostgreSQL schema up to date, even if other processes do so too, in a database that may be shared.

One transaction per migration, with its row in the ledger; the lock is the transaction's own, so that it works behind
pgbouncer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from wakeful.errors import InvalidConfig
from wakeful.store.queries import OURS, Migration, Naming, migrations, queries
from wakeful.store.transfer import CLOSED, refused, why_closed

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection

_log: Final = logging.getLogger("wakeful.store")
_NOW: Final = """select to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
_SHARED: Final = ["service", "version", "applied_at"]
_LOCK: Final = "select pg_advisory_xact_lock(hashtextextended('wakeful migrations', 0))"
_PATIENCE: Final = 120.0  # for the lock and for the migration: another process may be at a long one


class Migrator:
    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._sql = queries("postgres", naming)
        self._service = f"wakeful:{naming.prefix}" if naming.prefix else "wakeful"
        self._own_ledger = f"{naming.prefix}wakeful_migrations"

    async def migrate(self, connection: Connection) -> list[str]:
        """The names of the migrations that this call applied."""
        await self._warn_about_durability(connection)
        encoding = await connection.fetchval("select current_setting('server_encoding')")
        if encoding not in ("UTF8", "SQL_ASCII"):
            raise InvalidConfig(
                f"the database uses the encoding {encoding}, which cannot hold every message",
                field="database",
                fix="Use a database created with the encoding UTF8.",
            )
        known = migrations("postgres", self._naming)
        return [step.name for step in known if await self._apply(connection, step, newest=known[-1].version)]

    async def version(self, connection: Connection) -> int:
        """The schema that is there; 0 where there is none of ours. Nothing is made."""
        tables = await self._tables(connection)
        name = "migrations" if tables.get("migrations") == _SHARED else self._own_ledger
        if name not in tables:
            return 0
        where = f"{self._naming.schema}.{name}" if self._naming.schema else name
        rows = await connection.fetch(f"select version::text from {where} where service = $1", self._service)
        return max((int(row[0]) for row in rows), default=0)

    async def _apply(self, connection: Connection, step: Migration, *, newest: int) -> bool:
        async with connection.transaction():
            await connection.execute(f"set local lock_timeout = '{_PATIENCE:.0f}s'; set local synchronous_commit = on")
            # One at a time, whatever they call their schema: creating one is a race too.
            await connection.fetch(_LOCK, timeout=_PATIENCE)
            await self._create_schema(connection)
            ledger, applied = await self._ledger(connection)
            if CLOSED in applied:
                secrets = f"{self._naming.qualifier}secrets"
                why = await connection.fetchval(f"select value from {secrets} where name = 'transfer'")
                raise refused(why_closed(why))
            if applied and max(applied) > newest:
                raise InvalidConfig(
                    f"the database has wakeful's schema {max(applied)}, this wakeful knows {newest}",
                    field="database",
                    fix="Install that version or a later one.",
                )
            if step.version in applied:
                return False
            await connection.execute(step.sql, timeout=_PATIENCE)
            await self._note(connection, ledger, step.version)
            return True

    async def _note(self, connection: Connection, ledger: str, version: int) -> None:
        moment = await connection.fetchval(_NOW)
        await connection.execute(
            # Literals without a type: in somebody else's ledger a version may be a number or a text, a moment too.
            f"insert into {ledger} (service, version, applied_at) values ('{self._service}', '{version}', '{moment}')"
        )

    async def refuse_to_open(self, connection: Connection) -> None:
        """From now on no wakeful opens this database, not an older one either: it takes it for a newer one's."""
        ledger, applied = await self._ledger(connection)
        if CLOSED not in applied:
            await self._note(connection, ledger, CLOSED)

    async def lift_refusal(self, connection: Connection) -> None:
        ledger, _ = await self._ledger(connection)
        await connection.execute(f"delete from {ledger} where service = '{self._service}' and version = '{CLOSED}'")

    async def is_closed(self, connection: Connection) -> bool:
        """Reads only: where there are no tables of ours, none are made."""
        tables = await self._tables(connection)
        if f"{self._naming.prefix}secrets" not in tables:
            return False
        _, applied = await self._ledger(connection)
        return CLOSED in applied

    async def _create_schema(self, connection: Connection) -> None:
        schema = self._naming.schema
        # Looked up first: where it exists we may lack the right to create one.
        if schema and await connection.fetchval("select to_regnamespace($1::text)", schema) is None:
            await connection.execute(f"create schema {schema}")

    async def _ledger(self, connection: Connection) -> tuple[str, set[int]]:
        """The ledger's name and our versions in it; our own is created where there is no shared one."""
        tables = await self._tables(connection)
        shared = tables.get("migrations") == _SHARED
        name = "migrations" if shared else self._own_ledger
        where = f"{self._naming.schema}.{name}" if self._naming.schema else name
        applied: set[int] = set()
        if name in tables:
            rows = await connection.fetch(f"select version::text from {where} where service = $1", self._service)
            applied = {int(row[0]) for row in rows}
        if not applied and (foreign := [table for table in OURS if f"{self._naming.prefix}{table}" in tables]):
            raise InvalidConfig(
                f"the database has a table {self._naming.qualifier}{foreign[0]} that is not wakeful's",
                field="database",
                fix="Set `schema` or `prefix` so that wakeful's tables have other names.",
            )
        if name not in tables:
            await connection.execute(
                f"create table {where} (service text not null, version integer not null,"
                " applied_at timestamptz not null, primary key (service, version))"
            )
        return where, applied

    async def _tables(self, connection: Connection) -> Mapping[str, list[str]]:
        names = ["migrations", self._own_ledger, *(f"{self._naming.prefix}{table}" for table in OURS)]
        rows = await connection.fetch(self._sql["tables"], self._naming.schema, names)
        return {row["name"]: row["columns"] for row in rows}

    async def _warn_about_durability(self, connection: Connection) -> None:
        for setting in ("fsync", "full_page_writes"):
            if await connection.fetchval("select current_setting($1)", setting) != "on":
                _log.warning("PostgreSQL runs with %s = off: a power cut can lose alarms that were accepted.", setting)

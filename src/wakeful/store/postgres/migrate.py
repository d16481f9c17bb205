"""Bring a PostgreSQL schema up to date, even if other processes do so too, in a database that may be shared.

All missing steps are one transaction, with their rows in the ledger: a start that fails leaves nothing behind. The lock
is the transaction's own, so that it works behind pgbouncer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import asyncpg
from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidConfig
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
    migrations,
    newest_step,
    queries,
    refused,
    versions_of,
    why_closed,
)

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection

_log: Final = logging.getLogger("wakeful.store")
_NOW: Final = """select to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
# The shared table's columns, and the types in which our lines can be written there.
_SHARED: Final[Mapping[str, frozenset[str]]] = {
    "service": frozenset({"text", "character varying"}),
    "version": frozenset({"integer", "bigint", "text", "character varying"}),
    "applied_at": frozenset(
        {"text", "character varying", "timestamp without time zone", "timestamp with time zone", "date"}
    ),
}
_TYPES: Final = """
select attname::text, format_type(atttypid, atttypmod)
  from pg_attribute
 where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""
# A key over part of the rows, or over an expression, counts as one that we cannot judge.
_KEYS: Final = """
select case when indpred is null and indexprs is null
            then array(
                select attname::text
                  from pg_attribute
                 where attrelid = indrelid and attnum = any(indkey[:indnkeyatts - 1]))
       end
  from pg_index
 where indrelid = to_regclass($1) and indisunique
"""
_LOCK: Final = "select pg_advisory_xact_lock(hashtextextended('wakeful migrations', 0))"
_PATIENCE: Final = 120.0  # for the lock and for the migration: another process may be at a long one


class _LedgerTable(Struct, frozen=True):
    """`where`: its name as SQL has it, with its schema. `key` as in `ledger_key`."""

    name: str
    where: str
    exists: bool
    key: LedgerKey = "version"


class Migrator:
    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._sql = queries("postgres", naming)
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
        async with connection.transaction():
            return await self.apply_steps(connection)

    async def apply_steps(self, connection: Connection) -> list[str]:
        """As `migrate`, in the transaction that is open."""
        known = migrations("postgres", self._naming)
        return [step.name for step in known if await self._apply(connection, step, newest=known[-1].version)]

    async def ledger(self, connection: Connection) -> Ledger:
        """What was applied here; nothing where there are no tables of ours. Nothing is made."""
        return await self._read(connection, await self._table(connection, await self._tables(connection)))

    async def _read(self, connection: Connection, table: _LedgerTable) -> Ledger:
        if not table.exists:
            return Ledger()
        sql = f"select service, version::text from {table.where} where service in ($1, $2)"
        services = self._naming.service, self._naming.oldest_service
        rows = await connection.fetch(sql, *services)
        applied, oldest = (
            versions_of((int(row[1]) for row in rows if row[0] == service), table.key) for service in services
        )
        return Ledger(applied, oldest)

    async def _table(self, connection: Connection, tables: Mapping[str, list[str]]) -> _LedgerTable:
        """The ledger: our own where there is one, else the shared one where that takes our lines."""
        own, shared = self._in_schema(self._own_ledger), self._in_schema("migrations")
        if self._own_ledger in tables:
            return _LedgerTable(self._own_ledger, own, exists=True)
        if sorted(tables.get("migrations", ())) == sorted(_SHARED):
            types = dict(map(tuple, await connection.fetch(_TYPES, shared)))
            keys = [frozenset(row[0] or ("?",)) for row in await connection.fetch(_KEYS, shared)]
            key = ledger_key(keys)
            if key is not None and all(type in _SHARED[name] for name, type in types.items()):
                return _LedgerTable("migrations", shared, exists=True, key=key)
        return _LedgerTable(self._own_ledger, own, exists=False)

    def _in_schema(self, name: str) -> str:
        return f"{self._naming.schema}.{name}" if self._naming.schema else name

    async def _apply(self, connection: Connection, step: Migration, *, newest: int) -> bool:
        """In the transaction that is open."""
        await connection.execute(f"set local lock_timeout = '{_PATIENCE:.0f}s'; set local synchronous_commit = on")
        # One at a time, whatever they call their schema: creating one is a race too.
        await connection.fetch(_LOCK, timeout=_PATIENCE)
        await self._create_schema(connection)
        table, ledger = await self._ledger(connection)
        if CLOSED in ledger.applied:
            secrets = f"{self._naming.qualifier}secrets"
            why = await connection.fetchval(f"select value from {secrets} where name = 'transfer'")
            raise refused(why_closed(why))
        ledger.check_known(newest)
        if step.version in ledger.applied:
            return False
        await connection.execute(step.sql, timeout=_PATIENCE)
        try:
            await self._note(connection, table, self._naming.service, step.version)
            if (oldest := ledger.to_note(step)) is not None:
                await self._note(connection, table, self._naming.oldest_service, oldest)
        except asyncpg.IntegrityConstraintViolationError as error:
            raise line_refused(table.name, str(error)) from error
        return True

    async def _note(self, connection: Connection, table: _LedgerTable, service: str, version: int) -> None:
        # The newest step stands for all before it where a service has one row.
        if table.key == "service":
            await connection.execute(f"delete from {table.where} where service = '{service}'")
        moment = await connection.fetchval(_NOW)
        await connection.execute(
            # Literals without a type: in somebody else's ledger a version may be a number or a text, a moment too.
            f"insert into {table.where} (service, version, applied_at) values ('{service}', '{version}', '{moment}')"
        )

    async def refuse_to_open(self, connection: Connection) -> None:
        """From now on no wakeful opens this database, not an older one either: it takes it for a newer one's."""
        table, ledger = await self._ledger(connection)
        if CLOSED not in ledger.applied:
            await self._note(connection, table, self._naming.service, closing_version(ledger, table.key))

    async def lift_refusal(self, connection: Connection) -> None:
        table, ledger = await self._ledger(connection)
        if CLOSED not in ledger.applied:
            return
        service = self._naming.service
        if table.key == "service":
            await self._note(connection, table, service, newest_step(ledger))
        else:
            await connection.execute(f"delete from {table.where} where service = '{service}' and version = '{CLOSED}'")

    async def is_closed(self, connection: Connection) -> bool:
        """Reads only: where there are no tables of ours, none are made."""
        tables = await self._tables(connection)
        if f"{self._naming.prefix}secrets" not in tables:
            return False
        return CLOSED in (await self.ledger(connection)).applied

    async def _create_schema(self, connection: Connection) -> None:
        schema = self._naming.schema
        # Looked up first: where it exists we may lack the right to create one.
        if schema and await connection.fetchval("select to_regnamespace($1::text)", schema) is None:
            await connection.execute(f"create schema {schema}")

    async def _ledger(self, connection: Connection) -> tuple[_LedgerTable, Ledger]:
        """The ledger and our lines in it; our own is created where no shared one takes them."""
        tables = await self._tables(connection)
        table = await self._table(connection, tables)
        ledger = await self._read(connection, table)
        if not ledger.applied and (foreign := [table for table in OURS if f"{self._naming.prefix}{table}" in tables]):
            raise InvalidConfig(
                f"the database has a table {self._naming.qualifier}{foreign[0]} that is not wakeful's",
                field="database",
                fix="Set `schema` or `prefix` so that wakeful's tables have other names.",
            )
        if not table.exists:
            await connection.execute(
                f"create table {table.where} (service text not null, version integer not null,"
                " applied_at timestamptz not null, primary key (service, version))"
            )
        return replace(table, exists=True), ledger

    async def _tables(self, connection: Connection) -> Mapping[str, list[str]]:
        names = ["migrations", self._own_ledger, *(f"{self._naming.prefix}{table}" for table in OURS)]
        rows = await connection.fetch(self._sql["tables"], self._naming.schema, names)
        return {row["name"]: row["columns"] for row in rows}

    async def _warn_about_durability(self, connection: Connection) -> None:
        for setting in ("fsync", "full_page_writes"):
            if await connection.fetchval("select current_setting($1)", setting) != "on":
                _log.warning("PostgreSQL runs with %s = off: a power cut can lose alarms that were accepted.", setting)

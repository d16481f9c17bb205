"""Copy wakeful's tables as plain rows from one database to another: shared by backup, restore and move.

Values are those that SQLite stores (moments as unix milliseconds, ids and JSON as text), so that rows of both stores
can be compared. A backup is a SQLite file with wakeful's own schema, whichever store it was made from. Each table is
copied or left out with a reason: TABLES, LEFT_OUT.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final

import msgspec
from msgspec import Struct

from wakeful.errors import Conflict, InvalidConfig, StoreUnavailable
from wakeful.moments import from_unix_ms
from wakeful.store import Store
from wakeful.store.queries import Dialect, Ledger, Naming, Transfer, statements, why_closed

Row = tuple[Any, ...]
Seen = Callable[[int], None]  # so many more are done
Watch = Callable[[int], Seen]  # there are so many in all
BATCH: Final = 2000
_SQL: Final = files("wakeful.store") / "sql"


class CopiedTable(Struct, frozen=True):
    """`in_pieces`: copied in the order of its key, and continued after the last one where it was interrupted."""

    name: str
    key: tuple[str, ...]
    which: str = "true"
    in_pieces: bool = False


TABLES: Final = (
    CopiedTable("alarms", ("id",), in_pieces=True),
    CopiedTable("fires", ("alarm_id", "scheduled_for"), in_pieces=True),
    CopiedTable("events", ("seq",), in_pieces=True),
    CopiedTable("target_states", ("target",)),
    CopiedTable("zone_rules", ("version",)),
    CopiedTable("task_tables", ("name",)),
    CopiedTable("task_links", ("task_id",)),
    CopiedTable("budget_counts", ("scope", "id", "period", "starts_at")),
    CopiedTable("check_values", ("alarm_id", "name")),
    CopiedTable("owner_settings", ("owner_did",)),
    CopiedTable("tokens", ("id",)),
    CopiedTable("secrets", ("name",), which="name <> 'transfer'"),  # last: a new token writes here too
)
LEFT_OUT: Final = {
    "workers": "which processes run is true of the database they run on",
    "claim_tokens": "leases end with the database they were given by",
    "task_changes": "every task is read anew",
}


class TableSum(Struct, frozen=True):
    """How many rows, and a sum of their contents that does not depend on their order."""

    rows: int = 0
    checksum: int = 0

    def plus(self, rows: Sequence[Row]) -> TableSum:
        sums = (int.from_bytes(blake2b(msgspec.msgpack.encode(row), digest_size=8).digest()) for row in rows)
        return TableSum(self.rows + len(rows), (self.checksum + sum(sums)) % (1 << 64))


class Tables(ABC):
    """wakeful's tables in one database, over one connection."""

    _sql: Mapping[str, str]

    @abstractmethod
    async def columns(self, table: CopiedTable) -> tuple[str, ...]: ...

    @abstractmethod
    def rows(
        self, table: CopiedTable, columns: Sequence[str], *, after: Row | None = None
    ) -> AsyncIterator[list[Row]]: ...

    @abstractmethod
    def fit(self, rows: list[Row]) -> list[Row]:
        """Rows as they will be here: PostgreSQL cannot keep every character in a text."""

    @abstractmethod
    def check_ids(self, ids: Iterable[str]) -> None:
        """InvalidRequest for an alarm whose id cannot be kept here."""

    @abstractmethod
    async def put(self, table: CopiedTable, columns: Sequence[str], rows: list[Row]) -> None: ...

    @abstractmethod
    async def last_key(self, table: CopiedTable) -> Row | None: ...

    async def count(self, table: CopiedTable) -> int:
        return int((await self._fetch(filled(self._sql["count"], table, (), ())))[0][0])

    async def clear(self, table: CopiedTable) -> None:
        await self._fetch(filled(self._sql["clear"], table, (), ()))

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[None]:
        """All or nothing; nobody else writes wakeful's rows meanwhile."""

    @abstractmethod
    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """Everything read inside is of one moment, whoever writes meanwhile."""

    @abstractmethod
    async def run(self, name: str, **values: Any) -> list[Row]:
        """A named statement of store/sql/copying.*.sql; values in the order that it takes them."""

    async def fence(self, words: str) -> None:
        """Let nobody write here any more who has it open, and refuse whoever opens it."""
        await self._execute(self._sql["fence"].replace("{words}", words.replace("'", "''")))
        await self.refuse_to_open()

    async def lift_fence(self) -> None:
        await self._execute(self._sql["lift_fence"])
        await self.lift_refusal()

    @abstractmethod
    async def refuse_to_open(self) -> None: ...

    @abstractmethod
    async def lift_refusal(self) -> None: ...

    @abstractmethod
    async def is_closed(self) -> bool: ...

    async def closed(self) -> Transfer | None:
        """Why nobody may open this database; None where everybody may. InvalidConfig where it does not say why."""
        if not await self.is_closed():
            return None
        [(value,)] = await self.run("transfer") or [(None,)]
        return why_closed(value)

    @abstractmethod
    async def go_on_numbering(self) -> None:
        """After rows that brought their numbers along, the next number is a new one."""

    @abstractmethod
    async def ledger(self) -> Ledger: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def _fetch(self, sql: str) -> Sequence[Any]: ...

    @abstractmethod
    async def _execute(self, sql: str) -> None:
        """Statements without values and without an answer."""


async def check_copied_whole(source: Tables, known: int, name: str) -> None:
    """InvalidConfig where a newer version has added what this one would leave out of a copy."""
    if (schema := (await source.ledger()).version) > known:
        raise InvalidConfig(
            f"{name} has the tables of a newer wakeful (schema {schema}, this one knows {known}): it would lose some",
            field="database",
            fix="Copy it with that version or a later one.",
        )


def copying_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    return statements(dialect, naming, "copying")


def filled(sql: str, table: CopiedTable, columns: Sequence[str], marks: Sequence[str]) -> str:
    parts: Mapping[str, str] = {
        "table": table.name,
        "which": table.which,
        "columns": ", ".join(columns),
        "marks": ", ".join(marks),
        "key": ", ".join(table.key),
        "last": ", ".join(f"{name} desc" for name in table.key),
    }
    for name, part in parts.items():
        sql = sql.replace("{" + name + "}", part)
    return sql


async def copy_table(source: Tables, target: Tables, table: CopiedTable, seen: Seen) -> None:
    """What the target does not have yet; a table that is small is copied anew as a whole."""
    columns = await _shared_columns(source, target, table)
    if table.in_pieces:
        after = await target.last_key(table)
        async for rows in source.rows(table, columns, after=after):
            await target.put(table, columns, target.fit(rows))
            seen(len(rows))
        return
    async with target.transaction():
        await target.clear(table)
        async for rows in source.rows(table, columns):
            await target.put(table, columns, target.fit(rows))
            seen(len(rows))


async def _shared_columns(source: Tables, target: Tables, table: CopiedTable) -> tuple[str, ...]:
    there = set(await target.columns(table))
    return tuple(name for name in await source.columns(table) if name in there)


async def verified(source: Tables, target: Tables, seen: Seen) -> dict[str, TableSum]:
    """Rows and checksums by table, which are the same in both; StoreUnavailable where they are not."""
    sums = {}
    for table in TABLES:
        columns = await _shared_columns(source, target, table)
        here, there = TableSum(), TableSum()
        async for rows in source.rows(table, columns):
            here = here.plus(target.fit(rows))
            seen(len(rows))
        async for rows in target.rows(table, columns):
            there = there.plus(rows)
        if here != there:
            raise StoreUnavailable(
                f"the copy of {table.name} is not what was copied: {there.rows} rows of {here.rows},"
                f" checksum {there.checksum:016x} instead of {here.checksum:016x}",
                fix="Nothing was begun with the copy. Is somebody writing to it? Then stop that, and try again.",
                passing=False,
            )
        sums[table.name] = here
    return sums


async def total(tables: Tables) -> int:
    return sum([await tables.count(table) for table in TABLES])


SILENT_AFTER: Final = timedelta(seconds=30)  # a worker tells every ten that it is there
_IN_USE: Final = ("alarms", "fires", "tokens")


class CopyEnd:
    """`name`: for people to read, never with a password. `file`: of a SQLite database."""

    def __init__(self, name: str, store: Store, open_tables: Callable[[], Tables], *, file: str | None = None) -> None:
        self.name = name
        self.store = store
        self.file = file
        self._open_tables = open_tables
        self._tables: Tables | None = None

    @property
    def tables(self) -> Tables:
        if self._tables is None:
            self._tables = self._open_tables()
        return self._tables

    @property
    def is_there(self) -> bool:
        return self.file is None or os.path.exists(self.file)

    async def closed(self) -> Transfer | None:
        return await self.tables.closed() if self.is_there else None

    async def close(self) -> None:
        if self._tables is not None:
            await self._tables.close()
        await self.store.close()

    async def check_nobody_dispatches(self) -> None:
        """Conflict while a process dispatches from this database, as far as it says."""
        now = await self.store.now()
        for host, pid, seen_at in await self.tables.run("workers"):
            if now - from_unix_ms(seen_at) < SILENT_AFTER and _may_run(host, pid):
                raise Conflict(
                    f"process {pid} on {host} dispatches from {self.name}",
                    fix="Stop it first. If it is dead, wait half a minute.",
                )

    async def in_use(self) -> dict[str, int]:
        """What there is that a copy into this database would mix with."""
        counts = {table.name: await self.tables.count(table) for table in TABLES if table.name in _IN_USE}
        return {name: count for name, count in counts.items() if count}

    async def take_up(self, what: str, reason: str, *, by: str, now: datetime, lost: bool = False) -> None:
        """Make copied rows this database's own: leases are over, tasks are read anew, and it is put on record.

        `lost`: the database that they come from may have gone on, and its workers and readers may come back here.
        """
        tables = self.tables
        await tables.run("release_leases")
        if lost:
            await tables.run("raise_claims")
            await tables.run("raise_versions")
        await tables.run("forget_workers")
        await tables.run("queue_links")
        await tables.go_on_numbering()
        await tables.run("note", at=now, what=what, by=by, reason=reason)

    async def missing_task_table(self) -> str:
        """The connected table of tasks, where this database does not have it; else its tasks are read anew."""
        for (name,) in await self.tables.run("task_table"):
            in_a_schema = self.file is not None and "." in name  # of PostgreSQL: a file has none
            if in_a_schema or await self.store.tasks.rows(str(name), limit=1) is None:
                return str(name)
            await self.store.tasks.connect(str(name))
        return ""


def _may_run(host: str, pid: int) -> bool:
    if host != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def table(name: str) -> CopiedTable:
    return next(one for one in TABLES if one.name == name)

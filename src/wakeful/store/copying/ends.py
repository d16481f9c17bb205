"""A database as one end of a copy: its store, its tables, and whether it may be copied from or into just now."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from wakeful.errors import Conflict
from wakeful.moments import from_unix_ms
from wakeful.store import Store
from wakeful.store.copying import TABLES, CopiedTable, Tables
from wakeful.store.transfer import Transfer

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
        """Make copied rows this database's own: leases are over, tasks are looked at anew, and it is put on record.

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
        """The connected table of tasks, where this database does not have it; else its tasks are looked at anew."""
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

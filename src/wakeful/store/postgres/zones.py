"""The rules of time zones in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from typing import TYPE_CHECKING, Final

from wakeful.alarm import Alarm
from wakeful.store.postgres.rows import alarm_of
from wakeful.store.queries import Naming
from wakeful.store.zones import Edition, zone_sql

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Database

_FIRST: Final = "00000000-0000-0000-0000-000000000000"
_LAST: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"


class PostgresZones:
    def __init__(self, database: Database, *, naming: Naming, moment: Callable[[], datetime | None]) -> None:
        self._database = database
        self._moment = moment
        self._sql = zone_sql("postgres", naming)
        self.has_edition = False
        self.keeping: asyncio.Task[None] | None = None

    async def editions(self) -> list[Edition]:
        rows = await self._database.fetch(self._sql["editions"])
        self.has_edition = bool(rows)
        return [Edition(*row) for row in rows]

    async def rules(self, version: str) -> bytes | None:
        rows = await self._database.fetch(self._sql["rules"], version)
        return rows[0][0] if rows else None

    async def keep(self, version: str, data: bytes) -> None:
        await self._database.fetch(self._sql["keep"], self._moment(), version, data)
        await self._database.fetch(self._sql["forget"])

    async def planned(self, version: str) -> None:
        await self._database.fetch(self._sql["planned"], self._moment(), version)

    async def alarms(self, names: Collection[str], *, after: str, looked_at: int) -> tuple[list[Alarm], str]:
        after = after or _FIRST
        found = await self._database.fetch(self._sql["upto"], after, looked_at)
        upto = str(found[0][0]) if found else ""
        rows = await self._database.fetch(self._sql["alarms"], after, upto or _LAST, sorted(names))
        return list(map(alarm_of, rows)), upto

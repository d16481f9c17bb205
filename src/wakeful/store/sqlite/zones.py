"""The rules of time zones in a SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import Any

import apsw
import msgspec

from wakeful.alarm import Alarm
from wakeful.clock import Clock
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.store.queries import Naming
from wakeful.store.rows import Row, to_alarm
from wakeful.store.zones import Edition, zone_sql

Do = Callable[[Callable[[apsw.Connection], Any]], Awaitable[Any]]


class SqliteZones:
    def __init__(self, write: Do, read: Do, *, naming: Naming, clock: Clock) -> None:
        self._write = write
        self._read = read
        self._clock = clock
        self._sql = zone_sql("sqlite", naming)
        self.has_edition = False
        self.keeping: asyncio.Task[None] | None = None

    async def editions(self) -> list[Edition]:
        rows = await self._rows("editions")
        self.has_edition = bool(rows)
        return [Edition(version, from_unix_ms(since), _moment(planned_at)) for version, since, planned_at in rows]

    async def rules(self, version: str) -> bytes | None:
        rows = await self._rows("rules", version=version)
        return rows[0][0] if rows else None

    async def keep(self, version: str, data: bytes) -> None:
        values = {"version": version, "data": data, "now": unix_ms(self._clock.now())}

        def work(db: apsw.Connection) -> None:
            db.execute(self._sql["keep"], values)
            db.execute(self._sql["forget"])

        await self._write(work)

    async def planned(self, version: str) -> None:
        values = {"version": version, "now": unix_ms(self._clock.now())}
        await self._write(lambda db: db.execute(self._sql["planned"], values))

    async def alarms(self, names: Collection[str], *, after: str, looked_at: int) -> tuple[list[Alarm], str]:
        found = await self._rows("upto", after=after, looked_at=looked_at)
        upto = found[0][0] if found else ""
        zones = msgspec.json.encode(sorted(names)).decode()
        rows = await self._rows("alarms", after=after, upto=upto, names=zones)
        return list(map(to_alarm, rows)), upto

    async def _rows(self, name: str, **values: Any) -> list[Row]:
        rows: list[Row] = await self._read(lambda db: db.execute(self._sql[name], values).fetchall())
        return rows


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else from_unix_ms(ms)

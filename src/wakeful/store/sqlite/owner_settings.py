"""Owners' own settings in a SQLite file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import apsw
from msgspec.structs import asdict

from wakeful.alarm.owner_settings import SETTINGS_FIELDS, OwnerSettings
from wakeful.store.owner_settings import owner_settings_sql
from wakeful.store.queries import Naming
from wakeful.store.rows import Row

Do = Callable[[Callable[[apsw.Connection], Any]], Awaitable[Any]]


class SqliteOwnerSettings:
    def __init__(self, write: Do, read: Do, *, naming: Naming) -> None:
        self._write = write
        self._read = read
        self._sql = owner_settings_sql("sqlite", naming)

    async def get(self, owner: str) -> OwnerSettings:
        sql = self._sql["owner_settings"]
        rows: list[Row] = await self._read(lambda db: db.execute(sql, {"owner": owner}).fetchall())
        return OwnerSettings(**dict(zip(SETTINGS_FIELDS, rows[0], strict=True))) if rows else OwnerSettings()

    async def put(self, owner: str, settings: OwnerSettings) -> None:
        values = {"owner": owner, **asdict(settings)}
        await self._write(lambda db: db.execute(self._sql["put_owner_settings"], values))

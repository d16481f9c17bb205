"""Owners' own settings in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import astuple

from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.store.owner_settings import owner_settings_sql
from wakeful.store.queries import Naming

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Database


class PostgresOwnerSettings:
    def __init__(self, database: Database, *, naming: Naming) -> None:
        self._database = database
        self._sql = owner_settings_sql("postgres", naming)

    async def get(self, owner: str) -> OwnerSettings:
        rows = await self._database.fetch(self._sql["owner_settings"], owner)
        return OwnerSettings(**dict(rows[0])) if rows else OwnerSettings()

    async def put(self, owner: str, settings: OwnerSettings) -> None:
        await self._database.fetch(self._sql["put_owner_settings"], owner, *astuple(settings))

"""What owners say once for all their alarms, as a store keeps it. What it means is in alarm/owner_settings.py."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.store.queries import Dialect, Naming, named

_SQL: Final = Path(__file__).with_name("sql")


class OwnerSettingsStore(Protocol):
    async def get(self, owner: str) -> OwnerSettings:
        """What an owner has set; all of it empty where that is nothing."""
        ...

    async def put(self, owner: str, settings: OwnerSettings) -> None:
        """Keep this, in the place of what was kept for the owner before."""
        ...


def owner_settings_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    return named((_SQL / f"owner_settings.{dialect}.sql").read_text(), naming)

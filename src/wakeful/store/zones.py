"""The rules of time zones as a database keeps them: which edition its alarms are planned by, and which one before."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from wakeful.alarm import Alarm
from wakeful.schedule.zone_rules import ZoneRules, edition
from wakeful.schedule.zones import first_edition, rules_in_force, use_rules
from wakeful.store.queries import Dialect, Naming, named

_SQL: Final = Path(__file__).with_name("sql")


class Edition(Struct, frozen=True):
    """An edition of the zone data. `planned_at`: when every alarm had been planned by it; None until then."""

    version: str
    since: datetime
    planned_at: datetime | None


class ZoneStore(Protocol):
    async def editions(self) -> list[Edition]:
        """The edition in force and the one before it, where there are any."""
        ...

    async def rules(self, version: str) -> bytes | None:
        """What an edition says: `ZoneRules.packed`."""
        ...

    async def keep(self, version: str, data: bytes, *, planned: bool) -> None:
        """Put an edition in force from now on, unless it is there already; the one before the last is forgotten.

        `planned`: no alarm needs to be planned again for it.
        """
        ...

    async def planned(self, version: str) -> None:
        """Note that every alarm is planned by an edition."""
        ...

    async def alarms(self, names: Collection[str], *, after: str, looked_at: int) -> tuple[list[Alarm], str]:
        """Active and paused alarms of these zones, and all that name a zone in their expression.

        They are looked for among the first so many behind an id, in the order of ids; from the first one on where it
        is empty. Also told: the id to go on behind, empty where those were all.
        """
        ...


async def adopt_newer_rules(zones: ZoneStore) -> None:
    """Go by the database's rules where they are newer than what this process has: its alarms are planned by them."""
    kept = await zones.editions()
    if kept and kept[0].version > max(first_edition(edition()), rules_in_force()[0]):
        packed = await zones.rules(kept[0].version)
        if packed is not None:
            use_rules(kept[0].version, ZoneRules.unpacked(kept[0].version, packed).data)


def zone_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    return named((_SQL / f"zones.{dialect}.sql").read_text(), naming)

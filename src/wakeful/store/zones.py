"""The rules of time zones as a database keeps them: which edition its alarms are planned by, and which one before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from wakeful.alarm import Alarm
from wakeful.schedule.zone_rules import ZoneRules, edition, rules_here
from wakeful.schedule.zones import first_edition, rules_in_force, use_rules
from wakeful.store.queries import Dialect, Naming, named

log = logging.getLogger("wakeful.store")

_SQL: Final = Path(__file__).with_name("sql")
UNREAD: Final = "the time zone data cannot be read, and is not kept yet: %s"


class Edition(Struct, frozen=True):
    """An edition of the zone data. `planned_at`: when every alarm had been planned by it; None until then."""

    version: str
    since: datetime
    planned_at: datetime | None


class ZoneStore(Protocol):
    has_edition: bool  # whether this process has seen one: then the database has one for good
    keeping: asyncio.Task[None] | None  # that keeps the first one

    async def editions(self) -> list[Edition]:
        """The edition in force and the one before it, where there are any."""
        ...

    async def rules(self, version: str) -> bytes | None:
        """What an edition says: `ZoneRules.packed`."""
        ...

    async def keep(self, version: str, data: bytes) -> None:
        """Put an edition in force from now on, unless it is there already; the one before the last is forgotten."""
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


def edition_planned_by() -> str:
    """The edition that this process plans by."""
    return max(first_edition(edition()), rules_in_force()[0])


def rules_of(version: str) -> ZoneRules:
    """What an edition that this process has says. Reading the machine's files takes a while."""
    in_force, data = rules_in_force()
    return ZoneRules(version, data) if version == in_force else rules_here(version)


async def adopt_newer_rules(zones: ZoneStore) -> None:
    """Go by the database's rules where they are newer than what this process has: its alarms are planned by them."""
    kept = await zones.editions()
    if kept and kept[0].version > edition_planned_by():
        packed = await zones.rules(kept[0].version)
        if packed is not None:
            use_rules(kept[0].version, ZoneRules.unpacked(kept[0].version, packed).data)


async def keep_first_edition(zones: ZoneStore) -> None:
    """Keep the edition that this process plans by where the database has none: its first alarm is planned by it.

    Else the first worker, which may have a newer one, would take its own for that of alarms it did not plan.
    """
    # Those who come meanwhile wait for the same try: at a database that is locked, one after another would take long.
    if (keeping := _under_way(zones)) is None:
        keeping = zones.keeping = asyncio.create_task(_keep_first_edition(zones), name="wakeful zone data")
    await asyncio.shield(keeping)


async def first_edition_kept(zones: ZoneStore) -> None:
    """Before a store closes: let the alarms pass that wait until the first edition is kept, as they were accepted.

    They are woken in the order in which they began to wait, before the caller, and hand on their alarms at once.
    """
    if (keeping := _under_way(zones)) is not None:
        await asyncio.wait([keeping])


def _under_way(zones: ZoneStore) -> asyncio.Task[None] | None:
    """A task of a parent process does not go on in its child: nobody may wait for it there."""
    keeping = zones.keeping
    is_ours = keeping is not None and not keeping.done() and keeping.get_loop() is asyncio.get_running_loop()
    return keeping if is_ours else None


async def _keep_first_edition(zones: ZoneStore) -> None:
    try:
        if not await zones.editions():
            await keep_edition(zones, edition_planned_by())
    except OSError as error:  # no descriptor is left, or files are being replaced: the next alarm tries again
        log.warning(UNREAD, error)


async def keep_edition(zones: ZoneStore, version: str) -> list[Edition]:
    """Keep an edition that this process has, and return those the database has then."""
    await zones.keep(version, await asyncio.to_thread(lambda: rules_of(version).packed()))
    return await with_first_planned(zones, await zones.editions())


async def with_first_planned(zones: ZoneStore, kept: list[Edition]) -> list[Edition]:
    """Note of the only edition there is that every alarm is planned by it: there was none before.

    Where two processes keep their first at once, there are two, and alarms are planned again by the newer one.
    """
    if len(kept) != 1 or kept[0].planned_at is not None:
        return kept
    await zones.planned(kept[0].version)
    return await zones.editions()


def zone_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    return named((_SQL / f"zones.{dialect}.sql").read_text(), naming)

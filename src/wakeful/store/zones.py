"""The rules of time zones as a database keeps them: which edition its alarms are planned by, and which one before."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from wakeful.schedule.zone_rules import ZoneRules, edition, rules_here
from wakeful.schedule.zones import first_edition, rules_in_force, use_rules
from wakeful.store.maintenance import Edition, MaintenanceStore

log = logging.getLogger("wakeful.store")

UNREAD: Final = "the time zone data cannot be read, and is not kept yet: %s"


def edition_planned_by() -> str:
    """The edition that this process plans by."""
    return max(first_edition(edition()), rules_in_force()[0])


def rules_of(version: str) -> ZoneRules:
    """What an edition that this process has says. Reading the machine's files takes a while."""
    in_force, data = rules_in_force()
    return ZoneRules(version, data) if version == in_force else rules_here(version)


async def adopt_newer_rules(store: MaintenanceStore) -> None:
    """Go by the database's rules where they are newer than what this process has: its alarms are planned by them."""
    kept = await store.editions()
    if kept and kept[0].version > edition_planned_by():
        packed = await store.zone_rules(kept[0].version)
        if packed is not None:
            use_rules(kept[0].version, ZoneRules.unpacked(kept[0].version, packed).data)


async def keep_first_edition(store: MaintenanceStore) -> None:
    """Keep the edition that this process plans by where the database has none: its first alarm is planned by it.

    Else the first worker, which may have a newer one, would take its own for that of alarms it did not plan.
    """
    # Those who come meanwhile wait for the same try: at a database that is locked, one after another would take long.
    if (keeping := _under_way(store)) is None:
        keeping = store.keeping = asyncio.create_task(_keep_first_edition(store), name="wakeful zone data")
    await asyncio.shield(keeping)


async def first_edition_kept(store: MaintenanceStore) -> None:
    """Before a store closes: let the alarms pass that wait until the first edition is kept, as they were accepted.

    They are woken in the order in which they began to wait, before the caller, and hand on their alarms at once.
    """
    if (keeping := _under_way(store)) is not None:
        await asyncio.wait([keeping])


def _under_way(store: MaintenanceStore) -> asyncio.Task[None] | None:
    """A task of a parent process does not go on in its child: nobody may wait for it there."""
    keeping = store.keeping
    is_ours = keeping is not None and not keeping.done() and keeping.get_loop() is asyncio.get_running_loop()
    return keeping if is_ours else None


async def _keep_first_edition(store: MaintenanceStore) -> None:
    try:
        if not await store.editions():
            await keep_edition(store, edition_planned_by())
    except OSError as error:  # no descriptor is left, or files are being replaced: the next alarm tries again
        log.warning(UNREAD, error)


async def keep_edition(store: MaintenanceStore, version: str) -> list[Edition]:
    """Keep an edition that this process has, and return those the database has then."""
    await store.put_edition(version, await asyncio.to_thread(lambda: rules_of(version).packed()))
    return await with_first_planned(store, await store.editions())


async def with_first_planned(store: MaintenanceStore, kept: list[Edition]) -> list[Edition]:
    """Note of the only edition there is that every alarm is planned by it: there was none before.

    Where two processes keep their first at once, there are two, and alarms are planned again by the newer one.
    """
    if len(kept) != 1 or kept[0].planned_at is not None:
        return kept
    await store.note_planned(kept[0].version)
    return await store.editions()

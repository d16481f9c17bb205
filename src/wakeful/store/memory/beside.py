"""What a memory database keeps beside alarms and fires: budgets, checks, zone rules, owners' settings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from wakeful.alarm import Alarm, Change
from wakeful.alarm.budget import BudgetCount, Charge, Refusal, charged, costs
from wakeful.alarm.model import PENDING
from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.clock import Clock
from wakeful.moments import whole_ms
from wakeful.store.memory.database import KeptEdition, MemoryDatabase
from wakeful.store.sqlite.checks import read_only_rows
from wakeful.store.zones import UNREAD, Edition, edition_planned_by, rules_of

log = logging.getLogger("wakeful.store")

Open = Callable[[], MemoryDatabase]  # StoreUnavailable where the store is closed
_EDITIONS_KEPT: Final = 2


class MemoryBudget:
    def __init__(self, open: Open) -> None:
        self._open = open

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        counts = self._open().budget
        known = {key: counts[key] for charge in charges for key in charge.keys if key in counts}
        answers, changed = charged(charges, known)
        counts.update((count.key, count) for count in changed)
        return answers

    async def used(self, charge: Charge) -> list[BudgetCount]:
        counts = self._open().budget
        return [counts[key] for key in sorted(set(charge.keys)) if key in counts]

    async def forget(self, before: datetime) -> int:
        counts = self._open().budget
        old = [key for key, count in counts.items() if count.starts_at < whole_ms(before)]
        for key in old:
            del counts[key]
        return len(old)


def add_costs(database: MemoryDatabase, change: Change) -> None:
    for count in costs(change):
        known = database.budget.get(count.key)
        database.budget[count.key] = replace(known, cost=known.cost + count.cost) if known else count


class MemoryChecks:
    def __init__(self, open: Open) -> None:
        self._open = open

    async def seen(self, alarm_id: str, name: str) -> str | None:
        return self._open().seen.get((alarm_id, name))

    async def rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        return self._open().other_tables.read(partial(read_only_rows, sql), within=within)

    async def forget(self, *, limit: int) -> int:
        database = self._open()
        gone = list(islice((key for key in database.seen if key[0] not in database.alarms), limit))
        for key in gone:
            del database.seen[key]
        return len(gone)


class MemoryZones:
    def __init__(self, open: Open, clock: Clock) -> None:
        self._open = open
        self._clock = clock
        self.has_edition = False
        self.keeping: asyncio.Task[None] | None = None  # nothing here takes long enough for a task

    def keep_first(self) -> None:
        """Keep the edition that this process plans by where there is none, as `keep_first_edition` does in a task."""
        kept = self._open().editions
        try:
            if not kept:
                version, now = edition_planned_by(), whole_ms(self._clock.now())
                kept[version] = KeptEdition(Edition(version, now, now), rules_of(version))
        except OSError as error:
            log.warning(UNREAD, error)
        self.has_edition = bool(kept)

    async def editions(self) -> list[Edition]:
        kept = self._open().editions
        self.has_edition = bool(kept)
        return [kept[version].edition for version in sorted(kept, reverse=True)]

    async def rules(self, version: str) -> bytes | None:
        kept = self._open().editions.get(version)
        return None if kept is None else kept.packed()

    async def keep(self, version: str, data: bytes) -> None:
        kept = self._open().editions
        if version not in kept:
            kept[version] = KeptEdition(Edition(version, whole_ms(self._clock.now()), None), data=data)
        for old in sorted(kept)[:-_EDITIONS_KEPT]:
            del kept[old]

    async def planned(self, version: str) -> None:
        kept = self._open().editions.get(version)
        if kept is not None and kept.edition.planned_at is None:
            edition = kept.edition
            kept.edition = Edition(edition.version, edition.since, whole_ms(self._clock.now()))

    async def alarms(self, names: Collection[str], *, after: str, looked_at: int) -> tuple[list[Alarm], str]:
        database = self._open()
        ids = database.ids_behind(after)
        found = [database.alarms[id] for id in ids[:looked_at]]
        planned = [one for one in found if one.status in PENDING and (one.timezone in names or "TZ" in one.cron_expr)]
        return planned, ids[looked_at - 1] if len(ids) >= looked_at else ""


class MemoryOwnerSettings:
    def __init__(self, open: Open) -> None:
        self._open = open

    async def get(self, owner: str) -> OwnerSettings:
        return self._open().owner_settings.get(owner, OwnerSettings())

    async def put(self, owner: str, settings: OwnerSettings) -> None:
        self._open().owner_settings[owner] = settings

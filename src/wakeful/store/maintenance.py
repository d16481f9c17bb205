"""What keeps the store working and shows how it is: workers, targets, zone data, inspection, purging and figures.

Every figure is bounded in each of its steps: a busy hour, or an owner with a million alarms, costs no more than the
bound allows. What was counted up to the bound may be more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct

from wakeful.model.alarm import Event
from wakeful.schedule.zone_rules import ZoneRules, edition, rules_here
from wakeful.schedule.zones import first_edition, rules_in_force, use_rules

BACKLOG_LIMIT: Final = 10_000
BUDGETS_KEPT: Final = timedelta(days=2)  # the counts of a day that is over are not read again
Step = tuple[datetime, datetime]  # from a moment until just before another


class Worker(Struct, frozen=True, kw_only=True):
    """A process that dispatches, what it serves, and when it was last seen."""

    id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    stopped_at: datetime | None = None
    targets: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()


class TargetState(Struct, frozen=True, kw_only=True):
    """What is known of a target across processes: paused by whom, and whether its breaker is open."""

    target: str
    paused_at: datetime | None = None
    paused_by: str = ""
    paused_reason: str = ""
    breaker_opened_at: datetime | None = None
    last_error: str = ""
    updated_at: datetime


class Edition(Struct, frozen=True):
    """An edition of the zone data. `planned_at`: when every alarm had been planned by it; None until then."""

    version: str
    since: datetime
    planned_at: datetime | None


# What the statement `impossible` counts, in its order, and what it means for whoever finds some.
IMPOSSIBLE: Final = {
    "alarms without a time": "active or paused, and neither a moment nor a schedule",
    "alarms without an owner": "nobody can see or cancel them",
    "alarms with a number out of range": "version, claim or a count is less than it can be",
    "alarms leased far ahead": "claimed more than a day in the future",
    "fires without an alarm": "nothing says what they were",
    "fires of another owner": "the alarm belongs to somebody else",
    "skipped fires that count nothing": "they stand for less than one instant",
}


class Inspection(Struct, frozen=True, kw_only=True):
    """`schema`: 0 where there are no tables of ours. `broken`: what the database says is wrong with its own files.

    `impossible`: how many rows stand as none can that wakeful wrote, by what is wrong; empty where nobody counted.
    """

    engine: str
    size: int  # bytes
    schema: int
    known: int  # the newest schema this wakeful knows
    needed: int = 0  # the schema that a version must know to open the tables
    broken: tuple[str, ...] = ()
    impossible: dict[str, int] = {}

    @property
    def sound(self) -> bool:
        return not self.broken and not any(self.impossible.values())


class Storage(Struct, frozen=True):
    """`log`: bytes of the write-ahead log beside a SQLite file; PostgreSQL counts its own elsewhere."""

    engine: str
    size: int  # bytes
    log: int = 0


class StepCount(Struct, frozen=True):
    """How many fires one step has, up to a limit; how many of these in each status; and how many failed at all."""

    count: int
    statuses: dict[str, int] = {}
    failed: int = 0

    @classmethod
    def of(cls, statuses: dict[str, int], failed: int = 0) -> StepCount:
        return cls(sum(statuses.values()), statuses, failed)


class FireSummary(Struct, frozen=True):
    """As much of a fire as a chart needs."""

    target: str
    owner_did: str
    status: str
    scheduled_for: datetime
    started_at: datetime | None
    delivered_at: datetime | None
    updated_at: datetime
    error: str


class OwnerUse(Struct, frozen=True):
    """What an owner has, as far as it was read: alarms of any status, those that wait, and their bytes."""

    owner: str
    alarms: int
    active: int  # or paused: what a quota counts
    bytes: int
    failed: int  # fires since a moment


class OwnerBacklog(Struct, frozen=True):
    """Alarms of one owner that are due at a target and not leased."""

    target: str
    owner: str
    count: int
    since: datetime


class MaintenanceStore(Protocol):
    """Maintenance: what dispatchers and operators need besides alarms."""

    has_edition: bool  # whether this process has seen an edition of the zone data: then the database has one for good
    keeping: asyncio.Task[None] | None  # that stores the first one

    async def use_default_target(self, name: str) -> str:
        """Send the alarms that another program inserts without a target there; return where they went before."""
        ...

    async def inspect(self, *, thorough: bool = False) -> Inspection:
        """What the database is and whether it is sound. Works without our tables too, and makes none.

        `thorough`: read all of it, for as long as it takes, and count the rows in states that cannot be.
        """
        ...

    async def storage(self) -> Storage:
        """What the database is and how large. Nothing is checked: `inspect` does that, and takes time."""
        ...

    async def beat(self, worker: Worker) -> None:
        """Write a worker's row; `seen_at` is set by the store's clock."""
        ...

    async def workers(self) -> list[Worker]:
        """Every worker on record, also stopped ones, by `started_at`, then id."""
        ...

    async def target_states(self) -> dict[str, TargetState]: ...

    async def set_target_state(self, state: TargetState, *, event: Event | None = None) -> None: ...

    async def count_old(self, before: datetime, *, owner: str = "") -> dict[str, int]:
        """How many `alarms`, `fires`, `events` and `tokens` a purge would delete, until it answers 0."""
        ...

    async def purge(self, before: datetime, *, owner: str = "", limit: int = 1000) -> int:
        """Delete what is finished since before a moment, at most `limit` of each kind of row; how many went.

        Fires: `updated_at` before it, of which nothing more is expected (not waiting, no `report_by`), and not the
        current occurrence of an active or paused alarm: so also a retry that was left open when its alarm ended.
        Alarms: fired, failed or cancelled, `updated_at` before it, and no fire of theirs is left. Events: `at` before
        it. Tokens: revoked or expired before it. Call it again until it answers 0. A key is free again once its alarm
        is gone.
        """
        ...

    async def purge_counts(self, before: datetime, *, limit: int) -> int:
        """Delete what no retention concerns; how many rows went.

        The counts of budget periods that began before a moment; and what was seen by checks of alarms that are gone, at
        most `limit` rows.
        """
        ...

    async def backlog(self, *, lease: timedelta) -> dict[str, tuple[int, datetime]]:
        """Return what could be claimed now by any worker: how many per target, and when the first was due.

        Counted up to BACKLOG_LIMIT, so that reading it stays cheap; targets with nothing due are left out.
        """
        ...

    async def backlog_by_owner(self, *, lease: timedelta, limit: int) -> list[OwnerBacklog]:
        """Whose alarms wait at which target, of the first `limit` that are due there."""
        ...

    async def fire_counts(self, owner: str, steps: Sequence[Step], *, limit: int) -> list[StepCount]:
        """How many fires there are in each step, one answer per step, counted up to `limit`.

        An owner's by when they were due; of all owners, without statuses, by when they last changed.
        """
        ...

    async def latest_fires(self, owner: str, steps: Sequence[Step], *, each: int) -> list[FireSummary]:
        """At most `each` fires per step: an owner's by when they were due; of all owners by when they last changed."""
        ...

    async def owner_use(self, *, after: str, limit: int, scan_limit: int, since: datetime) -> list[OwnerUse]:
        """Owners of alarms by name, those behind `after`, each by the newest `scan_limit` alarms."""
        ...

    async def editions(self) -> list[Edition]:
        """The edition of the zone data in force and the one before it, where there are any."""
        ...

    async def zone_rules(self, version: str) -> bytes | None:
        """What an edition says: `ZoneRules.packed`."""
        ...

    async def put_edition(self, version: str, data: bytes) -> None:
        """Put an edition in force from now on, unless it is there already; the one before the last is deleted."""
        ...

    async def note_planned(self, version: str) -> None:
        """Note that every alarm is planned by an edition."""
        ...


# The rules of time zones as a database keeps them: which edition its alarms are planned by, and which one before.

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

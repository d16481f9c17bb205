"""What an owner or an operator sees at a glance: fires by hour, lateness, targets, who has how much.

Each figure comes from a bounded read (store/maintenance.py); where a bound was met, the answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from wakeful.service import Service
from wakeful.service.alarms import Alarms
from wakeful.service.hours import Spread, TargetHours, by_target, last_hours, lateness
from wakeful.service.timeline import Cell, cells
from wakeful.store.maintenance import OwnerBacklog, OwnerUse, Step

COUNTED: Final = 200  # fires looked at in one step of a calendar
AHEAD: Final = 1000  # coming fires that are looked at
AHEAD_SIZE: Final = 4_000_000  # characters of the alarms among them
OWNER_ALARMS: Final = 10_000  # looked at per owner
CHANGED: Final = 5000  # fires counted in one hour
SAMPLED: Final = 100  # fires of one hour whose lateness and outcome are looked at
DUE: Final = 1000  # due alarms looked at per target
_HOUR: Final = 3600


class Timeline(Struct, frozen=True):
    """`known_until`: as far as coming fires were counted, where there are more than were looked at."""

    cells: list[Cell]
    known_until: datetime | None


async def timeline(alarms: Alarms, steps: Sequence[Step], *, now: datetime) -> Timeline:
    """How much fired in each of these steps, which follow each other, and how much will."""
    owner, end = alarms.caller.owner, steps[-1][1]
    counts = await alarms.service.store.maintenance.fire_counts(owner, steps, limit=COUNTED)
    coming: list[datetime] = []
    known_until: datetime | None = None
    if end > now:
        hours = (end - now).total_seconds() / _HOUR
        agenda = await alarms.agenda(hours=hours, limit=AHEAD, most=AHEAD_SIZE)
        coming = [at for at, _ in agenda]
        known_until = coming[-1] if agenda.further is not None and coming else None
    return Timeline(cells(steps, counts, coming, most=COUNTED), known_until)


async def owners(service: Service, *, after: str, limit: int, since: datetime) -> list[OwnerUse]:
    """Who has alarms here, by name, going by the newest OWNER_ALARMS of each. For the operator."""
    return await service.store.maintenance.owner_use(after=after, limit=limit, scan_limit=OWNER_ALARMS, since=since)


class HourFigures(Struct, frozen=True):
    """One hour of all owners. `more`: fires changed in it than were counted."""

    since: datetime
    fires: int
    more: bool
    lateness: Spread


async def health(service: Service, *, now: datetime) -> list[HourFigures]:
    """How much went through and how late it was, hour by hour of the last day, of all owners. For the operator."""
    steps = last_hours(now)
    counts = await service.store.maintenance.fire_counts("", steps, limit=CHANGED)
    fires = await service.store.maintenance.latest_fires("", steps, each=SAMPLED)
    late = lateness(steps, fires, lambda fire: fire.updated_at)
    return [
        HourFigures(since, step.count, step.count >= CHANGED, spread)
        for (since, _), step, spread in zip(steps, counts, late, strict=True)
    ]


async def targets(alarms: Alarms, *, everyone: bool, now: datetime) -> dict[str, TargetHours]:
    """How each target did in the last day, by the fires of this owner or of everyone."""
    steps = last_hours(now)
    fires = await alarms.service.store.maintenance.latest_fires(
        "" if everyone else alarms.caller.owner, steps, each=SAMPLED
    )
    return by_target(steps, fires, (lambda fire: fire.updated_at) if everyone else (lambda fire: fire.scheduled_for))


async def waiting(service: Service) -> list[OwnerBacklog]:
    """Whose alarms are due and not leased, going by the first DUE at each target. For the operator."""
    return await service.store.maintenance.backlog_by_owner(lease=service.settings.lease, limit=DUE)

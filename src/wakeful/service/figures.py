"""What an owner or an operator sees at a glance: fires by hour, lateness, targets, who has how much.

Each figure comes from a bounded read (store/figures.py); where a bound was met, the answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from wakeful.service import Service
from wakeful.service.timeline import Cell, cells
from wakeful.service.verbs import Alarms
from wakeful.store.figures import OwnerUse, Step

COUNTED: Final = 200  # fires looked at in one step of a calendar
AHEAD: Final = 2000  # coming fires that are looked at
AHEAD_SIZE: Final = 4_000_000  # characters of the alarms among them
OWNER_ALARMS: Final = 10_000  # looked at per owner
_HOUR: Final = 3600


class Timeline(Struct, frozen=True):
    """`known_until`: as far as coming fires were counted, where there are more than were looked at."""

    cells: list[Cell]
    known_until: datetime | None


async def timeline(alarms: Alarms, steps: Sequence[Step], *, now: datetime) -> Timeline:
    """How much fired in each of these steps, which follow each other, and how much will."""
    owner, end = alarms.caller.owner, steps[-1][1]
    counts = await alarms.service.store.figures.counts(owner, steps, most=COUNTED)
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
    return await service.store.figures.owners(after=after, limit=limit, most=OWNER_ALARMS, since=since)

"""Figures for people who look: how much fired in each hour, how it went, and who has how much.

Every read is bounded in each of its steps: a busy hour, or an owner with a million alarms, costs no more than the bound
allows. What was counted up to the bound may be more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from wakeful.store.queries import Dialect, Naming, named

_SQL: Final = Path(__file__).with_name("sql")
Step = tuple[datetime, datetime]  # from a moment until just before another


class StepCount(Struct, frozen=True):
    """The fires of one step by status, among the first so many; and those that failed, which are counted apart."""

    statuses: dict[str, int]
    failed: int = 0

    @property
    def looked_at(self) -> int:
        return sum(self.statuses.values())


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
    """What an owner has, as far as it was looked at: alarms of any status, those that wait, and their bytes."""

    owner: str
    alarms: int
    active: int  # or paused: what a quota counts
    bytes: int
    failed: int  # fires since a moment


class DueOfOwner(Struct, frozen=True):
    """Alarms of one owner that are due at a target and not leased."""

    target: str
    owner: str
    count: int
    since: datetime


class Storage(Struct, frozen=True):
    """`log`: bytes of the write-ahead log beside a SQLite file; PostgreSQL counts its own elsewhere."""

    engine: str
    size: int  # bytes
    log: int = 0


class Figures(Protocol):
    async def storage(self) -> Storage:
        """What the database is and how large. Nothing is checked: that is what `inspect` is for, and it takes time."""
        ...

    async def counts(self, owner: str, steps: Sequence[Step], *, most: int) -> list[StepCount]:
        """An owner's fires due in each step, one answer per step. At most `most` are looked at in a step."""
        ...

    async def latest(self, owner: str, steps: Sequence[Step], *, each: int) -> list[FireSummary]:
        """At most `each` fires per step: an owner's by when they were due; of all owners by when they last changed."""
        ...

    async def changed(self, steps: Sequence[Step], *, most: int) -> list[int]:
        """How many fires of all owners last changed in each step, counted up to `most`."""
        ...

    async def due(self, *, lease: timedelta, most: int) -> list[DueOfOwner]:
        """Who waits at which target, going by the first `most` that are due there."""
        ...

    async def owners(self, *, after: str, limit: int, most: int, since: datetime) -> list[OwnerUse]:
        """Owners of alarms by name, those behind `after`, each going by its newest `most` alarms."""
        ...


def figure_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    own, main = (_SQL / f"{name}{dialect}.sql" for name in ("figures.", ""))
    return named(own.read_text(), naming, parts_of=main.read_text())

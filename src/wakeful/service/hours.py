"""What the fires of the last hours say: how late they began, how targets answered, what went wrong most often. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from wakeful.moments import MS
from wakeful.store.maintenance import FireSummary, Step

HOURS: Final = 24
ERRORS: Final = 5  # kinds of error that are told per target
_HOUR: Final = timedelta(hours=1)
_FAILED: Final = frozenset({"failed", "timed_out"})
_WENT_OUT: Final = frozenset({"delivered", "completed", "waiting"})


class Spread(Struct, frozen=True):
    """Milliseconds: the middle one, the one that 95 of 100 do not exceed, and the longest."""

    count: int = 0
    median: int = 0
    p95: int = 0
    longest: int = 0


class TargetHour(Struct, frozen=True):
    """One hour of one target, going by the fires that were looked at."""

    since: datetime
    out: int = 0
    failed: int = 0
    latency: Spread = Spread()


class RepeatedError(Struct, frozen=True):
    said: str
    count: int
    last: datetime


class TargetHours(Struct, frozen=True):
    target: str
    hours: list[TargetHour]
    errors: list[RepeatedError]

    @property
    def out(self) -> int:
        return sum(hour.out for hour in self.hours)

    @property
    def failed(self) -> int:
        return sum(hour.failed for hour in self.hours)


def last_hours(now: datetime, count: int = HOURS) -> list[Step]:
    """The hours until now by the clock of UTC; the last one is not over yet."""
    end = now.replace(minute=0, second=0, microsecond=0) + _HOUR
    return [(end - number * _HOUR, end - (number - 1) * _HOUR) for number in range(count, 0, -1)]


def lateness(
    steps: Sequence[Step], fires: Sequence[FireSummary], at: Callable[[FireSummary], datetime]
) -> list[Spread]:
    """How long after they were due the fires of each step began. `at`: what puts a fire into its step."""
    return [
        spread([(fire.started_at - fire.scheduled_for) // MS for fire in one if fire.started_at is not None])
        for one in _sorted_in(steps, fires, at)
    ]


def by_target(
    steps: Sequence[Step], fires: Sequence[FireSummary], at: Callable[[FireSummary], datetime]
) -> dict[str, TargetHours]:
    own: dict[str, list[FireSummary]] = {}
    for fire in fires:
        own.setdefault(fire.target, []).append(fire)
    return {
        target: TargetHours(
            target=target,
            hours=[_hour(step, one) for step, one in zip(steps, _sorted_in(steps, found, at), strict=True)],
            errors=errors(found),
        )
        for target, found in own.items()
    }


def errors(fires: Sequence[FireSummary]) -> list[RepeatedError]:
    """What went wrong, the most frequent first, each with when it was last seen."""
    seen: dict[str, list[datetime]] = {}
    for fire in fires:
        if fire.error and fire.status in (*_FAILED, "retrying"):
            seen.setdefault(fire.error, []).append(fire.updated_at)
    found = [RepeatedError(said, len(moments), max(moments)) for said, moments in seen.items()]
    return sorted(found, key=lambda error: (-error.count, error.said))[:ERRORS]


def spread(lengths: Sequence[int]) -> Spread:
    if not lengths:
        return Spread()
    line = sorted(max(0, length) for length in lengths)
    return Spread(len(line), line[(len(line) - 1) // 2], line[-(-len(line) * 95 // 100) - 1], line[-1])


def _hour(step: Step, fires: Sequence[FireSummary]) -> TargetHour:
    return TargetHour(
        since=step[0],
        out=sum(fire.status in _WENT_OUT for fire in fires),
        failed=sum(fire.status in _FAILED for fire in fires),
        latency=spread(
            [
                (fire.delivered_at - fire.started_at) // MS
                for fire in fires
                if fire.delivered_at is not None and fire.started_at is not None
            ]
        ),
    )


def _sorted_in(
    steps: Sequence[Step], fires: Sequence[FireSummary], at: Callable[[FireSummary], datetime]
) -> list[list[FireSummary]]:
    found: list[list[FireSummary]] = [[] for _ in steps]
    starts = [since for since, _ in steps]
    for fire in fires:
        place = bisect_right(starts, at(fire)) - 1
        if place >= 0 and at(fire) < steps[place][1]:
            found[place].append(fire)
    return found

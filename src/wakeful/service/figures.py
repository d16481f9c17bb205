"""What an owner or an operator sees at a glance: fires by hour, lateness, targets, who has how much.

Each figure comes from a bounded read (store/maintenance.py); where a bound was met, the answer says so.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import FIRE_STATUSES, UNSUCCESSFUL
from wakeful.moments import MS
from wakeful.service import Service
from wakeful.service.alarms import Alarms
from wakeful.store.maintenance import FireSummary, OwnerBacklog, OwnerUse, Step, StepCount

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


# Time as a calendar: the hours of a week, the days of a month, in somebody's zone; what fired and what will. Pure


YEARS: Final = range(1971, 2200)
LEVELS: Final = 4
_DAY: Final = timedelta(days=1)
# The worst first: a step is shown as the worst that happened in it.
_WARN: Final = ("retrying", "skipped")
_GOOD: Final = ("completed",)
_OPEN: Final = tuple(status for status in FIRE_STATUSES if status not in (*UNSUCCESSFUL, *_WARN, *_GOOD))
_WORST: Final = {"bad": UNSUCCESSFUL, "warn": _WARN, "open": _OPEN, "good": _GOOD}


class Cell(Struct, frozen=True):
    """One step of a calendar: how much fired in it, how that went, and how much is still to come."""

    since: datetime
    until: datetime
    count: int = 0
    more: bool = False  # than were counted
    failed: int = 0
    outcome: str = ""  # bad, warn, open, good; empty where nothing fired
    coming: int = 0
    level: int = 0  # how much that is among its neighbours, from 0 to LEVELS


class Day(Struct, frozen=True):
    """`hours`: how long the clocks make it, which is not 24 where daylight saving time begins or ends."""

    day: date
    hours: float
    cells: list[Cell | None]  # None: an hour that does not exist that day


def monday_of(text: str, today: date) -> date:
    """The first day of a week such as 2026-W47; of this week where nothing is asked for."""
    if not text:
        return today - timedelta(days=today.weekday())
    try:
        year, week = (int(part) for part in text.split("-W"))
        if year in YEARS:
            return date.fromisocalendar(year, week, 1)
    except ValueError:
        pass
    raise InvalidRequest(f"{text!r} is not a week", field="week", fix="Give a year and a week, such as 2026-W47.")


def first_of(text: str) -> date:
    """The first day of a month such as 2026-11."""
    try:
        year, month = (int(part) for part in text.split("-"))
        if year in YEARS:
            return date(year, month, 1)
    except ValueError:
        pass
    raise InvalidRequest(f"{text!r} is not a month", field="month", fix="Give a year and a month, such as 2026-11.")


def week_name(monday: date) -> str:
    """The week of a day, as it is asked for; empty before the first year and after the last."""
    year, week, _ = monday.isocalendar()
    return f"{year}-W{week:02}" if year in YEARS else ""


def month_name(day: date) -> str:
    """The month of a day, as it is asked for; empty before the first year and after the last."""
    return f"{day:%Y-%m}" if day.year in YEARS else ""


def days_of_month(first: date) -> list[date]:
    return [first + timedelta(days=number) for number in range(monthrange(first.year, first.month)[1])]


def hours_of(day: date, tz: ZoneInfo) -> list[Step | None]:
    """The 24 hours that a clock on the wall may show that day; None for one that it skips."""
    bounds = [_instant(datetime.combine(day, time(hour)), tz) for hour in range(24)]
    bounds.append(_instant(datetime.combine(day + _DAY, time()), tz))
    return [(since, until) if since < until else None for since, until in pairwise(bounds)]


def day_of(day: date, tz: ZoneInfo) -> Step:
    return _instant(datetime.combine(day, time()), tz), _instant(datetime.combine(day + _DAY, time()), tz)


def hours_between(step: Step) -> float:
    return (step[1] - step[0]) / timedelta(hours=1)


def cells(steps: Sequence[Step], counts: Sequence[StepCount], coming: Sequence[datetime], *, most: int) -> list[Cell]:
    """What is known of each step. `coming` are moments that are still to come; `most`, how far fires were counted."""
    ahead = [0] * len(steps)
    starts = [since for since, _ in steps]
    for moment in coming:
        at = bisect_right(starts, moment) - 1
        if at >= 0 and moment < steps[at][1]:
            ahead[at] += 1
    totals = [max(count.count, count.failed) + further for count, further in zip(counts, ahead, strict=True)]
    busiest = max(totals, default=0)
    return [
        Cell(
            since=since,
            until=until,
            count=max(count.count, count.failed),
            more=count.count >= most,
            failed=count.failed,
            outcome=outcome_of(count),
            coming=further,
            level=-(-LEVELS * total // busiest) if busiest else 0,
        )
        for (since, until), count, further, total in zip(steps, counts, ahead, totals, strict=True)
    ]


def outcome_of(count: StepCount) -> str:
    if count.failed:
        return "bad"
    return next((name for name, statuses in _WORST.items() if any(count.statuses.get(one) for one in statuses)), "")


def days(dates: Sequence[date], tz: ZoneInfo, found: Sequence[Cell]) -> list[Day]:
    """The cells of hours, day by day, each in the column of its hour."""
    by_start = {cell.since: cell for cell in found}
    return [
        Day(
            day=day,
            hours=hours_between(day_of(day, tz)),
            cells=[None if step is None else by_start[step[0]] for step in hours_of(day, tz)],
        )
        for day in dates
    ]


def _instant(wall: datetime, tz: ZoneInfo) -> datetime:
    """Of two the first; of none, the moment at which the clocks jump over it."""
    return wall.replace(tzinfo=tz).astimezone(UTC)


# What the fires of the last hours say: how late they began, how targets answered, what went wrong most often. Pure.

HOURS: Final = 24
ERRORS: Final = 5  # kinds of error that are told per target
_ONE_HOUR: Final = timedelta(hours=1)
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
    end = now.replace(minute=0, second=0, microsecond=0) + _ONE_HOUR
    return [(end - number * _ONE_HOUR, end - (number - 1) * _ONE_HOUR) for number in range(count, 0, -1)]


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

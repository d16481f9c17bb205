"""A brute-force walk, minute by minute, through two days around clock changes."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from wakeful.schedule.cron import Cron

ZONES = [
    *(
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "America/New_York",
        "Europe/London",
        "Europe/Berlin",
        "America/Sao_Paulo",
    ),
    *("Africa/Cairo", "Asia/Tehran", "America/St_Johns", "Pacific/Apia", "Asia/Gaza", "America/Santiago"),
]
MINUTE = timedelta(minutes=1)
AROUND = timedelta(hours=26)


class Written(NamedTuple):
    """A field as written, and the values it stands for, worked out here without the parser."""

    text: str
    values: frozenset[int]
    wild: bool


@cache
def transitions(name: str) -> list[datetime]:
    """Every change of the offset from 1990 to 2036, found by halving days."""
    tz, found = ZoneInfo(name), []
    day = datetime(1990, 1, 1, tzinfo=UTC)
    while day.year < 2037:
        low, high = day, day + timedelta(days=1)
        if low.astimezone(tz).utcoffset() != high.astimezone(tz).utcoffset():
            while high - low > MINUTE:
                middle = low + ((high - low) // 2 // MINUTE) * MINUTE
                same = middle.astimezone(tz).utcoffset() == high.astimezone(tz).utcoffset()
                low, high = (low, middle) if same else (middle, high)
            found.append(high)
        day += timedelta(days=1)
    return found


def field(rng: random.Random, size: int) -> Written:
    kind = rng.choice(["one", "some", "range", "step", "from", "all"])
    low = rng.randrange(size)
    step = rng.randrange(2, 20)
    if kind == "one":
        return Written(str(low), frozenset({low}), False)
    if kind == "some":
        values = sorted(rng.sample(range(size), 4))
        return Written(",".join(map(str, values)), frozenset(values), False)
    if kind == "range":
        high = rng.randrange(low, size)
        return Written(f"{low}-{high}", frozenset(range(low, high + 1)), False)
    if kind == "step":
        return Written(f"*/{step}", frozenset(range(0, size, step)), True)
    if kind == "from":
        return Written(f"{low}/{step}", frozenset(range(low, size, step)), True)
    return Written("*", frozenset(range(size)), True)


def walked(minutes: Written, hours: Written, change: datetime, tz: ZoneInfo) -> list[datetime]:
    """What should fire in the days around a change, by looking at every minute that really happened."""
    clock = [
        (moment, moment.astimezone(tz).replace(tzinfo=None, fold=0))
        for moment in steps(change - AROUND, change + AROUND)
    ]
    if minutes.wild or hours.wild:
        return [moment for moment, wall in clock if wall.minute in minutes.values and wall.hour in hours.values]
    fires, reached = set(), clock[0][1]
    for moment, wall in clock:
        # Readings not shown before: one on most minutes, none on a second pass, many at the end of a gap.
        while reached <= wall:
            if reached.minute in minutes.values and reached.hour in hours.values:
                fires.add(moment)
            reached += MINUTE
    return sorted(fires)


def steps(low: datetime, high: datetime) -> list[datetime]:
    return [low + n * MINUTE for n in range((high - low) // MINUTE + 1)]


@pytest.mark.parametrize("name", ZONES)
def test_the_walker_agrees_around_clock_changes(name: str) -> None:
    rng = random.Random(name)
    tz = ZoneInfo(name)
    for change in rng.sample(transitions(name), 18):
        minutes, hours = field(rng, 60), field(rng, 24)
        if rng.random() < 0.5:  # aim at the hours around the change
            wall = change.astimezone(tz)
            near = sorted({(wall.hour + more) % 24 for more in (-2, -1, 0, 1)})
            hours = Written(",".join(map(str, near)), frozenset(near), False)
        schedule = Cron(f"{minutes.text} {hours.text} * * *", tz)
        start, end, got = change - AROUND - timedelta(seconds=1), change + AROUND, []
        moment = schedule.after(start)
        while moment is not None and moment <= end:
            got.append(moment)
            moment = schedule.after(moment)
        assert got == walked(minutes, hours, change, tz), f"{minutes.text} {hours.text} {change}"

"""Random recurrence rules, and what python-dateutil says of them. It knows no clock changes: all of it is in UTC."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from dateutil.rrule import rrulestr

from wakeful.schedule import schedule

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MOST = 25
LAST = datetime(9999, 12, 30, tzinfo=UTC)
LENGTHS = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1, "HOURLY": 1 / 24, "MINUTELY": 1 / 1440}


def random_rule(rng: random.Random) -> str:
    """A rule that fires now and then, from a random start; the odd ones among them never do."""
    freq = rng.choice(list(LENGTHS))
    parts = [f"FREQ={freq}"]
    if rng.random() < 0.5:
        parts.append(f"INTERVAL={rng.choice((2, 2, 3, 4, 5, 7, 12, 25, 90))}")
    if rng.random() < 0.3:
        parts.append(f"COUNT={rng.randrange(1, 40)}")
    parts += _days(rng, freq) + _times(rng, freq)
    named = [part for part in parts if part.startswith("BY")]
    if named and rng.random() < 0.25:
        parts.append(f"BYSETPOS={_some(rng, (*range(1, 6), *range(-5, 0)), 2)}")
    if rng.random() < 0.3:
        parts.append(f"WKST={rng.choice(DAYS)}")
    start = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(0, 50 * 365 * 86_400))
    return f"DTSTART:{start:%Y%m%dT%H%M%SZ} RRULE:{';'.join(parts)}"


def _days(rng: random.Random, freq: str) -> list[str]:
    parts = []
    if rng.random() < 0.25:
        parts.append(f"BYMONTH={_some(rng, range(1, 13), 4)}")
    if freq == "YEARLY" and rng.random() < 0.15:
        parts.append(f"BYWEEKNO={_some(rng, (*range(1, 54), *range(-53, 0), 1, -1, 53, -53), 5)}")
        parts.append(f"BYDAY={_some(rng, DAYS, 7)}")
        return parts
    if freq in ("YEARLY", "HOURLY", "MINUTELY") and rng.random() < 0.1:
        parts.append(f"BYYEARDAY={_some(rng, (*range(1, 367), *range(-366, 0)), 60 if freq == 'YEARLY' else 200)}")
    if freq != "WEEKLY" and rng.random() < 0.25:
        parts.append(f"BYMONTHDAY={_some(rng, (*range(1, 32), *range(-31, 0)), 12)}")
    if rng.random() < 0.4:
        parts.append(f"BYDAY={_weekdays(rng, freq, parts)}")
    return parts


def _weekdays(rng: random.Random, freq: str, parts: list[str]) -> str:
    if freq in ("YEARLY", "MONTHLY") and rng.random() < 0.5:
        most = 5 if freq == "MONTHLY" or any(part.startswith("BYMONTH=") for part in parts) else 53
        return ",".join(
            f"{rng.choice((-1, 1)) * rng.randrange(1, most + 1)}{rng.choice(DAYS)}" for _ in range(rng.randrange(1, 5))
        )
    return _some(rng, DAYS, 5)


def _times(rng: random.Random, freq: str) -> list[str]:
    parts = []
    if rng.random() < 0.3:
        parts.append(f"BYHOUR={_some(rng, range(24), 8)}")
    if rng.random() < 0.3:
        parts.append(f"BYMINUTE={_some(rng, range(60), 20 if freq == 'MINUTELY' else 4)}")
    if rng.random() < 0.1:
        parts.append(f"BYSECOND={_some(rng, range(60), 3)}")
    return parts


def _some(rng: random.Random, values: tuple[object, ...] | range, most: int) -> str:
    return ",".join(str(rng.choice(values)) for _ in range(rng.randrange(1, most + 1)))


def at_the_end(text: str, rng: random.Random) -> str:
    """The same rule from a start near the end of the calendar: there python-dateutil soon gives up."""
    freq = text.partition("FREQ=")[2].partition(";")[0]
    years = {"YEARLY": 60, "MONTHLY": 40, "WEEKLY": 20, "DAILY": 8, "HOURLY": 0.5, "MINUTELY": 0.02}[freq]
    day = datetime(9998, 12, 31, tzinfo=UTC) - timedelta(days=rng.randrange(int(years * 365)))
    return f"DTSTART:{day:%Y%m%d}{text[16:]}"


def stretch(text: str) -> tuple[datetime, timedelta]:
    """Where a rule starts, and how far to look."""
    start = datetime.strptime(text[8:24], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    parts = dict(part.split("=") for part in text.partition("RRULE:")[2].split(";"))
    length = LENGTHS[parts["FREQ"]]
    days = length * int(parts.get("INTERVAL", 1)) * 60 + (800 if length >= 1 else 40)
    return start, min(timedelta(days=days), LAST - start)


def oracle(text: str, after: datetime, until: datetime) -> list[datetime]:
    """What python-dateutil finds in a stretch."""
    rule = rrulestr(text.replace(" ", "\n"))
    return list(islice(takewhile(lambda fire: fire <= until, rule.xafter(after)), MOST))


def ours(text: str, after: datetime, until: datetime) -> list[datetime]:
    return list(islice(_ours(text, after, until), MOST))


def _ours(text: str, after: datetime, until: datetime) -> Iterator[datetime]:
    rhythm = schedule(text)
    while (fire := rhythm.after(after)) is not None and fire <= until:
        yield fire
        after = fire

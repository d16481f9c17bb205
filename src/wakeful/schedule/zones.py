"""Time zones by name, and what a wall clock reading means as an instant.

Only utcoffset() is trusted: a gap is where it grows, a repeated stretch is where it shrinks.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule

SECOND = timedelta(seconds=1)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+){0,3}")
# These exist as files on some machines and not on others, or count leap seconds.
_NOT_NAMES = ("localtime", "posixrules", "Factory", "posix/", "right/")


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """The IANA time zone of this name."""
    if isinstance(name, str) and len(name) <= 64 and _NAME.fullmatch(name) and not name.startswith(_NOT_NAMES):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # unknown, malformed, or a folder such as "Europe"
            pass
    raise InvalidSchedule(
        f"{str(name)[:64]!r} is not a known time zone.",
        field="timezone",
        fix='Use an IANA name such as "Europe/Berlin", "America/New_York" or "UTC".',
    )


def aware(moment: datetime, what: str = "moment") -> datetime:
    """The moment in UTC; a naive one is refused, since nobody knows where it was read."""
    if moment.utcoffset() is None:
        raise InvalidSchedule("has no time zone.", field=what, fix="Hand in an aware datetime.")
    return moment.astimezone(UTC)


def offsets(wall: datetime, tz: ZoneInfo) -> tuple[timedelta, timedelta]:
    """The offsets before and after: equal, growing (the reading is in a gap) or shrinking (it happens twice)."""
    local = wall.replace(tzinfo=tz, fold=0)
    before, after = local.utcoffset(), local.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    return before, after


def transition(low: datetime, high: datetime, tz: ZoneInfo) -> datetime:
    """The instant in (low, high] at which the offset of `high` begins; both in UTC and whole seconds."""
    target = high.astimezone(tz).utcoffset()
    while high - low > SECOND:
        middle = low + (high - low) // 2
        middle = middle.replace(microsecond=0)
        if middle.astimezone(tz).utcoffset() == target:
            high = middle
        else:
            low = middle
    return high


def change_at(wall: datetime, tz: ZoneInfo) -> tuple[datetime, timedelta, timedelta] | None:
    """The clock change this reading falls into (instant, offset before, offset after); None on ordinary times."""
    before, after = offsets(wall, tz)
    if before == after:
        return None
    wall = wall.replace(tzinfo=UTC, microsecond=0, fold=0)
    early, late = sorted((wall - before, wall - after))
    return transition(early, late, tz), before, after


def instant(wall: datetime, tz: ZoneInfo) -> datetime:
    """When a wall clock reading happens, in UTC: in a gap its end, of two the first."""
    before, after = offsets(wall, tz)
    if after > before:
        change = change_at(wall, tz)
        assert change is not None
        return change[0]
    return wall.replace(tzinfo=UTC, fold=0) - before

"""How often a schedule fires in a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from wakeful.schedule.expression import Schedule

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_MS: Final = timedelta(milliseconds=1)
_COUNTED: Final = 100  # fires of an hour that are counted one by one; what fires more often does so evenly


def fires_per_day(rhythm: Schedule, first: datetime, zone: ZoneInfo) -> int:
    """How often a schedule fires on the day of one of its fires, by the clock of its zone."""
    midnight = first.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return fires_within_day(rhythm, midnight.astimezone(UTC))


def fires_within_day(rhythm: Schedule, begin: datetime) -> int:
    """How often a schedule fires in the 24 hours from a moment on: what counts from its first fire has none before it.

    Each hour that has a fire at all is taken to have as many as the first one: nobody waits until 1,440 were found.
    """
    hours = [begin + number * _HOUR for number in range(24)]
    busy = [fire for hour in hours if (fire := rhythm.after(hour - _MS)) is not None and fire < hour + _HOUR]
    return len(busy) * _within_hour(rhythm, busy[0]) if busy else 0


def per_day(gap: timedelta) -> int:
    """The same of what fires after equal spans of time."""
    return _DAY // gap


def _within_hour(rhythm: Schedule, first: datetime) -> int:
    """How many fires the hour has that begins with this one."""
    count, last = 1, first
    while count < _COUNTED:
        upcoming = rhythm.after(last)
        if upcoming is None or upcoming >= first + _HOUR:
            return count
        count, last = count + 1, upcoming
    return round(_HOUR / ((last - first) / (count - 1)))

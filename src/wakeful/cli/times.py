"""Moments for people: how far away, and when on the reader's own clock. Pure.

In a column there is room for the nearest unit and as much of the date as tells the day: `in 3 h, 17:00`,
`in 2 d, Fri 09:00`. A line of its own says all of it: `in 3 h 12 min, Tue 17 Nov 09:00`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Final

_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_DAYS_ALONE: Final = 10  # beyond so many days the hours say nothing
_WEEK: Final = 6  # days within which the name of the day is enough
_MOMENT: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def distance(length: timedelta, parts: int = 2) -> str:
    """`3 h 12 min`: the two largest units, or one."""
    seconds = round(abs(length).total_seconds())  # what was asked for 2 days ahead is not 1 d 23 h a blink later
    if seconds >= _DAYS_ALONE * 86_400:
        parts = 1
    said: list[str] = []
    for size, name in _UNITS:
        if (count := seconds // size) or (name == "s" and not said):
            said.append(f"{count} {name}")
            seconds -= count * size
        if len(said) == parts or (said and not seconds):
            break
    return " ".join(said)


def relative(moment: datetime, now: datetime, parts: int = 2) -> str:
    if abs(moment - now) < timedelta(seconds=1):
        return "now"
    said = distance(moment - now, parts)
    return f"in {said}" if moment > now else f"{said} ago"


def full(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """`in 3 h 12 min, Tue 17 Nov 09:00`."""
    return f"{relative(moment, now)}, {absolute(moment, now, zone)}"


def absolute(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """`Tue 17 Nov 09:00`; with the year where it is another one."""
    local = moment.astimezone(zone)
    year = "" if local.year == now.astimezone(zone).year else f" {local.year}"
    return f"{_WEEKDAYS[local.weekday()]} {local.day} {_MONTHS[local.month - 1]}{year} {_clock(local, moment, now)}"


def short(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """`in 3 h, 17:00`, `in 2 d, Fri 09:00`, `in 40 d, 26 Dec 09:00`, `in 1142 d, 2030-01-01`."""
    local, today = moment.astimezone(zone), now.astimezone(zone)
    days = abs((local.date() - today.date()).days)
    clock = _clock(local, moment, now)
    if days == 0:
        when = clock
    elif days <= _WEEK:
        when = f"{_WEEKDAYS[local.weekday()]} {clock}"
    elif local.year == today.year:
        when = f"{local.day} {_MONTHS[local.month - 1]} {clock}"
    else:
        when = f"{local:%Y-%m-%d}"
    return f"{relative(moment, now, parts=1)}, {when}"


def retold(text: str, tell: Callable[[datetime], str]) -> str:
    """A sentence of ours with the moments in it told in another way."""
    return _MOMENT.sub(lambda found: tell(datetime.fromisoformat(found[0].replace("Z", "+00:00"))), text)


def _clock(local: datetime, moment: datetime, now: datetime) -> str:
    """Seconds only where they matter: soon, or not long ago. The offset where the clock shows the same time twice."""
    said = f"{local:%H:%M:%S}" if local.second and abs(moment - now) < timedelta(hours=1) else f"{local:%H:%M}"
    return f"{said} {local:%z}" if local.fold else said

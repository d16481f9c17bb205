"""Moments for people: how far away, and when on the reader's own clock. Pure.

In a column there is room for the nearest unit and as much of the date as tells the day: `in 3 h, 17:00`,
`in 2 d, Fri 09:00`. A line of its own says all of it: `in 3 h 12 min, Tue 17 Nov 09:00`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from wakeful.errors import InvalidSchedule, NotFound
from wakeful.schedule import given_zone, zone
from wakeful.settings import LoadedSettings, Settings

if TYPE_CHECKING:
    from wakeful.process.application import Wakeful


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


# The zone of whoever sits at the shell: `TZ`, then the machine's own


OWN_ZONE: Final = "your own zone"
_UTC: Final = ("", "UTC0", "GMT", "GMT0", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Universal", "Etc/Universal")
_FOLDER: Final = "zoneinfo/"


class ShellZone(NamedTuple):
    name: str
    source: str  # where it comes from, in words


def asked_zone(given: str | None, settings: Settings | None) -> ShellZone:
    """The zone in which a time is read: the one that was said, then the setting, then the shell's own."""
    if given:
        return ShellZone(given_zone(given), "--tz")
    if isinstance(settings, LoadedSettings) and "timezone" in settings.origins:
        return ShellZone(settings.timezone, "the setting timezone")
    return shell_zone(os.environ)


async def own_zone(alarms: Wakeful, otherwise: ShellZone) -> ShellZone:
    """The zone that the owner has set for all alarms, where there is one: it counts before the shell's."""
    try:
        found = await alarms.owner_settings()
    except NotFound:  # a server of an earlier version
        return otherwise
    return ShellZone(found.timezone, OWN_ZONE) if "timezone" in found.own else otherwise


def reader_zone() -> str:
    """The zone in which times are shown; UTC where the shell's own cannot be told."""
    try:
        return shell_zone(os.environ).name
    except InvalidSchedule:
        return "UTC"


def shell_zone(environ: Mapping[str, str], etc: Path = Path("/etc")) -> ShellZone:
    """InvalidSchedule where TZ holds something else than a zone's name: times would be read in the wrong one."""
    if (text := environ.get("TZ")) is not None:
        return ShellZone(_checked(_name(text.removeprefix(":"))), "TZ")
    for name, source in ((_linked(etc / "localtime"), "localtime"), (_written(etc / "timezone"), "timezone")):
        if name:
            return ShellZone(_checked(name), f"{etc / source}")
    return ShellZone("UTC", "this machine has no zone set")


def _checked(name: str) -> str:
    try:
        return zone(name).key
    except InvalidSchedule:
        raise InvalidSchedule(
            f"{name!r} is not the name of a time zone",
            field="TZ",
            fix='Give --tz with a name such as "Europe/Berlin", or set TZ to one.',
        ) from None


def _name(text: str) -> str:
    name = text.rpartition(_FOLDER)[2] if _FOLDER in text else text
    return "UTC" if name in _UTC else name


def _linked(path: Path) -> str:
    target = os.path.realpath(path)
    return _name(target) if _FOLDER in target else ""


def _written(path: Path) -> str:
    try:
        text = path.read_text().strip()
    except (OSError, ValueError):
        return ""
    return _name(text) if text else ""

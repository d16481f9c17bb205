"""The zone of whoever sits at the shell: `TZ`, then the machine's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from wakeful.config import LoadedSettings, Settings
from wakeful.errors import InvalidSchedule, NotFound
from wakeful.schedule import given_zone, zone

if TYPE_CHECKING:
    from wakeful.app import Wakeful

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


async def own_zone(clock: Wakeful, otherwise: ShellZone) -> ShellZone:
    """The zone that the owner has set for all alarms, where there is one: it counts before the shell's."""
    try:
        found = await clock.owner_settings()
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

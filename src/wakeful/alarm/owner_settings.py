"""What an owner says once for all alarms: the zone, how dates are read, working days, a calendar of holidays. Pure.

It stands above the server's settings and below what an alarm says itself. Empty: as the server has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from wakeful.alarm.request import about
from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.schedule import given_zone
from wakeful.schedule.days_off import days_text
from wakeful.schedule.names import DATE_ORDERS

SETTINGS_FIELDS: Final = ("timezone", "date_order", "working_days", "calendar")


class OwnerSettings(Struct, frozen=True, kw_only=True):
    """The fields and their order are the columns of `owner_settings`."""

    timezone: str = ""
    date_order: str = ""
    working_days: str = ""
    calendar: str = ""


class SettingsRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Changes to the caller's own settings. Fields left out stay as they are; null or "" takes the server's again."""

    timezone: Annotated[
        str | UnsetType | None, about("Your IANA time zone, for times given without one.", "Europe/Berlin")
    ] = UNSET
    date_order: Annotated[
        str | UnsetType | None, about("How you write 3/4/2030: dmy (day first) or mdy (month first).", "dmy")
    ] = UNSET
    working_days: Annotated[str | UnsetType | None, about("The days you work on.", "mon-fri", "sun-thu")] = UNSET
    calendar: Annotated[
        str | UnsetType | None, about("The calendar whose holidays you have; the operator names them.", "berlin")
    ] = UNSET


class OwnerSettingsView(Struct, frozen=True, kw_only=True):
    """What counts for the caller's alarms. `own`: which of it the caller has set; the rest is the server's."""

    timezone: str
    date_order: str
    working_days: str
    calendar: str
    own: list[str]
    calendars: list[str]  # those that may be named


def effective(own: OwnerSettings, server: OwnerSettings) -> OwnerSettings:
    """What counts: the owner's, where there is one, else the server's."""
    return replace(server, **{name: said for name, said in asdict(own).items() if said})


def shown(own: OwnerSettings, server: OwnerSettings, calendars: Iterable[str]) -> OwnerSettingsView:
    """What counts, and whose it is. `calendars`: the names of those that the operator has."""
    said = [name for name, value in asdict(own).items() if value]
    return OwnerSettingsView(**asdict(effective(own, server)), own=said, calendars=sorted(calendars))


def changed(own: OwnerSettings, asked: SettingsRequest, calendars: Collection[str]) -> OwnerSettings:
    """The owner's settings with the changes that are asked for. Raises InvalidRequest that names the field."""
    said = {name: value for name in SETTINGS_FIELDS if (value := getattr(asked, name)) is not UNSET}
    if not said:
        raise InvalidRequest("nothing to change was given", field="body", fix=f"Name one of {_names()}.")
    return replace(own, **{name: _checked(name, value, calendars) for name, value in said.items()})


def _names() -> str:
    return ", ".join(SETTINGS_FIELDS)


def _checked(name: str, value: str | None, calendars: Collection[str]) -> str:
    text = (value or "").strip()
    if not text:
        return ""
    return check_calendar(text, calendars) if name == "calendar" else _CHECKS[name](text)


def _timezone(name: str) -> str:
    try:
        return given_zone(name)
    except InvalidSchedule as error:
        raise InvalidRequest(error.message, field="timezone", fix=error.fix) from None


def _date_order(order: str) -> str:
    if order not in DATE_ORDERS:
        raise InvalidRequest(f"{order!r} is not a date order", field="date_order", fix="Give dmy or mdy.")
    return order


def _working_days(text: str) -> str:
    try:
        return days_text(text)
    except ValueError as error:
        fix = "Give days such as mon-fri or sun,mon,tue."
        raise InvalidRequest(str(error), field="working_days", fix=fix) from None


def check_calendar(name: str, calendars: Collection[str], field: str = "calendar") -> str:
    """A calendar's name, where the operator has one of that name."""
    if name in calendars:
        return name
    there = ", ".join(sorted(calendars))
    fix = f"There are: {there}." if there else "The operator adds one with [calendars.NAME] in the settings file."
    raise InvalidRequest(f"there is no calendar {name[:60]!r}", field=field, fix=fix)


_CHECKS: Final[Mapping[str, Callable[[str], str]]] = {
    "timezone": _timezone,
    "date_order": _date_order,
    "working_days": _working_days,
}

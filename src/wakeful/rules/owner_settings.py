"""Decide what counts for an owner: its own settings above the server's. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from msgspec import UNSET
from msgspec.structs import asdict, replace

from wakeful.errors import InvalidRequest, InvalidSchedule
from wakeful.model.owner_settings import SETTINGS_FIELDS, OwnerSettings, OwnerSettingsView, SettingsRequest
from wakeful.schedule import given_zone
from wakeful.schedule.days_off import days_text
from wakeful.schedule.names import DATE_ORDERS


def effective(own: OwnerSettings, server: OwnerSettings) -> OwnerSettings:
    """What counts: the owner's, where there is one, else the server's."""
    return replace(server, **{name: said for name, said in asdict(own).items() if said})


def shown(own: OwnerSettings, server: OwnerSettings, calendars: Iterable[str]) -> OwnerSettingsView:
    """What counts, and whose it is. `calendars`: the names of those that the operator has."""
    said = [name for name, value in asdict(own).items() if value]
    return OwnerSettingsView(**asdict(effective(own, server)), own=said, calendars=sorted(calendars))


def changed(own: OwnerSettings, request: SettingsRequest, calendars: Collection[str]) -> OwnerSettings:
    """The owner's settings with the changes that are asked for. Raises InvalidRequest that names the field."""
    said = {name: value for name in SETTINGS_FIELDS if (value := getattr(request, name)) is not UNSET}
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

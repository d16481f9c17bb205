"""What an owner says once for all alarms: the zone, date order, working days, a calendar of holidays. Data only.

It stands above the server's settings and below what an alarm says itself. Empty: as the server has it.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Struct, UnsetType

from wakeful.model.requests import about

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

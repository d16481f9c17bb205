"""The settings of `[calendars.NAME]`: whose holidays, by country or in a file; and the working days."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from wakeful.errors import InvalidConfig
from wakeful.schedule.days_off import days_of


def _about(text: str) -> Meta:
    return Meta(description=text)


class CalendarSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    country: Annotated[str, _about("The country whose public holidays are meant: ISO 3166, such as `DE`.")] = ""
    subdivision: Annotated[str, _about("A state or province of it, such as `BE` for Berlin.")] = ""
    ics: Annotated[str, _about("Instead of a country: an iCalendar file; each day of its events is a holiday.")] = ""


def check_calendars(calendars: Mapping[str, CalendarSettings], usual: str, working_days: str) -> None:
    """InvalidConfig for a calendar that names nothing, or two things, and for days that are not days."""
    for name, given in calendars.items():
        if bool(given.country) == bool(given.ics):
            raise InvalidConfig(
                "a calendar has either a country or an ics file",
                field=f"calendars.{name}",
                fix='Give country = "DE", or ics = "holidays.ics".',
            )
        if given.subdivision and not given.country:
            raise InvalidConfig(
                "only a country has a subdivision", field=f"calendars.{name}.subdivision", fix="Leave it out."
            )
    if usual and usual not in calendars:
        there = f"There are: {', '.join(calendars)}." if calendars else f"Add [calendars.{usual}]."
        raise InvalidConfig(f"there is no calendar {usual!r}", field="calendar", fix=there)
    try:
        days_of(working_days)
    except ValueError as error:
        raise InvalidConfig(str(error), field="working_days", fix="Give days such as mon-fri or sun-thu.") from None

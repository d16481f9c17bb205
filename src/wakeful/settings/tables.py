"""The tables of the settings file: `[budget]`, `[calendars.NAME]` and `[checks.NAME]`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.limits import BudgetLimits, OwnerLimits
from wakeful.schedule import duration
from wakeful.schedule.days_off import days_of

LONGEST_LOOK: Final = 60.0  # seconds
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


def _about(text: str) -> Meta:
    return Meta(description=text)


# How many wakes, and what cost, an owner, an alarm and a chain may have. 0: no limit.


class BudgetSettings(BudgetLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    owners: Annotated[
        dict[str, OwnerLimits], _about("`[budget.owners.NAME]`: the same limits where they differ for an owner.")
    ] = field(default_factory=dict)

    @property
    def for_everyone(self) -> BudgetLimits:
        return BudgetLimits(**{name: getattr(self, name) for name in BudgetLimits.__struct_fields__})

    @property
    def by_owner(self) -> Mapping[str, BudgetLimits]:
        """The limits of each owner that has some of its own."""
        return {owner: replace(self.for_everyone, **_said(given)) for owner, given in self.owners.items()}


def _said(given: Struct) -> dict[str, int | float]:
    return {name: value for name, value in asdict(given).items() if value is not None}


def check_budget(budget: BudgetSettings) -> None:
    """InvalidConfig for a limit that is not one."""
    places = {"budget": asdict(budget.for_everyone)}
    places |= {f"budget.owners.{owner}": _said(given) for owner, given in budget.owners.items()}
    for place, limits in places.items():
        for name, value in limits.items():
            if not 0 <= value < math.inf:
                raise InvalidConfig(f"{value} is not a limit", field=f"{place}.{name}", fix="Give 0 for none, or more.")


# Whose holidays, by country or in a file; and the working days.


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


# What an alarm with `only_if` checks before it wakes anybody.


class CheckSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, _about("What is looked at, with GET; http or https.")] = ""
    changed: Annotated[str, _about("Of the answer: `status`, `etag`, or a JSON pointer such as `/data/0/id`.")] = (
        "status"
    )
    headers: Annotated[dict[str, str], _about("More headers, for example for a token.")] = {}
    allow_private: Annotated[
        bool | list[str], _about("Private addresses and loopback too: `true`, or a list of networks.")
    ] = False
    sql: Annotated[str, _about("In place of `url`: a query on wakeful's own database; its rows are looked at.")] = ""
    timeout: Annotated[float | str, _about("How long a look may take, up to 60 s.")] = 10.0

    @property
    def within(self) -> float:
        """Seconds."""
        return duration(self.timeout).total_seconds()


def check_checks(checks: Mapping[str, CheckSettings]) -> None:
    """InvalidConfig for a check that cannot be looked at."""
    for name, check in checks.items():
        place = f"checks.{name}"
        if not _NAME.fullmatch(name):
            fix = "Use letters, digits and . _ : - behind a letter or a digit, at most 100."
            raise InvalidConfig(f"{name[:120]!r} is not a name of a check", field="checks", fix=fix)
        if bool(check.url) == bool(check.sql):
            raise InvalidConfig("it needs one thing to look at", field=place, fix="Give url, or sql.")
        if check.changed not in ("status", "etag") and not check.changed.startswith("/"):
            fix = "Give status, etag, or a JSON pointer such as /data/0/id."
            raise InvalidConfig(f"{check.changed!r} is not accepted", field=f"{place}.changed", fix=fix)
        _check_timeout(check, place)


def _check_timeout(check: CheckSettings, place: str) -> None:
    fix = f"Give more than 0 s and at most {LONGEST_LOOK:g} s."
    try:
        within = check.within
    except InvalidRequest as error:
        raise InvalidConfig(error.message, field=f"{place}.timeout", fix=fix) from None
    if not 0 < within <= LONGEST_LOOK:
        raise InvalidConfig(f"{check.timeout!r} is not accepted", field=f"{place}.timeout", fix=fix)

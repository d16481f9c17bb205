"""Which holidays an alarm keeps: those of the calendar it names, else of its owner's, else of the server's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import Policy
from wakeful.model.owner_settings import OwnerSettings
from wakeful.model.requests import EditRequest, Wanted
from wakeful.rules.owner_settings import check_calendar
from wakeful.rules.wanted import wanted_change
from wakeful.schedule.days_off import USUAL_DAYS, calendar_problem, days_text, with_working_days, without_days_off
from wakeful.service.core import Session
from wakeful.service.resolving import get_alarm
from wakeful.settings import Settings

FIELDS: Final = ("calendar", "on_holiday", "working_days")
_CONFIGURE: Final = (
    'The operator adds one, such as [calendars.berlin] with country = "DE", and names it in the setting `calendar`.'
)


def calendar_meant(own: OwnerSettings, settings: Settings, field: str) -> str:
    """The calendar that "public holidays" are looked up in. InvalidRequest where none is meant, or none can be read."""
    name = own.calendar or (next(iter(settings.calendars)) if len(settings.calendars) == 1 else "")
    if not name:
        there = ", ".join(sorted(settings.calendars))
        fix = f"Name one in your settings: {there}." if there else _CONFIGURE
        raise InvalidRequest("whose holidays are meant is not known: no calendar is set", field=field, fix=fix)
    return _readable(check_calendar(name, settings.calendars, field), field)


def _readable(name: str, field: str) -> str:
    if problem := calendar_problem(name):
        raise InvalidRequest(problem, field=field, fix="Have the operator mend it, or leave the holidays out.")
    return name


def as_said(when: str | None, own: OwnerSettings, settings: Settings) -> tuple[str | None, bool]:
    """A `when` with the owner's working days named, and whether it leaves holidays out.

    Where there is no calendar at all, working days are days of the week, and a note says so.
    """
    if not when:
        return when, False
    phrase, skips_holidays = without_days_off(when, own.working_days, has_calendar=bool(settings.calendars))
    return (with_working_days(when, own.working_days) if skips_holidays else phrase), skips_holidays


def with_holidays(policy: Policy, *, said: bool, own: OwnerSettings, settings: Settings) -> Policy:
    """The policy of a new alarm with its holidays complete. `said`: its `when` leaves them out."""
    if policy.working_days:
        _days(policy.working_days)
    if not said and not policy.calendar and policy.on_holiday is None:
        return policy
    if policy.calendar:
        name = _readable(check_calendar(policy.calendar, settings.calendars, "policy.calendar"), "policy.calendar")
    else:
        name = calendar_meant(own, settings, "when" if said else "policy.on_holiday")
    how = policy.on_holiday or "skip"
    days = "" if how == "skip" else _days(policy.working_days or own.working_days)
    return replace(policy, calendar=name, on_holiday=how, working_days=days)


def holiday_changes(
    changes: Mapping[str, Any], before: Policy, *, said: bool, own: OwnerSettings, settings: Settings
) -> dict[str, Any]:
    """What an edit changes of a policy, with its holidays complete. Without a calendar the others go as well."""
    if changes.get("working_days"):
        _days(changes["working_days"])
    if changes.get("calendar", before.calendar) == "" and not said and changes.get("on_holiday") is None:
        return {**changes, "calendar": "", "on_holiday": None, "working_days": ""}
    meant = with_holidays(replace(before, **changes), said=said, own=own, settings=settings)
    return {**changes, **{name: getattr(meant, name) for name in FIELDS}}


async def wanted_edit(session: Session, id: str, request: EditRequest) -> Wanted:
    """What an edit changes, with the holidays that it says something of; they may depend on what the alarm has."""
    service = session.service
    own = await service.owner_settings.of(session.caller.owner)
    when, skips_holidays = as_said(request.when, own, service.settings)
    said = request if when == request.when else replace(request, when=when)
    wanted = wanted_change(said, service.defaults.policy, own.date_order, service.defaults.bare_day)
    if not skips_holidays and not any(name in wanted.policy for name in FIELDS):
        return wanted
    before = (await get_alarm(session, id)).policy
    policy = holiday_changes(wanted.policy, before, said=skips_holidays, own=own, settings=service.settings)
    return replace(wanted, policy=policy)


def _days(text: str) -> str:
    try:
        found = days_text(text)
    except ValueError as error:
        fix = "Give days such as mon-fri or sun-thu."
        raise InvalidRequest(str(error), field="policy.working_days", fix=fix) from None
    return "" if found == USUAL_DAYS else found

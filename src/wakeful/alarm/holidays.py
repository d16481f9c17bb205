"""Decide what becomes of an occurrence on a holiday: it is skipped, or moved to another day. Pure.

Skips are decided when a fire is due, since a calendar may change until then. Moves are decided when the series is
planned: `timetable` in plan.py is the schedule with its days off moved, one to one (schedule/days_off.py). If a
calendar cannot be read, the alarm fires as if it had none, and an event says so.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from wakeful.alarm.model import Alarm, Event
from wakeful.schedule import Schedule, instant, split_zone, zone
from wakeful.schedule.days_off import USUAL_DAYS, MovedSchedule, calendar_named, calendar_problem

HOLIDAYS_UNKNOWN: Final = "holidays_unknown"  # what the event says of an alarm that fired though it keeps holidays
_MS: Final = timedelta(milliseconds=1)


def keeps_holidays(alarm: Alarm) -> bool:
    """Return whether it has a calendar: only a series goes by one, a single moment was named on purpose."""
    return bool(alarm.policy.calendar) and alarm.kind == "cron"


def holiday_at(alarm: Alarm, moment: datetime) -> str:
    """Return the name of the holiday that a moment falls on in the alarm's zone; empty where it is none."""
    if not keeps_holidays(alarm):
        return ""
    days = calendar_named(alarm.policy.calendar)
    if days is None or days.problem:
        return ""
    return days.holiday(moment.astimezone(_zone(alarm)).date())


def holiday_problem(alarm: Alarm) -> str:
    """Return why the holidays that an alarm keeps are not known; empty where they are, or it keeps none."""
    return calendar_problem(alarm.policy.calendar) if keeps_holidays(alarm) else ""


def holidays_unknown(alarm: Alarm, now: datetime) -> tuple[Event, ...]:
    """Return what is on record of a fire that went out though nobody knows whether it was a holiday."""
    if not (problem := holiday_problem(alarm)):
        return ()
    reason = f"it fired, though {problem}"
    return (
        Event(
            at=now,
            what=HOLIDAYS_UNKNOWN,
            alarm_id=alarm.id,
            owner_did=alarm.owner_did,
            fire_id=alarm.fire_id,
            reason=reason,
        ),
    )


def moved_from_holidays(alarm: Alarm, plain: Schedule) -> Schedule:
    """Return the schedule of a series as its holidays move it; itself where they move nothing."""
    policy = alarm.policy
    if policy.on_holiday in (None, "skip") or not keeps_holidays(alarm):
        return plain
    days = calendar_named(policy.calendar)
    if days is None or days.problem:
        return plain
    return MovedSchedule(
        plain,
        days,
        _zone(alarm),
        backward=policy.on_holiday == "previous_working_day",
        working_days=policy.working_days or USUAL_DAYS,
        fired=alarm.occurrence_at,
    )


def end_of_day(alarm: Alarm, moment: datetime) -> datetime:
    """Return the last millisecond of a moment's day in the alarm's zone."""
    local = _zone(alarm)
    return instant(datetime.combine(moment.astimezone(local).date() + timedelta(days=1), time()), local) - _MS


def unfired(alarm: Alarm) -> Alarm:
    """Return the alarm as it was before its current occurrence, which may then be moved."""
    return replace(alarm, occurrence_at=alarm.occurrence_at - _MS)


def _zone(alarm: Alarm) -> ZoneInfo:
    return zone(split_zone(alarm.cron_expr, alarm.timezone)[1])

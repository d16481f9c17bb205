"""What clock changes in the year ahead do to a recurring schedule, in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from wakeful.schedule.cron import Cron
from wakeful.schedule.descriptions import describe
from wakeful.schedule.expression import Schedule, anchor_now, is_interval, is_rule, schedule
from wakeful.schedule.readings import SEARCH_YEARS, WallSchedule
from wakeful.schedule.zones import transition

_YEAR = timedelta(days=366)
_HOUR = timedelta(hours=1)
_MOST_COUNTED = 400
_STEP = timedelta(days=10)


def remarks(cron_expr: str, timezone: str, now: datetime) -> tuple[str, ...]:
    """One remark per clock change within a year that meets the schedule."""
    if is_interval(cron_expr):
        return ()
    if is_rule(cron_expr):
        return _of_rule(cron_expr, timezone, now)
    rhythm = schedule(cron_expr, timezone)
    assert isinstance(rhythm, Cron)
    found = [_remark(rhythm, change, before) for change, before in changes(rhythm.zone, now)]
    if (day := rhythm.days.rare()) > 0:
        found.insert(0, f"Months without a day {day} are skipped.")
    return tuple(remark for remark in found if remark)


def _of_rule(cron_expr: str, timezone: str, now: datetime) -> tuple[str, ...]:
    """How often it fires, where its words do not say it, and the same remarks for each of its rules."""
    from wakeful.schedule.recurrence_schedule import RecurrenceSchedule, RuleSchedule

    rhythm = schedule(cron_expr, timezone, anchor=anchor_now(cron_expr, timezone, now))
    rules = rhythm.rules if isinstance(rhythm, RecurrenceSchedule) else (rhythm,)
    found = []
    for rule in rules:
        if isinstance(rule, RuleSchedule):
            if (day := rule.days.rare()) > 0:
                found.append(f"Months without a day {day} are skipped.")
            lives = [
                (at, before) for at, before in changes(rule.zone, now) if rule.begin <= at and rule.after(at - _HOUR)
            ]
            found += [_remark(rule, at, before) for at, before in lives]
    if is_rule(describe(cron_expr, timezone)):
        found.insert(0, _how_often(rhythm, now))
    return tuple(dict.fromkeys(remark for remark in found if remark))


def _how_often(rhythm: Schedule, now: datetime) -> str:
    count, moment = 0, rhythm.after(now)
    while moment is not None and moment < now + _YEAR and count <= _MOST_COUNTED:
        count, moment = count + 1, rhythm.after(moment)
    if count > _MOST_COUNTED:
        return f"It fires more than {_MOST_COUNTED} times in the year ahead."
    return f"It fires {'once' if count == 1 else f'{count} times'} in the year ahead."


def changes(tz: ZoneInfo, since: datetime) -> list[tuple[datetime, timedelta]]:
    """The clock changes in the year ahead, each with the offset that ends there."""
    found = []
    low = since.replace(microsecond=0)
    try:
        while low < since + _YEAR:
            high = low + _STEP
            before = low.astimezone(tz).utcoffset()
            if before != high.astimezone(tz).utcoffset() and before is not None:
                found.append((transition(low, high, tz), before))
            low = high
    except OverflowError:  # the end of the calendar
        pass
    return found


def _remark(rhythm: WallSchedule, change: datetime, before: timedelta) -> str:
    after = change.astimezone(rhythm.zone).utcoffset()
    assert after is not None
    start, end = sorted(((change + before).replace(tzinfo=None), (change + after).replace(tzinfo=None)))
    met = rhythm.at_or_after(start, start.year + SEARCH_YEARS)
    if met is None or met >= end:
        return ""
    stretch = f"On {start:%Y-%m-%d} clocks in {rhythm.zone.key} go {'forward' if after > before else 'back'}"
    if after > before:
        missing = f"{stretch} and {start:%H:%M} to {end:%H:%M} does not happen"
        return f"{missing}: it fires once, at {end:%H:%M}." if rhythm.fixed else f"{missing}: nothing fires in it."
    twice = f"{stretch} and {start:%H:%M} to {end:%H:%M} happens twice"
    return f"{twice}: it fires the first time only." if rhythm.fixed else f"{twice}: it fires both times."

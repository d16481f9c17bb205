"""What clock changes in the year ahead do to a recurring schedule, in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from wakeful.schedule.cron import Cron
from wakeful.schedule.expression import is_interval, schedule
from wakeful.schedule.readings import SEARCH_YEARS
from wakeful.schedule.zones import transition

_YEAR = timedelta(days=366)
_STEP = timedelta(days=10)


def remarks(cron_expr: str, timezone: str, now: datetime) -> tuple[str, ...]:
    """One remark per clock change within a year that meets the schedule."""
    if is_interval(cron_expr):
        return ()
    rhythm = schedule(cron_expr, timezone)
    assert isinstance(rhythm, Cron)
    found = [_remark(rhythm, change, before) for change, before in changes(rhythm.zone, now)]
    if (day := rhythm.days.rare()) > 0:
        found.insert(0, f"Months without a day {day} are skipped.")
    return tuple(remark for remark in found if remark)


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


def _remark(rhythm: Cron, change: datetime, before: timedelta) -> str:
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

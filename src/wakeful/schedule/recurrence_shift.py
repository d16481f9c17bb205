"""A recurrence moved by a length of time: "a day before the first Monday of the month" as a rule of its own. Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from wakeful.errors import InvalidSchedule
from wakeful.schedule.expression import schedule
from wakeful.schedule.recurrence import Recurrence, RecurrenceRule, RuleMoment

if TYPE_CHECKING:
    from collections.abc import Iterator


COMPARED = 60  # fires: of a yearly rule, leap years as well
_CALENDAR = ("YEARLY", "MONTHLY")
_SEVERAL_A_DAY = ("HOURLY", "MINUTELY")
_WEEK = 7
_TICK = timedelta(microseconds=1)


def shifted(recurrence: Recurrence, by: timedelta) -> Recurrence:
    """The recurrence whose fires are those of another, so much later (or earlier). Wall clocks are counted.

    Raises InvalidSchedule where no rule says that.
    """
    if recurrence.start is None:
        raise InvalidSchedule("DTSTART is missing.", field="cron_expr")
    if not by:
        return recurrence
    start = wall(recurrence.start)
    days = ((start + by).date() - start.date()).days
    moved = Recurrence(
        rules=tuple(_rule(rule, start, by, days) for rule in recurrence.rules),
        start=start + by,
        dates=tuple(wall(moment) + by for moment in recurrence.dates),
        exceptions=tuple(_moved(moment, by, days) for moment in recurrence.exceptions),
    )
    may_differ = days or any(rule.freq in _SEVERAL_A_DAY for rule in recurrence.rules)
    if may_differ and not _is_same(recurrence, moved, by):
        raise _cannot_be_said(recurrence, by)
    return moved


def wall(moment: RuleMoment) -> datetime:
    """A reading of the clock, at midnight where only a day is named; a moment in UTC stays one."""
    return moment if isinstance(moment, datetime) else datetime.combine(moment, time())


def _moved(moment: RuleMoment, by: timedelta, days: int) -> RuleMoment:
    return moment + by if isinstance(moment, datetime) else moment + timedelta(days=days)


def _rule(rule: RecurrenceRule, start: datetime, by: timedelta, days: int) -> RecurrenceRule:
    rule = _without_start_time(rule, start)
    if rule.says_time:
        raise _cannot_be_said(Recurrence((rule,)), by)
    rule = rule._replace(until=None if rule.until is None else _moved(rule.until, by, days))
    if not days:
        return rule
    rule = _by_days_of_month(rule, start)
    moved = tuple(_day_of_month(day, days) for day in rule.by_month_day)
    turned = {(after > 0) - (day > 0) for day, after in zip(rule.by_month_day, moved, strict=True)}
    months = turned.pop() if len(turned) == 1 else 0  # all of them in the month before, or after
    return rule._replace(
        by_month=tuple((month - 1 + months) % 12 + 1 for month in rule.by_month),
        by_month_day=moved,
        by_day=tuple(day._replace(weekday=(day.weekday + days) % _WEEK) for day in rule.by_day),
        week_start=(rule.week_start + days) % _WEEK if rule.freq == "WEEKLY" else rule.week_start,
    )


def _without_start_time(rule: RecurrenceRule, start: datetime) -> RecurrenceRule:
    """Without the times of day that its start says anyway."""
    return rule._replace(
        by_hour=() if rule.by_hour == (start.hour,) else rule.by_hour,
        by_minute=() if rule.by_minute == (start.minute,) else rule.by_minute,
        by_second=() if rule.by_second == (start.second,) else rule.by_second,
    )


def _by_days_of_month(rule: RecurrenceRule, start: datetime) -> RecurrenceRule:
    """The same rule with its days counted within the month, as far as it counts them there: those can be moved."""
    if rule.freq not in _CALENDAR or rule.by_month_day or rule.by_week_no or rule.by_year_day:
        return rule
    if not rule.by_day:
        months = rule.by_month or (() if rule.freq == "MONTHLY" else (start.month,))
        return rule._replace(by_month=months, by_month_day=(start.day,))
    counted = {day.n for day in rule.by_day}
    if len({day.weekday for day in rule.by_day}) > 1 or 0 in counted or (rule.freq == "YEARLY" and not rule.by_month):
        return rule
    # The second Monday is the Monday among the days 8 to 14.
    within = tuple(day for n in counted for day in _week_of_month(n))
    return rule._replace(by_month_day=within, by_day=tuple({day._replace(n=0) for day in rule.by_day}))


def _week_of_month(n: int) -> range:
    first = _WEEK * (n - 1) + 1 if n > 0 else _WEEK * n
    return range(first, first + _WEEK)


def _day_of_month(day: int, days: int) -> int:
    """A day of the month moved: the day before the first is the last one, -1; there is no day 0."""
    moved = day + days
    if day > 0:
        return moved if moved > 0 else moved - 1
    return moved if moved < 0 else moved + 1


def _is_same(recurrence: Recurrence, moved: Recurrence, by: timedelta) -> bool:
    begin = wall(recurrence.start or date.min).replace(tzinfo=UTC) - _TICK
    meant = [moment + by for moment in islice(_fires(recurrence, begin), COMPARED)]
    try:
        found = list(islice(_fires(moved, begin + by), COMPARED))
    except InvalidSchedule:  # it never fires, or is not accepted
        return False
    return found == meant


def _fires(recurrence: Recurrence, begin: datetime) -> Iterator[datetime]:
    """In UTC, where no clock is ever changed."""
    fires = schedule(recurrence.text(), "UTC")
    moment = fires.after(begin)
    while moment is not None:
        yield moment
        moment = fires.after(moment)


def _cannot_be_said(recurrence: Recurrence, by: timedelta) -> InvalidSchedule:
    rules = " ".join(f"RRULE:{rule.text()}" for rule in recurrence.rules)
    length = f"{abs(by) / timedelta(minutes=1):g} minutes {'before' if by < timedelta(0) else 'after'}"
    return InvalidSchedule(
        f"what is {length} each fire of {rules} cannot be written as a rule.",
        field="cron_expr",
        fix="Put it on the same day as the event, or exactly at its start.",
    )

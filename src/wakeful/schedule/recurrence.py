"""Recurrence rules (RFC 5545) as values: what they are made of, and the one line of text that stands for them.

`DTSTART:20270105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU EXDATE:20270119T090000`: the properties of iCalendar in
this order, one space between them. A reading without Z is the wall clock of the schedule's zone.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import NamedTuple

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
DAY_CODES = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")  # the number of a weekday is its place here
MONDAY = 1
MOST_COUNTED = 5_000
LONGEST_INTERVAL = 99_999

Said = datetime | date  # UTC, a wall clock reading (no zone), or a whole day


class CountedDay(NamedTuple):
    """A weekday; `n` counts it within the month or year, from the end if negative; 0 means each one."""

    weekday: int
    n: int = 0


class RecurrenceRule(NamedTuple):
    """One RRULE. What it leaves out comes from where it counts from: its time of day, weekday, day or month."""

    freq: str
    interval: int = 1
    fire_count: int | None = None
    until: Said | None = None
    by_month: tuple[int, ...] = ()
    by_week_no: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[CountedDay, ...] = ()
    by_hour: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_second: tuple[int, ...] = ()
    by_set_pos: tuple[int, ...] = ()
    week_start: int = MONDAY

    def text(self) -> str:
        """As it is written behind "RRULE:", every part in one order and with sorted values."""
        parts = [f"FREQ={self.freq}"]
        parts += [f"INTERVAL={self.interval}"] if self.interval != 1 else []
        parts += [f"COUNT={self.fire_count}"] if self.fire_count is not None else []
        parts += [f"UNTIL={written(self.until)}"] if self.until is not None else []
        for name, field in LISTS.items():
            if values := getattr(self, field):
                parts.append(f"{name}={','.join(map(str, sorted(set(values))))}")
            if name == "BYMONTHDAY" and self.by_day:
                parts.append(f"BYDAY={','.join(_day(day) for day in sorted(set(self.by_day), key=_from_monday))}")
        parts += [f"WKST={DAY_CODES[self.week_start]}"] if self.week_start != MONDAY else []
        return ";".join(parts)

    @property
    def says_time(self) -> bool:
        """Whether it names a time of day, or a part of one."""
        return bool(self.by_hour or self.by_minute or self.by_second)


class Recurrence(NamedTuple):
    """A whole schedule: the rules, from where they count, and single dates more or less."""

    rules: tuple[RecurrenceRule, ...] = ()
    start: Said | None = None  # None: counts from the alarm's own start
    dates: tuple[Said, ...] = ()
    exceptions: tuple[Said, ...] = ()

    def text(self) -> str:
        """The one line that stands for it, accepted wherever a cron expression is."""
        parts = [] if self.start is None else [f"DTSTART:{written(self.start)}"]
        parts += [f"RRULE:{rule.text()}" for rule in self.rules]
        for name, dates in (("RDATE", self.dates), ("EXDATE", self.exceptions)):
            if dates:
                parts.append(f"{name}:{','.join(sorted({written(moment) for moment in dates}))}")
        return " ".join(parts)


LISTS = {
    "BYMONTH": "by_month",
    "BYWEEKNO": "by_week_no",
    "BYYEARDAY": "by_year_day",
    "BYMONTHDAY": "by_month_day",
    "BYHOUR": "by_hour",
    "BYMINUTE": "by_minute",
    "BYSECOND": "by_second",
    "BYSETPOS": "by_set_pos",
}


def written(moment: Said) -> str:
    """20270105, 20270105T090000, or 20270105T080000Z."""
    if not isinstance(moment, datetime):
        return moment.strftime("%Y%m%d").zfill(8)
    if moment.tzinfo is not None:
        return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ").zfill(16)
    return moment.strftime("%Y%m%dT%H%M%S").zfill(15)


def _day(day: CountedDay) -> str:
    return f"{day.n or ''}{DAY_CODES[day.weekday]}"


def _from_monday(day: CountedDay) -> tuple[int, int]:
    return day.n, (day.weekday - MONDAY) % 7

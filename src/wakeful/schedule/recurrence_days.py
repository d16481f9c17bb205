"""On which days a recurrence rule fires: the days of a month as bits, worked out without walking from its start."""

from __future__ import annotations

from datetime import date

from wakeful.schedule.recurrence import CountedDay, RecurrenceRule

LAST_YEAR = 9999
_EVERY_SEVENTH = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
_EVERY_WEEK_OF_YEAR = sum(1 << 7 * week for week in range(54))
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ALL_MONTHS = (2 << 12) - 2
_WEEK = 127


class RuleDays:
    """The days of one rule that counts from `start`. It never changes; it only remembers its last year and month."""

    __slots__ = (
        *("_month", "_month_days", "_months", "_n", "_nth_in_month", "_nth_in_year", "_rule", "_start", "_stride"),
        *("_week", "_weekdays", "_year"),
    )

    def __init__(self, rule: RecurrenceRule, start: date) -> None:
        rule = with_days_of(rule, start)
        self._rule = rule
        self._start = start
        self._n = rule.interval
        self._months = sum(1 << month for month in rule.by_month) or _ALL_MONTHS
        self._month_days = rule.by_month_day
        self._weekdays = sum({1 << day.weekday for day in rule.by_day if not day.n})
        counted = tuple(day for day in rule.by_day if day.n)
        in_year = rule.freq == "YEARLY" and not rule.by_month
        self._nth_in_month = () if in_year else counted
        self._nth_in_year = counted if in_year else ()
        self._week = week_of(start.toordinal(), rule.week_start)
        self._stride = sum(1 << day for day in range(0, 31, self._n))
        self._year = (0, 0)
        self._month = (0, 0, 0)

    def of(self, year: int, month: int) -> int:
        """The days of a month, as bits 1 to 31."""
        known_year, known_month, known = self._month
        if (known_year, known_month) != (year, month):
            known = self._of(year, month) if self._months >> month & 1 else 0
            self._month = year, month, known
        return known

    def _of(self, year: int, month: int) -> int:
        length = 29 if month == 2 and is_leap(year) else _LENGTHS[month]
        first = date(year, month, 1).toordinal()
        bits = self._counted(year, month, first) & (2 << length) - 2
        if bits and self._month_days:
            bits &= sum({1 << (day if day > 0 else length + 1 + day) for day in self._month_days if -day <= length})
        if bits and (self._weekdays or self._nth_in_month) and not self._nth_in_year:
            bits &= self._on_weekdays(length, first % 7)
        if bits and (self._rule.by_year_day or self._rule.by_week_no or self._nth_in_year):
            bits &= self._in_year(year) >> first - date(year, 1, 1).toordinal()
        return bits

    def _counted(self, year: int, month: int, first: int) -> int:
        """Those in a year, month, week or day that counts, when only every n-th does."""
        freq, n = self._rule.freq, self._n
        if n == 1 or freq in ("HOURLY", "MINUTELY"):
            return -1
        if freq == "YEARLY":
            return 0 if (year - self._start.year) % n else -1
        if freq == "MONTHLY":
            return 0 if (month_number(year, month) - month_number(self._start.year, self._start.month)) % n else -1
        if freq == "DAILY":
            return self._stride << (self._start.toordinal() - first) % n + 1
        bits, begins = 0, self._rule.week_start
        week = week_of(first, begins)
        for number in range(week + (self._week - week) % n, week_of(first + 30, begins) + 1, n):
            at = number * 7 + begins - first + 1
            bits |= _WEEK << at if at >= 0 else _WEEK >> -at
        return bits

    def _on_weekdays(self, length: int, first: int) -> int:
        week = self._weekdays
        bits = ((week >> first | week << 7 - first) & _WEEK) * _EVERY_SEVENTH << 1
        for day in self._nth_in_month:
            bits |= nth_weekday(day, length, first)
        return bits

    def _in_year(self, year: int) -> int:
        """The days of a year, as bits 1 to 366, by the parts that count within the year."""
        known, bits = self._year
        if known != year:
            bits = self._work_out_year(year)
            self._year = year, bits
        return bits

    def _work_out_year(self, year: int) -> int:
        rule, length = self._rule, 366 if is_leap(year) else 365
        first = date(year, 1, 1).toordinal()
        bits = (2 << length) - 2
        if rule.by_year_day:
            bits &= sum({1 << (day if day > 0 else length + 1 + day) for day in rule.by_year_day if -day <= length})
        if rule.by_week_no:
            bits &= self._in_weeks(year, first)
        if self._nth_in_year:
            week = self._weekdays
            on = ((week >> first % 7 | week << 7 - first % 7) & _WEEK) * _EVERY_WEEK_OF_YEAR << 1
            for day in self._nth_in_year:
                on |= nth_weekday(day, length, first % 7)
            bits &= on
        return bits

    def _in_weeks(self, year: int, first: int) -> int:
        """Week 1 is the first with four days in its year: the days at either end may be of a neighbour's week."""
        bits = 0
        for owner in (year - 1, year, year + 1):
            begin, end = first_week(owner, self._rule.week_start), first_week(owner + 1, self._rule.week_start)
            weeks = (end - begin) // 7
            for number in self._rule.by_week_no:
                week = number - 1 if number > 0 else weeks + number
                if 0 <= week < weeks:
                    at = begin + 7 * week - first + 1
                    bits |= _WEEK << at if at >= 0 else _WEEK >> -at
        return bits

    def next_month(self, year: int, month: int) -> tuple[int, int]:
        """The next month that may have some; beyond the last year when there is none."""
        number = month_number(year, month) + 1
        freq, n = self._rule.freq, self._n
        if n > 1:
            if freq == "MONTHLY":
                number += (month_number(self._start.year, self._start.month) - number) % n
            elif freq == "YEARLY":
                wait = (self._start.year - number // 12) % n
                number = (number // 12 + wait) * 12 if wait else number
            elif freq in ("DAILY", "WEEKLY") and number // 12 <= LAST_YEAR:
                number = max(number, self._month_of_next_counted(number))
        while not self._months >> number % 12 + 1 & 1 and number // 12 <= LAST_YEAR:
            number += 1
        return number // 12, number % 12 + 1

    def rare(self) -> int:
        """The day that makes shorter months be skipped, or 0."""
        lowest = min(self._month_days, default=0)
        skipped = (month for month in range(1, 13) if self._months >> month & 1 and _LENGTHS[month] < lowest)
        return lowest if any(skipped) else 0

    def _month_of_next_counted(self, number: int) -> int:
        """In which month the next day or week that counts begins or goes on: long intervals skip many."""
        ordinal = date(number // 12, number % 12 + 1, 1).toordinal()
        if self._rule.freq == "DAILY":
            ordinal += (self._start.toordinal() - ordinal) % self._n
        else:
            week = week_of(ordinal, self._rule.week_start)
            ordinal = max(ordinal, (week + (self._week - week) % self._n) * 7 + self._rule.week_start)
        if ordinal > date.max.toordinal():
            return (LAST_YEAR + 1) * 12
        found = date.fromordinal(ordinal)
        return month_number(found.year, found.month)


def with_days_of(rule: RecurrenceRule, start: date) -> RecurrenceRule:
    """The rule with the day it leaves out: that of its start."""
    if rule.by_week_no and not rule.by_day and not rule.by_year_day and not rule.by_month_day:
        return rule._replace(by_day=(CountedDay(start.toordinal() % 7),))
    if rule.by_week_no or rule.by_year_day or rule.by_month_day or rule.by_day:
        return rule
    if rule.freq == "YEARLY":
        return rule._replace(by_month=rule.by_month or (start.month,), by_month_day=(start.day,))
    if rule.freq == "MONTHLY":
        return rule._replace(by_month_day=(start.day,))
    if rule.freq == "WEEKLY":
        return rule._replace(by_day=(CountedDay(start.toordinal() % 7),))
    return rule


def month_number(year: int, month: int) -> int:
    return year * 12 + month - 1


def week_of(ordinal: int, week_start: int) -> int:
    """The number of a day's week, counted through all years."""
    return (ordinal - week_start) // 7


def first_week(year: int, week_start: int) -> int:
    """The day on which week 1 of a year begins: the week of its fourth day."""
    fourth = year * 365 - 361 + (year - 1) // 4 - (year - 1) // 100 + (year - 1) // 400
    return week_of(fourth, week_start) * 7 + week_start


def nth_weekday(day: CountedDay, length: int, first: int) -> int:
    """The bit of a counted weekday in a month or year of this length that begins on this weekday; 0 if it has none."""
    found = 1 + (day.weekday - first) % 7
    if day.n > 0:
        found += 7 * (day.n - 1)
    else:
        found += (length - found) // 7 * 7 + 7 * (day.n + 1)
    return 1 << found if 1 <= found <= length else 0


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)

"""Cron expressions: the grammar, and the next moment one fires.

Values are bit masks, so a search costs a few shifts per month looked at. Two kinds of schedule differ only where
clocks change: *fixed* ones name their hours and minutes, the others follow whatever the wall clock really shows.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wakeful.errors import InvalidSchedule
from wakeful.schedule.wall_schedule import WallSchedule, lowest, reading

DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_MONTH_DAYS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EVERY_SEVENTH = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
_NTH = re.compile(r"([0-7]|[a-z]{3})(?:(?:-([0-7]|[a-z]{3}))?#([1-5])|(l))")
_SPECIAL_DAY = re.compile(r"lw?|[0-9]{1,2}w")


class Field(NamedTuple):
    """One column of an expression: what it is called and what may stand in it."""

    name: str
    low: int
    high: int
    names: dict[str, int]
    accepted: str


SECONDS = Field("second", 0, 59, {}, "0-59")
MINUTES = Field("minute", 0, 59, {}, "0-59")
HOURS = Field("hour", 0, 23, {}, "0-23")
DAYS = Field("day of month", 1, 31, {}, "1-31, L (last day), LW (last weekday), 15W (weekday nearest the 15th)")
MONTH = Field("month", 1, 12, {name: i for i, name in enumerate(MONTHS, 1)}, "1-12, JAN-DEC")
WEEKDAY = Field(
    "day of week", 0, 6, {name: i for i, name in enumerate(WEEKDAYS)}, "0-7, SUN-SAT, MON#2 (second), 5L (last Friday)"
)


class Values(NamedTuple):
    """What one field allows."""

    bits: int
    free: bool  # names every value, so it does not take part in the either-day rule
    wild: bool  # written with *, ? or N/step: follows the wall clock instead of naming times


class Days(NamedTuple):
    """Which days of a month match: by number, by weekday, or either when both are restricted."""

    days: Values
    months: int
    weekdays: Values
    last_day: bool = False
    last_weekday: bool = False
    nearest: tuple[int, ...] = ()
    nth: tuple[tuple[int, int], ...] = ()  # (weekday, n); n = 0 means the last one

    def of(self, year: int, month: int) -> int:
        """The matching days of a month, as bits 1 to 31."""
        length = 28 if month == 2 and not _leap(year) else _MONTH_DAYS[month]
        first = date(year, month, 1).toordinal() % 7  # Sunday is 0
        inside = (2 << length) - 2
        by_number = self.days.bits
        if self.last_day or self.last_weekday or self.nearest:
            by_number |= self._special(length, first)
        week = self.weekdays.bits
        by_weekday = ((week >> first | week << 7 - first) & 127) * _EVERY_SEVENTH << 1
        for weekday, n in self.nth:
            by_weekday |= _nth_weekday(weekday, n, length, first)
        both = self.days.free or self.weekdays.free
        return (by_number & by_weekday if both else by_number | by_weekday) & inside

    def _special(self, length: int, first: int) -> int:
        bits = 1 << length if self.last_day else 0
        if self.last_weekday:
            bits |= 1 << _nearest_weekday(length, length, (first + length - 1) % 7)
        for day in self.nearest:
            if day <= length:
                bits |= 1 << _nearest_weekday(day, length, (first + day - 1) % 7)
        return bits

    def possible(self) -> bool:
        """Whether any date at all matches; the 30th of February does not."""
        if not self.weekdays.free or self.last_day or self.last_weekday:
            return True
        lowest = self._lowest_day()
        return any(self.months >> month & 1 and lowest <= _MONTH_DAYS[month] for month in range(1, 13))

    def rare(self) -> int:
        """The day that makes shorter months be skipped, or 0."""
        if not self.weekdays.free or self.last_day or self.last_weekday:
            return 0
        return self._lowest_day() if self._lowest_day() > 28 else 0

    def _lowest_day(self) -> int:
        return min(day for day in (lowest(self.days.bits, 1), *self.nearest) if day > 0)


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _nth_weekday(weekday: int, n: int, length: int, first: int) -> int:
    day = 1 + (weekday - first) % 7
    if n == 0:
        return 1 << day + (length - day) // 7 * 7
    return 1 << day + 7 * (n - 1)


def _nearest_weekday(day: int, length: int, weekday: int) -> int:
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


class Times(NamedTuple):
    """Which times of day match."""

    seconds: int
    minutes: int
    hours: int

    def first(self) -> tuple[int, int, int]:
        return lowest(self.hours, 0), lowest(self.minutes, 0), lowest(self.seconds, 0)

    def at_or_after(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The earliest matching time of day that is not before this one."""
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (found := lowest(self.seconds, second)) >= 0:
                return hour, minute, found
            if (found := lowest(self.minutes, minute + 1)) >= 0:
                return hour, found, lowest(self.seconds, 0)
        if (found := lowest(self.hours, hour + 1)) >= 0:
            return found, lowest(self.minutes, 0), lowest(self.seconds, 0)
        return None


class Cron(WallSchedule):
    """A cron expression in a time zone."""

    __slots__ = ("days", "times")

    def __init__(self, expr: str, tz: ZoneInfo) -> None:
        self.times, self.days, fixed = read(expr)
        super().__init__(tz, fixed=fixed)

    def at_or_after(self, wall: datetime, limit: int) -> datetime | None:
        """The first matching wall clock reading from this one on, up to the end of the year `limit`."""
        year, month, day = wall.year, wall.month, wall.day
        if self.days.months >> month & 1:
            matching = self.days.of(year, month)
            if matching >> day & 1 and (time := self.times.at_or_after(wall.hour, wall.minute, wall.second)):
                return reading(year, month, day, time)
            if (found := lowest(matching, day + 1)) > 0:
                return reading(year, month, found, self.times.first())
        return self._in_later_month(year, month, min(limit, 9999))

    def _in_later_month(self, year: int, month: int, limit: int) -> datetime | None:
        while year <= limit:
            month = lowest(self.days.months, month + 1)
            if month < 0:
                year, month = year + 1, 0
            elif (day := lowest(self.days.of(year, month), 1)) > 0:
                return reading(year, month, day, self.times.first())
        return None


def read(expr: str) -> tuple[Times, Days, bool]:
    """Times, days and whether it is fixed, from five fields, or six with seconds first, or a descriptor."""
    fields = DESCRIPTORS.get(expr, expr).split()
    if expr.startswith("@") and expr not in DESCRIPTORS:
        raise _refusal(f"{expr[:40]!r} is not a descriptor.", f"Accepted: {', '.join(DESCRIPTORS)}, @every 90m.")
    if len(fields) == 5:
        fields.insert(0, "0")
    if len(fields) != 6:
        count = len(fields) or "none"
        raise _refusal(
            f"a cron expression has 5 fields, or 6 with seconds first; found {count}.",
            "They are: minute, hour, day of the month, month, day of the week.",
        )
    second, minute, hour = (
        _values(text, field) for text, field in zip(fields, (SECONDS, MINUTES, HOURS), strict=False)
    )
    days = _days(*fields[3:])
    if not days.possible():
        raise _refusal(f"no month of {fields[4]!r} has a day {fields[3]!r}: it would never fire.", "Name a real date.")
    return Times(second.bits, minute.bits, hour.bits), days, not (minute.wild or hour.wild)


def _days(days: str, months: str, weekdays: str) -> Days:
    numbers, special = _split(days.lower(), _SPECIAL_DAY)
    plain, counted = _split(weekdays.lower(), _NTH)
    if plain and counted:
        raise _refusal(
            f"day of week: {weekdays!r} mixes plain days with # or L.", "Write two schedules, or all of them with #."
        )
    return Days(
        days=_values(numbers, DAYS) if numbers or not special else Values(0, False, False),
        months=_values(months, MONTH).bits,
        weekdays=_values(plain, WEEKDAY) if not counted else Values(0, False, False),
        last_day="l" in special,
        last_weekday="lw" in special,
        nearest=tuple(_number(item[:-1], DAYS) for item in special if item[0] != "l"),
        nth=tuple(day for item in counted for day in counted_days(item)),
    )


def _split(text: str, special: re.Pattern[str]) -> tuple[str, list[str]]:
    items = text.split(",")
    plain = [item for item in items if not special.fullmatch(item)]
    return ",".join(plain), [item for item in items if special.fullmatch(item)]


def counted_days(item: str) -> list[tuple[int, int]]:
    """The weekdays of "mon#2", "mon-fri#1" or "5l", each with which one of the month it is; 0 is the last."""
    found = _NTH.fullmatch(item)
    assert found is not None
    bits = _range(f"{found[1]}-{found[2] or found[1]}", WEEKDAY).bits
    return [(day, int(found[3] or 0)) for day in range(7) if bits >> day & 1]


def _values(text: str, field: Field) -> Values:
    bits, free, wild = 0, False, False
    for item in text.lower().split(","):
        if item:
            more, names_all, follows = _range(item, field)
            bits, free, wild = bits | more, free or names_all, wild or follows
    if not bits:
        raise _bad(text, field)
    return Values(bits, free, wild)


def _range(item: str, field: Field) -> Values:
    """One element of a list: a value, a range, either with a step."""
    body, slash, step_text = item.partition("/")
    step = _step(step_text, item, field) if slash else 1
    if body in ("*", "?"):
        return Values(_bits(field.low, field.high, step), step == 1, True)
    low_text, dash, high_text = body.partition("-")
    low = _number(low_text, field)
    high = _number(high_text, field) if dash else field.high if slash else low
    if field is WEEKDAY:
        low, high = _sundays(low, high)
    if low > high and field in (MONTH, WEEKDAY):  # over the end of the year or the week
        return Values(_wrapped(low, high, step, field), False, False)
    if low > high:
        raise _refusal(
            f"{field.name}: the range {item!r} runs backwards.", f"Accepted: {field.accepted}; split it with a comma."
        )
    bits = _bits(low, high, step)
    if bits >> 7 and field is WEEKDAY:
        bits = bits & 127 | 1
    return Values(bits, False, bool(slash) and not dash)


def _wrapped(low: int, high: int, step: int, field: Field) -> int:
    size = field.high - field.low + 1
    bits = 0
    for value in range(low, high + size + 1, step):
        bits |= 1 << (value - field.low) % size + field.low
    return bits


def _sundays(low: int, high: int) -> tuple[int, int]:
    """Sunday is 0 at the start of a range and 7 at the end of one."""
    low, high = low % 7, high % 7 if low == 7 else high
    return low, 7 if high == 0 and low > 0 else high


def _bits(low: int, high: int, step: int) -> int:
    if step == 1:
        return (2 << high) - (1 << low)
    bits = 0
    for value in range(low, high + 1, step):
        bits |= 1 << value
    return bits


def _number(text: str, field: Field) -> int:
    if (named := field.names.get(text)) is not None:
        return named
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise _bad(text, field)
    number = int(text)
    if not field.low <= number <= field.high + (field is WEEKDAY):
        raise _refusal(
            f"{field.name}: {number} is out of range.", f"Accepted: {field.accepted}, and *, lists, ranges, /steps."
        )
    return number


def _step(text: str, item: str, field: Field) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) > 0):
        raise _refusal(
            f"{field.name}: the step of {item!r} is not a number above zero.", "For example */15 or 0-30/10."
        )
    return int(text)


def _bad(text: str, field: Field) -> InvalidSchedule:
    return _refusal(
        f"{field.name}: {text[:40]!r} is not understood.", f"Accepted: {field.accepted}, and *, lists, ranges, /steps."
    )


def _refusal(message: str, fix: str) -> InvalidSchedule:
    return InvalidSchedule(message, field="cron_expr", fix=fix)

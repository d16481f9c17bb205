"""Days in words: daywords, weekdays, dates in every common writing, "2nd friday of march"."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from wakeful.schedule.names import MONTH_NAMES
from wakeful.schedule.words import MONTH, MONTHS, WEEKDAY, WEEKDAYS, PhraseRefused

_END = r"(?![a-z0-9]|:(?![0-9]{2}:[0-9]{2}))"
_NTH = r"([0-9]{1,2})(?:st|nd|rd|th)"
_DAY = r"([0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR = r"([0-9]{4})"
_ON = r"(?:(?:on|for|about|around) )?"
_DAY_MONTH = re.compile(
    rf"{_ON}(?:the )?{_DAY}(?: day of| of)?[ \-/]?({MONTH})\b\.?(?:[ ,\-/]{{1,2}}{_YEAR}|[\-/]([0-9]{{2}}))?{_END}"
)
_MONTH_DAY = re.compile(rf"{_ON}({MONTH})\b\.?(?:, ?|[ \-/])?(?:the )?{_DAY}(?:(?:, ?|[ \-/]){_YEAR})?{_END}")
_MONTH_GLUED = re.compile(rf"{_ON}({MONTH}){_DAY}{_END}")
_YEAR_MONTH_DAY = re.compile(rf"{_ON}{_YEAR}[ \-/]({MONTH})[ \-/]{_DAY}{_END}")
_MONTH_YEAR_DAY = re.compile(rf"{_ON}({MONTH})([\-/]){_YEAR}\2{_DAY}{_END}")
_YEAR_DAY_MONTH = re.compile(rf"{_ON}{_YEAR}([\-/]){_DAY}\2({MONTH}){_END}")
_NUMERIC_ISO = re.compile(rf"{_ON}{_YEAR}([\-/:])([0-9]{{1,2}})\2([0-9]{{1,2}}){_END}")
_NUMERIC = re.compile(rf"{_ON}([0-9]{{1,2}})([\-/.])([0-9]{{1,2}})\2([0-9]{{4}}|[0-9]{{2}}){_END}")
_MONTH_SLASH_DAY = re.compile(rf"{_ON}([0-9]{{1,2}})/([0-9]{{1,2}}){_END}")
_DAY_OF_MONTH = re.compile(
    rf"{_ON}(?:the )?(?:{_NTH}|([0-9]{{1,2}})(?= of ))(?:(?: of)? (this|the current|the next|next) month)?{_END}"
)
_WEEKDAY_OF_MONTH = re.compile(
    rf"{_ON}(?:the )?(?:([1-9])(?:st|nd|rd|th))?( ?last)? ({WEEKDAY}|day)\b "
    rf"(?:(?:(?:of|in) (?:this )?|this )({MONTH})\b\.?(?:,? {_YEAR})?|(?:of|in) (this|next) month){_END}"
)
_DAY_OF_YEAR = re.compile(rf"{_ON}(?:the )?([0-9]{{1,3}})(?:st|nd|rd|th) day of {_YEAR}{_END}")
_NEXT = re.compile(r"next (?=[0-9]|[a-z]+[ /.][0-9])")
_DAYWORD = re.compile(
    rf"{_ON}((?:the )?day after tomorrow|today|tomorrow(?:'?s)?|tmrw|tmr|tonight"
    rf"|this (?:morning|afternoon|evening)){_END}"
)
_WEEKDAY = re.compile(
    rf"{_ON}(?:(this|next|(?:this |the )?(?:up)?coming) )?({WEEKDAY})\b\.?(?:,?(?: of)? (this|next) week)?{_END}"
)
_WEEKDAY_AFTER_NEXT = re.compile(rf"{_ON}(?:the )?({WEEKDAY}) after next{_END}")
_WEEK_WEEKDAY = re.compile(rf"(this|next) week (?:on )?({WEEKDAY}){_END}")
_WEEKDAYS_FROM_NOW = re.compile(rf"([0-9]{{1,2}}) ({WEEKDAY})s? from now{_END}")


class Day(NamedTuple):
    """The dates a phrase can mean, soonest first; a second one counts only when the first's time has passed."""

    dates: tuple[date, ...]
    part: str | None = None  # the part of the day that was said with it
    plain: bool = False  # a weekday without "this", "next" or a week
    yearless: bool = False  # a year may still follow, as in "oct 26 11:00 2027"
    monthless: bool = False  # only the day of a month was said, as in "the 21st"
    other: date | None = None  # the one that many people mean by the same words
    day_first: date | None = None  # of 03/04: what it is where the day comes first; `dates` has the month first


def read_date(text: str, position: int, today: date) -> tuple[Day, int] | None:
    """The date that stands at this position, and where it ends."""
    if (found := _NEXT.match(text, position)) is None:
        return _first(_DATES, text, position, today)
    # As with weekdays: the coming one, never today.
    read = _first(_DATES, text, found.end(), today + timedelta(days=1))
    return read if read and read[0].yearless else None


def read_dayword(text: str, position: int, today: date) -> tuple[Day, int] | None:
    return _first(_DAYWORDS, text, position, today)


def read_weekday(text: str, position: int, today: date) -> tuple[tuple[Day, int], int] | None:
    """A weekday: the day it means, its number, and where it ends."""
    for pattern, group in ((_WEEKDAY_AFTER_NEXT, 1), (_WEEKDAY, 2), (_WEEK_WEEKDAY, 2), (_WEEKDAYS_FROM_NOW, 2)):
        if found := pattern.match(text, position):
            number = WEEKDAYS[found[group]]
            return (_weekday_day(pattern, found, number, today), number), found.end()
    return None


_Reader = Callable[[re.Match[str], date], Day | None]


def _first(
    readers: tuple[tuple[re.Pattern[str], _Reader], ...], text: str, position: int, today: date
) -> tuple[Day, int] | None:
    for pattern, reader in readers:
        if (found := pattern.match(text, position)) and (day := reader(found, today)) is not None:
            return day, found.end()
    return None


def _day(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        name = MONTH_NAMES[month - 1] if 1 <= month <= 12 else f"month {month}"
        raise PhraseRefused(f"there is no {day} {name} {year}") from None


def _dated(year: str | None, month: int, day: int, today: date) -> Day:
    if year is not None:
        return Day((_day(int(year) + (2000 if len(year) == 2 else 0), month, day),))
    return Day((coming(month, day, today),), yearless=True)


def coming(month: int, day: int, today: date) -> date:
    """The next such day of the year, today included; 29 February waits for a leap year."""
    for year in range(today.year, today.year + 9):
        try:
            found = date(year, month, day)
        except ValueError:
            continue
        if found >= today:
            return found
    return _day(today.year, month, day)


def _month_day(found: re.Match[str], today: date) -> Day:
    return _dated(found[3], MONTHS[found[1]], int(found[2]), today)


def _month_glued(found: re.Match[str], today: date) -> Day:
    return _dated(None, MONTHS[found[1]], int(found[2]), today)


def _day_month(found: re.Match[str], today: date) -> Day:
    return _dated(found[3] or found[4], MONTHS[found[2]], int(found[1]), today)


def _year_month_day(found: re.Match[str], today: date) -> Day:
    return _dated(found[1], MONTHS[found[2]], int(found[3]), today)


def _month_year_day(found: re.Match[str], today: date) -> Day:
    return _dated(found[3], MONTHS[found[1]], int(found[4]), today)


def _year_day_month(found: re.Match[str], today: date) -> Day:
    return _dated(found[1], MONTHS[found[4]], int(found[3]), today)


def _numeric_iso(found: re.Match[str], today: date) -> Day:
    return _dated(found[1], int(found[3]), int(found[4]), today)


def _numeric(found: re.Match[str], today: date) -> Day:
    first, sign, second, year = int(found[1]), found[2], int(found[3]), found[4]
    if sign == "-" and len(year) == 2:
        raise PhraseRefused("a date with dashes needs its four-digit year")
    return _either_order(year, first, second, today)


def _month_slash_day(found: re.Match[str], today: date) -> Day:
    return _either_order(None, int(found[1]), int(found[2]), today)


def _either_order(year: str | None, first: int, second: int, today: date) -> Day:
    """A month and a day, or the other way round. Where both are dates, whoever asked has to know which is meant."""
    if first > 12 >= second:
        return _dated(year, second, first, today)
    day = _dated(year, first, second, today)
    if second > 12 or first == second:
        return day
    return day._replace(day_first=_dated(year, second, first, today).dates[0])


def _day_of_month(found: re.Match[str], today: date) -> Day | None:
    number, which = int(found[1] or found[2]), found[3]
    if which is None and found[1] is None:
        return None
    month = today.replace(day=1)
    if which is not None:
        month = next_month(month) if which.endswith("next") else month
        return Day((_day(month.year, month.month, number),))
    return day_of_month(number, today)


def day_of_month(number: int, today: date) -> Day:
    """The next such day of a month, today included."""
    if not 1 <= number <= 31:
        raise PhraseRefused(f"no month has a day {number}")
    month = today.replace(day=1)
    for _ in range(3):
        if number <= month_length(month) and month.replace(day=number) >= today:
            break
        month = next_month(month)
    return Day((month.replace(day=number),), monthless=True)


def next_month(month: date, by: int = 1) -> date:
    """The first of the month that many months later."""
    months = month.year * 12 + month.month - 1 + by
    return date(months // 12, months % 12 + 1, 1)


def month_length(month: date) -> int:
    return (next_month(month) - timedelta(days=1)).day if month < date(9999, 12, 1) else 31


def _weekday_of_month(found: re.Match[str], today: date) -> Day | None:
    nth, last, what, month, year, which = found.groups()
    if nth is None and last is None:
        return None
    count = -int(nth or 1) if last else int(nth)
    weekday = None if what == "day" else WEEKDAYS[what]
    if which is not None:
        return Day((_nth(next_month(today, 1 if which == "next" else 0), weekday, count),))
    first = date(int(year) if year else today.year, MONTHS[month], 1)
    there = _nth(first, weekday, count)
    if year is None and there < today:
        there = _nth(first.replace(year=today.year + 1), weekday, count)
    return Day((there,))


def _nth(first: date, weekday: int | None, count: int) -> date:
    """The nth such weekday of the month, or day when none is named; negative counts from the end."""
    length = month_length(first)
    day, step = (1, 1) if weekday is None else (1 + (weekday - first.toordinal()) % 7, 7)
    days = range(day, length + 1, step)
    if abs(count) > len(days):
        raise PhraseRefused(f"{MONTH_NAMES[first.month - 1]} {first.year} has no {abs(count)} of those")
    return first.replace(day=days[count - 1 if count > 0 else count])


def _day_of_year(found: re.Match[str], today: date) -> Day:
    day = date(int(found[2]), 1, 1).toordinal() - 1 + int(found[1])
    if not 1 <= int(found[1]) <= 366 or date.fromordinal(day).year != int(found[2]):
        raise PhraseRefused(f"{found[2]} has no day {found[1]}")
    return Day((date.fromordinal(day),))


def _dayword(found: re.Match[str], today: date) -> Day:
    word = found[1]
    if word.endswith("after tomorrow"):
        return Day((today + timedelta(days=2),))
    if word.startswith(("tomorrow", "tmr")):
        return Day((today + timedelta(days=1),))
    return Day((today,), "night" if word == "tonight" else word.removeprefix("this ") if word != "today" else None)


def _weekday_day(pattern: re.Pattern[str], found: re.Match[str], weekday: int, today: date) -> Day:
    ahead = (weekday - today.toordinal()) % 7
    if pattern is _WEEKDAYS_FROM_NOW:
        return Day((today + timedelta(days=(ahead or 7) + 7 * (int(found[1]) - 1)),))
    if pattern is _WEEKDAY_AFTER_NEXT:
        return Day((today + timedelta(days=(ahead or 7) + 7),))
    which, week = (found[1], found[3]) if pattern is _WEEKDAY else (None, found[1])
    if week is not None:
        monday = today - timedelta(days=(today.toordinal() - 1) % 7)
        return Day((monday + timedelta(days=(weekday - 1) % 7 + (7 if week == "next" else 0)),))
    if which is not None and which != "this":
        day = today + timedelta(days=ahead or 7)
        doubted = which == "next" and _is_this_week(day, today)
        return Day((day,), other=day + timedelta(days=7) if doubted else None)
    dates = tuple(today + timedelta(days=ahead + more) for more in ((0, 7) if ahead == 0 else (0,)))
    return Day(dates, plain=which is None, other=dates[1] if ahead == 0 else None)


def _is_this_week(day: date, today: date) -> bool:
    """Whether a day is in the week that today is in, be it that weeks begin on Monday or on Sunday."""
    return any((day.toordinal() - first) // 7 == (today.toordinal() - first) // 7 for first in (0, 1))


_DATES: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (_WEEKDAY_OF_MONTH, _weekday_of_month),
    (_DAY_OF_YEAR, _day_of_year),
    (_DAY_MONTH, _day_month),
    (_MONTH_YEAR_DAY, _month_year_day),
    (_MONTH_DAY, _month_day),
    (_MONTH_GLUED, _month_glued),
    (_YEAR_MONTH_DAY, _year_month_day),
    (_YEAR_DAY_MONTH, _year_day_month),
    (_NUMERIC_ISO, _numeric_iso),
    (_NUMERIC, _numeric),
    (_MONTH_SLASH_DAY, _month_slash_day),
    (_DAY_OF_MONTH, _day_of_month),
)
_DAYWORDS: tuple[tuple[re.Pattern[str], _Reader], ...] = ((_DAYWORD, _dayword),)

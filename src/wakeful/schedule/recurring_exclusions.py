"""Not on which days: "except mondays", "except in august", "but not on 24 and 25 december", "except tomorrow"."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from wakeful.schedule.dates import month_length, read_date, read_dayword, read_weekday
from wakeful.schedule.lazy_pattern import LazyPattern
from wakeful.schedule.recurring_days import AND, DAY_LIST, MONTH_LIST, months_in, weekdays_in
from wakeful.schedule.recurring_parts import Exclusions, RhythmParts
from wakeful.schedule.refusals import PhraseRefused
from wakeful.schedule.words import MONTH, MONTHS

_HEAD = LazyPattern(
    r"(?:except(?:ing)?(?: for)?|excluding|but(?: not)?|not|other than|apart from|skipping|without)"
    r"(?![a-z0-9]) ?(?=\S)"
)
_PREPOSITION = LazyPattern(r"(?:on |in |during |for |the (?=[0-9]|month of)|month of )*")
_MORE = LazyPattern(rf"{AND}(?!(?:ending|until|starting|for|from|at)\b)")
_DAYS = LazyPattern(DAY_LIST)
_MONTHS = LazyPattern(MONTH_LIST)
_MONTH_OF_YEAR = LazyPattern(rf"({MONTH})\b\.? ([0-9]{{4}})(?![0-9])")
_NUMBER = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_NUMBERS = rf"{_NUMBER}(?:{AND}(?:the )?{_NUMBER})*"
_YEARLY = LazyPattern(
    rf"(?:(?P<d2>{_NUMBERS}) (?:of )?(?P<m2>{MONTH})|(?P<m1>{MONTH})\b\.? (?:the )?(?P<d1>{_NUMBERS}))\b"
    rf"(?!,? [0-9]{{4}}(?![0-9:]))(?![a-z0-9:/-])"
)
_MONTH_DAYS = LazyPattern(
    rf"([0-9]{{1,2}}(?:st|nd|rd|th)(?:{AND}(?:the )?[0-9]{{1,2}}(?:st|nd|rd|th))*)"
    r"(?: of (?:the|every|each) month)?(?![a-z0-9])"
)
_ONE_WEEKDAY = LazyPattern(r"(?:this|next|the coming|coming) ")


def read_exclusion(text: str, position: int, parts: RhythmParts, here: datetime) -> int:
    """Read "except …" with all that follows it; -1 where nothing of this kind stands."""
    head = _HEAD.match(text, position)
    if head is None:
        return -1
    at = _read_item(text, head.end(), parts.exclusions, here.date())
    if at < 0:
        raise PhraseRefused(f'"{text[position:][:60]}" was not understood: name weekdays, months or dates')
    while more := _MORE.match(text, at):
        end = _read_item(text, more.end(), parts.exclusions, here.date())
        if end < 0:
            break
        at = end
    return at


def _read_item(text: str, position: int, off: Exclusions, today: date) -> int:
    found = _PREPOSITION.match(text, position)
    at = found.end() if found else position
    for read in _READERS:
        if (end := read(text, at, off, today)) >= 0:
            return end
    return -1


def _read_month_of_year(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _MONTH_OF_YEAR.match(text, at)
    if found is None:
        return -1
    first = date(int(found[2]), MONTHS[found[1]], 1)
    off.dates |= {first + timedelta(days=more) for more in range(month_length(first))}
    return found.end()


def _read_yearly(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _YEARLY.match(text, at)
    if found is None:
        return -1
    month = MONTHS[found["m1"] or found["m2"]]
    for number in re.findall(r"[0-9]+", found["d1"] or found["d2"]):
        try:
            date(2000, month, int(number))  # a leap year
        except ValueError:
            raise PhraseRefused(f"there is no {number} {found['m1'] or found['m2']}") from None
        off.yearly |= {(month, int(number))}
    return found.end()


def _read_date(text: str, at: int, off: Exclusions, today: date) -> int:
    """One date: tomorrow, this friday, 3 december 2026."""
    found = None if _MONTH_DAYS.match(text, at) else read_date(text, at, today)
    found = found or read_dayword(text, at, today)
    if found is None and _ONE_WEEKDAY.match(text, at) and (weekday := read_weekday(text, at, today)):
        found = weekday[0][0], weekday[1]
    if found is None or found[0].part is not None:
        return -1
    off.dates |= {found[0].dates[0]}
    return found[1]


def _read_weekdays(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _DAYS.match(text, at)
    if found is None:
        return -1
    off.weekdays |= weekdays_in(found[0])
    return found.end()


def _read_months(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _MONTHS.match(text, at)
    if found is None:
        return -1
    off.months |= months_in(found[0])
    return found.end()


def _read_month_days(text: str, at: int, off: Exclusions, today: date) -> int:
    found = _MONTH_DAYS.match(text, at)
    if found is None:
        return -1
    numbers = {int(number) for number in re.findall(r"[0-9]+", found[1])}
    if not all(1 <= number <= 31 for number in numbers):
        raise PhraseRefused("no month has such a day")
    off.month_days |= numbers
    return found.end()


_READERS: tuple[Callable[[str, int, Exclusions, date], int], ...] = (
    _read_month_of_year,
    _read_yearly,
    _read_date,
    _read_weekdays,
    _read_months,
    _read_month_days,
)

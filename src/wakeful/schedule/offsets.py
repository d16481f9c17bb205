"""Offsets in words: "in 30 minutes", "2 hours and 30 minutes from now", "3 weeks from tomorrow"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wakeful.schedule.dates import month_length, next_month
from wakeful.schedule.refusals import PhraseRefused
from wakeful.schedule.words import SPELLED_OUT, UNIT, UNITS
from wakeful.schedule.zones import instant

_PREFIX = re.compile(r"(?:(in|after|within|for) |\+ ?)?(?:(?:about|around|approximately) )?")
_AMOUNT = re.compile(
    rf"(?:([0-9]{{1,9}})(?:\.([0-9]{{1,3}}))?( and an? half)?|([1-9])/([1-9])(?: of an?)?"
    rf"|(half an?|half|(?:a )?quarter of an?|3[ -]quarters of an?|(?:a )?couple(?: of)?|(?:a )?pair of|an?)(?= ))"
    rf"(?: more)? ?({UNIT})(?![a-z])( and a half)?"
)
_BETWEEN = re.compile(r",? and |, ?| ?(?=[0-9])")
_SUFFIX = re.compile(
    r" (?:(from (?:right )?now|from this (?:second|minute|moment)|later|hence|out)|(from|after))(?![a-z0-9])"
)
# One hour from now is in the next hour of the clock too, whichever of the two is meant.
_NEXT_UNIT = re.compile(r"(?:in |at |within )?(?:the )?next (hour|minute|second|hrs?|mins?|secs?)[.!]?")
_FRACTIONS = {"half": (1, 2), "3": (3, 4), "quarter": (1, 4)}
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Offset(NamedTuple):
    """How far ahead: calendar months and days keep the wall clock, milliseconds are elapsed time."""

    months: int = 0
    days: int = 0
    millis: int = 0
    from_date: bool = False  # counts from the date that follows instead of from now
    in_weeks: bool = False  # it was said in nothing but weeks

    @property
    def takes_a_clock(self) -> bool:
        """Whether a time of day can follow: "in 3 days at 5pm"."""
        return not (self.millis or self.months)

    def shift(self, day: date) -> date:
        """The date that many months and days later; the 31st becomes the last day of a shorter month."""
        if self.months:
            first = next_month(day, self.months)
            day = first.replace(day=min(day.day, month_length(first)))
        return day + timedelta(days=self.days)

    def after(self, now: datetime, tz: ZoneInfo) -> datetime:
        """That far from now, in UTC."""
        if self.months or self.days:
            local = now.astimezone(tz)
            now = instant(datetime.combine(self.shift(local.date()), local.time()), tz)
        return now.astimezone(UTC) + timedelta(milliseconds=self.millis)


def read_offset(text: str, position: int) -> tuple[Offset, int] | None:
    """The offset that stands at this position, and where it ends."""
    if (unit := _NEXT_UNIT.fullmatch(text)) is not None:
        return Offset(millis=_SECONDS[UNITS[unit[1]]] * 1000), len(text)
    prefix = _PREFIX.match(text, position)
    assert prefix is not None
    amounts, at = read_amounts(text, prefix.end())
    if not amounts:
        return None
    suffix = _SUFFIX.match(text, at)
    if suffix is not None and prefix[1]:
        return None
    if suffix is None and not prefix[0] and not all(map(_is_spelled_out, amounts)):
        if (position, at) == (0, len(text)):
            raise PhraseRefused(f'"{text}" alone can mean once or again and again', f"in {text}", f"every {text}")
        return None
    offset = total(amounts)
    if suffix is None:
        return offset, at
    return offset._replace(from_date=suffix[2] is not None), suffix.end()


def _is_spelled_out(amount: re.Match[str]) -> bool:
    """Whether it is a length of time without "in" before it: "2 hours", "a wk"; not "2h"."""
    return amount[7] in SPELLED_OUT or (amount[6] is not None and len(amount[7]) > 1)


def read_amounts(text: str, at: int) -> tuple[list[re.Match[str]], int]:
    amounts: list[re.Match[str]] = []
    start = at
    while amount := _AMOUNT.match(text, start):
        amounts.append(amount)
        at = amount.end()
        between = _BETWEEN.match(text, at)
        if between is None:
            break
        start = between.end()
    return amounts, at


def total(amounts: list[re.Match[str]]) -> Offset:
    months = days = millis = 0
    seen = set[str]()
    for amount in amounts:
        unit = UNITS[amount[7]]
        if unit in seen:
            raise PhraseRefused(f"{amount[7]} is given twice")
        seen.add(unit)
        top, bottom = _quantity(amount)
        if unit in _SECONDS:
            millis += top * _SECONDS[unit] * 1000 // bottom
        elif top % bottom:
            name = amount[7] if len(amount[7]) < 4 else amount[7].removesuffix("s")
            raise PhraseRefused(f"a fraction of a {name} has no fixed length", *_whole(amount, unit, top, bottom))
        elif unit in ("mo", "y"):
            months += top // bottom * (12 if unit == "y" else 1)
        else:
            days += top // bottom * {"d": 1, "w": 7, "fortnight": 14}[unit]
    if not (months or days or millis):
        raise PhraseRefused("that is now; give a time in the future")
    return Offset(months, days, millis, in_weeks=seen <= {"w", "fortnight"})


def _whole(amount: re.Match[str], unit: str, top: int, bottom: int) -> Iterator[str]:
    """The same amount in smaller units, where that is a whole number: 12 hours for half a day."""
    smaller = {"d": (24, "hours"), "w": (7, "days"), "fortnight": (14, "days"), "y": (12, "months")}.get(unit)
    if smaller and top * smaller[0] % bottom == 0:
        words = f"{top * smaller[0] // bottom} {smaller[1]}"
        yield f"{amount.string[: amount.start()]}{words}{amount.string[amount.end() :]}"


def _quantity(amount: re.Match[str]) -> tuple[int, int]:
    """The amount as a fraction: top and bottom."""
    number, decimals, and_half, top, bottom, word, _, and_a_half = amount.groups()
    if number is not None:
        places = 10 ** len(decimals or "")
        whole = int(number) * places + int(decimals or 0)
        return (whole * 2 + places, places * 2) if and_half or and_a_half else (whole, places)
    if top is not None:
        return int(top), int(bottom)
    for name, fraction in _FRACTIONS.items():
        if name in word:
            return fraction
    count = 2 if "couple" in word or "pair" in word else 1
    return (count * 2 + 1, 2) if and_a_half else (count, 1)

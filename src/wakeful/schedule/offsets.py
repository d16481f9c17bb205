"""Lengths of time in phrases: "in 30 minutes", "an hour before noon", and ISO 8601 (PT15M, R5/2027-01-01T09Z/P1D)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wakeful.schedule.dates import month_length, next_month
from wakeful.schedule.interval import go_duration
from wakeful.schedule.recurrence import LONGEST_INTERVAL, MOST_COUNTED
from wakeful.schedule.words import SPELLED_OUT, UNIT, UNITS, PhraseRefused, RefusedRhythm
from wakeful.schedule.zones import instant, zone

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


_SIDE = re.compile(r" (before|after|from) (?=[a-z0-9])")
_THE = re.compile(r"(?:the )?(day|week|month) (before|after) (?!tomorrow)(?=[a-z0-9])")
_LENGTHS = {"day": Offset(days=1), "week": Offset(days=7), "month": Offset(1)}
_NOW = re.compile(r"(?:right )?now\b|this (?:second|minute|moment)\b")


class Relative(NamedTuple):
    """How far from the moment that the rest of a phrase names; negative before it."""

    offset: Offset
    text: str  # the words before the rest
    rest: str


def read_relative(text: str) -> Relative | None:
    """None for what counts from now, and for days after a date: those are offsets."""
    if found := _THE.match(text):
        length = _LENGTHS[found[1]]
        return Relative(length if found[2] == "after" else _negative(length), found[0], text[found.end() :])
    amounts, end = read_amounts(text, 0)
    side = _SIDE.match(text, end) if amounts else None
    if side is None or _NOW.match(text, side.end()):
        return None
    offset = total(amounts)
    if side[1] != "before" and not offset.millis:
        return None
    return Relative(_negative(offset) if side[1] == "before" else offset, text[: side.end()], text[side.end() :])


def _negative(offset: Offset) -> Offset:
    return Offset(-offset.months, -offset.days, -offset.millis)


_NUMBER = r"([0-9]{1,6}(?:[.,][0-9]{1,3})?)"
_DURATION = re.compile(
    rf"P(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.IGNORECASE,
)
_BEGINS = re.compile(r"P[0-9T]", re.IGNORECASE)
_REPEATS = re.compile(r"R([0-9]{0,6})/(?:([^/]+)/)?(P[^/]+)", re.IGNORECASE)
_MILLIS = (3_600_000, 60_000, 1_000)


class Repeated(NamedTuple):
    """A repeating interval as a recurrence rule or elapsed time, and the zone it is meant in."""

    expr: str
    timezone: str


def is_iso(text: str) -> bool:
    """Whether it begins as a length of time does, so that its refusal can speak of that."""
    return _BEGINS.match(text) is not None and " " not in text.strip()


def read_length(text: str) -> Offset:
    """The length of time that is written, months and days apart from what is elapsed time."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()) or text[-1] in "tT":
        raise PhraseRefused(f"{text[:60]} is not a length of time such as PT15M, P1DT2H or P1M")
    years, months, weeks, days = (_iso_number(number, "YMWD"[at]) for at, number in enumerate(found.groups()[:4]))
    millis = sum(_thousandths(number) * unit // 1000 for number, unit in zip(found.groups()[4:], _MILLIS, strict=True))
    offset = Offset(years * 12 + months, weeks * 7 + days, millis)
    if offset == Offset():
        raise PhraseRefused("that is now; give a time in the future")
    return offset


def _iso_number(number: str | None, unit: str) -> int:
    if number is None or number.isdigit():
        return int(number or 0)
    raise PhraseRefused(f"a fraction of {number}{unit.upper()} has no fixed length")


def _thousandths(number: str | None) -> int:
    whole, _, decimals = (number or "0").replace(",", ".").partition(".")
    return int(whole) * 1000 + int(decimals.ljust(3, "0") or 0)


def read_repeated(text: str, name: str) -> Repeated:
    """A repeating interval as the rule that fires at its start and after each period."""
    found = _REPEATS.fullmatch(text)
    if found is None:
        why = "a repeating interval is R, how often, a start and a period"
        raise RefusedRhythm(f"{why}, such as R5/2030-01-01T09:00Z/P1D")
    count, start, period = found[1], found[2], read_length(found[3])
    if count == "0":
        raise RefusedRhythm("it repeats no times; leave the number out for a series without an end")
    if count and int(count) > MOST_COUNTED:
        raise RefusedRhythm(
            f"it repeats more than {MOST_COUNTED} times; leave the number out for a series without an end"
        )
    if start is None and not count and not (period.months or period.days):
        return Repeated(f"@every {go_duration(_seconds(period))}", name)
    begin, name = _begin(start, name, elapsed=bool(period.millis))
    rule = f"RRULE:{_steps(period)}{f';COUNT={int(count)}' if count else ''}"
    return Repeated(f"DTSTART:{begin:%Y%m%dT%H%M%S} {rule}" if begin else rule, name)


def _seconds(period: Offset) -> int:
    if period.millis % 1000:
        raise RefusedRhythm("a period must be whole seconds, at least one")
    return period.millis // 1000


def _steps(period: Offset) -> str:
    """How a rule says that it repeats after so long."""
    minutes, rest = divmod(period.millis, 60_000)
    if rest:
        raise RefusedRhythm("a period with a start or a count must be whole minutes")
    if bool(period.months) + bool(period.days) + bool(minutes) != 1:
        raise RefusedRhythm("a period is years and months, or weeks and days, or hours and minutes")
    if period.months:
        freq, n = ("YEARLY", period.months // 12) if period.months % 12 == 0 else ("MONTHLY", period.months)
    elif period.days:
        freq, n = ("WEEKLY", period.days // 7) if period.days % 7 == 0 else ("DAILY", period.days)
    else:
        freq, n = ("HOURLY", minutes // 60) if minutes % 60 == 0 else ("MINUTELY", minutes)
    if n > LONGEST_INTERVAL:
        raise RefusedRhythm("the period is too long")
    return f"FREQ={freq};INTERVAL={n}" if n > 1 else f"FREQ={freq}"


def _begin(start: str | None, name: str, *, elapsed: bool) -> tuple[datetime | None, str]:
    """What clocks show at its start, and in which zone they do: the one given, unless the start says otherwise."""
    if start is None:
        return None, "UTC" if elapsed else name
    try:
        begin = datetime.fromisoformat(start.upper().replace(" ", "T"))
    except ValueError:
        raise RefusedRhythm(f"{start[:40]} is not a start such as 2030-01-01T09:00Z") from None
    if begin.microsecond or len(start) < len("20300101T0900"):
        raise RefusedRhythm("a start is a date and a time of day, in whole seconds")
    if begin.tzinfo is None:
        begin = begin.replace(tzinfo=zone(name))
    elif start[-1] in "zZ" or begin.astimezone(zone(name)).utcoffset() != begin.utcoffset():
        name = "UTC"
    if elapsed:  # hours pass alike whatever clocks do, and those of UTC do nothing
        name = "UTC"
    return begin.astimezone(zone(name)).replace(tzinfo=None), name

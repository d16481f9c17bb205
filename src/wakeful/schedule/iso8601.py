"""ISO 8601 lengths of time and repeating intervals: PT15M, P1DT2H, R5/2027-01-01T09:00Z/P1D."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from wakeful.schedule.interval import go_duration
from wakeful.schedule.offsets import Offset
from wakeful.schedule.recurrence import LONGEST_INTERVAL, MOST_COUNTED
from wakeful.schedule.refusals import PhraseRefused, RefusedRhythm
from wakeful.schedule.zones import zone

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
    years, months, weeks, days = (_whole(number, "YMWD"[at]) for at, number in enumerate(found.groups()[:4]))
    millis = sum(_thousandths(number) * unit // 1000 for number, unit in zip(found.groups()[4:], _MILLIS, strict=True))
    offset = Offset(years * 12 + months, weeks * 7 + days, millis)
    if offset == Offset():
        raise PhraseRefused("that is now; give a time in the future")
    return offset


def _whole(number: str | None, unit: str) -> int:
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
        said = datetime.fromisoformat(start.upper().replace(" ", "T"))
    except ValueError:
        raise RefusedRhythm(f"{start[:40]} is not a start such as 2030-01-01T09:00Z") from None
    if said.microsecond or len(start) < len("20300101T0900"):
        raise RefusedRhythm("a start is a date and a time of day, in whole seconds")
    if said.tzinfo is None:
        said = said.replace(tzinfo=zone(name))
    elif start[-1] in "zZ" or said.astimezone(zone(name)).utcoffset() != said.utcoffset():
        name = "UTC"
    if elapsed:  # hours pass alike whatever clocks do, and those of UTC do nothing
        name = "UTC"
    return said.astimezone(zone(name)).replace(tzinfo=None), name

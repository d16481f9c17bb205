"""Elapsed time: `@every 90m`, and durations such as "30m" or "15 minutes"."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from wakeful.errors import InvalidSchedule
from wakeful.schedule.zones import aware

_LONGEST = timedelta(days=36_600)
_GO_PART = re.compile(r"([0-9]{0,12})(?:\.([0-9]{0,9}))?(ns|us|µs|μs|ms|s|m|h)")
_PART = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))? ?([a-z]+)(?:,? and |, ?| )?")
_NUMBER = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?")
_NANOS = {
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), 1000),
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
UNIT_NAMES = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), "w"),
}
_DURATION_UNITS = UNIT_NAMES | dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms")
_DURATION_FIX = 'Write for example "30m", "1h30m", "90s", "2d", "15 minutes", or a number of seconds.'


class Every(NamedTuple):
    """Elapsed time: fires at anchor + k · period, k ≥ 1."""

    period: timedelta
    anchor: datetime | None

    def after(self, moment: datetime) -> datetime | None:
        if self.anchor is None:
            raise InvalidSchedule("@every needs the moment it counts from.", field="anchor")
        # Counted from the anchor, so a late delivery never shifts the rhythm.
        steps = (aware(moment) - self.anchor) // self.period + 1
        try:
            return self.anchor + max(1, steps) * self.period
        except OverflowError:
            return None


def every(text: str, anchor: datetime | None) -> Every:
    """The schedule of what follows "@every "; the anchor is cut to whole milliseconds."""
    if anchor is not None:
        anchor = aware(anchor, "anchor")
        anchor = anchor.replace(microsecond=anchor.microsecond // 1000 * 1000)
    return Every(period(text), anchor)


@lru_cache(maxsize=1024)
def period(text: str) -> timedelta:
    """A Go duration of at least one second, whole milliseconds."""
    nanos, rest = 0, text.removeprefix("+")
    while (part := _GO_PART.match(rest)) and (part[1] or part[2]):
        nanos += _nanos(part[1], part[2], part[3])
        rest = rest[part.end() :]
    if rest or not text.strip("+"):
        raise _bad_period(f"@every: {text[:40]!r} is not a duration.")
    return _between(nanos, timedelta(seconds=1)) or _refuse_period(text)


def _refuse_period(text: str) -> timedelta:
    raise _bad_period(f"@every: {text[:40]!r} is not between one second and a hundred years.")


def _bad_period(message: str) -> InvalidSchedule:
    fix = "Accepted: hours, minutes and seconds, as in @every 90m, @every 1h30m, @every 36h, @every 10s."
    return InvalidSchedule(message, field="cron_expr", fix=fix)


def duration(text: str | int | float) -> timedelta:
    """A length of time greater than zero, whole milliseconds: "30m", "1h30m", "15 minutes"; a number is seconds."""
    nanos = _from_words(text.strip().lower()) if isinstance(text, str) else _from_seconds(text)
    if nanos is None:
        raise InvalidSchedule(f"{str(text)[:60]!r} is not a duration.", field="duration", fix=_DURATION_FIX)
    length = _between(nanos, timedelta(milliseconds=1))
    if length is None:
        message = f"{str(text)[:60]!r} is not more than zero and at most a hundred years."
        raise InvalidSchedule(message, field="duration", fix=_DURATION_FIX)
    return length


def _between(nanos: int, least: timedelta) -> timedelta | None:
    """Whole milliseconds, if they are neither too few nor too many."""
    if nanos > 10**19:
        return None
    length = timedelta(milliseconds=nanos // 1_000_000)
    return length if least <= length <= _LONGEST else None


def _nanos(whole: str, fraction: str | None, unit: str) -> int:
    size = _NANOS[unit]
    return int(whole or 0) * size + int((fraction or "").ljust(9, "0")) * size // 10**9


def _from_seconds(seconds: float) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    if isinstance(seconds, float) and not math.isfinite(seconds):
        return None
    if not 0 < seconds < 10**10:
        return 0
    return seconds * 10**9 if isinstance(seconds, int) else round(seconds * 1000) * 1_000_000


def _from_words(words: str) -> int | None:
    if number := _NUMBER.fullmatch(words):
        return _nanos(number[1], number[2], "s")
    if not words or len(words) > 80 or words.endswith(("and", ",")):
        return None
    nanos, position, seen = 0, 0, set[str]()
    while position < len(words):
        part = _PART.match(words, position)
        unit = _DURATION_UNITS.get(part[3]) if part else None
        if part is None or unit is None or unit in seen:
            return None
        seen.add(unit)
        nanos += _nanos(part[1], part[2], unit)
        position = part.end()
    return nanos


def go_duration(seconds: int) -> str:
    """Whole seconds in the largest single unit that fits, as written after @every."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def span_words(seconds: float) -> str:
    """A length of time as people say it: "15 minutes", "1 hour", "90 seconds"."""
    if seconds % 1:
        return f"{seconds:g} seconds"
    units = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
    unit, size = next(found for found in units if seconds % found[1] == 0)
    return f"1 {unit}" if seconds == size else f"{int(seconds) // size} {unit}s"


def rhythm(seconds: int) -> str:
    """The expression of "every so many seconds": on the clock where it divides evenly, else elapsed time."""
    if seconds < 60 and 60 % seconds == 0:
        return f"{_step(seconds)} * * * * *"
    minutes, rest = divmod(seconds, 60)
    if rest == 0 and minutes < 60 and 60 % minutes == 0:
        return f"{_step(minutes)} * * * *"
    hours, rest = divmod(seconds, 3600)
    if rest == 0 and hours < 24 and 24 % hours == 0:
        return f"0 {_step(hours)} * * *"
    return f"@every {go_duration(seconds)}"


def _step(n: int) -> str:
    return "*" if n == 1 else f"*/{n}"

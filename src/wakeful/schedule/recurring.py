"""Phrases for what recurs: "every weekday at 9am", "every other friday until june, except on 24 december".

A phrase is read part by part, in any order: how often, on which days, at which times, between which hours, from when
and until when, and when not. Whatever is left over, doubled or contradictory means refusal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, time
from typing import NamedTuple

from wakeful.schedule.clocks import PARTS, WallTime, afternoon_remark, read_clock, settle
from wakeful.schedule.lazy_pattern import LazyPattern
from wakeful.schedule.recurring_bounds import read_bound, resolved, says_count
from wakeful.schedule.recurring_days import read_dates, read_months, read_ordinals, read_week_numbers, read_weekdays
from wakeful.schedule.recurring_exclusions import read_exclusion
from wakeful.schedule.recurring_forms import expression, short_expression, without_excluded
from wakeful.schedule.recurring_intervals import read_interval
from wakeful.schedule.recurring_parts import Bounds, RhythmParts, WallBounds
from wakeful.schedule.recurring_windows import read_window
from wakeful.schedule.refusals import Contradiction, PhraseRefused
from wakeful.schedule.zones import zone

_SEPARATOR = LazyPattern(r"[ ,;]+(?:and )?")
_MORE_CLOCK = LazyPattern(r",? and (?:at )?|, (?:at )?(?=[0-9])")
_UTC_SAID = LazyPattern(r"(?<![a-z0-9])(?:utc|gmt)(?![a-z0-9+\-/])")
_UTC = LazyPattern(r"(?:utc|gmt)(?![a-z0-9+\-/])")
_PART_OF_DAY = LazyPattern(
    r"(?:in the |in |at |on the |during the )?(?:early |late )?(morning|afternoon|evening|night)(s)?(?![a-z0-9])"
)
_SAYS_WHEN = LazyPattern(r"\bat\b|[0-9] ?[ap]\.?m\b|:|noon|midnight|morning|afternoon|evening|night")
_USUAL_DAY = {"week": "every monday", "month": "every 1st of the month", "year": "every january 1st"}
_Reader = Callable[[str, int, RhythmParts], int]


class Recurring(NamedTuple):
    """What a recurring phrase means."""

    expr: str
    timezone: str
    bounds: Bounds
    remarks: tuple[str, ...] = ()  # what was assumed of its times


def understand(text: str, timezone: str, now: datetime, default: time, *, in_utc: bool = False) -> Recurring:
    """The schedule and the bounds of a normalised phrase; `in_utc`: UTC was named beside it."""
    here = now.astimezone(zone(timezone)).replace(tzinfo=None)
    parts = _collect(text, here, exact=in_utc or _UTC_SAID.search(text) is not None)
    if parts.is_utc and timezone != "UTC":
        return understand(text, "UTC", now, default)
    _check_hours(parts, text)
    if parts.exact:
        parts.clocks = [clock._replace(exact=True) for clock in parts.clocks]
    _take_clock_of_bound(parts)
    if parts.year_days and parts.months:  # the last day of june: its months are read after it
        parts.days, parts.year_days = parts.year_days, ()
    expr = _expression(parts, text, default)
    remarks = (*_afternoons(parts), *parts.remarks, *parts.bounds.remarks)
    return Recurring(expr, timezone, resolved(parts.bounds, now, zone(timezone)), remarks)


def _afternoons(parts: RhythmParts) -> Iterator[str]:
    for clock, words in zip(parts.clocks, parts.clock_words, strict=False):  # that of a bound has none
        yield from afternoon_remark(clock, parts.part, words)


def _collect(text: str, here: datetime, *, exact: bool) -> RhythmParts:
    parts = RhythmParts(exact=exact)
    position = 0
    while position < len(text):
        if position and (gap := _SEPARATOR.match(text, position)):
            position = gap.end()
        if text[position:] in ("", ".", "!"):
            break
        end = _next_part(text, position, parts, here)
        if end <= position:
            raise PhraseRefused(f'"{text[position:][:60]}" was not understood in something that recurs')
        position = end
    return parts


def _next_part(text: str, position: int, parts: RhythmParts, here: datetime) -> int:
    """Read the part that stands here into the others; return where it ends, or -1."""
    if (end := _first_of(_READ_FIRST, text, position, parts)) >= 0:
        return end
    for read in (read_bound, read_exclusion):
        if (end := read(text, position, parts, here)) >= 0:
            return end
    return _first_of(_READERS, text, position, parts)


def _first_of(readers: tuple[_Reader, ...], text: str, position: int, parts: RhythmParts) -> int:
    for read in readers:
        if (end := read(text, position, parts)) >= 0:
            return end
    return -1


def _read_named_days(text: str, position: int, parts: RhythmParts) -> int:
    """From monday to friday: days of the week, before "from" is taken for a start."""
    if not text.startswith("from ", position):
        return -1
    trial = replace(parts)
    end = read_weekdays(text, position, trial)
    return read_weekdays(text, position, parts) if end >= 0 and trial.is_weekday_range else -1


def _read_part_of_day(text: str, position: int, parts: RhythmParts) -> int:
    found = _PART_OF_DAY.match(text, position)
    if found is None or parts.part is not None:
        return -1
    if found[2] and any(clock.bare for clock in parts.clocks):
        raise PhraseRefused(f'a number before "{found[0]}" can be how many or a time of day')
    parts.part = found[1]
    if parts.each or found[2]:
        parts.recurs, parts.each = True, False
    return found.end()


def _read_clocks(text: str, position: int, parts: RhythmParts) -> int:
    if parts.clocks:
        return -1
    while read := read_clock(text, position):
        parts.clocks.append(read[0])
        parts.clock_words.append(text[position : read[1]])
        position = read[1]
        more = _MORE_CLOCK.match(text, position)
        if more is None or says_count(text, more.end()) or read_clock(text, more.end()) is None:
            break
        position = more.end()
    return position if parts.clocks else -1


def _read_utc(text: str, position: int, parts: RhythmParts) -> int:
    found = _UTC.match(text, position)
    parts.is_utc = parts.is_utc or found is not None
    return found.end() if found else -1


_READ_FIRST: tuple[_Reader, ...] = (read_window, _read_named_days)
_READERS: tuple[_Reader, ...] = (
    read_interval,
    read_ordinals,
    read_dates,
    read_weekdays,
    read_months,
    read_week_numbers,
    _read_part_of_day,
    _read_clocks,
    _read_utc,
)


def _check_hours(parts: RhythmParts, text: str) -> None:
    """Times of day alone are the hours of each day, as `read_window` reads them; in other words they can be bounds."""
    hours = parts.bounds.hours
    if hours is None or hours.end is None:
        return
    if not parts.seconds:
        raise PhraseRefused("hours from and to need an interval, such as every hour or every 20 minutes")
    (start, end), words = hours.at, f"from {hours.begin:%H:%M} to {hours.end:%H:%M}"
    bounds = f"starting {hours.begin:%Y-%m-%d at %H:%M} until {hours.end:%Y-%m-%d at %H:%M}"
    raise Contradiction(
        f'"{text[start:end]}" can be hours of each day or the start and the end of it all',
        *(f"{text[:start]}{one}{text[end:]}" for one in (words, bounds) if hours.are_sure),
    )


def _take_clock_of_bound(parts: RhythmParts) -> None:
    """The time of day in "every day starting monday at 9am" is that of each day, where no other is said."""
    said = parts.bounds
    clock = said.start_clock or said.end_clock
    if clock is not None and not parts.clocks and not parts.part and not parts.seconds:
        parts.clocks.append(WallTime(clock.hour, clock.minute, clock.second, certain=True))


def _expression(parts: RhythmParts, text: str, default: time) -> str:
    if parts.each or not parts.says_rhythm:
        why = "it does not say which day" if parts.months else "it recurs, but how often was not understood"
        raise PhraseRefused(why)
    if parts.seconds:
        if parts.clocks or parts.part:
            starting = _starting(parts, text) if parts.clocks and not parts.part else []
            raise PhraseRefused("something that recurs every few hours or less has no time of day", *starting)
        if parts.says_dates and (parts.weekdays or not (parts.unit or parts.months)):
            raise PhraseRefused("days of the month do not fit the rest of it")
        return short_expression(parts)
    _check_days(parts, text)
    return _day_expression(parts, default)


def _day_expression(parts: RhythmParts, default: time) -> str:
    usual = [PARTS[parts.part] if parts.part else default]
    if any(clock.bare for clock in parts.clocks) and parts.part is None:
        raise PhraseRefused("a number alone is not a time of day", *_hours_meant(parts))
    if not parts.recurs and not (parts.is_weekday_range and parts.clocks):
        times = [settle(clock, parts.part) for clock in parts.clocks] or usual
        raise PhraseRefused("it is not clear whether this recurs", *_suggested(parts, times))
    times = [settle(clock, parts.part) for clock in parts.clocks] or usual
    _check_count(parts, times)
    return expression(parts, times)


def _check_days(parts: RhythmParts, text: str) -> None:
    """That the days fit how often it recurs."""
    if parts.window is not None:
        raise PhraseRefused("hours from and to need an interval, such as every hour or every 20 minutes")
    if not parts.says_days and parts.interval == 1 and parts.unit in _USUAL_DAY:
        said = text[slice(*parts.unit_at)]
        if parts.times_per_unit > 1:  # one day would be fewer times than were said
            raise PhraseRefused(_uncounted(parts))
        raise PhraseRefused(f'"{said}" does not say which day', _with_day(text, parts))
    is_day_or_week = parts.unit in ("day", "week")
    if parts.says_dates and (is_day_or_week or parts.weekdays):
        raise PhraseRefused("days of the month do not fit the rest of it")
    if parts.weekdays and not _takes_weekdays(parts):
        raise PhraseRefused("it does not say which of these days: the first, the last, or each week")
    if parts.says_dates and not (parts.unit or parts.months or parts.is_of_quarter) and not _is_first_or_last(parts):
        raise PhraseRefused("it does not say of which month")
    if parts.unit == "year" and (parts.days or parts.counted or parts.positions) and not parts.months:
        raise PhraseRefused("it does not say of which month")


def _takes_weekdays(parts: RhythmParts) -> bool:
    if parts.weeks:
        return parts.unit in ("", "year")
    return parts.unit in ("", "week") or (parts.unit == "day" and parts.interval == 1)


def _is_first_or_last(parts: RhythmParts) -> bool:
    """Every first friday: of the month, what else."""
    return bool(parts.counted) and all(day.n in (1, -1) for day in parts.counted)


def _with_day(text: str, parts: RhythmParts) -> str:
    """The phrase with a day where it names none, and a time of day."""
    begin, end = parts.unit_at
    said = f"{text[:begin]}{_USUAL_DAY[parts.unit]}{text[end:]}"
    return said if _SAYS_WHEN.search(said) else f"{said} at 9am"


def _check_count(parts: RhythmParts, times: list[time]) -> None:
    """Twice a day needs two times, three times a week three days."""
    if parts.times_per_unit < 1:
        return
    settled = without_excluded(parts)
    dates = len(settled.days) + len(settled.counted) + len(settled.positions)
    said = {"day": 1, "week": len(settled.weekdays)}.get(parts.unit, dates) * len(times)
    if said != parts.times_per_unit:
        raise PhraseRefused(_uncounted(parts))


def _uncounted(parts: RhythmParts) -> str:
    return f"it does not say {parts.times_per_unit} times for each {parts.unit}: name them"


def _hours_meant(parts: RhythmParts) -> Iterator[str]:
    """The same days with hours for bare numbers: in either half of the day where none of them says which."""
    if not any(clock.half or clock.certain or clock.exact for clock in parts.clocks):
        either = [[clock._replace(bare=False, half=half) for clock in parts.clocks] for half in "ap"]
    else:
        is_24h = any(clock.certain or clock.exact for clock in parts.clocks)
        either = [[clock._replace(bare=False, exact=is_24h) for clock in parts.clocks]]
    for clocks in either:
        with contextlib.suppress(PhraseRefused):
            yield from _suggested(parts, [settle(clock, None) for clock in clocks])


def _suggested(parts: RhythmParts, times: list[time]) -> list[str]:
    """The expression for these days and times, in UTC where that was said; none where bounds would be lost."""
    if parts.bounds != WallBounds():
        return []
    expr = expression(parts, times)
    return [f"CRON_TZ=UTC {expr}" if parts.is_utc else expr]


def _starting(parts: RhythmParts, text: str) -> list[str]:
    """The time of day of an interval as its start."""
    words = parts.clock_words[0]
    at = text.find(words)
    if len(parts.clocks) > 1 or parts.bounds.start is not None or at < 0 or words.startswith("after "):
        return []
    clock = words if words.startswith("at ") else f"at {words}"
    return [f"{text[:at]}starting {clock}{text[at + len(words) :]}"]

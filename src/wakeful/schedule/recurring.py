"""Phrases for what recurs: "every weekday at 9am", "every other friday until june, except on 24 december".

What a phrase says becomes the simplest schedule that says it: cron where cron can, else a recurrence rule.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, time
from typing import NamedTuple

from wakeful.schedule import cron
from wakeful.schedule.interval import go_duration, rhythm
from wakeful.schedule.names import listed
from wakeful.schedule.recurrence import (
    CountedDay,
    Recurrence,
    RecurrenceRule,
    is_all_left_out,
    that_matter,
    without_dates,
)
from wakeful.schedule.recurring_bounds import read_bound, resolved, says_count
from wakeful.schedule.recurring_days import (
    read_dates,
    read_exclusion,
    read_months,
    read_ordinals,
    read_week_numbers,
    read_weekdays,
)
from wakeful.schedule.recurring_parts import (
    EVERY_DAY,
    WORKDAYS,
    Bounds,
    Exclusions,
    RhythmParts,
    WallBounds,
    crosses_midnight,
    read_interval,
    read_window,
    times_within,
)
from wakeful.schedule.times_of_day import PARTS, WallTime, afternoon_remark, read_clock, settle
from wakeful.schedule.words import Contradiction, LazyPattern, PhraseRefused
from wakeful.schedule.zones import zone

ALL_MONTHS = frozenset(range(1, 13))
_FEBRUARY = 2
_ALL_DAYS = frozenset(range(1, 32))
_FREQUENCIES = {"day": "DAILY", "week": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
_NOTHING_LEFT = "nothing is left of it: all of its days are excluded"


def expression(parts: RhythmParts, times: list[time]) -> str:
    """The schedule of something that recurs on days, at these times."""
    parts = without_excluded(parts)
    seconds, minutes, hours = units(times)
    if (days := cron_days(parts)) is not None:
        fields = [minutes, hours] if seconds == (0,) else [seconds, minutes, hours]
        return f"{' '.join(','.join(map(str, values)) for values in fields)} {days}"
    rule = day_rule(parts)._replace(by_hour=hours, by_minute=minutes)
    return _recurrence(rule if seconds == (0,) else rule._replace(by_second=seconds), parts)


def short_expression(parts: RhythmParts) -> str:
    """The schedule of something that recurs every few hours or less."""
    parts = without_excluded(parts)
    if parts.unit in ("week", "month", "year") and parts.interval > 1:
        raise PhraseRefused("how often it recurs is said twice")
    if parts.window is not None:
        return _within_window(parts)
    start = parts.bounds.start
    clock = "" if parts.from_start else rhythm(parts.seconds)
    if start is not None and (parts.from_start or not _is_on_clock(clock, parts.seconds, start.time())):
        return _recurrence(_counted_from_start(parts), parts)
    if not clock or clock.startswith("@every"):
        if _restricts_days(parts):
            raise PhraseRefused("what counts elapsed time goes on over all days: say an interval that divides the day")
        return f"@every {go_duration(parts.seconds)}"
    if (days := cron_days(parts)) is not None:
        return f"{' '.join(clock.split()[:-3])} {days}"
    return _recurrence(_on_clock(parts, clock), parts)


def _restricts_days(parts: RhythmParts) -> bool:
    return bool(parts.says_days or parts.months or parts.exclusions)


def _is_on_clock(clock: str, seconds: int, at: time) -> bool:
    passed = at.hour * 3600 + at.minute * 60 + at.second
    return not clock.startswith("@every") and passed % seconds == 0


def _counted_from_start(parts: RhythmParts) -> RecurrenceRule:
    """So many hours or minutes from a start that was said: the first fire is the start itself."""
    minutes, rest = divmod(parts.seconds, 60)
    if rest:
        raise PhraseRefused("an interval of seconds that begins at a given time cannot be said: leave out its start")
    hours, rest = divmod(minutes, 60)
    freq, interval = ("MINUTELY", minutes) if rest else ("HOURLY", hours)
    return day_rule(parts)._replace(freq=freq, interval=interval)


def _within_window(parts: RhythmParts) -> str:
    assert parts.window is not None
    if crosses_midnight(parts.window) and _restricts_days(parts):
        raise PhraseRefused("hours that go over midnight belong to two days: say them as two schedules")
    times = times_within(parts.seconds, parts.window)
    if not _have_same_minutes(times):
        length = f"{parts.seconds // 60} minutes" if parts.seconds % 60 == 0 else f"{parts.seconds} seconds"
        raise PhraseRefused(
            f"every {length} is at other minutes in each hour, which hours from and to cannot have: "
            "say whole hours, or minutes that divide the hour, such as 15, 20 or 30"
        )
    seconds, minutes, hours = units(times)
    if (days := cron_days(parts)) is not None:
        step = parts.seconds // 60
        every = "*" if step == 1 else f"*/{step}"
        is_step = parts.seconds % 60 == 0 and minutes == tuple(range(0, 60, max(step, 1))) and step < 60
        fields = [every if is_step else _runs(minutes), "*" if len(hours) == 24 else _runs(hours, 1 if is_step else 2)]
        return f"{' '.join(fields if seconds == (0,) else [_runs(seconds), *fields])} {days}"
    return _recurrence(day_rule(parts)._replace(by_hour=hours, by_minute=minutes), parts)


def _on_clock(parts: RhythmParts, clock: str) -> RecurrenceRule:
    """A steady cron expression as a rule, which can leave out dates."""
    if len(clock.split()) == 6:
        raise PhraseRefused("single dates cannot be left out of what recurs within a minute")
    step = parts.seconds // 60
    minutes, hours = range(0, 60, min(step, 60)), range(0, 24, max(1, step // 60))
    return day_rule(parts)._replace(by_hour=tuple(hours), by_minute=tuple(minutes))


def _recurrence(rule: RecurrenceRule, parts: RhythmParts) -> str:
    off = parts.exclusions
    rules: tuple[RecurrenceRule, ...] = (rule,)
    if off.yearly:
        if rule.interval > 1:
            why = "dates of every year cannot be left out of something that is counted: give them with their year"
            raise PhraseRefused(why)
        rules = without_dates(rule, off.yearly)
        if not rules:
            raise PhraseRefused(_NOTHING_LEFT)
    return Recurrence(rules, exceptions=tuple(sorted(off.dates))).text()


def units(times: list[time]) -> list[tuple[int, ...]]:
    """The seconds, minutes and hours of the times: every hour with every minute."""
    if any(at.microsecond for at in times):
        raise PhraseRefused("recurring times are whole seconds")
    found = [tuple(sorted({getattr(at, unit) for at in times})) for unit in ("second", "minute", "hour")]
    if len(found[0]) > 1 or len(found[1]) * len(found[2]) != len(set(times)):
        raise PhraseRefused("times with different minutes are different schedules: set one for each")
    return found


def _have_same_minutes(times: list[time]) -> bool:
    minutes, hours = {at.minute for at in times}, {at.hour for at in times}
    return len({at.second for at in times}) == 1 and len(minutes) * len(hours) == len(set(times))


def without_excluded(parts: RhythmParts) -> RhythmParts:
    """The same days as fields that say them; what no field can leave out stays an exclusion."""
    off = parts.exclusions
    if not (off or parts.is_of_quarter or len(parts.weekdays) == 7 or len(parts.months) == 12):
        return parts
    months = _months(parts)
    counted = tuple(day for day in parts.counted if day.weekday not in off.weekdays)
    weekdays = (parts.weekdays or EVERY_DAY) - off.weekdays
    is_by_weekday = not parts.counted and not parts.positions
    _check_exclusions(parts)
    days = parts.days
    if off.month_days:
        days = tuple(sorted((frozenset(parts.days) or _ALL_DAYS) - off.month_days))
    yearly = that_matter(off.yearly, months, days)
    if min(days, default=1) < 0 and any(month == _FEBRUARY for month, _ in yearly):
        raise PhraseRefused("the last days of February are not the same dates in every year")
    months = frozenset(month for month in months if not is_all_left_out(month, yearly, days))
    yearly = frozenset(date for date in yearly if date[0] in months)
    if not (months and weekdays and (counted or not parts.counted) and (days or not off.month_days)):
        raise PhraseRefused(_NOTHING_LEFT)
    return replace(
        parts,
        months=frozenset() if months == ALL_MONTHS else months,
        counted=counted,
        weekdays=frozenset() if weekdays == EVERY_DAY or not is_by_weekday else weekdays,
        days=days,
        exclusions=Exclusions(yearly=yearly, dates=off.dates),
    )


def _check_exclusions(parts: RhythmParts) -> None:
    """That days can be left out: where a rule names none, naming the others would add them."""
    off = parts.exclusions
    is_daily = bool(parts.seconds) or parts.unit in ("", "day")
    if (off.weekdays or off.month_days) and not (is_daily or parts.says_days):
        raise PhraseRefused("it does not say on which days it fires: name them, then some can be left out")
    if off.months and parts.unit == "year" and not parts.says_days:
        raise PhraseRefused("it does not say in which months it fires: name them, then some can be left out")
    if parts.positions and off.weekdays:
        raise PhraseRefused("weekdays cannot be left out of days that are counted within a month")
    is_counted_week = parts.unit == "week" and parts.interval > 1
    if off.month_days and (parts.counted or parts.positions or parts.weeks or is_counted_week):
        raise PhraseRefused("days of the month cannot be left out of weekdays that are counted")


def _months(parts: RhythmParts) -> frozenset[int]:
    months = parts.months or ALL_MONTHS
    if parts.is_of_quarter:
        numbers = (*parts.days, *parts.positions, *(day.n for day in parts.counted))
        if len({number > 0 for number in numbers}) > 1:
            raise PhraseRefused("the first and the last month of a quarter are different schedules: set one for each")
        months &= {3, 6, 9, 12} if numbers[0] < 0 else {1, 4, 7, 10}
    return months - parts.exclusions.months


def cron_days(parts: RhythmParts) -> str | None:
    """Day of month, month and day of week as cron says them; None where it cannot."""
    if parts.interval > 1 or parts.year_days or parts.weeks or parts.exclusions:
        return None
    months = _runs(sorted(parts.months)) if parts.months else "*"
    if parts.positions:
        days = {1: "1W", -1: "LW"}.get(parts.positions[0]) if len(parts.positions) == 1 else None
        return None if days is None or parts.picked_from != WORKDAYS else f"{days} {months} *"
    if parts.counted:
        return None if any(day.n < -1 for day in parts.counted) else f"* {months} {_counted(parts.counted)}"
    if not parts.days:
        return f"* {months} {weekday_field(parts.weekdays) if parts.weekdays else '*'}"
    if parts.weekdays or any(day < -1 for day in parts.days):
        return None  # cron fires on either of the two
    numbers = _runs(day for day in parts.days if day > 0)
    return f"{','.join([*([numbers] if numbers else []), *(['L'] if -1 in parts.days else [])])} {months} *"


def _counted(days: Iterable[CountedDay]) -> str:
    ordered = sorted(days, key=lambda day: (day.n < 0, day.weekday, day.n))
    return ",".join(
        f"{cron.WEEKDAYS[day.weekday].upper()}#{day.n}" if day.n > 0 else f"{day.weekday}L" for day in ordered
    )


def _runs(values: Iterable[int], most_alone: int = 2) -> str:
    """Numbers as a field: more than so many in a row are a range."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > most_alone else ",".join(map(str, run)) for run in runs)


def weekday_field(days: Iterable[int]) -> str:
    """Weekdays in one writing only, so that the same days give the same expression."""
    ordered = sorted(days)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(map(str, ordered))


def day_rule(parts: RhythmParts) -> RecurrenceRule:
    """The days as a recurrence rule, without times."""
    by_day = tuple(sorted(parts.counted or (CountedDay(day) for day in parts.picked_from or parts.weekdays)))
    rule = RecurrenceRule(
        _frequency(parts),
        parts.interval,
        by_month=tuple(sorted(parts.months)),
        by_week_no=parts.weeks,
        by_year_day=parts.year_days,
        by_month_day=tuple(sorted(parts.days)),
        by_day=by_day,
        by_set_pos=tuple(sorted(parts.positions)),
    )
    if rule.freq == "YEARLY" and len(parts.months) > 1 and parts.positions:
        raise PhraseRefused(
            f"{listed([str(month) for month in rule.by_month])} are different schedules: set one for each"
        )
    return rule


def _frequency(parts: RhythmParts) -> str:
    if parts.year_days or parts.weeks:
        return "YEARLY"
    if parts.interval > 1:
        return _FREQUENCIES[parts.unit]
    if parts.counted or parts.positions or (parts.days and not parts.weekdays):
        return "MONTHLY"
    return "WEEKLY" if parts.weekdays and not parts.days else "DAILY"


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
    bounds = parts.bounds
    clock = bounds.start_clock or bounds.end_clock
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
        raise PhraseRefused("a number alone is not a time of day", *_hour_readings(parts))
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
        unit = text[slice(*parts.unit_at)]
        if parts.times_per_unit > 1:  # one day would be fewer times than were said
            raise PhraseRefused(_uncounted(parts))
        raise PhraseRefused(f'"{unit}" does not say which day', _with_day(text, parts))
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
    phrase = f"{text[:begin]}{_USUAL_DAY[parts.unit]}{text[end:]}"
    return phrase if _SAYS_WHEN.search(phrase) else f"{phrase} at 9am"


def _check_count(parts: RhythmParts, times: list[time]) -> None:
    """Twice a day needs two times, three times a week three days."""
    if parts.times_per_unit < 1:
        return
    settled = without_excluded(parts)
    dates = len(settled.days) + len(settled.counted) + len(settled.positions)
    counted = {"day": 1, "week": len(settled.weekdays)}.get(parts.unit, dates) * len(times)
    if counted != parts.times_per_unit:
        raise PhraseRefused(_uncounted(parts))


def _uncounted(parts: RhythmParts) -> str:
    return f"it does not say {parts.times_per_unit} times for each {parts.unit}: name them"


def _hour_readings(parts: RhythmParts) -> Iterator[str]:
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

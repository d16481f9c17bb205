"""From what a phrase says to the simplest schedule that says it: cron where cron can, else a recurrence rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import time

from wakeful.schedule import cron
from wakeful.schedule.interval import go_duration, rhythm
from wakeful.schedule.names import listed
from wakeful.schedule.recurrence import CountedDay, Recurrence, RecurrenceRule
from wakeful.schedule.recurring_parts import EVERY_DAY, WORKDAYS, Exclusions, RhythmParts
from wakeful.schedule.recurring_windows import crosses_midnight, times_within
from wakeful.schedule.refusals import PhraseRefused
from wakeful.schedule.yearly_exclusions import is_all_left_out, that_matter, without_dates

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

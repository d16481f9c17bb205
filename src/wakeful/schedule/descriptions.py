"""Schedules in words: "at 09:00 on Monday through Friday, Europe/Berlin", and what clock changes do to them."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

from wakeful.schedule import cron
from wakeful.schedule.cron import Cron
from wakeful.schedule.expression import Schedule, anchor_now, is_interval, is_rule, schedule, split_zone
from wakeful.schedule.interval import go_duration, period, rhythm
from wakeful.schedule.names import MONTH_NAMES, ORDINAL_NAMES, WEEKDAY_NAMES, listed, ordinal
from wakeful.schedule.wall_schedule import SEARCH_YEARS, WallSchedule
from wakeful.schedule.zones import transition, zone

_MOST_CLOCKS = 24
_DAY_BEGINS = time()
_RANGES = re.compile(r"[0-9]{1,2}(?:-[0-9]{1,2})?(?:,[0-9]{1,2}(?:-[0-9]{1,2})?)*")
_COUNTED_FROM_START = ", counted from its start"
_DAY_ENDS = time(23, 59, 59)
_UNITS = {"s": "second", "m": "minute", "h": "hour"}


def describe(
    cron_expr: str,
    timezone: str = "UTC",
    *,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    max_fires: int | None = None,
) -> str:
    """A recurring schedule in words, with its bounds; refuses what schedule() refuses."""
    words, name = _with_zone(cron_expr, timezone)
    parts = [words if starts_at is None else words.replace(_COUNTED_FROM_START, "")]
    parts += [f"starting {start_words(starts_at, name)}"] if starts_at is not None else []
    parts += [f"until {end_words(ends_at, name)}"] if ends_at is not None else []
    parts += [f"for {max_fires} time{'s' if max_fires > 1 else ''}"] if max_fires is not None else []
    return f"{' '.join(parts)}, {name}"


def start_words(starts_at: datetime, timezone: str) -> str:
    """A start: a day, and its time of day unless it is the beginning of the day."""
    return _bound(starts_at, timezone, _DAY_BEGINS)


def end_words(ends_at: datetime, timezone: str) -> str:
    """An end: a day, and its time of day unless it is the end of the day."""
    return _bound(ends_at, timezone, _DAY_ENDS)


def _bound(at: datetime, timezone: str, whole: time) -> str:
    local = at.astimezone(zone(timezone))
    day = f"{local.day} {MONTH_NAMES[local.month - 1]} {local.year}"
    if local.time() == whole:
        return day
    return f"{day} at {local:%H:%M}" + (f":{local:%S}" if local.second else "")


@lru_cache(maxsize=1024)  # a page shows one series many times
def _with_zone(cron_expr: str, timezone: str) -> tuple[str, str]:
    schedule(cron_expr, timezone)
    if is_rule(cron_expr):
        from wakeful.schedule.recurrence import read
        from wakeful.schedule.recurrence_words import rule_words

        recurrence, name = read(*split_zone(cron_expr, timezone))
        return rule_words(recurrence), name
    expr, name = split_zone(cron_expr, timezone)
    return _words(expr), name


def moment(fire_at: datetime, timezone: str) -> str:
    """One moment in words, with its offset where the clock shows the same time twice."""
    local = fire_at.astimezone(zone(timezone))
    at = f"{local:%H:%M}"
    if local.second or local.microsecond:
        at += f":{local:%S}" + (f".{local.microsecond // 1000:03}" if local.microsecond else "")
    if local.fold:
        at += f" {local:%z}"
    day = f"{WEEKDAY_NAMES[local.toordinal() % 7]} {local.day} {MONTH_NAMES[local.month - 1]} {local.year}"
    return f"on {day} at {at}, {timezone}"


def _words(expr: str) -> str:
    if expr.startswith("@every "):
        return f"{_interval(period(expr.removeprefix('@every ').strip()))} from its start"
    fields = [_plain(text) for text in cron.DESCRIPTORS.get(expr, expr).lower().split()]
    if len(fields) == 5:
        fields.insert(0, "0")
    if steady := _rhythms().get(" ".join(fields)):
        return steady
    if every := _rhythms().get(" ".join([*fields[:3], *"***"])) or _hours(*fields[:3]):
        return f"{every} {_days(*fields[3:], named=False).removeprefix('every year ')}".strip()
    named = all(text.replace(",", "").isdigit() for text in fields[:3])
    named = named and len(_clocks(*fields[:3])) <= _MOST_CLOCKS
    times = "at " + listed(_clocks(*fields[:3])) if named else _units(*fields[:3])
    return f"{times} {_days(*fields[3:], named=named)}".strip()


def _hours(second: str, minute: str, hour: str) -> str:
    """Once an hour between two hours, also over midnight."""
    if "-" not in hour or second != "0" or not minute.isdigit() or not _RANGES.fullmatch(hour):
        return ""
    reaches = [item.partition("-") for item in hour.split(",")]
    hours = {value for low, _, high in reaches for value in range(int(low), int(high or low) + 1)}
    starts = [value for value in hours if (value - 1) % 24 not in hours]
    if len(starts) != 1:
        return ""
    last = (starts[0] + len(hours) - 1) % 24
    return f"every hour from {starts[0]:02}:{int(minute):02} to {last:02}:{int(minute):02}"


def _plain(text: str) -> str:
    """A field that names every value, however it is written, is a star."""
    items = [item for item in text.split(",") if item]
    return "*" if any(item in ("*", "?", "*/1", "?/1") for item in items) else ",".join(items)


def _interval(length: timedelta) -> str:
    if length % timedelta(seconds=1):
        return f"every {length.total_seconds():g} seconds"
    text = go_duration(length // timedelta(seconds=1))
    return _every(int(text[:-1]), _UNITS[text[-1]])


def _every(n: int, unit: str) -> str:
    return f"every {unit}" if n == 1 else f"every {n} {unit}s"


@cache
def _rhythms() -> dict[str, str]:
    """Expressions that are a plain "every so often"."""
    known = {}
    for unit, size, limit in (("second", 1, 60), ("minute", 60, 60), ("hour", 3600, 24)):
        for n in range(1, limit):
            if limit % n == 0:
                fields = rhythm(n * size).split()
                known[" ".join(fields if len(fields) == 6 else ["0", *fields])] = _every(n, unit)
    return known


def _clocks(second: str, minute: str, hour: str) -> list[str]:
    clocks = [(h, m, s) for h in _ints(hour) for m in _ints(minute) for s in _ints(second)]
    return [f"{h:02}:{m:02}" + (f":{s:02}" if s else "") for h, m, s in clocks]


def _units(second: str, minute: str, hour: str) -> str:
    words = [] if second == "0" else [_field(second, "second")]
    if minute != "*" or not words or not words[-1].startswith("every"):
        words.append(_field(minute, "minute"))
    if hour != "*" or not words[-1].startswith("every"):
        words.append(_field(hour, "hour"))
    text = " of ".join(words)
    return text if text.startswith("every") else f"at {text}"


def _ints(text: str) -> list[int]:
    return sorted({int(number) for number in text.split(",")})


def _field(text: str, unit: str) -> str:
    """One time field: "every minute", "minutes 10 and 40", "hours 9 through 17"."""
    if "," in text and text.replace(",", "").isdigit():
        return f"{unit}s {listed([str(number) for number in _ints(text)])}"
    return listed([_item(item, unit) for item in text.split(",")])


def _item(item: str, unit: str) -> str:
    body, slash, step = item.partition("/")
    if body in ("*", "?"):
        return _every(int(step or 1), unit)
    low, dash, high = body.partition("-")
    reach = f"{unit}s {low} through {high}" if dash else f"{unit} {low}"
    if not slash:
        return reach
    return f"every {_nth(int(step))} of {reach}" if dash else f"{_every(int(step), unit)} from {reach}"


def _nth(n: int) -> str:
    return "one" if n == 1 else ordinal(n)


def _days(days: str, months: str, weekdays: str, *, named: bool) -> str:
    in_months = "" if months == "*" else listed([_month(item) for item in months.split(",")])
    if days == weekdays == "*":
        return " ".join((["every day"] if named else []) + ([f"in {in_months}"] if in_months else []))
    if days == "*":
        return _on_weekdays(weekdays, in_months)
    if weekdays == "*":
        return _on_days(days, months, in_months)
    inside = f" in {in_months}" if in_months else ""
    return f"{_on_days(days, '*', '')} or {_on_weekdays(weekdays, '')}{inside}"


def _on_days(days: str, months: str, in_months: str) -> str:
    numbers = listed([_day(item) for item in days.split(",")])
    if months.isdigit() and days.replace(",", "").isdigit():
        return f"every year on {listed([str(day) for day in _ints(days)])} {MONTH_NAMES[int(months) - 1]}"
    return f"every year on the {numbers} of {in_months}" if in_months else f"on the {numbers} of every month"


def _day(item: str) -> str:
    if item.isdigit():
        return ordinal(int(item))
    if item in ("l", "lw"):
        return "last day" if item == "l" else "last weekday"
    if item == "1w":
        return "first weekday"
    if item.endswith("w"):
        return f"weekday nearest the {ordinal(int(item[:-1]))}"
    body, slash, step = item.partition("/")
    low, dash, high = body.partition("-")
    if body in ("*", "?"):
        reach = "1st through 31st"
    else:
        reach = f"{ordinal(int(low))} through {ordinal(int(high)) if dash else '31st' if slash else ''}"
    return f"{reach}, every {_nth(int(step))} day," if slash else reach


def _month(item: str) -> str:
    body, slash, step = item.partition("/")
    low, dash, high = body.partition("-")
    if body in ("*", "?"):
        return f"every {_nth(int(step or 1))} month"
    words = f"{_month_name(low)} through {_month_name(high)}" if dash else _month_name(low)
    if slash:
        return f"every {_nth(int(step))} month from {words}"
    return words


def _month_name(text: str) -> str:
    return MONTH_NAMES[cron.MONTHS.index(text) if text in cron.MONTHS else int(text) - 1]


def _on_weekdays(weekdays: str, in_months: str) -> str:
    items = weekdays.split(",")
    if any("#" in item or item.endswith("l") for item in items):
        return _counted(items, in_months)
    inside = f" in {in_months}" if in_months else ""
    if len(items) == 1 and "-" in items[0] and "/" not in items[0]:
        low, _, high = items[0].partition("-")
        return f"on {_weekday(low)} through {_weekday(high)}{inside}"
    if all(item in cron.WEEKDAYS or item.isdigit() for item in items):
        # Monday first: Saturday and Sunday are one weekend.
        ordered = sorted({(_number(item) - 1) % 7 for item in items})
        return f"every {listed([WEEKDAY_NAMES[(day + 1) % 7] for day in ordered])}{inside}"
    return f"on {listed([_weekday_item(item) for item in items])}{inside}"


def _weekday_item(item: str) -> str:
    body, slash, step = item.partition("/")
    if body in ("*", "?"):
        return f"every {_nth(int(step or 1))} day of the week"
    low, dash, high = body.partition("-")
    words = f"{_weekday(low)} through {_weekday(high)}" if dash else _weekday(low)
    return f"every {_nth(int(step))} day from {words}" if slash else words


def _counted(items: list[str], in_months: str) -> str:
    """The first and third Friday of every month."""
    by_day: dict[int, list[int]] = {}
    for day, n in (counted for item in items for counted in cron.counted_days(item)):
        by_day.setdefault(day, []).append(n)
    words = []
    for weekday, counts in by_day.items():
        order = sorted(set(counts), key=lambda n: n or 9)
        words.append(f"{listed([ORDINAL_NAMES[n] for n in order])} {WEEKDAY_NAMES[weekday]}")
    return (
        f"every year on the {listed(words)} of {in_months}" if in_months else f"on the {listed(words)} of every month"
    )


def _weekday(text: str) -> str:
    return WEEKDAY_NAMES[_number(text)]


def _number(text: str) -> int:
    return cron.WEEKDAYS.index(text) if text in cron.WEEKDAYS else int(text) % 7


_YEAR = timedelta(days=366)
_HOUR = timedelta(hours=1)
_MOST_COUNTED = 400
_STEP = timedelta(days=10)


def remarks(cron_expr: str, timezone: str, now: datetime) -> tuple[str, ...]:
    """One remark per clock change within a year that meets the schedule."""
    if is_interval(cron_expr):
        return ()
    if is_rule(cron_expr):
        return _of_rule(cron_expr, timezone, now)
    rhythm = schedule(cron_expr, timezone)
    assert isinstance(rhythm, Cron)
    found = [_remark(rhythm, change, before) for change, before in changes(rhythm.zone, now)]
    if (day := rhythm.days.rare()) > 0:
        found.insert(0, f"Months without a day {day} are skipped.")
    return tuple(remark for remark in found if remark)


def _of_rule(cron_expr: str, timezone: str, now: datetime) -> tuple[str, ...]:
    """How often it fires, where its words do not say it, and the same remarks for each of its rules."""
    from wakeful.schedule.recurrence_schedule import RecurrenceSchedule, RuleSchedule

    rhythm = schedule(cron_expr, timezone, anchor=anchor_now(cron_expr, timezone, now))
    rules = rhythm.rules if isinstance(rhythm, RecurrenceSchedule) else (rhythm,)
    found = []
    for rule in rules:
        if isinstance(rule, RuleSchedule):
            if (day := rule.days.rare()) > 0:
                found.append(f"Months without a day {day} are skipped.")
            lives = [
                (at, before) for at, before in changes(rule.zone, now) if rule.begin <= at and rule.after(at - _HOUR)
            ]
            found += [_remark(rule, at, before) for at, before in lives]
    if is_rule(describe(cron_expr, timezone)):
        found.insert(0, _how_often(rhythm, now))
    return tuple(dict.fromkeys(remark for remark in found if remark))


def _how_often(rhythm: Schedule, now: datetime) -> str:
    count, moment = 0, rhythm.after(now)
    while moment is not None and moment < now + _YEAR and count <= _MOST_COUNTED:
        count, moment = count + 1, rhythm.after(moment)
    if count > _MOST_COUNTED:
        return f"It fires more than {_MOST_COUNTED} times in the year ahead."
    return f"It fires {'once' if count == 1 else f'{count} times'} in the year ahead."


def changes(tz: ZoneInfo, since: datetime) -> list[tuple[datetime, timedelta]]:
    """The clock changes in the year ahead, each with the offset that ends there."""
    found = []
    low = since.replace(microsecond=0)
    try:
        while low < since + _YEAR:
            high = low + _STEP
            before = low.astimezone(tz).utcoffset()
            if before != high.astimezone(tz).utcoffset() and before is not None:
                found.append((transition(low, high, tz), before))
            low = high
    except OverflowError:  # the end of the calendar
        pass
    return found


def _remark(rhythm: WallSchedule, change: datetime, before: timedelta) -> str:
    after = change.astimezone(rhythm.zone).utcoffset()
    assert after is not None
    start, end = sorted(((change + before).replace(tzinfo=None), (change + after).replace(tzinfo=None)))
    met = rhythm.at_or_after(start, start.year + SEARCH_YEARS)
    if met is None or met >= end:
        return ""
    stretch = f"On {start:%Y-%m-%d} clocks in {rhythm.zone.key} go {'forward' if after > before else 'back'}"
    if after > before:
        missing = f"{stretch} and {start:%H:%M} to {end:%H:%M} does not happen"
        return f"{missing}: it fires once, at {end:%H:%M}." if rhythm.fixed else f"{missing}: nothing fires in it."
    twice = f"{stretch} and {start:%H:%M} to {end:%H:%M} happens twice"
    return f"{twice}: it fires the first time only." if rhythm.fixed else f"{twice}: it fires both times."

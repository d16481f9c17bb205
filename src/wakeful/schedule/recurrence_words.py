"""Recurrence rules in words, and back: "every 2 weeks on Tuesday at 09:00, counted from 5 January 2027, 10 times".

A rule whose words would not mean exactly that rule again is told as its own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from functools import lru_cache

from wakeful.schedule.names import MONTH_NAMES, ORDINAL_NAMES, WEEKDAY_NAMES, listed, ordinal
from wakeful.schedule.recurrence import (
    CountedDay,
    Recurrence,
    RecurrenceRule,
    RuleMoment,
    YearDay,
    dates_left_out,
    without_dates,
)
from wakeful.schedule.wall_schedule import reading
from wakeful.schedule.words import MONTHS, WEEKDAYS, normal

_UNITS = {
    "MINUTELY": "minute",
    "HOURLY": "hour",
    "DAILY": "day",
    "WEEKLY": "week",
    "MONTHLY": "month",
    "YEARLY": "year",
}
_FREQUENCIES = {unit: freq for freq, unit in _UNITS.items()}
_WORKDAYS = tuple(CountedDay(day) for day in range(1, 6))
_MOST_CLOCKS = 24
_LONGEST = 230  # characters: with its zone it must be short enough for a phrase

_NAMED_DAY = rf"[0-9]{{1,2}} (?:{'|'.join(name.lower() for name in MONTH_NAMES)}) [0-9]{{4}}"
_MOMENT = rf"{_NAMED_DAY}(?: at [0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?: utc)?)?"
_MONTH_WORDS = "|".join(name.lower() for name in MONTH_NAMES)
_YEAR_DAYS = rf"[0-9]{{1,2}}(?:(?:, | and )[0-9]{{1,2}})* (?:{_MONTH_WORDS})(?! [0-9])"
_SENTENCE = re.compile(
    rf"every (?:(?P<n>[0-9]{{1,5}}) )?(?P<unit>{'|'.join(_FREQUENCIES)})s?(?: on (?P<on>[a-z0-9 ,]+?))?"
    rf"(?: in weeks? (?P<weeks>[0-9, and]+?)| in (?P<months>[a-z ,]+?))?(?: at (?P<clocks>[0-9:, and]+?))?"
    rf"(?:, counted from (?:(?P<start>{_MOMENT})|(?P<own>its start)))?"
    rf"(?:, (?P<once>once)|, (?P<count>[0-9]{{1,5}}) times|, until (?P<until>{_MOMENT}))?"
    rf"(?:, except on (?P<weekdays>[a-z]+day(?:(?:, | and )[a-z]+day)*))?"
    rf"(?:, except on (?P<yearly>{_YEAR_DAYS}(?:(?:, | and ){_YEAR_DAYS})*))?"
    rf"(?:, except on (?P<off>{_MOMENT}(?:(?:, | and ){_MOMENT})*))?"
)
_ONE_MOMENT = re.compile(_MOMENT)
_ONE_YEAR_DAYS = re.compile(rf"([0-9, and]+) ({_MONTH_WORDS})")
_SEPARATOR = re.compile(r", | and ")
_NTH = re.compile(r"(?:([0-9]{1,3})(?:st|nd|rd|th)( to last)?|(last))(?: (day|weekday|[a-z]+day))?")


@lru_cache(maxsize=1024)
def rule_words(recurrence: Recurrence) -> str:
    """In words if they say all of it, else its text."""
    words = _words(recurrence)
    if len(words) > _LONGEST:
        return recurrence.text()
    return words if words and read_words(normal(words) or "") == recurrence else recurrence.text()


def _words(recurrence: Recurrence) -> str:
    if recurrence.dates or not recurrence.rules:
        return ""
    whole = (recurrence.rules[0], frozenset[YearDay]()) if len(recurrence.rules) == 1 else None
    found = whole or dates_left_out(recurrence.rules)
    if found is None:
        return ""
    rule, yearly = found
    clauses = [_first_clause(rule)]
    if recurrence.start is not None:
        clauses.append(f"counted from {_moment(recurrence.start)}")
    elif not rule.says_time:
        clauses.append("counted from its start")
    if rule.fire_count is not None:
        clauses.append("once" if rule.fire_count == 1 else f"{rule.fire_count} times")
    if rule.until is not None:
        clauses.append(f"until {_moment(rule.until)}")
    return ", ".join([*clauses, *_exceptions(rule, yearly, recurrence.exceptions)])


def _exceptions(rule: RecurrenceRule, yearly: frozenset[YearDay], dates: tuple[RuleMoment, ...]) -> Iterator[str]:
    if _is_filtered(rule):
        left_out = tuple(CountedDay(day) for day in range(7) if CountedDay(day) not in rule.by_day)
        yield f"except on {listed([WEEKDAY_NAMES[day.weekday] for day in _from_monday(left_out)])}"
    if yearly:
        yield f"except on {_year_days(yearly)}"
    if dates:
        yield f"except on {listed([_moment(moment) for moment in dates])}"


def _first_clause(rule: RecurrenceRule) -> str:
    unit = _UNITS[rule.freq]
    parts = [f"every {unit}" if rule.interval == 1 else f"every {rule.interval} {unit}s", _on(rule)]
    weeks = [str(number) for number in rule.by_week_no]
    parts += [f"in week{'s' if len(weeks) > 1 else ''} {listed(weeks)}"] if weeks else []
    parts += [f"in {_months(rule.by_month)}"] if rule.by_month else []
    parts += [f"at {listed(_clocks(rule))}"] if rule.says_time and _clocks(rule) else []
    return " ".join(part for part in parts if part)


def _is_filtered(rule: RecurrenceRule) -> bool:
    """Every 3 days, but not on certain weekdays."""
    return rule.freq == "DAILY" and rule.interval > 1 and bool(rule.by_day)


def _months(months: tuple[int, ...]) -> str:
    """June, July and October through December."""
    runs: list[list[int]] = []
    for month in months:
        if runs and month == runs[-1][-1] + 1:
            runs[-1].append(month)
        else:
            runs.append([month])
    words: list[str] = []
    for run in runs:
        names = [MONTH_NAMES[month - 1] for month in run]
        words += [f"{names[0]} through {names[-1]}"] if len(run) > 2 else names
    return listed(words)


def _year_days(dates: frozenset[YearDay]) -> str:
    """24 and 25 December."""
    months = sorted({month for month, _ in dates})
    days = [listed([str(day) for _, day in sorted(one for one in dates if one[0] == month)]) for month in months]
    return listed([f"{some} {MONTH_NAMES[month - 1]}" for some, month in zip(days, months, strict=True)])


def _on(rule: RecurrenceRule) -> str:
    if rule.by_set_pos and rule.by_day == _WORKDAYS:
        return f"on the {listed([_nth(n) for n in _in_order(rule.by_set_pos)])} weekday"
    if rule.by_set_pos:
        names = [WEEKDAY_NAMES[day.weekday] for day in _from_monday(rule.by_day)]
        numbers = [_nth(n) for n in _in_order(rule.by_set_pos)]
        return f"on the {listed(numbers)} instance of {listed(names)}" if names else ""
    if rule.by_year_day:
        return f"on the {listed([_nth_number(day) for day in _in_order(rule.by_year_day)])} day"
    if rule.by_month_day:
        return f"on the {listed([_day(day) for day in _in_order(rule.by_month_day)])}"
    if any(day.n for day in rule.by_day):
        return f"on the {listed(_counted(rule.by_day))}"
    if rule.by_day == _WORKDAYS and not _is_filtered(rule):
        return "on Monday through Friday"
    if _is_filtered(rule):
        return ""
    names = [WEEKDAY_NAMES[day.weekday] for day in _from_monday(rule.by_day)]
    return f"on {listed(names)}" if names else ""


def _from_monday(days: tuple[CountedDay, ...]) -> list[CountedDay]:
    return sorted(days, key=lambda day: (day.weekday - 1) % 7)


def _in_order(numbers: tuple[int, ...]) -> list[int]:
    """From the start on, then from the end."""
    return sorted(numbers, key=lambda n: (n < 0, n))


def _counted(days: tuple[CountedDay, ...]) -> list[str]:
    """first, third Friday, last Monday: a weekday is named behind the last of its own."""
    words = []
    for weekday in sorted({day.weekday for day in days}):
        counts = _in_order(tuple(day.n for day in days if day.weekday == weekday))
        words += [_nth(n) for n in counts[:-1]] + [f"{_nth(counts[-1])} {WEEKDAY_NAMES[weekday]}"]
    return words


def _nth(n: int) -> str:
    if n > 0:
        return ORDINAL_NAMES[n] if n < len(ORDINAL_NAMES) else ordinal(n)
    return "last" if n == -1 else f"{ordinal(-n)} to last"


def _nth_number(n: int) -> str:
    return ordinal(n) if n > 0 else _nth(n)


def _day(day: int) -> str:
    return ordinal(day) if day > 0 else f"{_nth(day)} day"


def _clocks(rule: RecurrenceRule) -> list[str]:
    if len(rule.by_hour) * len(rule.by_minute) * max(1, len(rule.by_second)) > _MOST_CLOCKS:
        return []
    times = [(h, m, s) for h in rule.by_hour for m in rule.by_minute for s in rule.by_second or (-1,)]
    return [f"{h:02}:{m:02}" + (f":{s:02}" if s >= 0 else "") for h, m, s in times]


def _moment(moment: RuleMoment) -> str:
    day = f"{moment.day} {MONTH_NAMES[moment.month - 1]} {moment.year:04}"
    if not isinstance(moment, datetime):
        return day
    return f"{day} at {moment:%H:%M}" + (f":{moment:%S}" if moment.second else "") + (" UTC" if moment.tzinfo else "")


def read_words(phrase: str) -> Recurrence | None:
    """The recurrence of words as they are written here, in normalised letters; None for any others."""
    found = _SENTENCE.fullmatch(phrase)
    if found is None:
        return None
    groups = found.groupdict()
    try:
        rule = RecurrenceRule(
            _FREQUENCIES[groups["unit"]],
            int(groups["n"] or 1),
            1 if groups["once"] else int(groups["count"]) if groups["count"] else None,
            _read_moment(groups["until"]) if groups["until"] else None,
            by_month=_read_months(groups["months"]),
            by_week_no=_sorted(int(number) for number in _items(groups["weeks"])),
        )
        rule = _read_clocks(_read_on(rule, groups["on"] or ""), groups["clocks"])
        if groups["weekdays"]:
            left_out = _named_days(groups["weekdays"])
            rule = rule._replace(by_day=tuple(CountedDay(day) for day in range(7) if CountedDay(day) not in left_out))
        start = _read_moment(groups["start"]) if groups["start"] else None
        off = tuple(_read_moment(text[0]) for text in _ONE_MOMENT.finditer(groups["off"] or ""))
    except (KeyError, ValueError):
        return None
    # Without a time of day it has that of its start, which must be said.
    is_whole = start is not None or rule.says_time != bool(groups["own"])
    yearly = frozenset(_read_year_days(groups["yearly"] or ""))
    rules = without_dates(rule, yearly) if yearly else (rule,)
    return Recurrence(rules, start, (), off) if is_whole and not (yearly and rule.interval > 1) else None


def _read_months(text: str | None) -> tuple[int, ...]:
    found: set[int] = set()
    for item in _items(text):
        low, _, high = item.partition(" through ")
        found |= set(range(MONTHS[low], MONTHS[high or low] + 1))
    return _sorted(found)


def _read_year_days(text: str) -> Iterator[YearDay]:
    for found in _ONE_YEAR_DAYS.finditer(text):
        yield from ((MONTHS[found[2]], int(number)) for number in re.findall("[0-9]+", found[1]))


def _read_on(rule: RecurrenceRule, on: str) -> RecurrenceRule:
    if not on:
        return rule
    if on == "monday through friday":
        return rule._replace(by_day=_WORKDAYS)
    if not on.startswith("the "):
        return rule._replace(by_day=_named_days(on))
    if rule.freq not in ("MONTHLY", "YEARLY"):
        raise ValueError
    return _read_ordinals(rule, on.removeprefix("the "))


def _read_ordinals(rule: RecurrenceRule, on: str) -> RecurrenceRule:
    if " instance of " in on:
        counts, _, names = on.partition(" instance of ")
        return rule._replace(by_set_pos=_sorted(_read_nths(counts)[0]), by_day=_named_days(names))
    numbers, kinds = _read_nths(on)
    if rule.freq == "YEARLY" and not rule.by_month:
        if kinds[-1] != "day":
            raise ValueError
        return rule._replace(by_year_day=_sorted(numbers))
    if kinds[-1] == "weekday":
        return rule._replace(by_day=_WORKDAYS, by_set_pos=_sorted(numbers))
    if set(kinds) <= {"", "day"}:
        return rule._replace(by_month_day=_sorted(numbers))
    return rule._replace(by_day=tuple(sorted(_each_named(numbers, kinds))))


def _named_days(names: str) -> tuple[CountedDay, ...]:
    return tuple(sorted(CountedDay(WEEKDAYS[name]) for name in _items(names)))


def _read_nths(text: str) -> tuple[list[int], list[str]]:
    numbers, kinds = [], []
    for item in map(_NTH.fullmatch, _items(text)):
        if item is None:
            raise ValueError
        numbers.append(-1 if item[3] else int(item[1]) * (-1 if item[2] else 1))
        kinds.append(item[4] or "")
    return numbers, kinds


def _each_named(numbers: list[int], kinds: list[str]) -> list[CountedDay]:
    """Each number with the weekday behind it, or behind a later one."""
    days, name = [], ""
    for number, kind in zip(reversed(numbers), reversed(kinds), strict=True):
        name = kind or name
        days.append(CountedDay(WEEKDAYS[name], number))
    return days


def _read_clocks(rule: RecurrenceRule, clocks: str | None) -> RecurrenceRule:
    if not clocks:
        return rule
    times = [[int(number) for number in clock.split(":")] for clock in _items(clocks)]
    if any(len(time) not in (2, 3) or len(time) != len(times[0]) for time in times):
        raise ValueError
    units = [_sorted(values) for values in zip(*times, strict=True)]
    size = 1
    for values in units:
        size *= len(values)
    if size != len(times):
        raise ValueError  # not every hour with every minute
    return rule._replace(by_hour=units[0], by_minute=units[1], by_second=units[2] if len(units) > 2 else ())


def _read_moment(text: str) -> RuleMoment:
    day, _, clock = text.partition(" at ")
    number, month, year = day.split()
    if not clock:
        return date(int(year), MONTHS[month], int(number))
    utc = clock.endswith(" utc")
    hour, minute, second = (*(int(part) for part in clock.removesuffix(" utc").split(":")), 0)[:3]
    moment = reading(int(year), MONTHS[month], int(number), (hour, minute, second))
    return moment.replace(tzinfo=UTC) if utc else moment


def _items(text: str | None) -> list[str]:
    return _SEPARATOR.split(text) if text else []


def _sorted(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(numbers)))

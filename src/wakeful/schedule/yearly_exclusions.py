"""A rule without certain dates of every year, such as 24 December: several rules that together say the rest.

EXDATE names dates of one year only, so what is to hold in every year is said by months and days of the month.
"""

from __future__ import annotations

from collections import defaultdict

from wakeful.schedule.recurrence import RecurrenceRule

_MONTHS = range(1, 13)
_FEBRUARY = 2
_LENGTHS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
YearDay = tuple[int, int]  # month and day


def that_matter(dates: frozenset[YearDay], months: frozenset[int], days: tuple[int, ...]) -> frozenset[YearDay]:
    """Without the dates on which nothing fires anyway. `days`: of the month, from its end if negative; none: all."""
    return frozenset(one for one in dates if one[0] in months and (not days or one[1] in _days_of(one[0], days)))


def is_all_left_out(month: int, dates: frozenset[YearDay], days: tuple[int, ...]) -> bool:
    """Whether none of these days is left of a month."""
    return bool(days) and all((month, day) in dates for day in _days_of(month, days))


def _days_of(month: int, days: tuple[int, ...]) -> set[int]:
    lengths = {_LENGTHS[month], 28} if month == _FEBRUARY else {_LENGTHS[month]}
    return {day if day > 0 else length + 1 + day for day in days for length in lengths}


def without_dates(rule: RecurrenceRule, dates: frozenset[YearDay]) -> tuple[RecurrenceRule, ...]:
    """The rules that fire as this one does, but not on these dates of a year."""
    months = rule.by_month or tuple(_MONTHS)
    off: dict[int, set[int]] = defaultdict(set)
    for month, day in dates:
        if month in months:
            off[month].add(day)
    if rule.freq == "WEEKLY" and off:  # which knows no days of the month
        rule = rule._replace(freq="DAILY")
    whole = tuple(month for month in months if month not in off)
    rules = [rule._replace(by_month=() if len(whole) == len(_MONTHS) else whole)] if whole else []
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for month in sorted(off):
        alike[_left(rule, month, off[month])].append(month)
    rules += [rule._replace(by_month=tuple(some), by_month_day=days) for days, some in sorted(alike.items()) if days]
    return tuple(rules)


def _left(rule: RecurrenceRule, month: int, off: set[int]) -> tuple[int, ...]:
    """The days of a month that stay; from the end of the month as the rule says them."""
    length = _LENGTHS[month]
    days = rule.by_month_day or tuple(range(1, length + 1))
    return tuple(day for day in days if (day if day > 0 else length + 1 + day) not in off)


def dates_left_out(rules: tuple[RecurrenceRule, ...]) -> tuple[RecurrenceRule, frozenset[YearDay]] | None:
    """The one rule and the dates that without_dates() made these of; None where they are something else."""
    months = sorted(month for rule in rules for month in rule.by_month)
    if not months or len(set(months)) != len(months):
        return None
    whole = rules[0] if rules[0].by_month_day == () or len(rules) == 1 else None
    base = whole or rules[0]._replace(by_month_day=())
    base = base._replace(by_month=() if len(months) == len(_MONTHS) else tuple(months))
    if base.freq == "DAILY" and base.by_day:
        base = base._replace(freq="WEEKLY")  # what those are on certain weekdays
    dates = frozenset(
        (month, day)
        for rule in rules
        if rule.by_month_day
        for month in rule.by_month
        for day in range(1, _LENGTHS[month] + 1)
        if day not in rule.by_month_day
    )
    return (base, dates) if dates and without_dates(base, dates) == rules else None

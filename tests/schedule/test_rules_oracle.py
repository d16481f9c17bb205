"""Random recurrence rules, compared with python-dateutil."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pytest

from wakeful.errors import InvalidSchedule

from .differences import FIRST_WEEK, NEW_YEAR, NO_TIME
from .rule_oracle import at_the_end, oracle, ours, random_rule, stretch

SECOND = timedelta(seconds=1)


def compare(seed: int) -> str:
    """How one random rule compares: "same", or why it differs."""
    rng = random.Random(seed)
    text = random_rule(rng)
    try:
        if not ours(text, *_bounds(text, 0)):
            text = at_the_end(text, rng)
        part = rng.choice((0, 0, rng.random() * 0.8))
        after, until = _bounds(text, part)
        got = ours(text, after, until)
    except InvalidSchedule:
        return _refused(text)
    expected = oracle(text, after, until)
    return "same" if got == expected else _reason(text, got, expected)


def _bounds(text: str, part: float) -> tuple[datetime, datetime]:
    start, length = stretch(text)
    return start - SECOND + length * part, start + length


def _refused(text: str) -> str:
    try:
        text = at_the_end(text, random.Random(0))
        assert oracle(text, *_bounds(text, 0)) == [], f"{text} fires"
    except ValueError:
        pass
    return NO_TIME


def _reason(text: str, got: list[datetime], expected: list[datetime]) -> str:
    if "FREQ=WEEKLY" in text and "BYSETPOS" in text:
        return FIRST_WEEK
    if "BYWEEKNO" in text and all(_around_new_year(fire) for fire in _unlike(got, expected)):
        return NEW_YEAR
    raise AssertionError(f"{text}: {got[:5]}, not {expected[:5]}")


def _unlike(got: list[datetime], expected: list[datetime]) -> set[datetime]:
    """What only one of them has, as far as both go: the first that differs puts the rest out of step."""
    last = min(got[-1:] + expected[-1:])
    return {fire for fire in set(got) ^ set(expected) if fire <= last}


def _around_new_year(fire: datetime) -> bool:
    return (fire.month, fire.day) >= (12, 24) or (fire.month, fire.day) <= (1, 8)


@pytest.mark.parametrize("tenth", range(10))
def test_random_rules_agree_with_python_dateutil(tenth: int) -> None:
    verdicts = [compare(seed) for seed in range(tenth * 50, tenth * 50 + 50)]
    assert verdicts.count("same") > 40


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(100))
def test_ten_thousand_random_rules_agree_with_python_dateutil(hundred: int) -> None:
    verdicts = [compare(seed) for seed in range(1000 + hundred * 100, 1100 + hundred * 100)]
    assert verdicts.count("same") > 80


def test_positions_count_within_the_whole_first_week() -> None:
    # Thursday 3 December 2020: of Monday, Tuesday, Thursday and Friday the third.
    text = "DTSTART:20201203T090000Z RRULE:FREQ=WEEKLY;BYDAY=MO,TU,TH,FR;BYSETPOS=3"
    assert ours(text, datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 12, 12, tzinfo=UTC)) == [
        datetime(2020, 12, 3, 9, tzinfo=UTC),
        datetime(2020, 12, 10, 9, tzinfo=UTC),
    ]


@pytest.mark.parametrize("week", [1, 2, 20, 52, 53, -1, -52, -53])
def test_weeks_are_those_of_the_calendar(week: int) -> None:
    text = f"DTSTART:19900101T090000Z RRULE:FREQ=YEARLY;BYWEEKNO={week};BYDAY=MO,TU,WE,TH,FR,SA,SU"
    days = [date(1990, 1, 1) + timedelta(days=day) for day in range(365 * 60)]
    end = datetime(days[-1].year, days[-1].month, days[-1].day, 23, tzinfo=UTC)
    found, moment = set[date](), datetime(1990, 1, 1, tzinfo=UTC)
    while fires := ours(text, moment, end):
        found |= {fire.date() for fire in fires}
        moment = fires[-1]
    assert found == {day for day in days if _week(day, from_end=week < 0) == week}


def _week(day: date, *, from_end: bool) -> int:
    year, week, _ = day.isocalendar()
    return week - date(year, 12, 28).isocalendar().week - 1 if from_end else week

"""Random recurrence rules, compared with python-dateutil."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pytest

from wakeful.errors import InvalidSchedule

from .differences import FIRST_WEEK, NO_TIME, WEEK_53
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
    if "BYWEEKNO" in text and "COUNT" in text and set(got) - set(expected):
        expected = expected[: len(got)]
    extra = [fire for fire in set(expected) - set(got) if fire <= got[-1]] if got else expected
    if "BYWEEKNO" in text and extra and all(fire.month == 1 and fire.day < 7 for fire in extra):
        return WEEK_53
    raise AssertionError(f"{text}: {got[:5]}, not {expected[:5]}")


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


@pytest.mark.parametrize("week", [1, 2, 20, 52, 53])
def test_weeks_are_those_of_the_calendar(week: int) -> None:
    text = f"DTSTART:19900101T090000Z RRULE:FREQ=YEARLY;BYWEEKNO={week};BYDAY=MO,TU,WE,TH,FR,SA,SU"
    start, days = datetime(1990, 1, 1, tzinfo=UTC), 365 * 60
    found, moment = set(), start
    while (fire := (ours(text, moment, start + timedelta(days=days)) or [None])[-1]) is not None:
        found |= {one.date() for one in ours(text, moment, start + timedelta(days=days))}
        moment = fire
    calendar = (date(1990, 1, 1) + timedelta(days=day) for day in range(days))
    assert found == {day for day in calendar if day.isocalendar().week == week}

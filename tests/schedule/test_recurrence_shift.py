"""A rule so long before or after another: it fires just then, or it is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.errors import InvalidSchedule
from wakeful.schedule.expression import schedule
from wakeful.schedule.recurrence import Recurrence, read
from wakeful.schedule.recurrence_shift import shifted

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


def recurrence(text: str) -> Recurrence:
    return read(text, "UTC")[0]


def fires(text: str, count: int) -> list[datetime]:
    found: list[datetime] = []
    moment: datetime | None = datetime(1990, 1, 1, tzinfo=UTC)
    when = schedule(text, "UTC")
    while moment is not None and len(found) < count:
        moment = when.after(moment)
        found += [] if moment is None else [moment]
    return found


@pytest.mark.parametrize(
    ("text", "by", "expected"),
    [
        (
            "DTSTART:20270104T090000 RRULE:FREQ=WEEKLY;BYDAY=MO,WE",
            -15 * MINUTE,
            "DTSTART:20270104T084500 RRULE:FREQ=WEEKLY;BYDAY=MO,WE",
        ),
        (  # the weeks that count begin on another day as well
            "DTSTART:20270104T001000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU",
            -15 * MINUTE,
            "DTSTART:20270103T235500 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=SA,SU;WKST=SU",
        ),
        (
            "DTSTART:20270104T090000 RRULE:FREQ=MONTHLY;BYDAY=1MO",
            -DAY,
            "DTSTART:20270103T090000 RRULE:FREQ=MONTHLY;BYMONTHDAY=-1,1,2,3,4,5,6;BYDAY=SU",
        ),
        (
            "DTSTART:20270129T090000 RRULE:FREQ=MONTHLY;BYDAY=-1FR",
            -DAY,
            "DTSTART:20270128T090000 RRULE:FREQ=MONTHLY;BYMONTHDAY=-8,-7,-6,-5,-4,-3,-2;BYDAY=TH",
        ),
        ("DTSTART:20270101 RRULE:FREQ=MONTHLY", -DAY, "DTSTART:20261231T000000 RRULE:FREQ=MONTHLY;BYMONTHDAY=-1"),
        (  # the day before the first of March, in leap years too
            "DTSTART:20000301 RRULE:FREQ=YEARLY",
            -DAY,
            "DTSTART:20000229T000000 RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-1",
        ),
        (
            "DTSTART:20271125 RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH",
            -15 * 60 * MINUTE,
            "DTSTART:20271124T090000 RRULE:FREQ=YEARLY;BYMONTH=11;BYMONTHDAY=21,22,23,24,25,26,27;BYDAY=WE",
        ),
        (
            "DTSTART:20270104T090000 RRULE:FREQ=DAILY;COUNT=5;BYHOUR=9;BYMINUTE=0 EXDATE:20270106T090000",
            -15 * MINUTE,
            "DTSTART:20270104T084500 RRULE:FREQ=DAILY;COUNT=5 EXDATE:20270106T084500",
        ),
        (
            "DTSTART:20270104T090000 RRULE:FREQ=DAILY;UNTIL=20270120T080000Z;BYDAY=MO,TU,WE,TH,FR EXDATE:20270106",
            -DAY,
            "DTSTART:20270103T090000 RRULE:FREQ=DAILY;UNTIL=20270119T080000Z;BYDAY=MO,TU,WE,TH,SU EXDATE:20270105",
        ),
    ],
)
def test_a_rule_before_another_is_a_rule(text: str, by: timedelta, expected: str) -> None:
    assert shifted(recurrence(text), by).text() == expected
    assert fires(expected, 200) == [moment + by for moment in fires(text, 200)]


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("DTSTART:20000229 RRULE:FREQ=YEARLY", DAY),
        ("DTSTART:20270131 RRULE:FREQ=MONTHLY", -DAY),
        ("DTSTART:20271101 RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=1MO", -DAY),
        ("DTSTART:20270104T090000 RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", -DAY),
        ("DTSTART:20270104T090000 RRULE:FREQ=DAILY;BYHOUR=9,17", -MINUTE),
        ("DTSTART:20270104T093000 RRULE:FREQ=HOURLY;BYDAY=MO", -45 * MINUTE),  # 00:30 would be on Sunday
    ],
)
def test_what_no_rule_says_is_refused(text: str, by: timedelta) -> None:
    with pytest.raises(InvalidSchedule, match="cannot be written as a rule"):
        shifted(recurrence(text), by)


DAYS = st.lists(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), min_size=1, max_size=3, unique=True)
RULES = st.one_of(
    st.sampled_from(["FREQ=DAILY", "FREQ=WEEKLY", "FREQ=MONTHLY", "FREQ=YEARLY", "FREQ=HOURLY;INTERVAL=7"]),
    DAYS.map(lambda days: f"FREQ=WEEKLY;BYDAY={','.join(days)}"),
    DAYS.map(lambda days: f"FREQ=DAILY;BYDAY={','.join(days)}"),
    st.builds(lambda n, days: f"FREQ=MONTHLY;BYDAY={n}{days[0]}", st.sampled_from([1, 2, 4, -1, -2]), DAYS),
    st.builds(lambda days: f"FREQ=MONTHLY;BYMONTHDAY={days}", st.sampled_from([1, 2, 15, 28, 31, -1, -3])),
    st.builds(lambda m, d: f"FREQ=YEARLY;BYMONTH={m};BYMONTHDAY={d}", st.integers(1, 12), st.integers(1, 28)),
)


@settings(max_examples=150, deadline=None)
@given(
    RULES,
    st.integers(0, 2_000_000).map(lambda minute: datetime(2024, 1, 1, tzinfo=UTC) + minute * MINUTE),
    st.integers(-20000, 5000),
    st.integers(1, 4),
)
def test_a_shifted_rule_fires_exactly_so_long_before_or_is_refused(
    rule: str, start: datetime, minutes: int, interval: int
) -> None:
    text = f"DTSTART:{start:%Y%m%dT%H%M%S} RRULE:{rule}" + ("" if "INTERVAL" in rule else f";INTERVAL={interval}")
    by = minutes * MINUTE
    try:
        moved = shifted(recurrence(text), by).text()
    except InvalidSchedule:
        return
    assert fires(moved, 70) == [moment + by for moment in fires(text, 70)]

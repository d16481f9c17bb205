"""Between which hours: both ends on the 12-hour clock or both on the 24-hour clock, also over midnight."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.errors import InvalidSchedule
from wakeful.schedule import Understood, parse

from .helpers import NOW, QUICK

MIDNIGHT = datetime(2026, 11, 15, 23, 59, 59, tzinfo=UTC)
FROM_TO = st.sampled_from([("from", "to"), ("from", "until"), ("from", "till"), ("between", "and"), ("from", "-")])
STEPS = st.sampled_from([10, 15, 20, 30, 60, 120, 180])
LATE_HOURS = [*range(13, 24), 0]


def in_utc(phrase: str) -> Understood:
    return parse(phrase, timezone="UTC", now=MIDNIGHT)


def times_of(understood: Understood) -> list[time]:
    """The times of day of one day."""
    fires = understood.next(200)
    return sorted({fire.time() for fire in fires if fire < MIDNIGHT + timedelta(days=1)})


def times_between(begin: int, end: int, step: int) -> list[time]:
    """From one minute of the day to another, which may be on the next morning; within an hour without a full last."""
    last = end if end > begin else end + 1440
    if step < 60 and last % 60 == 0:
        last -= 1
    return sorted({time(at // 60 % 24, at % 60) for at in range(begin, last + 1, step)})


def phrase(words: tuple[str, str], begin: str, end: str, step: int) -> str:
    every = f"{step} minutes" if step < 60 else "hour" if step == 60 else f"{step // 60} hours"
    return f"every {every} {words[0]} {begin} {words[1]} {end}"


@pytest.mark.parametrize("clock", ["{}:00", "{}"])
@pytest.mark.parametrize("end", range(24))
@pytest.mark.parametrize("begin", LATE_HOURS)
def test_a_window_that_begins_on_the_24_hour_clock_ends_on_it(begin: int, end: int, clock: str) -> None:
    """All 132 windows from 13:00–23:00 and 0:00 to 1:00–11:00 among them."""
    if begin != end:
        said = f"every hour from {clock.format(begin)} to {clock.format(end)}"
        assert times_of(in_utc(said)) == times_between(begin * 60, end * 60, 60)


@given(FROM_TO, STEPS, st.sampled_from(LATE_HOURS), st.integers(1, 11), st.sampled_from([0, 15, 30]))
@QUICK
def test_over_midnight_with_any_words_and_step(
    words: tuple[str, str], step: int, begin: int, end: int, minute: int
) -> None:
    if step < 60 and (minute or 60 % step):
        minute = 0
    said = phrase(words, f"{begin}:{minute:02}", f"{end}:{minute:02}", step)
    assert times_of(in_utc(said)) == times_between(begin * 60 + minute, end * 60 + minute, step)


@given(FROM_TO, STEPS, st.integers(1, 12), st.integers(1, 12), st.sampled_from("ap"), st.sampled_from("ap"))
@QUICK
def test_am_and_pm_are_what_they_say(
    words: tuple[str, str], step: int, first: int, last: int, half: str, other: str
) -> None:
    begin, end = first % 12 * 60 + 720 * (half == "p"), last % 12 * 60 + 720 * (other == "p")
    if begin != end:
        said = phrase(words, f"{first}{half}m", f"{last}{other}m", step)
        assert times_of(in_utc(said)) == times_between(begin, end, step)


@given(FROM_TO, STEPS, st.integers(1, 12), st.integers(1, 12), st.sampled_from("ap"), st.booleans())
@QUICK
def test_where_one_end_says_am_or_pm_the_other_is_within_twelve_hours(
    words: tuple[str, str], step: int, first: int, last: int, half: str, is_first: bool
) -> None:
    length = (last - first) % 12 * 60 or 720
    if is_first:
        begin = first % 12 * 60 + 720 * (half == "p")
        said = phrase(words, f"{first}{half}m", str(last), step)
    else:
        begin = (last % 12 * 60 + 720 * (half == "p") - length) % 1440
        said = phrase(words, str(first), f"{last}{half}m", step)
    assert times_of(in_utc(said)) == times_between(begin, (begin + length) % 1440, step)


@pytest.mark.parametrize("begin", range(6, 13))
@pytest.mark.parametrize("end", range(1, 13))
@pytest.mark.parametrize("clock", ["{}:00", "{}"])
def test_a_working_day_stays_one(begin: int, end: int, clock: str) -> None:
    said = f"every hour from {clock.format(begin)} to {clock.format(end)}"
    assert times_of(in_utc(said)) == times_between(begin * 60, begin * 60 + ((end - begin) % 12 * 60 or 720), 60)


@pytest.mark.parametrize(
    ("words", "begin", "end"),
    [
        ("midnight to 5", 0, 5),
        ("midnight to 6", 0, 6),
        ("midnight to 12", 0, 12),
        ("noon to 5", 12, 17),
        ("5 to noon", 5, 12),
        ("5 to midnight", 17, 0),
        ("22:00 to noon", 22, 12),
        ("1:00 to 05:00", 1, 5),
        ("5 to 06:00", 5, 6),
        ("8 to 18", 8, 18),
        ("3 to 15", 3, 15),
        ("12 to 0", 12, 0),
        ("2 to 4", 14, 16),
        ("5 to 7", 17, 19),
    ],
)
def test_one_reading_is_taken(words: str, begin: int, end: int) -> None:
    assert times_of(in_utc(f"every hour from {words}")) == times_between(begin * 60, end * 60, 60)


@pytest.mark.parametrize(
    ("words", "readings"),
    [
        ("from 5 to 1", ("from 05:00 to 13:00", "from 17:00 to 01:00")),
        ("from 5 to 5", ("from 05:00 to 17:00", "from 17:00 to 05:00")),
        ("between 1 and 12", ("from 01:00 to 12:00", "from 13:00 to 00:00")),
        ("from 9 to midnight", ("from 09:00 to 00:00", "from 21:00 to 00:00")),
        ("from 09:00 to 5:00", ("from 09:00 to 05:00", "from 09:00 to 17:00")),
        ("from 10 to 06:00", ("from 10:00 to 06:00", "from 22:00 to 06:00")),
    ],
)
def test_two_readings_are_refused_with_both(words: str, readings: tuple[str, str]) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse(f"every 2 hours {words} for 3 weeks", timezone="UTC", now=NOW)
    assert refused.value.meant == tuple(f"every 2 hours {reading} for 3 weeks" for reading in readings)
    assert re.search(f'"{words}" can be {readings[0]} or {readings[1]}', refused.value.message)


@pytest.mark.parametrize("zone", ["utc", "UTC", ", UTC", "gmt"])
@pytest.mark.parametrize(
    ("words", "begin", "end"), [("from 1:00 to 4:00", 1, 4), ("from 3 to 11", 3, 11), ("between 2:00 and 22:00", 2, 22)]
)
def test_in_utc_both_ends_are_on_the_24_hour_clock(words: str, begin: int, end: int, zone: str) -> None:
    assert times_of(in_utc(f"every hour {words} {zone}".replace(" ,", ","))) == times_between(begin * 60, end * 60, 60)
    with pytest.raises(InvalidSchedule, match="can be from 09:00 to 05:00 or from 09:00 to 17:00"):
        in_utc(f"every hour from 9:00 to 5:00 {zone}".replace(" ,", ","))


@pytest.mark.parametrize("begin", ["2200 hours", "22:00:00", "22h00", "10pm"])
@pytest.mark.parametrize("end", ["0600 hours", "06:00:00", "06h00", "0600h"])
@pytest.mark.parametrize("words", ["from {} to {}", "from {} until {}"])
def test_hours_in_other_words_are_refused_with_both_readings(words: str, begin: str, end: str) -> None:
    """Never taken silently for a start today and an end tomorrow."""
    said = words.format(begin, end)
    with pytest.raises(InvalidSchedule) as refused:
        parse(f"every hour {said} utc", timezone="UTC", now=NOW)
    assert refused.value.meant == (
        "every hour from 22:00 to 06:00 utc",
        "every hour starting 2026-11-15 at 22:00 until 2026-11-16 at 06:00 utc",
    )


@pytest.mark.parametrize(
    "said",
    [
        "every day from 2200 hours to 0600 hours",
        "every hour from half past 9 to half past 6",
        "every hour from 10 o'clock to 6 o'clock",
        "every hour from 2200 hours to 0600 hours on weekdays",
    ],
)
def test_where_only_one_of_two_readings_could_be_suggested_none_is(said: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        in_utc(said)
    assert refused.value.meant == ()


def test_a_day_beside_a_time_makes_it_a_start_and_an_end() -> None:
    understood = in_utc("every hour from tomorrow at 9am to friday at 5pm")
    assert (understood.starts_at, understood.ends_at) == (
        datetime(2026, 11, 16, 9, tzinfo=UTC),
        datetime(2026, 11, 20, 17, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "words", ["from 22:00 to 22:00", "from 06:00 to 6:00", "from 10pm to 22:00", "from 25:00 to 6:00", "from 13pm to 6"]
)
def test_hours_that_there_are_not_are_refused(words: str) -> None:
    with pytest.raises(InvalidSchedule):
        in_utc(f"every hour {words}")

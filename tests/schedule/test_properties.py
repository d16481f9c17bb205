"""What holds for every schedule and every text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wakeful.errors import InvalidSchedule
from wakeful.schedule import Understood, describe, duration, parse, schedule, zone
from wakeful.schedule.cron import Cron

from .helpers import BERLIN, NOW, QUICK, say

ZONES = st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia"])
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2045, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 bounds are naive
TINY = timedelta(microseconds=1)


def fields(low: int, high: int, *more: str) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    step = st.integers(1, 40)
    item = st.one_of(
        st.just("*"),
        number.map(str),
        st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}"),
        step.map(lambda n: f"*/{n}"),
        st.tuples(number, step).map(lambda pair: f"{pair[0]}/{pair[1]}"),
        *([st.sampled_from(more)] if more else []),
    )
    return st.one_of(item, st.lists(number.map(str), min_size=2, max_size=4).map(",".join))


WEEKDAYS = fields(0, 6, "MON#2", "5L", "fri", "mon-fri", "5-7", "sat-sun")
EXPRESSIONS = st.tuples(
    fields(0, 59), fields(0, 23), fields(1, 31, "L", "15W", "1W", "1,L"), fields(1, 12, "FEB", "jun-aug"), WEEKDAYS
).map(" ".join)


@QUICK
@given(EXPRESSIONS, ZONES, MOMENTS, st.integers(0, 10**6))
def test_nothing_fires_between_a_moment_and_its_next_fire(expr: str, name: str, moment: datetime, part: int) -> None:
    fire = _fresh(expr, name).after(moment)
    assume(fire is not None)
    assert fire is not None
    assert fire > moment
    between = moment + (fire - moment) * part // (10**6 + 1)
    for earlier in (between, fire - TINY, moment):
        assert _fresh(expr, name).after(earlier) == fire
    later = _fresh(expr, name).after(fire)
    assert later is None or later > fire


def _fresh(expr: str, name: str) -> Cron:
    """A schedule that remembers nothing; dates that never come are no test."""
    try:
        return Cron(expr, zone(name))
    except InvalidSchedule:
        assume(False)
        raise


@QUICK
@given(EXPRESSIONS, ZONES, st.lists(MOMENTS, min_size=2, max_size=8))
def test_what_a_schedule_remembers_never_changes_its_answer(expr: str, name: str, moments: list[datetime]) -> None:
    shared = _fresh(expr, name)
    for moment in moments:
        fire = shared.after(moment)
        asked = [moment] if fire is None else [moment, fire - TINY, fire, moment - timedelta(days=3), fire + TINY]
        for again in asked:
            assert shared.after(again) == _fresh(expr, name).after(again)


@QUICK
@given(st.integers(1000, 10**9), MOMENTS, MOMENTS)
def test_every_is_a_whole_number_of_periods_after_its_anchor(millis: int, anchor: datetime, moment: datetime) -> None:
    fire = schedule(f"@every {millis}ms", anchor=anchor).after(moment)
    assert fire is not None
    start = anchor.replace(microsecond=anchor.microsecond // 1000 * 1000)
    assert (fire - start) % timedelta(milliseconds=millis) == timedelta(0)
    assert fire > moment
    assert fire - timedelta(milliseconds=millis) <= max(moment, start)


def _understood(phrase: str, name: str, now: datetime) -> Understood:
    try:
        return parse(phrase, timezone=name, now=now)
    except InvalidSchedule:
        assume(False)
        raise


CLOCKS = st.sampled_from(
    ["", " at 9am", " at 17:30", " at noon", " at 3:15pm", " at 9am and 5pm", " at 6:05", " at 9:00:30"]
)
DAYS = st.sampled_from(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
NTHS = st.sampled_from(["first", "second", "third", "fourth", "fifth", "last", "first and third", "2nd and last"])
MONTHS = st.sampled_from(["january", "feb", "march", "june", "sept", "october", "december"])
RHYTHMS = st.one_of(
    st.tuples(
        st.sampled_from(["every day", "every weekday", "weekends", "daily", "mondays", "monday through thursday"]),
        CLOCKS,
    ),
    st.tuples(st.lists(DAYS, min_size=1, max_size=7).map(lambda days: "every " + " and ".join(days)), CLOCKS),
    st.tuples(st.integers(1, 31).map(lambda day: f"the {day}th of every month"), CLOCKS),
    st.tuples(st.builds("{} {} of every month".format, NTHS, DAYS), CLOCKS),
    st.tuples(st.builds("every {} {}".format, MONTHS, st.integers(1, 28)), CLOCKS),
    st.tuples(st.builds("every year on the {} {} of {}".format, NTHS, DAYS, MONTHS), CLOCKS),
    st.tuples(st.builds("every {} {}".format, st.integers(1, 500), st.sampled_from(["seconds", "minutes", "hours"]))),
    st.tuples(
        st.sampled_from(["every second", "every minute", "hourly", "the last day of every month", "every half hour"])
    ),
).map("".join)


@QUICK
@given(RHYTHMS, ZONES)
def test_the_words_for_a_rhythm_mean_that_rhythm(phrase: str, name: str) -> None:
    understood = _understood(phrase, name, NOW)
    again = parse(describe(understood.cron_expr, understood.timezone), now=NOW)
    assert (again.cron_expr, again.timezone) == (understood.cron_expr, understood.timezone)
    assert again.description == understood.description


MOMENT_PHRASES = st.one_of(
    st.integers(1, 10**6).map(lambda n: f"in {n} seconds"),
    st.integers(1, 400).map(lambda n: f"in {n} days"),
    st.integers(1, 10**10).map(lambda n: f"in {n / 1000:.3f} seconds"),
    st.builds("{}{}".format, DAYS, st.sampled_from(["", " at 3pm", " at 02:30", " at noon", " night at 10"])),
    MOMENTS.filter(lambda moment: moment > NOW).map(lambda moment: moment.isoformat(timespec="milliseconds")),
)


@QUICK
@given(MOMENT_PHRASES, ZONES, st.datetimes(NOW.replace(tzinfo=None), datetime(2030, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 bounds are naive
def test_the_words_for_a_moment_mean_that_moment(phrase: str, name: str, now: datetime) -> None:
    understood = _understood(phrase, name, now)
    assert parse(understood.description, now=now).fire_at == understood.fire_at


def test_words_for_the_second_of_two_equal_clock_times_carry_the_offset() -> None:
    second_pass = say("2027-10-31T01:30:00Z")
    assert second_pass.description == "on Sunday 31 October 2027 at 02:30 +0100, Europe/Berlin"
    assert say(second_pass.description).fire_at == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)


def _only_refuses(text: str) -> None:
    try:
        understood = say(text)
    except InvalidSchedule:
        return
    assert isinstance(understood, Understood)
    assert all(fire > NOW for fire in understood.next(3))
    assert understood.description
    assert understood.remarks is not None


@QUICK
@given(st.text(max_size=320))
def test_any_text_is_understood_or_refused(text: str) -> None:
    _only_refuses(text)


WORDS = st.sampled_from(
    [
        *(
            "in",
            "at",
            "on",
            "the",
            "next",
            "this",
            "every",
            "each",
            "of",
            "and",
            "from",
            "now",
            "to",
            "until",
            "a",
            "an",
        ),
        *("1", "2nd", "3pm", "15:30", "9", "12", "31", "30m", "2027", "11/20", "2026-11-20", "0", "00:00", "99", "1.5"),
        *("noon", "midnight", "monday", "fridays", "weekday", "march", "feb", "tomorrow", "tonight", "morning", "am"),
        *("day", "week", "month", "hours", "minutes", "second", "half", "quarter", "past", "last", "first", "couple"),
        *("@every", "*", "*/5", "?", "L", "5L", "MON#2", "TZ=UTC", "UTC", "EST", "Europe/Berlin", "+02:00", "z", "t"),
        *(",", "-", ".", "/", ":"),
    ]
)


@QUICK
@given(st.lists(WORDS, max_size=9).map(" ".join))
def test_any_heap_of_known_words_is_understood_or_refused(text: str) -> None:
    _only_refuses(text)


GOOD = [
    "in 2 hours and 30 minutes",
    "2nd friday of march at 9am",
    "every monday and thursday at 3:15pm",
    "2026-11-20T15:00:00Z",
]
GOOD += [
    "0 9 * * 1-5",
    "@every 1h30m",
    "DTSTART;TZID=Europe/Berlin:20270105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,FR;COUNT=5 EXDATE:20270119",
    "FREQ=MONTHLY;BYDAY=1FR,-1MO;BYHOUR=9,17;BYSETPOS=-1;UNTIL=20280101T000000Z",
    "every 2 weeks on Tuesday at 09:00, counted from 5 January 2027 at 09:00, until 1 May 2028",
    "last friday of the month at 5pm",
    "quarter to 5",
    "tomorrow at 9am Europe/Berlin",
]


@QUICK
@given(st.sampled_from(GOOD), st.integers(0, 60), st.integers(0, 4), st.text(max_size=3))
def test_any_good_phrase_gone_wrong_is_understood_or_refused(phrase: str, at: int, cut: int, put: str) -> None:
    _only_refuses(phrase[:at] + put + phrase[at + cut :])


@QUICK
@given(st.one_of(st.text(max_size=90), st.floats(), st.integers()))
def test_any_duration_is_understood_or_refused(text: str | float) -> None:
    try:
        length = duration(text)
    except InvalidSchedule:
        return
    assert timedelta(0) < length <= timedelta(days=36_600)


@pytest.mark.parametrize("phrase", GOOD)
def test_the_good_phrases_are_good(phrase: str) -> None:
    assert say(phrase).next(1)


@QUICK
@given(EXPRESSIONS)
def test_any_schedule_can_be_described(expr: str) -> None:
    _fresh(expr, "UTC")
    assert describe(expr).endswith(", UTC")

"""Phrases for one moment. It is Sunday 15 November 2026, 09:00 in Berlin."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import parse

from .helpers import BERLIN, NOW, local, say


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("in 30 minutes", "2026-11-15 09:30"),
        ("2 hours and 30 minutes from now", "2026-11-15 11:30"),
        ("half an hour", "2026-11-15 09:30"),
        ("in an hour and a half", "2026-11-15 10:30"),
        ("in three-quarters of an hour", "2026-11-15 09:45"),
        ("in 2h30m", "2026-11-15 11:30"),
        ("in 1.5 hours", "2026-11-15 10:30"),
        ("a couple of hours from now", "2026-11-15 11:00"),
        ("thirty-three days from now", "2026-12-18 09:00"),
        ("in 3 days at 5pm", "2026-11-18 17:00"),
        ("in a week", "2026-11-22 09:00"),
        ("in two months", "2027-01-15 09:00"),
        ("in 1d, 2hr, and 5min", "2026-11-16 11:05"),
        ("3 weeks from tomorrow", "2026-12-07 09:00"),
        ("2 weeks from january 15", "2027-01-29 09:00"),
        ("a week from friday", "2026-11-27 09:00"),
        ("2 fridays from now", "2026-11-27 09:00"),
    ],
)
def test_an_offset(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("today at 5pm", "2026-11-15 17:00"),
        ("tomorrow", "2026-11-16 09:00"),
        ("the day after tomorrow at noon", "2026-11-17 12:00"),
        ("tonight", "2026-11-15 21:00"),
        ("tonight at 8", "2026-11-15 20:00"),
        ("tonight at 1am", "2026-11-16 01:00"),
        ("this afternoon", "2026-11-15 15:00"),
        ("this evening at 7", "2026-11-15 19:00"),
        ("tomorrow morning at 5:30", "2026-11-16 05:30"),
        ("at 5 tomorrow afternoon", "2026-11-16 17:00"),
        ("friday", "2026-11-20 09:00"),
        ("on friday at 3pm", "2026-11-20 15:00"),
        ("next sunday", "2026-11-22 09:00"),
        ("sunday at 10am", "2026-11-15 10:00"),
        ("sunday at 8am", "2026-11-22 08:00"),
        ("tuesday next week", "2026-11-17 09:00"),
        ("next week on thursday at 14:00", "2026-11-19 14:00"),
        ("saturday night at 11", "2026-11-21 23:00"),
    ],
)
def test_a_day_in_words(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("aug 3", "2027-08-03 09:00"),
        ("3rd of august 2027", "2027-08-03 09:00"),
        ("dec 24 at 18:00", "2026-12-24 18:00"),
        ("Friday, 20 November 2026, 15:00", "2026-11-20 15:00"),
        ("20-nov-2026", "2026-11-20 09:00"),
        ("2026-11-20", "2026-11-20 09:00"),
        ("2026-11-20T15:00", "2026-11-20 15:00"),
        ("2026-11-20 15:00:30", "2026-11-20 15:00"),
        ("2026-11-20T15:00:00Z", "2026-11-20 16:00"),
        ("2026-11-20T15:00:00-05:00", "2026-11-20 21:00"),
        ("20261120T150000Z", "2026-11-20 16:00"),
        ("11/20", "2026-11-20 09:00"),
        ("11/20/2026 at 4", "2026-11-20 16:00"),
        ("22/4", "2027-04-22 09:00"),
        ("the 20th", "2026-11-20 09:00"),
        ("the 3rd", "2026-12-03 09:00"),
        ("the 31st", "2026-12-31 09:00"),
        ("20th of next month", "2026-12-20 09:00"),
        ("2nd friday of march", "2027-03-12 09:00"),
        ("last friday of october 2027", "2027-10-29 09:00"),
        ("last day of february", "2027-02-28 09:00"),
        ("feb 29", "2028-02-29 09:00"),
        ("Thu Oct 28 11:00:09 2027", "2027-10-28 11:00"),
    ],
)
def test_a_date(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("9:30am", "2026-11-15 09:30"),
        ("8am", "2026-11-16 08:00"),
        ("15:30", "2026-11-15 15:30"),
        ("noon", "2026-11-15 12:00"),
        ("midnight", "2026-11-16 00:00"),
        ("half past 2", "2026-11-15 14:30"),
        ("quarter to 5", "2026-11-15 16:45"),
        ("20 minutes past 3pm", "2026-11-15 15:20"),
        ("seven thirty p.m.", "2026-11-15 19:30"),
        ("at three twenty", "2026-11-15 15:20"),
        ("five thirty on friday", "2026-11-20 17:30"),
        ("12 noon", "2026-11-15 12:00"),
        ("at 5", "2026-11-15 17:00"),
        ("at 6", "2026-11-16 06:00"),
        ("at 11", "2026-11-15 11:00"),
        ("at 12", "2026-11-15 12:00"),
        ("at 05:00", "2026-11-16 05:00"),
        ("at 0930", "2026-11-15 09:30"),
        ("at 8 in the evening", "2026-11-15 20:00"),
        ("12:15 in the afternoon", "2026-11-15 12:15"),
        ("12am", "2026-11-16 00:00"),
        ("9am America/New_York", "2026-11-15 09:00"),
        ("9am EST", "2026-11-15 09:00"),
    ],
)
def test_a_time_of_day(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


def test_the_31st_plus_a_month_is_the_last_day_of_a_shorter_one() -> None:
    january = datetime(2027, 1, 31, 12, tzinfo=UTC)
    assert local("in 1 month", now=january) == "2027-02-28 13:00"
    assert local("in 2 months", now=january) == "2027-03-31 13:00"
    assert local("in 13 months", now=january) == "2028-02-29 13:00"


def test_unix_seconds() -> None:
    assert say("1795186800").fire_at == datetime.fromtimestamp(1795186800, UTC)
    assert say("1795186800.25").fire_at == datetime.fromtimestamp(1795186800.25, UTC)


def test_nothing_is_finer_than_a_millisecond() -> None:
    assert say("in 1 minute", now=NOW + timedelta(microseconds=1234)).fire_at == NOW + timedelta(
        seconds=60, milliseconds=1
    )
    iso = say("2026-11-20T15:00:00.1239Z").fire_at
    assert iso is not None
    assert iso.microsecond == 123_000


def test_a_date_without_a_time_takes_the_one_that_is_set() -> None:
    fire_at = say("tomorrow", timezone="UTC", default_time=time(7, 30)).fire_at
    assert fire_at == datetime(2026, 11, 16, 7, 30, tzinfo=UTC)


def test_odd_spaces_case_and_signs_do_not_matter() -> None:
    assert local("  TOMORROW\tat\u00a09\u202fAM. ") == "2026-11-16 09:00"
    assert local("3 o’clock pm") == "2026-11-15 15:00"


def test_the_zone_said_is_the_zone_meant() -> None:
    understood = say("tomorrow at 9am America/New_York")
    assert understood.timezone == "America/New_York"
    assert understood.fire_at == datetime(2026, 11, 16, 14, tzinfo=UTC)


def test_a_single_moment_comes_once() -> None:
    understood = say("tomorrow at 9am")
    assert understood.kind == "once"
    assert understood.cron_expr == ""
    assert understood.next(3) == [understood.fire_at]
    assert understood.next(after=NOW + timedelta(days=2)) == []
    assert understood.next(0) == []


def test_a_fire_is_always_ahead() -> None:
    assert say("sunday at 9:01").fire_at == NOW + timedelta(minutes=1)
    with pytest.raises(InvalidSchedule, match="past"):
        say("today at 09:00")


def test_a_zone_without_now_is_not_asked_of_the_machine() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say("at 5", now=NOW.replace(tzinfo=None))
    assert refused.value.field == "now"


def test_understood_carries_now_and_the_zone() -> None:
    understood = say("in 5 minutes")
    assert understood.now == NOW
    assert understood.timezone == BERLIN


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("10 to 8pm", "2015-05-09T19:50"),
        ("at 10 to 8 p.m.", "2015-05-09T19:50"),
        ("tomorrow 10 to 8pm", "2015-05-10T19:50"),
        ("5 to 4pm", "2015-05-09T15:55"),
        ("next hour", "2015-05-09T10:00"),
        ("in the next minute", "2015-05-09T09:01"),
    ],
)
def test_minutes_to_an_hour_and_the_next_hour_are_understood(text: str, means: str) -> None:
    found = parse(text, now=datetime(2015, 5, 9, 9, tzinfo=UTC))
    assert found.fire_at == datetime.fromisoformat(f"{means}+00:00")


@pytest.mark.parametrize("text", ["9 to 5pm", "5 to 8pm", "10 to 11pm", "10 to 8", "12 to 8pm", "every day 10 to 8pm"])
def test_what_may_be_from_one_hour_to_another_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule):
        parse(text, now=datetime(2015, 5, 9, 9, tzinfo=UTC))


def test_hours_of_a_series_are_never_minutes_to_one() -> None:
    now = datetime(2015, 5, 9, 9, tzinfo=UTC)
    assert parse("every hour 10 to 8pm", now=now).description == "every hour from 10:00 to 20:00, UTC"


@pytest.mark.parametrize("text", ["tuesday", "aug 3", "every tuesday"])
def test_the_time_of_a_bare_day_is_chosen_also_in_what_is_suggested(text: str) -> None:
    now, noon = datetime(2015, 5, 9, 9, tzinfo=UTC), time(12)
    assert parse(text, now=now, default_time=noon).next(1)[0].time() == noon
    with pytest.raises(InvalidSchedule) as refused:
        parse("tusday", now=now, default_time=noon)
    assert "(Tue 12 May 12:00)" in str(refused.value)

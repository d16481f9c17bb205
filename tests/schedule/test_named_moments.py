"""Now, ISO 8601 lengths, so long before or after something, places, and dates with two readings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import parse

from .helpers import BERLIN, NOW, local, say


@pytest.mark.parametrize("phrase", ["now", "right now", "Right away!", "immediately", "at once", "asap"])
def test_now_is_the_next_moment(phrase: str) -> None:
    assert say(phrase).fire_at == NOW + timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("PT15M", "2026-11-15 09:15"),
        ("pt1h30m", "2026-11-15 10:30"),
        ("PT0.5H", "2026-11-15 09:30"),
        ("PT1,5H", "2026-11-15 10:30"),
        ("P1D", "2026-11-16 09:00"),
        ("P1DT2H", "2026-11-16 11:00"),
        ("P2W", "2026-11-29 09:00"),
        ("P1M", "2026-12-15 09:00"),
        ("P1Y2M", "2028-01-15 09:00"),
    ],
)
def test_an_iso_length_is_counted_from_now(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


def test_a_day_by_iso_keeps_the_time_of_day_when_clocks_change() -> None:
    before = datetime(2027, 3, 27, 8, tzinfo=UTC)  # 09:00; clocks go forward in the night
    assert local("P1D", now=before) == "2027-03-28 09:00"
    assert local("PT24H", now=before) == "2027-03-28 10:00"


@pytest.mark.parametrize("phrase", ["PT", "P", "PT15", "P1H", "P0D", "PT0S", "P1.5D", "P-1D", "P1DT", "PT1M1H"])
def test_what_is_almost_an_iso_length_is_refused(phrase: str) -> None:
    with pytest.raises(InvalidSchedule):
        say(phrase)


@pytest.mark.parametrize(
    ("text", "expr", "timezone"),
    [
        ("R5/2027-01-01T09:00Z/P1D", "DTSTART:20270101T090000 RRULE:FREQ=DAILY;COUNT=5", "UTC"),
        ("R/2027-01-01T09:00/P1W", "DTSTART:20270101T090000 RRULE:FREQ=WEEKLY", BERLIN),
        ("R3/2027-01-01T09:00:00+01:00/P1M", "DTSTART:20270101T090000 RRULE:FREQ=MONTHLY;COUNT=3", BERLIN),
        ("R3/2027-01-01T09:00:00-05:00/P1Y", "DTSTART:20270101T140000 RRULE:FREQ=YEARLY;COUNT=3", "UTC"),
        ("r2/20270101T0900Z/pt36h", "DTSTART:20270101T090000 RRULE:FREQ=HOURLY;INTERVAL=36;COUNT=2", "UTC"),
        ("R5/PT15M", "RRULE:FREQ=MINUTELY;INTERVAL=15;COUNT=5", "UTC"),
        ("R/PT90S", "@every 90s", BERLIN),
    ],
)
def test_a_repeating_interval_is_a_series(text: str, expr: str, timezone: str) -> None:
    understood = say(text)
    assert (understood.kind, understood.cron_expr, understood.timezone) == ("cron", expr, timezone)


def test_a_repeating_interval_fires_at_its_start_and_so_often() -> None:
    first = datetime(2027, 1, 1, 9, tzinfo=UTC)
    assert say("R5/2027-01-01T09:00Z/P1D").next(9) == [first + timedelta(days=n) for n in range(5)]


def test_hours_of_a_repeating_interval_are_elapsed_when_clocks_change() -> None:
    first, second, third = say("R3/2027-03-27T20:00/PT12H").next(3)
    assert first == datetime(2027, 3, 27, 19, tzinfo=UTC)
    assert (second - first, third - second) == (timedelta(hours=12), timedelta(hours=12))


@pytest.mark.parametrize(
    "text",
    ["R5/x", "R0/P1D", "R9999/P1D", "R5/2027-01-01/P1D", "R5/P1D/2027-01-01", "R5/2027-13-01T09:00/P1D", "R/P1DT1H"],
)
def test_a_repeating_interval_that_says_too_little_is_refused_as_a_series(text: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say(text)
    assert '"in ' not in refused.value.fix


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("5 minutes before 3pm", "2026-11-15 14:55"),
        ("an hour before 3pm", "2026-11-15 14:00"),
        ("an hour before 9:30am", "2026-11-16 08:30"),  # today's is over
        ("an hour after tomorrow noon", "2026-11-16 13:00"),
        ("90 minutes before tomorrow at noon", "2026-11-16 10:30"),
        ("an hour and a half before friday at 5pm", "2026-11-20 15:30"),
        ("half an hour from tomorrow at noon", "2026-11-16 12:30"),
        ("two days before 1 december", "2026-11-29 09:00"),
        ("2 days before 1 december at 17:00", "2026-11-29 17:00"),
        ("a month before 31 december", "2026-11-30 09:00"),
        ("the day before 1 december", "2026-11-30 09:00"),
        ("the week after 1 december at 5pm", "2026-12-08 17:00"),
        ("1 day and 2 hours before 1 december at noon", "2026-11-30 10:00"),
        ("3 hours before 2026-11-20T15:00", "2026-11-20 12:00"),
    ],
)
def test_so_long_before_or_after_something(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


def test_days_before_keep_the_time_of_day_and_hours_are_elapsed_when_clocks_change() -> None:
    early = datetime(2027, 3, 1, tzinfo=UTC)
    assert local("2 days before 29 march at 9am", now=early) == "2027-03-27 09:00"
    assert local("12 hours before 28 march at 9am", now=early) == "2027-03-27 20:00"
    assert say("2 days before 29 march at 9am", now=early).wall_time == "2027-03-27T09:00:00"


@pytest.mark.parametrize(
    "phrase",
    ["2 days before tomorrow", "an hour before today at 9:30", "an hour before tomorrow", "2 days before christmas"],
)
def test_before_something_is_refused_where_it_is_past_or_not_clear(phrase: str) -> None:
    with pytest.raises(InvalidSchedule):
        say(phrase)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("tomorrow after 4pm", "2026-11-16 16:00"),
        ("wednesday after next", "2026-11-25 09:00"),
        ("sunday after next at noon", "2026-11-29 12:00"),
        ("tomorrow's", "2026-11-16 09:00"),
        ("a wk", "2026-11-22 09:00"),
        ("in a hundred days", "2027-02-23 09:00"),
        ("one hundred and twenty minutes from now", "2026-11-15 11:00"),
        ("two thousand five hundred minutes from now", "2026-11-17 02:40"),
        ("september-2027-23", "2027-09-23 09:00"),
        ("2027/23/sep", "2027-09-23 09:00"),
        ("2026-11-20 15:30:30:000536", "2026-11-20 15:30"),
    ],
)
def test_other_ways_to_say_it(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


@pytest.mark.parametrize("phrase", ["after 5", "a m", "hundred", "a hundred", "tomorrow after", "2027/13/sept/3"])
def test_what_only_looks_like_them_is_refused(phrase: str) -> None:
    with pytest.raises(InvalidSchedule):
        say(phrase)


@pytest.mark.parametrize(
    ("phrase", "utc", "timezone"),
    [
        ("9am Berlin time", "2026-11-16 08:00", "Europe/Berlin"),
        ("tomorrow at 9am, new york time", "2026-11-16 14:00", "America/New_York"),
        ("3pm in new york", "2026-11-15 20:00", "America/New_York"),
        ("tomorrow noon in Tokyo", "2026-11-16 03:00", "Asia/Tokyo"),
        ("9am pacific time", "2026-11-15 17:00", "America/Los_Angeles"),
        ("9am San Francisco time", "2026-11-15 17:00", "America/Los_Angeles"),
        ("tomorrow at 9am europe/london", "2026-11-16 09:00", "Europe/London"),
        ("tomorrow at 9am AMERICA/NEW_YORK", "2026-11-16 14:00", "America/New_York"),
    ],
)
def test_a_place_says_the_zone(phrase: str, utc: str, timezone: str) -> None:
    understood = say(phrase)
    assert understood.timezone == timezone
    assert f"{understood.fire_at:%Y-%m-%d %H:%M}" == utc


def test_a_place_says_the_zone_of_a_series_too() -> None:
    understood = say("every weekday at 9am in new york")
    assert (understood.cron_expr, understood.timezone) == ("0 9 * * 1-5", "America/New_York")


@pytest.mark.parametrize("phrase", ["9am Atlantis time", "9am EST time", "9am in the end", "in Berlin", "Berlin time"])
def test_a_place_that_is_not_known_is_refused(phrase: str) -> None:
    with pytest.raises(InvalidSchedule):
        say(phrase)


@pytest.mark.parametrize("name", ["europe/berlin", "EUROPE/BERLIN", "Europe/berlin"])
def test_a_time_zone_is_accepted_in_any_case_and_kept_as_the_data_writes_it(name: str) -> None:
    assert parse("tomorrow at 9am", timezone=name, now=NOW).timezone == "Europe/Berlin"
    assert parse(f"CRON_TZ={name} 0 9 * * *", now=NOW).timezone == "Europe/Berlin"


TWO_READINGS = [
    ("03/04/2027", "2027-03-04", "2027-04-03"),
    ("9.8.2027", "2027-09-08", "2027-08-09"),
    ("3-4-2027", "2027-03-04", "2027-04-03"),
    ("1/2", "2027-01-02", "2027-02-01"),
    ("on 5/12 at 4pm", "2027-05-12", "2026-12-05"),
]


@pytest.mark.parametrize(("phrase", "month_first", "day_first"), TWO_READINGS)
def test_a_date_with_two_readings_is_refused_with_both(phrase: str, month_first: str, day_first: str) -> None:
    with pytest.raises(InvalidSchedule, match="date_order") as refused:
        say(phrase)
    offered = [local(said)[:10] for said in refused.value.fix.split('"')[1::2]]
    assert offered == [month_first, day_first]
    if "4pm" in phrase:
        assert refused.value.fix.count("at 4pm") == 2


@pytest.mark.parametrize(("phrase", "month_first", "day_first"), TWO_READINGS)
def test_the_order_that_is_set_decides(phrase: str, month_first: str, day_first: str) -> None:
    for order, expected in (("mdy", month_first), ("dmy", day_first)):
        found = parse(phrase, timezone=BERLIN, now=NOW, date_order=order).fire_at
        assert f"{found:%Y-%m-%d}" == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("11/20", "2026-11-20 09:00"),
        ("22/4", "2027-04-22 09:00"),
        ("22.4.2027", "2027-04-22 09:00"),
        ("8.13.2027", "2027-08-13 09:00"),
        ("1/1", "2027-01-01 09:00"),
        ("thursday 03/04/2027", "2027-03-04 09:00"),  # 3 April is a Saturday
        ("saturday 03/04/2027", "2027-04-03 09:00"),
    ],
)
def test_a_date_with_one_reading_needs_no_order(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


def test_an_order_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidSchedule) as refused:
        parse("tomorrow", now=NOW, date_order="ymd")
    assert refused.value.field == "date_order"

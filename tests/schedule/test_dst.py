"""What schedules do where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime

from wakeful.schedule import schedule

from .helpers import BERLIN, fires, local, say


def test_a_fixed_time_in_a_gap_fires_once_at_its_end() -> None:
    assert fires("30 2 * * *", "2027-03-27T12:00:00+01:00", 2, BERLIN) == [
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:30:00+02:00",
    ]


def test_several_fixed_times_in_one_gap_fire_once() -> None:
    assert fires("0,20,40 2 * * *", "2027-03-28T01:00:00+01:00", 2, BERLIN) == [
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:00:00+02:00",
    ]


def test_a_fixed_time_at_the_end_of_the_gap_does_not_fire_twice() -> None:
    assert fires("0 2,3 * * *", "2027-03-28T01:00:00+01:00", 2, BERLIN) == [
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:00:00+02:00",
    ]


def test_a_fixed_time_that_happens_twice_fires_the_first_time_only() -> None:
    assert fires("30 2 * * *", "2027-10-30T12:00:00+02:00", 2, BERLIN) == [
        "2027-10-31T02:30:00+02:00",
        "2027-11-01T02:30:00+01:00",
    ]


def test_asked_during_the_second_pass_a_fixed_time_waits_for_the_next_day() -> None:
    assert fires("50 2 * * *", "2027-10-31T02:05:00+01:00", 1, BERLIN) == ["2027-11-01T02:50:00+01:00"]


def test_asked_during_the_second_pass_a_time_after_it_still_comes() -> None:
    assert fires("0 3 * * *", "2027-10-31T02:05:00+01:00", 1, BERLIN) == ["2027-10-31T03:00:00+01:00"]


def test_a_wildcard_does_not_fire_in_a_gap() -> None:
    assert fires("*/30 * * * *", "2027-03-28T01:20:00+01:00", 2, BERLIN) == [
        "2027-03-28T01:30:00+01:00",
        "2027-03-28T03:00:00+02:00",
    ]


def test_a_wildcard_fires_in_both_passes_of_a_repeated_hour() -> None:
    assert fires("*/30 * * * *", "2027-10-31T02:00:00+02:00", 4, BERLIN) == [
        "2027-10-31T02:30:00+02:00",
        "2027-10-31T02:00:00+01:00",
        "2027-10-31T02:30:00+01:00",
        "2027-10-31T03:00:00+01:00",
    ]


def test_a_wildcard_carries_the_second_pass_no_further_than_its_own_night() -> None:
    # Both 1 November 2026 and 1 November 2037 repeat the hour from one to two in New York.
    assert fires("*/30 1 1 11 *", "2026-11-01T01:30:00-05:00", 1, "America/New_York") == ["2027-11-01T01:00:00-04:00"]
    assert fires("*/30 1 1 11 *", "2036-11-02T01:30:00-05:00", 1, "America/New_York") == ["2037-11-01T01:00:00-04:00"]


def test_a_half_hour_change_is_a_change() -> None:
    assert fires("15 2 * * *", "2026-10-03T23:00:00+10:30", 1, "Australia/Lord_Howe") == ["2026-10-04T02:30:00+11:00"]


def test_a_day_that_did_not_exist_fires_when_the_next_one_begins() -> None:
    assert fires("0 9 * * *", "2011-12-29T21:00:00-10:00", 2, "Pacific/Apia") == [
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T09:00:00+14:00",
    ]


def test_elapsed_time_does_not_care_about_clocks() -> None:
    anchor = datetime(2027, 3, 28, 0, tzinfo=UTC)
    assert schedule("@every 90m", BERLIN, anchor=anchor).after(anchor) == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)


def test_a_phrase_for_a_time_in_a_gap_means_its_end_and_says_so() -> None:
    assert local("2027-03-28 02:30") == "2027-03-28 03:00"
    assert say("march 28 2027 at 02:30").remarks == (
        "02:30 does not exist on 2027-03-28 in Europe/Berlin: it fires at 03:00.",
    )


def test_a_phrase_for_a_time_that_happens_twice_means_the_first_and_says_so() -> None:
    understood = say("31 october 2027 at 02:30")
    assert understood.fire_at == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    assert understood.remarks == ("02:30 happens twice on 2027-10-31 in Europe/Berlin: the first one is meant.",)


def test_hours_are_elapsed_time_and_days_keep_the_wall_clock() -> None:
    before = datetime(2027, 3, 27, 12, tzinfo=UTC)  # 13:00 in Berlin, clocks change in the night
    assert local("in 24 hours", now=before) == "2027-03-28 14:00"
    assert local("in 1 day", now=before) == "2027-03-28 13:00"


def test_a_schedule_says_what_clock_changes_of_the_year_ahead_do_to_it() -> None:
    fixed, wild, untouched = say("30 2 * * *"), say("every 15 minutes"), say("every day at 9am")
    assert fixed.remarks == (
        "On 2027-03-28 clocks in Europe/Berlin go forward and 02:00 to 03:00 does not happen: it fires once, at 03:00.",
        "On 2027-10-31 clocks in Europe/Berlin go back and 02:00 to 03:00 happens twice: it fires the first time only.",
    )
    assert [remark.rpartition(": ")[2] for remark in wild.remarks] == ["nothing fires in it.", "it fires both times."]
    assert untouched.remarks == ()


def test_a_schedule_on_the_31st_says_that_it_skips_months() -> None:
    assert say("every month on the 31st").remarks == ("Months without a day 31 are skipped.",)

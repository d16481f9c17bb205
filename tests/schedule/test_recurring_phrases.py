"""Phrases for what recurs beyond plain cron: what each fires, as checked by hand, and that its words mean it again."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wakeful.errors import InvalidSchedule
from wakeful.schedule import Understood, parse

from .helpers import BERLIN, NOW, QUICK, say
from .scoring import Row, ask, rows

# From Sunday 15 November 2026, 09:00 in Berlin. Weekdays were looked up in a calendar.
FIRST_THREE = [
    # Counted days, weeks, months and years
    ("every other day", "16 Nov 09:00", "18 Nov 09:00", "20 Nov 09:00"),
    ("every 3rd day at 8pm", "15 Nov 20:00", "18 Nov 20:00", "21 Nov 20:00"),
    ("every other tuesday", "17 Nov 09:00", "1 Dec 09:00", "15 Dec 09:00"),
    ("every other week on mon and thu at 8", "16 Nov 08:00", "19 Nov 08:00", "30 Nov 08:00"),
    ("every 3 weeks on mon and fri", "16 Nov 09:00", "20 Nov 09:00", "7 Dec 09:00"),
    ("every 2 fridays at noon", "20 Nov 12:00", "4 Dec 12:00", "18 Dec 12:00"),
    ("every other weekend", "21 Nov 09:00", "22 Nov 09:00", "5 Dec 09:00"),
    ("every fortnight on friday", "20 Nov 09:00", "4 Dec 09:00", "18 Dec 09:00"),
    ("fortnightly on mondays", "16 Nov 09:00", "30 Nov 09:00", "14 Dec 09:00"),
    ("every quarter", "15 Dec 09:00", "15 Mar 09:00", "15 Jun 09:00"),
    ("every 6 months on the 1st", "1 Dec 09:00", "1 Jun 09:00", "1 Dec 09:00"),
    ("the 4th of every 3 months", "4 Dec 09:00", "4 Mar 09:00", "4 Jun 09:00"),
    ("every other month on the first friday", "4 Dec 09:00", "5 Feb 09:00", "2 Apr 09:00"),
    ("every 2 years on july 4", "4 Jul 09:00", "4 Jul 09:00", "4 Jul 09:00"),
    # Days of the month and of the year
    ("first, second and third friday of the month", "20 Nov 09:00", "4 Dec 09:00", "11 Dec 09:00"),
    ("first and third friday of every month", "20 Nov 09:00", "4 Dec 09:00", "18 Dec 09:00"),
    ("2nd to last friday of each month", "20 Nov 09:00", "18 Dec 09:00", "22 Jan 09:00"),
    ("second to last day of every month", "29 Nov 09:00", "30 Dec 09:00", "30 Jan 09:00"),
    ("last weekday of the month at 17:30", "30 Nov 17:30", "31 Dec 17:30", "29 Jan 17:30"),
    ("last business day of every month", "30 Nov 09:00", "31 Dec 09:00", "29 Jan 09:00"),
    ("first business day of every month", "1 Dec 09:00", "1 Jan 09:00", "1 Feb 09:00"),
    ("third working day of every month", "3 Dec 09:00", "5 Jan 09:00", "3 Feb 09:00"),
    ("every 4th thursday in november", "26 Nov 09:00", "25 Nov 09:00", "23 Nov 09:00"),
    ("start of each month", "1 Dec 09:00", "1 Jan 09:00", "1 Feb 09:00"),
    ("at the end of every month at 6pm", "30 Nov 18:00", "31 Dec 18:00", "31 Jan 18:00"),
    ("every month at the end", "30 Nov 09:00", "31 Dec 09:00", "31 Jan 09:00"),
    ("end of every quarter", "31 Dec 09:00", "31 Mar 09:00", "30 Jun 09:00"),
    ("first monday of every quarter", "4 Jan 09:00", "5 Apr 09:00", "5 Jul 09:00"),
    ("start of every year at noon", "1 Jan 12:00", "1 Jan 12:00", "1 Jan 12:00"),
    ("on the 1st through 5th of every month", "1 Dec 09:00", "2 Dec 09:00", "3 Dec 09:00"),
    ("every june and july on the 1st", "1 Jun 09:00", "1 Jul 09:00", "1 Jun 09:00"),
    ("every monday in december", "7 Dec 09:00", "14 Dec 09:00", "21 Dec 09:00"),
    ("the 100th day of every year", "10 Apr 09:00", "9 Apr 09:00", "10 Apr 09:00"),
    ("every friday in week 1", "8 Jan 09:00", "7 Jan 09:00", "5 Jan 09:00"),
    # Times and hours
    ("mornings at 9", "16 Nov 09:00", "17 Nov 09:00", "18 Nov 09:00"),
    ("weekday mornings at 8", "16 Nov 08:00", "17 Nov 08:00", "18 Nov 08:00"),
    ("nightly at 11", "15 Nov 23:00", "16 Nov 23:00", "17 Nov 23:00"),
    ("twice a day at 8am and 8pm", "15 Nov 20:00", "16 Nov 08:00", "16 Nov 20:00"),
    ("every hour from 9 to 5 on weekdays", "16 Nov 09:00", "16 Nov 10:00", "16 Nov 11:00"),
    ("hourly between 3pm and 5pm", "15 Nov 15:00", "15 Nov 16:00", "15 Nov 17:00"),
    ("every 20 minutes between 9 and 5", "15 Nov 09:20", "15 Nov 09:40", "15 Nov 10:00"),
    ("every 2 hours from 8:30 to 16:30", "15 Nov 10:30", "15 Nov 12:30", "15 Nov 14:30"),
    ("every hour from 11pm to 1am", "15 Nov 23:00", "16 Nov 00:00", "16 Nov 01:00"),
    ("every 6 hours on weekends", "15 Nov 12:00", "15 Nov 18:00", "21 Nov 00:00"),
    ("every mon/wed/fri at 8", "16 Nov 08:00", "18 Nov 08:00", "20 Nov 08:00"),
    ("business days at 8am", "16 Nov 08:00", "17 Nov 08:00", "18 Nov 08:00"),
    ("once every 2 weeks on friday", "20 Nov 09:00", "4 Dec 09:00", "18 Dec 09:00"),
    # Exclusions
    ("every day but mondays", "17 Nov 09:00", "18 Nov 09:00", "19 Nov 09:00"),
    ("every day except on weekends", "16 Nov 09:00", "17 Nov 09:00", "18 Nov 09:00"),
    ("every weekday at 8 but not on mondays", "17 Nov 08:00", "18 Nov 08:00", "19 Nov 08:00"),
    ("mondays except in december", "16 Nov 09:00", "23 Nov 09:00", "30 Nov 09:00"),
    ("every day except tomorrow", "17 Nov 09:00", "18 Nov 09:00", "19 Nov 09:00"),
    ("every day except 17 and 18 november", "16 Nov 09:00", "19 Nov 09:00", "20 Nov 09:00"),
    ("every 3 days except sundays", "16 Nov 09:00", "19 Nov 09:00", "25 Nov 09:00"),
    ("every day except the 16th", "17 Nov 09:00", "18 Nov 09:00", "19 Nov 09:00"),
    ("every 8 hours except tomorrow", "15 Nov 16:00", "17 Nov 00:00", "17 Nov 08:00"),
    ("fridays except this friday", "27 Nov 09:00", "4 Dec 09:00", "11 Dec 09:00"),
    ("the 15th of every month except sundays", "15 Dec 09:00", "15 Jan 09:00", "15 Feb 09:00"),
    # Starts
    ("every 3 days starting next tuesday", "17 Nov 09:00", "20 Nov 09:00", "23 Nov 09:00"),
    ("every other week starting 1 december at 5pm", "1 Dec 17:00", "15 Dec 17:00", "29 Dec 17:00"),
    ("fridays starting in may", "7 May 09:00", "14 May 09:00", "21 May 09:00"),
    ("every 2 hours starting tomorrow at 9:30", "16 Nov 09:30", "16 Nov 11:30", "16 Nov 13:30"),
    ("every 90 minutes starting at 3pm", "15 Nov 15:00", "15 Nov 16:30", "15 Nov 18:00"),
    ("every 2 hours starting now", "15 Nov 11:00", "15 Nov 13:00", "15 Nov 15:00"),
]  # fmt: skip


def shown(fire: datetime) -> str:
    local = fire.astimezone(ZoneInfo(BERLIN))
    return f"{local.day} {local:%b %H:%M}"


@pytest.mark.parametrize(("phrase", "first", "second", "third"), FIRST_THREE)
def test_the_first_three_fires(phrase: str, first: str, second: str, third: str) -> None:
    understood = say(phrase)
    assert understood.kind == "cron"
    assert [shown(fire) for fire in understood.next(3)] == [first, second, third]


@pytest.mark.parametrize(
    ("phrase", "expr"),
    [
        ("last business day of the month", "0 9 LW * *"),
        ("first weekday of every month", "0 9 1W * *"),
        ("every hour from 9 to 5 on weekdays", "0 9-17 * * 1-5"),
        ("every 20 minutes between 9 and 5", "*/20 9-16 * * *"),
        ("end of every quarter", "0 9 L 3,6,9,12 *"),
        ("every day except mondays", "0 9 * * 0,2,3,4,5,6"),
        ("daily except in may", "0 9 * 1-4,6-12 *"),
        ("every day except the 13th", "0 9 1-12,14-31 * *"),
        ("every other tuesday", "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9;BYMINUTE=0"),
        ("every 3 months on the 4th", "RRULE:FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=4;BYHOUR=9;BYMINUTE=0"),
        ("2nd to last friday of each month", "RRULE:FREQ=MONTHLY;BYDAY=-2FR;BYHOUR=9;BYMINUTE=0"),
        ("every day except tomorrow", "RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0 EXDATE:20261116"),
        ("every 2 hours starting tomorrow at 9:30", "RRULE:FREQ=HOURLY;INTERVAL=2"),
        ("every 2 hours starting tomorrow at 8am", "0 */2 * * *"),
        ("every 2 hours starting now", "@every 2h"),
    ],
)
def test_the_simplest_form_that_says_it(phrase: str, expr: str) -> None:
    assert say(phrase).cron_expr == expr


@pytest.mark.parametrize(
    ("phrase", "starts_at", "ends_at", "max_fires"),
    [
        ("daily for 10 times", "", "", 10),
        ("every day 3x", "", "", 3),
        ("fridays twice", "", "", 2),
        ("every hour, 5 occurrences", "", "", 5),
        ("every monday at most 4 times", "", "", 4),
        ("every day until friday", "", "2026-11-20T23:59:59+01:00", None),
        ("every day through friday", "", "2026-11-20T23:59:59+01:00", None),
        ("every wed until november 2027", "", "2027-10-31T23:59:59+01:00", None),
        ("every wed through november", "", "2026-11-30T23:59:59+01:00", None),
        ("every wed until the end of november", "", "2026-11-30T23:59:59+01:00", None),
        ("each thursday until next month", "", "2026-11-30T23:59:59+01:00", None),
        ("each thursday until the end of the year", "", "2026-12-31T23:59:59+01:00", None),
        ("every day until 2028", "", "2027-12-31T23:59:59+01:00", None),
        ("every hour until 5pm", "", "2026-11-15T17:00:00+01:00", None),
        ("every hour until 8am", "", "2026-11-16T08:00:00+01:00", None),
        ("every day until friday at 9am", "", "2026-11-20T09:00:00+01:00", None),
        ("every day starting next tuesday", "2026-11-17T00:00:00+01:00", "", None),
        ("every day from 1 december", "2026-12-01T00:00:00+01:00", "", None),
        ("every day from 2026-12-01T10:30", "2026-12-01T10:30:00+01:00", "", None),
        ("every day starting in 2 weeks", "2026-11-29T00:00:00+01:00", "", None),
        ("every day starting next month", "2026-12-01T00:00:00+01:00", "", None),
        ("from next week every day at 8", "2026-11-16T00:00:00+01:00", "", None),
        ("every monday for the next six weeks", "", "2026-12-27T09:00:00+01:00", None),
        ("every sat for up to 2 months", "", "2027-01-15T09:00:00+01:00", None),
        ("every 5 minutes for an hour", "", "2026-11-15T10:00:00+01:00", None),
        ("every day for the next year", "", "2027-11-15T09:00:00+01:00", None),
        (
            "every day at midnight for 3 days starting monday",
            "2026-11-16T00:00:00+01:00",
            "2026-11-18T23:59:59+01:00",
            None,
        ),
        (
            "mondays from december until june, except in march",
            "2026-12-01T00:00:00+01:00",
            "2027-05-31T23:59:59+02:00",
            None,
        ),
        (
            "every 4th of the month from jan 1 2027 to dec 25th 2030 for 9 times",
            "2027-01-01T00:00:00+01:00",
            "2030-12-25T23:59:59+01:00",
            9,
        ),
    ],
)
def test_the_bounds_a_phrase_says(phrase: str, starts_at: str, ends_at: str, max_fires: int | None) -> None:
    understood = say(phrase)
    assert understood.kind == "cron"
    assert understood.starts_at == (datetime.fromisoformat(starts_at) if starts_at else None)
    assert understood.ends_at == (datetime.fromisoformat(ends_at) if ends_at else None)
    assert understood.max_fires == max_fires


def test_fires_keep_to_the_bounds() -> None:
    assert [shown(fire) for fire in say("every day until tuesday").next(9)] == ["16 Nov 09:00", "17 Nov 09:00"]
    assert [shown(fire) for fire in say("every day from friday 2 times").next(9)] == ["20 Nov 09:00", "21 Nov 09:00"]
    thrice = say("every day 3 times")
    assert [shown(fire) for fire in thrice.next(9, after=NOW + timedelta(days=1, hours=1))] == [
        "17 Nov 09:00",
        "18 Nov 09:00",
    ]
    assert thrice.next(9, after=NOW + timedelta(days=9)) == []
    assert len(say("every 5 minutes for an hour").next(99)) == 12
    assert len(say("every day at midnight for 3 days starting monday").next(99)) == 3


def test_the_time_of_day_of_a_bound_is_that_of_each_day_unless_another_is_said() -> None:
    assert say("every day starting monday at 5pm").cron_expr == "0 17 * * *"
    assert say("every day at 8 until friday at 5pm").cron_expr == "0 8 * * *"


def test_dates_that_are_left_out_of_every_year_are_left_out_of_every_year() -> None:
    understood = say("every day except on 24 and 25 december")
    fires = [fire.astimezone(ZoneInfo(BERLIN)) for fire in understood.next(3 * 365)]
    days = {fire.date() for fire in fires}
    missing = {fires[0].date() + timedelta(days=n) for n in range((fires[-1] - fires[0]).days + 1)} - days
    assert {(day.month, day.day) for day in missing} == {(12, 24), (12, 25)}
    assert len(missing) == 6
    leap = parse("every day at noon except on 29 february", now=datetime(2028, 2, 27, tzinfo=UTC)).next(4)
    assert [(fire.month, fire.day) for fire in leap] == [(2, 27), (2, 28), (3, 1), (3, 2)]
    last = parse("the last day of every month except 31 december", now=datetime(2026, 11, 1, tzinfo=UTC)).next(3)
    assert [(fire.month, fire.day) for fire in last] == [(11, 30), (1, 31), (2, 28)]


def test_what_is_said_back() -> None:
    assert say("every other tuesday from 1 december until june for 10 times").description == (
        "every 2 weeks on Tuesday at 09:00 starting 1 December 2026 until 31 May 2027 for 10 times, Europe/Berlin"
    )
    assert say("every day except on 24 and 25 december").description == (
        "every day at 09:00, except on 24 and 25 December, Europe/Berlin"
    )
    assert say("mondays and fridays except on 24 december").description == (
        "every week on Monday and Friday at 09:00, except on 24 December, Europe/Berlin"
    )
    assert say("every hour from 9 to 5 on weekdays").description == (
        "every hour from 09:00 to 17:00 on Monday through Friday, Europe/Berlin"
    )
    assert say("every 3 days except sundays until friday").description == (
        "every 3 days at 09:00, except on Sunday until 20 November 2026, Europe/Berlin"
    )


# A misspelt day; two that can mean once a month as well.
NOT_UNDERSTOOD = ("every wednsday", "monthly on tue and fri", "every 5th fri for the next 3 years")


def recurring_rows() -> list[Row]:
    return [row for row in rows("phrases_dev.jsonl") if row["category"] == "recurring"]


def test_at_least_nine_in_ten_recurring_phrases_of_the_vectors_are_understood() -> None:
    found = [ask(row["phrase"], row["tz"], datetime.fromisoformat(row["now"])) for row in recurring_rows()]
    assert sum(one is not None and one.kind == "cron" for one in found) >= 0.9 * len(found)


@pytest.mark.parametrize(
    "row", [row for row in recurring_rows() if row.get("expected_next")], ids=lambda row: row["phrase"]
)
def test_the_fires_of_the_vectors(row: Row) -> None:
    """By the source's own conventions: a day begins at midnight, and the moment it is asked at counts as a fire."""
    now = datetime.fromisoformat(row["now"])
    expected = [datetime.fromisoformat(text) for text in row["expected_next"]]
    if row["phrase"] in NOT_UNDERSTOOD:
        with pytest.raises(InvalidSchedule):
            parse(row["phrase"], timezone=row["tz"], now=now)
        return
    just_before = now - timedelta(seconds=1)
    found = []
    for at in (now, just_before):
        with contextlib.suppress(InvalidSchedule):  # "until next month", said on the last day of the month before
            understood = parse(row["phrase"], timezone=row["tz"], now=at, default_time=time(0))
            found.append([fire for fire in understood.next(len(expected) + 1) if fire > now][: len(expected)])
    assert expected in found


# Every way to say a rhythm with every way to bound it

CLOCKS = st.sampled_from(["", " at 9am", " at 17:30", " at noon", " at 8 and 10", " at 9:00:30"])
DAYS = st.sampled_from(["monday", "tue", "wednesday", "thu", "friday", "saturday", "sun"])
DAY_LISTS = st.lists(DAYS, min_size=1, max_size=4, unique=True).map(" and ".join)
MONTHS = st.sampled_from(["january", "feb", "march", "june", "sept", "october", "december"])
COUNTS = st.sampled_from(["first", "second", "third", "last", "first and third", "2nd to last", "2nd and last"])
NUMBERS = st.integers(2, 12)
UNITS = st.sampled_from(["days", "weeks", "months", "years"])
RHYTHMS = st.one_of(
    st.builds("every {} {}{}".format, NUMBERS, UNITS, CLOCKS),
    st.builds("every other {}{}".format, st.sampled_from(["day", "week", "month", "weekend", "friday"]), CLOCKS),
    st.builds("every {} weeks on {}{}".format, NUMBERS, DAY_LISTS, CLOCKS),
    st.builds("the {} {} of every {} months{}".format, COUNTS, DAYS, NUMBERS, CLOCKS),
    st.builds("the {} {} of every {}{}".format, COUNTS, DAYS, st.sampled_from(["month", "quarter"]), CLOCKS),
    st.builds("the {} business day of every month{}".format, COUNTS, CLOCKS),
    st.builds("the {} of every month{}".format, st.sampled_from(["1st", "31st", "last day", "1st and 15th"]), CLOCKS),
    st.builds("every {} months on the {}{}".format, NUMBERS, st.sampled_from(["1st", "last day", "4th"]), CLOCKS),
    st.builds("every year on the {} {} of {}{}".format, COUNTS, DAYS, MONTHS, CLOCKS),
    st.builds("every {} in {}{}".format, st.one_of(st.just("day"), DAY_LISTS), MONTHS, CLOCKS),
    st.builds("{} of every {}{}".format, st.sampled_from(["start", "end"]), st.sampled_from(["month", "year"]), CLOCKS),
    st.builds("every year on the {} day{}".format, st.sampled_from(["31st", "100th", "last"]), CLOCKS),
    st.builds("every {} in week {}{}".format, DAYS, st.integers(1, 52), CLOCKS),
    st.builds("every month on the {} instance of {}{}".format, COUNTS, DAY_LISTS, CLOCKS),
    st.builds("every {} minutes from {} to {}".format, st.sampled_from([10, 20, 30]), st.integers(6, 9), NUMBERS),
    st.builds("every {} hours from {}:00 to {}:00".format, st.integers(1, 4), st.integers(0, 23), st.integers(0, 23)),
    st.builds("every {} {}".format, st.integers(1, 90), st.sampled_from(["minutes", "hours"])),
    st.builds("{}{}".format, st.sampled_from(["daily", "weekdays", "weekends", "mornings", "mondays"]), CLOCKS),
)
EXCLUSIONS = st.sampled_from(
    [
        "",
        "",
        " except mondays",
        " except in august",
        " except on 24 and 25 december",
        " except tomorrow",
        " but not on weekends",
        " except the 13th",
        " except on 5 january 2027",
        " except on june 23rd and july 4th",
    ]
)
ENDS = st.sampled_from(
    [
        "",
        "",
        " until friday",
        " until november 2029",
        " for 10 times",
        " for the next six weeks",
        " twice",
        " starting next tuesday",
        " from 1 december",
        " starting tomorrow at 9am",
        " from june until the end of 2029",
    ]
)
ZONES = st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe"])
PHRASES = st.builds("{}{}{}".format, RHYTHMS, EXCLUSIONS, ENDS)


def understood_or_not(phrase: str, zone: str) -> Understood:
    try:
        return parse(phrase, timezone=zone, now=NOW)
    except InvalidSchedule:
        assume(False)
        raise


@QUICK
@given(PHRASES, ZONES)
def test_the_words_for_what_recurs_mean_it_again(phrase: str, zone: str) -> None:
    understood = understood_or_not(phrase, zone)
    assume("RRULE" not in understood.description)  # rules that have no words are told as their own text
    again = parse(understood.description, now=NOW)
    assert again == understood


@QUICK
@given(PHRASES, ZONES)
def test_fires_are_in_order_within_the_bounds_and_at_the_times_that_were_said(phrase: str, zone: str) -> None:
    understood = understood_or_not(phrase, zone)
    fires = understood.next(30)
    assert fires
    assert all(a < b for a, b in zip([NOW, *fires], fires, strict=False))
    assert understood.starts_at is None or fires[0] >= understood.starts_at
    assert understood.ends_at is None or fires[-1] <= understood.ends_at
    assert understood.max_fires is None or len(fires) <= understood.max_fires
    local = [fire.astimezone(ZoneInfo(zone)) for fire in fires]
    if " except mondays" in phrase:
        assert all(fire.weekday() != 0 for fire in local)
    if " except in august" in phrase:
        assert all(fire.month != 8 for fire in local)
    if " 24 and 25 december" in phrase:
        assert all((fire.month, fire.day) not in ((12, 24), (12, 25)) for fire in local)


@pytest.mark.parametrize(
    ("text", "has_calendar", "cron_expr", "skips_holidays"),
    [
        ("every working day at 9am", True, "0 9 * * 0-4", True),
        ("every working day at 9am", False, "0 9 * * 0-4", False),
        ("every working day at 9am except public holidays", False, "0 9 * * 0-4", True),
        ("every day at 9am except public holidays", False, "0 9 * * *", True),
        ("every day at 9am", True, "0 9 * * *", False),
    ],
)
def test_working_days_are_those_that_are_given_and_leave_holidays_out_where_there_is_a_calendar(
    text: str, has_calendar: bool, cron_expr: str, skips_holidays: bool
) -> None:
    found = parse(text, now=NOW, working_days="sun-thu", has_calendar=has_calendar)
    assert (found.cron_expr, found.skips_holidays) == (cron_expr, skips_holidays)
    assert found.description.endswith(", except public holidays") == skips_holidays

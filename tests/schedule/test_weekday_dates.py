"""A weekday beside a day of the month, a date, or a number of weeks. NOW is Sunday 15 November 2026, 09:00."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.errors import InvalidSchedule
from wakeful.schedule.names import MONTH_NAMES, WEEKDAY_NAMES, ordinal

from .helpers import BERLIN, QUICK, local, say


def suggested(phrase: str) -> list[str]:
    with pytest.raises(InvalidSchedule) as refused:
        say(phrase)
    return refused.value.fix.split('"')[1::2]


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("thu 15th", "2027-04-15 09:00"),  # the 15ths before it: Tue, Fri, Mon, Mon
        ("Thursday the 15th", "2027-04-15 09:00"),
        ("monday the 21st at 4pm", "2026-12-21 16:00"),
        ("monday at 4pm the 21st", "2026-12-21 16:00"),
        ("on friday the thirteenth", "2027-08-13 09:00"),
        ("friday 13", "2027-08-13 09:00"),
        ("friday, 13", "2027-08-13 09:00"),
        ("friday the 13 at noon", "2027-08-13 12:00"),
        ("monday the 5", "2027-04-05 09:00"),
        ("monday 21 at 4pm", "2026-12-21 16:00"),
        ("at 4pm monday 21", "2026-12-21 16:00"),
        ("monday 21 16:30", "2026-12-21 16:30"),
        ("friday 20", "2026-11-20 09:00"),
        ("friday 31", "2027-12-31 09:00"),  # only months with 31 days
        ("mon 29th", "2027-03-29 09:00"),  # February 2027 has none
        ("sunday the 15th at 5pm", "2026-11-15 17:00"),  # today, while it is ahead
        ("monday the 21 in the evening", "2026-12-21 19:00"),
        ("wed 31 at 8am Asia/Tokyo", "2027-03-31 08:00"),
        ("friday 13 at 9am EDT", "2027-08-13 09:00"),
        ("an hour before friday 13 at noon", "2027-08-13 11:00"),
        ("2 weeks from friday the 13th", "2027-08-27 09:00"),
        ("20th, friday", "2026-11-20 09:00"),
        ("20th friday", "2026-11-20 09:00"),
        ("monday the 21 16:30", "2026-12-21 16:30"),
        ("1st tuesday", "2026-12-01 09:00"),  # of the month, and the 1st
        # A number that is a time of day is still one.
        ("monday 21 in the evening", "2026-11-16 21:00"),
        ("monday 21 30", "2026-11-16 21:30"),
        ("friday 15h", "2026-11-20 15:00"),
        ("friday 20 past 3", "2026-11-20 15:20"),
    ],
)
def test_a_weekday_and_a_day_of_the_month_are_the_next_date_that_is_both(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


@pytest.mark.parametrize(
    ("phrase", "remarks"),
    [
        ("thu 15th", ('"Thursday 15th" is Thursday 15 April 2027, the next 15th on a Thursday.',)),
        ("friday 20", ('"Friday 20th" is Friday 20 November 2026, the next 20th on a Friday.',)),  # or an hour
        ("friday the 20th", ()),
    ],
)
def test_the_date_is_remarked_unless_it_is_the_coming_one(phrase: str, remarks: tuple[str, ...]) -> None:
    assert say(phrase).remarks == remarks


@QUICK
@given(
    st.integers(0, 6),
    st.integers(1, 31),
    st.dates(date(2000, 1, 1), date(2090, 1, 1)),
)
def test_no_date_before_it_is_both(weekday: int, number: int, today: date) -> None:
    now = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    understood = say(f"{WEEKDAY_NAMES[weekday]} the {ordinal(number)} at 23:59:59.999", timezone="UTC", now=now)
    assert understood.fire_at is not None
    day, found = today, understood.fire_at.date()
    while not (day.day == number and day.toordinal() % 7 == weekday):
        day += timedelta(days=1)
    assert found == day < today + timedelta(days=2 * 365)


@pytest.mark.parametrize(
    "phrase",
    [
        *("friday 32", "friday the 32", "friday 00", "friday the 0", "the 13", "friday the 13-15", "friday 13-15"),
        *("next friday the 13th", "this friday 13", "next monday 21", "monday next week 21", "friday 13 2027"),
        *("monday 30 31", "monday 21 the 22nd", "tomorrow 21", "21 monday", "13th friday", "monday 21 at 4pm at 5pm"),
        *("sunday 15", "monday 21 in the morning", "friday 13 and saturday 14", "monday at 4pm 21"),
        *("20 friday", "at 4pm 21 in the evening", "friday the 135pm", "friday the 13noon", "friday the 5 pm"),
    ],
)
def test_what_only_looks_like_a_weekday_and_a_day_is_refused(phrase: str) -> None:
    with pytest.raises(InvalidSchedule):
        say(phrase)


@pytest.mark.parametrize(
    ("phrase", "readings"),
    [
        ("monday 5", ["monday at 5pm", "monday the 5th"]),
        ("monday 9", ["monday at 9am", "monday the 9th"]),
        ("friday 12", ["friday at 12pm", "friday the 12th"]),
        ("2nd friday", ["friday the 2nd", "2nd friday of next month"]),  # this month's is over
        ("on the 3rd thursday at 5pm", ["thursday the 3rd at 5pm", "3rd thursday of this month at 5pm"]),
        ("this friday 20", ["this friday at 20:00", "this friday the 20th"]),
        ("the 13", ["the 13th"]),
        ("tomorrow the 13", ["in 30 minutes", "tomorrow at 9am"]),
    ],
)
def test_a_number_that_can_be_two_things_is_refused_with_both(phrase: str, readings: list[str]) -> None:
    assert suggested(phrase) == readings


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("jul 18, tue", "2028-07-18 09:00"),  # a Sunday in 2027; 2028 is a leap year
        ("sunday 21 november at 5pm", "2027-11-21 17:00"),  # a Saturday in 2026
        ("friday january 15th", "2027-01-15 09:00"),  # the coming one fits
        ("saturday 1/15 at noon", "2028-01-15 12:00"),
        ("2 days after sunday 21 november", "2027-11-23 09:00"),
    ],
)
def test_a_date_without_a_year_is_that_of_the_following_year_where_only_that_has_the_weekday(
    phrase: str, expected: str
) -> None:
    assert local(phrase) == expected


def test_the_following_year_is_remarked_and_the_coming_one_is_not() -> None:
    year_later = "18 July is not a Tuesday in 2027: Tuesday 18 July 2028 is meant."
    assert say("jul 18, tue").remarks == (year_later,)
    assert say("jul 18, sun").remarks == ()


@pytest.mark.parametrize(
    "phrase",
    [
        *("monday 21 november", "friday 21 november", "sunday 21 november 2026", "nov 21, sun 17:00 2026"),
        *("next sunday 21 november", "this sunday 21 november", "thu feb 29", "sunday november 21st next week"),
    ],
)
def test_a_date_that_has_the_weekday_in_neither_year_is_refused(phrase: str) -> None:
    with pytest.raises(InvalidSchedule):
        say(phrase)


WEDNESDAY = datetime(2016, 11, 9, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("monday two weeks from now", "2016-11-21 09:00"),  # two weeks from now is Wednesday 23 November
        ("friday in two weeks", "2016-11-25 09:00"),
        ("in two weeks on friday", "2016-11-25 09:00"),
        ("tuesday in 3 weeks at noon", "2016-11-29 12:00"),
        ("sunday in 2 weeks", "2016-11-27 09:00"),  # weeks begin on Monday
        ("wednesday in two weeks", "2016-11-23 09:00"),
        ("wednesday in a week", "2016-11-16 09:00"),
        ("friday in a week in the evening", "2016-11-18 19:00"),
        ("friday in a fortnight", "2016-11-25 09:00"),
        ("friday in two weeks at 9am EST", "2016-11-25 09:00"),
    ],
)
def test_a_weekday_in_some_weeks_is_that_of_the_week(phrase: str, expected: str) -> None:
    assert local(phrase, now=WEDNESDAY) == expected


def test_a_weekday_in_some_weeks_is_remarked_unless_it_is_todays() -> None:
    remark = '"in 2 weeks" is Wednesday 23 November 2016: Friday 25 November 2016, in the same week, is meant.'
    assert say("friday in two weeks", now=WEDNESDAY).remarks == (remark,)
    assert say("wednesday in two weeks", now=WEDNESDAY).remarks == ()
    assert say("next friday in 5 days at noon").remarks == ()  # nobody can mean the one after it


def test_a_weekday_in_a_week_that_would_be_the_coming_one_is_refused_with_both() -> None:
    assert suggested("friday in a week at noon") == [
        "friday 20 november 2026 at noon",
        "friday 27 november 2026 at noon",
    ]


@pytest.mark.parametrize(
    "phrase",
    [
        *("friday for two weeks", "friday within two weeks", "friday after two weeks", "friday two weeks"),
        *("friday in 14 days", "next friday in two weeks", "friday in 2 weeks and a day", "friday in 2 weeks 3 hours"),
        *("friday two weeks from", "friday 20 november in two weeks", "tomorrow in two weeks", "day after day"),
        *("the day after next", "the week after next", "2 days after next", "2 days after sunday"),
        *("friday 2 days after next friday", "3 hours after next friday"),
        *("friday 2 days after 20 november", "friday in 14 days at noon"),
    ],
)
def test_what_only_looks_like_a_weekday_in_some_weeks_is_refused(phrase: str) -> None:
    with pytest.raises(InvalidSchedule):
        say(phrase)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("2 days after next friday", "2026-11-22 09:00"),
        ("2 days after next friday at 5pm", "2026-11-22 17:00"),
        ("the day after next friday", "2026-11-21 09:00"),
        ("day after next friday at noon", "2026-11-21 12:00"),
        ("a week from next friday", "2026-11-27 09:00"),
        ("a day after tuesday next week", "2026-11-18 09:00"),
        ("3 days after wednesday after next", "2026-11-28 09:00"),
        ("2 days after friday 20 november", "2026-11-22 09:00"),
        ("sunday 2 days after 20 november", "2026-11-22 09:00"),
        ("day before 1 december", "2026-11-30 09:00"),
    ],
)
def test_so_many_days_after_a_weekday(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


WHICH = '"next wednesday" is Wednesday 18 November: for Wednesday 25 November say "wednesday 25 november".'


@pytest.mark.parametrize("phrase", ["2 days after next wednesday", "the day after next wednesday", "next wednesday"])
def test_which_of_two_weekdays_it_counts_from_is_remarked(phrase: str) -> None:
    assert say(phrase, now=datetime(2026, 11, 16, 8, tzinfo=UTC)).remarks == (WHICH,)
    said = WHICH.split('"')[3]
    assert local(phrase.replace("next wednesday", said))  # what the remark says is understood


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("2027-7-6", "2027-07-06 09:00"),
        ("2027/7/6 17:00", "2027-07-06 17:00"),
        ("tuesday 2027-7-6 at 5pm", "2027-07-06 17:00"),
        ("at 5pm on 2027-7-6, tue", "2027-07-06 17:00"),
        ("2027-7-6 at 9am Asia/Tokyo", "2027-07-06 09:00"),
        ("2 days before 2027-7-6", "2027-07-04 09:00"),
    ],
)
def test_a_date_may_be_written_with_single_digits(phrase: str, expected: str) -> None:
    assert local(phrase) == expected


def test_a_date_with_single_digits_is_checked_against_its_weekday_and_its_month() -> None:
    assert suggested("friday 2027-7-6 at 5pm") == ["tuesday 2027-7-6 at 5pm", "friday at 5pm"]
    for phrase in ("2027-2-30", "2027-13-1", "2027-0-1", "2018-7-6", "2027-7", "2027-7-6-5"):
        with pytest.raises(InvalidSchedule):
            say(phrase)


@QUICK
@given(st.dates(date(2026, 11, 16), date(2028, 11, 14)), st.sampled_from([BERLIN, "Asia/Tokyo", "America/New_York"]))
def test_a_day_of_the_two_years_ahead_is_found_by_its_weekday(day: date, timezone: str) -> None:
    """Every day of the two years ahead, said with its weekday and without its year, is itself."""
    words = f"{WEEKDAY_NAMES[day.toordinal() % 7]} {day.day} {MONTH_NAMES[day.month - 1]}"
    understood = say(words, timezone=timezone)
    assert understood.fire_at is not None
    assert understood.fire_at.astimezone(ZoneInfo(timezone)).date() == day

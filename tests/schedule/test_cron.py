"""The grammar of cron expressions and the days they fire on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import schedule, zone
from wakeful.schedule.cron import Cron

from .helpers import NOW, fires


def first(expr: str, start: str = "2026-11-15T08:00:00+00:00") -> str:
    return fires(expr, start, 1)[0].removesuffix(":00+00:00")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("0 9 * * 1-5", "2026-11-16T09:00"),
        ("*/15 * * * *", "2026-11-15T08:15"),
        ("5/15 * * * *", "2026-11-15T08:05"),
        ("0 0 1 JAN *", "2027-01-01T00:00"),
        ("0 0 ? * mon", "2026-11-16T00:00"),
        ("0 0 * * 7", "2026-11-22T00:00"),
        ("0 0 * * fri-7", "2026-11-20T00:00"),
        ("0 0 * * sat-sun", "2026-11-21T00:00"),
        ("0 0 * * 7-tue", "2026-11-16T00:00"),
        ("0 0 L * *", "2026-11-30T00:00"),
        ("0 0 * * 5L", "2026-11-27T00:00"),
        ("0 0 LW 1 *", "2027-01-29T00:00"),
        ("0 0 LW 2 *", "2027-02-26T00:00"),
        ("0 0 LW 3 *", "2027-03-31T00:00"),
        ("0 0 1,LW * *", "2026-11-30T00:00"),
        ("0 0 * * MON-FRI#1", "2026-12-01T00:00"),
        ("0 0 * 2 fri-mon#1", "2027-02-01T00:00"),
        ("0 0 * * FRI-MON", "2026-11-16T00:00"),
        ("0 0 16 NOV-MAR *", "2026-11-16T00:00"),
        ("0 0 1 FEB-JAN/4 *", "2027-02-01T00:00"),
        ("0 0 * * MON#2", "2026-12-14T00:00"),
        ("0 0 * * MON#1,5L", "2026-11-27T00:00"),
        ("0 0 15W * *", "2026-11-16T00:00"),
        ("0 0 1W 8 *", "2027-08-02T00:00"),
        ("0 0 31W 10 *", "2027-10-29T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("@yearly", "2027-01-01T00:00"),
        ("@monthly", "2026-12-01T00:00"),
        ("@weekly", "2026-11-22T00:00"),
        ("@midnight", "2026-11-16T00:00"),
        ("1,,2 * * * *", "2026-11-15T08:01"),
    ],
)
def test_an_expression_fires_next_at(expr: str, expected: str) -> None:
    assert first(expr) == expected


@pytest.mark.parametrize(
    ("expr", "days"),
    [
        ("0 0 * * FRI-MON", "16 20 21 22 23 27 28 29 30"),
        ("0 0 * * FRI-MON/2", "20 22 27 29"),
        ("0 0 * * MON-WED#1,SUN#1", "1 2 6 7"),
        ("0 0 LW * *", "30"),
    ],
)
def test_ranges_over_the_end_of_the_week_and_counted_ranges(expr: str, days: str) -> None:
    month = "2026-12" if "#" in expr else "2026-11"
    found = [fire for fire in fires(expr, "2026-11-15T08:00:00+00:00", 9) if fire.startswith(month)]
    assert " ".join(str(int(fire[8:10])) for fire in found) == days


def test_ranges_over_the_end_of_the_year() -> None:
    winter = fires("0 0 1 NOV-MAR *", "2026-11-15T08:00:00+00:00", 6)
    assert [fire[:7] for fire in winter] == ["2026-12", "2027-01", "2027-02", "2027-03", "2027-11", "2027-12"]
    thirds = fires("0 0 1 FEB-JAN/4 *", "2026-11-15T08:00:00+00:00", 4)
    assert [fire[:7] for fire in thirds] == ["2027-02", "2027-06", "2027-10", "2028-02"]


def test_six_fields_begin_with_seconds() -> None:
    assert fires("15/35 20-35/15 * * * *", "2026-11-15T08:35:51+00:00", 2) == [
        "2026-11-15T09:20:15+00:00",
        "2026-11-15T09:20:50+00:00",
    ]


def test_either_day_matches_when_both_are_restricted() -> None:
    assert fires("0 0 13 * fri", "2026-11-10T00:00:00+00:00", 3) == [
        "2026-11-13T00:00:00+00:00",
        "2026-11-20T00:00:00+00:00",
        "2026-11-27T00:00:00+00:00",
    ]


def test_a_step_over_all_days_counts_as_restricted_and_a_step_of_one_does_not() -> None:
    assert first("0 0 */10 * wed") == "2026-11-18T00:00"
    assert first("0 0 */1 * wed") == "2026-11-18T00:00"
    assert fires("0 0 */10 * wed", "2026-11-18T00:00:00+00:00", 1) == ["2026-11-21T00:00:00+00:00"]
    assert fires("0 0 */1 * wed", "2026-11-18T00:00:00+00:00", 1) == ["2026-11-25T00:00:00+00:00"]


def test_the_next_fire_is_strictly_after_the_moment_asked() -> None:
    nine = datetime(2026, 11, 16, 9, tzinfo=UTC)
    weekdays = Cron("0 9 * * 1-5", zone("UTC"))
    assert weekdays.after(nine) == nine + timedelta(days=1)
    assert weekdays.after(nine - timedelta(microseconds=1)) == nine


def test_the_answer_is_in_utc_whatever_zone_the_moment_is_in() -> None:
    moment = datetime(2026, 11, 16, 8, tzinfo=timezone(timedelta(hours=5)))
    fire = schedule("0 9 * * *", "Asia/Tokyo").after(moment)
    assert fire is not None
    assert fire.tzinfo is UTC
    assert fire == datetime(2026, 11, 17, 0, tzinfo=UTC)


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="no time zone"):
        schedule("0 9 * * *").after(NOW.replace(tzinfo=None))


@pytest.mark.parametrize("prefix", ["CRON_TZ=Asia/Tokyo", "TZ=Asia/Tokyo"])
def test_a_zone_in_front_of_the_expression_wins(prefix: str) -> None:
    assert schedule(f"{prefix} 0 9 * * *", "Europe/Berlin").after(NOW) == datetime(2026, 11, 16, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expr", "field"),
    [
        ("60 0 * * *", "minute"),
        ("0 24 * * *", "hour"),
        ("0 0 32 * *", "day of month"),
        ("0 0 0 * *", "day of month"),
        ("0 0 * 13 *", "month"),
        ("0 0 * january *", "month"),
        ("0 0 * * 8", "day of week"),
        ("0 0 * * monday", "day of week"),
        ("61 * * * * *", "second"),
        ("*/0 * * * *", "minute"),
        ("*/-5 * * * *", "minute"),
        ("*//2 * * * *", "minute"),
        ("5--7 * * * *", "minute"),
        ("5-1 * * * *", "minute"),
        ("1_0 * * * *", "minute"),
        ("¹ * * * *", "minute"),
        (", * * * *", "minute"),
        ("0 0 29-L * *", "day of month"),
        ("0 0 LW-3 * *", "day of month"),
        ("0 0 20-10 * *", "day of month"),
        ("22-4 * * * *", "minute"),
        ("0 0 * * MON-FRI#6", "day of week"),
        ("0 0 * * MON-L", "day of week"),
        ("0 0 * * 5,6#3", "day of week"),
        ("0 0 * * 1#6", "day of week"),
        ("0 0 * * 5L/2", "day of week"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_accepted(expr: str, field: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        schedule(expr)
    assert refused.value.field == "cron_expr"
    assert refused.value.message.startswith(f"{field}:")
    assert refused.value.fix


@pytest.mark.parametrize(
    "expr", ["", "* * * *", "* * * * * * *", "0 9 * * 1-5 # note", "@reboot", "@Daily", "TZ=UTC", "@every"]
)
def test_what_is_not_an_expression_is_refused(expr: str) -> None:
    with pytest.raises(InvalidSchedule):
        schedule(expr)


@pytest.mark.parametrize("expr", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30W 2 *", "0 0 31 2 ?"])
def test_a_date_that_never_comes_is_refused(expr: str) -> None:
    with pytest.raises(InvalidSchedule, match="never fire"):
        schedule(expr)


def test_a_date_that_never_comes_beside_a_weekday_that_does_is_fine() -> None:
    assert first("0 0 30 2 0") == "2027-02-07T00:00"


def test_a_very_long_expression_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="longer"):
        schedule("0 " * 4000)


def test_the_search_ends_after_28_years() -> None:
    # The second Sunday of March at 2 is always in New York's gap, and the step makes it follow the wall clock.
    never = Cron("*/5 2 * 3 SUN#2", zone("America/New_York"))
    assert never.after(NOW) is None


def test_nothing_is_found_past_the_end_of_the_calendar() -> None:
    assert schedule("0 0 1 1 *").after(datetime(9999, 6, 1, tzinfo=UTC)) is None

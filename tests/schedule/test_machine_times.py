"""Times as programs and radio operators write them, and the remark wherever 1 to 5 was read as the afternoon."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import parse

from .helpers import NOW, local, say

DATES = ["2026-11-20", "2026/11/20", "20.11.2026", "11/20/2026", "20/11/2026", "11/20/2026,", "Fri 11/20/2026"]
CLOCKS = ["{}:05", "{}:05:10", "{}:05:10.123"]
WORDED = ["20 Nov 2026", "Fri, 20 Nov 2026", "Nov 20 2026", "friday"]
ZONES = ["+0100", "+01:00", "GMT", "UTC", ", UTC", "-05:00"]


@pytest.mark.parametrize("hour", range(1, 13))
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("day", DATES)
def test_beside_a_date_in_numbers_the_24_hour_clock_counts(day: str, clock: str, hour: int) -> None:
    understood = say(f"{day} {clock.format(hour)}", timezone="UTC")
    assert understood.fire_at is not None
    assert (understood.fire_at.day, understood.fire_at.hour, understood.fire_at.minute) == (20, hour, 5)
    assert understood.remarks == ()


@pytest.mark.parametrize("hour", range(1, 6))
@pytest.mark.parametrize("day", [*WORDED, *DATES])
def test_with_seconds_the_24_hour_clock_counts(day: str, hour: int) -> None:
    understood = say(f"{day} at {hour}:05:10", timezone="UTC")
    assert understood.fire_at is not None
    assert understood.fire_at.time().isoformat() == f"{hour:02}:05:10"


@pytest.mark.parametrize("hour", range(1, 6))
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("day", [*WORDED[:3], *DATES])
def test_with_an_offset_or_utc_the_24_hour_clock_counts(day: str, zone: str, hour: int) -> None:
    said = f"{day} {hour}:05{zone if zone[0] == ',' else f' {zone}'}"
    offset = {"+0100": "+01:00", "+01:00": "+01:00", "-05:00": "-05:00"}.get(zone, "+00:00")
    assert say(said).fire_at == datetime.fromisoformat(f"2026-11-20T{hour:02}:05:00{offset}")


@pytest.mark.parametrize("hour", range(1, 6))
@pytest.mark.parametrize("between", [" ", "T"])
@pytest.mark.parametrize("end", ["Z", "+00:00", ":00Z", ":00.000Z", ":00 +0000"])
def test_an_iso_time_may_have_one_digit_for_its_hour(hour: int, between: str, end: str) -> None:
    assert say(f"2026-11-20{between}{hour}:05{end}").fire_at == datetime(2026, 11, 20, hour, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "expr"),
    [
        ("every day at 3:30 UTC", "30 3 * * *"),
        ("every day at 3:30, UTC", "30 3 * * *"),
        ("every day at 3:30:00", "30 3 * * *"),
        ("every day at 3:30", "30 15 * * *"),
        ("every day until 2026-12-01 5:00", "0 5 * * *"),
    ],
)
def test_a_series_reads_its_clock_alike(said: str, expr: str) -> None:
    assert say(said).cron_expr == expr


def test_a_part_of_the_day_counts_more_than_seconds() -> None:
    assert local("tomorrow at 3:00:00 in the afternoon") == "2026-11-16 15:00"


@pytest.mark.parametrize("hours", ["hours", "hrs", "hr", "h"])
@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize("clock", ["0000", "0100", "0600", "0930", "1300", "1800", "2359"])
def test_four_digits_and_hours_are_a_time_of_day(clock: str, space: str, hours: str) -> None:
    if (hours, space) in (("hours", ""), ("hr", " ")):
        hours, space = "hours", " "
    for said in (f"tomorrow {clock}{space}{hours}", f"tomorrow at {clock}{space}{hours}"):
        assert local(said) == f"2026-11-16 {clock[:2]}:{clock[2:]}"
    alone = say(f"{clock}{space}{hours}", timezone="UTC").fire_at
    assert alone is not None
    assert f"{alone:%H%M}" == clock
    assert say(f"every day at {clock}{space}{hours}").cron_expr == f"{int(clock[2:])} {int(clock[:2])} * * *"


@pytest.mark.parametrize("said", ["in 1800 hours", "1800 hours from now", "after 1800 hours", "in 0600 hours"])
def test_as_a_length_they_say_so(said: str) -> None:
    fire_at = say(said).fire_at
    assert fire_at is not None
    assert (fire_at - NOW).total_seconds() in (1800 * 3600, 600 * 3600)


@pytest.mark.parametrize(("said", "meant"), [("2400 hours", "in 2400 hours"), ("1875 hours", "in 1875 hours")])
def test_four_digits_that_are_no_time_of_day_are_refused(said: str, meant: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say(said)
    assert f'Try "{meant}"' in refused.value.fix


@pytest.mark.parametrize("zone", ["UTC", ", UTC", "gmt"])
@pytest.mark.parametrize(
    ("said", "bound"),
    [
        ("every hour until 4:30", (None, datetime(2026, 11, 16, 4, 30, tzinfo=UTC))),
        ("every hour starting tomorrow at 3", (datetime(2026, 11, 16, 3, tzinfo=UTC), None)),
        ("every 10 minutes starting friday at 4:30", (datetime(2026, 11, 20, 4, 30, tzinfo=UTC), None)),
    ],
)
def test_the_bounds_of_a_series_in_utc_are_on_the_24_hour_clock(
    said: str, bound: tuple[datetime | None, datetime | None], zone: str
) -> None:
    understood = say(f"{said} {zone}".replace(" ,", ","))
    assert (understood.starts_at, understood.ends_at) == bound
    assert understood.remarks == ()


@pytest.mark.parametrize("zone", ["utc", "est", "gmt"])
def test_hours_and_minutes_in_a_zone_are_a_time_of_day(zone: str) -> None:
    name = {"est": "America/New_York"}.get(zone, "UTC")
    assert local(f"1h30 {zone}") == "2026-11-16 01:30"
    assert say(f"1h30 {zone}").timezone == name
    assert local("00h30") == "2026-11-16 00:30"


@pytest.mark.parametrize("hour", range(6))
@pytest.mark.parametrize("written", ["{}h30", "{}h 30"])
def test_hours_and_minutes_alone_are_refused_with_both_readings(hour: int, written: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        say(written.format(hour))
    assert f'"in {hour}h30m"' in refused.value.fix
    assert f'"at {hour:02}:30"' in refused.value.fix


@pytest.mark.parametrize(
    ("said", "words", "read", "morning"),
    [
        ("tomorrow at 3:30", "3:30", "15:30", "03:30"),
        ("at 5", "5", "17:00", "05:00"),
        ("quarter to 1", "quarter to 1", "12:45", "00:45"),
        ("an hour before tomorrow at 3", "3", "15:00", "03:00"),
        ("11/20/2026 at 4", "4", "16:00", "04:00"),
        ("every day at 3:30", "3:30", "15:30", "03:30"),
        ("mondays at 2:15", "2:15", "14:15", "02:15"),
        ("every day starting tomorrow at 3", "3", "15:00", "03:00"),
        ("every hour until 4:30", "4:30", "16:30", "04:30"),
    ],
)
def test_a_remark_says_that_1_to_5_was_read_as_the_afternoon(said: str, words: str, read: str, morning: str) -> None:
    remark = f'"{words}" was read as {read}: for the morning write "{morning}".'
    assert [found for found in say(said, timezone="UTC").remarks if "was read as" in found] == [remark]


@pytest.mark.parametrize("words", ["from 9 to 5", "from 1 to 4", "between 9am and 5"])
def test_a_remark_says_how_the_hours_of_a_window_were_read(words: str) -> None:
    [remark] = say(f"every hour {words}", timezone="UTC").remarks
    assert remark.startswith(f'"{words}" was read as ')


@pytest.mark.parametrize(
    "said",
    [
        *("tomorrow at 3pm", "tomorrow at 03:30", "at 6", "at 15:30", "tomorrow afternoon at 3", "in 3 hours"),
        *("every day at 3pm", "every hour from 22:00 to 5:00", "every 5 minutes", "every hour from 9am to 5pm"),
    ],
)
def test_there_is_no_remark_where_nothing_was_assumed(said: str) -> None:
    assert parse(said, timezone="UTC", now=NOW).remarks == ()

"""Schedules in words."""

from __future__ import annotations

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import describe

from .helpers import say


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("0 9 * * 1-5", "at 09:00 on Monday through Friday"),
        ("30 2 * * *", "at 02:30 every day"),
        ("15 0 2 * * *", "at 02:00:15 every day"),
        ("0 9,17 * * 0,6", "at 09:00 and 17:00 every Saturday and Sunday"),
        ("0 9 * * MON-FRI", "at 09:00 on Monday through Friday"),
        ("0 0 * * 5-7", "at 00:00 on Friday through Sunday"),
        ("0 9 15 * *", "at 09:00 on the 15th of every month"),
        ("0 9 1,L * ?", "at 09:00 on the 1st and last day of every month"),
        ("0 9 LW * *", "at 09:00 on the last weekday of every month"),
        ("0 9 * * FRI-MON", "at 09:00 on Friday through Monday"),
        ("0 9 1 NOV-MAR *", "at 09:00 every year on the 1st of November through March"),
        ("0 9 * * MON-TUE#1", "at 09:00 on the first Monday and first Tuesday of every month"),
        ("0 9 15W * *", "at 09:00 on the weekday nearest the 15th of every month"),
        ("0 9 * * MON#1,MON#3", "at 09:00 on the first and third Monday of every month"),
        ("0 17 * * 5L", "at 17:00 on the last Friday of every month"),
        ("0 9 * 11 THU#4", "at 09:00 every year on the fourth Thursday of November"),
        ("0 12 4 7 *", "at 12:00 every year on 4 July"),
        ("0 9 * JUN-AUG 1", "at 09:00 every Monday in June through August"),
        ("0 0 1,15 * MON", "at 00:00 on the 1st and 15th of every month or every Monday"),
        ("*/15 * * * *", "every 15 minutes"),
        ("* * * * *", "every minute"),
        ("? ? ? ? ?", "every minute"),
        ("0 */2 * * *", "every 2 hours"),
        ("*/5 9-17 * * 1-5", "every 5 minutes of hours 9 through 17 on Monday through Friday"),
        ("45 * * * *", "at minute 45 of every hour"),
        ("10,40 * * * *", "at minutes 10 and 40 of every hour"),
        ("1/7 * * * *", "every 7 minutes from minute 1"),
        ("5 * 3 * * *", "at second 5 of every minute of hour 3"),
        ("30 4 * */2 *", "at 04:30 every day in every 2nd month"),
        ("@daily", "at 00:00 every day"),
        ("@hourly", "every hour"),
        ("@every 1h30m", "every 90 minutes from its start"),
        ("@every 1.5s", "every 1.5 seconds from its start"),
    ],
)
def test_a_schedule_in_words(expr: str, words: str) -> None:
    assert describe(expr, "Europe/Berlin") == f"{words}, Europe/Berlin"


def test_the_zone_of_the_prefix_is_the_one_described() -> None:
    assert describe("TZ=Asia/Tokyo @weekly", "Europe/Berlin") == "at 00:00 every Sunday, Asia/Tokyo"


def test_a_moment_in_words() -> None:
    assert say("friday at 3pm").description == "on Friday 20 November 2026 at 15:00, Europe/Berlin"
    assert say("in 1 second").description == "on Sunday 15 November 2026 at 09:00:01, Europe/Berlin"
    assert say("in 1.5 seconds").description == "on Sunday 15 November 2026 at 09:00:01.500, Europe/Berlin"


def test_what_is_no_schedule_cannot_be_described() -> None:
    with pytest.raises(InvalidSchedule):
        describe("0 0 30 2 *")

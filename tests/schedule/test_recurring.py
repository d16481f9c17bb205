"""Phrases for what recurs, as cron."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from wakeful.errors import InvalidSchedule

from .helpers import NOW, say


@pytest.mark.parametrize(
    ("phrase", "expr"),
    [
        ("every day at 9am", "0 9 * * *"),
        ("daily", "0 9 * * *"),
        ("every weekday at 9am", "0 9 * * 1-5"),
        ("at 17:30 on weekdays", "30 17 * * 1-5"),
        ("weekends at 10am", "0 10 * * 0,6"),
        ("mondays and thursdays at 3:15pm", "15 15 * * 1,4"),
        ("every mon, wed and fri at 8", "0 8 * * 1,3,5"),
        ("9am every Sunday", "0 9 * * 0"),
        ("monday through friday at 9", "0 9 * * 1-5"),
        ("saturdays through tuesdays", "0 9 * * 0,1,2,6"),
        ("every 15 minutes", "*/15 * * * *"),
        ("every 90 minutes", "@every 90m"),
        ("every 45 minutes", "@every 45m"),
        ("every 30 seconds", "*/30 * * * * *"),
        ("every hour", "0 * * * *"),
        ("hourly", "0 * * * *"),
        ("every half hour", "*/30 * * * *"),
        ("every 6 hours", "0 */6 * * *"),
        ("every 5 hours", "@every 5h"),
        ("every 2 hours from its start", "@every 2h"),
        ("15th of every month at 10am", "0 10 15 * *"),
        ("every month on the 1st and 15th", "0 9 1,15 * *"),
        ("the last day of every month at 6pm", "0 18 L * *"),
        ("every july 4th at noon", "0 12 4 7 *"),
        ("once a year on december 25th", "0 9 25 12 *"),
        ("first monday of every month at 9am", "0 9 * * MON#1"),
        ("last friday of the month at 5pm", "0 17 * * 5L"),
        ("2nd and last friday of each month", "0 9 * * FRI#2,5L"),
        ("every year on the fourth thursday of november", "0 9 * 11 THU#4"),
        ("every morning at 7:15", "15 7 * * *"),
        ("every monday evening", "0 19 * * 1"),
        ("every night at 10", "0 22 * * *"),
        ("every day at midnight", "0 0 * * *"),
        ("every day at 9am and 5pm", "0 9,17 * * *"),
        ("every day at 9:00:30", "30 0 9 * * *"),
        ("every 3 days at 9am", "RRULE:FREQ=DAILY;INTERVAL=3;BYHOUR=9;BYMINUTE=0"),
        ("every 3 days at 9am and 5pm", "RRULE:FREQ=DAILY;INTERVAL=3;BYHOUR=9,17;BYMINUTE=0"),
        ("every 2 weeks", "RRULE:FREQ=WEEKLY;INTERVAL=2;BYHOUR=9;BYMINUTE=0"),
        ("every 2 weeks and 3 days", "RRULE:FREQ=DAILY;INTERVAL=17;BYHOUR=9;BYMINUTE=0"),
        ("every 6 months at 17:30", "RRULE:FREQ=MONTHLY;INTERVAL=6;BYHOUR=17;BYMINUTE=30"),
        ("every 2 years at 9:00:30", "RRULE:FREQ=YEARLY;INTERVAL=2;BYHOUR=9;BYMINUTE=0;BYSECOND=30"),
    ],
)
def test_a_rhythm(phrase: str, expr: str) -> None:
    understood = say(phrase)
    assert (understood.kind, understood.cron_expr, understood.fire_at) == ("cron", expr, None)


@pytest.mark.parametrize(
    ("phrase", "said"),
    [
        ("every second friday", "every 2 weeks or once a month"),
        ("every 3rd weekend", "every 3 weeks or once a month"),
        ("every 2 days and 3 hours", "hours and less"),
        ("every 1 month", "which day"),
        ("every 3 months on friday", "which of these days"),
        ("monthly on tue and fri", "which of these days"),
        ("every year on the 4th", "of which month"),
        ("every 4th at 9am", "of which month"),
        ("every day on the 4th", "do not fit"),
        ("every day at 9am from 9 to 5", "need an interval"),
        ("every 45 minutes from 9 to 5", "other minutes in each hour"),
        ("every 90 minutes on weekdays", "elapsed time"),
        ("every hour from 10pm to 6am on mondays", "two days"),
        ("every 10 seconds except tomorrow", "within a minute"),
        ("every day until friday for 2 weeks", "two ends"),
        ("every day starting monday starting tuesday", "two starts"),
        ("every day 3 times 5 times", "how many times is said twice"),
        ("every day 0 times", "never"),
        ("every day until 2020-01-01", "has passed"),
        ("every day from 1 december 2026 until 20 november 2026", "before its start"),
        ("every monday from 17 november 2026 until 19 november 2026", "between its start and its end"),
        ("every day until christmas", "until christmas"),
        ("every monday except mondays", "nothing is left"),
        ("every 2 months except mondays", "on which days"),
        ("every 2 years except in august", "in which months"),
        ("last business day of every month except mondays", "weekdays cannot be left out"),
        ("every other friday except the 13th", "days of the month cannot be left out"),
        ("the last day of every month except 28 february", "not the same dates"),
        ("every 3 days at 8 and 10", "a number alone"),
        ("every day at 9am sun", "contradict"),
        ("twice daily", "2 times for each day"),
        ("3 nights until friday", "how many or a time of day"),
        ("every morning nightly", "contradict"),
        ("hourly on the 1st", "do not fit"),
        ("every 3 days except on 24 december", "with their year"),
        ("every friday except the 13th of next month", "of next month"),
        ("twice a day", "2 times for each day"),
        ("3 times a week on monday", "3 times for each week"),
        ("end of every week", "can end on"),
        ("first and last day of every quarter", "different schedules"),
        ("the 1st day and the last friday of every month", "different schedules"),
        ("every year on july 4 and december 25", "set one schedule for each"),
        ("the 32nd of every month", "no month has such a day"),
        ("the 5th to the 1st of every month", "to a later one"),
        ("6th friday of every month", "no month has that many"),
        ("every november", "which day"),
        ("every monday in week 54", "1 to 53"),
        ("every week", "which day"),
        ("monthly", "which day"),
        ("every day at 9am and 5:30pm", "different minutes"),
        ("every 15 minutes at 9am", "no time of day"),
        ("every day at 9am EST", "est"),
        ("every feb 30", "never fire"),
        ("every 0 minutes", "now"),
        ("every time I hear that", "time i hear"),
        ("monday through friday", "not clear"),
        ("every day at 9am every day", "every day"),
    ],
)
def test_what_is_no_rhythm_is_refused_with_what_to_use_instead(phrase: str, said: str) -> None:
    with pytest.raises(InvalidSchedule, match=said):
        say(phrase)


def test_cron_and_its_kin_are_understood_too() -> None:
    assert say(" 0  9 * * 1-5 ").cron_expr == "0 9 * * 1-5"
    assert say("@daily").cron_expr == "@daily"
    tokyo = say("CRON_TZ=Asia/Tokyo 0 9 * * *")
    assert (tokyo.cron_expr, tokyo.timezone) == ("0 9 * * *", "Asia/Tokyo")


def test_the_zone_said_is_the_zone_meant() -> None:
    assert say("every day at 9am Asia/Tokyo").timezone == "Asia/Tokyo"
    assert say("every day at 9am UTC").timezone == "UTC"


def test_next_lists_the_fires_ahead() -> None:
    every = say("every 90 minutes")
    assert every.next(2) == [NOW + timedelta(minutes=90), NOW + timedelta(minutes=180)]
    assert every.next(1, after=NOW + timedelta(hours=2)) == [NOW + timedelta(minutes=180)]
    assert len(say("every day at 9am").next()) == 5


def test_a_rhythm_without_a_time_takes_the_one_that_is_set() -> None:
    assert say("every weekday", default_time=time(7, 30)).cron_expr == "30 7 * * 1-5"

"""What a refusal suggests says all of what was said, and is understood; where nothing does, nothing is suggested."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

import pytest

from wakeful.errors import InvalidSchedule
from wakeful.schedule import parse
from wakeful.schedule.times_of_day import at_time_of_day, time_of_day
from wakeful.schedule.zones import zone_of_name

MONDAY = datetime(2030, 1, 7, 8, tzinfo=UTC)
REPAIRED: list[tuple[str, dict[str, Any]]] = [
    ("end of day", {"when": "today at 5pm"}),
    ("end of the month", {"when": "last day of this month at 5pm"}),
    ("end of the week", {"when": "friday this week at 5pm"}),
    ("next month", {"when": "1st of next month at 9am"}),
    ("R5/PT1M30S", {"when": "@every 90s", "policy": {"max_fires": 5}}),
]  # fmt: skip


@pytest.mark.parametrize(("said", "repair"), REPAIRED)
def test_what_was_meant_is_said_in_fields_that_are_understood(said: str, repair: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        parse(said, now=MONDAY)
    assert refusal.value.repair == repair
    assert f'Try "{repair["when"]}"' in refusal.value.fix
    assert parse(repair["when"], timezone=repair.get("timezone", "UTC"), now=MONDAY)


@pytest.mark.parametrize(
    "said",
    [
        "hourly from 9",
        "every day from christmas",
        "every monday except birthdays",
        "soonish",
        "every blue moon",
        "every other tuesday on friday",
    ],
)
def test_a_suggestion_that_drops_a_part_is_not_made(said: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        parse(said, now=MONDAY)
    assert (refusal.value.repair, refusal.value.meant) == ({}, ())


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("PST", "America/Los_Angeles"),
        ("New York", "America/New_York"),
        ("tokyo", "Asia/Tokyo"),
        ("Berlin time", "Europe/Berlin"),
        ("Mars/Base", ""),
        ("", ""),
        ("x" * 1000, ""),
    ],
)
def test_a_zone_by_another_name_is_suggested(said: str, meant: str) -> None:
    assert zone_of_name(said) == meant
    with pytest.raises(InvalidSchedule) as refusal:
        parse("9am", timezone=said, now=MONDAY)
    assert refusal.value.repair == ({"timezone": meant} if meant else {})


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("10am", time(10)),
        ("at 17:30", time(17, 30)),
        ("noon", time(12)),
        ("midnight", time(0)),
        ("half past 2", time(14, 30)),
        ("10", None),
        ("15h", None),
        ("25:00", None),
        ("10am PST", None),
        ("tomorrow at 9am", None),
        ("", None),
    ],
)
def test_a_time_of_day_and_nothing_besides(said: str, at: time | None) -> None:
    assert time_of_day(said) == at


@pytest.mark.parametrize(
    ("cron", "moved"),
    [
        ("0 9 * * 1-5", "15 10 * * 1-5"),
        ("30 0 9 * * *", "0 15 10 * * *"),
        ("@weekly", "15 10 * * 0"),
        ("CRON_TZ=Europe/Berlin 0 9 * * *", "CRON_TZ=Europe/Berlin 15 10 * * *"),
        ("0 9,17 * * *", None),
        ("0 */2 * * *", None),
        ("RRULE:FREQ=DAILY;INTERVAL=3;BYHOUR=9", "RRULE:FREQ=DAILY;INTERVAL=3;BYHOUR=10;BYMINUTE=15"),
        ("RRULE:FREQ=DAILY;BYHOUR=9,17", None),
        ("@every 90m", None),
        ("@hourly", None),
    ],
)
def test_a_rhythm_at_another_time_of_day(cron: str, moved: str | None) -> None:
    assert at_time_of_day(cron, time(10, 15)) == moved

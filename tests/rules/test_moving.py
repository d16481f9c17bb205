"""An edit of the time or the policy changes what was said, and nothing besides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.acting import edit
from wakeful.errors import InvalidSchedule
from wakeful.model.alarm import Policy
from wakeful.model.requests import PolicyRequest
from wakeful.rules.edit import update
from wakeful.rules.plan import coming

from .world import MONDAY, alarm

WEEKDAYS = "0 9 * * 1-5"


@pytest.mark.parametrize(
    ("cron", "said", "moved"),
    [
        (WEEKDAYS, "10am", "0 10 * * 1-5"),
        (WEEKDAYS, "at 17:30", "30 17 * * 1-5"),
        (WEEKDAYS, "noon", "0 12 * * 1-5"),
        ("0 9 1 * *", "half past 2", "30 14 1 * *"),
        ("30 0 9 * * MON", "10:15", "0 15 10 * * MON"),
        ("@daily", "6am", "0 6 * * *"),
        ("FREQ=WEEKLY;BYDAY=TU;BYHOUR=9", "10am", "RRULE:FREQ=WEEKLY;BYDAY=TU;BYHOUR=10;BYMINUTE=0"),
        ("FREQ=DAILY;COUNT=4", "10:15", "RRULE:FREQ=DAILY;COUNT=4;BYHOUR=10;BYMINUTE=15"),
    ],
)
def test_a_time_of_day_moves_a_series_and_keeps_its_days(cron: str, said: str, moved: str) -> None:
    after = update(alarm(cron_expr=cron, timezone="Asia/Tokyo"), None, edit(when=said), now=MONDAY).after
    assert (after.kind, after.cron_expr, after.timezone) == ("cron", moved, "Asia/Tokyo")


@pytest.mark.parametrize("at", ["7am", "10am", "23:30"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_what_counts_days_stays_on_them(zone: str, at: str) -> None:
    """Every third day goes on with the same days, on whichever of them it is moved."""
    before = alarm(when="every 3 days at 9am", timezone=zone)
    own = {moment.astimezone(ZoneInfo(zone)).date() for moment in islice(coming(before), 20)}
    for hours in range(0, 200, 5):
        after = update(before, None, edit(when=at), now=MONDAY + timedelta(hours=hours)).after
        assert {moment.astimezone(ZoneInfo(zone)).date() for moment in islice(coming(after), 9)} <= own
        assert after.next_fire_at - MONDAY - timedelta(hours=hours) <= timedelta(days=3)


@pytest.mark.parametrize(
    "cron",
    [
        "0 9,17 * * *",
        "*/5 * * * *",
        "@every 90m",
        "@hourly",
        "FREQ=DAILY;BYHOUR=9,17",
        "FREQ=HOURLY;INTERVAL=5",
        "DTSTART:20260105T090000 RRULE:FREQ=DAILY;INTERVAL=3",
        "FREQ=DAILY;BYHOUR=9;UNTIL=20260201T090000Z",
        "FREQ=DAILY;BYHOUR=9 EXDATE:20260107T090000",
    ],
)
def test_a_time_of_day_does_not_move_what_has_none_or_several(cron: str) -> None:
    with pytest.raises(InvalidSchedule, match="has none or more than one"):
        update(alarm(cron_expr=cron), None, edit(when="10am"), now=MONDAY)


def test_for_a_one_shot_a_time_of_day_is_the_next_one() -> None:
    friday = datetime(2026, 1, 9, 9, tzinfo=UTC)
    after = update(alarm(fire_at=friday), None, edit(when="10am"), now=MONDAY).after
    assert after.next_fire_at == MONDAY + timedelta(hours=2)


@pytest.mark.parametrize(
    ("asked", "said", "kind"),
    [
        ({"cron_expr": WEEKDAYS}, "tomorrow at 9am", "once"),
        ({"cron_expr": WEEKDAYS}, "in 2 hours", "once"),
        ({"cron_expr": WEEKDAYS}, "10am", "once"),
        ({"delay": timedelta(days=1)}, "every weekday at 9am", "cron"),
    ],
)
def test_what_would_change_the_kind_has_to_say_so(asked: dict[str, Any], said: str, kind: str) -> None:
    before = alarm(**asked)
    if said != "10am":
        with pytest.raises(InvalidSchedule, match=f'the kind "{kind}"'):
            update(before, None, edit(when=said), now=MONDAY)
    assert update(before, None, edit(when=said, kind=kind), now=MONDAY).after.kind == kind
    with pytest.raises(InvalidSchedule, match="the kind is"):
        update(before, None, edit(when="tomorrow at 9am", kind="cron"), now=MONDAY)


@pytest.mark.parametrize("said", [{"fire_at": MONDAY + timedelta(days=1)}, {"delay": timedelta(hours=1)}])
def test_a_field_that_only_one_kind_has_says_it(said: dict[str, Any]) -> None:
    assert update(alarm(cron_expr=WEEKDAYS), None, edit(**said), now=MONDAY).after.kind == "once"


def test_an_edited_policy_keeps_what_is_not_mentioned_and_null_removes() -> None:
    ends = MONDAY + timedelta(days=30)
    before = alarm(cron_expr=WEEKDAYS, policy=Policy(max_fires=5, ends_at=ends, report_within=60))
    after = update(before, None, edit(policy=PolicyRequest(report_within="2m")), now=MONDAY).after
    assert after.policy == Policy(max_fires=5, ends_at=ends, report_within=120)
    after = update(after, None, edit(policy=PolicyRequest(max_fires=None, ends_at=None)), now=MONDAY).after
    assert after.policy == Policy(report_within=120)


def test_what_was_said_of_a_budget_is_merged_field_by_field_too() -> None:
    said = PolicyRequest(wakes_per_hour=4, wakes_per_day=24, cost_per_day=2.5, at_limit="defer")
    before = update(alarm(cron_expr=WEEKDAYS), None, edit(policy=said), now=MONDAY).after
    after = update(before, None, edit(policy=PolicyRequest(wakes_per_day=12)), now=MONDAY).after
    assert after.policy == Policy(wakes_per_hour=4, wakes_per_day=12, cost_per_day=2.5, at_limit="defer")
    gone = PolicyRequest(wakes_per_hour=None, cost_per_day=None, at_limit=None)
    assert update(after, None, edit(policy=gone), now=MONDAY).after.policy == Policy(wakes_per_day=12)

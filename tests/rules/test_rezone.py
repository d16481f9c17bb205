"""What becomes of an alarm when the rules of its zone change: Berlin loses its summer time, or keeps it for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.zone_worlds import ALWAYS_SUMMER_TIME, BERLIN, NO_SUMMER_TIME, SUMMER_TIME, own_rules
from wakeful.model.alarm import Policy
from wakeful.model.outcome import Snoozed
from wakeful.rules.rezone import rezone
from wakeful.schedule import zone, zones

from .world import ARRIVED, BROKEN, DAY, HOUR, MINUTE, SECOND, World, alarm

__all__ = ["own_rules"]

pytestmark = pytest.mark.usefixtures("own_rules")
JULY = datetime(2027, 7, 1, tzinfo=UTC)
MAY = datetime(2027, 5, 3, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def summer_time(own_rules: None) -> None:
    zones.use_rules("2030a", {BERLIN: SUMMER_TIME})


def berlin(now: datetime = DECEMBER, **asked: Any) -> World:
    return World(alarm(now=now, timezone=BERLIN, **asked))


def law(rules: bytes, at: datetime) -> None:
    """From a moment on Berlin has other rules."""
    zones.remember_former({BERLIN: SUMMER_TIME}, at)
    zones.use_rules("2030b", {BERLIN: rules})


def again(world: World, at: datetime) -> bool:
    """Plan it again; whether that changed anything."""
    return world.write(rezone(world.alarm, now=at, version="2030b"))


# one-shots


@pytest.mark.parametrize(
    "said", ["2027-07-01 09:00", "july 1 2027 at 9am", "2027-07-01T09:00 Europe/Berlin", "july 1 2027"]
)
def test_a_one_shot_set_by_the_wall_clock_keeps_its_wall_time(said: str) -> None:
    world = berlin(when=said)
    assert world.alarm.next_fire_at == JULY + 7 * HOUR
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert again(world, DECEMBER + DAY)
    assert world.alarm.fire_at == world.alarm.occurrence_at == world.alarm.next_fire_at == JULY + 8 * HOUR
    assert not again(world, DECEMBER + 2 * DAY)


@pytest.mark.parametrize(
    "asked",
    [
        {"when": "2027-07-01T09:00:00+02:00"},
        {"when": str(int((JULY + 7 * HOUR).timestamp()))},
        {"fire_at": JULY + 7 * HOUR},
        {"delay": JULY + 7 * HOUR - DECEMBER},
        {"when": "in 5088 hours"},
        {"when": "in 1 day and 5000 hours"},
    ],
    ids=["offset", "unix time", "fire_at", "delay", "hours", "days and hours"],
)
def test_a_one_shot_set_as_an_instant_keeps_its_instant(asked: dict[str, Any]) -> None:
    world = berlin(**asked)
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert world.alarm.cron_expr == ""
    assert not again(world, DECEMBER + DAY)


def test_so_many_days_ahead_keep_the_time_of_day() -> None:
    world = berlin(when="in 210 days")
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    before = world.alarm.next_fire_at
    assert again(world, DECEMBER + DAY)
    assert world.alarm.next_fire_at == before + HOUR


def test_a_one_shot_that_was_read_in_another_zone_since_keeps_its_instant() -> None:
    world = berlin(when="2027-07-01 09:00")
    world.update(DECEMBER + HOUR, timezone="Asia/Kathmandu")
    assert (world.alarm.cron_expr, world.alarm.fire_at) == ("", JULY + 7 * HOUR)


def test_another_moment_takes_the_wall_time_along() -> None:
    world = berlin(when="2027-07-01 09:00")
    world.update(DECEMBER + HOUR, fire_at=JULY)
    assert world.alarm.wall_time == ""
    world.update(DECEMBER + HOUR, when="2027-07-02 09:00")
    assert world.alarm.wall_time == "2027-07-02T09:00:00"


def test_a_snoozed_one_shot_waits_as_long_as_it_was_told_to() -> None:
    world = berlin(when="2026-12-01 14:00")
    world.snooze(230 * DAY, DECEMBER + 2 * HOUR)
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert not again(world, DECEMBER + DAY)


def test_a_one_shot_whose_time_has_passed_by_the_new_rules_is_due_at_once() -> None:
    world = berlin(when="2026-12-02 09:00")
    law(ALWAYS_SUMMER_TIME, DECEMBER + 19 * HOUR + 30 * MINUTE)
    assert again(world, DECEMBER + 19 * HOUR + 30 * MINUTE)
    assert world.alarm.next_fire_at == DECEMBER + 19 * HOUR
    assert world.attempt(ARRIVED, DECEMBER + 19 * HOUR + 31 * MINUTE)
    assert world.alarm.status == "fired"


# series


def test_the_next_of_a_series_moves_with_its_zone() -> None:
    world = berlin(cron_expr="0 9 1 7 *")
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert again(world, DECEMBER + DAY)
    assert world.alarm.next_fire_at == JULY + 8 * HOUR
    assert world.attempt(ARRIVED)
    assert world.alarm.next_fire_at == JULY.replace(year=2028) + 8 * HOUR
    assert [row[0] for row in world.rows] == [JULY + 8 * HOUR]


def test_a_zone_in_the_expression_counts() -> None:
    world = World(alarm(now=DECEMBER, timezone="UTC", cron_expr=f"CRON_TZ={BERLIN} 0 9 1 7 *"))
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert again(world, DECEMBER + DAY)
    assert world.alarm.next_fire_at == JULY + 8 * HOUR
    assert BERLIN in world.events[-1].reason


def test_what_counts_elapsed_time_stays() -> None:
    world = berlin(cron_expr="@every 5000h")
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert not again(world, DECEMBER + DAY)


def test_a_paused_series_moves_too() -> None:
    world = berlin(cron_expr="0 9 1 7 *")
    world.pause(DECEMBER + HOUR)
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert again(world, DECEMBER + DAY)
    assert (world.alarm.status, world.alarm.next_fire_at) == ("paused", JULY + 8 * HOUR)


def test_a_series_in_a_worker_s_hands_is_left_to_it() -> None:
    world = berlin(MAY, cron_expr="0 9 * * *")
    world.claim(world.alarm.next_fire_at)
    law(NO_SUMMER_TIME, MAY + 8 * HOUR)
    assert not again(world, MAY + 8 * HOUR)


def test_an_ended_series_stays_as_it_is() -> None:
    world = berlin(MAY, cron_expr="0 9 * * *")
    world.cancel(MAY + HOUR)
    law(NO_SUMMER_TIME, MAY + 8 * HOUR)
    assert not again(world, MAY + 8 * HOUR)


def test_a_series_whose_next_fire_is_behind_its_end_now_has_ended() -> None:
    world = berlin(cron_expr="0 9 1 7 *", policy=Policy(ends_at=JULY + 7 * HOUR))
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert again(world, DECEMBER + DAY)
    assert world.alarm.status == "fired"
    assert "has ended" in world.events[-1].reason


def test_jitter_is_thrown_anew_for_the_new_moment() -> None:
    world = berlin(cron_expr="0 9 1 7 *", policy=Policy(jitter=600))
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert again(world, DECEMBER + DAY)
    assert world.alarm.occurrence_at == JULY + 8 * HOUR
    assert JULY + 8 * HOUR <= world.alarm.next_fire_at < JULY + 8 * HOUR + 10 * MINUTE


def test_the_event_has_both_moments_and_says_why() -> None:
    world = berlin(cron_expr="0 9 1 7 *")
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    again(world, DECEMBER + DAY)
    [event] = world.events
    assert (event.what, event.by) == ("rezoned", "time zone data 2030b")
    assert event.reason == (
        "2027-07-01T07:00:00+00:00 is now 2027-07-01T08:00:00+00:00: the rules of Europe/Berlin have changed"
    )


# a change that is known late: clocks go otherwise already


def test_what_has_fired_today_does_not_fire_again_today() -> None:
    """09:00 was at 07:00 UTC, and is at 08:00 by the new rules, which come at 07:30."""
    world = berlin(MAY, cron_expr="0 9 * * *")
    world.attempt(ARRIVED, MAY + 7 * HOUR)
    law(NO_SUMMER_TIME, MAY + 7.5 * HOUR)
    assert again(world, MAY + 7.5 * HOUR)
    assert world.alarm.next_fire_at == MAY + DAY + 8 * HOUR
    assert not again(world, MAY + 7.6 * HOUR)
    assert not again(world, MAY + 9 * HOUR)


@pytest.mark.parametrize("outcome", [ARRIVED, BROKEN], ids=["delivered", "retried"])
def test_what_is_under_way_today_does_not_fire_again_today(outcome: Any) -> None:
    world = berlin(MAY, cron_expr="0 9 * * *")
    world.claim(MAY + 7 * HOUR)
    law(NO_SUMMER_TIME, MAY + 7.5 * HOUR)
    world.settle(outcome, MAY + 7 * HOUR, MAY + 7.6 * HOUR)
    if outcome is BROKEN:
        assert not again(world, MAY + 7.6 * HOUR)
        assert world.attempt(ARRIVED)
    assert world.alarm.next_fire_at == MAY + DAY + 8 * HOUR
    assert [row[:2] for row in world.rows] == [(MAY + 7 * HOUR, "delivered")]


def test_what_has_not_fired_today_and_would_have_by_the_new_rules_fires_at_once() -> None:
    """09:00 is at 08:00 UTC, and was at 07:00 by the new rules, which come at 07:30."""
    day = DECEMBER.replace(hour=0)
    world = berlin(day, cron_expr="0 9 * * *")
    law(ALWAYS_SUMMER_TIME, day + 7.5 * HOUR)
    assert again(world, day + 7.5 * HOUR)
    assert world.attempt(ARRIVED, day + 7.5 * HOUR)
    assert world.alarm.next_fire_at == day + DAY + 7 * HOUR
    assert [row[:2] for row in world.rows] == [(day + 7 * HOUR, "delivered")]


def test_a_fire_on_record_is_never_taken_for_another_occurrence() -> None:
    """08:00 was fired at 07:00 UTC; by the new rules that was 09:00, which was not fired."""
    day = DECEMBER.replace(hour=0)
    world = berlin(day, cron_expr="0 8,9 * * *")
    world.attempt(ARRIVED, day + 7 * HOUR)
    law(ALWAYS_SUMMER_TIME, day + 7.5 * HOUR)
    assert again(world, day + 7.5 * HOUR)
    assert world.attempt(ARRIVED, day + 7.5 * HOUR)
    assert [row[1] for row in world.rows] == ["delivered", "delivered"]
    assert world.alarm.next_fire_at == day + DAY + 6 * HOUR


def test_what_is_overdue_by_both_rules_is_delivered_as_it_stands() -> None:
    world = berlin(MAY, cron_expr="0 9 * * *")
    law(NO_SUMMER_TIME, MAY + 9 * HOUR)
    assert not again(world, MAY + 9 * HOUR)
    assert world.attempt(ARRIVED, MAY + 9 * HOUR)
    assert world.alarm.next_fire_at == MAY + DAY + 8 * HOUR


def test_what_is_overdue_by_the_old_rules_only_waits() -> None:
    world = berlin(MAY, cron_expr="0 9 * * *")
    law(NO_SUMMER_TIME, MAY + 7.5 * HOUR)
    assert again(world, MAY + 7.5 * HOUR)
    assert world.alarm.next_fire_at == MAY + 8 * HOUR


def test_a_rhythm_of_the_clock_goes_on_as_time_passes() -> None:
    """Every quarter of an hour means what passes: nothing is left out and nothing is moved."""
    world = berlin(MAY, cron_expr="*/15 * * * *")
    world.attempt(ARRIVED, MAY + 15 * MINUTE)
    law(NO_SUMMER_TIME, MAY + 20 * MINUTE)
    assert not again(world, MAY + 20 * MINUTE)
    world.attempt(ARRIVED, MAY + 30 * MINUTE)
    assert world.alarm.next_fire_at == MAY + 45 * MINUTE


def test_office_hours_begin_with_the_new_clock() -> None:
    day = DECEMBER.replace(hour=0)
    world = berlin(day, cron_expr="0 9-17 * * *")
    law(ALWAYS_SUMMER_TIME, day + 2 * HOUR)
    assert again(world, day + 2 * HOUR)
    assert world.alarm.next_fire_at == day + 7 * HOUR  # 08:00 UTC is 10:00 now: one of its hours, but not the next


def test_a_retry_does_not_reach_beyond_the_next_fire() -> None:
    day = DECEMBER.replace(hour=0)
    world = berlin(day, cron_expr="0 9 * * *", policy=Policy(backoff_base=3600 * 23.5, backoff_cap=3600 * 23.5))
    world.attempt(BROKEN, day + 8 * HOUR)
    assert world.alarm.next_fire_at > day + DAY + 6 * HOUR
    world.alarm = replace(world.alarm, next_fire_at=day + DAY + 7.5 * HOUR)
    law(ALWAYS_SUMMER_TIME, day + 10 * HOUR)
    assert again(world, day + 10 * HOUR)
    assert world.alarm.next_fire_at == day + DAY + 7 * HOUR - timedelta(milliseconds=1)
    assert world.alarm.failure_count == 1
    world.attempt(ARRIVED, day + DAY + 7 * HOUR - SECOND / 1000)
    assert world.alarm.next_fire_at >= day + DAY + 7 * HOUR


def test_a_snoozed_series_fires_when_it_was_put_off_to() -> None:
    world = berlin(MAY, cron_expr="0 9 * * *")
    world.snooze(3 * DAY, MAY + HOUR)
    assert world.alarm.next_fire_at == MAY + 3 * DAY + 7 * HOUR
    law(NO_SUMMER_TIME, MAY + 2 * HOUR)
    assert again(world, MAY + 2 * HOUR)
    assert world.alarm.next_fire_at == MAY + 3 * DAY + 8 * HOUR
    assert not again(world, MAY + 3 * HOUR)


def test_a_snoozed_fire_gives_way_to_the_next_one_where_that_comes_first_now() -> None:
    day = DECEMBER.replace(hour=0)
    world = berlin(day, cron_expr="0 9 * * *")
    world.attempt(Snoozed(23.5 * HOUR), day + 8 * HOUR)
    assert day + DAY + 7 * HOUR < world.alarm.next_fire_at < day + DAY + 8 * HOUR
    law(ALWAYS_SUMMER_TIME, day + 10 * HOUR)
    assert again(world, day + 10 * HOUR)
    assert world.alarm.occurrence_at == world.alarm.next_fire_at == day + DAY + 7 * HOUR


def test_a_snoozed_fire_that_stays_before_the_next_one_stays() -> None:
    world = berlin(MAY, cron_expr="0 9 * * *")
    world.attempt(Snoozed(23.5 * HOUR), MAY + 7 * HOUR)
    law(NO_SUMMER_TIME, MAY + 10 * HOUR)
    assert not again(world, MAY + 10 * HOUR)


def test_an_alarm_that_was_set_by_the_new_rules_before_they_were_in_force_stays() -> None:
    """By a command on a machine with newer data: the server's came later."""
    zones.use_rules("2030b", {BERLIN: NO_SUMMER_TIME})
    world, one_shot = berlin(cron_expr="0 9 1 7 *"), berlin(when="2027-07-01 09:00")
    law(NO_SUMMER_TIME, DECEMBER + DAY)
    assert not again(world, DECEMBER + DAY)
    assert not again(one_shot, DECEMBER + DAY)


@pytest.mark.parametrize("rules", [NO_SUMMER_TIME, ALWAYS_SUMMER_TIME], ids=["no summer time", "always summer time"])
@pytest.mark.parametrize("cron", ["0 9 * * *", "30 2 * * *", "0 23 * * *", "15 0 * * *"])
@pytest.mark.parametrize("month", [3, 10], ids=["spring", "autumn"])
def test_whenever_the_new_rules_come_each_day_has_one_fire(month: int, cron: str, rules: bytes) -> None:
    """Around a night in which clocks change by the old rules, an hour at a time."""
    for hours in range(96):
        change = datetime(2027, month, 26, tzinfo=UTC) + hours * HOUR + 10 * MINUTE
        days = _days_with_a_fire(cron, rules, change)
        assert days == [days[0] + number * DAY for number in range(len(days))], change


def _days_with_a_fire(cron: str, rules: bytes, change: datetime) -> list[datetime]:
    """By the rules that each was planned by."""
    zones.forget_former()
    zones.use_rules("2030a", {BERLIN: SUMMER_TIME})
    world = berlin(change - 4 * DAY, cron_expr=cron)
    days: list[datetime] = []
    while len(days) < 8:
        if world.alarm.next_fire_at > change and zones.rules_changed_at() is None:
            law(rules, change)
            again(world, change)
        now = max(world.alarm.next_fire_at, zones.rules_changed_at() or world.alarm.next_fire_at)
        planned_for = world.alarm.occurrence_at.astimezone(zone(BERLIN))
        assert world.attempt(ARRIVED, now)
        days.append(planned_for.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0))
    return days

"""How an alarm behaves when things do not go to plan: late, overlapping, expired, bounded, hopeless."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from wakeful.model.alarm import Policy
from wakeful.model.outcome import Snoozed
from wakeful.rules.plan import missed_before

from .world import ARRIVED, AWAITED, BROKEN, DAY, DONE, HOUR, MINUTE, SECOND, World, alarm, at, hourly, once


def test_no_attempt_starts_once_a_fire_has_expired() -> None:
    world = once(policy=Policy(expires=600))
    assert not world.attempt(ARRIVED, at(9, 10, 1))
    assert world.rows == [(at(9), "skipped", "expired")]
    assert world.alarm.status == "failed"
    assert world.alarm.last_error == "not delivered: expired, 601 s after it was due"
    just = once(policy=Policy(expires=600))
    assert just.attempt(ARRIVED, at(9, 10))


def test_a_retry_that_would_come_after_the_expiry_is_not_planned() -> None:
    for world in (once(policy=Policy(expires=20)), hourly(policy=Policy(expires=20))):
        world.attempt(BROKEN)
        assert world.rows == [(at(9), "failed", "expired")]


def test_a_retry_that_was_claimed_after_the_expiry_ends_failed_with_its_last_error() -> None:
    world = hourly(policy=Policy(expires=600))
    world.attempt(BROKEN)
    assert not world.attempt(ARRIVED, at(9, 11))
    assert world.rows == [(at(9), "failed", "expired")]
    assert world.fires[at(9)].last_error == "HTTP 503"
    assert world.alarm.next_fire_at == at(10)


def test_only_what_has_expired_is_passed_over() -> None:
    world = hourly(policy=Policy(expires=600))
    assert not world.attempt(ARRIVED, at(12, 5))
    assert world.rows == [(at(9), "skipped", "expired")]
    assert (world.fires[at(9)].through, world.fires[at(9)].count) == (at(11), 3)
    assert world.attempt(ARRIVED, at(12, 5))
    assert world.rows[1:] == [(at(12), "delivered", "")]


def test_an_occurrence_is_skipped_while_the_one_before_is_awaited() -> None:
    world = hourly()
    world.attempt(AWAITED)
    assert world.alarm.awaiting == at(9)
    assert not world.attempt(ARRIVED, at(10))
    assert world.rows == [(at(9), "delivered", ""), (at(10), "skipped", "overlap")]
    assert world.alarm.next_fire_at == at(11)


def test_overlap_allow_delivers_all_the_same() -> None:
    world = hourly(policy=Policy(overlap="allow"))
    world.attempt(AWAITED)
    assert world.attempt(AWAITED, at(10))
    assert world.alarm.awaiting == at(10)


def test_a_fire_nobody_reports_on_does_not_hold_up_the_next() -> None:
    world = hourly()
    world.attempt(ARRIVED)
    assert world.alarm.awaiting is None
    assert world.attempt(ARRIVED, at(10))


def test_catching_up_delivers_the_oldest_and_puts_the_rest_in_one_row() -> None:
    world = hourly()
    assert missed_before(world.alarm, at(12, 30)) == 3
    assert world.attempt(ARRIVED, at(12, 30))
    assert world.rows == [(at(9), "delivered", ""), (at(10), "skipped", "missed")]
    run = world.fires[at(10)]
    assert (run.through, run.count) == (at(12), 3)
    assert world.alarm.next_fire_at == at(13)


def test_a_retry_does_not_count_the_same_missed_instants_twice() -> None:
    world = hourly()
    world.attempt(BROKEN, at(12, 30))
    assert world.rows == [(at(9), "retrying", ""), (at(10), "skipped", "missed")]
    assert missed_before(world.alarm, world.alarm.next_fire_at) == 0
    world.attempt(ARRIVED)
    assert world.rows == [(at(9), "delivered", ""), (at(10), "skipped", "missed")]


def test_instants_during_a_long_attempt_met_a_fire_under_way() -> None:
    world = hourly()
    world.attempt(ARRIVED, at(10, 30), took=2 * HOUR)
    assert world.rows == [(at(9), "delivered", ""), (at(10), "skipped", "missed"), (at(11), "skipped", "overlap")]
    assert (world.fires[at(11)].through, world.fires[at(11)].count) == (at(12), 2)
    assert world.alarm.next_fire_at == at(13)


def test_catch_up_skip_passes_over_what_is_later_than_its_grace() -> None:
    world = hourly(policy=Policy(catch_up="skip", grace=60))
    assert not world.attempt(ARRIVED, at(11, 30))
    assert world.rows == [(at(9), "skipped", "missed")]
    assert (world.fires[at(9)].through, world.fires[at(9)].count) == (at(11), 3)
    assert world.alarm.next_fire_at == at(12)
    assert world.attempt(ARRIVED, at(12, 1))


def test_catch_up_skip_still_delivers_the_one_within_its_grace() -> None:
    world = hourly(policy=Policy(catch_up="skip", grace=60))
    assert not world.attempt(ARRIVED, at(11, 0, 30))
    assert (world.fires[at(9)].through, world.alarm.next_fire_at) == (at(10), at(11))
    assert world.attempt(ARRIVED, at(11, 0, 30))


def test_a_one_shot_that_was_missed_ends_failed_and_says_so() -> None:
    world = once(policy=Policy(catch_up="skip", grace=60))
    assert not world.attempt(ARRIVED, at(9, 2))
    assert world.alarm.status == "failed"
    assert world.alarm.last_error == "not delivered: missed, 120 s after it was due"
    assert world.rows == [(at(9), "skipped", "missed")]


def test_max_fires_counts_what_was_settled_and_then_the_series_has_fired() -> None:
    world = hourly(max_failures=0, policy=Policy(max_fires=2))
    world.attempt(BROKEN)
    assert world.alarm.status == "active"
    world.attempt(ARRIVED, at(12, 30))
    assert (world.alarm.status, world.alarm.fire_count) == ("fired", 2)
    assert world.rows == [(at(9), "failed", "exhausted"), (at(10), "delivered", "")]


def test_a_series_has_fired_after_its_end() -> None:
    world = hourly(policy=Policy(ends_at=at(10)))
    world.attempt(ARRIVED)
    assert world.alarm.next_fire_at == at(10)
    world.attempt(ARRIVED)
    assert world.alarm.status == "fired"


def test_jitter_is_the_same_each_time_and_stays_below_the_gap() -> None:
    first = hourly(policy=Policy(jitter=86_400)).alarm
    assert first == hourly(policy=Policy(jitter=86_400)).alarm
    world, seen = World(first), set()
    for _ in range(50):
        jitter = world.alarm.next_fire_at - world.alarm.occurrence_at
        assert timedelta(0) <= jitter < HOUR
        seen.add(jitter)
        world.attempt(ARRIVED, took=timedelta(0))
    assert len(seen) > 40
    assert all(status == "delivered" for _, status, _ in world.rows)


def test_a_series_that_keeps_failing_is_paused_where_its_policy_says_so() -> None:
    world = hourly(max_failures=0, policy=Policy(auto_pause_after=2))
    world.attempt(BROKEN)
    world.attempt(BROKEN)
    assert (world.alarm.status, world.alarm.occurrence_at) == ("paused", at(11))
    assert world.alarm.paused_reason == "2 fires failed in a row: HTTP 503"
    assert [(event.what, event.by) for event in world.events] == [("paused", "policy auto_pause_after")]


def test_a_success_breaks_the_run_of_failures() -> None:
    world = hourly(max_failures=0, policy=Policy(auto_pause_after=2))
    for outcome in (BROKEN, DONE, BROKEN):
        world.attempt(outcome)
    assert (world.alarm.status, world.alarm.failed_in_a_row) == ("active", 1)


def test_a_series_paused_while_an_attempt_was_under_way_stays_paused() -> None:
    world = hourly()
    world.claim(at(9))
    world.alarm = replace(world.alarm, status="paused")
    world.settle(ARRIVED, at(9), at(9))
    assert (world.alarm.status, world.alarm.occurrence_at) == ("paused", at(10))


def test_a_wake_that_came_late_says_how_late() -> None:
    world = hourly()
    assert missed_before(world.alarm, at(9, 59)) == 0
    assert missed_before(world.alarm, at(10)) == 1
    assert missed_before(hourly(policy=Policy(max_fires=1)).alarm, at(12)) == 0
    assert missed_before(once().alarm, at(12)) == 0


def test_a_run_too_long_to_count_is_counted_up_to_a_limit_and_still_covers_all() -> None:
    world = World(alarm(cron_expr="@every 1s"))
    world.attempt(ARRIVED, at(8, 0, 1) + 2 * DAY, took=SECOND)
    run = world.fires[at(8, 0, 2)]
    assert run.count == 1_000
    assert run.through == at(8, 0, 1) + 2 * DAY
    assert world.alarm.occurrence_at == at(8, 0, 3) + 2 * DAY


def test_instants_during_an_attempt_that_failed_for_good_are_on_record_too() -> None:
    world = hourly(max_failures=0)
    world.attempt(BROKEN, at(9, 30), took=2 * HOUR)
    assert world.rows == [(at(9), "failed", "exhausted"), (at(10), "skipped", "overlap")]
    assert (world.fires[at(10)].count, world.alarm.occurrence_at) == (2, at(12))


def test_a_snoozed_fire_uses_up_none_of_max_fires_and_hides_no_instant() -> None:
    world = hourly(policy=Policy(max_fires=1))
    world.attempt(Snoozed(5 * MINUTE), at(10, 30))
    assert world.rows == [(at(9), "snoozed", ""), (at(10), "skipped", "missed")]
    assert world.attempt(ARRIVED)
    assert world.alarm.status == "fired"

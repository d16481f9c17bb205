"""What a target's silence does."""

from __future__ import annotations

from wakeful.alarm import Policy

from .world import ARRIVED, AWAITED, BROKEN, DONE, at, hourly, once


def test_a_fire_nobody_reported_on_is_timed_out_with_the_reason() -> None:
    world = once()
    world.attempt(AWAITED)
    world.sweep(at(9), at(9, 6))
    [fire] = world.fires.values()
    assert (fire.status, fire.result, fire.report_by) == ("timed_out", "timeout_unknown", None)
    assert fire.last_error == world.alarm.last_error == "no report by 2026-01-05T09:05:01+00:00"


def test_a_one_shot_that_fell_silent_has_still_fired() -> None:
    world = once()
    world.attempt(AWAITED)
    world.sweep(at(9), at(9, 6))
    assert (world.alarm.status, world.alarm.awaiting) == ("fired", None)


def test_silence_lets_the_next_occurrence_through() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.sweep(at(9), at(9, 6))
    assert world.alarm.occurrence_at == at(10)
    assert world.attempt(ARRIVED, at(10))


def test_silence_on_an_old_fire_does_not_end_the_wait_for_a_younger_one() -> None:
    world = hourly(policy=Policy(overlap="allow", report_within=7200))
    world.attempt(AWAITED)
    world.attempt(AWAITED)
    world.sweep(at(9), at(11, 0, 5))
    assert world.alarm.awaiting == at(10)


def test_silence_counts_as_a_failure_in_a_row() -> None:
    world = hourly(policy=Policy(auto_pause_after=2))
    for hour in (9, 10):
        world.attempt(AWAITED)
        assert world.alarm.status == "active"
        world.sweep(at(hour), at(hour, 6))
    assert (world.alarm.status, world.alarm.occurrence_at) == ("paused", at(11))
    assert "no report by" in world.alarm.paused_reason


def test_a_series_paused_by_silence_while_it_was_being_delivered_stays_paused() -> None:
    world = hourly(policy=Policy(auto_pause_after=1, overlap="allow", report_within=3600))
    world.attempt(AWAITED)
    world.claim(at(10))
    world.sweep(at(9), at(10, 0, 5))
    assert world.alarm.status == "paused"
    world.settle(DONE, at(10), at(10, 0, 30))
    assert (world.alarm.status, world.alarm.occurrence_at) == ("paused", at(11))


def test_silence_leaves_a_retry_of_another_occurrence_alone() -> None:
    world = hourly(policy=Policy(overlap="allow", report_within=3600))
    world.attempt(AWAITED)
    world.attempt(BROKEN)
    before = world.alarm
    world.sweep(at(9), at(10, 0, 5))
    after = world.alarm
    assert (after.occurrence_at, after.next_fire_at, after.failure_count) == (at(10), before.next_fire_at, 1)

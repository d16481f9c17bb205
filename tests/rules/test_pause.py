"""Holding an alarm, letting it go on, and putting it off."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from wakeful.errors import Conflict, InvalidRequest
from wakeful.model.alarm import Policy

from .world import ARRIVED, BROKEN, DAY, DONE, FINISHED, HOUR, MINUTE, MONDAY, World, at, hourly, once, paused

# pause and resume


@pytest.mark.parametrize("make", FINISHED)
def test_what_has_ended_can_neither_be_paused_nor_resumed(make: Callable[[], World]) -> None:
    world = make()
    with pytest.raises(Conflict):
        world.pause(at(12))
    with pytest.raises(Conflict):
        world.resume(at(12))


def test_pausing_twice_and_resuming_what_runs_change_nothing() -> None:
    world = once()
    assert not world.resume(MONDAY)
    assert world.pause(MONDAY)
    assert world.alarm.paused_reason == "holiday"
    assert not world.pause(MONDAY)
    assert world.resume(MONDAY)
    assert world.alarm.paused_reason == ""


def test_a_one_shot_whose_time_passed_in_its_pause_fires_at_once() -> None:
    world = once()
    world.pause(at(8, 30))
    world.resume(at(12))
    assert (world.alarm.status, world.alarm.next_fire_at) == ("active", at(9))
    assert world.attempt(ARRIVED, at(12))


def test_a_series_goes_on_with_its_next_occurrence_and_its_pause_is_one_row() -> None:
    world = hourly()
    world.pause(at(8, 30))
    assert world.rows == []
    world.resume(at(11, 30))
    assert world.rows == [(at(9), "skipped", "paused")]
    assert (world.fires[at(9)].through, world.fires[at(9)].count) == (at(11), 3)
    assert (world.alarm.status, world.alarm.occurrence_at) == ("active", at(12))


def test_a_pause_that_ends_before_anything_was_due_leaves_no_trace() -> None:
    world = hourly(policy=Policy(jitter=3000))
    due = world.alarm.next_fire_at
    world.pause(at(8, 30))
    world.resume(due - timedelta(milliseconds=1))
    assert (world.rows, world.alarm.next_fire_at) == ([], due)


def test_a_retry_that_was_paused_goes_on_if_it_is_not_too_late() -> None:
    world = hourly()
    world.attempt(BROKEN)
    due = world.alarm.next_fire_at
    world.pause(at(9, 0, 5))
    world.resume(at(9, 0, 10))
    assert (world.alarm.next_fire_at, world.alarm.occurrence_at) == (due, at(9))
    assert world.attempt(DONE)
    assert world.rows == [(at(9), "completed", "")]


def test_a_retry_that_was_paused_for_too_long_has_ended() -> None:
    world = hourly()
    world.attempt(BROKEN)
    world.pause(at(9, 0, 5))
    world.resume(at(11, 30))
    assert world.rows == [(at(9), "failed", "paused"), (at(10), "skipped", "paused")]
    assert (world.fires[at(10)].count, world.alarm.occurrence_at) == (2, at(12))


def test_a_series_whose_end_came_in_its_pause_has_fired() -> None:
    world = hourly(policy=Policy(ends_at=at(10)))
    world.pause(at(8, 30))
    world.resume(at(12))
    assert (world.alarm.status, world.rows) == ("fired", [(at(9), "skipped", "paused")])


def test_resuming_forgets_the_failures_that_led_to_the_pause() -> None:
    world = hourly(max_failures=0, policy=Policy(auto_pause_after=1))
    world.attempt(BROKEN)
    assert world.alarm.status == "paused"
    world.resume(at(9, 30))
    assert (world.alarm.failed_in_a_row, world.alarm.occurrence_at) == (0, at(10))


# snooze


def test_a_one_shot_is_put_off() -> None:
    world = once()
    world.snooze(2 * HOUR, at(8, 30))
    assert (world.alarm.occurrence_at, world.alarm.next_fire_at) == (at(10, 30), at(10, 30))
    assert world.rows == [(at(9), "snoozed", "")]
    assert world.attempt(DONE)
    assert world.alarm.status == "fired"


def test_one_occurrence_of_a_series_is_put_off() -> None:
    world = hourly()
    world.snooze(75 * MINUTE, at(8, 30))
    assert world.alarm.occurrence_at == at(9, 45)
    world.attempt(DONE)
    assert world.rows == [(at(9), "snoozed", ""), (at(9, 45), "completed", "")]
    assert world.alarm.occurrence_at == at(10)


def test_a_series_put_off_past_its_next_occurrence_goes_on_with_the_first_one_after_that() -> None:
    world = hourly()
    world.snooze(4 * HOUR, at(8, 30))
    assert world.alarm.occurrence_at == at(13)
    assert world.rows == [(at(9), "snoozed", ""), (at(10), "skipped", "superseded")]
    assert (world.fires[at(10)].through, world.fires[at(10)].count) == (at(12), 3)
    exact = hourly()
    exact.snooze(90 * MINUTE, at(8, 30))
    assert exact.alarm.occurrence_at == at(10)
    assert exact.rows == [(at(9), "snoozed", "")]


def test_an_overdue_occurrence_is_put_off() -> None:
    world = hourly()
    world.snooze(10 * MINUTE, at(9, 30))
    assert (world.alarm.occurrence_at, world.rows) == (at(9, 40), [(at(9), "snoozed", "")])


def test_a_retry_is_put_off_under_a_new_fire() -> None:
    world = once()
    world.attempt(BROKEN)
    world.snooze(HOUR, at(9, 0, 10))
    assert (world.rows, world.alarm.failure_count) == ([(at(9), "snoozed", "")], 0)
    assert world.fires[at(9)].attempts == 1
    assert world.alarm.occurrence_at == at(10, 0, 10)


def test_a_snooze_never_makes_an_alarm_fire_sooner() -> None:
    for world in (once(), hourly()):
        with pytest.raises(InvalidRequest) as refused:
            world.snooze(30 * MINUTE, at(8, 30))
        assert refused.value.field == "for"


@pytest.mark.parametrize("wait", [timedelta(0), -HOUR])
def test_a_snooze_needs_a_length(wait: timedelta) -> None:
    with pytest.raises(InvalidRequest):
        once().snooze(wait, MONDAY)


@pytest.mark.parametrize("make", [*FINISHED, paused])
def test_only_an_active_alarm_is_snoozed(make: Callable[[], World]) -> None:
    with pytest.raises(Conflict):
        make().snooze(DAY, at(12))


def test_a_time_that_was_put_off_can_be_chosen_again() -> None:
    world = once()
    world.snooze(2 * HOUR, at(8, 10))
    world.update(at(8, 20), fire_at=at(9))
    assert world.attempt(DONE)
    assert (world.rows[0], world.fires[at(9)].attempts) == ((at(9), "completed", ""), 1)


def test_an_instant_that_was_to_be_passed_over_counts_as_itself_once_an_edit_brings_it_back() -> None:
    world = hourly()
    world.snooze(4 * HOUR, at(8, 30))
    world.update(at(8, 40), cron_expr="0 */2 * * *")
    assert world.attempt(DONE)
    fire = world.fires[at(10)]
    assert (fire.status, fire.through, fire.count) == ("completed", None, 1)


def test_a_series_put_off_past_its_end_fires_once_more_at_that_moment() -> None:
    world = hourly(policy=Policy(ends_at=at(10)))
    world.snooze(4 * HOUR, at(8, 30))
    assert (world.alarm.status, world.alarm.occurrence_at) == ("active", at(12, 30))
    assert world.rows == [(at(9), "snoozed", ""), (at(10), "skipped", "superseded")]
    world.attempt(DONE)
    assert world.alarm.status == "fired"


def test_a_snooze_ends_when_it_says_and_jitter_belongs_to_the_schedule() -> None:
    world = hourly(policy=Policy(jitter=600))
    world.snooze(75 * MINUTE, at(8, 30))
    assert (world.alarm.occurrence_at, world.alarm.next_fire_at) == (at(9, 45), at(9, 45))
    series = hourly(policy=Policy(jitter=600))
    series.snooze(90 * MINUTE, at(8, 30))
    assert at(10) == series.alarm.occurrence_at < series.alarm.next_fire_at < at(10, 10)

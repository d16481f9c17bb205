"""What a target's later word does to a fire and its alarm."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from wakeful.errors import Conflict, NotFound
from wakeful.model.alarm import Policy
from wakeful.model.outcome import Failed, Report, Snoozed, Try
from wakeful.rules.edit import replace_with
from wakeful.rules.settle import retry_at, settle

from .world import ARRIVED, AWAITED, BROKEN, DONE, HOUR, MINUTE, SECOND, World, alarm, at, hourly, once

COMPLETED, FAILED, WORKING = Report("completed", "done"), Report("failed", "no disk"), Report("working", "page 3")


def snooze(wait: timedelta) -> Report:
    return Report("snooze", wait=wait)


def frozen(world: World) -> dict[str, object]:
    """Everything of the alarm that must not move when only its record is corrected."""
    alarm = world.alarm
    return {
        name: getattr(alarm, name)
        for name in alarm.__struct_fields__
        if name not in ("version", "updated_at", "awaiting", "last_error", "failed_in_a_row")
    }


# completed


def test_completed_ends_the_fire_with_its_result_and_duration() -> None:
    world = once()
    world.attempt(AWAITED)
    before = frozen(world)
    assert world.report(at(9), COMPLETED, at(9, 3))
    [fire] = world.fires.values()
    assert (fire.status, fire.result, fire.completed_at, fire.report_by) == ("completed", "done", at(9, 3), None)
    assert fire.duration_ms == 180_000
    assert world.alarm.awaiting is None
    assert frozen(world) == before


def test_a_report_counts_once() -> None:
    world = once()
    world.attempt(AWAITED)
    assert world.report(at(9), COMPLETED, at(9, 3))
    assert not world.report(at(9), Report("completed", "again"), at(9, 4))
    assert world.fires[at(9)].result == "done"
    with pytest.raises(Conflict):
        world.report(at(9), FAILED, at(9, 4))


def test_a_late_completed_corrects_timed_out_and_moves_nothing_else() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.sweep(at(9), at(9, 6))
    before, error = frozen(world), world.alarm.last_error
    assert world.report(at(9), COMPLETED, at(9, 30))
    assert (world.rows, world.fires[at(9)].result) == ([(at(9), "completed", "late")], "done")
    assert frozen(world) == before
    assert (world.alarm.last_error, world.alarm.failed_in_a_row) == (error, 1)


def test_a_late_completed_corrects_a_delivery_that_seemed_to_fail() -> None:
    world = once(max_failures=0)
    world.attempt(Failed("timeout"))
    world.report(at(9), COMPLETED, at(9, 30))
    assert world.rows == [(at(9), "completed", "late")]
    assert world.alarm.status == "failed"


def test_completed_while_in_flight_outweighs_the_answer_that_comes_after() -> None:
    for answer in (ARRIVED, AWAITED, BROKEN, Failed("gone", retryable=False), Snoozed(HOUR)):
        world = hourly()
        world.claim(at(9))
        world.report(at(9), COMPLETED, at(9, 0, 10))
        assert world.alarm.claimed_at is not None
        world.settle(answer, at(9, 0, 1), at(9, 0, 30))
        [fire] = world.fires.values()
        assert (fire.status, fire.result, fire.completed_at) == ("completed", "done", at(9, 0, 10))
        assert (fire.started_at, fire.duration_ms, fire.attempts) == (at(9), 10_000, 1)
        assert (world.alarm.occurrence_at, world.alarm.awaiting, world.alarm.fire_count) == (at(10), None, 1)


def test_a_settlement_decided_before_a_report_came_in_is_not_written() -> None:
    world = once()
    held = world.claim(at(9))
    change = settle(held, None, BROKEN, Try(at(9), at(9, 1)))
    world.report(at(9), COMPLETED, at(9, 0, 30))
    assert not world.write(change)
    assert world.alarm.claim == held.claim


def test_completed_in_flight_and_then_a_dead_worker_is_settled_without_another_delivery() -> None:
    world = once()
    world.claim(at(9))
    world.report(at(9), COMPLETED, at(9, 1))
    assert not world.attempt(ARRIVED, at(9, 3))
    assert (world.alarm.status, world.fires[at(9)].status, world.fires[at(9)].attempts) == ("fired", "completed", 1)


def test_completed_between_two_attempts_spares_the_second() -> None:
    world = once()
    world.attempt(Failed("timeout"))
    world.report(at(9), COMPLETED, at(9, 0, 20))
    assert (world.alarm.status, world.alarm.fire_count, world.alarm.failure_count) == ("fired", 1, 0)
    assert (world.rows, world.alarm.last_error) == ([(at(9), "completed", "")], "")


def test_completed_between_two_attempts_lets_a_series_go_on_where_it_stood() -> None:
    world = hourly()
    world.attempt(Failed("timeout"))
    world.report(at(9), COMPLETED, at(11, 30))
    assert world.alarm.occurrence_at == at(10)
    assert world.attempt(ARRIVED, at(11, 30))
    assert world.rows == [(at(9), "completed", ""), (at(10), "delivered", ""), (at(11), "skipped", "missed")]


def test_completed_does_not_wake_a_paused_alarm() -> None:
    for world in (once(), hourly()):
        world.attempt(Failed("timeout"))
        world.pause(at(9, 0, 10))
        world.report(at(9), COMPLETED, at(9, 0, 20))
        assert world.alarm.status == "paused"
        world.resume(at(9, 30))
        assert world.rows == [(at(9), "completed", "")]


def test_completed_of_an_old_fire_leaves_the_error_of_the_one_being_tried() -> None:
    world = hourly(policy=Policy(overlap="allow"))
    world.attempt(AWAITED)
    world.attempt(BROKEN)
    world.report(at(9), COMPLETED, at(10, 0, 5))
    assert (world.alarm.last_error, world.alarm.failure_count) == ("HTTP 503", 1)
    assert world.alarm.occurrence_at == at(10)


# failed


def test_a_reported_failure_of_a_one_shot_climbs_the_ladder_under_the_same_fire_id() -> None:
    world = once()
    world.attempt(AWAITED)
    fire_id = world.fires[at(9)].id
    world.report(at(9), FAILED, at(9, 3))
    assert (world.alarm.status, world.alarm.failure_count, world.alarm.last_error) == ("active", 1, "no disk")
    assert world.alarm.fire_id == fire_id
    assert 30 * SECOND <= world.alarm.next_fire_at - at(9, 3) <= 33 * SECOND
    assert world.fires[at(9)].result == "RETRY: no disk (attempt 1/5)"
    world.attempt(DONE)
    assert (world.alarm.status, world.alarm.fire_count, world.fires[at(9)].attempts) == ("fired", 1, 2)


def test_reported_failures_and_failed_deliveries_climb_one_ladder() -> None:
    world = once(max_failures=2)
    world.attempt(BROKEN)
    world.attempt(AWAITED)
    world.report(at(9), FAILED, at(9, 3))
    assert world.alarm.failure_count == 2
    world.attempt(AWAITED)
    world.report(at(9), FAILED, at(9, 10))
    assert (world.alarm.status, world.alarm.last_error) == ("failed", "no disk")
    assert world.rows == [(at(9), "failed", "reported")]
    assert world.fires[at(9)].result == "FAILED: no disk (after 3 attempts)"


def test_a_reported_failure_counts_once() -> None:
    world = once(max_failures=0)
    world.attempt(AWAITED)
    assert world.report(at(9), FAILED, at(9, 3))
    assert not world.report(at(9), Report("failed", "again"), at(9, 4))
    assert (world.alarm.last_error, world.alarm.failed_in_a_row) == ("no disk", 1)
    with pytest.raises(Conflict):
        world.report(at(9), COMPLETED, at(9, 5))


def test_a_reported_failure_of_a_series_is_retried_before_its_next_occurrence() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.report(at(9), FAILED, at(9, 3))
    assert (world.alarm.occurrence_at, world.alarm.failure_count, world.alarm.awaiting) == (at(9), 1, None)
    world.attempt(DONE)
    assert (world.alarm.occurrence_at, world.alarm.fire_count) == (at(10), 1)
    assert world.rows == [(at(9), "completed", "")]


@pytest.mark.parametrize("exact", [False, True])
def test_a_reported_failure_waits_as_the_policy_has_it(exact: bool) -> None:
    world = once(policy=Policy(exact_backoff=exact))
    world.attempt(AWAITED)
    world.report(at(9), FAILED, at(9, 3))
    assert (world.alarm.next_fire_at == at(9, 3, 30)) is exact
    assert at(9, 3, 30) <= world.alarm.next_fire_at < at(9, 3, 33)


def test_a_reported_failure_that_could_only_be_retried_after_the_next_occurrence_ends_failed() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.report(at(9), FAILED, at(9, 59, 40))
    assert world.rows == [(at(9), "failed", "reported")]
    assert (world.alarm.occurrence_at, world.alarm.failure_count) == (at(10), 0)
    assert (world.alarm.last_error, world.alarm.failed_in_a_row) == ("no disk", 1)


def test_a_reported_failure_is_retried_also_when_occurrences_were_skipped_for_it() -> None:
    world = hourly()
    world.attempt(AWAITED)
    assert not world.attempt(ARRIVED, at(10))
    world.report(at(9), FAILED, at(10, 30))
    world.attempt(DONE)
    assert world.rows == [(at(9), "completed", ""), (at(10), "skipped", "overlap")]
    assert world.alarm.occurrence_at == at(11)


def test_an_older_fire_that_is_retried_leaves_the_younger_ones_on_record_alone() -> None:
    world = hourly(policy=Policy(overlap="allow"))
    world.attempt(AWAITED)
    world.attempt(DONE)
    world.report(at(9), FAILED, at(10, 30))
    assert world.alarm.occurrence_at == at(9)
    world.attempt(DONE)
    assert world.rows == [(at(9), "completed", ""), (at(10), "completed", "")]
    assert (world.alarm.occurrence_at, world.alarm.fire_count) == (at(11), 2)


def test_an_older_fire_whose_retry_comes_late_gives_way_without_firing_anything_again() -> None:
    world = hourly(policy=Policy(overlap="allow"))
    world.attempt(AWAITED)
    world.attempt(DONE)
    world.report(at(9), FAILED, at(10, 30))
    assert not world.attempt(DONE, at(11, 30))
    assert world.rows == [(at(9), "failed", "superseded"), (at(10), "completed", "")]
    assert world.alarm.occurrence_at == at(11)


def test_a_reported_failure_is_not_retried_while_something_else_is_under_way() -> None:
    leased = hourly(policy=Policy(overlap="allow"))
    leased.attempt(AWAITED)
    leased.claim(at(10))
    retrying = hourly(policy=Policy(overlap="allow"))
    retrying.attempt(AWAITED)
    retrying.attempt(BROKEN)
    snoozed = hourly()
    snoozed.attempt(AWAITED)
    snoozed.snooze(90 * MINUTE, at(9, 2))
    paused = hourly()
    paused.attempt(AWAITED)
    paused.pause(at(9, 2))
    cancelled = hourly()
    cancelled.attempt(AWAITED)
    cancelled.cancel(at(9, 2))
    for world in (leased, retrying, snoozed, paused, cancelled):
        before = frozen(world)
        world.report(at(9), FAILED, at(10, 0, 5))
        assert world.fires[at(9)].status == "failed"
        assert frozen(world) == before


def test_the_last_fire_of_a_series_is_retried_when_its_failure_is_reported() -> None:
    world = hourly(policy=Policy(max_fires=1))
    world.attempt(AWAITED)
    assert (world.alarm.status, world.alarm.failure_count) == ("fired", 0)
    world.report(at(9), FAILED, at(9, 3))
    assert (world.alarm.status, world.alarm.failure_count) == ("active", 1)
    world.attempt(DONE)
    assert (world.alarm.status, world.alarm.fire_count) == ("fired", 1)


def test_a_reported_failure_is_not_retried_after_its_expiry() -> None:
    world = once(policy=Policy(expires=600))
    world.attempt(AWAITED)
    world.report(at(9), FAILED, at(9, 9, 50))
    assert (world.rows, world.alarm.status) == ([(at(9), "failed", "reported")], "failed")


def test_failed_while_in_flight_is_counted_by_the_settlement() -> None:
    world = once()
    world.claim(at(9))
    world.report(at(9), FAILED, at(9, 0, 10))
    assert world.alarm.failure_count == 0
    world.settle(ARRIVED, at(9), at(9, 0, 30))
    assert (world.alarm.status, world.alarm.failure_count, world.alarm.last_error) == ("active", 1, "no disk")
    assert world.rows == [(at(9), "retrying", "")]
    assert world.fires[at(9)].completed_at is None


@pytest.mark.parametrize(
    "world",
    [
        once(),
        once(max_failures=0),
        once(policy=Policy(backoff_base=5, backoff_cap=8)),
        once(policy=Policy(expires=30)),
        hourly(),
        hourly(policy=Policy(backoff_base=7200, backoff_cap=7200)),
    ],
    ids=["once", "no retries", "own ladder", "expires", "series", "a wait longer than the series"],
)
def test_failed_while_in_flight_is_told_as_it_will_be(world: World) -> None:
    world.claim(at(9))
    world.report(at(9), FAILED, at(9, 0, 10))
    told = world.fires[at(9)]
    promised = retry_at(world.alarm, told)
    world.settle(ARRIVED, at(9), at(9, 0, 12))
    fire = world.fires[at(9)]
    assert (fire.status, fire.result, fire.last_error) == (told.status, told.result, told.last_error)
    assert promised == retry_at(world.alarm, fire)
    assert (promised is None) == (fire.status == "failed")


def test_an_attempt_that_outlasts_the_retry_it_was_promised_is_tried_again_when_it_is_over() -> None:
    world = once()
    world.claim(at(9))
    world.report(at(9), FAILED, at(9, 0, 10))
    world.settle(ARRIVED, at(9), at(9, 5))
    assert world.alarm.next_fire_at == at(9, 5)


def test_a_failure_reported_in_flight_stands_when_the_attempt_comes_back_to_another_worker() -> None:
    world = once()
    held = world.claim(at(9))
    world.report(at(9), FAILED, at(9, 0, 10))
    world.claim(at(9, 2))
    world.note(held, DONE, at(9), at(9, 2, 30))
    assert (world.fires[at(9)].status, world.fires[at(9)].last_error) == ("retrying", "no disk")
    with pytest.raises(Conflict):
        world.report(at(9), COMPLETED, at(9, 3))


def test_failed_in_flight_and_then_a_dead_worker_climbs_the_ladder() -> None:
    world = once(max_failures=1)
    world.claim(at(9))
    world.report(at(9), FAILED, at(9, 1))
    assert not world.attempt(ARRIVED, at(9, 3))
    assert (world.rows, world.alarm.failure_count) == ([(at(9), "retrying", "")], 1)
    world.attempt(ARRIVED)
    assert world.alarm.status == "fired"


def test_failed_between_two_attempts_says_nothing_new_but_its_reason() -> None:
    world = once()
    world.attempt(BROKEN)
    before = frozen(world)
    world.report(at(9), FAILED, at(9, 0, 10))
    assert frozen(world) == before
    assert (world.rows, world.fires[at(9)].last_error) == ([(at(9), "retrying", "")], "no disk")


def test_failed_after_it_timed_out_names_the_reason_and_counts_no_second_time() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.sweep(at(9), at(9, 6))
    world.report(at(9), FAILED, at(9, 7))
    assert world.rows == [(at(9), "failed", "reported")]
    assert (world.alarm.failed_in_a_row, world.alarm.last_error, world.alarm.failure_count) == (1, "no disk", 0)


def test_a_one_shot_whose_silence_turns_out_to_be_failure_has_failed() -> None:
    world = once()
    world.attempt(AWAITED)
    world.sweep(at(9), at(9, 6))
    assert world.alarm.status == "fired"
    world.report(at(9), FAILED, at(9, 7))
    assert (world.alarm.status, world.alarm.last_error) == ("failed", "no disk")


def test_reported_failures_pause_a_series_where_its_policy_says_so() -> None:
    world = hourly(max_failures=0, policy=Policy(auto_pause_after=2))
    for hour in (9, 10):
        world.attempt(AWAITED)
        world.report(at(hour), FAILED, at(hour, 1))
    assert (world.alarm.status, world.alarm.occurrence_at) == ("paused", at(11))
    assert world.events[-1].what == "paused"


# what is not there, and what has ended


@pytest.mark.parametrize("said", [COMPLETED, FAILED, WORKING, snooze(HOUR)])
@pytest.mark.parametrize("occurrence", [at(9), at(8), at(9, 30)])
def test_a_fire_that_has_not_happened_cannot_be_reported_on(said: Report, occurrence: datetime) -> None:
    world = hourly()
    with pytest.raises(NotFound) as refused:
        world.report(occurrence, said, at(8, 30))
    assert refused.value.field == "fire_id"


@pytest.mark.parametrize("said", [COMPLETED, FAILED, WORKING, snooze(HOUR)])
def test_a_fire_that_was_skipped_or_snoozed_has_ended(said: Report) -> None:
    skipped = hourly(policy=Policy(catch_up="skip"))
    skipped.attempt(ARRIVED, at(9, 30))
    snoozed = once()
    snoozed.attempt(Snoozed(HOUR))
    for world in (skipped, snoozed):
        with pytest.raises(Conflict):
            world.report(at(9), said, at(9, 31))


def test_a_failed_alarm_is_not_woken_by_a_report_on_an_older_fire() -> None:
    world = once()
    world.attempt(AWAITED)
    world.write(replace_with(world.alarm, world.fire, alarm(delay=HOUR, max_failures=0, now=at(9, 1)), now=at(9, 1)))
    world.attempt(Failed("gone", retryable=False))
    assert world.alarm.status == "failed"
    world.alarm = replace(world.alarm, max_failures=5)
    world.report(at(9), FAILED, at(10, 5))
    assert (world.alarm.status, world.fires[at(9)].status) == ("failed", "failed")


def test_a_leased_alarm_is_not_taken_back_to_an_older_fire_even_by_a_clock_set_back() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.alarm = replace(world.alarm, claimed_at=at(10))
    world.report(at(9), FAILED, at(9, 3))
    assert (world.alarm.occurrence_at, world.fires[at(9)].status) == (at(10), "failed")


def test_a_failure_reported_after_its_alarm_was_moved_stays_whatever_the_attempt_brings() -> None:
    world = once()
    held = world.claim(at(9))
    assert world.report(at(9), WORKING, at(9, 1))
    world.update(at(9, 1), fire_at=at(12))
    assert world.rows == [(at(9), "failed", "superseded")]
    assert world.report(at(9), FAILED, at(9, 2))
    assert not world.report(at(9), FAILED, at(9, 3)), "a report counts once"
    world.note(held, ARRIVED, at(9), at(9, 4))
    fire = world.fires[at(9)]
    assert (fire.status, fire.last_error, fire.completed_at) == ("failed", "no disk", at(9, 2))
    assert world.alarm.next_fire_at == at(12)

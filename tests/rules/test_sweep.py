"""What a target's silence does."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.acting import Draft
from wakeful.model.alarm import Policy
from wakeful.model.outcome import Report
from wakeful.rules.budget import Budget
from wakeful.rules.create import differences
from wakeful.settings.tables import BudgetSettings

from .world import ARRIVED, AWAITED, BROKEN, DONE, HOUR, MINUTE, MONDAY, World, at, hourly, once


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


AGAIN = Policy(on_silence="again", backoff_base=60)
GIVES_UP = Policy(on_silence="give_up")


def silent(world: World, *, times: int = 1) -> None:
    """The receiver takes the wake so many times and never reports."""
    for _ in range(times):
        assert world.attempt(AWAITED)
        fire = world.fires[at(9)]
        assert fire.report_by is not None
        world.sweep(at(9), fire.report_by)


def test_a_silent_receiver_is_woken_again_under_the_same_fire_id_and_the_same_ladder() -> None:
    world = once(policy=AGAIN, max_failures=2)
    wake = world.alarm.fire_id
    silent(world)
    assert (world.rows, world.alarm.status) == ([(at(9), "retrying", "unreported")], "active")
    first = world.alarm.next_fire_at
    assert at(9, 6, 1) <= first < at(9, 6, 8)
    silent(world)
    assert world.alarm.next_fire_at - first > 7 * MINUTE, "the wait for the report, and twice the backoff"
    assert (world.alarm.fire_id, world.fires[at(9)].id, world.alarm.failure_count) == (wake, wake, 2)
    silent(world)
    [fire] = world.fires.values()
    assert (fire.status, fire.reason, fire.result, fire.attempts) == ("timed_out", "", "timeout_unknown", 3)
    assert (world.alarm.status, world.alarm.fire_count, world.alarm.failed_in_a_row) == ("fired", 1, 1)
    assert "delivered 3 times without a report" in fire.last_error


@pytest.mark.parametrize("policy", [GIVES_UP, Policy()], ids=["asked for", "stored before there was the field"])
def test_an_alarm_that_gives_up_is_not_woken_again(policy: Policy) -> None:
    world = once(policy=policy)
    silent(world)
    assert (world.rows, world.alarm.status) == ([(at(9), "timed_out", "")], "fired")


def test_without_retries_silence_ends_it_at_once() -> None:
    world = once(policy=AGAIN, max_failures=0)
    silent(world)
    assert world.rows == [(at(9), "timed_out", "")]


def test_a_late_completed_ends_the_wait_for_the_next_try() -> None:
    for world in (once(policy=AGAIN), hourly(policy=AGAIN)):
        silent(world)
        assert world.report(at(9), Report("completed", "done"), at(9, 5, 30))
        assert world.rows == [(at(9), "completed", "")]
        assert (world.alarm.fire_count, world.alarm.failure_count, world.alarm.awaiting) == (1, 0, None)
        assert world.alarm.status == ("fired" if world.alarm.kind == "once" else "active")
    assert world.alarm.next_fire_at == at(10)


def test_working_ends_the_wait_too_and_asks_for_the_report_again() -> None:
    for world in (once(policy=AGAIN), hourly(policy=AGAIN)):
        silent(world)
        assert world.report(at(9), Report("working", "page 3"), at(9, 5, 30))
        assert (world.rows, world.fires[at(9)].report_by) == ([(at(9), "delivered", "")], at(9, 10, 30))
        assert (world.alarm.awaiting, world.alarm.fire_count) == (at(9), 1)
        assert world.alarm.status == ("fired" if world.alarm.kind == "once" else "active")
        world.sweep(at(9), at(9, 10, 30))
        assert (world.rows, world.fires[at(9)].failures) == ([(at(9), "retrying", "unreported")], 2)
    assert world.alarm.occurrence_at == at(9)


def test_a_silent_receiver_may_still_snooze_the_wake() -> None:
    world = once(policy=AGAIN)
    silent(world)
    assert world.report(at(9), Report("snooze", wait=HOUR), at(9, 5, 30))
    assert world.rows == [(at(9), "snoozed", "")]
    assert (world.alarm.status, world.alarm.occurrence_at) == ("active", at(10, 5, 30))


def test_a_further_try_never_delays_a_series() -> None:
    world = hourly(policy=Policy(on_silence="again", report_within=3590))
    silent(world)
    assert (world.rows, world.alarm.occurrence_at) == ([(at(9), "timed_out", "")], at(10))


def test_an_older_fire_is_not_gone_back_to() -> None:
    world = hourly(policy=Policy(on_silence="again", overlap="allow", report_within=4000))
    world.attempt(AWAITED)
    world.attempt(DONE)
    world.sweep(at(9), at(10, 6, 41))
    assert (world.rows[0], world.alarm.occurrence_at) == ((at(9), "timed_out", ""), at(11))
    moved = once(policy=AGAIN)
    moved.attempt(AWAITED)
    moved.alarm = replace(moved.alarm, occurrence_at=at(9, 2), awaiting=None)
    moved.sweep(at(9), at(9, 6))
    assert moved.rows == [(at(9), "timed_out", "")]


def test_a_further_try_that_comes_too_late_is_still_silence_not_a_failed_delivery() -> None:
    world = hourly(policy=AGAIN)
    silent(world)
    assert not world.attempt(AWAITED, at(10, 1))
    assert (world.rows, world.alarm.failed_in_a_row) == ([(at(9), "timed_out", "")], 1)
    assert world.fires[at(9)].result == "timeout_unknown"
    assert world.alarm.occurrence_at == at(10)
    late = once(policy=replace(AGAIN, expires=600))
    silent(late)
    assert not late.attempt(AWAITED, at(9, 30))
    assert (late.rows, late.alarm.status) == ([(at(9), "timed_out", "")], "fired")


def test_a_failure_reported_after_silence_is_a_failure_where_the_further_try_comes_too_late() -> None:
    late = once(policy=replace(AGAIN, expires=600))
    silent(late)
    late.report(at(9), Report("failed", text="no disk"), at(9, 7))
    assert not late.attempt(AWAITED, at(9, 30))
    assert (late.rows, late.alarm.status) == ([(at(9), "failed", "expired")], "failed")
    assert late.fires[at(9)].last_error == "no disk"


def test_only_the_last_silence_counts_towards_a_pause() -> None:
    world = hourly(policy=replace(AGAIN, auto_pause_after=1), max_failures=1)
    silent(world)
    assert (world.alarm.status, world.alarm.failed_in_a_row) == ("active", 0)
    silent(world)
    assert (world.alarm.status, world.rows) == ("paused", [(at(9), "timed_out", "")])


def test_a_further_try_is_not_charged_again() -> None:
    budget = Budget(BudgetSettings(rewakes_per_day=1, owner_wakes_per_day=1))
    world = once(policy=AGAIN)
    assert budget.allowances(world.alarm, None)
    silent(world)
    assert budget.allowances(world.alarm, world.fires[at(9)]) == ()
    world.attempt(BROKEN)
    assert budget.allowances(world.alarm, world.fires[at(9)]) == ()


def test_a_cancel_ends_the_wait_for_the_next_try() -> None:
    world = once(policy=AGAIN)
    silent(world)
    assert world.cancel(at(9, 6))
    assert (world.alarm.status, world.rows) == ("cancelled", [(at(9), "failed", "cancelled")])


def test_a_repeated_request_is_the_same_as_one_stored_before_there_was_the_field() -> None:
    draft = Draft(owner_did="ada", wake_message="x", when="every day at 9am", policy=AGAIN)
    known = draft.alarm(id="a1", now=MONDAY)
    before = replace(known, policy=replace(known.policy, on_silence=None))
    assert differences(draft.wanted, draft.alarm(id="a2", now=MONDAY), before) == []
    other = replace(known, policy=replace(known.policy, on_silence="give_up"))
    assert differences(draft.wanted, draft.alarm(id="a2", now=MONDAY), other) == ["policy"]

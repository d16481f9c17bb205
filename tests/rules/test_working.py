"""A target that says it is still at it, or wants the wake again later."""

from __future__ import annotations

from datetime import timedelta

import pytest

from wakeful.errors import Conflict, InvalidRequest
from wakeful.model.alarm import Policy
from wakeful.model.outcome import Outcome, Report, Snoozed, Waiting

from .world import ARRIVED, AWAITED, BROKEN, DAY, DONE, HOUR, MINUTE, SECOND, World, at, hourly, once

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


# working


def test_working_starts_the_clock_anew_and_never_shortens_it() -> None:
    world = once(policy=Policy(report_within=600))
    world.attempt(AWAITED)
    world.report(at(9), WORKING, at(9, 8))
    assert (world.fires[at(9)].report_by, world.fires[at(9)].result) == (at(9, 18), "page 3")
    world.report(at(9), Report("working", wait=SECOND), at(9, 9))
    assert world.fires[at(9)].report_by == at(9, 18)
    world.report(at(9), Report("working", wait=DAY), at(9, 10))
    assert world.fires[at(9)].report_by == at(9, 10) + DAY
    assert world.alarm.awaiting == at(9)


def test_working_brings_a_silent_fire_back() -> None:
    world = once()
    world.attempt(AWAITED)
    world.sweep(at(9), at(9, 6))
    world.report(at(9), WORKING, at(9, 7))
    assert (world.rows, world.fires[at(9)].report_by) == ([(at(9), "delivered", "")], at(9, 12))


def test_working_makes_no_fire_awaited_that_was_not() -> None:
    for outcome in (ARRIVED, BROKEN, Waiting()):
        world = once()
        world.attempt(outcome)
        before, status = frozen(world), world.fires[at(9)].status
        world.report(at(9), WORKING, at(9, 0, 5))
        assert (world.fires[at(9)].status, world.fires[at(9)].report_by) == (status, None)
        assert frozen(world) == before


def test_working_while_in_flight_does_not_disturb_the_attempt() -> None:
    world = once()
    world.claim(at(9))
    world.report(at(9), WORKING, at(9, 0, 5))
    world.settle(AWAITED, at(9), at(9, 0, 10))
    assert (world.rows, world.alarm.status) == ([(at(9), "delivered", "")], "fired")


def test_working_while_in_flight_counts_once_the_wake_has_arrived() -> None:
    world = once(policy=Policy(report_within=60))
    world.claim(at(9))
    world.report(at(9), Report("working", wait=HOUR), at(9, 0, 5))
    world.report(at(9), Report("working", wait=MINUTE), at(9, 0, 6))
    world.settle(AWAITED, at(9), at(9, 0, 10))
    assert world.fires[at(9)].report_by == at(10, 0, 5)


def test_working_while_in_flight_never_shortens_the_usual_time() -> None:
    world = once(policy=Policy(report_within=600))
    world.claim(at(9))
    world.report(at(9), Report("working", wait=SECOND), at(9, 0, 5))
    world.settle(AWAITED, at(9), at(9, 0, 10))
    assert world.fires[at(9)].report_by == at(9, 10, 10)


@pytest.mark.parametrize("outcome", [BROKEN, DONE, ARRIVED, Waiting(), Snoozed(HOUR)])
def test_working_while_in_flight_leaves_nothing_awaited_where_no_report_is(outcome: Outcome) -> None:
    world = once()
    world.claim(at(9))
    world.report(at(9), Report("working", wait=HOUR), at(9, 0, 5))
    world.settle(outcome, at(9), at(9, 0, 10))
    assert world.fires[at(9)].report_by is None


def test_working_on_what_has_failed_is_refused() -> None:
    world = once(max_failures=0)
    world.attempt(BROKEN)
    with pytest.raises(Conflict):
        world.report(at(9), WORKING, at(9, 1))


# snooze


def test_a_snoozed_fire_opens_a_new_one_at_the_new_time() -> None:
    world = once()
    world.attempt(AWAITED)
    world.report(at(9), snooze(HOUR), at(9, 3))
    assert world.rows == [(at(9), "snoozed", "")]
    assert (world.alarm.status, world.alarm.occurrence_at, world.alarm.next_fire_at) == ("active", at(10, 3), at(10, 3))
    assert (world.alarm.awaiting, world.fires[at(9)].report_by) == (None, None)
    world.attempt(DONE)
    assert (world.alarm.status, world.alarm.fire_count) == ("fired", 1)
    with pytest.raises(Conflict):
        world.report(at(9), COMPLETED, at(10, 5))


def test_a_snoozed_fire_of_a_series_comes_again_before_the_next_occurrence() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.report(at(9), snooze(30 * MINUTE), at(9, 3))
    world.attempt(DONE)
    assert world.rows == [(at(9), "snoozed", ""), (at(9, 33), "completed", "")]
    assert world.alarm.occurrence_at == at(10)


def test_a_snooze_that_reaches_the_next_occurrence_gives_way_to_it() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.report(at(9), snooze(57 * MINUTE), at(9, 3))
    assert (world.rows, world.alarm.occurrence_at) == ([(at(9), "snoozed", "")], at(10))
    assert world.alarm.awaiting is None
    assert world.attempt(DONE, at(10))


@pytest.mark.parametrize("wait", [None, timedelta(0), -HOUR])
def test_a_snooze_needs_a_length(wait: timedelta | None) -> None:
    world = once()
    world.attempt(AWAITED)
    with pytest.raises(InvalidRequest) as refused:
        world.report(at(9), Report("snooze", wait=wait), at(9, 3))
    assert refused.value.field == "for"


def test_a_snooze_is_refused_where_nothing_can_come_again() -> None:
    in_flight, retrying, paused, cancelled = once(), once(), hourly(), hourly()
    failed = hourly(max_failures=0)
    in_flight.claim(at(9))
    retrying.attempt(BROKEN)
    paused.attempt(AWAITED)
    paused.pause(at(9, 1))
    cancelled.attempt(AWAITED)
    cancelled.cancel(at(9, 1))
    failed.attempt(BROKEN)
    for world in (in_flight, retrying, failed, paused, cancelled):
        with pytest.raises(Conflict):
            world.report(at(9), snooze(MINUTE), at(9, 2))

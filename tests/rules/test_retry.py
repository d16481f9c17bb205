"""Opening a failed or timed-out fire again, by hand."""

from __future__ import annotations

import pytest

from wakeful.errors import Conflict
from wakeful.model.alarm import Policy
from wakeful.model.outcome import Delivered, Failed, Report, Snoozed

from .world import ARRIVED, AWAITED, BROKEN, DONE, MINUTE, at, hourly, once

COMPLETED, FAILED, WORKING = Report("completed", "done"), Report("failed", "no disk"), Report("working", "page 3")


def test_a_failed_one_shot_is_opened_again_with_its_ladder_at_the_bottom() -> None:
    world = once(max_failures=0)
    world.attempt(BROKEN)
    world.retry(at(9), at(12))
    assert (world.alarm.status, world.alarm.next_fire_at, world.alarm.failure_count) == ("active", at(12), 0)
    assert [(event.what, event.by) for event in world.events] == [("retried", "ada")]
    assert world.attempt(DONE, at(12))
    assert (world.alarm.status, world.alarm.fire_count, world.fires[at(9)].attempts) == ("fired", 1, 2)


def test_a_fire_that_timed_out_is_opened_again() -> None:
    world = hourly()
    world.attempt(AWAITED)
    world.sweep(at(9), at(9, 6))
    world.retry(at(9), at(9, 30))
    assert world.attempt(DONE, at(9, 30))
    assert (world.rows, world.alarm.occurrence_at) == ([(at(9), "completed", "")], at(10))


def test_an_old_fire_of_a_series_is_opened_again_without_touching_what_came_after() -> None:
    world = hourly(max_failures=0)
    world.attempt(BROKEN)
    world.attempt(DONE)
    world.attempt(DONE)
    world.retry(at(9), at(11, 30))
    assert world.attempt(BROKEN, at(11, 30))
    assert world.rows == [(at(9), "failed", "exhausted"), (at(10), "completed", ""), (at(11), "completed", "")]
    assert (world.alarm.occurrence_at, world.alarm.fire_count) == (at(12), 3)


def test_an_explicit_retry_that_is_claimed_late_gives_way_to_the_series() -> None:
    world = hourly(max_failures=0)
    world.attempt(BROKEN)
    world.attempt(DONE)
    world.retry(at(9), at(10, 30))
    assert not world.attempt(DONE, at(12, 30))
    assert world.alarm.occurrence_at == at(11)
    assert world.rows == [(at(9), "failed", "superseded"), (at(10), "completed", "")]


def test_a_retry_is_refused_where_it_would_be_in_the_way() -> None:
    due, leased, second, expired, awaited, cancelled = (
        hourly(max_failures=0),
        hourly(max_failures=0),
        hourly(max_failures=0),
        once(max_failures=0, policy=Policy(expires=60)),
        hourly(max_failures=0),
        once(),
    )
    for world in (due, leased, second, expired, awaited, cancelled):
        world.attempt(BROKEN)
    leased.claim(at(10))
    second.attempt(BROKEN)
    second.retry(at(10), at(10, 1))
    awaited.attempt(AWAITED)
    cancelled.cancel(at(9, 0, 5))
    for world in (due, leased, second, expired, awaited, cancelled):
        with pytest.raises(Conflict) as refused:
            world.retry(at(9), at(10, 2))
        assert refused.value.fix


@pytest.mark.parametrize("outcome", [BROKEN, ARRIVED, DONE, Snoozed(MINUTE), Delivered()])
def test_only_what_failed_or_timed_out_is_opened_again(outcome: Failed) -> None:
    world = once()
    world.attempt(outcome)
    with pytest.raises(Conflict):
        world.retry(at(9), at(9, 30))

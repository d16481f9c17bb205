"""What a worker brings back for an alarm that is no longer its own: noted, and nothing else moves."""

from __future__ import annotations

import pytest

from wakeful.model.alarm import Row
from wakeful.model.outcome import Delivered, Failed, Outcome, Waiting

from .world import ARRIVED, BROKEN, DONE, MINUTE, SECOND, at, hourly, once


@pytest.mark.parametrize(
    ("outcome", "status"),
    [(ARRIVED, "delivered"), (DONE, "completed"), (BROKEN, "failed"), (Delivered(row=Row("t", {}, "k")), "skipped")],
)
def test_cancelling_during_a_delivery_wins_and_the_delivery_is_still_on_record(outcome: Outcome, status: str) -> None:
    world = once()
    held = world.claim(at(9))
    world.cancel(at(9, 1))
    assert world.rows == [(at(9), "skipped", "superseded")]
    world.note(held, outcome, at(9), at(9, 2))
    assert world.alarm.status == "cancelled"
    assert [row[1] for row in world.rows] == [status]
    assert world.fires[at(9)].log[-1].said.endswith("(no longer ours)")


def test_a_cancelled_retry_that_arrives_after_all_is_on_record_as_delivered() -> None:
    world = once()
    world.attempt(BROKEN)
    held = world.claim(at(9, 1))
    world.cancel(at(9, 1))
    assert world.rows == [(at(9), "failed", "cancelled")]
    world.note(held, ARRIVED, at(9, 1), at(9, 2))
    assert world.rows == [(at(9), "delivered", "")]
    assert world.alarm.status == "cancelled"


def test_the_run_after_a_fire_under_way_has_a_row_of_its_own() -> None:
    world = hourly()
    held = world.claim(at(9))
    world.cancel(at(11, 30))
    world.note(held, ARRIVED, at(9), at(11, 31))
    assert world.rows == [(at(9), "delivered", ""), (at(10), "skipped", "superseded")]
    assert world.fires[at(10)].count == 2


def test_a_stale_answer_moves_nothing_of_the_alarm() -> None:
    world = hourly()
    held = world.claim(at(9))
    world.claim(at(9, 3))
    before = world.alarm
    world.note(held, BROKEN, at(9), at(9, 4))
    after = world.alarm
    for name in ("status", "next_fire_at", "occurrence_at", "claim", "claimed_at", "failure_count", "fire_count"):
        assert getattr(after, name) == getattr(before, name)
    assert world.rows == [(at(9), "retrying", "")]
    assert world.fires[at(9)].last_error == "HTTP 503"


def test_an_arrival_brought_back_late_spares_the_next_worker_its_failure() -> None:
    world = hourly()
    held = world.claim(at(9))
    world.claim(at(9, 3))
    world.note(held, ARRIVED, at(9), at(9, 4))
    world.settle(BROKEN, at(9, 3), at(9, 5))
    assert world.rows == [(at(9), "delivered", "")]
    assert world.alarm.occurrence_at == at(10)


@pytest.mark.parametrize("outcome", [ARRIVED, DONE])
def test_a_one_shot_paused_while_it_was_delivered_is_not_delivered_again_when_resumed(outcome: Outcome) -> None:
    world = once()
    held = world.claim(at(9))
    world.pause(at(9, 1))
    world.note(held, outcome, at(9), at(9, 2))
    world.resume(at(10))
    assert not world.attempt(ARRIVED, at(10))
    assert world.alarm.status == "fired"
    assert world.fires[at(9)].attempts == 1


def test_a_one_shot_paused_while_its_delivery_failed_is_tried_again_when_resumed() -> None:
    world = once()
    held = world.claim(at(9))
    world.pause(at(9, 1))
    world.note(held, BROKEN, at(9), at(9, 2))
    assert world.rows == [(at(9), "retrying", "")]
    world.resume(at(10))
    assert world.attempt(ARRIVED, at(10))
    assert world.fires[at(9)].attempts == 2


def test_a_series_paused_while_it_was_delivered_keeps_that_delivery_on_record() -> None:
    world = hourly()
    held = world.claim(at(9))
    world.pause(at(9, 1))
    world.note(held, ARRIVED, at(9), at(9, 2))
    world.resume(at(11, 30))
    assert world.rows == [(at(9), "delivered", ""), (at(10), "skipped", "paused")]
    assert (world.fires[at(10)].count, world.alarm.occurrence_at) == (2, at(12))


@pytest.mark.parametrize("outcome", [Waiting(), Delivered(row=Row("t", {}, "k"))])
def test_what_only_the_settlement_would_have_delivered_has_not_arrived(outcome: Outcome) -> None:
    world = once()
    world.attempt(BROKEN)
    held = world.claim(at(9, 1))
    world.update(at(9, 1), fire_at=at(12))
    world.note(held, outcome, at(9, 1), at(9, 2))
    assert world.rows == [(at(9), "failed", "superseded")]


def test_a_settlement_whose_answer_got_lost_is_not_noted_twice() -> None:
    world = hourly()
    held = world.claim(at(9))
    world.settle(ARRIVED, at(9), at(9, 1))
    before = world.fires[at(9)]
    world.note(held, ARRIVED, at(9), at(9, 1))
    assert world.fires[at(9)] == before


def test_a_failure_nobody_has_a_row_for_gets_one() -> None:
    world = once()
    held = world.claim(at(9))
    world.cancel(at(9))
    world.fires.clear()
    world.note(held, Failed("timeout"), at(9), at(9) + 30 * SECOND + MINUTE)
    assert world.rows == [(at(9), "failed", "superseded")]
    assert world.fires[at(9)].last_error == "timeout"


def test_a_row_that_stands_for_many_instants_is_not_made_the_record_of_one() -> None:
    world = hourly()
    held = world.claim(at(9))
    world.pause(at(9, 1))
    world.cancel(at(11, 30))
    world.note(held, ARRIVED, at(9), at(11, 31))
    assert world.rows == [(at(9), "skipped", "paused")]
    assert (world.fires[at(9)].count, len(world.fires[at(9)].log)) == (3, 1)

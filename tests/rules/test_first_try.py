"""A first attempt that arrived is decided the short way; whatever is more than that, at length."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.model.alarm import Alarm, Policy, Row
from wakeful.model.outcome import Completed, Delivered, Outcome, Snoozed, Try, Waiting
from wakeful.rules.settle import settle, settle_at_length, settled_at_once

from .world import ARRIVED, AWAITED, BROKEN, DONE, HOUR, MINUTE, SECOND, World, alarm, at, hourly, once


def claimed(world: World) -> Alarm:
    return world.claim(world.alarm.next_fire_at)


@pytest.mark.parametrize(
    "world", [once(), hourly(), hourly(policy=Policy(max_fires=1)), hourly(policy=Policy(jitter=60))]
)
@pytest.mark.parametrize(
    "outcome", [*map(Completed, ["", "three grants", "x" * 40_000]), Delivered(), Delivered("HTTP 200")]
)
def test_both_ways_come_to_the_same(world: World, outcome: Outcome) -> None:
    held = claimed(World(world.alarm))
    attempt = Try(held.next_fire_at, held.next_fire_at + SECOND)
    short = settled_at_once(held, outcome, attempt)
    assert short is not None
    assert replace(short, at_once=False) == settle_at_length(held, None, outcome, attempt)


@pytest.mark.parametrize(
    "more",
    [
        {"unsettled": 3},
        {"failure_count": 1},
        {"awaiting": at(8)},
        {"policy": Policy(renew_for=60.0, ends_at=at(48))},
        {"policy": Policy(calendar="de")},
    ],
)
def test_what_has_more_to_it_is_decided_at_length(more: dict[str, Any]) -> None:
    held = replace(claimed(hourly()), **more)
    assert settled_at_once(held, DONE, Try(held.next_fire_at, held.next_fire_at)) is None


@pytest.mark.parametrize(
    "outcome", [AWAITED, BROKEN, Waiting(), Snoozed(MINUTE), Delivered(row=Row("messages", {}, "id"))]
)
def test_what_leaves_something_to_wait_for_or_to_write_is_decided_at_length(outcome: Outcome) -> None:
    held = claimed(once())
    assert settled_at_once(held, outcome, Try(held.next_fire_at, held.next_fire_at)) is None


def test_a_delivery_whose_alarm_wants_a_report_is_decided_at_length() -> None:
    held = claimed(once(policy=Policy(report_within=60.0)))
    assert settled_at_once(held, ARRIVED, Try(held.next_fire_at, held.next_fire_at)) is None


def test_what_it_cost_is_decided_at_length() -> None:
    held = claimed(once())
    attempt = Try(held.next_fire_at, held.next_fire_at)
    assert not settle(held, None, Completed("ok", cost=2.5), attempt).at_once
    assert settle(held, None, Completed("ok", cost=2.5), attempt).cost == 2.5


def test_what_was_passed_over_meanwhile_is_on_record() -> None:
    world = hourly()
    world.claim(world.alarm.next_fire_at)
    world.settle(DONE, world.alarm.next_fire_at, world.alarm.next_fire_at + 2 * HOUR + MINUTE)
    assert [row[1:] for row in world.rows] == [("completed", ""), ("skipped", "overlap")]


def test_the_alarm_is_as_it_was_but_for_what_follows() -> None:
    held = claimed(World(alarm(delay=timedelta(hours=1), label="grants", conversation_id="c")))
    after = settle(held, None, DONE, Try(held.next_fire_at, held.next_fire_at)).after
    assert (after.label, after.conversation_id, after.status, after.claim) == ("grants", "c", "fired", held.claim + 1)

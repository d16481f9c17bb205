"""What an owner does to an alarm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acting import Draft, edit
from wakeful.errors import Conflict, InvalidRequest, InvalidSchedule, StaleVersion
from wakeful.model.alarm import Policy
from wakeful.rules.edit import fire_now, replace_with, resume, update
from wakeful.rules.wanted import ATTRIBUTES

from .world import (
    ARRIVED,
    AWAITED,
    BROKEN,
    DAY,
    DONE,
    FINISHED,
    HOUR,
    MINUTE,
    MONDAY,
    World,
    alarm,
    at,
    hourly,
    once,
    paused,
)

Act = Callable[[World], object]
MOVES: list[tuple[str, Act]] = [
    ("cancel", lambda world: world.cancel(at(9, 1))),
    ("pause", lambda world: world.pause(at(9, 1))),
    ("snooze", lambda world: world.snooze(30 * MINUTE, at(9, 1))),
    ("another time", lambda world: world.update(at(9, 1), fire_at=at(12))),
    ("a delay", lambda world: world.update(at(9, 1), delay=HOUR)),
    ("another cron", lambda world: world.update(at(9, 1), cron_expr="30 * * * *")),
    ("a phrase", lambda world: world.update(at(9, 1), when="@daily")),
    ("another zone", lambda world: world.update(at(9, 1), timezone="Asia/Kathmandu")),
    ("other bounds", lambda world: world.update(at(9, 1), policy=Policy(ends_at=at(20)))),
    ("replace", lambda world: world.write(replace_with(world.alarm, world.fire, alarm(delay=DAY), now=at(9, 1)))),
]
TELLS: list[tuple[str, dict[str, Any]]] = [
    ("label", {"label": "new"}),
    ("wake_message", {"wake_message": "new"}),
    ("payload", {"payload": "[1]"}),
    ("target", {"target": "mail"}),
    ("isolated", {"isolated": True}),
    ("max_failures", {"max_failures": 9}),
    ("conversation_id", {"conversation_id": "c"}),
    ("policy", {"policy": Policy(overlap="allow", grace=5)}),
]


# the two numbers


@pytest.mark.parametrize("act", [act for _, act in MOVES], ids=[name for name, _ in MOVES])
def test_whoever_moves_an_alarm_takes_it_from_its_worker(act: Act) -> None:
    world = hourly()
    held = world.claim(at(9))
    act(world)
    assert (world.alarm.claim, world.alarm.version) == (held.claim + 1, held.version + 1)
    assert (world.alarm.claimed_at, world.alarm.unsettled, world.alarm.failure_count) == (None, 0, 0)
    assert world.events[-1].alarm_id == "a1"


@pytest.mark.parametrize("fields", [fields for _, fields in TELLS], ids=[name for name, _ in TELLS])
def test_whoever_only_changes_what_is_said_leaves_it_to_its_worker(fields: dict[str, Any]) -> None:
    world = hourly()
    held = world.claim(at(9))
    world.update(at(9, 1), **fields)
    assert (world.alarm.claim, world.alarm.version) == (held.claim, held.version + 1)
    assert (world.alarm.claimed_at, world.alarm.next_fire_at) == (at(9), at(9))
    assert {name: getattr(world.alarm, ATTRIBUTES[name]) for name in fields} == fields
    assert world.fires == {}
    world.settle(ARRIVED, at(9), at(9, 2))
    assert {name: getattr(world.alarm, ATTRIBUTES[name]) for name in fields} == fields


def test_resuming_takes_a_number_too() -> None:
    world = paused()
    before = world.alarm
    world.resume(MONDAY)
    assert (world.alarm.claim, world.alarm.version) == (before.claim + 1, before.version + 1)


def test_an_edit_of_what_has_changed_since_is_refused() -> None:
    world = once()
    world.update(MONDAY, version=1, label="first")
    with pytest.raises(StaleVersion) as refused:
        world.update(MONDAY, version=1, label="second")
    assert refused.value.field == "version"
    assert world.alarm.label == "first"
    world.update(MONDAY, version=2, label="third")


# cancel


def test_nothing_starts_once_an_alarm_is_cancelled() -> None:
    world = hourly()
    world.cancel(at(8, 30))
    assert (world.alarm.status, world.alarm.cancelled_at, world.rows) == ("cancelled", at(8, 30), [])


@pytest.mark.parametrize("make", FINISHED)
def test_cancelling_what_has_ended_changes_nothing(make: Callable[[], World]) -> None:
    world = make()
    assert not world.cancel(at(12))


def test_cancelling_ends_a_retry() -> None:
    world = once()
    world.attempt(BROKEN)
    world.cancel(at(9, 0, 10))
    assert world.rows == [(at(9), "failed", "cancelled")]
    assert world.fires[at(9)].last_error == "HTTP 503"


def test_what_was_due_when_it_was_cancelled_is_on_record() -> None:
    world = hourly()
    world.cancel(at(10, 30))
    assert world.rows == [(at(9), "skipped", "superseded")]
    assert world.fires[at(9)].count == 2
    slept = hourly()
    slept.pause(at(8, 30))
    slept.cancel(at(10, 30))
    assert slept.rows == [(at(9), "skipped", "paused")]


# update


def test_a_new_time_starts_the_alarm_anew_and_what_was_due_is_on_record() -> None:
    world = hourly()
    world.update(at(10, 30), fire_at=at(12))
    assert (world.alarm.kind, world.alarm.cron_expr, world.alarm.occurrence_at) == ("once", "", at(12))
    assert world.rows == [(at(9), "skipped", "superseded")]
    assert world.fires[at(9)].count == 2
    world.update(at(11), cron_expr="30 * * * *")
    assert (world.alarm.kind, world.alarm.fire_at, world.alarm.occurrence_at) == ("cron", None, at(11, 30))
    assert len(world.fires) == 1


def test_a_new_time_ends_a_retry() -> None:
    world = hourly()
    world.attempt(BROKEN)
    world.update(at(9, 0, 10), cron_expr="30 * * * *")
    assert world.rows == [(at(9), "failed", "superseded")]
    assert (world.alarm.occurrence_at, world.alarm.failure_count) == (at(9, 30), 0)


def test_another_zone_moves_a_series_but_not_a_one_shot() -> None:
    series = World(alarm(cron_expr="0 12 * * *"))
    series.update(at(8, 30), timezone="Europe/Berlin")
    assert series.alarm.occurrence_at == at(11)
    single = once()
    single.attempt(BROKEN)
    single.update(at(9, 0, 5), timezone="Europe/Berlin")
    assert (single.alarm.timezone, single.alarm.occurrence_at, single.alarm.failure_count) == (
        "Europe/Berlin",
        at(9),
        1,
    )


def test_an_interval_counts_anew_from_a_new_time_and_keeps_its_anchor_otherwise() -> None:
    world = World(alarm(cron_expr="@every 1h"))
    world.update(at(8, 30), policy=Policy(grace=1))
    assert world.alarm.policy.anchor == MONDAY
    world.update(at(8, 30), policy=Policy(ends_at=at(20)))
    assert (world.alarm.policy.anchor, world.alarm.occurrence_at) == (MONDAY, at(9))
    world.update(at(8, 30), cron_expr="@every 2h")
    assert (world.alarm.policy.anchor, world.alarm.occurrence_at) == (at(8, 30), at(10, 30))
    world.update(at(8, 30), policy=Policy(starts_at=at(9)))
    assert (world.alarm.policy.anchor, world.alarm.occurrence_at) == (at(9), at(11))


def test_a_rule_keeps_its_days_when_its_bounds_change_and_its_zone_is_read_anew() -> None:
    world = World(alarm(cron_expr="FREQ=DAILY;INTERVAL=3;BYHOUR=9"))
    world.update(at(12) + DAY, policy=Policy(ends_at=at(20) + 30 * DAY))
    assert world.alarm.occurrence_at == at(9) + 3 * DAY
    world.update(at(12) + DAY, timezone="Europe/Berlin")
    assert world.alarm.occurrence_at == at(8) + 2 * DAY


def test_a_paused_alarm_is_edited_and_stays_paused() -> None:
    world = hourly()
    world.pause(at(8, 30))
    world.update(at(9, 30), cron_expr="45 * * * *")
    assert (world.alarm.status, world.alarm.occurrence_at) == ("paused", at(9, 45))
    assert world.rows == [(at(9), "skipped", "superseded")]


def test_the_policy_of_a_snoozed_one_shot_is_edited_without_moving_it() -> None:
    world = once()
    world.snooze(2 * HOUR, at(8, 30))
    world.update(at(9, 30), policy=Policy(jitter=60, ends_at=at(20)))
    assert world.alarm.occurrence_at == at(10, 30)


@pytest.mark.parametrize("make", FINISHED)
def test_what_has_ended_is_not_edited(make: Callable[[], World]) -> None:
    with pytest.raises(Conflict):
        make().update(at(12), label="new")


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("when", {"delay": HOUR, "fire_at": at(12)}),
        ("fire_at", {"fire_at": at(7)}),
        ("cron_expr", {"cron_expr": "nonsense"}),
        ("policy", {"policy": Policy(ends_at=MONDAY)}),
        ("timezone", {"timezone": "Mars/Olympus"}),
        ("payload", {"payload": "{"}),
        ("wake_message", {"wake_message": ""}),
        ("label", {"label": "\x00"}),
        ("max_failures", {"max_failures": -1}),
        ("policy.jitter", {"policy": Policy(jitter=-1)}),
    ],
)
def test_an_edit_is_checked_like_a_new_alarm(field: str, fields: dict[str, Any]) -> None:
    world = hourly()
    with pytest.raises(InvalidRequest) as refused:
        world.update(at(8, 30), **fields)
    assert (refused.value.field, world.alarm.version) == (field, 1)


def test_an_edit_says_what_changed_and_who_did_it() -> None:
    world = once()
    world.update(MONDAY, label="new", payload="1")
    [event] = world.events
    assert (event.what, event.by, event.reason) == ("updated", "ada", "label, payload")


# replace


def new(**asked: Any) -> Draft:
    return Draft(**({"owner_did": "ada", "wake_message": "new", "idempotency_key": "k"} | asked))


@pytest.mark.parametrize("make", [*FINISHED, paused, once])
def test_a_replaced_alarm_keeps_its_id_and_starts_anew(make: Callable[[], World]) -> None:
    world = make()
    before = world.alarm
    world.write(replace_with(before, world.fire, new(delay=DAY).alarm(id="a2", now=at(10)), now=at(10), by="ada"))
    after = world.alarm
    assert (after.id, after.created_at, after.wake_message) == ("a1", before.created_at, "new")
    assert (after.status, after.occurrence_at, after.fire_count) == ("active", at(34), 0)
    assert (after.claim, after.version) == (before.claim + 1, before.version + 1)
    assert world.events[-1].what == "replaced"


def test_a_replaced_series_may_fire_as_often_as_it_says_anew() -> None:
    world = hourly(policy=Policy(max_fires=2))
    world.attempt(DONE)
    fresh = new(cron_expr="0 * * * *", policy=Policy(max_fires=2)).alarm(id="a2", now=at(9, 30))
    world.write(replace_with(world.alarm, world.fire, fresh, now=at(9, 30)))
    world.attempt(DONE)
    assert world.alarm.status == "active"


def test_what_was_due_when_it_was_replaced_is_on_record() -> None:
    world = hourly()
    world.write(replace_with(world.alarm, None, new(delay=DAY).alarm(id="a2", now=at(10)), now=at(10)))
    assert world.rows == [(at(9), "skipped", "superseded")]
    assert world.fires[at(9)].count == 2


# fire now


@pytest.mark.parametrize("make", [*FINISHED, paused, once, hourly])
def test_firing_now_makes_a_one_shot_that_points_back_and_moves_nothing(make: Callable[[], World]) -> None:
    world = make()
    before = world.alarm
    copy = fire_now(before, id="a2", now=at(10), by="bob", via="cli")
    assert (copy.id, copy.root_id, copy.kind, copy.status) == ("a2", "a1", "once", "active")
    assert copy.fire_at == copy.occurrence_at == copy.next_fire_at == copy.created_at == at(10)
    for name in ("owner_did", "user_id", "wake_message", "payload", "target", "max_failures", "conversation_id"):
        assert getattr(copy, name) == getattr(before, name)
    assert (copy.created_by, copy.created_via, copy.idempotency_key) == ("bob", "cli", "")
    assert world.alarm == before
    assert World(copy).attempt(DONE, at(10))


def test_the_copy_of_a_copy_points_to_the_first() -> None:
    copy = fire_now(once().alarm, id="a2", now=MONDAY)
    assert fire_now(copy, id="a3", now=MONDAY).root_id == "a1"


def test_a_copy_has_no_bounds_of_its_own() -> None:
    world = hourly(policy=Policy(ends_at=at(9), expires=1, backoff_base=7, report_within=60))
    assert fire_now(world.alarm, id="a2", now=at(12)).policy == Policy(backoff_base=7, report_within=60, manual_of="a1")


# a write decided on an older row


def test_an_edit_decided_before_a_settlement_is_not_written_over_it() -> None:
    world = hourly()
    held = world.claim(at(9))
    stale = update(held, None, edit(label="new"), now=at(9, 0, 1))
    world.settle(AWAITED, at(9), at(9, 0, 2))
    assert not world.write(stale)
    slept = hourly()
    slept.pause(MONDAY)
    stale_resume = resume(slept.alarm, None, now=at(8, 10))
    slept.resume(at(8, 20))
    assert not slept.write(stale_resume)


def test_a_schedule_without_a_future_is_refused_with_nothing_changed() -> None:
    world = hourly()
    with pytest.raises(InvalidSchedule):
        world.update(at(9, 30), policy=Policy(ends_at=at(9)))
    assert world.alarm.version == 1

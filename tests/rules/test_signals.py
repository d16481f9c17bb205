"""A signal: what it cancels, what it fires at once, and what goes on as if it had not come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from tests.acting import Draft, edit
from tests.rules.world import ARRIVED, BROKEN, DONE, HOUR, MINUTE, MONDAY, World, alarm, at, hourly, once
from wakeful.errors import Conflict, InvalidRequest
from wakeful.model.alarm import HeardSignal, Policy
from wakeful.model.requests import PolicyRequest
from wakeful.moments import whole_ms
from wakeful.rules.attempts import open_fire
from wakeful.rules.create import differences
from wakeful.rules.edit import update
from wakeful.rules.settle import release
from wakeful.rules.signalling import effect_of, signalled
from wakeful.rules.signals import Signal, signal_notes
from wakeful.rules.undo import last_change, undo, with_former
from wakeful.rules.wake import Wake

REPLY = Signal(name="reply", payload_json='{"from": "bo"}')
SOONER = Policy(or_when="reply")


def hear(world: World, minute: int, signal: Signal = REPLY) -> bool:
    inbox = tuple(world.fires.values())
    return world.write(signalled(world.alarm, world.fire, signal, now=at(8, minute), by="bo", inbox=inbox))


def test_unless_cancels_it() -> None:
    world = once(policy=Policy(unless="reply"))
    assert hear(world, 30)
    assert (world.alarm.status, world.alarm.cancelled_at) == ("cancelled", at(8, 30))
    [event] = world.events
    assert (event.what, event.by, event.reason) == ("cancelled", "bo", "the signal 'reply'")


WATCH = Policy(unless="reply")
HEARTBEAT = Policy(unless="reply", rearm=900)


def effect(world: World, hour: int, minute: int = 0) -> tuple[str, datetime | None] | None:
    done = effect_of(world.alarm, world.fire, REPLY, now=at(hour, minute))
    return None if done is None else (done.effect, done.at)


def test_unless_on_a_series_skips_the_next_fire_only() -> None:
    world = hourly(policy=WATCH)
    assert effect(world, 8, 30) == ("skipped", at(9))
    assert hear(world, 30)
    assert (world.alarm.status, world.alarm.occurrence_at, world.alarm.fire_count) == ("active", at(10), 0)
    assert world.rows == [(at(9), "skipped", "signalled")]
    assert world.fires[at(9)].result == "the signal 'reply' came first"
    [event] = world.events
    assert (event.what, event.by) == ("skipped", "bo")
    assert event.reason == f"the fire of {at(9).isoformat()}, for the signal 'reply'"
    assert world.attempt(DONE)
    assert world.rows[1:] == [(at(10), "completed", "")]


def test_a_signal_that_comes_twice_skips_one_fire() -> None:
    world = hourly(policy=WATCH)
    assert hear(world, 30)
    before = world.alarm
    assert effect(world, 8, 40) == ("already_skipped", at(9))
    assert not hear(world, 40)
    assert world.alarm == before
    assert effect(world, 9, 1) == ("skipped", at(10))


def test_a_fire_that_its_owner_skipped_is_the_next_one_too() -> None:
    world = hourly(policy=WATCH)
    world.skip(at(8, 10))
    assert effect(world, 8, 30) == ("already_skipped", at(9))
    assert not hear(world, 30)


def test_a_snoozed_fire_of_a_series_is_what_the_signal_skips() -> None:
    world = hourly(policy=WATCH)
    world.snooze(50 * MINUTE, at(8, 30))
    assert world.alarm.occurrence_at == at(9, 20)
    assert hear(world, 40)
    assert world.alarm.occurrence_at == at(10)
    assert world.rows == [(at(9), "snoozed", ""), (at(9, 20), "skipped", "signalled")]


def test_a_series_whose_last_fire_is_skipped_ends() -> None:
    world = hourly(policy=replace(WATCH, ends_at=at(9)))
    assert hear(world, 30)
    assert world.alarm.status == "fired"


def test_a_retry_of_a_series_ends_with_the_signal_and_counts_as_a_fire() -> None:
    world = hourly(policy=WATCH, max_failures=2)
    world.attempt(BROKEN)
    assert world.write(signalled(world.alarm, world.fire, REPLY, now=at(9, 0, 10)))
    assert world.rows == [(at(9), "failed", "signalled")]
    assert (world.alarm.occurrence_at, world.alarm.fire_count) == (at(10), 1)


def test_what_is_being_delivered_is_skipped_and_its_answer_corrects_the_record() -> None:
    world = hourly(policy=WATCH)
    held = world.claim(at(9))
    assert world.write(signalled(world.alarm, None, REPLY, now=at(9)))
    assert world.rows == [(at(9), "skipped", "signalled")]
    world.note(held, ARRIVED, at(9), at(9, 0, 1))
    assert world.rows == [(at(9), "delivered", "")]
    assert world.alarm.occurrence_at == at(10)


def test_a_wake_that_has_arrived_is_not_skipped() -> None:
    for policy, make in ((WATCH, hourly), (HEARTBEAT, once)):
        world = make(policy=policy)
        world.claim(at(9))
        world.fires[at(9)] = replace(open_fire(world.alarm, at(9)), status="completed")
        assert effect(world, 9) == ("too_late", at(9))
        assert signalled(world.alarm, world.fire, REPLY, now=at(9)) is None


def test_a_skip_by_a_signal_can_be_taken_back() -> None:
    world = hourly(policy=WATCH)
    before = world.alarm
    change = with_former(before, signalled(before, None, REPLY, now=at(8, 30)))
    assert change is not None
    assert change.former is not None
    assert world.write(change)
    former = last_change([change.former], now=at(8, 40))
    assert world.write(undo(world.alarm, world.fires[at(9)], former, now=at(8, 40)))
    assert world.alarm.occurrence_at == at(9)


@pytest.mark.parametrize(("make", "did"), [(hourly, "skipped"), (once, "cancelled")], ids=["series", "once"])
def test_a_signal_that_comes_too_early_is_ignored(make: Callable[..., World], did: str) -> None:
    policy = replace(WATCH, unless_since=1200)
    world = make(policy=policy)
    before = world.alarm
    assert effect(world, 8, 39) == ("too_early", at(9))
    assert not hear(world, 39)
    assert world.alarm == before
    assert hear(world, 40)
    assert world.events[0].what == did


def test_each_signal_moves_a_heartbeat() -> None:
    world = once(policy=HEARTBEAT)
    before = world.alarm
    assert effect(world, 8, 30) == ("moved", at(8, 45))
    assert hear(world, 30)
    assert world.alarm.next_fire_at == world.alarm.occurrence_at == at(8, 45)
    assert (world.alarm.id, world.alarm.status, world.alarm.fire_at) == ("a1", "active", at(9))
    assert hear(world, 40)
    assert world.alarm.next_fire_at == at(8, 55)
    assert world.alarm.claim == before.claim + 2
    assert world.rows == []
    assert [event.what for event in world.events] == ["signalled"] * 2
    assert world.attempt(DONE)
    assert world.rows == [(at(8, 55), "completed", "")]
    assert not hear(world, 58)


def test_a_heartbeat_that_comes_late_moves_it_all_the_same() -> None:
    overdue = once(policy=HEARTBEAT)
    assert overdue.write(signalled(overdue.alarm, None, REPLY, now=at(9, 5)))
    assert overdue.rows == [(at(9), "skipped", "signalled")]
    retried = once(policy=HEARTBEAT)
    retried.attempt(BROKEN)
    assert retried.write(signalled(retried.alarm, retried.fire, REPLY, now=at(9, 5)))
    assert retried.rows == [(at(9), "failed", "signalled")]
    for world in (overdue, retried):
        assert (world.alarm.next_fire_at, world.alarm.failure_count) == (at(9, 20), 0)
        assert world.attempt(DONE)
        assert world.alarm.status == "fired"


def test_a_heartbeat_keeps_its_jitter() -> None:
    world = once(policy=replace(HEARTBEAT, jitter=60))
    assert hear(world, 30)
    assert at(8, 45) < world.alarm.next_fire_at < at(8, 46)


def test_an_edit_that_a_heartbeat_followed_is_not_taken_back() -> None:
    world = once(policy=HEARTBEAT)
    before = world.alarm
    change = with_former(before, update(before, None, edit(when="in 2 hours"), now=at(8, 10)))
    assert change is not None
    assert change.former is not None
    assert world.write(change)
    assert hear(world, 30)
    with pytest.raises(Conflict, match="it was signalled"):
        last_change([world.events[-1], change.former], now=at(8, 40))


def test_a_signal_of_a_heartbeat_is_read_the_same_when_the_request_is_repeated() -> None:
    draft = Draft(owner_did="ada", wake_message="x", when="in 15 minutes", policy=HEARTBEAT)
    made = World(draft.alarm(id="a1", now=MONDAY))
    assert hear(made, 10)
    assert differences(draft.wanted, draft.alarm(id="a2", now=MONDAY + HOUR), made.alarm) == []


@pytest.mark.parametrize(
    ("policy", "field", "asked"),
    [
        (Policy(rearm=900), "policy.rearm", {"when": "in 1 hour"}),
        (Policy(unless_since=900), "policy.unless_since", {"when": "every hour"}),
        (Policy(unless="a", rearm=900, unless_since=900), "policy.unless_since", {"when": "in 1 hour"}),
        (Policy(unless="a", rearm=900), "policy.rearm", {"when": "every hour"}),
        (Policy(unless="a", rearm=0), "policy.rearm", {"when": "in 1 hour"}),
        (Policy(unless="a", unless_since=-1), "policy.unless_since", {"when": "in 1 hour"}),
    ],
)
def test_how_a_signal_counts_is_refused_where_it_means_nothing(
    policy: Policy, field: str, asked: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        alarm(policy=policy, **asked)
    assert refused.value.field == field
    assert refused.value.fix


@pytest.mark.parametrize(
    "fields",
    [
        {"policy": PolicyRequest(unless=None)},
        {"when": "every hour", "kind": "cron"},
    ],
)
def test_an_edit_that_leaves_rearm_without_a_meaning_is_refused(fields: dict[str, Any]) -> None:
    world = once(policy=HEARTBEAT)
    with pytest.raises(InvalidRequest) as refused:
        world.update(at(8, 10), **fields)
    assert refused.value.field == "policy.rearm"
    series = hourly(policy=WATCH)
    with pytest.raises(InvalidRequest, match="series"):
        series.update(at(8, 10), policy=PolicyRequest(rearm="15m"))


@pytest.mark.parametrize(
    ("made", "note"),
    [
        (once(policy=HEARTBEAT), "Each signal 'reply' moves this alarm to 15 minutes after it."),
        (once(policy=WATCH), "The signal 'reply' cancels this alarm."),
        (
            once(policy=replace(WATCH, unless_since=3600)),
            "The signal 'reply' cancels this alarm if it comes at most 1 hour before its time.",
        ),
        (
            hourly(policy=WATCH),
            "A signal 'reply' skips only the next fire, now that of 2026-01-05T09:00:00+00:00; the series goes on.",
        ),
        (
            hourly(policy=replace(WATCH, unless_since=90)),
            "A signal 'reply' skips the fire that it comes at most 90 seconds before, now that of "
            "2026-01-05T09:00:00+00:00; the series goes on.",
        ),
        (once(policy=SOONER), "The signal 'reply' fires it at once."),
    ],
)
def test_a_note_says_what_a_signal_will_do(made: World, note: str) -> None:
    assert signal_notes(made.alarm) == [note]
    made.pause(at(8, 10))
    assert signal_notes(made.alarm) == []


def test_or_when_fires_it_at_once_and_a_one_shot_is_done_then() -> None:
    world = once(policy=SOONER)
    assert hear(world, 30)
    assert (world.alarm.status, world.alarm.next_fire_at) == ("active", at(8, 30))
    [event] = world.events
    assert (event.what, event.by, event.reason) == ("signalled", "bo", "the signal 'reply'")
    assert event.fire_id == world.alarm.fire_id
    assert world.attempt(DONE)
    assert (world.alarm.status, world.rows) == ("fired", [(at(8, 30), "completed", "")])


def test_a_series_fires_once_more_and_keeps_its_times() -> None:
    world = hourly(policy=SOONER)
    assert hear(world, 30)
    assert world.attempt(DONE)
    assert world.alarm.occurrence_at == world.alarm.next_fire_at == at(9)
    assert hear(world, 40)
    assert world.attempt(DONE)
    assert world.attempt(DONE)
    assert world.rows == [(at(8, 30), "completed", ""), (at(8, 40), "completed", ""), (at(9), "completed", "")]


def test_another_signal_and_an_alarm_that_waits_for_none_stay_as_they_are() -> None:
    for policy in (SOONER, Policy(unless="reply"), Policy()):
        world = once(policy=policy)
        before = world.alarm
        assert not hear(world, 30, Signal(name="replies"))
        assert world.alarm == before


def test_a_paused_or_finished_one_hears_nothing() -> None:
    for policy in (SOONER, Policy(unless="reply")):
        world = once(policy=policy)
        world.pause(at(8, 10))
        assert not hear(world, 30)
        world = once(policy=policy)
        world.attempt(DONE)
        assert not hear(world, 59)


def test_what_is_being_delivered_is_not_fired_again() -> None:
    world = once(policy=SOONER)
    world.claim(at(9))
    before = world.alarm
    assert not hear(world, 59)
    assert world.alarm == before


def test_a_retry_comes_now_and_keeps_its_fire_and_its_count() -> None:
    world = hourly(policy=Policy(or_when="reply", backoff_base=1200), max_failures=2)
    world.attempt(BROKEN)
    assert world.alarm.next_fire_at > at(9, 1)
    assert world.write(signalled(world.alarm, world.fire, REPLY, now=at(9, 1)))
    assert (world.alarm.occurrence_at, world.alarm.next_fire_at) == (at(9), at(9, 1))
    assert world.alarm.failure_count == 1
    assert world.attempt(DONE)
    assert world.rows == [(at(9), "completed", "")]


def test_what_was_put_back_comes_now_as_the_same_fire() -> None:
    world = hourly(policy=SOONER)
    world.claim(at(9))
    assert world.write(release(world.alarm, now=at(9), wait=30 * MINUTE))
    assert world.write(signalled(world.alarm, None, REPLY, now=at(9, 5)))
    assert (world.alarm.occurrence_at, world.alarm.next_fire_at) == (at(9), at(9, 5))


def test_two_signals_in_one_millisecond_are_two_fires() -> None:
    world = hourly(policy=SOONER)
    assert hear(world, 30)
    assert world.attempt(DONE, at(8, 30), took=0 * MINUTE)
    assert world.alarm.last_fired_at == at(8, 30)
    assert hear(world, 30)
    assert world.attempt(DONE)
    assert len(world.rows) == 2


def test_a_signalled_fire_uses_up_one_of_max_fires() -> None:
    world = hourly(policy=Policy(or_when="reply", max_fires=1))
    assert hear(world, 30)
    assert world.attempt(DONE)
    assert world.alarm.status == "fired"


def test_the_wake_says_which_signal_it_comes_for_and_the_next_one_does_not() -> None:
    world = hourly(policy=SOONER)
    assert Wake(world.alarm).signal is None
    assert b'"signal"' not in Wake(world.alarm).body
    assert hear(world, 30)
    wake = Wake(world.alarm)
    assert wake.signal == HeardSignal(
        name="reply", occurrence_at=at(8, 30), payload_json='{"from": "bo"}', resumes_at=at(9)
    )
    assert wake.signal.payload == {"from": "bo"}
    assert b'"signal":{"name":"reply","payload":{"from": "bo"}}' in wake.body
    world.attempt(DONE)
    assert Wake(world.alarm).signal is None


def test_an_edit_keeps_what_was_heard_and_a_key_is_the_same_request() -> None:
    world = hourly(policy=SOONER)
    hear(world, 30)
    heard = world.alarm.policy.heard
    world.update(at(8, 40), policy=PolicyRequest(expires=60))
    assert world.alarm.policy.heard == heard
    draft = Draft(owner_did="ada", wake_message="x", when="every day at 9am", policy=SOONER)
    made = World(draft.alarm(id="a1", now=MONDAY))
    hear(made, 30)
    assert differences(draft.wanted, draft.alarm(id="a2", now=MONDAY + HOUR), made.alarm) == []


@pytest.mark.parametrize("field", ["unless", "or_when"])
@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "-a", "ä", "x" * 101, "a\x00"])
def test_a_name_that_no_address_can_hold_is_refused(field: str, name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        alarm(when="in 1 hour", policy=replace(Policy(), **{field: name}))
    assert refused.value.field == f"policy.{field}"
    assert "at most 100" in refused.value.fix


def test_one_signal_does_not_do_both() -> None:
    with pytest.raises(InvalidRequest) as refused:
        alarm(when="in 1 hour", policy=Policy(unless="reply", or_when="reply"))
    assert refused.value.field == "policy.or_when"
    both = alarm(when="in 1 hour", policy=Policy(unless="reply", or_when="build:1.0_a"))
    assert both.next_fire_at == whole_ms(MONDAY + HOUR)

"""A signal: what it cancels, what it fires at once, and what goes on as if it had not come."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.acting import Draft
from tests.alarm.world import BROKEN, DONE, HOUR, MINUTE, MONDAY, World, alarm, at, hourly, once
from wakeful.alarm import Policy, Wake, differences, release
from wakeful.alarm.model import HeardSignal
from wakeful.alarm.request import PolicyRequest
from wakeful.alarm.signalling import signalled
from wakeful.alarm.signals import Signal
from wakeful.errors import InvalidRequest
from wakeful.moments import whole_ms

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

"""`only_if`: what a look at a check means for a wake, and what counts as seen afterwards."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.world import ARRIVED, BROKEN, DONE, HOUR, MINUTE, World, alarm, at, hourly
from wakeful.errors import InvalidRequest
from wakeful.model.alarm import HeardSignal, Policy, SeenValue
from wakeful.model.outcome import Completed, Failed, Outcome, Snoozed, Waiting
from wakeful.rules.checks import CheckLook, check_gate, keeps_back, look_at, unchanged, with_look

GATED = Policy(only_if="portal")
SAME = look_at("portal", "a", "a")


def test_the_first_look_and_a_change_wake_and_the_same_again_does_not() -> None:
    world = hourly(policy=GATED)
    found = [look_at("portal", "a", known) for known in (None, "b", "a")]
    assert [look.found for look in found] == ["first", "changed", "unchanged"]
    assert [keeps_back(world.alarm, None, look) for look in found] == [False, False, True]
    assert not keeps_back(world.alarm, None, CheckLook(name="portal", found="failed", error="HTTP 500"))


def test_what_is_kept_back_is_skipped_and_the_series_goes_on() -> None:
    world = hourly(policy=Policy(only_if="portal", max_fires=1))
    world.claim(at(9))
    assert world.write(unchanged(world.alarm, SAME, now=at(9, 0, 1)))
    assert world.rows == [(at(9), "skipped", "unchanged")]
    assert world.fires[at(9)].result == "the check 'portal' found nothing new"
    assert (world.alarm.status, world.alarm.occurrence_at, world.alarm.fire_count) == ("active", at(10), 0)
    assert world.alarm.claimed_at is None


def test_a_retry_is_not_kept_back() -> None:
    world = hourly(policy=GATED)
    world.attempt(BROKEN)
    assert not keeps_back(world.alarm, world.fire, SAME)
    assert not keeps_back(replace(world.alarm, failure_count=0), world.fire, SAME)


def test_nor_is_what_a_signal_asked_for() -> None:
    one = hourly(policy=GATED).alarm
    heard = HeardSignal(name="reply", occurrence_at=one.occurrence_at)
    assert not keeps_back(replace(one, policy=Policy(only_if="portal", heard=heard)), None, SAME)
    before = replace(heard, occurrence_at=one.occurrence_at - HOUR)
    assert keeps_back(replace(one, policy=Policy(only_if="portal", heard=before)), None, SAME)


@pytest.mark.parametrize(
    ("outcome", "is_seen"),
    [(DONE, True), (ARRIVED, True), (Waiting(), True), (Failed("HTTP 503"), False), (Snoozed(MINUTE), False)],
    ids=lambda value: type(value).__name__,
)
def test_it_counts_as_seen_once_a_wake_has_arrived(outcome: Outcome, is_seen: bool) -> None:
    world = hourly(policy=GATED)
    change = unchanged(world.alarm, SAME, now=at(9))
    told = with_look(change, look_at("portal", "b", "a"), outcome, at=at(9))
    assert told.seen == (SeenValue(name="portal", value="b") if is_seen else None)


def test_a_look_that_failed_is_on_record_and_nothing_was_seen() -> None:
    world = World(hourly(policy=GATED).alarm)
    change = unchanged(world.alarm, SAME, now=at(9))
    look = CheckLook(name="portal", found="failed", error="HTTP 500")
    told = with_look(change, look, Completed("ok"), at=at(9))
    [event] = told.events
    assert (told.seen, event.what) == (None, "check_failed")
    assert event.reason == "the check 'portal' failed, so the wake was sent: HTTP 500"


def test_a_check_that_there_is_not_is_refused_with_those_there_are() -> None:
    gated = alarm(when="every hour", policy=GATED)
    check_gate(gated, {"portal"})
    check_gate(alarm(when="every hour"), ())
    for known, fix in (({"b", "a"}, "Known are: a, b."), ((), "The operator has defined none ([checks.NAME]).")):
        with pytest.raises(InvalidRequest) as refused:
            check_gate(gated, known)
        assert (refused.value.field, refused.value.fix) == ("policy.only_if", fix)
    with pytest.raises(InvalidRequest, match="nothing to compare with"):
        check_gate(alarm(when="in 1 hour", policy=GATED), {"portal"})

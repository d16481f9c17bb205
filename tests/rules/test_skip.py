"""Skipping the next fire of a series on request: what is passed over, what comes instead, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.rules.world import (
    AWAITED,
    BROKEN,
    DAY,
    DONE,
    FINISHED,
    HOUR,
    LEASE,
    MINUTE,
    MONDAY,
    World,
    at,
    hourly,
    once,
    paused,
)
from wakeful.errors import Conflict
from wakeful.model.alarm import Policy
from wakeful.model.outcome import Outcome, Report
from wakeful.rules.plan import coming
from wakeful.rules.settle import begin, release

BY_ADA = "skipped on request by ada"


def test_the_next_one_is_passed_over_and_the_series_goes_on() -> None:
    world = hourly()
    world.skip(at(8, 30))
    assert world.rows == [(at(9), "skipped", "requested")]
    fire = world.fires[at(9)]
    assert (fire.result, fire.through, fire.count, fire.attempts) == (BY_ADA, at(9), 1, 0)
    assert (world.alarm.status, world.alarm.occurrence_at, world.alarm.next_fire_at) == ("active", at(10), at(10))
    [event] = world.events
    assert (event.what, event.by, event.reason) == ("skipped", "ada", f"the fire of {at(9).isoformat()}")
    assert world.attempt(DONE)
    assert world.rows == [(at(9), "skipped", "requested"), (at(10), "completed", "")]


def test_two_calls_skip_two() -> None:
    world = hourly()
    world.skip(at(8, 30))
    world.skip(at(8, 31))
    assert world.rows == [(at(9), "skipped", "requested"), (at(10), "skipped", "requested")]
    assert world.alarm.occurrence_at == at(11)


def test_a_call_that_says_which_one_it_means_may_be_repeated() -> None:
    world = hourly()
    world.skip(at(8, 30), at=at(9))
    before = world.alarm
    with pytest.raises(Conflict) as refused:
        world.skip(at(8, 31), at=at(9))
    assert refused.value.field == "at"
    assert f"the next fire is the one of {at(10).isoformat()}" in refused.value.message
    assert "was skipped already" in refused.value.message
    assert world.alarm == before


def test_one_that_is_not_the_next_is_not_skipped() -> None:
    world = hourly()
    with pytest.raises(Conflict) as refused:
        world.skip(at(8, 30), at=at(10))
    assert f"the next fire is the one of {at(9).isoformat()}" in refused.value.message
    assert "already" not in refused.value.message
    assert (world.rows, world.alarm.occurrence_at) == ([], at(9))


def test_a_jittered_one_is_known_by_either_of_its_times() -> None:
    for name in ("occurrence_at", "next_fire_at"):
        world = hourly(policy=Policy(jitter=600))
        assert world.alarm.next_fire_at > at(9)
        world.skip(at(8, 30), at=getattr(world.alarm, name))
        assert world.rows == [(at(9), "skipped", "requested")]
        assert at(10) == world.alarm.occurrence_at < world.alarm.next_fire_at < at(10, 10)


def test_a_one_shot_is_refused_with_what_to_do_instead() -> None:
    world = once()
    with pytest.raises(Conflict) as refused:
        world.skip(at(8, 30))
    assert refused.value.fix == "Cancel it, or snooze it."
    assert (world.rows, world.alarm.status) == ([], "active")


@pytest.mark.parametrize("make", FINISHED)
def test_what_has_ended_is_not_skipped(make: Callable[[], World]) -> None:
    with pytest.raises(Conflict, match=r"the alarm is (fired|failed|cancelled)"):
        make().skip(at(12))


def test_a_paused_series_is_resumed_first() -> None:
    world = hourly()
    world.pause(at(8, 10))
    with pytest.raises(Conflict) as refused:
        world.skip(at(8, 30))
    assert (refused.value.message.startswith("the alarm is paused"), world.rows) == (True, [])
    with pytest.raises(Conflict, match="only once"):
        paused().skip(at(8, 30))
    world.resume(at(8, 40))
    world.skip(at(8, 41))
    assert world.alarm.occurrence_at == at(10)


def test_a_pause_and_a_resume_do_not_bring_a_skipped_one_back() -> None:
    world = hourly()
    world.skip(at(8, 30))
    world.pause(at(8, 31))
    world.resume(at(8, 32))
    assert world.alarm.occurrence_at == at(10)
    world.pause(at(8, 33))
    world.resume(at(9, 30))
    assert (world.alarm.occurrence_at, world.rows) == (at(10), [(at(9), "skipped", "requested")])


def test_what_is_being_delivered_can_no_longer_be_skipped() -> None:
    world = hourly()
    held = world.claim(at(9))
    for later in (at(9), at(9) + LEASE - MINUTE):
        with pytest.raises(Conflict, match="is being delivered right now"):
            world.skip(later)
    assert (world.alarm, world.rows) == (held, [])


def test_where_the_worker_is_gone_it_is_skipped_and_its_late_word_corrects_the_record() -> None:
    world = hourly()
    held = world.claim(at(9))
    world.skip(at(9) + LEASE)
    assert (world.rows, world.alarm.occurrence_at) == ([(at(9), "skipped", "requested")], at(10))
    world.note(held, DONE, at(9), at(9) + LEASE + MINUTE)
    fire = world.fires[at(9)]
    assert (fire.status, fire.reason, fire.result, fire.through) == ("completed", "", "ok", None)
    assert world.alarm.occurrence_at == at(10)


def test_where_the_worker_that_lost_it_had_delivered_it_nothing_is_left_to_skip() -> None:
    world = hourly()
    held = world.claim(at(9))
    world.claim(at(9) + LEASE)
    world.note(held, AWAITED, at(9), at(9) + LEASE + MINUTE)
    with pytest.raises(Conflict, match="can no longer be skipped"):
        world.skip(at(9) + 3 * LEASE)
    assert world.rows == [(at(9), "delivered", "")]


def test_a_fire_that_is_being_retried_ends_as_failed_and_is_not_tried_again() -> None:
    world = hourly(policy=Policy(max_fires=2))
    world.attempt(BROKEN)
    assert world.rows == [(at(9), "retrying", "")]
    world.skip(at(9, 0, 10))
    fire = world.fires[at(9)]
    assert (fire.status, fire.reason, fire.last_error, fire.attempts) == ("failed", "requested", "HTTP 503", 1)
    alarm = world.alarm
    assert (alarm.occurrence_at, alarm.failure_count, alarm.fire_count, alarm.failed_in_a_row) == (at(10), 0, 1, 0)
    world.report(at(9), Report("completed"), at(9, 5))
    assert world.rows == [(at(9), "completed", "late")], "it had arrived after all"


def test_a_snoozed_fire_is_what_is_skipped() -> None:
    world = hourly()
    world.snooze(75 * MINUTE, at(8, 30))
    world.skip(at(8, 40), at=at(9, 45))
    assert world.rows == [(at(9), "snoozed", ""), (at(9, 45), "skipped", "requested")]
    assert world.alarm.occurrence_at == at(10)


def test_of_what_is_overdue_the_one_that_would_be_delivered_is_skipped_and_the_rest_is_missed() -> None:
    world = hourly()
    world.skip(at(11, 30))
    assert world.rows == [(at(9), "skipped", "requested"), (at(10), "skipped", "missed")]
    assert (world.fires[at(10)].through, world.fires[at(10)].count) == (at(11), 2)
    assert world.alarm.occurrence_at == at(12)


def test_what_was_put_back_is_skipped_and_what_that_passed_over_stays_on_record() -> None:
    world = hourly()
    world.claim(at(9))
    assert world.write(release(world.alarm, now=at(9), wait=30 * MINUTE))
    world.skip(at(9, 10))
    assert (world.rows, world.alarm.occurrence_at) == ([(at(9), "skipped", "requested")], at(10))


def test_a_skipped_one_uses_up_none_of_max_fires() -> None:
    world = hourly(policy=Policy(max_fires=2))
    world.attempt(DONE)
    world.skip(at(9, 30))
    assert (world.alarm.occurrence_at, world.alarm.fire_count) == (at(11), 1)
    world.attempt(DONE)
    assert (world.alarm.status, world.alarm.fire_count) == ("fired", 2)


def test_after_the_last_one_the_series_is_over() -> None:
    world = hourly(policy=Policy(ends_at=at(10)))
    world.skip(at(8, 30))
    world.skip(at(8, 31))
    assert world.alarm.status == "fired"
    assert world.rows == [(at(9), "skipped", "requested"), (at(10), "skipped", "requested")]


def test_a_new_time_starts_the_series_again() -> None:
    world = hourly()
    world.skip(at(8, 30))
    world.update(at(8, 40), label="another")
    assert world.alarm.occurrence_at == at(10), "an edit of its words moves nothing"
    world.update(at(8, 40), cron_expr="0 * * * *")
    assert world.attempt(DONE)
    fire = world.fires[at(9)]
    assert (fire.status, fire.through, fire.count) == ("completed", None, 1)


def test_a_failure_reported_later_is_not_retried_across_a_skip() -> None:
    """Going back to the fire before would bring the skipped one up again."""
    world = hourly()
    world.attempt(AWAITED)
    world.skip(at(9, 1))
    world.report(at(9), Report("failed"), at(9, 2))
    assert world.rows == [(at(9), "failed", "reported"), (at(10), "skipped", "requested")]
    assert world.alarm.occurrence_at == at(11)


OUTCOMES: list[Outcome] = [DONE, AWAITED, BROKEN]
STEPS = st.lists(
    st.tuples(st.sampled_from(["skip", "skip", "fire", "fire", "pause", "resume", "wait"]), st.integers(0, 2)),
    max_size=25,
)


@settings(max_examples=200, deadline=None)
@given(
    STEPS,
    st.sampled_from([None, 3]),
    st.sampled_from([0.0, 900.0]),
    st.sampled_from([0, 2]),
    st.sampled_from(["skip", "allow"]),
)
def test_each_occurrence_is_delivered_skipped_or_open_and_never_two_of_them(
    steps: list[tuple[str, int]], max_fires: int | None, jitter: float, max_failures: int, overlap: str
) -> None:
    policy = Policy(max_fires=max_fires, jitter=jitter, overlap=overlap)  # type: ignore[arg-type]  # both are accepted
    world, now = hourly(policy=policy, max_failures=max_failures), MONDAY
    arrived: set[datetime] = set()
    for step, choice in steps:
        now = max(now, _done(world, step, choice, now, arrived))
        skipped = {moment for moment, fire in world.fires.items() if fire.status == "skipped"}
        assert not arrived & skipped, "delivered, and on record as skipped"
        _check_accounts(world, now)


def _done(world: World, step: str, choice: int, now: datetime, arrived: set[datetime]) -> datetime:
    try:
        match step:
            case "wait":
                return now + [MINUTE, 40 * MINUTE, 3 * HOUR][choice]
            case "fire" if world.alarm.status == "active":
                return _fired(world, OUTCOMES[choice], max(now, world.alarm.next_fire_at), arrived)
            case "skip":
                world.skip(now)
            case "pause":
                world.pause(now)
            case "resume":
                world.resume(now)
    except Conflict:
        pass
    return now


def _fired(world: World, outcome: Outcome, now: datetime, arrived: set[datetime]) -> datetime:
    held = world.claim(now)
    known = world.fire if held.may_have_fire else None
    instead = begin(held, known, now=now)
    if instead is not None:
        assert world.write(instead)
        return now
    assert held.occurrence_at not in arrived, "delivered twice"
    assert known is None or known.status == "retrying", "delivered though it was passed over"
    world.settle(outcome, now, now + MINUTE)
    if outcome is not BROKEN:
        arrived.add(held.occurrence_at)
    return now + MINUTE


def _check_accounts(world: World, now: datetime) -> None:
    """Each full hour so far has one row, or is open: what is worked on, or behind it. Or the series was over."""
    alarm = world.alarm
    runs = [(fire.scheduled_for, fire.through or fire.scheduled_for) for fire in world.fires.values()]
    hour = at(9)
    while hour <= now:
        rows = sum(first <= hour <= last for first, last in runs)
        is_open = not alarm.finished and (hour == alarm.occurrence_at or hour > alarm.next_fire_at)
        is_over = alarm.policy.max_fires is not None and alarm.fire_count + 1 >= alarm.policy.max_fires
        assert rows == 1 or (rows == 0 and (is_open or is_over)), f"{hour} has {rows} rows"
        hour += HOUR
    if alarm.status == "active":
        assert next(coming(alarm)) >= alarm.occurrence_at
        assert alarm.next_fire_at - now < DAY

"""An alarm that is put back undelivered: nothing is counted, no instant of its series is lost, and late stays late."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from wakeful.model.alarm import Alarm, Policy
from wakeful.rules.edit import cancel, pause, resume
from wakeful.rules.plan import first_due
from wakeful.rules.settle import begin, release
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import an_alarm
from wakeful.testing.manual_clock import NEW_YEAR

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
MS = timedelta(milliseconds=1)


def every_minute(**policy: object) -> Alarm:
    alarm = an_alarm(ManualClock(), kind="cron", cron_expr="@every 1m")
    return replace(alarm, policy=Policy(anchor=NEW_YEAR, **policy))  # type: ignore[arg-type]


def put_back(alarm: Alarm, now: datetime, wait: timedelta) -> tuple[Alarm, list[datetime]]:
    """The alarm after it was claimed and put back, and the instants that went on record by it."""
    change = release(replace(alarm, claimed_at=now), now=now, wait=wait)
    return change.after, [fire.scheduled_for + n * MINUTE for fire in change.fires for n in range(fire.count)]


def test_it_is_due_again_after_the_wait_and_nothing_else_is_different() -> None:
    alarm = an_alarm(ManualClock())
    after, told = put_back(alarm, NEW_YEAR, 30 * SECOND)
    assert after.next_fire_at == NEW_YEAR + 30 * SECOND
    assert replace(after, next_fire_at=alarm.next_fire_at, claim=alarm.claim) == alarm
    assert told == []


def test_a_series_comes_up_again_before_its_next_instant() -> None:
    after, told = put_back(every_minute(), NEW_YEAR, 10 * MINUTE)
    assert after.next_fire_at == NEW_YEAR + MINUTE - MS
    assert told == []


def test_the_instants_that_have_passed_meanwhile_are_missed() -> None:
    after, told = put_back(every_minute(), NEW_YEAR + 150 * SECOND, 20 * SECOND)
    assert after.next_fire_at == NEW_YEAR + 170 * SECOND
    assert after.occurrence_at == NEW_YEAR
    assert told == [NEW_YEAR + MINUTE, NEW_YEAR + 2 * MINUTE]


def test_just_before_an_instant_it_does_not_go_round_until_that_has_come() -> None:
    now = NEW_YEAR + MINUTE - MS
    after, told = put_back(every_minute(), now, 10 * SECOND)
    assert after.next_fire_at == now + 10 * SECOND
    assert told == [NEW_YEAR + MINUTE]


@given(st.lists(st.tuples(st.integers(1, 200_000), st.integers(1, 900_000)), max_size=8), st.booleans())
def test_every_instant_is_told_once_however_it_is_put_back_and_ends(turns: list[tuple[int, int]], ends: bool) -> None:
    alarm, told, now = every_minute(), list[datetime](), NEW_YEAR
    for late, wait in turns:
        now = max(now, alarm.next_fire_at) + late * MS
        alarm, passed = put_back(alarm, now, wait * MS)
        assert alarm.next_fire_at >= now + min(SECOND, wait * MS), "it would go round"
        told += passed
    now = max(now, alarm.next_fire_at)
    paused = pause(alarm, now=now)
    assert paused is not None
    change = cancel(alarm, None, now=now) if ends else resume(paused.after, None, now=now)
    assert change is not None
    told += [fire.scheduled_for + n * MINUTE for fire in change.fires for n in range(fire.count)]
    assert sorted(told) == [NEW_YEAR + n * MINUTE for n in range((now - NEW_YEAR) // MINUTE + 1)]


def test_what_a_policy_allows_is_counted_from_when_it_was_due() -> None:
    alarm = replace(an_alarm(ManualClock()), policy=Policy(catch_up="skip", grace=60))
    after, _ = put_back(alarm, NEW_YEAR + 50 * SECOND, 20 * SECOND)
    assert first_due(after) == NEW_YEAR
    change = begin(after, None, now=NEW_YEAR + 70 * SECOND)
    assert change is not None
    assert change.after.last_error == "not delivered: missed, 70 s after it was due"


def test_a_jittered_one_was_due_when_its_jitter_says() -> None:
    alarm = every_minute(jitter=30.0)
    alarm = replace(alarm, next_fire_at=first_due(replace(alarm, next_fire_at=NEW_YEAR + MINUTE)))
    after, _ = put_back(alarm, NEW_YEAR + 40 * SECOND, 10 * SECOND)
    assert first_due(after) == alarm.next_fire_at > NEW_YEAR

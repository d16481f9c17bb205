"""The breaker's decisions, and the memory of owners who wait: whatever comes back, in whatever order."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from wakeful.dispatcher.breaker import (
    APART,
    FIRST_PAUSE,
    FORGOTTEN_AFTER,
    LONGEST_HOLD,
    LONGEST_PAUSE,
    MOST,
    OPENS_AFTER,
    TOGETHER,
    Breaker,
    Holds,
)
from wakeful.model.alarm import Alarm
from wakeful.model.outcome import Failed
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import an_alarm
from wakeful.testing.manual_clock import NEW_YEAR

SECOND = timedelta(seconds=1)
steps = st.tuples(
    st.integers(-40, 90).map(lambda s: timedelta(seconds=s)),  # the clock may be set back
    st.sampled_from(["ok", "bad", "bad", "bad"]),
    st.sampled_from([0, 0, 0, 5, 120, 100_000]).map(lambda s: timedelta(seconds=s)),
)


@given(st.lists(steps, max_size=40))
def test_it_opens_for_a_reason_never_for_longer_than_it_may_and_ends_with_a_success(
    taken: list[tuple[timedelta, str, timedelta]],
) -> None:
    breaker, now, in_a_row, asked = Breaker(), NEW_YEAR, 0, False
    for passed, outcome, wait in taken:
        now += passed
        before, was_time = breaker.probe_at, breaker.may_probe(now)
        if outcome == "ok":
            breaker.succeeded()
            in_a_row, asked = 0, False
        else:
            breaker.failed("HTTP 500", now=now, wait=wait)
            in_a_row, asked = in_a_row + 1, asked or wait > timedelta(0)
        assert breaker.is_open is (in_a_row >= OPENS_AFTER or asked)
        assert (breaker.opened_at is not None) is breaker.is_open
        assert breaker.room(9, 0, now=now) == (1 if breaker.may_probe(now) else 0) if breaker.is_open else 9
        assert breaker.room(9, 1, now=now) == (0 if breaker.is_open else 9)
        if breaker.is_open and outcome == "bad":
            assert breaker.probe_at is not None
            assert not breaker.may_probe(now), "what failed just now is not tried at once"
            if before is None or was_time:
                assert now < breaker.probe_at <= now + max(LONGEST_PAUSE, min(wait, LONGEST_HOLD))
            else:
                assert breaker.probe_at >= before, "a late failure shortens nothing"


def test_its_pauses_double_up_to_the_longest() -> None:
    breaker, now, pauses = Breaker(), NEW_YEAR, []
    for _ in range(OPENS_AFTER - 1):
        breaker.failed("HTTP 500", now=now)
    for _ in range(7):
        breaker.failed("HTTP 500", now=now)
        assert breaker.probe_at is not None
        pauses.append((breaker.probe_at - now).total_seconds())
        now = breaker.probe_at
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_a_clock_that_is_set_back_makes_nobody_wait_longer() -> None:
    breaker = Breaker()
    for _ in range(OPENS_AFTER):
        breaker.failed("HTTP 500", now=NEW_YEAR)
    assert not breaker.may_probe(NEW_YEAR)
    assert breaker.may_probe(NEW_YEAR - timedelta(hours=1))


class Sent:
    def __init__(self, alarm: Alarm) -> None:
        self.alarm = alarm
        self.finished = False


ILL = Failed("HTTP 500", unhealthy=True, answered=True)


def one_of(owner: str) -> Alarm:
    return an_alarm(ManualClock(), owner_did=owner, target="router")


def broken_for(*owners: str) -> Holds:
    holds = Holds()
    for owner in owners:
        for _ in range(OPENS_AFTER):
            holds.failed(one_of(owner), ILL, now=NEW_YEAR)
    return holds


def test_those_that_wait_come_up_a_few_at_a_time() -> None:
    holds = broken_for("eve")
    sent = Sent(one_of("eve"))
    waits = [holds.wait(sent, now=NEW_YEAR) for _ in range(3 * TOGETHER)]
    assert waits == [FIRST_PAUSE + turn * APART for turn in range(3) for _ in range(TOGETHER)]


def test_one_probe_is_out_at_a_time_however_it_ends() -> None:
    holds, now = broken_for("eve"), NEW_YEAR + FIRST_PAUSE
    probe = Sent(one_of("eve"))
    assert holds.wait(probe, now=now) is None
    assert holds.wait(Sent(one_of("eve")), now=now + 60 * SECOND) == FIRST_PAUSE
    probe.finished = True  # released, or lost: nobody said how it went
    assert holds.wait(Sent(one_of("eve")), now=now + 60 * SECOND) is None


def test_who_had_no_trouble_for_long_is_forgotten_and_so_are_the_first_of_too_many() -> None:
    holds = broken_for("eve")
    assert holds.owners(NEW_YEAR + FORGOTTEN_AFTER) == {"router": 1}
    assert holds.owners(NEW_YEAR + FORGOTTEN_AFTER + SECOND) == {}
    assert len(holds) == 0
    alarm = one_of("eve")
    for number in range(MOST + 50):
        holds.failed(replace(alarm, owner_did=f"owner{number}"), ILL, now=NEW_YEAR)
    assert len(holds) == MOST

"""The simulator itself: seeds hold, the same seed goes the same way, and what breaks is shrunk to what it takes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import count
from typing import Any

import pytest

from wakeful.clock import stopwatch, thread_time
from wakeful.dispatcher.claiming import Suspects
from wakeful.errors import InvalidSchedule
from wakeful.rules.wake import Wake
from wakeful.testing.simulation import PromiseBroken, Script, generated, play, replay, run_text, shrunk, simulate
from wakeful.testing.simulation.event_loop import Group, SimulatedClock, Stuck, closing, simulated_loop
from wakeful.testing.simulation.runner import simulate_seeds
from wakeful.testing.simulation.script import (
    Away,
    Change,
    Create,
    Freeze,
    Kill,
    Report,
    SetClock,
    Step,
    StoreTrouble,
    Wait,
)

SEEDS = range(60)
TRACED = (1, 2, 11, 21)
# CPU seconds that the simulator may take to find a planted fault; without one, there is nothing to find.
LOOKS_FOR = 60.0


def found(*steps: Step, seed: int = 0, one_machine: bool = False) -> Script:
    """A script that broke a promise. `seed`: where its retries have to come at the right moment."""
    return Script(seed=seed, steps=steps, one_machine=one_machine, out_of_turn=False, delays=False)


FOUND: dict[str, Script] = {
    "instants before the retry of the last fire allowed were lost when it was skipped for its budget": found(
        Create(alarm=2, every=1, owner="cat", max_fires=3),
        Wait(seconds=3.0),
        Report(alarm=2, what="failed"),
    ),
    "a late answer replaced a failure that was reported after its alarm was moved": found(
        Create(alarm=0, target="long", report_within=3.0),
        Wait(seconds=4.0),
        Report(alarm=0, what="working"),
        Change(alarm=0, what="move", seconds=5.0),
        Wait(seconds=1.0),
        Report(alarm=0, what="failed"),
    ),
    "a worker that stood still overwrote a failure that was reported after the next try": found(
        Create(alarm=0, target="slow", many=2, report_within=30.0),
        Wait(seconds=1.5),
        Freeze(process=0, seconds=7.0),
        Wait(seconds=6.5),
        Report(alarm=1, what="failed"),
    ),
    "a late answer overwrote a failure that was reported before its alarm was cancelled": found(
        Wait(seconds=0.2),
        Create(alarm=2, after=0.02, target="slow", report_within=30.0),
        Wait(seconds=0.1),
        Report(alarm=2, what="failed"),
        Wait(seconds=0.1),
        Change(alarm=2, what="cancel"),
    ),
    "a late answer overwrote a failure that another worker had settled as reported": found(
        Create(alarm=0, target="slow", report_within=30.0),
        Wait(seconds=1.5),
        StoreTrouble(process=0, call="renew", what="refused", times=9),
        StoreTrouble(process=1, call="renew", what="refused", times=9),
        StoreTrouble(process=0, call="settle", what="slow", seconds=6.0),
        StoreTrouble(process=1, call="settle", what="slow", seconds=0.5),
        Wait(seconds=4.0),
        Report(alarm=0, by=1, what="failed"),
    ),
    "a late answer overwrote a failure that was reported while its alarm was paused": found(
        Create(alarm=0, target="long", report_within=30.0),
        Wait(seconds=2.0),
        Report(alarm=0, what="working"),
        Wait(seconds=0.1),
        Change(alarm=0, what="pause"),
        Wait(seconds=0.1),
        Report(alarm=0, what="failed"),
        Wait(seconds=7.0),
    ),
    "an attempt that was still under way when its retry was due overwrote the failure that was reported on it": found(
        Create(alarm=2, target="long"),
        Wait(seconds=1.0),
        Wait(seconds=2.0),
        Report(alarm=2, what="failed"),
        Wait(seconds=1.0),
        SetClock(machine=0, by=60.0),
        Wait(seconds=0.5),
        seed=8803,
        one_machine=True,
    ),
    "a failure reported after silence ended as silence when there was no time for another try": found(
        Create(alarm=0, every=5, report_within=1.0, expires=3.0),
        *[Wait(seconds=1.0), Wait(seconds=1.0), Wait(seconds=0.5), Wait(seconds=2.0), Wait(seconds=2.0)],
        Away(seconds=3.0),
        Wait(seconds=1.0),
        Wait(seconds=0.5),
        Report(alarm=0, what="failed"),
        seed=12136,
    ),
    "a late answer overwrote a failure that was reported again while its alarm was paused": found(
        Create(alarm=0, after=0.5, target="long"),
        Wait(seconds=0.5),
        SetClock(machine=-1, by=60.0),
        Wait(seconds=0.05),
        Report(alarm=0, what="failed"),
        Wait(seconds=2.0),
        Wait(seconds=1.0),
        Change(alarm=0, what="pause"),
        Wait(seconds=2.0),
        Report(alarm=0, what="failed"),
        seed=3771,
    ),
    "instants before the last fire allowed were lost when it waited for its budget and was skipped": found(
        Create(alarm=0, every=1, max_fires=4, wakes_per_hour=3, at_limit="defer"),
        Wait(seconds=4.0),
        Change(alarm=0, what="skip"),
    ),
    "a late answer overwrote a failure that was reported after the clock was set back": found(
        Create(alarm=0, every=5, target="long"),
        Wait(seconds=2.5),
        Kill(process=1, down=2.0),
        Wait(seconds=2.0),
        StoreTrouble(process=0, call="now", what="slow", seconds=0.5),
        SetClock(machine=0, by=60.0, back_after=0.01),
        Wait(seconds=2.5),
        StoreTrouble(process=1, call="any", what="slow", times=5, seconds=6.0),
        Wait(seconds=2.0),
        Report(alarm=0, what="failed"),
        seed=42770,
        one_machine=True,
    ),
    "a fire that was snoozed after a failure was reported looked reported": found(
        Create(alarm=0, target="slow"),
        Wait(seconds=1.2),
        Report(alarm=0, what="failed"),
        Wait(seconds=0.1),
        Change(alarm=0, what="snooze"),
    ),
    "the audit missed instants of a series whose last fire was snoozed": found(
        Create(alarm=0, every=2, report_within=1.0, max_fires=1),
        Wait(seconds=2.1),
        Report(alarm=0, what="snooze"),
    ),
    "a skip was taken back after a later occurrence had fired, and its alarm was never settled again": found(
        Create(alarm=0, every=1),
        Wait(seconds=0.5),
        Change(alarm=0, what="skip"),
        Wait(seconds=2.0),
        SetClock(machine=-1, by=-3600.0, back_after=5.0),
        Wait(seconds=2.0),
        Change(alarm=0, what="undo"),
    ),
}


def digest() -> str:
    return hashlib.sha256("\n".join(line for seed in TRACED for line in replay(seed).trace).encode()).hexdigest()


def test_every_promise_holds_for_a_fixed_set_of_seeds() -> None:
    for run in simulate_seeds(iter(SEEDS)):
        assert run.broken is None, run_text(run)


@pytest.mark.parametrize("name", FOUND)
def test_what_it_found_before_stays_mended(name: str) -> None:
    run = play(FOUND[name])
    assert run.broken is None, run_text(run)


def test_the_same_seed_goes_the_same_way_also_in_another_process() -> None:
    here = digest()
    assert here == digest()
    asked = "from tests.simulation.test_seeds import digest; print(digest())"
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", asked]
    told_there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert told_there.stdout.strip() == here


def test_another_seed_goes_another_way() -> None:
    assert replay(1).trace != replay(2).trace
    assert generated(1) == generated(1) != generated(2)


def nobody_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault: what a dead worker held is never claimed again."""
    monkeypatch.setattr(Suspects, "wanted", lambda _: False)


def test_what_breaks_a_promise_is_shrunk_to_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_tries_again(monkeypatch)
    needed: tuple[Step, ...] = (Create(alarm=0, target="slow"), Wait(seconds=2.0), Kill(process=0))
    besides: tuple[Step, ...] = (Create(alarm=7, every=5), Change(alarm=7, what="pause"), Wait(seconds=0.5))
    run = play(Script(seed=3, steps=(*besides, *needed, *besides), processes=1))
    assert run.broken is not None
    small = shrunk(run)
    assert small.broken is not None
    assert small.broken.promise == run.broken.promise
    assert len(small.script.steps) <= len(needed)
    assert not small.script.delays
    said = run_text(small)
    assert "Kill         process=0" in said
    values: list[type] = [Script, *Step.__subclasses__()]
    known = {one.__name__: one for one in values}
    assert eval(said.partition("play(")[2][:-1], known) == small.script


def test_the_promises_hold_while_there_is_nothing_to_find() -> None:
    """With a fault planted (tests/mutants) this is what finds it; without one it ends after a few seeds."""
    began, planted = thread_time(), os.environ.get("WAKEFUL_TEST_MUTANT")
    for run in simulate_seeds(count() if planted else iter(range(3))):
        assert run.broken is None, run_text(run)
        if thread_time() - began > LOOKS_FOR:
            return


# The event loop


def test_time_jumps_to_the_next_timer() -> None:
    loop, began = simulated_loop(), stopwatch()

    async def a_year() -> float:
        await asyncio.sleep(365 * 86_400)
        return stopwatch()

    with closing(loop, []):
        assert loop.run(a_year()) == pytest.approx(365 * 86_400, abs=1)
    assert stopwatch() - began < 60


def test_whoever_waits_for_nothing_is_told() -> None:
    loop = simulated_loop()

    async def never() -> None:
        await loop.create_future()

    with closing(loop, []), pytest.raises(Stuck):
        loop.run(never())


def test_a_killed_process_does_nothing_more_and_a_frozen_one_goes_on_later() -> None:
    loop, done = simulated_loop(), []
    clock = SimulatedClock(loop)

    async def work(name: str) -> None:
        try:
            await clock.sleep(1)
            done.append(f"{name} worked")
        finally:
            await clock.sleep(0)
            done.append(f"{name} cleaned up")

    killed, frozen = Group(), Group()

    async def main() -> None:
        killed.spawn(work("killed"))
        frozen.spawn(work("frozen"))
        await clock.sleep(0.5)
        killed.end()
        frozen.frozen = True
        await clock.sleep(5)
        assert done == []
        loop.thaw(frozen)
        await clock.sleep(1)

    with closing(loop, [killed, frozen]):
        loop.run(main())
    assert done == ["frozen worked", "frozen cleaned up"]


# For users


async def test_handlers_of_a_user_are_run_through_trouble() -> None:
    began: Counter[str] = Counter()
    ended: Counter[str] = Counter()

    async def ops(wake: Wake) -> str:
        began[wake.fire_id] += 1
        await asyncio.sleep(0.5)
        ended[wake.fire_id] += 1
        return "done"

    alarms: list[dict[str, Any]] = [
        {"when": "in 5 seconds", "wake_message": "once", "target": "ops"},
        {"cron": "@every 3s", "wake_message": "series", "target": "ops", "policy": {"max_fires": 5}},
    ]
    for seed in range(6):
        found = simulate({"ops": ops}, alarms, seed)
        assert {alarm.wake_message: alarm.status for alarm in found.alarms} == {"once": "fired", "series": "fired"}
        assert all(ended[fire.id] for fire in found.fires if fire.status == "completed")
    assert began.total() > ended.total(), "no worker died in the middle of a call"


def test_an_alarm_that_is_not_understood_is_refused() -> None:
    with pytest.raises(InvalidSchedule):
        simulate({"ops": print}, [{"when": "whenever", "wake_message": "x", "target": "ops"}], 1)


def test_a_promise_that_a_user_sees_broken_comes_with_what_had_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_tries_again(monkeypatch)

    async def long(_: Wake) -> None:
        await asyncio.sleep(4)

    def runs() -> None:
        for seed in range(20):
            simulate({"ops": long}, [{"when": "in 1 second", "wake_message": "x", "target": "ops"}], seed)

    with pytest.raises(PromiseBroken, match="As a regression test") as raised:
        runs()
    assert raised.value.run.broken is not None


def test_no_part_of_a_simulated_process_fails_unexpectedly(caplog: pytest.LogCaptureFixture) -> None:
    for seed in TRACED:
        replay(seed, traced=False)
    assert "unexpected error" not in caplog.text

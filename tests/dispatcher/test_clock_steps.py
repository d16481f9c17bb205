"""A clock that is set, by hand or by NTP: nothing is early, and nothing waits longer than the new clock requires."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.acting import acting
from wakeful.dispatcher import STORE_PATIENCE, TICKS_SILENT, Dispatcher
from wakeful.http.health import check_loop
from wakeful.http.security.guard import Refusal
from wakeful.process.server import is_alive
from wakeful.python.client import LocalWakeful
from wakeful.runtime.metrics import Metrics
from wakeful.testing import ManualClock

from .conftest import OWNER, World
from .test_early import Unwatched, claimed, ended
from .test_stopping import GoesAway

STEP = 600


class Skewed(Unwatched):
    """A worker's clock that is not the store's, and can be set by itself."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead


class Measured(Unwatched):
    """Knows the longest sleep that was asked for."""

    longest = 0.0

    async def sleep(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)
        await super().sleep(seconds)


class Gated(GoesAway):
    """A store whose `next_due` lets a test act while its answer is on the way."""

    def __init__(self, store: Any, clock: ManualClock) -> None:
        super().__init__(store)
        self._clock = clock
        self.step = 0.0  # by which the clock is set back while the next answer is on its way
        self.stepped = asyncio.Event()

    async def next_due(self, targets: Sequence[str]) -> datetime | None:
        found: datetime | None = await self._store.next_due(targets)
        if self.step:
            self._clock.set_back(self.step)
            self.step = 0.0
            self.stepped.set()
        return found


@asynccontextmanager
async def running(world: World, clock: Unwatched | None = None, **given: Any) -> AsyncIterator[Dispatcher]:
    dispatcher = world.another(clock=clock or Unwatched(world.clock), **given)
    task = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher
    finally:
        dispatcher.stop()
        while not task.done():
            await world.clock.advance(0.1)
        await task


async def until_so(world: World, is_so: Callable[[], bool]) -> None:
    """Let time pass, far less than a step, until it is so. In between threads and the database have their turn."""
    for _ in range(round(STEP / 10 / 0.05)):
        for _ in range(20):
            if is_so():
                return
            await asyncio.sleep(0.001)
        await world.clock.advance(0.05)
    async with asyncio.timeout(60):  # for threads and a database that are slow; the clock stands still
        while not is_so():  # noqa: ASYNC110 - threads know
            await asyncio.sleep(0.01)


async def test_a_step_while_the_next_moment_is_asked_for_makes_no_long_sleep(world: World) -> None:
    """Back for a moment, then right again: it is delivered when it is due. No hint wakes the loop before."""
    world.store = store = Gated(world.store, world.clock)
    alarm = await world.set(3)
    store.step = STEP
    async with running(world, clock := Measured(world.clock)):
        await until_so(world, store.stepped.is_set)
        world.clock.set_back(-STEP)
        await until_so(world, lambda: world.desk.fire_ids == [alarm.fire_id] or clock.longest > STEP / 2)
        assert world.desk.fire_ids == [alarm.fire_id]
        await ended(world, alarm)


async def test_an_alarm_claimed_just_before_a_step_back_fires_when_the_clock_is_right_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    alarm = await world.set(60)
    async with running(world):
        await world.clock.advance(60 - 0.02)
        await claimed(world, alarm)
        world.clock.set_back(STEP)
        await until_so(world, lambda: "a clock was set back" in caplog.text)
        assert world.desk.wakes == [], "never early by the store's clock"
        world.clock.set_back(-STEP)
        await until_so(world, lambda: world.desk.fire_ids == [alarm.fire_id])
        await ended(world, alarm)
    facts = (await acting(world.service, OWNER).why(alarm.id)).facts
    assert any("clock set back" in fact for fact in facts)
    [fire] = await world.fires(alarm)
    assert fire.attempts == 1


async def test_a_clock_that_stays_behind_fires_when_it_says_so(world: World) -> None:
    alarm = await world.set(60)
    async with running(world):
        await world.clock.advance(60 - 0.02)
        await claimed(world, alarm)
        world.clock.set_back(30)
        await world.clock.advance(29.9)
        assert world.desk.wakes == []
        await until_so(world, lambda: world.desk.fire_ids == [alarm.fire_id])
        await ended(world, alarm)


@pytest.mark.parametrize("ahead", [-STEP, STEP])
async def test_a_step_of_the_workers_clock_alone_changes_nothing(
    world: World, ahead: float, caplog: pytest.LogCaptureFixture
) -> None:
    """The store's clock judges, and has not moved."""
    caplog.set_level(logging.WARNING)
    alarm, metrics, skewed = await world.set(60), Metrics(), Skewed(world.clock)
    async with running(world, skewed, metrics=metrics):
        await world.clock.advance(60 - 0.02)
        await claimed(world, alarm)
        skewed.ahead = timedelta(seconds=ahead)
        await world.clock.advance(0.019)
        assert world.desk.wakes == [], "never early by the store's clock"
        await until_so(world, lambda: world.desk.fire_ids == [alarm.fire_id])
        await ended(world, alarm)
        await until_so(world, lambda: "this machine's clock moved by" in caplog.text)
    [fire] = await world.fires(alarm)
    assert fire.started_at is not None
    assert timedelta(0) <= fire.started_at - fire.scheduled_for < timedelta(seconds=STEP / 10)
    assert b"wakeful_clock_jumps_total 1.0" in metrics.exposition("")[0]


async def test_a_loop_that_does_not_run_any_more_is_told_to_whoever_watches(world: World) -> None:
    """Also while the database answers and leases are renewed: `/healthz` and systemd's watchdog ask the same."""
    async with running(world) as dispatcher:
        await world.clock.advance(1)
        program = cast(LocalWakeful, SimpleNamespace(_pulse=lambda: dispatcher.health))
        check_loop(dispatcher.health)
        tick = world.settings.tick.total_seconds()
        asleep = TICKS_SILENT * tick + 1
        real, dispatcher._clock = dispatcher._clock, Ahead(world.clock, asleep)
        dispatcher._napping = True
        with pytest.raises(Refusal, match=r"has not run for 1[0-9] s"):
            check_loop(dispatcher.health)
        assert not is_alive(program)
        dispatcher._napping = False  # in a call of the store, which may be slow
        assert is_alive(program)
        dispatcher._clock = Ahead(world.clock, STORE_PATIENCE + 1)
        assert not is_alive(program)
        dispatcher._deliveries.stopping = True  # the loop has ended, and what is in flight is waited for
        assert is_alive(program)
        dispatcher._clock = real
    assert is_alive(cast(LocalWakeful, SimpleNamespace(_pulse=lambda: None)))


class Ahead(Unwatched):
    def __init__(self, clock: ManualClock, by: float) -> None:
        super().__init__(clock)
        self._by = by

    def monotonic(self) -> float:
        return super().monotonic() + self._by

"""Alarms are claimed a moment before they are due, and delivered when they are: not before, and hardly after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from tests.acting import acting
from wakeful.dispatcher import Dispatcher
from wakeful.model.alarm import Alarm
from wakeful.testing import ManualClock

from .conftest import OWNER, World
from .test_settling import until

MS = timedelta(milliseconds=1)


class Unwatched:
    """The manual clock for a dispatcher that takes it for the machine's: nobody waits for it before a step."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[Dispatcher]:
    dispatcher = world.another(clock=Unwatched(world.clock))
    task = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher
    finally:
        dispatcher.stop()
        while not task.done():
            await world.clock.advance(0.1)
        await task


async def claimed(world: World, alarm: Alarm) -> None:
    async def is_so() -> bool:
        world.store.hints.set()  # a loop that was still reading when the clock was moved sleeps until after it is due
        found = await world.read(alarm)
        assert not found.finished, "it was delivered already"
        return found.claimed_at is not None

    await until(is_so)


async def ended(world: World, alarm: Alarm) -> None:
    async def is_so() -> bool:
        return (await world.read(alarm)).finished

    await until(is_so)


async def test_it_is_claimed_before_it_is_due_and_delivered_when_it_is(world: World) -> None:
    alarm = await world.set(60)
    async with running(world):
        await world.clock.advance(60 - 0.02)
        await claimed(world, alarm)
        await world.clock.advance(0.019)
        assert world.desk.wakes == []
        await world.clock.advance(0.001)
        await ended(world, alarm)
    [fire] = await world.fires(alarm)
    assert fire.started_at == alarm.fire_at == fire.scheduled_for
    assert world.desk.fire_ids == [alarm.fire_id]


async def test_what_is_due_soon_after_it_is_claimed_along(world: World) -> None:
    first, second, third = [await world.set(60 + after) for after in (0, 0.01, 5)]
    async with running(world):
        await world.clock.advance(60 - 0.02)
        await claimed(world, second)
        assert (await world.read(first)).claimed_at == (await world.read(second)).claimed_at
        assert (await world.read(third)).claimed_at is None


async def test_a_change_in_that_moment_comes_too_late_and_says_so(world: World) -> None:
    alarm = await world.set(60)
    async with running(world):
        await world.clock.advance(60 - 0.02)
        await claimed(world, alarm)
        assert (await acting(world.service, OWNER).cancel(alarm.id)).in_flight
        await world.clock.advance(0.02)

        async def is_on_record() -> bool:
            return bool(await world.fires(alarm))

        await until(is_on_record)
    assert (await world.read(alarm)).status == "cancelled"
    assert world.desk.fire_ids == [alarm.fire_id]


async def test_a_clock_set_back_in_that_moment_makes_nothing_early(world: World) -> None:
    alarm = await world.set(60)
    async with running(world):
        await world.clock.advance(60 - 0.02)
        await claimed(world, alarm)
        world.clock.set_back(0.01)
        await world.clock.advance(0.025)
        assert world.desk.wakes == []
        await world.clock.advance(0.005)
        await ended(world, alarm)
    [fire] = await world.fires(alarm)
    assert fire.started_at is not None
    assert fire.scheduled_for <= fire.started_at <= fire.scheduled_for + 10 * MS, "the next claim learns of the step"


async def test_a_worker_that_is_stopped_in_that_moment_delivers_it_in_time_or_gives_it_back(world: World) -> None:
    alarm = await world.set(60)
    async with running(world) as dispatcher:
        await world.clock.advance(60 - 0.02)
        await claimed(world, alarm)
        dispatcher.stop()
    [fire] = await world.fires(alarm)
    assert fire.started_at is not None
    assert fire.started_at >= fire.scheduled_for
    assert world.desk.fire_ids == [alarm.fire_id]

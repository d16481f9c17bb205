"""The clock that is moved by hand."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from wakeful.clock import BUSY
from wakeful.testing import NEW_YEAR, ManualClock
from wakeful.testing.manual_clock import OWN


async def test_it_stands_still_until_it_is_moved() -> None:
    clock = ManualClock()
    assert clock.now() == clock.now() == NEW_YEAR
    await clock.advance(90)
    await clock.advance(timedelta(milliseconds=1))
    assert clock.now() == NEW_YEAR + timedelta(seconds=90, milliseconds=1)


async def test_sleepers_wake_in_order_each_at_its_own_moment() -> None:
    clock, woken = ManualClock(), list[tuple[str, datetime]]()

    async def sleeper(name: str, *seconds: float) -> None:
        for length in seconds:
            await clock.sleep(length)
            woken.append((name, clock.now()))

    tasks = [asyncio.ensure_future(sleeper("a", 3, 2)), asyncio.ensure_future(sleeper("b", 1, 10))]
    await clock.advance(6)
    assert woken == [(name, NEW_YEAR + timedelta(seconds=at)) for name, at in (("b", 1), ("a", 3), ("a", 5))]
    assert clock.sleepers == 1
    await clock.advance(5)
    await asyncio.gather(*tasks)
    assert clock.sleepers == 0


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    task = asyncio.ensure_future(clock.sleep(5))
    await clock.advance(1)
    task.cancel()
    await clock.advance(10)
    assert task.cancelled()


async def test_a_clock_set_back_makes_nobody_sleep_longer() -> None:
    clock = ManualClock()
    task = asyncio.ensure_future(clock.sleep(5))
    await clock.advance(1)
    clock.set_back(timedelta(hours=1))
    assert clock.now() == NEW_YEAR + timedelta(seconds=1) - timedelta(hours=1)
    await clock.advance(4)
    assert task.done()


async def test_sleeping_for_nothing_lets_others_run() -> None:
    clock, ran = ManualClock(), list[int]()
    asyncio.get_running_loop().call_soon(ran.append, 1)
    await clock.sleep(0)
    assert ran == [1]


async def test_what_waits_for_the_clock_itself_is_waited_for_once() -> None:
    """As a write that is tried again after a while: while the clock moves up to then, nothing can change."""
    clock, looks = ManualClock(), 0

    def work() -> object:
        nonlocal looks
        looks += 1
        return BUSY

    sleeping = [asyncio.create_task(clock.sleep(1000)) for _ in range(OWN + 1)]
    await asyncio.sleep(0)
    with clock.working(work):
        await clock.advance(1)
        looks = 0
        for _ in range(50):
            await clock.advance(1)
        assert looks == 2 * 50  # before the clock moves, and after
    for task in sleeping:
        task.cancel()
    await asyncio.wait(sleeping)

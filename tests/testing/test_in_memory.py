"""Alarms in memory: the whole clock on them, by a clock that the test moves."""

from __future__ import annotations

import threading
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest

import wakeful
from wakeful.errors import Conflict, InvalidConfig
from wakeful.testing import ManualClock, MemoryDatabase, open_in_memory

HOUR = timedelta(hours=1)
RARELY: dict[str, Any] = {"tick": "5m", "lease": "15m"}  # an hour has 3,600 ticks of the usual length


async def test_what_falls_due_while_time_passes_is_delivered() -> None:
    clock, sent = ManualClock(), []
    async with open_in_memory(clock=clock, **RARELY) as alarms:
        alarms.handler("brief")(lambda wake: sent.append(wake.message))
        async with alarms.running():
            series = await alarms.set("every hour", "hourly", target="brief", key="h")
            await alarms.set("in 90 minutes", "once", target="brief")
            await clock.advance(3 * HOUR)
        assert sent == ["hourly", "once", "hourly", "hourly"]
        assert [fire.status for fire in await alarms.fires(series.id)] == ["completed"] * 3
        with pytest.raises(Conflict):
            await alarms.set("every hour", "another", target="brief", key="h")


async def test_nothing_runs_in_a_thread() -> None:
    clock, before, woken = ManualClock(), set(threading.enumerate()), []
    async with open_in_memory(clock=clock, **RARELY) as alarms:

        @alarms.handler("brief")
        async def brief(wake: wakeful.Wake) -> None:
            woken.append(set(threading.enumerate()) - before)

        async with alarms.running():
            await clock.advance(HOUR)  # a dispatcher that finds nothing at first
            await alarms.set("in 1 minute", "brief", target="brief")
            await clock.advance(HOUR)
            assert (woken, set(threading.enumerate()) - before) == ([set()], set())


async def test_a_second_process_goes_on_where_the_first_ended() -> None:
    clock, database = ManualClock(), MemoryDatabase()
    async with open_in_memory(database, clock=clock) as first:
        alarm = await first.set("in 1 hour", "brief", target="inbox")
    await clock.advance(HOUR)
    async with open_in_memory(database, clock=clock) as second:
        assert await second.run_due() == 1
        assert [taken.wake_message for taken, _ in await second.inbox()] == ["brief"]
        assert (await second.get(alarm.id)).status == "fired"


async def test_of_two_processes_one_delivers_each_wake() -> None:
    clock, database, sent = ManualClock(), MemoryDatabase(), []
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(open_in_memory(database, clock=clock, **RARELY)) for _ in range(2)]
        for alarms in both:
            alarms.handler("brief")(lambda wake: sent.append(wake.message))
            await stack.enter_async_context(alarms.running())
        for number in range(1, 21):
            await both[number % 2].set(f"in {number} minutes", str(number), target="brief")
        await clock.advance(HOUR)
    assert sorted(sent, key=int) == [str(number) for number in range(1, 21)]


async def test_nothing_but_a_test_keeps_alarms_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_DB", ":memory:")
    for alarms in (wakeful.open(), wakeful.open(":memory:")):
        with pytest.raises(InvalidConfig, match=r"survive the process. In a test, use .*open_in_memory"):
            await alarms.__aenter__()

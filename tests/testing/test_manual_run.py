"""A dispatcher that runs by the manual clock fires on `advance`, every time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

import wakeful
from wakeful.clock import SystemClock
from wakeful.testing import ManualClock
from wakeful.testing.manual_clock import PATIENCE


@asynccontextmanager
async def running(db: str, clock: ManualClock, **settings: object) -> AsyncIterator[wakeful.Wakeful]:
    async with wakeful.open(db, clock=clock, **settings) as alarms:  # type: ignore[arg-type]
        yield alarms


@asynccontextmanager
async def run(alarms: wakeful.Wakeful) -> AsyncIterator[None]:
    running = asyncio.create_task(alarms.run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    if request.param == "sqlite":
        return str(tmp_path / "wakeful.db"), {}
    return request.getfixturevalue("pg_dsn"), {"schema": request.getfixturevalue("pg_schema")}


async def test_advance_fires_every_time(db: tuple[str, dict[str, str]]) -> None:
    clock = ManualClock()
    async with running(db[0], clock, **db[1]) as alarms:
        fired: list[str] = []

        @alarms.handler("ops")
        async def ops(wake: wakeful.Wake) -> str:
            fired.append(wake.message)
            return "done"

        async with run(alarms):
            for number in range(5):
                alarm = await alarms.set("in 1 minute", str(number), target="ops")
                await clock.advance(59)
                assert fired == [str(n) for n in range(number)]
                await clock.advance(1)
                assert fired == [str(n) for n in range(number + 1)]
                assert (await alarms.get(alarm.id)).status == "fired"  # delivered, and written


async def test_a_series_fires_as_often_as_it_is_due(db: tuple[str, dict[str, str]]) -> None:
    clock = ManualClock()
    async with running(db[0], clock, tick="1m", lease="5m", **db[1]) as alarms:
        fired: list[str] = []

        @alarms.handler("ops")
        def ops(wake: wakeful.Wake) -> str:  # a plain function: it runs in a thread
            fired.append(wake.fire_id)
            return "done"

        alarm = await alarms.set("every 10 minutes", "tick", target="ops")
        async with run(alarms):
            await clock.advance(3600)
        assert len(fired) == len(set(fired)) == 6
        assert (await alarms.get(alarm.id)).fire_count == 6


async def test_deliveries_that_get_on_are_waited_for_however_long_all_of_them_take(tmp_path: Path) -> None:
    """Each takes a part of the patience with one that stands still, as where the database is slow."""
    clock = ManualClock()
    async with running(str(tmp_path / "wakeful.db"), clock, total_concurrency=1) as alarms:
        done: list[str] = []

        @alarms.handler("ops")
        async def ops(wake: wakeful.Wake) -> str:
            await SystemClock().sleep(PATIENCE / 5)
            done.append(wake.message)
            return "done"

        for number in range(12):
            await alarms.set("in 1 minute", str(number), target="ops")
        async with run(alarms):
            await clock.advance(60)
            assert sorted(done, key=int) == [str(number) for number in range(12)]


async def test_a_handler_that_sleeps_by_the_clock_is_not_waited_for(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(str(tmp_path / "wakeful.db"), clock) as alarms:
        woken: list[str] = []

        @alarms.handler("ops")
        async def ops(wake: wakeful.Wake) -> str:
            await clock.sleep(30)
            woken.append(wake.message)
            return "done"

        alarm = await alarms.set("in 1 minute", "hello", target="ops")
        async with run(alarms):
            await clock.advance(60)
            assert woken == []
            await clock.advance(30)
            assert woken == ["hello"]
            assert (await alarms.get(alarm.id)).status == "fired"

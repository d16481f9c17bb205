"""Batches of first attempts on PostgreSQL, which are written as they come: what is wrong with one is only its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from wakeful.model.alarm import Alarm
from wakeful.store import Settled
from wakeful.store.batching import WHOLE
from wakeful.store.postgres import PostgresStore, database

from .postgres_world import LEASE, World, completed, new_alarm

FIRES = "select count(*) from {}.fires"


@pytest.fixture
async def world(pg_dsn: str, pg_migrated: str) -> AsyncIterator[World]:
    world = World(pg_dsn, pg_migrated)
    yield world
    await world.close()


@pytest.fixture(autouse=True)
def long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a locked row still waits when its neighbours are through, however busy the machine is."""
    monkeypatch.setattr(database, "LONG_LOCK_WAIT", "120s")
    monkeypatch.setattr(database, "ANSWER_WITHIN", 120.0)


async def claimed(world: World, count: int) -> tuple[PostgresStore, list[Alarm]]:
    store = world.store()
    await store.migrate()
    await store.add([new_alarm() for _ in range(count)])
    return store, (await store.claim({"t": count}, lease=LEASE)).alarms


async def test_of_a_batch_of_first_attempts_each_has_its_own_answer(world: World) -> None:
    """One that somebody holds, one whose words no column takes, one that is no longer ours: the others are written."""
    store, alarms = await claimed(world, 2 * WHOLE)
    changes = [completed(alarm, result="half \ud800" if index == 3 else "ok") for index, alarm in enumerate(alarms)]
    await store.settle([replace(changes[5], fires=())])
    holder = await world.connect()
    async with holder.transaction():
        await holder.fetch(f"select from {world.alarms} where id = $1 for update", alarms[7].id)
        settling = asyncio.create_task(store.settle(changes))
        async with asyncio.timeout(30):
            while await world.value(FIRES.format(world.schema)) < len(alarms) - 2:  # noqa: ASYNC110 - the server knows
                await asyncio.sleep(0.01)
        assert not settling.done()
    answers = await settling
    assert [index for index, answer in enumerate(answers) if answer.what != "applied"] == [5]
    assert answers[5] == Settled("lost")


async def test_a_batch_is_written_though_its_caller_is_cancelled(world: World) -> None:
    store, alarms = await claimed(world, WHOLE)
    holder = await world.connect()
    async with holder.transaction():
        await holder.fetch(f"select from {world.alarms} where id = $1 for update", alarms[7].id)
        settling = asyncio.create_task(store.settle([completed(alarm) for alarm in alarms]))
        async with asyncio.timeout(30):
            while not await world.value("select count(*) from pg_locks where not granted"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        settling.cancel()
        closing = asyncio.create_task(store.close())
        async with asyncio.timeout(30):
            while await world.value(FIRES.format(world.schema)) < WHOLE - 1:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        assert not closing.done()
    await closing
    assert await world.value(FIRES.format(world.schema)) == WHOLE

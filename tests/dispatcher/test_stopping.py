"""Stopping, losing a lease, and a store that goes away: nothing is lost and nothing is wrongly counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from wakeful.alarm import Change
from wakeful.clock import SystemClock
from wakeful.errors import StoreUnavailable
from wakeful.store import Claimed, Settled
from wakeful.testing.conformance.making import an_alarm

from .conftest import OWNER, World
from .test_isolation import Hangs, Tells, running


async def test_a_stopping_dispatcher_finishes_what_is_in_flight(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs")])
    dispatcher = world.another()
    running = asyncio.create_task(dispatcher.run())
    await hangs.started.wait()
    dispatcher.stop()
    hangs.released.set()
    await asyncio.wait_for(running, 10)
    assert (await world.read(added.alarm)).status == "fired"


async def test_what_does_not_finish_in_time_is_handed_back_untried(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs")])
    dispatcher = world.another(stop_within=timedelta(milliseconds=50))
    running = asyncio.create_task(dispatcher.run())
    await hangs.started.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait_for(running, 10)
    after = await world.read(added.alarm)
    assert (after.status, after.claimed_at, after.unsettled, after.failure_count) == ("active", None, 0, 0)
    hangs.released.set()
    assert await world.another().run_due() == 1, "it is due again at once"
    assert (await world.read(added.alarm)).status == "fired"


async def test_a_long_delivery_keeps_its_lease(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs")])
    async with running(world.another()):
        await hangs.started.wait()
        for _ in range(12):
            await world.clock.advance(30)
            await _until_renewed(world, added.alarm.id)
            assert (await world.store.claim({"hangs": 1}, lease=world.settings.lease)).alarms == []
        hangs.released.set()


async def _until_renewed(world: World, id: str) -> None:
    """Renewal waits for the disk: wait for what it writes, with a deadline that a slow disk does not reach."""
    async with asyncio.timeout(60):
        while True:
            alarm = await world.store.get(id)
            assert alarm is not None
            assert alarm.claimed_at is not None
            if world.clock.now() - alarm.claimed_at < world.settings.lease / 2:
                return
            await world.clock.advance(0.001)


async def test_an_attempt_whose_lease_was_lost_is_given_up_and_noted(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs", owner_did=OWNER)])
    async with running(world.another()):
        await hangs.started.wait()
        cancelled = await world.service.cancel(added.alarm.id, owner=OWNER)
        assert cancelled.in_flight
        await world.clock.advance(world.settings.lease / 3)
        while hangs.holds:
            await world.store.now()
            await world.clock.advance(0.05)
    [fire] = await world.fires(added.alarm)
    assert "given up" in fire.log[0].said


async def test_a_due_alarm_set_while_the_dispatcher_sleeps_wakes_it(world: World) -> None:
    tells = Tells(1)
    world.serve("tells", tells)
    dispatcher = world.another()
    async with running(dispatcher):
        while world.clock.sleepers < 2:
            await world.store.now()
            await asyncio.sleep(0)
        await world.store.add([an_alarm(world.clock, due=0, target="tells")])
        await asyncio.wait_for(tells.enough.wait(), 10)  # the clock stands still: only the hint can have done it


class GoesAway:
    """A store that is away for as long as it is told to be."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.away = False
        self.refused = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _here(self) -> None:
        if self.away:
            self.refused.set()
            raise StoreUnavailable("the database is away")

    async def claim(self, *args: Any, **kwargs: Any) -> Claimed:
        self._here()
        found: Claimed = await self._store.claim(*args, **kwargs)
        return found

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        self._here()
        found: list[Settled] = await self._store.settle(changes)
        return found


@pytest.mark.parametrize("moment", ["before the claim", "before the settlement"])
async def test_a_dispatcher_waits_for_a_store_that_went_away_and_goes_on(world: World, moment: str) -> None:
    store = GoesAway(world.store)
    world.store = store
    tells = Hangs()
    world.serve("tells", tells)
    [added] = await store.add([an_alarm(world.clock, due=-1, target="tells")])
    store.away = moment == "before the claim"
    async with running(world.another(clock=SystemClock())):
        if moment == "before the settlement":
            await tells.started.wait()
            store.away = True
        tells.released.set()
        await asyncio.wait_for(store.refused.wait(), 10)
        store.away = False
        for _ in range(500):
            if (await world.read(added.alarm)).status == "fired":
                break
            await asyncio.sleep(0.02)
    assert [fire.status for fire in await world.fires(added.alarm)] == ["delivered"]

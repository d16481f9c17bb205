"""What a dead worker held: retried in groups, then one by one; nobody is blamed for a death that another caused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from wakeful.dispatcher import Dispatcher
from wakeful.dispatcher.claiming import GROUP_PROVED_AFTER
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import SUSPECT, Change
from wakeful.model.outcome import Delivered, Outcome
from wakeful.rules.suspect import ALONE, DEATHS_LIMIT
from wakeful.rules.wake import Wake
from wakeful.store import AlarmQuery
from wakeful.testing.conformance.making import an_alarm

from .conftest import World
from .test_isolation import Hangs, Tells, running

POISON, SLOW = "poison", "slow"


async def left_behind(world: World, count: int, *, target: str, deaths: int = 1) -> None:
    """Due alarms that were in the hands of workers that died, one after the other."""
    await world.store.add([an_alarm(world.clock, due=-1, target=target) for _ in range(count)])
    for nr in range(deaths):
        claimed = await world.store.claim({target: count}, lease=world.settings.lease, suspects=nr > 0)
        assert len(claimed.alarms) == count
        await world.clock.advance(world.settings.lease)


async def until(world: World, true: Callable[[], Any], *, step: float) -> None:
    """Let time pass until something is true, with a deadline that a slow machine does not reach."""
    async with asyncio.timeout(60):
        while not true():
            await world.clock.advance(step)
            await world.store.now()


async def test_what_a_dead_worker_held_is_tried_again_all_at_once(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    await left_behind(world, 50, target="hangs")
    async with running(world.another()):
        await until(world, lambda: hangs.holds == 50, step=0)  # the clock stands still
        hangs.released.set()


async def test_the_next_group_waits_until_this_process_has_survived_the_last_one(world: World) -> None:
    """And keeps nobody waiting meanwhile."""
    hangs, others = Hangs(), Tells(20)
    world.serve("hangs", hangs)
    world.serve("others", others)
    await left_behind(world, 12, target="hangs")
    async with running(world.another(batch=4)):
        await until(world, lambda: hangs.holds, step=0)
        begun = world.clock.monotonic()
        await world.store.add([an_alarm(world.clock, due=0, target="others") for _ in range(20)])
        await until(world, others.enough.is_set, step=GROUP_PROVED_AFTER / 100)
        assert world.clock.monotonic() - begun < GROUP_PROVED_AFTER
        assert hangs.holds == 4
        await until(world, lambda: hangs.holds == 12, step=world.settings.tick.total_seconds() / 5)
        hangs.released.set()


class AnswersAtRest(Tells):
    """Answers when the loop of its dispatcher sleeps, with nothing to wake it."""

    dispatcher: Dispatcher

    async def deliver(self, wake: Wake) -> Outcome:
        while not self.dispatcher._napping or self.dispatcher._woken.is_set():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
        return await super().deliver(wake)


async def test_the_next_suspect_does_not_wait_for_a_tick(world: World) -> None:
    """Those whose group died are retried one by one, as fast as their receiver takes them: the clock stands still."""
    tells = AnswersAtRest(10)
    world.serve("tells", tells)
    await left_behind(world, 10, target="tells", deaths=2)
    tells.dispatcher = world.another()
    async with running(tells.dispatcher):
        async with asyncio.timeout(60):
            while not (tells.enough.is_set() or (tells.fire_ids and tells.dispatcher._work() is None)):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    assert len(set(tells.fire_ids)) == 10, "with some left it waits for a tick"


async def test_one_whose_group_died_is_in_flight_with_no_other(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    await left_behind(world, 5, target="hangs", deaths=2)
    async with running(world.another()):
        await until(world, lambda: hangs.holds, step=0)
        for _ in range(20):
            await world.clock.advance(GROUP_PROVED_AFTER / 10)
            await world.store.now()
        assert (hangs.holds, hangs.calls) == (1, 1)
        hangs.released.set()
        await until(world, lambda: hangs.calls == 5, step=GROUP_PROVED_AFTER / 10)


class OfOneWorker:
    """The store as a worker has it: once that is dead, nothing it does reaches the database."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.dead = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        if self.dead.is_set():
            raise StoreUnavailable("its worker is dead")
        return getattr(self._store, name)


class Kills:
    """A receiver: what it is to do with a poisoned wake is to kill the worker that brings it."""

    def __init__(self) -> None:
        self.worker: OfOneWorker
        self.delivered: set[str] = set()
        self.released = asyncio.Event()

    async def deliver(self, wake: Wake) -> Outcome:
        if wake.message == POISON:
            self.worker.dead.set()
        if self.worker.dead.is_set():
            await asyncio.Event().wait()
        if wake.message == SLOW:
            await self.released.wait()
        await asyncio.sleep(0)
        self.delivered.add(wake.alarm_id)
        return Delivered()

    async def close(self) -> None: ...


async def dies(world: World, kills: Kills) -> bool:
    """A worker works until it dies, or until nothing is left to be done."""
    store, kills.worker = world.store, OfOneWorker(world.store)
    world.store = kills.worker
    dispatcher = world.another(stop_within=world.settings.tick / 1000)
    world.store = store
    async with asyncio.timeout(120), running(dispatcher):
        while not kills.worker.dead.is_set():
            await world.clock.advance(world.settings.tick / 20)
            if not (await store.stats()).pending:
                return False
    return True


async def test_five_poisoned_among_three_hundred_are_found_and_nobody_else_is_blamed(world: World) -> None:
    kills, poisoned = Kills(), range(0, 300, 60)
    world.serve("kills", kills, 512)
    alarms = [
        an_alarm(world.clock, due=-1, target="kills", wake_message=POISON if nr in poisoned else "up")
        for nr in range(300)
    ]
    await world.store.add(alarms)
    deaths = 0
    while await dies(world, kills):
        deaths += 1
        assert deaths <= 25
        await world.clock.advance(world.settings.lease)
    assert deaths <= len(poisoned) * (2 + DEATHS_LIMIT)
    for alarm in alarms:
        now = await world.read(alarm)
        if alarm.wake_message == POISON:
            assert (now.status, now.last_error[:11]) == ("failed", "worker died")
        else:
            assert (now.status, now.last_error, alarm.id in kills.delivered) == ("fired", "", True)


async def test_who_is_slow_is_not_blamed_for_what_was_begun_while_it_was_under_way(world: World) -> None:
    """The others do not wait for it for ever; when one of those kills the worker, it was that one."""
    kills = Kills()
    world.serve("kills", kills)
    slow, poison = (
        an_alarm(world.clock, due=due, target="kills", wake_message=word) for due, word in ((-2, SLOW), (-1, POISON))
    )
    await world.store.add([slow, poison])
    for _ in range(2):
        await world.store.claim({"kills": 2}, lease=world.settings.lease)
        await world.clock.advance(world.settings.lease)
    for death in range(1, DEATHS_LIMIT + 1):
        assert await dies(world, kills)
        assert [(await world.read(alarm)).unsettled - ALONE for alarm in (slow, poison)] == [0, death]
        await world.clock.advance(world.settings.lease)
    kills.released.set()
    assert not await dies(world, kills)
    assert [(await world.read(alarm)).status for alarm in (slow, poison)] == ["fired", "failed"]


async def test_who_is_begun_while_a_group_is_under_way_is_not_alone(world: World) -> None:
    """The group may yet kill the worker: that would say nothing against this one."""
    hangs = Hangs()
    world.serve("hangs", hangs)
    await left_behind(world, 1, target="hangs", deaths=2)
    await left_behind(world, 1, target="hangs")
    async with running(world.another()):
        await until(world, lambda: hangs.holds == 2, step=GROUP_PROVED_AFTER / 10)
        counts = [alarm.unsettled for alarm in await world.store.find(AlarmQuery(limit=9))]
        assert sorted(counts) == [SUSPECT, ALONE]
        hangs.released.set()


async def test_who_has_killed_before_is_not_begun_beside_a_group(world: World) -> None:
    """Its next death must count: beside ever new groups it could kill for ever, and never be blamed."""
    hangs = Hangs()
    world.serve("hangs", hangs)
    await left_behind(world, 1, target="hangs", deaths=2)
    [killer] = await world.store.find(AlarmQuery(limit=1))
    blamed = replace(killer, unsettled=ALONE + 1)
    await world.store.settle([Change(claim=killer.claim, version=killer.version, after=blamed)])
    await left_behind(world, 1, target="hangs")
    async with running(world.another()):
        await until(world, lambda: hangs.holds == 1, step=GROUP_PROVED_AFTER / 10)
        for _ in range(30):
            await world.clock.advance(GROUP_PROVED_AFTER / 10)
            await world.store.now()
        assert hangs.holds == 1
        assert (await world.read(killer)).unsettled == ALONE + 1
        hangs.released.set()
        await until(world, lambda: hangs.calls == 2, step=GROUP_PROVED_AFTER / 10)


async def test_an_alarm_that_was_delivered_is_not_blamed_for_the_next(world: World) -> None:
    """It is settled before the next one is begun: else the next one's death would take its settlement with it."""
    kills = Kills()
    world.serve("kills", kills)
    good, poison = (
        an_alarm(world.clock, due=due, target="kills", wake_message=word) for due, word in ((-2, "up"), (-1, POISON))
    )
    await world.store.add([good, poison])
    for _ in range(2):
        await world.store.claim({"kills": 2}, lease=world.settings.lease)
        await world.clock.advance(world.settings.lease)
    assert await dies(world, kills)
    assert [(await world.read(alarm)).status for alarm in (good, poison)] == ["fired", "active"]

"""No target's trouble delays another's wakes; a target in trouble is spared and loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.acting import acting
from wakeful.dispatcher import Dispatcher
from wakeful.dispatcher.breaker import OPENS_AFTER
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.rules.wake import Wake
from wakeful.testing.conformance.making import an_alarm
from wakeful.testing.receiver import RecordingTarget

from .conftest import World


class Hangs:
    """Never answers until it is released, and remembers how many it holds."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.holds = 0
        self.calls = 0
        self.most = 0
        self.started = asyncio.Event()

    async def deliver(self, wake: Wake) -> Outcome:
        self.holds += 1
        self.calls += 1
        self.most = max(self.most, self.holds)
        self.started.set()
        try:
            await self.released.wait()
        finally:
            self.holds -= 1
        return Delivered()

    async def close(self) -> None: ...


class Tells(RecordingTarget):
    """Rings when it has had so many wakes."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.enough = asyncio.Event()
        self._count = enough

    async def deliver(self, wake: Wake) -> Outcome:
        answer = await super().deliver(wake)
        if len(self.wakes) >= self._count:
            self.enough.set()
        return answer


@asynccontextmanager
async def running(dispatcher: Dispatcher) -> AsyncIterator[None]:
    task = asyncio.create_task(dispatcher.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_hanging_target_with_a_long_queue_delays_nobody_else(world: World) -> None:
    hangs, others = Hangs(), Tells(50)
    world.serve("hangs", hangs, 8)
    world.serve("others", others)
    now = world.clock
    await world.store.add([an_alarm(now, due=-60, target="hangs") for _ in range(5_000)])
    await world.store.add([an_alarm(now, due=-1, target="others") for _ in range(50)])
    async with running(world.another()):
        await asyncio.wait_for(others.enough.wait(), 60)
        assert hangs.most == 8
        hangs.released.set()


async def test_many_hanging_targets_cannot_take_every_place(world: World) -> None:
    hangs = [Hangs() for _ in range(4)]
    for number, target in enumerate(hangs):
        world.serve(f"hangs{number}", target, 8)
    others = Tells(20)
    world.serve("others", others)
    for number in range(4):
        await world.store.add([an_alarm(world.clock, due=-60, target=f"hangs{number}") for _ in range(40)])
    dispatcher = world.another(total_concurrency=20, batch=20)
    async with running(dispatcher):
        for target in hangs:
            await asyncio.wait_for(target.started.wait(), 60)
        await world.store.add([an_alarm(world.clock, due=-1, target="others") for _ in range(20)])
        await asyncio.wait_for(others.enough.wait(), 60)
        for target in hangs:
            target.released.set()


async def test_a_target_that_seems_down_is_probed_with_one_wake_at_a_time(world: World) -> None:
    down = Failed("connection refused", unhealthy=True)
    world.desk.answer(*[down] * 100)
    await world.store.add([an_alarm(world.clock, due=-1) for _ in range(50)])
    dispatcher = world.another(batch=OPENS_AFTER)
    await dispatcher.run_due()
    assert len(world.desk.wakes) == OPENS_AFTER
    await dispatcher.run_due()
    assert len(world.desk.wakes) == OPENS_AFTER, "the breaker is open: nothing is sent for now"
    await world.clock.advance(1)
    await dispatcher.run_due()
    assert len(world.desk.wakes) == OPENS_AFTER + 1, "one probe, and no more while it fails"


async def test_a_target_that_recovers_gets_everything_that_waited(world: World) -> None:
    world.desk.answer(*[Failed("connection refused", unhealthy=True)] * OPENS_AFTER)
    await world.store.add([an_alarm(world.clock, due=-1) for _ in range(50)])
    dispatcher = world.another(batch=OPENS_AFTER)
    await dispatcher.run_due()
    await world.clock.advance(1)
    await dispatcher.run_due()
    await world.clock.advance(60)
    await dispatcher.run_due()
    assert len(set(world.desk.fire_ids)) == 50


async def test_failures_that_are_the_wakes_own_do_not_open_the_breaker(world: World) -> None:
    world.desk.answer(*[Failed("HTTP 422")] * 20)
    await world.store.add([an_alarm(world.clock, due=-1) for _ in range(20)])
    await world.dispatcher.run_due()
    assert len(world.desk.wakes) == 20


async def test_a_paused_target_gets_nothing_until_it_is_resumed(world: World) -> None:
    await world.service.targets.pause("desk", by="ada", reason="maintenance")
    alarm = await world.set(1)
    assert await world.run_due(60) == 0
    assert "maintenance" in (await acting(world.service, "ada", limited=True).why(alarm.id)).summary
    await world.service.targets.resume("desk", by="ada")
    assert await world.run_due(1) == 1


async def test_a_handler_of_another_process_is_left_for_that_process(world: World) -> None:
    world.serve("elsewhere", RecordingTarget(), breaks=False)
    alarm = await world.set(1, target="elsewhere")
    await world.clock.advance(1)
    here = world.another({"desk": world.served["desk"]})
    assert await here.run_due() == 0
    assert (await world.read(alarm)).claim == 0
    there = world.another({"elsewhere": world.served["elsewhere"]})
    assert await there.run_due() == 1


async def test_two_dispatchers_share_the_work_and_deliver_nothing_twice(world: World) -> None:
    await world.store.add([an_alarm(world.clock, due=-1) for _ in range(2_000)])
    first, second = world.another(), world.another()
    await asyncio.gather(first.run_due(), second.run_due())
    assert len(world.desk.fire_ids) == len(set(world.desk.fire_ids)) == 2_000

"""Claims are few and large: a target with more due is not looked up again for every place that becomes free."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime

import pytest

from wakeful.clock import SystemClock
from wakeful.dispatcher.flights import Flight, Flights, ServedTarget
from wakeful.model.outcome import Delivered, Outcome
from wakeful.rules.wake import Wake
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import an_alarm
from wakeful.testing.receiver import RecordingTarget

from .conftest import World
from .test_early import ended
from .test_early import running as by_hand
from .test_isolation import running
from .test_settling import until

PLACES = 64


@pytest.mark.parametrize(("free", "waits"), [(0, False), (1, True), (7, True), (8, False), (PLACES, False)])
@pytest.mark.parametrize("has_more", [True, False])
def test_a_target_with_more_due_and_few_places_free_waits_for_more_of_them(
    free: int, waits: bool, has_more: bool
) -> None:
    flights = Flights({"desk": ServedTarget(RecordingTarget(), PLACES)}, total=1000, batch=500)
    for _ in range(PLACES - free):
        flights.take_off(Flight(an_alarm(ManualClock(), target="desk"), None))
    flights.fed({"desk": 10}, Counter(desk=10 if has_more else 9))
    assert flights.making_room == (waits and has_more)


class HoldsSome:
    """Never answers some of its wakes until it is released."""

    def __init__(self, count: int, enough: int) -> None:
        self.released, self.enough = asyncio.Event(), asyncio.Event()
        self._holds, self._left = count, enough

    async def deliver(self, wake: Wake) -> Outcome:
        if self._holds:
            self._holds -= 1
            await self.released.wait()
        else:
            self._left -= 1
            if not self._left:
                self.enough.set()
        return Delivered()

    async def close(self) -> None: ...


async def test_few_places_that_stay_the_only_ones_are_used_all_the_same(world: World) -> None:
    desk = HoldsSome(PLACES - 2, 40)
    world.serve("slow", desk, PLACES)
    await world.store.add([an_alarm(world.clock, due=-1, target="slow") for _ in range(PLACES - 2 + 40)])
    async with running(world.another(clock=SystemClock())):
        await asyncio.wait_for(desk.enough.wait(), 60)
        desk.released.set()


async def full(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A target with more due than it takes, its places all held; and what is noted whenever `next_due` is asked."""
    world.serve("slow", HoldsSome(2, 1), 2)
    await world.store.add([an_alarm(world.clock, due=-1, target="slow") for _ in range(10)])
    asked: list[int] = []
    next_due = world.store.next_due

    async def counted(targets: list[str]) -> datetime | None:
        asked.append(len(targets))
        return await next_due(targets)

    monkeypatch.setattr(world.store, "next_due", counted)
    return asked


async def test_while_a_target_is_full_the_others_are_not_asked_about_at_every_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = await full(world, monkeypatch)
    async with by_hand(world):
        await until(lambda: _is(bool(asked)))
        for _ in range(20):
            world.store.hints.set()
            await asyncio.sleep(0.002)
        assert len(asked) == 1
        await world.clock.advance(0.05)
        await until(lambda: _is(len(asked) > 1))


async def test_what_is_set_while_a_target_is_full_is_on_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = await full(world, monkeypatch)
    async with by_hand(world):
        await until(lambda: _is(bool(asked)))
        alarm = await world.set(0.1)
        for _ in range(10):
            await asyncio.sleep(0.01)  # the dispatcher goes its way, by a clock that stands still
            await world.clock.advance(0.01)
        await ended(world, alarm)
    [fire] = await world.fires(alarm)
    assert fire.started_at == alarm.fire_at


async def _is(what: bool) -> bool:
    return what

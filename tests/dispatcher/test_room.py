"""Claims are few and large: a target with more due is not looked up again for every place that becomes free."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from wakeful.alarm import Delivered, Outcome, Wake
from wakeful.clock import SystemClock
from wakeful.dispatcher.flights import Flight, Flights, ServedTarget
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import an_alarm
from wakeful.testing.recording import RecordingTarget

from .conftest import World
from .test_isolation import running

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
        await asyncio.wait_for(desk.enough.wait(), 20)
        desk.released.set()

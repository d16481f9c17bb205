"""Clocks that are set while we run: what is said of an alarm, and when a new one is for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.acting import Draft, acting, keep
from tests.dispatcher.conftest import OWNER
from wakeful.model.alarm import Alarm
from wakeful.rules.users import Users
from wakeful.service import Service
from wakeful.settings import Settings
from wakeful.store import Store, Worker
from wakeful.testing import ManualClock

LEASE = Settings().lease


@pytest.fixture
async def service(store: Store, clock: ManualClock) -> Service:
    now = clock.now()
    await store.maintenance.beat(
        Worker(id="w", host="here", pid=1, version="0", started_at=now, seen_at=now, targets=("desk",)),
    )
    return Service(store, clock=clock, settings=Settings(), declared={"desk": Users()})


async def due(service: Service, clock: ManualClock) -> Alarm:
    draft = Draft(owner_did=OWNER, wake_message="up", target="desk", delay=timedelta(seconds=1))
    alarm = (await keep(service, draft)).alarm
    await clock.advance(1)
    return alarm


async def test_why_tells_of_a_lease_from_the_future(service: Service, store: Store, clock: ManualClock) -> None:
    alarm = await due(service, clock)
    await clock.advance(3600)
    await store.claim({"desk": 1}, lease=LEASE)
    clock.set_back(3600)
    assert (
        "by a clock that has been set back since" in (await acting(service, OWNER, limited=True).why(alarm.id)).summary
    )
    await store.claim({"desk": 1}, lease=LEASE)
    assert "is delivering it now" in (await acting(service, OWNER, limited=True).why(alarm.id)).summary


async def test_why_tells_of_a_worker_that_fell_silent(service: Service, store: Store, clock: ManualClock) -> None:
    alarm = await due(service, clock)
    await store.claim({"desk": 1}, lease=LEASE)
    await clock.advance(LEASE)
    worker = Worker(id="v", host="here", pid=2, version="0", started_at=clock.now(), seen_at=clock.now())
    for how in ("in a group", "one at a time, since a group of it took a worker with it"):
        await store.maintenance.beat(replace(worker, seen_at=clock.now(), targets=("desk",)))
        said = (await acting(service, OWNER, limited=True).why(alarm.id)).summary
        assert f"fell silent; what was in its hands is tried again {how}" in said
        await store.claim({"desk": 1}, lease=LEASE)
        await clock.advance(LEASE)


@pytest.mark.parametrize("jump", [25, -3600, 3600])
async def test_a_clock_of_ours_that_is_set_does_not_move_new_alarms(
    store: Store, clock: ManualClock, jump: float
) -> None:
    """The store's clock decides: ours is only what is added to it between two looks."""
    ours = ManualClock(clock.now() + timedelta(minutes=7))
    service = Service(store, clock=ours, settings=Settings())
    assert await service.now() == clock.now()
    ours.set_back(-jump)
    assert await service.now() == clock.now()

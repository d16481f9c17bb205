"""Budgets and several workers: a wake is counted before it is sent, once, whoever sends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.acting import acting
from wakeful.errors import StoreUnavailable
from wakeful.model.limits import OwnerLimits
from wakeful.model.outcome import Failed
from wakeful.model.requests import ReportRequest
from wakeful.rules.budget import Allowance, Charge, Refusal
from wakeful.settings.tables import BudgetSettings
from wakeful.store import AlarmQuery, EventQuery
from wakeful.testing.conformance.making import an_alarm

from .conftest import OWNER, World
from .test_isolation import Hangs, running
from .test_suspects import OfOneWorker

TEN = BudgetSettings(owners={OWNER: OwnerLimits(owner_wakes_per_hour=10)})
USED = Charge((Allowance("owner", OWNER, "hour", 10),), None)  # type: ignore[arg-type]


async def used(world: World) -> int:
    counts = await world.store.access.spent(replace(USED, at=world.clock.now()))
    return sum(count.wakes for count in counts)


async def test_two_workers_send_no_more_than_the_limit_between_them(world: World) -> None:
    for _ in range(40):
        await world.set(1)
    await world.clock.advance(1)
    workers = [world.another(budget=TEN, batch=7) for _ in range(2)]
    await asyncio.gather(*(worker.run_due() for worker in workers))
    assert len(world.desk.wakes) == await used(world) == 10
    waiting = await world.store.find(AlarmQuery(owner=OWNER, statuses=("active",)))
    assert {alarm.next_fire_at for alarm in waiting} == {world.clock.now().replace(second=0) + timedelta(hours=1)}
    assert len(waiting) == 30
    events = [event.what for _, event in await world.store.events(EventQuery(limit=200))]
    assert (events.count("budget_reached"), events.count("deferred")) == (1, 30)


async def test_another_owner_is_not_held_up(world: World) -> None:
    world.settings = replace(world.settings, budget=TEN)
    for _ in range(12):
        await world.set(1)
    await world.clock.advance(1)
    bob = await acting(world.service, "bob").set(delay=1, wake_message="mine", target="desk")
    await world.run_due(1)
    assert (await world.read(bob)).status == "fired"
    assert len(world.desk.wakes) == 11


async def test_a_wake_that_does_not_arrive_is_counted_once_however_often_it_is_tried(world: World) -> None:
    world.settings = replace(world.settings, budget=TEN)
    world.desk.answer(Failed("no"), Failed("no"))
    await world.set(1)
    for _ in range(3):
        await world.run_due(100)
    assert len(world.desk.wakes) == 3
    assert await used(world) == 1


class _Away:
    """The counts of a store that cannot be written, so many times."""

    def __init__(self, access: Any, times: int) -> None:
        self._access = access
        self._left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access, name)

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        if self._left:
            self._left -= 1
            raise StoreUnavailable("away")
        found: list[Refusal | None] = await self._access.spend(charges)
        return found


async def test_what_cannot_be_counted_is_not_sent_and_comes_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settings = replace(world.settings, budget=TEN)
    monkeypatch.setattr(world.store, "access", _Away(world.store.access, 1))
    alarm = await world.set(1)
    await world.run_due(1)
    assert world.desk.wakes == []
    assert (await world.read(alarm)).unsettled == 0
    await world.run_due(1)
    assert len(world.desk.wakes) == 1


async def test_what_is_put_back_for_another_reason_is_not_paid_for(world: World) -> None:
    """An owner whose target answers with errors keeps its budget for when it does not."""
    world.settings = replace(world.settings, budget=TEN)
    world.desk.answer(*[Failed("HTTP 503", unhealthy=True, answered=True)] * 50)
    for _ in range(9):
        await world.set(1)
        await world.run_due(1)
    assert len({wake.fire_id for wake in world.desk.wakes}) == await used(world) < 9


async def test_nothing_is_counted_and_nothing_asked_without_a_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.store, "access", _Away(world.store.access, 1000))
    for _ in range(3):
        await world.set(1)
    series = await world.set(cron="* * * * *")
    await world.run_due(1)
    await world.run_due(60)
    assert len(world.desk.wakes) == 4
    assert (await world.read(series)).fire_count == 1


async def test_the_operator_and_the_owner_hear_of_it_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.settings = replace(world.settings, budget=BudgetSettings(owner_wakes_per_day=1))
    with caplog.at_level(logging.WARNING, "wakeful.dispatcher"):
        for _ in range(4):
            await world.set(1)
            await world.run_due(1)
    said = [record.getMessage() for record in caplog.records if "budget" in record.getMessage()]
    assert said == ["the budget of its owner is used up: 1 wake in one day: deferred until 2030-01-02T00:00:00+00:00"]


async def test_a_report_with_its_cost_counts_once_also_where_it_is_repeated(world: World) -> None:
    alarm = await world.set(1, policy={"report_within": 600.0})
    await world.run_due(1)
    ada = acting(world.service, OWNER)
    for _ in range(2):
        await ada.report(alarm.fire_id, ReportRequest(outcome="completed", cost=0.5))
    [count] = await world.store.access.spent(Charge((Allowance("owner", OWNER, "day", 1),), world.clock.now()))
    assert (count.cost, count.wakes) == (500_000, 0)


async def test_counts_of_days_that_are_over_are_deleted(world: World) -> None:
    now = world.clock.now()
    kept, old = (Charge((Allowance("owner", OWNER, "day", 5),), now - timedelta(days=days)) for days in (1, 3))
    await world.store.access.spend([kept, old])
    running = asyncio.create_task(world.dispatcher.run())
    await world.clock.advance(2)
    world.dispatcher.stop()
    await world.clock.advance(2)
    await running
    assert [len(await world.store.access.spent(charge)) for charge in (kept, old)] == [1, 0]


@pytest.mark.parametrize("days", [0, 1])
async def test_a_wake_whose_worker_died_is_not_charged_again(world: World, days: int) -> None:
    """It may have arrived: to defer it until its budget is free again would send it twice, hours apart."""
    world.settings = replace(world.settings, budget=BudgetSettings(owner_wakes_per_day=2))
    store, hangs = world.store, Hangs()
    world.serve("hangs", hangs)
    alarms = [an_alarm(world.clock, due=-1, target="hangs", owner_did=OWNER) for _ in range(3)]
    await store.add(alarms[:2])
    world.store = worker = OfOneWorker(store)
    dispatcher = world.another(stop_within=timedelta(milliseconds=50))
    world.store = store
    async with asyncio.timeout(60), running(dispatcher):
        while hangs.holds < 2:
            await world.clock.advance(0)
            await store.now()
        worker.dead.set()
    midnight = world.clock.now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    await world.clock.advance(midnight - world.clock.now() if days else world.settings.lease)
    if days:  # and those of the new day are used up as well
        await store.access.spend([Charge((Allowance("owner", OWNER, "day", 2),), world.clock.now())] * 2)
    await store.add(alarms[2:])
    hangs.released.set()
    await world.another().run_due()
    [count] = await store.access.spent(Charge((Allowance("owner", OWNER, "day", 2),), world.clock.now()))
    assert count.wakes == 2
    assert [(await world.read(alarm)).status for alarm in alarms] == ["fired", "fired", "active"]

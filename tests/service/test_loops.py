"""Loops: nobody's receiver or agent can have the same wake again and again, and a cancel ends any of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.acting import acting, keep
from tests.dispatcher.conftest import World, clock, outbox, place, store, world
from wakeful.errors import Conflict, InvalidRequest, TooMany
from wakeful.model.alarm import Alarm, Change, Policy
from wakeful.model.outcome import Delivered, Failed, Snoozed
from wakeful.model.requests import EditRequest, PolicyRequest, ReportRequest
from wakeful.service import Service
from wakeful.store import FireQuery, Settled, Store

__all__ = ["clock", "outbox", "place", "store", "world"]

SOON = timedelta(milliseconds=1)


async def test_a_receiver_that_snoozes_for_a_millisecond_waits_a_second(world: World) -> None:
    world.desk.answer(*[Snoozed(SOON)] * 50)
    alarm = await world.set(1)
    await world.run_due(1)
    assert len(world.desk.wakes) == 1
    assert (await world.read(alarm)).next_fire_at == world.clock.now() + timedelta(seconds=1)
    await world.run_due(0.999)
    assert len(world.desk.wakes) == 1
    await world.run_due(0.001)
    assert len(world.desk.wakes) == 2


async def test_a_report_that_snoozes_for_a_millisecond_waits_a_second(world: World) -> None:
    world.desk.answer(Delivered(awaits_report=True))
    alarm = await world.set(1, policy={"report_within": 600.0})
    await world.run_due(1)
    await acting(world.service, "ada").report(alarm.fire_id, ReportRequest(outcome="snooze", wait=SOON.total_seconds()))
    assert (await world.read(alarm)).next_fire_at == world.clock.now() + timedelta(seconds=1)


@pytest.mark.parametrize("policy", [{"backoff_base": 0.0}, {"backoff_cap": 0.0}, {"backoff_base": 0.999}], ids=str)
async def test_an_owner_who_is_limited_cannot_have_retries_without_a_pause(
    world: World, policy: dict[str, Any]
) -> None:
    from tests.service.test_guards import a_draft

    [name] = policy
    await keep(
        world.service, a_draft(policy=msgspec.convert(policy, Policy), target="desk")
    )  # who owns the machine may
    with pytest.raises(InvalidRequest, match="at least 1 s") as refused:
        await keep(world.service, a_draft(policy=msgspec.convert(policy, Policy), target="desk"), limited=True)
    assert refused.value.field == f"policy.{name}"
    alarm = (await keep(world.service, a_draft(target="desk"), limited=True)).alarm
    edit = EditRequest(policy=msgspec.convert(policy, PolicyRequest))
    with pytest.raises(InvalidRequest, match="at least 1 s"):
        await acting(world.service, "ada", limited=True).edit(alarm.id, edit)


async def test_retries_count_as_creates_do(world: World) -> None:
    settings = replace(world.settings, creates_per_minute=3)
    service = Service(world.store, clock=world.clock, settings=settings, targets=world.served)
    world.desk.answer(*[Failed("no", retryable=False)] * 10)
    alarm = await world.set(1)
    for _ in range(3):
        await world.run_due(1)
        await acting(service, "ada", limited=True).retry(alarm.fire_id)
    await world.run_due(1)
    with pytest.raises(TooMany) as refused:
        await acting(service, "ada", limited=True).retry(alarm.fire_id)
    assert refused.value.field == "creates_per_minute"
    await acting(service, "ada").retry(alarm.fire_id)


class Contested:
    """A store in which a dispatcher is always faster, so many times."""

    def __init__(self, store: Store, times: int) -> None:
        self._store = store
        self._left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        if self._left:
            self._left -= 1
            alarm = await self._store.get(changes[0].after.id)
            assert alarm is not None
            moved = replace(alarm, claim=alarm.claim + 1)
            await self._store.settle([Change(claim=alarm.claim, version=alarm.version, after=moved)])
        return await self._store.settle(changes)


async def test_a_cancel_wins_against_a_loop(world: World) -> None:
    alarm = await world.set(60)
    store: Any = Contested(world.store, 200)
    service = Service(store, clock=world.clock, settings=world.settings, targets=world.served)
    assert (await acting(service, "ada").cancel(alarm.id)).alarm.status == "cancelled"
    assert (await world.read(alarm)).status == "cancelled"


async def spin(world: World, alarm: Alarm, seconds: int) -> list[int]:
    """Deliver what is due every quarter of a second; how many wakes each second brought."""
    brought = []
    for _ in range(seconds):
        before = len(world.desk.wakes)
        for _ in range(4):
            await world.run_due(0.25)
        brought.append(len(world.desk.wakes) - before)
    return brought


async def test_a_loop_of_retries_is_held_back_and_goes_on_when_its_minute_is_over(world: World) -> None:
    """Whoever owns the machine may ask for retries without a pause; even so the receiver has its peace."""
    world.settings = replace(world.settings, fires_per_minute=20)
    world.desk.answer(*[Failed("no")] * 1000)
    alarm = await world.set(1, max_failures=900, policy={"backoff_base": 0.001, "backoff_cap": 0.001})
    brought = await spin(world, alarm, 130)
    for at in range(70):
        assert sum(brought[at : at + 60]) <= 21  # its first delivery is not counted yet
    assert sum(brought) >= 60
    after = await world.read(alarm)
    assert (after.status, after.occurrence_at) == ("active", alarm.occurrence_at)
    why = (await acting(world.service, "ada", limited=True).why(alarm.id)).summary
    assert "delivered 20 times within a minute, and fires_per_minute allows no more" in why
    assert (await acting(world.service, "ada").cancel(alarm.id)).alarm.status == "cancelled"


@pytest.mark.parametrize("by", ["answer", "report"])
async def test_a_loop_of_snoozes_is_held_back_too(world: World, by: str) -> None:
    world.settings = replace(world.settings, fires_per_minute=5)
    world.desk.answer(*[Snoozed(SOON) if by == "answer" else Delivered(awaits_report=True)] * 100)
    await world.set(1, policy={"report_within": 600.0})
    for _ in range(55):
        if await world.run_due(1) and by == "report":
            with suppress(Conflict):  # it was held back: there is nothing to report on yet
                await acting(world.service, "ada").report(
                    world.desk.wakes[-1].fire_id, ReportRequest(outcome="snooze", wait=SOON.total_seconds())
                )
    assert len(world.desk.wakes) == 6  # its first delivery is not counted yet
    await world.run_due(10)
    assert len(world.desk.wakes) == 7


async def test_a_series_that_fires_every_second_is_not_held_back(world: World) -> None:
    alarm = await world.set(cron="@every 1s")
    for _ in range(150):
        await world.run_due(1)
    assert len(world.desk.wakes) == 150
    assert "held back" not in " ".join((await acting(world.service, "ada", limited=True).why(alarm.id)).facts)


async def test_what_a_series_passes_over_while_it_is_held_back_is_on_record(world: World) -> None:
    world.settings = replace(world.settings, fires_per_minute=10)
    alarm = await world.set(cron="@every 1s")
    for _ in range(120):
        await world.run_due(1)
    assert 11 <= len(world.desk.wakes) <= 22
    instants: set[Any] = set()
    for fire in await world.store.fires(FireQuery(alarm_id=alarm.id, limit=500)):
        first = fire.scheduled_for
        instants |= {first + timedelta(seconds=at) for at in range(fire.count)}
    after = await world.read(alarm)
    due = {alarm.occurrence_at + timedelta(seconds=at) for at in range(120)}
    assert due - instants <= {after.occurrence_at}

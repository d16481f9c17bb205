"""An optional feature beside the dispatcher: it plans before the first claim and each tick, and stops its alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from wakeful.dispatcher import Dispatcher
from wakeful.model.alarm import Alarm
from wakeful.runtime.metrics import Metrics
from wakeful.settings import Settings
from wakeful.store import Store, Worker

from .conftest import World


class Planner:
    """A feature whose alarms are overtaken, so many times."""

    def __init__(self, times: int, wait: timedelta) -> None:
        self.calls: list[str] = []
        self._left, self._wait = times, wait

    def made(self, store: Store, settings: Settings, metrics: Metrics) -> Planner:
        return self

    async def catch_up(self, now: datetime, *, whole: bool) -> None:
        self.calls.append(f"catch up, {whole=}")

    async def upkeep(self, now: datetime) -> None:
        self.calls.append("upkeep")

    async def overtaken(self, alarms: Sequence[Alarm], now: datetime) -> Mapping[str, timedelta]:
        self._left -= 1
        return {alarm.id: self._wait for alarm in alarms} if self._left >= 0 else {}


def dispatching(world: World, planner: Planner) -> Dispatcher:
    now = world.clock.now()
    worker = Worker(id="w", host="here", pid=1, version="0", started_at=now, seen_at=now)
    return Dispatcher(
        world.store,
        world.served,
        worker=worker,
        settings=world.settings,
        clock=world.clock,
        features=[planner.made],
    )


async def test_a_feature_plans_before_the_claim_and_what_it_stops_is_put_off(world: World) -> None:
    planner = Planner(1, timedelta(seconds=7))
    dispatcher = dispatching(world, planner)
    alarm = await world.set(1)
    await world.clock.advance(1)
    assert await dispatcher.run_due() == 1
    assert world.desk.wakes == []
    put_off = await world.read(alarm)
    assert (put_off.next_fire_at - alarm.next_fire_at, put_off.unsettled) == (timedelta(seconds=7), 0)
    assert planner.calls == ["catch up, whole=True"]
    await world.clock.advance(7)
    await dispatcher.run_due()
    assert [wake.alarm_id for wake in world.desk.wakes] == [alarm.id]

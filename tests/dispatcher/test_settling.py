"""One fire that the database does not take is found among its neighbours and set aside; they are settled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from tests.acting import acting
from tests.dispatcher.test_isolation import running
from tests.dispatcher.test_stopping import GoesAway
from wakeful.clock import SystemClock, stopwatch
from wakeful.dispatcher import Dispatcher
from wakeful.dispatcher.settler import ENOUGH, FIRST_WAIT
from wakeful.errors import StoreUnavailable
from wakeful.http.health import judged
from wakeful.http.security.guard import Refusal
from wakeful.model.alarm import Alarm, Change
from wakeful.store import Settled
from wakeful.testing.conformance.making import an_alarm

from .conftest import World


async def refuse(outbox: Any, alarm: Alarm, *statuses: str, but: str = "-") -> None:
    """The database fails every statement that writes such a fire, in a way that says nothing of its content.

    `but`: unless it is for this reason.
    """
    wanted = ", ".join(f"'{status}'" for status in statuses)
    if "." not in outbox.table:  # SQLite: the whole transaction is taken back, with everybody in it
        outbox._run(f"""create trigger broken before insert on fires
            when new.alarm_id = '{alarm.id}' and new.status in ({wanted}) and new.reason <> '{but}'
            begin select raise(rollback, 'broken'); end""")
        return
    schema = outbox.table.split(".")[0]
    await outbox._run(f"""create function {schema}.broken() returns trigger language plpgsql as $$ begin
        if new.alarm_id = '{alarm.id}' and new.status in ({wanted}) and new.reason <> '{but}' then
            raise exception 'broken' using errcode = '0A000';
        end if; return new; end $$""")
    await outbox._run(f"""create trigger broken before insert or update on {schema}.fires
        for each row execute function {schema}.broken()""")


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1500):
        if await is_so():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came to be")


async def until_settled(world: World, *alarms: Alarm) -> None:
    async def all_are() -> bool:
        return all([(await world.read(alarm)).status != "active" for alarm in alarms])

    await until(all_are)


async def has_fires(world: World, alarm: Alarm) -> bool:
    return bool(await world.fires(alarm))


async def is_at_rest(dispatcher: Dispatcher) -> bool:
    return dispatcher.health.stalled == 0 and dispatcher.health.in_flight == 0


async def was_told(world: World, count: int) -> bool:
    return len(world.desk.wakes) >= count


async def test_the_one_that_cannot_be_written_is_set_aside_and_its_neighbours_settle(world: World, outbox: Any) -> None:
    added = await world.store.add([an_alarm(world.clock, due=-1, target="desk") for _ in range(40)])
    alarms = [one.alarm for one in added]
    bad = alarms[17]
    await refuse(outbox, bad, "delivered", "completed")
    async with running(world.another(clock=SystemClock())):
        await until_settled(world, *alarms)
    for alarm in alarms:
        [fire] = await world.fires(alarm)
        assert (await world.read(alarm)).status == ("failed" if alarm is bad else "fired")
        assert fire.status == ("failed" if alarm is bad else "delivered")
    [fire] = await world.fires(bad)
    assert fire.last_error.startswith("the outcome could not be written: ")
    assert "broken" not in fire.last_error
    assert len(world.desk.wakes) == 40


async def test_a_series_goes_on_after_a_fire_that_was_set_aside(world: World, outbox: Any) -> None:
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="desk", kind="cron", cron_expr="@hourly")])
    await refuse(outbox, added.alarm, "delivered", "completed")
    async with running(world.another(clock=SystemClock())):
        await until(lambda: has_fires(world, added.alarm))
    assert (await world.read(added.alarm)).status == "active"
    assert "failed" in [fire.status for fire in await world.fires(added.alarm)]


async def test_an_alarm_that_is_set_aside_since_it_cannot_be_written_says_so(world: World, outbox: Any) -> None:
    """Not that it could not be planned: whoever reads it would look for a mistake in the schedule."""
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="desk", kind="cron", cron_expr="@hourly")])
    await refuse(outbox, added.alarm, "delivered", "completed", "failed", but="broken")
    async with running(world.another(clock=SystemClock())):
        await until_settled(world, added.alarm)
    after = await world.read(added.alarm)
    assert after.status == "failed"
    assert after.last_error.startswith("set aside: the outcome could not be written: ")
    assert "planned" not in (await acting(world.service, after.owner_did, limited=True).why(after.id)).summary


async def test_an_alarm_of_which_nothing_can_be_written_keeps_nobody_waiting(world: World, outbox: Any) -> None:
    [bad] = await world.store.add([an_alarm(world.clock, due=-1, target="desk")])
    await refuse(outbox, bad.alarm, "delivered", "completed", "failed", "retrying")
    async with running(world.another(clock=SystemClock())):
        await until(lambda: was_told(world, 1))
        for _ in range(3):
            [fine] = await world.store.add([an_alarm(world.clock, due=-1, target="desk")])
            await until_settled(world, fine.alarm)
            assert (await world.read(fine.alarm)).status == "fired"
    assert len(world.desk.wakes) == 4
    assert (await world.read(bad.alarm)).status == "active"


class ShortOfSomething(GoesAway):
    """A store whose machine now and then has what a change of nothing takes, and not what a fire takes."""

    short = 3 * ENOUGH

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        if self.short and any(change.fires for change in changes):
            self.short -= 1
            raise StoreUnavailable("no descriptor is left", by_machine=True)
        return await super().settle(changes)


async def test_where_the_machine_is_short_of_something_no_fire_is_set_aside(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.dispatcher.settler.LONGEST_WAIT", 0.05)
    world.store = store = ShortOfSomething(world.store)
    added = await store.add([an_alarm(world.clock, due=-1, target="desk") for _ in range(2)])
    async with running(world.another(clock=SystemClock())):
        await until_settled(world, *[one.alarm for one in added])
    assert not store.short
    for one in added:
        assert (await world.read(one.alarm)).status == "fired"
        assert [fire.status for fire in await world.fires(one.alarm)] == ["delivered"]


class ChangedMeanwhile(GoesAway):
    """A store that answers settlements of fires as if their alarm had changed each time, so many times."""

    left = 6

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.at: list[float] = []

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        if not any(change.fires for change in changes):
            return await super().settle(changes)
        self.at.append(stopwatch())
        if len(self.at) <= self.left:
            return [Settled("edited") for _ in changes]
        return await super().settle(changes)


async def test_a_change_that_is_refused_again_and_again_waits_longer_each_time(world: World) -> None:
    world.store = store = ChangedMeanwhile(world.store)
    [added] = await store.add([an_alarm(world.clock, due=-1, target="desk")])
    async with running(world.another(clock=SystemClock())):
        await until_settled(world, added.alarm)
    assert [fire.status for fire in await world.fires(added.alarm)] == ["delivered"]
    gaps = [after - before for before, after in pairwise(store.at)]
    assert len(gaps) == store.left
    # The first time at once, then after 0.05 s, twice that, and so on. A timer may end a clock tick early.
    assert all(gap > 0.9 * FIRST_WAIT * 2**times for times, gap in enumerate(gaps[1:])), gaps


async def test_where_settlements_fail_for_everybody_nobody_is_blamed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that hears everything but settlements: they wait, the process says that it is not well, none is lost."""
    monkeypatch.setattr("wakeful.dispatcher.settler.LONGEST_WAIT", 0.05)
    store = GoesAway(world.store)
    world.store = store
    store.deaf = True
    added = await store.add([an_alarm(world.clock, due=-1, target="desk") for _ in range(3)])
    dispatcher = world.another(clock=SystemClock())
    async with running(dispatcher):
        await until(lambda: was_told(world, 3))
        stalled = dispatcher.health.stalled
        for _ in range(20):
            store.refused.clear()
            await asyncio.wait_for(store.refused.wait(), 60)
        assert dispatcher.health.stalled > stalled
        monkeypatch.setattr("wakeful.http.health.LONGEST_STALL", stalled)
        with pytest.raises(Refusal, match="nothing has been settled"):
            judged(dispatcher.health)
        store.deaf = False
        await until_settled(world, *[one.alarm for one in added])
        await until(lambda: is_at_rest(dispatcher))
    for one in added:
        assert [fire.status for fire in await world.fires(one.alarm)] == ["delivered"]

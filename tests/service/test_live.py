"""What happens is told to whoever listens: once, in order, to its owner, and never without bound."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.acting import Draft, acting, keep, keep_many
from wakeful.clock import turn
from wakeful.dispatcher import Dispatcher, ServedTarget
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Alarm
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.model.requests import EditRequest, ReportRequest
from wakeful.rules.report import sweep
from wakeful.rules.wake import Wake
from wakeful.service import Service
from wakeful.service.live import (
    CHUNK,
    HANDED_AT_ONCE,
    OVERLAP,
    QUEUE,
    RING,
    TOO_SLOW,
    Live,
    LiveEvent,
    LoopShare,
    Subscription,
)
from wakeful.settings import Settings
from wakeful.store import Followed, Store, Worker
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock

TICK = timedelta(seconds=1)


class Desk:
    """A target that answers as it is told, or takes the wake and awaits a report."""

    def __init__(self) -> None:
        self.answers: list[Outcome] = []

    async def deliver(self, wake: Wake) -> Outcome:
        return self.answers.pop(0) if self.answers else Delivered(awaits_report=True)

    async def close(self) -> None: ...


class Watched:
    """The clock as the poller has it: it shows when a look is over."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.asleep = asyncio.Event()

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        self.asleep.set()
        await self._clock.sleep(seconds)
        self.asleep.clear()

    async def look(self) -> None:
        """Let the poller look once, from the beginning of a look to its end."""
        async with asyncio.timeout(30):
            await self.asleep.wait()
            await self._clock.advance(TICK)
            await self.asleep.wait()


class World:
    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.desk = Desk()
        served = {"desk": ServedTarget(self.desk, 8)}
        settings = Settings()
        self.service = Service(store, clock=clock, settings=settings, targets=served)
        now = clock.now()
        worker = Worker(id="w", host="here", pid=1, version="0", started_at=now, seen_at=now)
        self.dispatcher = Dispatcher(store, served, worker=worker, settings=settings, clock=clock)
        self.poller = Watched(clock)
        self.live = Live(store, self.poller, TICK, patience=0.05)

    async def set(self, delay: float = 3600, *, owner: str = "ada", **given: Any) -> Alarm:
        draft = Draft(owner_did=owner, wake_message="wake up", target="desk", delay=timedelta(seconds=delay), **given)
        return (await keep(self.service, draft)).alarm

    async def fire(self, after: float = 1) -> None:
        await self.clock.advance(after)
        await self.dispatcher.run_due()


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    return World(store, clock)


async def told(world: World, subscription: Subscription, count: int) -> list[LiveEvent]:
    """So many events, with one look of the poller to find them in."""
    async with asyncio.timeout(30):
        looking = asyncio.create_task(world.poller.look())
        found = [await subscription.next() for _ in range(count)]
        await looking
    return found


async def whats(world: World, subscription: Subscription, count: int) -> list[str]:
    return [event.what for event in await told(world, subscription, count)]


async def nothing_told(world: World, subscription: Subscription) -> None:
    await world.poller.look()
    assert subscription.waiting == 0


async def test_the_life_of_an_alarm_is_told_in_order(world: World) -> None:
    async with world.live.subscribed("ada") as events:
        alarm = await world.set(1)
        [created] = await told(world, events, 1)
        assert (created.what, created.alarm_id, created.owner, created.target) == ("created", alarm.id, "ada", "desk")
        assert (created.status, created.at, created.fire_id) == ("active", alarm.created_at, "")
        await world.fire()
        fired, delivered = await told(world, events, 2)
        assert [fired.what, delivered.what] == ["fired", "delivered"]
        assert fired.fire_id == delivered.fire_id == alarm.fire_id
        assert delivered.status == "delivered"
        await acting(world.service, "ada").report(alarm.fire_id, ReportRequest(outcome="completed", result="done"))
        assert await whats(world, events, 1) == ["completed"]
        assert [created.seq, fired.seq, delivered.seq] == [created.seq, created.seq + 1, created.seq + 2]
        await nothing_told(world, events)


async def test_every_failed_attempt_is_told_and_the_end(world: World) -> None:
    world.desk.answers = [Failed("busy"), Failed("gone", retryable=False)]
    async with world.live.subscribed("ada") as events:
        await world.set(1)
        await world.fire()
        assert await whats(world, events, 3) == ["created", "fired", "retrying"]
        await world.fire(3600)
        [failed] = await told(world, events, 1)
        assert (failed.what, failed.status) == ("failed", "failed")
        assert failed.reason


async def test_a_fire_that_falls_silent_is_told(world: World) -> None:
    async with world.live.subscribed("ada", ["timed_out"]) as events:
        await world.set(1, max_failures=0)
        await world.fire()
        await world.clock.advance(600)
        now = await world.store.now()
        await world.store.settle([sweep(alarm, fire, now=now) for alarm, fire in await world.store.overdue(limit=10)])
        assert await whats(world, events, 1) == ["timed_out"]


async def test_what_is_done_to_an_alarm_is_told_once(world: World) -> None:
    async with world.live.subscribed("ada") as events:
        alarm = await world.set()
        assert await whats(world, events, 1) == ["created"]
        await acting(world.service, "ada").pause(alarm.id, reason="lunch")
        await acting(world.service, "ada").resume(alarm.id)
        paused, resumed = await told(world, events, 2)
        assert (paused.what, paused.status, paused.reason, paused.alarm_id) == ("paused", "paused", "lunch", alarm.id)
        assert (resumed.what, resumed.status) == ("resumed", "active")
        await acting(world.service, "ada").edit(alarm.id, EditRequest(label="tea"))
        assert await whats(world, events, 1) == ["updated"]
        await acting(world.service, "ada").snooze(alarm.id, timedelta(hours=2))
        assert await whats(world, events, 1) == ["snoozed"]
        await acting(world.service, "ada").cancel(alarm.id)
        found = await told(world, events, 1)
        assert found[0].what == "cancelled"
        await nothing_told(world, events)


async def test_replacing_and_skipping_are_told(world: World) -> None:
    async with world.live.subscribed("ada") as events:
        await world.set(idempotency_key="tea")
        draft = Draft(owner_did="ada", wake_message="x", target="desk", cron_expr="* * * * *", idempotency_key="tea")
        replaced = (await keep(world.service, draft, on_conflict="replace")).alarm
        assert sorted(await whats(world, events, 2)) == ["created", "replaced"]
        await acting(world.service, "ada").pause(replaced.id)
        await world.clock.advance(600)
        await acting(world.service, "ada").resume(replaced.id)
        assert sorted(await whats(world, events, 3)) == ["paused", "resumed", "skipped"]


async def test_others_hear_nothing_of_it_and_the_operator_hears_all(world: World) -> None:
    async with (
        world.live.subscribed("eve") as hers,
        world.live.subscribed("ada", ["cancelled"]) as some,
        world.live.subscribed("") as all_of_it,
    ):
        alarm, other = await world.set(), await world.set()
        await acting(world.service, "ada").cancel(alarm.id)
        mine = await world.set(owner="eve")
        found = await told(world, all_of_it, 4)
        assert [event.alarm_id for event in await told(world, hers, 1)] == [mine.id]
        assert [event.alarm_id for event in await told(world, some, 1)] == [alarm.id]
        assert {event.owner for event in found} == {"ada", "eve"}
        async with world.live.subscribed("ada", alarm_id=other.id) as one:
            await acting(world.service, "eve").cancel(mine.id)
            await acting(world.service, "ada").cancel(other.id)
            assert [event.alarm_id for event in await told(world, one, 1)] == [other.id]


async def test_what_was_there_before_is_not_told(world: World) -> None:
    old = await world.set(1)
    await world.fire()
    await world.clock.advance(OVERLAP / 2)
    async with world.live.subscribed("ada") as events:
        await nothing_told(world, events)
        # A later word on a fire that went out before: it completes, but it did not just fire.
        await acting(world.service, "ada").report(old.fire_id, ReportRequest(outcome="completed"))
        assert await whats(world, events, 1) == ["completed"]


async def test_the_poller_runs_only_while_somebody_listens(world: World) -> None:
    assert world.clock.sleepers == 0
    async with world.live.subscribed("ada"):
        await world.clock.advance(0)
        assert world.clock.sleepers == 1
        async with world.live.subscribed("eve"):
            await world.clock.advance(0)
            assert world.clock.sleepers == 1
        assert world.live.subscribers == 1
    await world.clock.advance(0)
    assert world.clock.sleepers == 0


async def test_who_comes_back_soon_misses_nothing(world: World) -> None:
    async with world.live.subscribed("ada") as events:
        await world.set()
        [seen] = await told(world, events, 1)
    missed, foreign = await world.set(), await world.set(owner="eve")
    assert foreign.id != missed.id
    await world.clock.advance(10)
    async with world.live.subscribed("ada", after=_name(world, seen)) as events:
        assert events.resumed
        assert (await events.next()).alarm_id == missed.id
        assert events.waiting == 0
        later = await world.set()
        assert [event.alarm_id for event in await told(world, events, 1)] == [later.id]


async def test_no_number_tells_how_much_another_owner_does(world: World) -> None:
    async with world.live.subscribed("ada") as events:
        seen = []
        for _ in range(4):
            await world.set()
            for _ in range(7):
                await world.set(owner="eve")
            seen += await told(world, events, 1)
        names = [int(_name(world, event).partition("-")[2]) for event in seen]
    assert [event.seq for event in seen] == [1, 2, 3, 4]
    assert all(abs(one - other) > 100 for one, other in pairwise(names))  # scattered: no distance says anything


def _name(world: World, event: LiveEvent) -> str:
    [name] = [telling.id for telling in world.live._ring if telling.event == event]
    return name


@pytest.mark.parametrize("id", ["", "7", "elsewhere-7", "{run}-", "{run}-x", "{run}-²", "{run}-99", "{run}-0"])
async def test_an_event_that_is_not_remembered_resumes_nothing(world: World, id: str) -> None:
    async with world.live.subscribed("ada", after=id.format(run=world.live._names.run)) as events:
        assert not events.resumed


async def test_after_a_long_time_alone_nobody_resumes(world: World) -> None:
    async with world.live.subscribed("ada") as events:
        await world.set()
        [seen] = await told(world, events, 1)
    await world.clock.advance(3600)
    async with world.live.subscribed("ada", after=_name(world, seen)) as events:
        assert not events.resumed
        assert events.waiting == 0


async def test_a_subscriber_who_does_not_read_is_dropped_and_the_others_go_on(world: World) -> None:
    many = [Draft(owner_did="ada", wake_message="x", target="desk", delay=timedelta(hours=1))] * RING
    async with world.live.subscribed("ada") as slow, world.live.subscribed("ada") as fast:
        await keep_many(world.service, many)
        await world.clock.advance(0.001)
        await keep_many(world.service, many)
        seen = await told(world, fast, 2 * len(many))
        assert len(set(_ids(seen))) == 2 * len(many)
        assert slow.dropped.is_set()
        assert slow.reason == TOO_SLOW
        assert slow.waiting == 0
        assert world.live.subscribers == 1
        assert len(world.live._ring) == RING


async def test_nobody_ever_has_more_waiting_than_the_bound(world: World) -> None:
    many = [Draft(owner_did="ada", wake_message="x", target="desk", delay=timedelta(hours=1))] * (QUEUE - CHUNK)
    async with world.live.subscribed("ada") as idle:
        most = 0
        for _ in range(3):
            await keep_many(world.service, many)
            await world.poller.look()
            most = max(most, idle.waiting)
        assert 0 < most <= QUEUE
        assert idle.dropped.is_set()


async def test_who_asks_for_more_and_is_only_not_served_is_not_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [Draft(owner_did="ada", wake_message="x", target="desk", delay=timedelta(hours=1))] * (QUEUE + CHUNK)
    served = asyncio.Event()

    async def held_up(_: LoopShare) -> None:
        await served.wait()

    monkeypatch.setattr(LoopShare, "step", held_up)  # as where very many listen
    async with world.live.subscribed("ada") as events, world.live.subscribed("ada") as silent:
        asking = asyncio.create_task(events.take(lambda id, _: id.encode()))
        await keep_many(world.service, many)
        looking = asyncio.create_task(world.poller.look())
        async with asyncio.timeout(30):
            await silent.dropped.wait()
        assert not events.dropped.is_set()
        served.set()
        told = await asking
        async with asyncio.timeout(30):
            while len(told) < len(many):
                told += await events.take(lambda id, _: id.encode())
            await looking
        assert len(set(told)) == len(many)


async def test_who_joins_while_others_are_told_hears_it_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Draft(owner_did="ada", wake_message="x", target="desk", delay=timedelta(hours=1))] * (4 * CHUNK)
    async with AsyncExitStack() as stack:
        for _ in range(HANDED_AT_ONCE):  # after so many the others on the loop get their turn
            await stack.enter_async_context(world.live.subscribed("eve"))
        first = await stack.enter_async_context(world.live.subscribed("ada"))
        start = world.live.last_id
        await keep_many(world.service, many)
        looking = asyncio.create_task(world.poller.look())
        async with asyncio.timeout(30):
            while first.waiting == 0:
                await turn()
        async with world.live.subscribed("ada", after=start) as second:
            assert second.resumed
            found = [(await asyncio.wait_for(second.next(), 30)).seq for _ in many]
            await looking
            assert second.waiting == 0
        assert found == sorted(set(found))


class AwayAtTimes:
    """A store whose database goes away when told to."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.away = False
        self.failed = 0

    async def changes(self, **given: Any) -> Followed:
        if self.away:
            self.failed += 1
            raise StoreUnavailable("it went away")
        return await self._store.changes(**given)

    async def now(self) -> datetime:
        return await self._store.now()


async def test_while_the_store_is_away_it_pauses_and_then_goes_on(world: World) -> None:
    flaky: Any = AwayAtTimes(world.store)
    world.live = Live(flaky, world.poller, TICK)
    async with world.live.subscribed("ada") as events:
        flaky.away = True
        alarm = await world.set()
        for asked in (1, 2, 3):
            await world.poller.look()
            assert flaky.failed == asked
        flaky.away = False
        assert [event.alarm_id for event in await told(world, events, 1)] == [alarm.id]
    flaky.away = True
    with pytest.raises(StoreUnavailable):
        async with Live(flaky, world.clock, TICK).subscribed("ada"):
            pass


async def test_a_crowd_larger_than_a_page_is_told_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.service.live.PAGE", 10)
    async with world.live.subscribed("ada") as events:
        made: list[Alarm] = []
        for _ in range(35):
            made.append(await world.set())
            await world.clock.advance(0.001)
        found = await told(world, events, len(made))
        assert _ids(found) == [alarm.id for alarm in made]
        for alarm in made:
            await acting(world.service, "ada").cancel(alarm.id)
        assert _ids(await told(world, events, len(made))) == _ids(found)


def _ids(events: Any) -> list[str]:
    return [event.alarm_id for event in events]


async def test_what_another_process_dispatches_is_told(tmp_path: Path) -> None:
    clock = ManualClock()
    here = SqliteStore(str(tmp_path / "wakeful.db"), clock=clock)
    there = SqliteStore(str(tmp_path / "wakeful.db"), clock=clock)
    await here.migrate()
    ours, theirs = World(here, clock), World(there, clock)
    async with ours.live.subscribed("ada") as events:
        alarm = await theirs.set(1)
        await theirs.fire()
        found: Sequence[LiveEvent] = await told(ours, events, 3)
        assert [event.what for event in found] == ["created", "fired", "delivered"]
        assert {event.alarm_id for event in found} == {alarm.id}
    await here.close()
    await there.close()

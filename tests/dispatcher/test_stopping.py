"""Stopping, losing a lease, and a store that goes away: nothing is lost and nothing is wrongly counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.acting import acting
from wakeful.clock import SystemClock
from wakeful.dispatcher import Dispatcher
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Change, Policy
from wakeful.model.outcome import Delivered, Failed, ReportOutcome
from wakeful.model.requests import EditRequest, ReportRequest
from wakeful.store import Claim, Claimed, Settled
from wakeful.testing.conformance.making import an_alarm

from .conftest import OWNER, World
from .test_isolation import Hangs, Tells, running


async def test_a_stopping_dispatcher_finishes_what_is_in_flight(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs")])
    dispatcher = world.another()
    running = asyncio.create_task(dispatcher.run())
    await hangs.started.wait()
    dispatcher.stop()
    hangs.released.set()
    await asyncio.wait_for(running, 30)
    assert (await world.read(added.alarm)).status == "fired"


async def test_what_does_not_finish_in_time_is_handed_back_untried(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs")])
    dispatcher = world.another(stop_within=timedelta(milliseconds=300))
    running = asyncio.create_task(dispatcher.run())
    await hangs.started.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)
    after = await world.read(added.alarm)
    assert (after.status, after.claimed_at, after.unsettled, after.failure_count) == ("active", None, 0, 0)
    hangs.released.set()
    assert await world.another().run_due() == 1, "it is due again at once"
    assert (await world.read(added.alarm)).status == "fired"


async def test_a_long_delivery_keeps_its_lease(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs")])
    async with running(world.another()):
        await hangs.started.wait()
        for _ in range(12):
            await world.clock.advance(30)
            await _until_renewed(world, added.alarm.id)
            assert (await world.store.claim({"hangs": 1}, lease=world.settings.lease)).alarms == []
        hangs.released.set()


async def _until_renewed(world: World, id: str) -> None:
    """Renewal waits for the disk: wait for what it writes, with a deadline that a slow disk does not reach."""
    async with asyncio.timeout(60):
        while True:
            alarm = await world.store.get(id)
            assert alarm is not None
            assert alarm.claimed_at is not None
            if world.clock.now() - alarm.claimed_at < world.settings.lease / 2:
                return
            await world.clock.advance(0.001)


async def test_a_clock_set_back_does_not_keep_renewals_waiting(world: World) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs")])
    async with running(world.another()):
        await hangs.started.wait()
        before = world.clock.now()
        world.clock.set_back(3600)
        async with asyncio.timeout(60):
            while (leased_at := (await world.read(added.alarm)).claimed_at) == before:
                await world.clock.advance(world.settings.lease / 3)  # a lease passes, then several
                await world.store.now()
        assert leased_at is not None
        assert leased_at < before
        hangs.released.set()


@pytest.mark.parametrize("verb", ["cancel", "update"])
async def test_a_call_under_way_is_not_aborted_by_its_owner_and_is_recorded_as_it_ended(
    world: World, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await world.store.add([an_alarm(world.clock, due=-1, target="hangs", owner_did=OWNER)])
    async with running(world.another()):
        await hangs.started.wait()
        if verb == "cancel":
            assert (await acting(world.service, OWNER).cancel(added.alarm.id)).in_flight
        else:
            await acting(world.service, OWNER).edit(added.alarm.id, EditRequest(delay_seconds=200_000))
        async with asyncio.timeout(60):
            while "no longer ours" not in caplog.text:  # a renewal comes and finds that
                await world.clock.advance(world.settings.lease / 3)
                await asyncio.sleep(0.01)  # it is in a thread
        await world.clock.advance(1)
        assert hangs.holds == 1
        hangs.released.set()
        async with asyncio.timeout(60):
            while not (noted := [fire for fire in await world.fires(added.alarm) if fire.log]):
                await world.clock.advance(0.05)
    assert [(fire.status, fire.log[0].said) for fire in noted] == [("delivered", "delivered (no longer ours)")]
    assert (await world.read(added.alarm)).status == ("cancelled" if verb == "cancel" else "active")


@pytest.mark.parametrize("back", [False, True], ids=["under way", "waiting to be written"])
async def test_what_is_claimed_again_while_it_is_in_flight_here_is_not_sent_again(world: World, back: bool) -> None:
    """The lease ran out in a stall: nobody took the alarm meanwhile, and its call is still out."""
    store = GoesAway(world.store)
    world.store = store
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await store.add([an_alarm(world.clock, due=-1, target="hangs")])
    async with running(world.another()):
        await hangs.started.wait()
        if back:  # answered, and the store does not take the settlement
            store.deaf = True
            hangs.released.set()
            await asyncio.wait_for(store.refused.wait(), 30)
        held = await world.read(added.alarm)
        lapsed = replace(held, claimed_at=world.clock.now() - world.settings.lease)
        await store.forward.settle([Change(claim=held.claim, version=held.version, after=lapsed)])
        async with asyncio.timeout(60):
            while (await world.read(added.alarm)).claim == held.claim:
                await world.clock.advance(world.settings.tick)
        assert hangs.calls == 1
        store.deaf = False
        hangs.released.set()
        async with asyncio.timeout(60):
            while (await world.read(added.alarm)).status != "fired":
                await world.clock.advance(0.05)
    assert hangs.calls == 1
    assert [(fire.status, fire.attempts) for fire in await world.fires(added.alarm)] == [("delivered", 1)]


async def test_a_retry_that_is_claimed_before_the_answer_to_its_own_settlement_is_delivered(world: World) -> None:
    """The store has written the settlement that planned it; the answer to that comes later than the retry is due."""
    world.store = store = AnswersLate(world.store)
    world.desk.answer(Failed("HTTP 503"), Delivered())
    [added] = await store.add([an_alarm(world.clock, due=-1, policy=Policy(backoff_base=1, backoff_cap=1))])
    async with running(world.another(clock=SystemClock())):
        await asyncio.wait_for(store.written.wait(), 30)
        planned = await world.read(added.alarm)
        await world.clock.advance(planned.next_fire_at - world.clock.now())
        async with asyncio.timeout(30):
            while not store.taken_up or store.taken_up[-1] <= planned.claim:
                await world.clock.advance(0.001)
                await asyncio.sleep(0.02)
        store.answered.set()
        async with asyncio.timeout(30):  # its lease does not end: the clock that it goes by stands still
            while (await world.read(added.alarm)).status != "fired":
                await world.store.now()
                await asyncio.sleep(0.02)
    assert [(fire.status, fire.attempts) for fire in await world.fires(added.alarm)] == [("delivered", 2)]


async def test_a_due_alarm_set_while_the_dispatcher_sleeps_wakes_it(world: World) -> None:
    tells = Tells(1)
    world.serve("tells", tells)
    dispatcher = world.another()
    async with running(dispatcher):
        while world.clock.sleepers < 2:
            await world.store.now()
            await asyncio.sleep(0)
        await world.store.add([an_alarm(world.clock, due=0, target="tells")])
        await asyncio.wait_for(tells.enough.wait(), 30)  # the clock stands still: only the hint can have done it


class GoesAway:
    """A store that is away for as long as it is told to be."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.forward = store
        self.away = False
        self.deaf = False  # to settlements only
        self.refused = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _here(self, what: str) -> None:
        if self.away or (self.deaf and what == "settle"):
            self.refused.set()
            raise StoreUnavailable("the database is away")

    async def claim(self, *args: Any, **kwargs: Any) -> Claimed:
        self._here("claim")
        found: Claimed = await self._store.claim(*args, **kwargs)
        return found

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        self._here("settle")
        found: list[Settled] = await self._store.settle(changes)
        return found


class AnswersLate(GoesAway):
    """A store that writes at once, and answers its first settlement when it is told to."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.written, self.answered = asyncio.Event(), asyncio.Event()
        self.claims: list[int] = []
        self.taken_up: list[int] = []  # of these, what the dispatcher has gone on from

    async def claim(self, *args: Any, **kwargs: Any) -> Claimed:
        self.taken_up = list(self.claims)
        found = await super().claim(*args, **kwargs)
        self.claims += [alarm.claim for alarm in found.alarms]
        return found

    async def next_due(self, *args: Any, **kwargs: Any) -> Any:
        self.taken_up = list(self.claims)
        return await self._store.next_due(*args, **kwargs)

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        found = await super().settle(changes)
        self.written.set()
        await self.answered.wait()
        return found


class Answers(GoesAway):
    """A store that remembers how settlements were answered."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.answers: list[str] = []

    async def settle(self, changes: Sequence[Change]) -> list[Settled]:
        found = await super().settle(changes)
        self.answers += [answer.what for answer in found]
        return found


@pytest.mark.parametrize(("said", "status"), [("completed", "completed"), ("failed", "retrying")])
async def test_a_report_stands_when_its_alarm_is_claimed_again_by_who_is_delivering_it(
    world: World, said: ReportOutcome, status: str
) -> None:
    """The report comes while the wake is in flight, the lease lapses, the same process claims it again."""
    world.store = store = Answers(world.store)
    hangs = Hangs()
    world.serve("hangs", hangs)
    [added] = await store.add([an_alarm(world.clock, due=-1, target="hangs", policy=Policy(report_within=60))])
    async with running(world.another()):
        await hangs.started.wait()
        await acting(world.service, "").report(added.alarm.fire_id, ReportRequest(outcome=said, result="as said"))
        held = await world.read(added.alarm)
        lapsed = replace(held, claimed_at=world.clock.now() - world.settings.lease)
        await store.forward.settle([Change(claim=held.claim, version=held.version, after=lapsed)])
        async with asyncio.timeout(60):
            while (await world.read(added.alarm)).claim == held.claim:
                await world.clock.advance(world.settings.tick)
        hangs.released.set()
        async with asyncio.timeout(60):
            while (await world.read(added.alarm)).claimed_at is not None:
                await world.clock.advance(0.05)
    [fire] = await world.fires(added.alarm)
    assert (fire.status, hangs.calls) == (status, 1)
    assert set(store.answers) == {"applied"}, "decided at once on what the report said"
    assert (await world.read(added.alarm)).status == ("fired" if said == "completed" else "active")


@pytest.mark.parametrize("tries", [0, 1], ids=["the first try", "a try after silence"])
async def test_an_attempt_on_which_a_failure_was_reported_is_not_the_answer_to_its_retry(
    world: World, tries: int
) -> None:
    """Another worker has planned the retry, and this one claims it while the attempt before is still under way."""
    store = GoesAway(world.store)
    second = world.another()
    hangs = Hangs()
    world.serve("hangs", hangs)
    world.store = store
    policy = Policy(report_within=600, on_silence="again")
    [added] = await store.add([an_alarm(world.clock, due=-1, target="hangs", policy=policy)])
    if tries:
        hangs.released.set()
        await second.run_due()
        await world.clock.advance(601)
        await second.run_due()
        hangs.released.clear()
        hangs.started.clear()
    async with running(world.another()):
        async with asyncio.timeout(60):
            while not hangs.started.is_set():
                await world.clock.advance(world.settings.tick)
        await acting(world.service, "").report(added.alarm.fire_id, ReportRequest(outcome="failed"))
        store.away = True
        held = await world.read(added.alarm)
        lapsed = replace(held, claimed_at=world.clock.now() - world.settings.lease)
        await store.forward.settle([Change(claim=held.claim, version=held.version, after=lapsed)])
        assert await second.run_due() == 1
        planned = await world.read(added.alarm)
        assert (planned.failure_count, planned.claimed_at, hangs.calls) == (tries + 1, None, tries + 1)
        store.away = False
        async with asyncio.timeout(60):
            while (claimed := await world.read(added.alarm)).claimed_at is None:
                await world.clock.advance(world.settings.tick)
        # It takes longer than a lease: the new claim is kept meanwhile, and begins when the attempt has ended.
        for _ in range(4):
            await world.clock.advance(world.settings.lease / 3)
            await _until_renewed(world, added.alarm.id)
        assert ((await world.read(added.alarm)).claim, hangs.calls) == (claimed.claim, tries + 1)
        hangs.released.set()
        async with asyncio.timeout(60):
            while (await world.read(added.alarm)).status != "fired":
                await world.clock.advance(0.05)
    [fire] = await world.fires(added.alarm)
    assert (fire.status, fire.failures, hangs.calls) == ("delivered", tries + 1, tries + 2)
    assert "delivered (no longer ours)" in [line.said for line in fire.log]


@pytest.mark.parametrize("moment", ["before the claim", "before the settlement"])
async def test_a_dispatcher_waits_for_a_store_that_went_away_and_goes_on(world: World, moment: str) -> None:
    store = GoesAway(world.store)
    world.store = store
    tells = Hangs()
    world.serve("tells", tells)
    [added] = await store.add([an_alarm(world.clock, due=-1, target="tells")])
    store.away = moment == "before the claim"
    async with running(world.another(clock=SystemClock())):
        if moment == "before the settlement":
            await tells.started.wait()
            store.away = True
        tells.released.set()
        await asyncio.wait_for(store.refused.wait(), 30)
        store.away = False
        for _ in range(500):
            if (await world.read(added.alarm)).status == "fired":
                break
            await asyncio.sleep(0.02)
    assert [fire.status for fire in await world.fires(added.alarm)] == ["delivered"]


async def test_who_stood_still_leaves_what_others_hold_alone_for_a_moment(world: World) -> None:
    """The whole machine stood still: whoever wakes up first does not take what the others have in flight."""
    tells = Tells(1)
    world.serve("tells", tells)
    await world.store.add([an_alarm(world.clock, due=-1, target="tells")])
    [theirs] = (await world.store.claim({"tells": 1}, lease=world.settings.lease)).alarms
    dispatcher = world.another()
    dispatcher._deliveries.event_loop = asyncio.get_running_loop()
    dispatcher._times.wake_at = world.clock.monotonic()
    await step(dispatcher, world)  # step by step: what is asserted is what one step does
    await world.clock.stand_still(2 * world.settings.lease)
    for _ in range(2):
        await step(dispatcher, world)
        await world.clock.advance(world.settings.tick / 2)
    assert await world.store.renew([Claim(theirs.id, theirs.claim)]) == []
    for _ in range(2):
        await world.clock.advance(world.settings.lease / 3)
        await step(dispatcher, world)
    assert tells.wakes == []
    await world.clock.advance(world.settings.lease / 3)  # by now nobody has said anything for a whole lease
    await step(dispatcher, world)
    await asyncio.wait_for(tells.enough.wait(), 60)


async def step(dispatcher: Dispatcher, world: World) -> None:
    """One round of its loop, and the clock where the next one is to begin."""
    pause = await dispatcher._step()
    dispatcher._times.wake_at = world.clock.monotonic() + pause


async def test_who_only_slept_has_not_stood_still(world: World) -> None:
    """With a lease of two ticks an idle dispatcher sleeps half a lease, and still takes over what nobody holds."""
    tells = Tells(1)
    world.serve("tells", tells)
    lease = 2 * world.settings.tick
    await world.store.add([an_alarm(world.clock, due=-1, target="tells")])
    await world.store.claim({"tells": 1}, lease=lease)
    dispatcher = world.another(lease=lease)
    dispatcher._deliveries.event_loop = asyncio.get_running_loop()
    dispatcher._times.wake_at = world.clock.monotonic()
    for _ in range(5):
        await step(dispatcher, world)
        if dispatcher.health.in_flight:
            break
        await world.clock.advance(world.settings.tick * 1.01)
    await asyncio.wait_for(tells.enough.wait(), 60)

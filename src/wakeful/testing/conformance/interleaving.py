"""Readers and writers at the same time: what is decided on a fire and its alarm counts once, whoever else is at it."""

from __future__ import annotations

import asyncio
from collections import Counter

from wakeful.alarm import Change, Fire, Report, fetch, report, sweep
from wakeful.store import Store
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import a_fire, added, an_alarm, claimed, done, settled

WAKES = 160
CONSUMERS = 12


async def _put_into_the_inbox(store: Store, clock: ManualClock) -> None:
    await added(store, *(an_alarm(clock) for _ in range(WAKES)))
    for _ in range(0, WAKES, 40):
        leased = await claimed(store, 40)
        changes = [
            done(alarm, a_fire(alarm, status="waiting", target="inbox"), awaiting=alarm.occurrence_at)
            for alarm in leased
        ]
        assert set(await settled(store, *changes)) == {"applied"}


async def _taken(store: Store, clock: ManualClock) -> list[Change]:
    """What one consumer gets, until there is nothing left."""
    got: list[Change] = []
    while waiting := await store.waiting("ada", limit=10):
        changes = [fetch(alarm, fire, now=clock.now()) for alarm, fire in waiting]
        answers = await store.settle(changes)
        got += [change for change, answer in zip(changes, answers, strict=True) if answer.what == "applied"]
    return got


class TestInterleaving:
    async def test_each_wake_is_handed_to_one_of_many_consumers(self, store: Store, clock: ManualClock) -> None:
        await _put_into_the_inbox(store, clock)
        taken = await asyncio.gather(*(_taken(store, clock) for _ in range(CONSUMERS)))
        times = Counter(change.after.id for changes in taken for change in changes)
        assert len(times) == WAKES
        assert {id: count for id, count in times.items() if count > 1} == {}

    async def test_a_report_that_was_taken_is_not_swept_away(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock) for _ in range(WAKES)))
        leased = [alarm for _ in range(0, WAKES, 40) for alarm in await claimed(store, 40)]
        fires = [a_fire(alarm, report_by=clock.now()) for alarm in leased]
        settlements = [done(alarm, fire) for alarm, fire in zip(leased, fires, strict=True)]
        assert set(await settled(store, *settlements)) == {"applied"}
        said: list[Fire] = []

        async def complete(mine: list[Change]) -> None:
            for change in mine:
                occurrence = change.fires[0].scheduled_for
                ending = report(change.after, change.fires[0], occurrence, Report("completed"), now=clock.now())
                assert ending is not None
                [answer] = await store.settle([ending])
                said.extend(ending.fires if answer.what == "applied" else ())

        async def sweep_all() -> None:
            while overdue := await store.overdue(limit=20):
                await store.settle([sweep(alarm, fire, now=clock.now()) for alarm, fire in overdue])

        shares = [settlements[at::4] for at in range(4)]
        await asyncio.gather(*(complete(share) for share in shares), *(sweep_all() for _ in range(4)))
        ended = await store.fires_at([(fire.alarm_id, fire.scheduled_for) for fire in said])
        assert said
        assert {fire.status for fire in ended.values()} == {"completed"}

"""Counts of budgets: no more wakes than a limit allows, whoever asks, and cost that is written with its report."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from wakeful.alarm.budget import Allowance, Charge
from wakeful.store import Store
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import added, an_alarm, change, settled, stored

ADA = Allowance("owner", "ada", "hour", 3)
CHAIN = Allowance("chain", "a0", "day", 5, 1.0)


class TestBudgets:
    async def test_a_limit_is_let_through_and_no_more(self, store: Store, clock: ManualClock) -> None:
        charge = Charge((ADA, CHAIN), clock.now())
        answers = [(await store.access.spend([charge]))[0] for _ in range(5)]
        assert [answer is None for answer in answers] == [True, True, True, False, False]
        assert [answer.first for answer in answers if answer is not None] == [True, False]
        used = {count.scope: (count.wakes, count.told) for count in await store.access.spent(charge)}
        assert used == {"owner": (3, True), "chain": (3, False)}

    async def test_one_call_may_bring_many(self, store: Store, clock: ManualClock) -> None:
        bob = Charge((Allowance("owner", "bob", "hour", 1),), clock.now())
        ada = Charge((ADA,), clock.now())
        answers = await store.access.spend([ada, bob, ada, bob, ada, ada])
        assert [answer is None for answer in answers] == [True, True, True, False, True, False]
        assert await store.access.spend([]) == []

    async def test_all_who_ask_at_once_share_one_limit(self, store: Store, clock: ManualClock) -> None:
        charge = Charge((CHAIN, ADA, Allowance("owner", "ada", "day", 2)), clock.now())
        answers = await asyncio.gather(*(store.access.spend([charge]) for _ in range(20)))
        assert sum(answer == [None] for answer in answers) == 2
        assert sum(answer[0] is not None and answer[0].first for answer in answers) == 1

    async def test_the_next_hour_is_counted_anew(self, store: Store, clock: ManualClock) -> None:
        await store.access.spend([Charge((ADA,), clock.now())] * 4)
        later = Charge((ADA,), clock.now() + timedelta(hours=1))
        assert await store.access.spent(later) == []
        assert await store.access.spend([later]) == [None]

    async def test_a_cost_is_written_with_its_change_and_only_then(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, root_id="a0", generation=1)
        await added(store, alarm)
        charge = Charge((CHAIN, Allowance("owner", "ada", "day", 1)), clock.now())
        assert await settled(store, change(alarm, version=2, cost=0.25)) == ["applied"]
        assert await settled(store, change(alarm, version=2, cost=0.25)) == ["edited"]
        again = await stored(store, alarm)
        assert await settled(store, change(again, version=3, cost=0.5)) == ["applied"]
        used = {count.scope: (count.wakes, count.cost) for count in await store.access.spent(charge)}
        assert used == {"chain": (0, 750_000), "owner": (0, 750_000)}
        assert await store.access.spend([charge]) == [None]
        again = await stored(store, alarm)
        await settled(store, change(again, version=4, cost=0.25))
        [refusal] = await store.access.spend([Charge((CHAIN,), clock.now())])
        assert refusal is not None
        assert "a cost of 1 in one day" in refusal.words
        used = {count.scope: (count.wakes, count.cost) for count in await store.access.spent(charge)}
        assert used == {"chain": (1, 1_000_000), "owner": (1, 1_000_000)}

    async def test_old_counts_are_forgotten(self, store: Store, clock: ManualClock) -> None:
        now = clock.now()
        charges = [Charge((ADA,), now - timedelta(hours=hours)) for hours in (0, 1, 2)]
        await store.access.spend(charges)
        assert await store.maintenance.purge_counts(now - timedelta(minutes=90), limit=10) == 1
        assert await store.access.spent(charges[2]) == []
        assert len(await store.access.spent(charges[1])) == 1

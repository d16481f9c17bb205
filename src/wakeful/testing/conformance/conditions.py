"""What a wake depends on: budgets that are never exceeded, checks that are written with its settlement, signals."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from wakeful.errors import WakefulError
from wakeful.model.alarm import HeardSignal, Policy, SeenValue
from wakeful.rules.budget import Allowance, Charge
from wakeful.store import Store
from wakeful.store.access import MAX_CHECK_ROWS
from wakeful.testing.conformance.making import Outbox, added, an_alarm, change, done, settled, stored
from wakeful.testing.manual_clock import ManualClock

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


LONG = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000000) select count(*) from n"


class TestChecks:
    async def test_a_value_is_kept_with_its_change_and_only_then(self, store: Store, clock: ManualClock) -> None:
        alarm, other = an_alarm(clock), an_alarm(clock)
        await added(store, alarm, other)
        assert await store.access.check_value(alarm.id, "portal") is None
        first = change(alarm, version=2, seen=SeenValue(name="portal", value="a"))
        assert await settled(store, first) == ["applied"]
        late = change(alarm, version=2, seen=SeenValue(name="portal", value="b"))
        assert await settled(store, late) == ["edited"]
        assert await store.access.check_value(alarm.id, "portal") == "a"
        assert await store.access.check_value(alarm.id, "news") is None
        assert await store.access.check_value(other.id, "portal") is None
        again = change(first.after, version=3, seen=SeenValue(name="portal", value="c"))
        plain = change(other, version=2)
        assert await settled(store, again, plain) == ["applied", "applied"]
        assert await store.access.check_value(alarm.id, "portal") == "c"

    async def test_it_is_forgotten_with_its_alarm(self, store: Store, clock: ManualClock) -> None:
        gone, stays = an_alarm(clock), an_alarm(clock)
        await added(store, gone, stays)
        seen = SeenValue(name="portal", value="a")
        await settled(store, done(gone, version=2, seen=seen), change(stays, version=2, seen=seen))
        assert await store.maintenance.purge_counts(clock.now(), limit=10) == 0
        await clock.advance(60)
        while await store.maintenance.purge(clock.now()):
            pass
        assert await store.maintenance.purge_counts(clock.now(), limit=10) == 1
        assert await store.access.check_value(gone.id, "portal") is None
        assert await store.access.check_value(stays.id, "portal") == "a"

    async def test_a_query_reads(self, store: Store, outbox: Outbox) -> None:
        await outbox.run(f"insert into {outbox.table} values ('f1', 'hello')")
        rows = await store.access.check_rows(f"select fire_id, body from {outbox.table}", within=30)
        assert rows == [("f1", "hello")]
        many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) select i from n"
        assert len(await store.access.check_rows(many, within=30)) == MAX_CHECK_ROWS + 1

    async def test_and_does_not_write(self, store: Store, outbox: Outbox) -> None:
        for sql in (f"insert into {outbox.table} values ('f1', 'hello')", f"delete from {outbox.table}", "selec"):
            with pytest.raises(WakefulError):
                await store.access.check_rows(sql, within=30)
        assert await outbox.rows() == []
        assert await store.access.check_rows("select 1", within=30) == [(1,)]

    async def test_it_is_one_statement(self, store: Store, outbox: Outbox) -> None:
        insert = f"insert into {outbox.table} values ('f1', 'hello')"
        for sql in (f"select 1; pragma query_only = 0; {insert}", f"select 1; {insert}", "select 1; select 2"):
            with pytest.raises(WakefulError):
                await store.access.check_rows(sql, within=30)
        assert await outbox.rows() == []
        with pytest.raises(WakefulError):
            await store.access.check_rows(insert, within=30)
        assert await outbox.rows() == []

    async def test_it_changes_no_setting_of_its_connection(self, store: Store, outbox: Outbox) -> None:
        with pytest.raises(WakefulError):
            await store.access.check_rows("pragma query_only = 0", within=30)

    async def test_nor_does_it_go_on_for_ever(self, store: Store) -> None:
        with pytest.raises(WakefulError):
            await store.access.check_rows(LONG, within=0.05)
        assert await store.access.check_rows("select 1", within=30) == [(1,)]


CANCELS = Policy(unless="reply")
FIRES = Policy(or_when="reply", jitter=3.0)


class TestSignals:
    async def test_those_who_wait_for_it_are_found_in_the_order_of_their_ids(
        self, store: Store, clock: ManualClock
    ) -> None:
        waiting = [an_alarm(clock, policy=policy) for policy in (CANCELS, FIRES, CANCELS, FIRES)]
        others = [an_alarm(clock), an_alarm(clock, policy=Policy(unless="replies", or_when="other"))]
        await added(store, *others, *waiting)
        assert await store.listening("ada", "reply", limit=10) == waiting
        first = await store.listening("ada", "reply", limit=3)
        assert first == waiting[:3]
        assert await store.listening("ada", "reply", after=first[-1].id, limit=3) == waiting[3:]
        assert await store.listening("ada", "Reply", limit=10) == []

    async def test_another_owner_s_are_not(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, policy=CANCELS, owner_did="bob"))
        assert await store.listening("ada", "reply", limit=10) == []
        assert await store.listening("", "reply", limit=10) == []
        assert len(await store.listening("bob", "reply", limit=10)) == 1

    async def test_those_that_have_ended_or_are_paused_are_not(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock, policy=policy) for policy in (CANCELS, FIRES, FIRES)]
        await added(store, *alarms)
        statuses = ("cancelled", "paused", "fired")
        changes = [change(one, status=status, version=2) for one, status in zip(alarms, statuses, strict=True)]
        assert await settled(store, *changes) == ["applied"] * 3
        assert await store.listening("ada", "reply", limit=10) == []
        again = await stored(store, alarms[1])
        await settled(store, change(again, status="active", version=3))
        assert [one.id for one in await store.listening("ada", "reply", limit=10)] == [alarms[1].id]

    async def test_an_edit_says_anew_what_is_waited_for(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, policy=CANCELS)
        await added(store, alarm)
        await settled(store, change(alarm, edited=True, policy=Policy(or_when="done"), version=2))
        assert await store.listening("ada", "reply", limit=10) == []
        assert len(await store.listening("ada", "done", limit=10)) == 1

    async def test_what_was_heard_is_kept_byte_for_byte(self, store: Store, clock: ManualClock) -> None:
        heard = HeardSignal(name="reply", occurrence_at=clock.now(), payload_json='{"b" : 1.50, "a": "\\u00fc"}')
        alarm = an_alarm(clock, policy=Policy(or_when="reply", heard=heard))
        await added(store, alarm)
        assert (await stored(store, alarm)).policy.heard == heard

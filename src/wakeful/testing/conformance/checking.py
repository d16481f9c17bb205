"""What checks have seen is written with its settlement, and an operator's query reads and does not write."""

from __future__ import annotations

import pytest

from wakeful.alarm.model import SeenValue
from wakeful.errors import WakefulError
from wakeful.store import Store
from wakeful.store.checks import MOST_ROWS
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import Outbox, added, an_alarm, change, done, settled

LONG = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000000) select count(*) from n"


class TestChecks:
    async def test_a_value_is_kept_with_its_change_and_only_then(self, store: Store, clock: ManualClock) -> None:
        alarm, other = an_alarm(clock), an_alarm(clock)
        await added(store, alarm, other)
        assert await store.checks.seen(alarm.id, "portal") is None
        first = change(alarm, version=2, seen=SeenValue(name="portal", value="a"))
        assert await settled(store, first) == ["applied"]
        late = change(alarm, version=2, seen=SeenValue(name="portal", value="b"))
        assert await settled(store, late) == ["edited"]
        assert await store.checks.seen(alarm.id, "portal") == "a"
        assert await store.checks.seen(alarm.id, "news") is None
        assert await store.checks.seen(other.id, "portal") is None
        again = change(first.after, version=3, seen=SeenValue(name="portal", value="c"))
        plain = change(other, version=2)
        assert await settled(store, again, plain) == ["applied", "applied"]
        assert await store.checks.seen(alarm.id, "portal") == "c"

    async def test_it_is_forgotten_with_its_alarm(self, store: Store, clock: ManualClock) -> None:
        gone, stays = an_alarm(clock), an_alarm(clock)
        await added(store, gone, stays)
        seen = SeenValue(name="portal", value="a")
        await settled(store, done(gone, version=2, seen=seen), change(stays, version=2, seen=seen))
        assert await store.checks.forget(limit=10) == 0
        await clock.advance(60)
        while await store.purge(clock.now()):
            pass
        assert await store.checks.forget(limit=10) == 1
        assert await store.checks.seen(gone.id, "portal") is None
        assert await store.checks.seen(stays.id, "portal") == "a"

    async def test_a_query_reads(self, store: Store, outbox: Outbox) -> None:
        await outbox.run(f"insert into {outbox.table} values ('f1', 'hello')")
        rows = await store.checks.rows(f"select fire_id, body from {outbox.table}", within=30)
        assert rows == [("f1", "hello")]
        many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) select i from n"
        assert len(await store.checks.rows(many, within=30)) == MOST_ROWS + 1

    async def test_and_does_not_write(self, store: Store, outbox: Outbox) -> None:
        for sql in (f"insert into {outbox.table} values ('f1', 'hello')", f"delete from {outbox.table}", "selec"):
            with pytest.raises(WakefulError):
                await store.checks.rows(sql, within=30)
        assert await outbox.rows() == []
        assert await store.checks.rows("select 1", within=30) == [(1,)]

    async def test_it_is_one_statement(self, store: Store, outbox: Outbox) -> None:
        insert = f"insert into {outbox.table} values ('f1', 'hello')"
        for sql in (f"select 1; pragma query_only = 0; {insert}", f"select 1; {insert}", "select 1; select 2"):
            with pytest.raises(WakefulError):
                await store.checks.rows(sql, within=30)
        assert await outbox.rows() == []
        with pytest.raises(WakefulError):
            await store.checks.rows(insert, within=30)
        assert await outbox.rows() == []

    async def test_it_changes_no_setting_of_its_connection(self, store: Store, outbox: Outbox) -> None:
        with pytest.raises(WakefulError):
            await store.checks.rows("pragma query_only = 0", within=30)

    async def test_nor_does_it_go_on_for_ever(self, store: Store) -> None:
        with pytest.raises(WakefulError):
            await store.checks.rows(LONG, within=0.05)
        assert await store.checks.rows("select 1", within=30) == [(1,)]

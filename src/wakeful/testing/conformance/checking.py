"""What checks have seen is written with its settlement, and an operator's query reads and does not write."""

from __future__ import annotations

import pytest

from wakeful.alarm.model import SeenValue
from wakeful.errors import WakefulError
from wakeful.store import Store
from wakeful.store.access import MAX_CHECK_ROWS
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import Outbox, added, an_alarm, change, done, settled

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

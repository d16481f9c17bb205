"""`within(connection)`: alarms changed inside the caller's own transaction, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

import wakeful
from tests.databases import database_of
from wakeful.testing import NEW_YEAR, ManualClock


class Undo(Exception):
    """Raised in a transaction, which is rolled back for it."""


class Own:
    """A program's own connection to the same database, and its own table there."""

    def __init__(self, place: dict[str, Any], connection: Any) -> None:
        self.connection = connection
        self._table = f"{place['schema']}.orders" if "schema" in place else "orders"

    async def execute(self, sql: str) -> Any:
        text = sql.replace("orders", self._table)
        if isinstance(self.connection, apsw.Connection):
            return self.connection.execute(text).fetchall()
        return [tuple(row) for row in await self.connection.fetch(text)]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        if isinstance(self.connection, apsw.Connection):
            with self.connection:
                yield self.connection
        else:
            async with self.connection.transaction():
                yield self.connection


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return database_of(request, tmp_path)


@pytest.fixture
async def alarms(place: dict[str, Any]) -> AsyncIterator[wakeful.Wakeful]:
    async with wakeful.open(**place, clock=ManualClock()) as alarms:
        yield alarms


@pytest.fixture
async def own(place: dict[str, Any], alarms: wakeful.Wakeful) -> AsyncIterator[Own]:
    if "schema" not in place:
        db = apsw.Connection(str(place["db"]))
        db.set_busy_timeout(10_000)
        mine = Own(place, db)
        await mine.execute("create table orders (id integer)")
        yield mine
        db.close()
        return
    connection = await asyncpg.connect(place["db"])
    mine = Own(place, connection)
    await mine.execute("create table orders (id integer)")
    yield mine
    await connection.close()


async def change_all(alarms: wakeful.Wakeful, ids: dict[str, str], connection: Any) -> None:
    async with alarms.within(connection) as tx:
        await tx.cancel(ids["cancel"], reason="no longer")
        await tx.update(ids["update"], label="new", when="in 2 hours")
        await tx.pause(ids["pause"], reason="holiday")
        await tx.resume(ids["resume"])
        await tx.snooze(ids["snooze"], "3h")
        await tx.skip(ids["skip"])
        await tx.set("in 1 hour", "new", key="set")


async def state(alarms: wakeful.Wakeful) -> dict[str, Any]:
    return {
        alarm.idempotency_key: (alarm.status, alarm.label, (alarm.next_fire_at - NEW_YEAR) / timedelta(hours=1))
        for alarm in await alarms.find()
    }


async def some(alarms: wakeful.Wakeful) -> dict[str, str]:
    verbs = ("cancel", "update", "pause", "resume", "snooze")
    ids = {verb: (await alarms.set("in 1 hour", "old", key=verb)).id for verb in verbs}
    ids["skip"] = (await alarms.set("@every 1h", "old", key="skip")).id
    await alarms.pause(ids["resume"])
    return ids


async def test_every_change_counts_once_the_caller_commits(alarms: wakeful.Wakeful, own: Own) -> None:
    ids = await some(alarms)
    before = await state(alarms)
    async with own.transaction() as connection:
        await own.execute("insert into orders values (1)")
        await change_all(alarms, ids, connection)
        assert await state(alarms) == before, "nobody else sees it before the commit"
    assert await state(alarms) == {
        "cancel": ("cancelled", "", 1),
        "update": ("active", "new", 2),
        "pause": ("paused", "", 1),
        "resume": ("active", "", 1),
        "snooze": ("active", "", 3),
        "skip": ("active", "", 2),
        "set": ("active", "", 1),
    }
    assert await own.execute("select id from orders") == [(1,)]


async def test_nothing_happened_where_the_caller_rolls_back(alarms: wakeful.Wakeful, own: Own) -> None:
    ids = await some(alarms)
    before = await state(alarms)
    with suppress(Undo):
        async with own.transaction() as connection:
            await own.execute("insert into orders values (1)")
            await change_all(alarms, ids, connection)
            raise Undo
    assert await state(alarms) == before
    assert await own.execute("select id from orders") == []
    assert "cancelled" not in (await alarms.why(ids["cancel"])).summary


async def test_changes_in_one_transaction_see_each_other(alarms: wakeful.Wakeful, own: Own) -> None:
    async with own.transaction() as connection, alarms.within(connection) as tx:
        alarm = await tx.set("in 1 hour", "go", key="k")
        changed = await tx.update(alarm.id, label="named", version=alarm.version)
        await tx.cancel("k")
    kept = await alarms.get(alarm.id)
    assert (changed.alarm.version, kept.label, kept.status) == (alarm.version + 1, "named", "cancelled")


async def test_a_refusal_leaves_the_caller_s_transaction_as_it_is(alarms: wakeful.Wakeful, own: Own) -> None:
    alarm = await alarms.set("in 1 hour", "go", key="k")
    async with own.transaction() as connection, alarms.within(connection) as tx:
        await own.execute("insert into orders values (1)")
        with pytest.raises(wakeful.StaleVersion):
            await tx.update(alarm.id, label="x", version=7)
        with pytest.raises(wakeful.NotFound):
            await tx.cancel("nothing")
        with pytest.raises(wakeful.Conflict):
            await tx.set("in 2 hours", "other", key="k")
        with pytest.raises(wakeful.InvalidRequest):
            await tx.update(alarm.id, when="soonish")
    assert await own.execute("select id from orders") == [(1,)]
    assert await alarms.get(alarm.id) == alarm


async def test_what_is_not_a_connection_to_this_database_is_refused(
    alarms: wakeful.Wakeful, own: Own, tmp_path: Path
) -> None:
    alarm = await alarms.set("in 1 hour", "go")
    elsewhere = apsw.Connection(str(tmp_path / "elsewhere.db"))
    for wrong in (object(), "postgresql://x", elsewhere):
        with pytest.raises(wakeful.InvalidRequest) as raised:
            async with alarms.within(wrong):
                pass
        assert raised.value.field == "connection"
        assert raised.value.fix
    elsewhere.close()
    assert await alarms.get(alarm.id) == alarm


# As SQLAlchemy has them over asyncpg


class RawConnection:
    def __init__(self, connection: Any) -> None:
        self.driver_connection = connection


class AlchemyConnection:
    """Begins with the first statement it is given, as SQLAlchemy's dialect for asyncpg does."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.begun: Any = None

    async def exec_driver_sql(self, sql: str) -> None:
        if self.begun is None:
            self.begun = self._connection.transaction()
            await self.begun.start()
        await self._connection.execute(sql)

    async def get_raw_connection(self) -> RawConnection:
        return RawConnection(self._connection)


class AlchemySession:
    def __init__(self, connection: AlchemyConnection) -> None:
        self._connection = connection

    def get_bind(self) -> None: ...

    async def connection(self) -> AlchemyConnection:
        return self._connection


@pytest.mark.parametrize("form", ["connection", "session"])
async def test_a_connection_or_a_session_of_sqlalchemy_s_shape_is_taken(form: str, pg_dsn: str, pg_schema: str) -> None:
    async with wakeful.open(pg_dsn, schema=pg_schema) as alarms:
        alarm = await alarms.set("in 1 hour", "go")
        driver = await asyncpg.connect(pg_dsn)
        alchemy = AlchemyConnection(driver)
        async with alarms.within(alchemy if form == "connection" else AlchemySession(alchemy)) as tx:
            await tx.cancel(alarm.id)
        assert (await alarms.get(alarm.id)).status == "active"
        await alchemy.begun.commit()
        assert (await alarms.get(alarm.id)).status == "cancelled"
        await driver.close()


def test_the_same_without_await(tmp_path: Path) -> None:
    with wakeful.open_sync(tmp_path / "wakeful.db") as alarms:
        alarm = alarms.set("in 1 hour", "go")
        own = apsw.Connection(str(tmp_path / "wakeful.db"))
        own.set_busy_timeout(10_000)
        own.execute("begin immediate")
        with alarms.within(own) as tx:
            assert tx.pause(alarm.id).alarm.status == "paused"
            assert tx.set("in 2 hours", "more").status == "active"
        own.execute("rollback")
        own.close()
        assert [one.status for one in alarms.find()] == ["active"]

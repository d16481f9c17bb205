"""Budgets between processes on one database: what one has counted the other knows before it sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.databases import database_of
from wakeful.errors import StoreUnavailable
from wakeful.rules.budget import Allowance, Charge
from wakeful.store import Store
from wakeful.store.postgres import PostgresStore
from wakeful.store.queries import Naming
from wakeful.store.sqlite import SqliteStore

from .postgres_world import World

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
OWNER, CHAIN = Allowance("owner", "ada", "day", 30), Allowance("chain", "a0", "hour", 25)


@pytest.fixture(params=["sqlite", "postgres"])
async def processes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """The same database, as four processes have it."""
    place = database_of(request, tmp_path)
    stores: list[SqliteStore | PostgresStore] = [
        PostgresStore(place["db"], naming=Naming(schema=place["schema"]))
        if "schema" in place
        else SqliteStore(place["db"])
        for _ in range(4)
    ]
    await stores[0].migrate()
    yield [*stores]
    for store in stores:
        await store.close()


async def test_processes_share_a_limit_and_let_no_more_through(processes: list[Store]) -> None:
    # Their limits in another order each: nobody waits for somebody who waits for them.
    charges = [Charge((OWNER, CHAIN), NOON), Charge((CHAIN, OWNER), NOON)]
    asked = [
        store.access.spend([charges[(at + times) % 2]]) for times in range(15) for at, store in enumerate(processes)
    ]
    answers = await asyncio.gather(*asked)
    assert sum(answer == [None] for answer in answers) == 25
    assert sum(answer[0] is not None and answer[0].first for answer in answers) == 1
    for store in processes:
        counts = await store.access.spent(charges[0])
        assert {count.scope: count.wakes for count in counts} == {"owner": 25, "chain": 25}


# Holds an update of the counts just before it begins; the look at them, an insert of what is missing, goes on.
GATE = """
create function {t}.gate() returns trigger language plpgsql as $$
begin
    if current_query() like 'update%' then perform pg_advisory_xact_lock_shared(4711); end if;
    return null;
end $$;
create trigger gate before update on {t}.budget_counts for each statement execute function {t}.gate();
"""
WAITING = """
select count(*)
  from pg_locks
  join pg_stat_activity using (pid)
 where not granted
   and query like '%' || $1 || '%budget_counts%'
"""


async def test_who_looks_at_counts_while_another_is_about_to_write_them_waits(pg_dsn: str, pg_schema: str) -> None:
    world = World(pg_dsn, pg_schema)
    only_one = Charge((Allowance("owner", "ada", "day", 1),), NOON)
    try:
        stores = [world.store(), world.store()]
        await stores[0].migrate()
        gatekeeper = await world.connect()
        await gatekeeper.execute(GATE.format(t=pg_schema))
        await gatekeeper.execute("select pg_advisory_lock(4711)")
        spending = [asyncio.create_task(store.access.spend([only_one])) for store in stores]
        async with asyncio.timeout(60):
            while await gatekeeper.fetchval(WAITING, pg_schema) < 2:  # noqa: ASYNC110 - the server knows
                await asyncio.sleep(0.01)
        await gatekeeper.execute("select pg_advisory_unlock(4711)")
        answers = await asyncio.gather(*spending)
    finally:
        await world.close()
    assert sorted(answer == [None] for answer in answers) == [False, True]


async def test_counts_that_somebody_holds_delay_nobody_else_and_not_for_ever(
    pg_dsn: str, pg_migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.store.postgres.database.LONG_LOCK_WAIT", "300ms")
    world = World(pg_dsn, pg_migrated)
    store = world.store()
    try:
        await store.access.spend([Charge((OWNER,), NOON)])
        holder = await world.connect()
        async with holder.transaction():
            await holder.execute(f"update {world.schema}.budget_counts set told = told")
            waiting = asyncio.create_task(store.access.spend([Charge((OWNER,), NOON)]))
            async with asyncio.timeout(30):
                assert await store.access.spend([Charge((CHAIN,), NOON)]) == [None]
                with pytest.raises(StoreUnavailable):
                    await waiting
        assert await store.access.spend([Charge((OWNER,), NOON)]) == [None]
        [count] = await store.access.spent(Charge((OWNER,), NOON))
        assert count.wakes == 2
    finally:
        await world.close()

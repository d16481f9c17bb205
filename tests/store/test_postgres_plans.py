"""Which statements PostgreSQL plans once for many, and which each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from wakeful.store import AlarmQuery
from wakeful.store.postgres import PostgresStore

from .postgres_world import LEASE, World, completed, new_alarm

TIMES = 7  # PostgreSQL itself would keep a plan after five


@pytest.fixture
async def world(pg_dsn: str, pg_migrated: str) -> AsyncIterator[World]:
    world = World(pg_dsn, pg_migrated)
    yield world
    await world.close()


async def planned(store: PostgresStore) -> dict[str, tuple[int, int]]:
    """Of each statement of the store: how often it was run by a plan that is kept, and how often by one of its own."""
    async with store._database.connection(keep_plans=True) as connection:
        rows = await connection.fetch("select statement, generic_plans, custom_plans from pg_prepared_statements")
    names = {sql: name for name, sql in store._sql.items()}
    return {names[sql]: (kept, made) for sql, kept, made in rows if sql in names}


async def go_on(store: PostgresStore) -> None:
    """Everything a worker repeats, and what people ask for, in turn."""
    await store.add([new_alarm()])
    claimed = await store.claim({"t": 5}, lease=LEASE)
    await store.settle([completed(alarm) for alarm in claimed.alarms])
    await store.next_due(["t"])
    await store.find(AlarmQuery(owner="did:x"))


async def test_what_a_worker_repeats_is_planned_once_and_what_people_ask_for_each_time(world: World) -> None:
    store = world.store()
    for _ in range(TIMES):
        await go_on(store)
    found = await planned(store)  # of one of its connections
    for name in ("add", "claim", "settle_at_once", "next_due"):
        kept, made = found[name]
        assert kept, name
        assert not made, name
    kept, made = found["find"]
    assert made
    assert not kept


@pytest.mark.parametrize(("kept_for", "times"), [(60.0, 0), (-1.0, TIMES)])
async def test_a_plan_is_kept_for_a_while_only(
    world: World, monkeypatch: pytest.MonkeyPatch, kept_for: float, times: int
) -> None:
    """The tables may have been empty when it was made."""
    monkeypatch.setattr("wakeful.store.postgres.database.KEPT_FOR", kept_for)
    store = world.store()
    said: list[str] = []
    async with store._database.connection() as connection:
        connection.add_query_logger(lambda asked: said.append(asked.query))
    for _ in range(TIMES):
        await store.claim({"t": 5}, lease=LEASE)
    assert len([sql for sql in said if "discard plans" in sql]) == times
    assert len([sql for sql in said if "plan_cache_mode" in sql]) == 1


async def test_where_nobody_heard_how_statements_are_planned_it_is_said_again(world: World) -> None:
    store = world.store()
    async with store._database.connection() as connection:
        session: Any = connection
        execute = session._con.execute

        async def cut_off(*args: Any) -> None:
            await execute(*args)
            raise ConnectionResetError("cut off")

        session._con.execute = cut_off
        with pytest.raises(ConnectionResetError):
            await session.keep_plans(True)
        session._con.execute = execute
        await session.keep_plans(False)
        assert await connection.fetchval("show plan_cache_mode") == "force_custom_plan"


async def test_behind_pgbouncer_no_session_is_told_how_to_plan(world: World) -> None:
    store = world.store(pgbouncer=True)
    before = await world.value("show plan_cache_mode")
    await go_on(store)
    async with store._database.connection(keep_plans=True) as connection:
        assert await connection.fetchval("show plan_cache_mode") == before

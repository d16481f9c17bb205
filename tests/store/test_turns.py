"""Reading takes turns: whatever one owner asks for, others, dispatch and signing in do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from wakeful.errors import StoreBusy, TooMany
from wakeful.store import AlarmQuery, FireQuery, Store
from wakeful.store.queries import Naming
from wakeful.store.records import READS_PER_OWNER, WAITING, ReadTurns
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import added, an_alarm

MINUTE = timedelta(minutes=1)
FOREVER = "with recursive n (at) as (select 1 union all select at + 1 from n) select max(at) from n"


def endless(db: apsw.Connection) -> Any:
    """A read that does not end by itself."""
    return db.execute(FOREVER).get


@pytest.fixture
def within() -> timedelta:
    return timedelta(seconds=60)


@pytest.fixture
async def file(tmp_path: Path, clock: ManualClock, within: timedelta) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "wakeful.db"), clock=clock, read_within=within)
    await store.migrate()
    yield store
    store._within = 0.0
    await store.close()


async def test_an_owner_has_so_many_turns_at_once_and_the_others_theirs() -> None:
    turns, inside, go_on = ReadTurns(2), [], asyncio.Event()

    async def read(owner: str) -> None:
        async with turns.turn(owner):
            inside.append(owner)
            await go_on.wait()

    reads = [asyncio.create_task(read(owner)) for owner in ("eve", "eve", "eve", "eve", "ada", "", "", "")]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sorted(inside) == ["", "", "", "ada", "eve", "eve"]
    go_on.set()
    await asyncio.gather(*reads)
    assert inside.count("eve") == 4
    assert turns._turns == {}


async def test_pages_are_read_when_it_is_their_owners_turn(store: Store, clock: ManualClock) -> None:
    turns: ReadTurns = store._turns  # type: ignore[attr-defined]
    until = clock.now() + MINUTE

    def reads(owner: str) -> list[asyncio.Task[Any]]:
        agenda = store.agenda(owner=owner, until=until, limit=10)
        fires = store.described_fires(FireQuery(owner=owner))
        return [asyncio.ensure_future(read) for read in (agenda, fires, store.find(AlarmQuery(owner=owner)))]

    async with AsyncExitStack() as taken, asyncio.timeout(30):
        for _ in range(READS_PER_OWNER):
            await taken.enter_async_context(turns.turn("eve"))
        waiting = reads("eve")
        while turns._turns["eve"].here < READS_PER_OWNER + len(waiting):
            assert not any(read.done() for read in waiting)
            await asyncio.sleep(0.005)
        assert await asyncio.gather(*reads("ada")) == [[], [], []]
        assert not any(read.done() for read in waiting)
    assert await asyncio.gather(*waiting) == [[], [], []]


async def test_what_waits_for_a_turn_has_an_end() -> None:
    turns = ReadTurns(1)
    go_on = asyncio.Event()

    async def read() -> None:
        async with turns.turn("eve"):
            await go_on.wait()

    reads = [asyncio.create_task(read()) for _ in range(WAITING + 2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    refused = [task for task in reads if task.done()]
    assert len(refused) == 1
    error = refused[0].exception()
    assert isinstance(error, TooMany)
    assert (error.field, error.retry_after) == ("reads_per_owner", 1.0)
    go_on.set()
    await asyncio.gather(*reads, return_exceptions=True)


@pytest.mark.parametrize("within", [timedelta(milliseconds=50)])
async def test_a_read_that_takes_too_long_is_stopped_and_says_so(file: SqliteStore) -> None:
    with pytest.raises(StoreBusy, match=r"took longer than 0\.05 s") as stopped:
        await file._long_read(endless)
    assert "smaller limit" in stopped.value.fix
    assert await file.find(AlarmQuery()) == []  # the connection is as good as before


async def test_dispatch_and_signing_in_do_not_wait_for_long_reads(file: SqliteStore, clock: ManualClock) -> None:
    await added(file, an_alarm(clock))
    file._within = 600.0
    stop = asyncio.Event()

    def work(db: apsw.Connection) -> Any:
        db.set_progress_handler(stop.is_set, 1000, id="test")
        return endless(db)

    reads = [asyncio.create_task(file._long_read(work, f"owner {number}")) for number in range(12)]
    await asyncio.sleep(0)
    store: Store = file
    async with asyncio.timeout(30):
        assert await store.access.token("nobody") is None
        assert await store.access.tokens() == []
        assert await store.next_due(["desk"]) is not None
        assert len(await store.maintenance.backlog(lease=MINUTE)) <= 1
        assert await store.maintenance.target_states() == {}
    assert not any(read.done() for read in reads)
    stop.set()
    assert {type(answer) for answer in await asyncio.gather(*reads, return_exceptions=True)} == {StoreBusy}


def on_postgres(dsn: str, schema: str, clock: ManualClock, **given: Any) -> Any:
    from wakeful.store.postgres import PostgresStore

    return PostgresStore(dsn, naming=Naming(schema=schema), clock=clock, pool_size=4, **given)


async def test_postgres_keeps_connections_for_dispatch_and_signing_in(
    pg_dsn: str, pg_schema: str, clock: ManualClock
) -> None:
    store = on_postgres(pg_dsn, pg_schema, clock, read_within=MINUTE)
    await store.migrate()
    reads = [asyncio.create_task(store._database.long_read("select pg_sleep(60)")) for _ in range(4)]
    await asyncio.sleep(0)
    try:
        assert await store.access.token("nobody") is None
        assert await store.next_due(["desk"]) is None
        assert not any(read.done() for read in reads)
    finally:
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
        await store.close()


async def test_postgres_stops_a_read_that_takes_too_long_and_keeps_its_connections(
    pg_dsn: str, pg_schema: str, clock: ManualClock
) -> None:
    store = on_postgres(pg_dsn, pg_schema, clock, read_within=timedelta(milliseconds=200))
    await store.migrate()
    try:
        with pytest.raises(StoreBusy, match=r"took longer than 0\.2 s"):
            await store._database.long_read("select pg_sleep(60)")
        store._database._within = 60.0
        assert await store.find(AlarmQuery()) == []
    finally:
        await store.close()


async def test_lists_of_an_owner_wait_for_their_turn_and_are_all_answered(store: Store, clock: ManualClock) -> None:
    await added(store, *(an_alarm(clock) for _ in range(3)))
    pages = await asyncio.gather(*(store.find(AlarmQuery(owner="ada")) for _ in range(20)))
    assert [len(page) for page in pages] == [3] * 20

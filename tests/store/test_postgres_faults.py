"""What PostgreSQL does to a store on its bad days: connections cut, answers lost, crashes, failovers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from wakeful.clock import stopwatch
from wakeful.errors import InvalidConfig, StoreUnavailable
from wakeful.model.alarm import Row
from wakeful.store import AlarmQuery, Settled
from wakeful.store.postgres import PostgresStore
from wakeful.store.postgres import database as postgres_database

from .postgres_world import LEASE, World, completed, new_alarm

if TYPE_CHECKING:
    from tests.conftest import Cluster

HANG_UP_ON_ALL = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where pid <> pg_backend_pid() and application_name = 'wakeful'"
)


@pytest.fixture
async def world(pg_dsn: str, pg_migrated: str) -> AsyncIterator[World]:
    world = World(pg_dsn, pg_migrated)
    yield world
    await world.close()


@pytest.fixture
async def store(world: World) -> PostgresStore:
    store = world.store()
    await store.migrate()
    return store


async def test_every_create_survives_connections_that_are_cut(world: World, store: PostgresStore) -> None:
    await asyncio.gather(*(store.now() for _ in range(8)))  # a pool full of connections to lose
    alarms = [new_alarm() for _ in range(200)]
    todo = iter(alarms)

    async def create() -> None:
        for alarm in todo:
            [added] = await store.add([alarm])
            assert added.alarm.id == alarm.id
            assert not added.deduped

    async def cut() -> None:
        for _ in range(3):
            await world.sql(HANG_UP_ON_ALL)

    await asyncio.gather(*(create() for _ in range(4)), cut())
    assert {alarm.id for alarm in await store.find(AlarmQuery(limit=500))} == {alarm.id for alarm in alarms}


async def test_a_listener_that_is_cut_off_listens_again_and_says_so(world: World, store: PostgresStore) -> None:
    await store.next_due(["t"])
    async with asyncio.timeout(30):
        await store.hints.wait()
        store.hints.clear()
        await world.sql(HANG_UP_ON_ALL)
        await store.hints.wait()  # something may have been missed
        store.hints.clear()
        await world.store().add([new_alarm(due_in=0)])
        await store.hints.wait()


async def test_a_crash_loses_nothing_that_was_answered(pg_cluster: Cluster) -> None:
    world = World(pg_cluster.dsn, "crash")
    store = world.store()
    await store.migrate()
    answered: list[str] = []
    enough = asyncio.Event()

    async def create() -> None:
        with suppress(StoreUnavailable):
            while True:
                [added] = await store.add([new_alarm()])
                answered.append(added.alarm.id)
                if len(answered) == 300:
                    enough.set()

    creating = [asyncio.create_task(create()) for _ in range(16)]
    await enough.wait()
    crash = asyncio.create_task(asyncio.to_thread(pg_cluster.crash))
    await asyncio.gather(*creating)
    await crash

    began = stopwatch()
    for verb in (store.claim({"t": 1}, lease=LEASE), store.get(answered[0]), store.add([new_alarm()])):
        with pytest.raises(StoreUnavailable):
            await verb
    assert stopwatch() - began < 3 * postgres_database.ANSWER_WITHIN  # refused, not given up one after the other

    await asyncio.to_thread(pg_cluster.start)
    kept = {alarm.id for alarm in await store.find(AlarmQuery(limit=100_000))}
    assert set(answered) <= kept
    await store.add([new_alarm()])
    await world.close()


async def test_a_database_that_is_not_there_is_told_soon_and_without_its_password(world: World) -> None:
    store = world.store(dsn="postgresql://someone:hunter2@127.0.0.1:9/nowhere")
    began = stopwatch()
    with pytest.raises(StoreUnavailable) as told:
        await store.add([new_alarm()])
    assert stopwatch() - began < postgres_database.ANSWER_WITHIN
    assert "hunter2" not in str(told.value)


async def test_a_dsn_that_is_none_is_a_matter_of_config(world: World) -> None:
    with pytest.raises(InvalidConfig):
        await world.store(dsn="mysql://localhost/x").now()


async def test_a_server_that_became_a_standby_is_left_for_its_successor(own_world: World) -> None:
    role = f"{own_world.schema}_r"
    await own_world.sql(f"create role {role} login superuser")
    moved = own_world.store(dsn=own_world.dsn_as(role))
    try:
        await moved.add([new_alarm()])
        await own_world.sql(f"alter role {role} set default_transaction_read_only = on")
        await own_world.sql(HANG_UP_ON_ALL)
        with pytest.raises(StoreUnavailable):
            await moved.add([new_alarm()])
        await own_world.sql(f"alter role {role} reset default_transaction_read_only")
        # Nobody hung up on it: it left the read-only connections by itself.
        assert len(await moved.add([new_alarm()])) == 1
    finally:
        await moved.close()
        await own_world.sql(f"drop role {role}")


class Wire:
    """Between a store and its database: loses the connection just when a certain answer comes by, or goes silent."""

    def __init__(self, behind: Path) -> None:
        self._behind = behind
        self.lose = b""
        self.times = 1
        self.lost = 0
        self.flows = asyncio.Event()
        self.flows.set()
        self._ends: list[asyncio.StreamWriter] = []
        self._connections: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def served(self, directory: Path) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._connect, directory / ".s.PGSQL.5432")
        yield
        server.close()
        await server.wait_closed()
        for end in self._ends:
            end.close()
        await asyncio.gather(*self._connections)  # nothing of it outlives the loop

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (connection := asyncio.current_task()) is not None:
            self._connections.add(connection)
        server_reader, server_writer = await asyncio.open_unix_connection(self._behind)
        ends = (writer, server_writer)
        self._ends += ends
        task = asyncio.create_task(self._pass(reader, server_writer, spoils=False))
        await self._pass(server_reader, writer, spoils=True)
        for end in ends:
            end.close()
        await task
        for end in ends:
            with suppress(ConnectionError):
                await end.wait_closed()

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, spoils: bool) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                await self.flows.wait()
                if spoils and self.lose and self.lose in data:
                    self.lost += 1
                    if self.lost >= self.times:
                        self.lose = b""
                    return
                sink.write(data)
                await sink.drain()


@pytest.fixture
async def wire(own_world: World) -> AsyncIterator[tuple[Wire, PostgresStore]]:
    behind = own_world.dsn.rpartition("host=")[2]
    with TemporaryDirectory(prefix="wkw") as directory:
        wire = Wire(Path(behind) / ".s.PGSQL.5432")
        distant = own_world.store(dsn=own_world.dsn.replace(behind, directory))
        async with wire.served(Path(directory)):
            yield wire, distant
            await distant.close()


async def test_a_create_whose_answer_was_lost_is_not_a_duplicate_of_itself(wire: tuple[Wire, PostgresStore]) -> None:
    connection, store = wire
    alarm = new_alarm(idempotency_key="k")
    connection.lose = b"SELECT 1"
    [added] = await store.add([alarm])
    assert connection.lost == 1
    assert (added.alarm, added.deduped) == (alarm, False)
    assert len(await store.find(AlarmQuery())) == 1


@pytest.mark.parametrize("edited", [False, True])
async def test_a_settlement_whose_answer_was_lost_is_known_to_be_applied(
    wire: tuple[Wire, PostgresStore], *, edited: bool
) -> None:
    connection, store = wire
    await store.add([new_alarm()])
    [alarm] = (await store.claim({"t": 1}, lease=LEASE)).alarms
    change = completed(alarm)
    if edited:
        change = replace(change, edited=True, after=replace(change.after, version=alarm.version + 1))
    connection.lose = b"COMMIT" if edited else b"SELECT 1"
    assert await store.settle([change]) == [Settled("applied")]
    assert connection.lost == 1
    assert await store.get(alarm.id) == change.after


@pytest.mark.parametrize("times", [1, 2, 3], ids=["tried again", "twice", "given up, and asked again"])
async def test_a_claim_whose_answer_was_lost_takes_its_alarms_back(
    wire: tuple[Wire, PostgresStore], times: int
) -> None:
    connection, store = wire
    alarms = [new_alarm() for _ in range(3)]
    await store.add(alarms)
    connection.lose, connection.times = b"SELECT 3", times
    if times == 3:
        with pytest.raises(StoreUnavailable):
            await store.claim({"t": 5}, lease=LEASE)
    claimed = (await store.claim({"t": 5}, lease=LEASE)).alarms
    assert connection.lost == times
    assert sorted((alarm.id, alarm.claim) for alarm in claimed) == sorted((alarm.id, 1) for alarm in alarms)
    assert (await store.claim({"t": 5}, lease=LEASE)).alarms == []


async def test_a_claim_that_was_lost_and_taken_by_another_stays_with_that_one(
    own_world: World, wire: tuple[Wire, PostgresStore]
) -> None:
    connection, store = wire
    await store.add([new_alarm() for _ in range(3)])
    connection.lose, connection.times = b"SELECT 3", 3
    with pytest.raises(StoreUnavailable):
        await store.claim({"t": 5}, lease=LEASE)
    other = own_world.store()
    await own_world.sql(f"update {own_world.alarms} set claimed_at = null, unsettled = 0")
    assert len((await other.claim({"t": 5}, lease=LEASE)).alarms) == 3
    assert (await store.claim({"t": 5}, lease=LEASE)).alarms == []


async def test_a_database_that_goes_silent_is_given_up_and_found_again(
    wire: tuple[Wire, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, store = wire
    monkeypatch.setattr(postgres_database, "ANSWER_WITHIN", 0.5)
    await store.add([new_alarm()])
    connection.flows.clear()
    async with asyncio.timeout(60):
        with pytest.raises(StoreUnavailable):
            await store.add([new_alarm()])
    connection.flows.set()
    await store.add([new_alarm()])


async def test_a_table_row_is_written_once_though_its_answer_was_lost(
    own_world: World, wire: tuple[Wire, PostgresStore]
) -> None:
    connection, store = wire
    await own_world.sql(f"create table {own_world.schema}.messages (fire_id text primary key)")
    await store.add([new_alarm()])
    [alarm] = (await store.claim({"t": 1}, lease=LEASE)).alarms
    connection.lose = b"COMMIT"
    row = Row(f"{own_world.schema}.messages", {"fire_id": alarm.fire_id}, "fire_id")
    assert await store.settle([replace(completed(alarm), row=row)]) == [Settled("applied")]
    assert connection.lost == 1
    assert await own_world.value(f"select count(*) from {own_world.schema}.messages") == 1


async def test_closing_finishes_what_was_accepted_and_then_refuses(world: World, store: PostgresStore) -> None:
    tasks = [asyncio.create_task(store.add([new_alarm()])) for _ in range(20)]
    await asyncio.sleep(0)  # they are accepted now, and nothing is written yet
    await store.close()
    await store.close()
    assert len(await asyncio.gather(*tasks)) == 20
    with pytest.raises(StoreUnavailable):
        await store.add([new_alarm()])
    with pytest.raises(StoreUnavailable):
        await store.next_due(["t"])

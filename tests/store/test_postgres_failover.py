"""Several servers in one DSN: one that is dead, frozen or no longer the primary is left for the next."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from wakeful.clock import turn
from wakeful.errors import StoreBusy, StoreUnavailable
from wakeful.service import views
from wakeful.store.postgres import database as postgres_database
from wakeful.store.postgres import hosts as postgres_hosts
from wakeful.store.postgres.database import Database
from wakeful.store.postgres.hosts import Host, Lost, hosts_of

from .postgres_world import LEASE, World, new_alarm


class Server:
    """A server as clients see it: a port with the tests' cluster behind it. Frozen, it accepts and is silent."""

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.accepted = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def freeze(self) -> None:
        self._flows.clear()

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._tasks.add(asyncio.current_task())  # type: ignore[arg-type]  # there is one
        server_reader, server_writer = await asyncio.open_unix_connection(self._behind)
        self._writers |= {writer, server_writer}
        await asyncio.gather(self._pass(reader, server_writer), self._pass(server_reader, writer))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
            sink.close()


@pytest.fixture
def world(own_world: World) -> World:
    return own_world


@pytest.fixture
async def servers(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Server, Server]]:
    behind = world.dsn.rpartition("host=")[2]
    # Long enough for a machine that is busy to answer, so that only what is frozen is silent.
    for module, name, seconds in (
        (postgres_hosts, "HOST_WITHIN", 3.0),
        (postgres_hosts, "PROBE_WITHIN", 3.0),
        (postgres_hosts, "CONNECT_WITHIN", 30.0),
        (postgres_database, "CONNECT_WITHIN", 30.0),
        (postgres_database, "SUSPECT_AFTER", 0.3),
        (postgres_database, "ANSWER_WITHIN", 60.0),  # it is not what helps here
    ):
        monkeypatch.setattr(module, name, seconds)
    first, second = (Server(str(Path(behind) / ".s.PGSQL.5432")) for _ in range(2))
    for server in (first, second):
        await server.start()
    yield first, second
    await world.close()
    for server in (first, second):
        await server.stop()


def dsn_of(*servers: Server) -> str:
    return f"postgresql://postgres:@{','.join(f'127.0.0.1:{server.port}' for server in servers)}/postgres"


async def test_a_frozen_server_costs_its_own_time_and_that_once(world: World, servers: tuple[Server, Server]) -> None:
    frozen, good = servers
    frozen.freeze()
    store = world.store(dsn=dsn_of(*servers))
    async with asyncio.timeout(60):
        await store.add([new_alarm()])
        assert frozen.accepted == 1
        await asyncio.gather(*(store.now() for _ in range(8)))
    assert frozen.accepted == 1  # whoever was silent is asked last
    assert good.accepted > 1


async def test_a_server_that_refuses_is_left_for_the_next(world: World, servers: tuple[Server, Server]) -> None:
    dead, good = servers
    await dead.stop()
    store = world.store(dsn=dsn_of(dead, good))
    async with asyncio.timeout(60):
        await store.add([new_alarm()])


async def test_what_is_under_way_when_a_server_freezes_is_done_at_the_next(servers: tuple[Server, Server]) -> None:
    first, second = servers
    database = Database(dsn_of(first, second), pool_size=4, pgbouncer=False)
    await database.fetch("select 1")
    assert (first.accepted, second.accepted) == (1, 0)
    first.freeze()
    async with asyncio.timeout(60):
        [row] = await database.fetch("select 2")  # not refused: its connection is ended, and it is done again
    assert row[0] == 2
    assert second.accepted
    await database.close()


async def test_the_listener_leaves_a_frozen_server_too(world: World, servers: tuple[Server, Server]) -> None:
    first, second = servers
    store = world.store(dsn=dsn_of(first, second))
    async with asyncio.timeout(60):
        await store.next_due(["t"])
        await store.hints.wait()
        store.hints.clear()
        first.freeze()
        await store.now()
        await store.hints.wait()  # it listens again, elsewhere
        while store.hints.is_set():
            store.hints.clear()
            await turn()
        await world.store().add([new_alarm(due_in=0)])
        await store.hints.wait()


async def test_slow_is_not_silent(world: World, servers: tuple[Server, Server]) -> None:
    database = Database(dsn_of(*servers), pool_size=4, pgbouncer=False)
    tries: list[bool] = []

    async def slow(connection: Any, again: bool) -> None:
        tries.append(again)
        await connection.execute("select pg_sleep(2)")

    async with asyncio.timeout(60):
        await database.run(slow)
    assert tries == [False]
    assert servers[0].accepted > 1  # it was asked, and answered
    await database.close()


async def test_a_standby_is_passed_over(world: World, servers: tuple[Server, Server]) -> None:
    role = f"{world.schema}_s"
    await world.sql(f"create role {role} login superuser")
    await world.sql(f"alter role {role} set default_transaction_read_only = on")
    try:
        store = world.store(dsn=dsn_of(*servers).replace("postgres:@", f"{role}:@"))
        async with asyncio.timeout(60):
            with pytest.raises(StoreUnavailable, match=r"127.0.0.1:\d+: it is read-only.*; 127.0.0.1:\d+: it"):
                await store.now()
        await store.close()
    finally:
        await world.sql(f"drop role {role}")


# What is said


async def test_what_cannot_be_reached_is_named(world: World, servers: tuple[Server, Server]) -> None:
    frozen, dead = servers
    frozen.freeze()
    await dead.stop()
    for dsn, said in (
        (dsn_of(dead), f"cannot connect to PostgreSQL at 127.0.0.1:{dead.port}: connection refused"),
        (
            dsn_of(frozen, dead),
            f"127.0.0.1:{frozen.port}: no answer within 3 s; 127.0.0.1:{dead.port}: connection refused",
        ),
    ):
        with pytest.raises(StoreUnavailable) as told:
            await world.store(dsn=dsn).now()
        assert said in told.value.message
        assert views.problem(told.value).title == "StoreUnavailable"


async def test_a_pool_that_is_used_up_is_told_from_a_server_that_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(world.dsn, pool_size=2, pgbouncer=False)
    async with database.connection(), database.connection():
        monkeypatch.setattr(postgres_database, "CONNECT_WITHIN", -0.9)  # what is added to it: patience with the pool
        with pytest.raises(StoreUnavailable, match="all 2 connections to PostgreSQL are in use"):
            await database.fetch("select 1")
    await database.close()


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (Lost("x"), "StoreUnavailable"),
        (StoreBusy("x"), "StoreBusy"),
    ],
)
def test_titles_are_names_that_are_documented(error: StoreUnavailable, title: str) -> None:
    assert views.problem(error).title == title


@pytest.mark.parametrize(
    ("dsn", "hosts"),
    [
        ("postgresql:///db", []),
        ("postgresql://a/db", [Host("a", 5432)]),
        ("postgresql://ada:secret@a:1,b:2/db?x=y", [Host("a", 1), Host("b", 2)]),
        ("postgresql://a,b:7/db", [Host("a", 5432), Host("b", 7)]),
        ("postgresql://a,b/db?port=7", [Host("a", 7), Host("b", 7)]),
        ("postgresql://ada:@/db?host=a,b&port=1,2", [Host("a", 1), Host("b", 2)]),
        ("postgresql:///db?host=/run/one,/run/two", [Host("/run/one", 5432), Host("/run/two", 5432)]),
        ("postgresql://%2Frun%2Fpg/db", [Host("/run/pg", 5432)]),
        ("postgresql://[::1]:7/db", [Host("::1", 7)]),
        ("postgresql://a:port/db", []),
    ],
)
def test_the_servers_of_a_dsn(dsn: str, hosts: list[Host]) -> None:
    assert hosts_of(dsn) == hosts


# Behind pgbouncer


async def test_behind_pgbouncer_types_are_looked_up_at_once_and_without_jit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[list[str]] = []
    prepare: Callable[[Any], Any] = postgres_database._prepare_behind_pgbouncer

    async def listened(connection: Any) -> None:
        said: list[str] = []
        connections.append(said)
        connection.add_query_logger(lambda record: said.append(" ".join(record.query.split())))
        await prepare(connection)
        said.append("prepared")

    monkeypatch.setattr(postgres_database, "_prepare_behind_pgbouncer", listened)
    store = world.store(pgbouncer=True)
    alarm = new_alarm()
    await store.add([alarm])
    await store.claim({"t": 1}, lease=LEASE)
    await store.get(alarm.id)
    await store.close()  # nothing is under way any more
    ready = [said for said in connections if "prepared" in said]
    assert ready
    for said in ready:
        lookups = [at for at, sql in enumerate(said) if "typeinfo" in sql]
        assert said.index("set local jit = off") < min(lookups)
        assert max(lookups) < said.index("prepared")
        assert not any(
            "set_config('jit'" in sql for sql in said
        )  # what it would leave behind in a session is another's

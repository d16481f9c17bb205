"""How many may be connected: silent sockets keep nobody out, and descriptors are left to deliver with."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path

import pytest
import uvloop

from tests.interfaces.test_owner_limits import streaming
from tests.interfaces.world import Visitor, serving
from wakeful.http.http_server import ACCEPTED_AT_ONCE, Acceptor
from wakeful.http.security.connection import ConnectionLimiter, room
from wakeful.settings import Settings

FAR, FARTHER = "192.0.2.1", "192.0.2.2"


class Line(asyncio.Transport):
    """A transport that only knows whether it was put down."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def entered(limiter: ConnectionLimiter, address: str, now: float = 0) -> Line | None:
    line = Line()
    return line if limiter.let_in(line, address, now) else None


def test_one_address_has_so_many_and_another_as_many() -> None:
    limiter = ConnectionLimiter(10, per_address=2)
    for _ in range(2):
        line = entered(limiter, FAR)
        assert line is not None
        limiter.speaks(line)
    assert entered(limiter, FAR) is None
    assert entered(limiter, FARTHER) is not None
    assert all(entered(limiter, "127.0.0.1") for _ in range(5))  # a proxy here speaks for everybody


def test_the_one_that_is_silent_for_longest_makes_room() -> None:
    limiter = ConnectionLimiter(3, per_address=3)
    first, second, third = (entered(limiter, FAR, now) for now in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    limiter.speaks(first)
    assert entered(limiter, FARTHER, 3) is not None
    assert [line.closed for line in (first, second, third)] == [False, True, False]
    limiter.is_silent(first, 4)
    assert entered(limiter, FARTHER, 5) is not None
    assert [line.closed for line in (first, third)] == [False, True]
    assert len(limiter) == 3


def test_one_address_makes_room_among_its_own() -> None:
    limiter = ConnectionLimiter(10, per_address=1)
    other, mine = entered(limiter, FARTHER, 0), entered(limiter, FAR, 1)
    assert other is not None
    assert mine is not None
    assert entered(limiter, FAR, 2) is not None
    assert (other.closed, mine.closed) == (False, True)


def test_what_became_a_socket_counts_until_it_is_closed() -> None:
    limiter = ConnectionLimiter(1, per_address=9)
    socket = entered(limiter, FAR)
    assert socket is not None
    limiter.speaks(socket)
    assert entered(limiter, FAR) is None
    socket.closed = True  # nobody says so: it has another protocol by now
    assert entered(limiter, FAR) is not None


def test_a_flood_puts_out_its_own_not_who_was_silent_before_it() -> None:
    limiter = ConnectionLimiter(8, per_address=8)
    quiet = entered(limiter, FAR, 0)
    assert quiet is not None
    limiter.belongs(quiet, "ada")
    flood = [entered(limiter, FAR, now) for now in range(1, 6)]
    for owner in ("", "eve"):  # strangers, then somebody with a token
        for line in flood:
            assert line is not None
            limiter.belongs(line, owner)
        flood += [entered(limiter, FAR, now) for now in range(6, 16)]
        flood = [line for line in flood if line is not None and not line.closed]
        assert len(flood) == 7
    assert not quiet.closed


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_few_connections_are_accepted_at_a_time(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Before they are counted, each has a descriptor already."""
    count, counted, waiting_at_once = 3 * ACCEPTED_AT_ONCE + 10, 0, [0]
    acceptors: list[Acceptor] = []

    async def accept(listener: socket.socket) -> None:
        all_counted = asyncio.Event()

        class Counted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                nonlocal counted
                counted += 1
                waiting_at_once.append(len(acceptors[0]._connecting))
                transport.close()
                if counted == count:
                    all_counted.set()

        acceptors.append(Acceptor(listener, Counted))
        async with asyncio.timeout(60):
            await all_counted.wait()
        acceptors[0].close()
        await acceptors[0].all_connected()

    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener, ExitStack() as waiting:
        for _ in range(count):
            waiting.enter_context(socket.create_connection(listener.getsockname()))
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(accept(listener))
    assert max(waiting_at_once) == ACCEPTED_AT_ONCE


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_was_accepted_when_the_server_stops_is_answered(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    made = []

    class Made(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)
            transport.close()

    async def accept(listener: socket.socket) -> None:
        acceptor = Acceptor(listener, Made)
        acceptor._accept()
        acceptor.close()
        await acceptor.all_connected()
        assert len(made) == 2
        acceptor.close()  # once more changes nothing

    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as waiting:
        for _ in range(2):
            waiting.enter_context(socket.create_connection(listener.getsockname()))
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(accept(listener))


def test_descriptors_are_kept_for_deliveries() -> None:
    settings = Settings(connections=4096, total_concurrency=512)
    assert room(settings, 65_536) == 4096
    assert room(settings, 2048) == 2048 - 512 - 64
    assert room(settings, 256) == 128


def test_a_process_raises_its_limit_as_far_as_it_may() -> None:
    script = (
        "import resource; from wakeful.http.security.connection import raise_limit;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 400));"
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.split() == ["400", "400", "400"]


async def silent(visit: Visitor) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(visit.url.rpartition(":")[2]))


async def test_silent_sockets_keep_nobody_out_of_a_server(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), connections=4) as visit:
        lines = [await silent(visit) for _ in range(8)]
        assert (await visit("GET", "/v1/stats")).status == 200
        async with asyncio.timeout(60):
            for reader, _ in lines[:4]:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""  # put out
        for _, writer in lines:
            writer.close()


async def test_requests_that_stop_in_their_body_keep_nobody_out(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), connections=4, did_auth=True) as visit:
        eve, ada = await visit.token("eve"), await visit.token("ada")
        mine, line = await silent(visit)
        asks = f"HEAD /v1/stats HTTP/1.1\r\nhost: localhost\r\nauthorization: {ada['authorization']}\r\n\r\n".encode()
        line.write(asks)
        assert (await mine.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        head = f"POST /v1/alarms HTTP/1.1\r\nhost: localhost\r\nauthorization: {eve['authorization']}\r\n"
        lines = []
        for _ in range(8):
            lines.append(await silent(visit))
            lines[-1][1].write(f"{head}content-type: application/json\r\ncontent-length: 99\r\n\r\n{{".encode())
        ends = asyncio.as_completed([reader.read() for reader, _ in lines], timeout=30)
        for _, end in zip(range(len(lines) - 3), ends, strict=False):  # room for three is left beside hers
            with suppress(ConnectionResetError):
                assert await end == b""  # put out, whichever it was
        line.write(asks)  # hers was silent for longer than any of them
        assert (await mine.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        for _, writer in [*lines, (mine, line)]:
            writer.close()


async def test_where_all_are_busy_one_more_is_not_taken(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), connections=2) as visit, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(streaming(visit, {}))
        reader, writer = await silent(visit)
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()


async def test_a_wait_at_the_inbox_takes_a_seat(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), live_per_owner=1, did_auth=True) as visit:
        ada, eve = await visit.token("ada"), await visit.token("eve")
        waiting = asyncio.create_task(visit("GET", "/v1/inbox?wait=60", headers=ada))
        async with asyncio.timeout(60):
            while not visit.alarms.service.connections._taken["ada"]:
                await visit("GET", "/healthz")
        answer = await visit("GET", "/v1/inbox?wait=60", headers=ada)
        assert answer.told == (429, "too_many", "live_per_owner")
        assert (await visit("GET", "/v1/inbox", headers=ada)).status == 200  # one that does not wait
        assert (await visit("GET", "/v1/inbox?wait=0.01", headers=eve)).status == 200
        visit.alarms.service.inbox_signal.stop()
        assert (await waiting).status == 200
        assert not visit.alarms.service.connections._taken

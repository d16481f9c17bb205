"""How late alarms are while many follow along: none, then 450 streams that read and 50 that do not, in one server.

A real `wakeful serve` in a process of its own, the streams from another. Lateness is from the moment set to the first
line of the handler; the gaps are those between two renewals of the leases of what is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

import wakeful
from bench.worlds import World

READING = 450
STUCK = 50
PER_SECOND = 40
SECONDS = 15.0
LEASE = timedelta(seconds=6)  # renewed every two seconds
HELD = 20  # deliveries that stay under way, so that there is something to renew
LEAD = 5.0  # seconds to set them all in, also on a busy machine
_SPAWN = multiprocessing.get_context("spawn")


def run(world: World) -> Iterator[dict[str, Any]]:
    with world.fresh() as place, _process(_serve, place) as server:
        url: str = server.recv()
        alone = _phase(server)
        with _process(_follow, url) as followers:
            followers.recv()  # all are connected
            beside = _phase(server)
            followers.send("enough")
            heard: dict[str, int] = followers.recv()
        server.send("end")
    for listeners, seen in ((0, alone), (READING + STUCK, beside)):
        yield {"bench": "live", "store": world.store, "listeners": listeners, **seen}
    yield {"bench": "live", "store": world.store, **heard}


def _phase(server: Connection) -> dict[str, Any]:
    server.send("go")
    seen: dict[str, Any] = server.recv()
    return seen


@contextlib.contextmanager
def _process(work: Any, given: Any) -> Iterator[Connection]:
    told, other = _SPAWN.Pipe()
    process = _SPAWN.Process(target=work, args=(other, given))
    process.start()
    try:
        yield told
    finally:
        process.join(20)
        if process.is_alive():
            process.terminate()
            process.join()


# The server


def _serve(told: Connection, place: dict[str, Any]) -> None:
    from wakeful.process.application import build
    from wakeful.process.server import serve
    from wakeful.settings import Settings

    async def run() -> None:
        settings = Settings(port=0, lease=LEASE, creates_per_minute=1_000_000, **place)
        async with build(settings) as alarms:
            late, renewals = _watched(alarms)
            ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            serving = asyncio.create_task(serve(alarms, ready=ready.set_result))
            told.send(await ready)
            while await asyncio.to_thread(told.recv) == "go":
                late.clear()
                renewals.clear()
                burnt = time.process_time()
                await _alarms(alarms)
                told.send(_summary(late, renewals, time.process_time() - burnt))
            serving.cancel()
            await asyncio.wait((serving,))

    asyncio.run(run())


def _watched(alarms: wakeful.LocalWakeful) -> tuple[list[float], list[float]]:
    """Lists that fill with how late each wake was, and when leases were renewed."""
    late: list[float] = []
    renewals: list[float] = []
    renew = alarms._store.renew

    async def noted(claims: Any) -> Any:
        renewals.append(time.monotonic())
        return await renew(claims)

    alarms._store.renew = noted  # type: ignore[method-assign]  # only looked at

    @alarms.handler("punctual")
    async def punctual(wake: wakeful.Wake) -> None:
        late.append((time.time() - wake.scheduled_for.timestamp()) * 1000)

    @alarms.handler("held")
    async def held(wake: wakeful.Wake) -> None:
        await asyncio.sleep(SECONDS + 2)

    return late, renewals


async def _alarms(alarms: wakeful.Wakeful) -> None:
    start = datetime.now(UTC) + timedelta(seconds=LEAD)
    moments = [start + timedelta(seconds=n / PER_SECOND) for n in range(int(PER_SECOND * SECONDS))]
    await asyncio.gather(
        *(alarms.set(at=start, wake_message="x", target="held") for _ in range(HELD)),
        *(alarms.set(at=moment, wake_message="x", target="punctual") for moment in moments),
    )
    await asyncio.sleep((start - datetime.now(UTC)).total_seconds() + SECONDS + 4)


def _summary(late: list[float], renewals: list[float], burnt: float) -> dict[str, Any]:
    late = sorted(late)
    gaps = [after - before for before, after in itertools.pairwise(renewals)]
    points = {f"p{p}_ms": round(late[min(len(late) - 1, len(late) * p // 100)], 1) for p in (50, 99)}
    return {
        "fires": len(late),
        **points,
        "max_ms": round(late[-1], 1),
        "renewals": len(renewals),
        "longest_gap_s": round(max(gaps, default=0.0), 2),
        "cpu_s": round(burnt, 1),
    }


# Those who follow


class _Stream(asyncio.Protocol):
    def __init__(self) -> None:
        self.events = self.size = 0
        self.dropped = self.ended = False
        self.begun = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        self.events += data.count(b"\nid: ") or data.count(b"id: ")
        self.dropped |= b"event: dropped" in data
        if not self.begun.done():
            self.begun.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = True
        if not self.begun.done():
            self.begun.set_result(None)


def _follow(told: Connection, url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    head = f"GET /v1/events HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()

    async def follow() -> None:
        loop = asyncio.get_running_loop()
        reading, stuck = list[_Stream](), list[_Stream]()
        transports = list[Any]()
        for n in range(READING + STUCK):
            sock = socket.socket()
            if n >= READING:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await loop.sock_connect(sock, (host, int(port)))
            transport, stream = await loop.create_connection(_Stream, sock=sock)
            transports.append(transport)
            transport.write(head)
            await stream.begun
            if n >= READING:
                transport.pause_reading()
            (reading if n < READING else stuck).append(stream)
        told.send("ready")
        await asyncio.to_thread(told.recv)
        for transport in transports[READING:]:
            transport.resume_reading()
        await asyncio.sleep(2)  # time for the last word to those who did not read
        told.send(
            {
                "events_told": sum(stream.events for stream in reading),
                "fewest_to_one": min(stream.events for stream in reading),
                "readers_lost": sum(stream.ended for stream in reading),
                "stuck_told_why": sum(stream.dropped for stream in stuck),
                "stuck_hung_up_on": sum(stream.ended and not stream.dropped for stream in stuck),
            }
        )

    asyncio.run(follow())

"""How late alarms are while 64 receivers of webhooks do their worst: a wake every 50 ms to a handler beside them.

The receivers are in a process of their own. Each has a wake under way all the time, but for a pause of a second between
two, as the shortest backoff leaves. Lateness is from the moment set to the first line of the handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import wakeful
from bench.worlds import World
from wakeful.clock import SystemClock
from wakeful.process.application import open_local
from wakeful.process.server import tune_interpreter
from wakeful.targets.webhook import Webhook
from wakeful.testing.targets import a_wake

HOSTILE = 64
EVERY = 0.05
SECONDS = 15.0
PAUSE = 1.0
TIMEOUT = 5.0
_SPAWN = multiprocessing.get_context("spawn")
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_CHUNKED = _OK + b"transfer-encoding: chunked\r\n\r\n"


def run(world: World) -> Iterator[dict[str, Any]]:
    told, other = _SPAWN.Pipe()
    receivers = _SPAWN.Process(target=_receive, args=(other,))
    receivers.start()
    try:
        ports: dict[str, int] = told.recv()
        for hostile in (0, HOSTILE):
            with world.fresh() as place:
                yield {
                    "bench": "hostile",
                    "store": world.store,
                    "hostile": hostile,
                    **asyncio.run(_measure(place, ports, hostile)),
                }
    finally:
        told.send("end")
        receivers.join(10)
        if receivers.is_alive():
            receivers.terminate()


async def _measure(place: dict[str, Any], ports: dict[str, int], hostile: int) -> dict[str, Any]:
    late: list[float] = []
    ends: Counter[str] = Counter()
    async with open_local(**place) as alarms:
        tune_interpreter(alarms)  # as `wakeful worker` does

        @alarms.handler("quick")
        async def quick(wake: wakeful.Wake) -> None:
            late.append((time.time() - wake.scheduled_for.timestamp()) * 1000)

        running = asyncio.create_task(alarms.run())
        kinds = [*ports.items()]
        worst = [asyncio.create_task(_bother(*kinds[n % len(kinds)], ends)) for n in range(hostile)]
        start = datetime.now(UTC) + timedelta(seconds=2)
        count = int(SECONDS / EVERY)
        await asyncio.gather(
            *(
                alarms.set(at=start + timedelta(seconds=EVERY * n), wake_message="x", target="quick")
                for n in range(count)
            )
        )
        await asyncio.sleep(SECONDS + 4)
        for task in (*worst, running):
            task.cancel()
        await asyncio.gather(*worst, running, return_exceptions=True)
    late.sort()
    points = {f"p{p}_ms": round(late[min(len(late) - 1, len(late) * p // 100)], 1) for p in (50, 99)}
    return {"fires": len(late), **points, "max_ms": round(late[-1], 1), "answers": dict(ends)}


async def _bother(kind: str, port: int, ends: Counter[str]) -> None:
    target = Webhook(
        url=f"http://127.0.0.1:{port}/", timeout=TIMEOUT, allow_private=True, clock=SystemClock(), secret=""
    )
    try:
        while True:
            await target.deliver(a_wake("x"))
            ends[kind] += 1
            await asyncio.sleep(PAUSE)
    finally:
        await target.close()


# The receivers


async def _headers() -> AsyncIterator[bytes]:
    yield _OK
    while True:
        yield b"".join(b"x-%d: y\r\n" % n for n in range(5000))


async def _long_line() -> AsyncIterator[bytes]:
    yield _OK + b"x-long: "
    while True:
        yield b"y" * 65_536


async def _interim() -> AsyncIterator[bytes]:
    while True:
        yield b"HTTP/1.1 102 Processing\r\n\r\n" * 5000


async def _drip() -> AsyncIterator[bytes]:
    yield _CHUNKED
    while True:
        yield b"1\r\nx\r\n"
        await asyncio.sleep(0.01)


async def _endless() -> AsyncIterator[bytes]:
    yield _OK + b"\r\n"
    while True:
        yield b"x" * 262_144


@cache
def _packed() -> bytes:
    return gzip.compress(bytes(64_000_000))


async def _bomb() -> AsyncIterator[bytes]:
    yield _OK + b"content-encoding: gzip\r\n\r\n"
    while True:
        yield _packed()


async def _tiny_chunks() -> AsyncIterator[bytes]:
    yield _CHUNKED
    while True:
        yield b"1\r\nx\r\n" * 50_000


async def _extensions() -> AsyncIterator[bytes]:
    yield _CHUNKED
    while True:
        yield b"1;" + b"e=1;" * 4000 + b"\r\nx\r\n"


_KINDS: tuple[Callable[[], AsyncIterator[bytes]], ...] = (
    *(_headers, _long_line, _interim, _drip, _endless, _bomb, _tiny_chunks, _extensions),
)


def _receive(told: Connection) -> None:
    os.nice(19)  # they are to take the loop's time, not the processor's: elsewhere they have machines of their own

    async def serve() -> None:
        ports = {}
        for kind in _KINDS:
            server = await asyncio.start_server(_answering(kind), "127.0.0.1", 0)
            ports[kind.__name__.strip("_")] = server.sockets[0].getsockname()[1]
        _packed()
        told.send(ports)
        await asyncio.to_thread(told.recv)
        os._exit(0)  # those who are being answered would be told, one by one

    asyncio.run(serve())


def _answering(kind: Callable[[], AsyncIterator[bytes]]) -> Any:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            async for piece in kind():
                writer.write(piece)
                await writer.drain()
        writer.close()

    return answer

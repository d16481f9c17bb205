"""Many connections: silent ones without a token, requests that never end, and waits beyond the seats."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from .attack import attack, tried, unless
from .house import FILES, House, Visitor
from .records import Tried

SILENT: Final = 1100
SEATS: Final = 32  # the setting live_per_owner, as it is by default


@contextlib.asynccontextmanager
async def connected(house: House, count: int, says: bytes = b"") -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections that say this and then nothing."""
    writers: list[asyncio.StreamWriter] = []
    readers: list[asyncio.StreamReader] = []

    async def one() -> None:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
            readers.append(reader)
            writers.append(writer)
            writer.write(says)

    try:
        for _ in range(0, count, 50):
            await asyncio.gather(*(one() for _ in range(50)))
        yield readers
    finally:
        for writer in writers:
            writer.transport.abort()


async def held(house: House, until: float, count: int, says: bytes = b"") -> dict[str, int]:
    """Stand there; what was put down is replaced, as a flood does."""
    opened = closed = 0
    while time.monotonic() < until:
        async with connected(house, count, says) as lines:
            opened += len(lines)
            await asyncio.sleep(max(0.0, min(2.0, until - time.monotonic())))
            closed += sum(line.at_eof() or line.exception() is not None for line in lines)
    return {"opened": opened, "hung up": closed}


@attack("1,100 silent sockets without a token", stage=5)
async def silent(house: House, until: float) -> Tried:
    came = await held(house, until, SILENT)
    return tried(f"{came['opened']} connections, {SILENT} at once, at a process that may have {FILES} files", came)


@attack("300 requests that stop in their head", stage=5)
async def half_heads(house: House, until: float) -> Tried:
    came = await held(house, until, 300, b"GET /v1/alarms HTTP/1.1\r\nhost: 127.0.0.1\r\nx-half: ")
    return tried(f"{came['opened']} connections, without a token", came)


@attack("600 requests that stop in their body", stage=6)
async def half_bodies(house: House, until: float) -> Tried:
    head = (
        "POST /v1/alarms HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n"
        f"authorization: Bearer {house.tokens['crowd']}\r\n\r\n{{"
    )
    came = await held(house, until, 600, head.encode())
    return tried(f"{came['opened']} connections with one owner's token", came)


async def _wait(visitor: Visitor, until: float) -> None:
    wait = max(0.1, until - time.monotonic())
    reply = await visitor("POST", f"/v1/inbox?wait={wait:.1f}")
    if reply.status != 200:
        await asyncio.sleep(0.05)


@attack("waits at the inbox beyond the seats", stage=5)
async def waits(house: House, until: float) -> Tried:
    async with house.as_owner("crowd") as crowd:
        await asyncio.gather(*(_wait(crowd, until) for _ in range(200)))
    came: Counter[str] = Counter(crowd.came)
    return tried(
        f"200 at once by one owner: {came['200']} were let wait",
        came,
        unless(came["200"] <= SEATS, f"{came['200']} waited"),
        unless(came["429"], "none was refused"),
    )

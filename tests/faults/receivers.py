"""A process with one honest receiver that writes down every wake, and hostile ones beside it: each a port of its own.

python -m tests.faults.receivers FOLDER: writes FOLDER/ports.json when it listens, FOLDER/wakes.jsonl as it goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from .profiles import STEADY
from .records import Notes, Seen, Stall

NOTICED: Final = 0.1  # seconds that a stall lasts at least
SLOW: Final = 6.0  # longer than a lease: what is renewed is not sent again
Writer = asyncio.StreamWriter
OK: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Request(msgspec.Struct):
    headers: dict[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[1:-2]
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def send(writer: Writer, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def honest(writer: Writer, request: Request) -> int:
    await send(writer, OK)
    return 200


async def slow(writer: Writer, request: Request) -> int:
    await asyncio.sleep(SLOW)
    await send(writer, OK)
    return 200


async def steady(writer: Writer, request: Request) -> int:
    await asyncio.sleep(STEADY)
    await send(writer, OK)
    return 200


async def flaky(writer: Writer, request: Request) -> int:
    """Refuses every first try."""
    if request.headers.get("wakeful-attempt") != "1":
        return await honest(writer, request)
    return await refuse(writer, request)


async def refuse(writer: Writer, request: Request) -> int:
    await send(writer, b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n")
    return 500


async def hang(writer: Writer, request: Request) -> int:
    """Never answers; ends when the sender has had enough."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            await writer.wait_closed()
    return 0


async def stream(writer: Writer, request: Request) -> int:
    """Says yes and never stops talking."""
    await send(writer, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(600):
        await send(writer, b"400\r\n" + b"x" * 1024 + b"\r\n")
        await asyncio.sleep(0.02)
    return 0


async def reset(writer: Writer, request: Request) -> int:
    """Hangs up in the middle of a word."""
    await send(writer, b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return 0


async def garbage(writer: Writer, request: Request) -> int:
    await send(writer, os.urandom(4096))
    writer.close()
    return 0


def pids() -> dict[str, int]:
    return msgspec.json.decode(Path(os.environ["FAULTS_PIDS"]).read_bytes(), type=dict[str, int])


async def poison(writer: Writer, request: Request) -> int:
    """Kills who sent it, before the answer."""
    if (pid := pids().get(request.headers.get("x-process", ""))) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return 0


RECEIVERS: Final[dict[str, Callable[[Writer, Request], Awaitable[int]]]] = {
    "honest": honest,
    "desk": honest,  # where reports are awaited
    "slow": slow,
    "steady": steady,
    "flaky": flaky,
    "hang": hang,
    "stream": stream,
    "reset": reset,
    "garbage": garbage,
    "refuse": refuse,
    "poison": poison,
}


class Desk:
    def __init__(self, folder: Path) -> None:
        self.notes = Notes(folder / "wakes.jsonl")

    async def serve(self, name: str, reader: asyncio.StreamReader, writer: Writer) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while not writer.is_closing() and (request := await read_request(reader)) is not None:
                await self.take(name, writer, request)
        writer.close()

    async def take(self, name: str, writer: Writer, request: Request) -> None:
        at, status = time.time(), 0
        try:
            status = await RECEIVERS[name](writer, request)
        finally:
            self.note(name, request, at, status)

    def note(self, name: str, request: Request, at: float, status: int) -> None:
        body: dict[str, Any] = msgspec.json.decode(request.body)
        self.notes.add(
            Seen(
                at=at,
                answered=time.time(),
                status=status,
                fire=body["fire_id"],
                alarm=body["alarm_id"],
                attempt=int(request.headers.get("wakeful-attempt", "0")),
                message=body["message"],
                scheduled=int(body["fire_id"].rpartition("@")[2]) / 1000,
                receiver=name,
                process=request.headers.get("x-process", ""),
                late_ms=int(request.headers.get("wakeful-late-ms", "0")),
            )
        )


async def feel_stalls(notes: Notes) -> None:
    """A receiver that could not go on reads late what was sent in time, and answers when nobody waits any more."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.05)
        if (more := time.monotonic() - before - 0.05) > NOTICED:
            notes.add(Stall(time.time(), more))


async def main(folder: Path) -> None:
    desk = Desk(folder)
    feeling = asyncio.create_task(feel_stalls(Notes(folder / "stalls.jsonl")))
    ports = {}
    for name in RECEIVERS:
        server = await asyncio.start_server(partial(desk.serve, name), "127.0.0.1", 0, backlog=512)
        ports[name] = server.sockets[0].getsockname()[1]
    new = folder / "ports.new"
    new.write_bytes(msgspec.json.encode(ports))
    new.rename(folder / "ports.json")
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    feeling.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

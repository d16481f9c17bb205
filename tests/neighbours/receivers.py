"""Receivers that harm who calls them, each at a port of its own, in a process of their own.

python -m tests.neighbours.receivers FOLDER: FOLDER/hostile.json when it listens, FOLDER/hostile.jsonl as it goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.receivers import Request, Writer, read_request, send
from tests.faults.records import Notes

from .records import Woken

JSON: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BOMB: Final = gzip.compress(bytes(100_000_000), 9)


async def interim(writer: Writer) -> None:
    """Promises, and never an answer."""
    while not writer.is_closing():
        await send(writer, b"HTTP/1.1 102 Processing\r\n\r\n" * 1000)


async def header(writer: Writer) -> None:
    """A head that never ends."""
    await send(writer, b"HTTP/1.1 200 OK\r\n")
    while not writer.is_closing():
        await send(writer, b"x-more: " + b"y" * 4000 + b"\r\n")


async def drip(writer: Writer) -> None:
    await send(writer, JSON + b"content-length: 100000\r\n\r\n")
    while not writer.is_closing():
        await send(writer, b" ")
        await asyncio.sleep(0.02)


async def bomb(writer: Writer) -> None:
    """A hundred kilobytes that want to be a hundred million."""
    await send(writer, JSON + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(BOMB) + BOMB)


async def snoozer(writer: Writer) -> None:
    await send(writer, JSON + b'content-length: 17\r\n\r\n{"snooze": 0.001}')


async def refuser(writer: Writer) -> None:
    await send(writer, b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")


HOSTILE: Final[dict[str, Callable[[Writer], Awaitable[None]]]] = {
    "interim": interim,
    "header": header,
    "drip": drip,
    "bomb": bomb,
    "snoozer": snoozer,
    "refuser": refuser,
}


def woken(name: str, request: Request) -> Woken:
    body = msgspec.json.decode(request.body)
    return Woken(at=time.time(), receiver=name, owner=body["owner_did"], alarm=body["alarm_id"])


async def serve(notes: Notes, name: str, reader: asyncio.StreamReader, writer: Writer) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        while not writer.is_closing() and (request := await read_request(reader)) is not None:
            notes.add(woken(name, request))
            await HOSTILE[name](writer)
    writer.close()


async def listen(folder: Path, file: str, servers: dict[str, Callable[..., Awaitable[None]]]) -> None:
    """A port for each; their numbers into a file."""
    ports = {}
    for name, handle in servers.items():
        server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=512)
        ports[name] = server.sockets[0].getsockname()[1]
    new = folder / f"{file}.new"
    new.write_bytes(msgspec.json.encode(ports))
    new.rename(folder / file)


async def main(folder: Path) -> None:
    os.nice(5)  # they stand for machines elsewhere: they must not take the processor from whom they harm
    notes = Notes(folder / "hostile.jsonl")
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await listen(folder, "hostile.json", {name: partial(serve, notes, name) for name in HOSTILE})
    await stopped.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

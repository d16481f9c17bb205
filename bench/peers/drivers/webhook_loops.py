"""Webhooks for a second of processor: wakeful's worker beside the HTTP client alone, to one receiver."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import aiohttp

from bench.peers.drivers import measuring
from bench.peers.drivers.worker_process import WorkerProcess

AT_ONCE = 64  # as a target has by default
_SPAWN = multiprocessing.get_context("spawn")


def measure(place: dict[str, Any], jobs: int, *, recorded: Callable[[], int]) -> dict[str, Any]:
    told, other = _SPAWN.Pipe()
    receiver = _SPAWN.Process(target=_receive, args=(other,))
    receiver.start()
    try:
        url = f"http://127.0.0.1:{told.recv()}/"
        target = {"kind": "webhook", "url": url, "allow_private": True}
        with WorkerProcess({**place, "targets": {"noop": target}}, handler=False) as worker:
            before = worker.cpu_s()
            worker.go()
            measuring.wait_until(lambda: recorded() >= jobs, every=0.05)
            ours = worker.cpu_s() - before
            worker.stop()
        told.send("how many")
        received, length = told.recv()
        measuring.agree("webhooks received", received, jobs)
        bare = asyncio.run(_posted(url, jobs, length))
    finally:
        receiver.terminate()
        receiver.join()
    return {
        "jobs": jobs,
        "per_cpu_s": round(jobs / ours, 1),
        "bare_per_cpu_s": round(jobs / bare, 1),
        "ratio": round(bare / ours, 3),
        "body_bytes": length,
        "recorded": recorded(),
    }


async def _posted(url: str, jobs: int, length: int) -> float:
    """Seconds of the processor for so many posts of a body of the same length by the client alone."""
    body = json.dumps({"wake": "x" * max(0, length - 12)}).encode()
    left = iter(range(jobs))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def poster() -> None:
            for _ in left:
                async with session.post(url, data=body, headers={"content-type": "application/json"}) as response:
                    await response.read()

        started = time.process_time()
        await asyncio.gather(*(poster() for _ in range(AT_ONCE)))
        return time.process_time() - started


def _receive(told: Connection) -> None:
    """A receiver that says 200 to everything, as cheaply as it can."""
    count = longest = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count, longest
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                count, longest = count + 1, max(longest, length)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def say() -> None:
        told.recv()
        told.send((count, longest))

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        asyncio.get_running_loop().add_reader(told.fileno(), say)
        await server.serve_forever()

    asyncio.run(serve())

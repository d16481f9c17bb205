"""Creates per second over HTTP, and what each costs the server, beside a bare echo of the same body.

64 keep-alive connections from another process. CPU is the server's own, user and system, with all its threads.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
import uvloop
from msgspec import Raw, Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.worlds import World

CONNECTIONS = 64
REQUESTS = 6_000
WARM_UP = 600
ROUNDS = 7
BODY = json.dumps(
    {"wake_message": "wake up and look at the portal", "delay_seconds": 3600, "payload": {"page": 3, "seen": [1, 2, 3]}}
).encode()
_SPAWN = multiprocessing.get_context("spawn")


def run(world: World) -> Iterator[dict[str, Any]]:
    with world.fresh() as place:
        with _Server(_serve_wakeful, place) as ours, _Server(_serve_bare, {}) as bare:
            # In turns, so that the machine's moods meet both; the middle of the rounds counts.
            rounds = [(_round(ours), _round(bare)) for _ in range(ROUNDS)]
    per_s, p99, cpu = _middle([one for one, _ in rounds])
    bare_per_s, bare_p99, bare_cpu = _middle([other for _, other in rounds])
    yield {
        "bench": "http",
        "store": world.store,
        "how": f"{CONNECTIONS} connections",
        "per_s": round(per_s),
        "p99_ms": round(1000 * p99, 1),
        "cpu_us": round(cpu),
        "bare_per_s": round(bare_per_s),
        "bare_p99_ms": round(1000 * bare_p99, 1),
        "bare_cpu_us": round(bare_cpu),
        "ratio": round(statistics.median(one[0] / other[0] for one, other in rounds), 2),
    }


def _middle(rounds: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    per_s, p99, cpu = (statistics.median(figures) for figures in zip(*rounds, strict=True))
    return per_s, p99, cpu


def _round(server: _Server) -> tuple[float, float, float]:
    """Requests per second, the time that 99 of 100 stayed below, and microseconds of the server's CPU for each."""
    before = server.cpu()
    per_s, p99 = _ask(server.url)
    return per_s, p99, 1e6 * (server.cpu() - before) / (REQUESTS + WARM_UP)


class _Server:
    """A process of its own that serves until it is told to end."""

    def __init__(self, serve: Callable[[Connection, dict[str, Any]], None], place: dict[str, Any]) -> None:
        self._told, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=serve, args=(other, place))

    def __enter__(self) -> _Server:
        self._process.start()
        self.url: str = self._told.recv()
        return self

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()


def _serve_wakeful(ready: Connection, place: dict[str, Any]) -> None:
    from wakeful.process.application import build
    from wakeful.process.server import run_process, serve
    from wakeful.settings import Settings

    async def run() -> None:
        async with build(Settings(port=0, **place)) as alarms:
            await serve(alarms, ready=ready.send)

    run_process(run())


class _Body(Struct):
    wake_message: str
    delay_seconds: float
    payload: Raw


def _serve_bare(ready: Connection, _: dict[str, Any]) -> None:
    """The framework and nothing else, on the same parser and event loop: the body decoded, and said back."""

    async def echo(request: Request) -> Response:
        body = msgspec.json.decode(await request.body(), type=_Body)
        return Response(msgspec.json.encode(body), 201, media_type="application/json")

    async def run() -> None:
        app = Starlette(routes=[Route("/v1/alarms", echo, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, port=0, http="httptools", access_log=False, log_level="warning"))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready.send(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
        await serving

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def _ask(url: str, *, warm_up: int = WARM_UP, requests: int = REQUESTS) -> tuple[float, float]:
    """Requests per second, and the time that 99 of 100 stayed below; measured in another process."""
    told, other = _SPAWN.Pipe()
    client = _SPAWN.Process(target=_client, args=(other, url, warm_up, requests))
    client.start()
    per_s, p99 = told.recv()
    client.join()
    return per_s, p99


def _client(told: Connection, url: str, warm_up: int, requests: int) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    head = f"POST /v1/alarms HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY

    async def connection(left: Iterator[int], took: list[float]) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for _ in left:
            started = time.perf_counter()
            writer.write(request)
            # A library's client costs more than the server; these answers are simple enough to read by hand.
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 201"), answer
            length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            took.append(time.perf_counter() - started)
        writer.close()

    async def many(n: int) -> list[float]:
        left, took = iter(range(n)), list[float]()
        await asyncio.gather(*(connection(left, took) for _ in range(CONNECTIONS)))
        return took

    asyncio.run(many(warm_up))
    started = time.perf_counter()
    took = asyncio.run(many(requests))
    told.send((requests / (time.perf_counter() - started), statistics.quantiles(took, n=100)[98]))


def cpu_per_create(place: dict[str, Any], *, requests: int) -> dict[str, Any]:
    """What one durable create costs the server's process, user and system; the client is another process."""
    with _Server(_serve_wakeful, place) as ours:
        _ask(ours.url, warm_up=0, requests=max(1, requests // 10))
        before = ours.cpu()
        per_s, _ = _ask(ours.url, warm_up=0, requests=requests)
        used = ours.cpu() - before
    return {"jobs": requests, "per_s": round(per_s, 1), "cpu_us": round(1e6 * used / requests, 1)}

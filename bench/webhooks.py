"""What a webhook costs a worker's process, beside the HTTP client alone posting the same signed bodies.

Due alarms are drained to a receiver on loopback, in a process of its own, which only says 200. CPU is that of the
process that sends, user and system, with all its threads; a core's webhooks a second are its inverse. A round drains,
then posts as many in a bare loop, as many at once; the middle of the rounds counts.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import aiohttp

import wakeful
from bench import bare
from bench.worlds import World
from wakeful.clock import SystemClock
from wakeful.dispatcher import ServedTarget
from wakeful.model.outcome import Outcome
from wakeful.process.application import build
from wakeful.process.server import run_process, tune_interpreter
from wakeful.rules.wake import Wake
from wakeful.settings import Settings
from wakeful.targets import Target
from wakeful.targets.webhook import Webhook
from wakeful.testing import targets_of
from wakeful.testing.targets import a_wake

WEBHOOKS = 5_000
WARM_UP = 200
AT_ONCE = 64  # the default of one target
ROUNDS = 3
SECRET = "whsec_" + "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
TARGET = "noop"  # the name that `bare.fill` gives
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
_SPAWN = multiprocessing.get_context("spawn")
Figures = tuple[float, float]  # a second, and microseconds of CPU for each


def run(world: World) -> Iterator[dict[str, Any]]:
    told, other = _SPAWN.Pipe()
    receiver = _SPAWN.Process(target=_receive, args=(other,))
    receiver.start()
    try:
        url: str = told.recv()
        rounds = [(_drained(world, url), _asked(_post, url)) for _ in range(ROUNDS)]
    finally:
        receiver.terminate()
        receiver.join()
    (per_s, cpu), (bare_per_s, bare_cpu) = (
        [statistics.median(figures) for figures in zip(*those, strict=True)] for those in zip(*rounds, strict=True)
    )
    yield {
        "bench": "webhooks",
        "store": world.store,
        "webhooks": WEBHOOKS,
        "at_once": AT_ONCE,
        "per_s": round(per_s),
        "cpu_us": round(cpu),
        "per_core_s": round(1e6 / cpu),
        "bare_per_s": round(bare_per_s),
        "bare_cpu_us": round(bare_cpu),
        "ratio": round(statistics.median(client[1] / ours[1] for ours, client in rounds), 2),
    }


def _drained(world: World, url: str) -> Figures:
    with world.fresh() as place:
        asyncio.run(_prepare(place))
        return _asked(_drain, url, place)


async def _prepare(place: dict[str, Any]) -> None:
    async with wakeful.open(**place):
        pass
    bare.fill(place, WEBHOOKS, due=True)
    bare.analyze(place)


def _asked(do: Callable[..., None], *args: Any) -> Figures:
    """In a process of its own, so that its CPU is its own too."""
    told, other = _SPAWN.Pipe()
    process = _SPAWN.Process(target=do, args=(other, *args))
    process.start()
    figures: Figures = told.recv()
    process.join()
    return figures


class _Measured:
    """From here to `figures`: how long it took, and what it cost this process."""

    def __init__(self) -> None:
        self._began, self._cpu = time.perf_counter(), _cpu()

    def figures(self) -> Figures:
        return WEBHOOKS / (time.perf_counter() - self._began), 1e6 * (_cpu() - self._cpu) / WEBHOOKS


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class _Counting:
    """The target, and a call when it was delivered to so often."""

    def __init__(self, target: Target, count: int, then: Callable[[], None]) -> None:
        self._target = target
        self._left = count
        self._then = then

    async def deliver(self, wake: Wake) -> Outcome:
        outcome = await self._target.deliver(wake)
        self._left -= 1
        if not self._left:
            self._then()
        return outcome

    async def close(self) -> None:
        await self._target.close()


def _drain(told: Connection, url: str, place: dict[str, Any]) -> None:
    hook = {"kind": "webhook", "url": url, "secret": SECRET, "allow_private": True}

    async def drain() -> None:
        async with build(Settings(**place, targets={TARGET: hook})) as alarms:
            tune_interpreter(alarms)  # as `wakeful worker` does
            served = targets_of(alarms)
            counting = _Counting(served[TARGET].target, WEBHOOKS, lambda: alarms.dispatcher.stop())
            served[TARGET] = ServedTarget(counting, served[TARGET].concurrency)
            measured = _Measured()
            await alarms.dispatcher.run()  # returns once the last one is settled
            figures = measured.figures()
            stats = await alarms.stats()
            assert stats.fired == WEBHOOKS, stats
            told.send(figures)

    run_process(drain())


def _post(told: Connection, url: str) -> None:
    """aiohttp and nothing else: no database, no limits, one body that was signed before."""
    hook = Webhook(url=url, secret=SECRET, allow_private=True, clock=SystemClock())
    wake = a_wake("x")
    headers, body = hook._signed(wake, wake.body), wake.body

    async def worker(session: aiohttp.ClientSession, left: Iterator[int]) -> None:
        for _ in left:
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()

    async def post() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            for count in (WARM_UP, WEBHOOKS):
                measured, left = _Measured(), iter(range(count))
                await asyncio.gather(*(worker(session, left) for _ in range(AT_ONCE)))
            told.send(measured.figures())

    run_process(post())


def _receive(told: Connection) -> None:
    class Answer(asyncio.Protocol):
        """Knows only how long a request is: that is all it has to cost."""

        _transport: Any  # uvloop's are not asyncio's
        _said = b""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = transport

        def data_received(self, data: bytes) -> None:
            self._said += data
            head, end, rest = self._said.partition(b"\r\n\r\n")
            if end and len(rest) >= int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0]):
                self._said = b""
                self._transport.write(_ANSWER)

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Answer, "127.0.0.1", 0)
        told.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        await server.serve_forever()

    run_process(serve())

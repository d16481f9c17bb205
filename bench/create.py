"""Creates per second, each durable when it is answered: one at a time, 64 at once, in bulk; and the bare inserts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from statistics import median
from typing import Any

from tests.acting import Draft, keep_many

import wakeful
from bench import bare
from bench.worlds import World
from wakeful.server import tune_interpreter

ROUNDS = 5  # alone and together in turn: the machine's speed changes from one second to the next
ALONE = 300
TOGETHER = 6_000
CALLERS = 64


def run(world: World) -> Iterator[dict[str, Any]]:
    with world.fresh() as place:
        one, together, bulk = asyncio.run(_measure(place))
    with world.fresh() as place:
        asyncio.run(_migrate(place))
        bare_one = bare.inserts(place, ROUNDS * ALONE, at_once=1)
    with world.fresh() as place:
        asyncio.run(_migrate(place))
        bare_together = bare.inserts(place, ROUNDS * TOGETHER, at_once=CALLERS)
    told = {"bench": "create", "store": world.store}
    yield told | {"how": "one at a time"} | _beside(one, bare_one)
    yield (
        told
        | {"how": "64 at once"}
        | _beside(together, bare_together)
        | {"times_one_at_a_time": round(together / one, 1)}
    )
    yield told | {"how": "bulk of 1000", "per_s": round(bulk)}


def _beside(ours: float, bare: float) -> dict[str, Any]:
    return {"per_s": round(ours), "bare_per_s": round(bare), "ratio": round(ours / bare, 2)}


async def _migrate(place: dict[str, Any]) -> None:
    async with wakeful.open(**place):
        pass


async def _measure(place: dict[str, Any]) -> tuple[float, float, float]:
    async with wakeful.open(**place) as clock:
        tune_interpreter(clock)  # as `wakeful serve` does

        async def create(n: int) -> None:
            await clock.set(delay=3600 + n, wake_message="wake up", payload={"n": n})

        await create(0)
        alone, together = [], []
        for _ in range(ROUNDS):
            alone.append(await _rate(create, ALONE, callers=1))
            together.append(await _rate(create, TOGETHER, callers=CALLERS))

        drafts = [Draft(owner_did="local", wake_message="wake up", when="in 2 hours") for _ in range(1_000)]
        started = time.perf_counter()
        for _ in range(20):
            await keep_many(clock.service, drafts)
        bulk = 20_000 / (time.perf_counter() - started)
    return median(alone), median(together), bulk


async def _rate(create: Callable[[int], Awaitable[None]], count: int, *, callers: int) -> float:
    """So many creates by callers who each wait for theirs; how many a second."""
    left = iter(range(count))

    async def caller() -> None:
        for n in left:
            await create(n)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count / (time.perf_counter() - started)

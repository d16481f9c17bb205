"""Creates per second, each durable when it is answered: one at a time, 64 at once, in bulk; and the bare inserts.

Bulk is calls of 1,000 with `fire_at`, in turn with bare rows of the same content: COPY and an `unnest` of two arrays on
PostgreSQL, `executemany` on SQLite. `cpu_us` is the processor time of this process for one create, which other work on
the machine disturbs less than the rate; SQLite itself is part of it, the server of PostgreSQL is not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

from msgspec import Raw

from bench import bare
from bench.worlds import World
from wakeful.model.requests import CreateRequest
from wakeful.process.application import open_local
from wakeful.process.server import tune_interpreter

ROUNDS = 5  # alone and together in turn: the machine's speed changes from one second to the next
ALONE = 300
TOGETHER = 6_000
CALLERS = 64
BULK = 1_000
BULK_ROUNDS = 40


def run(world: World) -> Iterator[dict[str, Any]]:
    with world.fresh() as place:
        one, together = asyncio.run(_measure(place))
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
    yield from (told | line for line in bulk(world))


def bulk(world: World) -> Iterator[dict[str, Any]]:
    """Calls of 1,000, in turn with bare ones."""
    with world.fresh() as place, world.fresh() as bare_place:
        asyncio.run(_migrate(bare_place))
        told = asyncio.run(_bulk(place, bare_place))
    bare_rates = {name: median(rates) for name, (rates, _) in told.items() if name.startswith("bare")}
    for name, (rates, cpu) in told.items():
        line = {"how": f"bulk of {BULK}, {name}", "per_s": round(median(rates)), "cpu_us": round(median(cpu), 1)}
        if name not in bare_rates:
            line |= {f"of_{bare}": round(median(rates) / rate, 2) for bare, rate in bare_rates.items()}
        yield line


async def _bulk(place: dict[str, Any], bare_place: dict[str, Any]) -> dict[str, tuple[list[float], list[float]]]:
    async with open_local(**place) as alarms:
        tune_interpreter(alarms)
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
        at = [(moment + timedelta(milliseconds=n)).isoformat() for n in range(BULK)]
        kinds: dict[str, list[dict[str, Any]]] = {
            "fire_at": [{"fire_at": when} for when in at],
            "delay_seconds": [{"delay_seconds": 3600 + n} for n in range(BULK)],
            "a phrase": [{"when": "in 2 hours"}] * BULK,
        }
        asked = {name: [_request(n, said) for n, said in enumerate(times)] for name, times in kinds.items()}
        ours = {name: partial(alarms.create_many, requests) for name, requests in asked.items()}
        async with bare.bulks(bare_place, BULK) as bares:
            calls: dict[str, Callable[[], Awaitable[Any]]] = {**ours, **bares}
            found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in calls}
            for _ in range(BULK_ROUNDS):
                for name, call in calls.items():
                    started, used = time.perf_counter(), time.process_time()
                    await call()
                    found[name][0].append(BULK / (time.perf_counter() - started))
                    found[name][1].append((time.process_time() - used) / BULK * 1e6)
    return found


def _beside(ours: float, bare: float) -> dict[str, Any]:
    return {"per_s": round(ours), "bare_per_s": round(bare), "ratio": round(ours / bare, 2)}


def _request(n: int, time_said: dict[str, Any]) -> CreateRequest:
    return CreateRequest(wake_message="wake up", payload=Raw(b'{"n": %d}' % n), **time_said)


async def _migrate(place: dict[str, Any]) -> None:
    async with open_local(**place):
        pass


async def _measure(place: dict[str, Any]) -> tuple[float, float]:
    async with open_local(**place) as alarms:
        tune_interpreter(alarms)  # as `wakeful serve` does

        async def create(n: int) -> None:
            await alarms.set(delay=3600 + n, wake_message="wake up", payload={"n": n})

        await create(0)
        alone, together = [], []
        for _ in range(ROUNDS):
            alone.append(await _rate(create, ALONE, callers=1))
            together.append(await _rate(create, TOGETHER, callers=CALLERS))
    return median(alone), median(together)


async def _rate(create: Callable[[int], Awaitable[None]], count: int, *, callers: int) -> float:
    """So many creates by callers who each wait for theirs; how many a second."""
    left = iter(range(count))

    async def caller() -> None:
        for n in left:
            await create(n)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count / (time.perf_counter() - started)

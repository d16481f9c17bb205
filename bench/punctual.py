"""How late alarms are: 300 of them over 10 seconds, from the moment set to the first line of the handler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import wakeful
from bench.worlds import World
from wakeful.process.application import open_local
from wakeful.process.server import tune_interpreter

ALARMS = 300
SECONDS = 10.0


def run(world: World) -> Iterator[dict[str, Any]]:
    with world.fresh() as place:
        late = sorted(asyncio.run(_measure(place)))
    points = {f"p{p}_ms": round(late[min(len(late) - 1, len(late) * p // 100)], 2) for p in (50, 95, 99)}
    bare = sorted(asyncio.run(_bare()))
    yield {
        "bench": "punctual",
        "store": world.store,
        "alarms": len(late),
        **points,
        "max_ms": round(late[-1], 2),
        "bare_timer_p50_ms": round(bare[len(bare) // 2], 2),
        "bare_timer_p99_ms": round(bare[len(bare) * 99 // 100], 2),
    }


async def _measure(place: dict[str, Any]) -> list[float]:
    late: list[float] = []
    async with open_local(**place) as alarms:
        tune_interpreter(alarms)  # as `wakeful worker` does

        @alarms.handler("noop")
        async def noop(wake: wakeful.Wake) -> None:
            late.append((time.time() - wake.scheduled_for.timestamp()) * 1000)
            if len(late) == ALARMS:
                alarms.dispatcher.stop()

        start = datetime.now(UTC) + timedelta(seconds=2)
        for n in range(ALARMS):
            moment = start + timedelta(seconds=SECONDS * n / ALARMS)
            await alarms.set(at=moment, wake_message="now", target="noop")
        await alarms.run()
    return late


async def _bare() -> list[float]:
    """The event loop's own timers, with nothing around them."""
    late: list[float] = []
    for _ in range(100):
        due = time.perf_counter() + 0.02
        await asyncio.sleep(0.02)
        late.append((time.perf_counter() - due) * 1000)
    return late

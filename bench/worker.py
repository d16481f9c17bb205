"""The process that drains: python -m bench.worker PLACE ALARMS BATCH; prints what it saw."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import Any

import wakeful
from wakeful.server import tune_interpreter


async def drain(place: dict[str, Any], alarms: int, batch: int) -> dict[str, float]:
    done = 0
    async with wakeful.open(**place, batch=batch) as clock:
        tune_interpreter(clock)  # as `wakeful worker` does

        @clock.handler("noop")
        async def noop(wake: wakeful.Wake) -> None:
            nonlocal done
            done += 1
            if done == alarms:
                clock.dispatcher.stop()

        started = time.perf_counter()
        await clock.run()  # returns once the last one is settled
        seconds = time.perf_counter() - started
        stats = await clock.service.store.stats(most=alarms + 1)  # all of them, not only the latest
        assert stats.completed == alarms, stats
    return {
        "per_s": round(alarms / seconds),
        "seconds": round(seconds, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(drain(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))

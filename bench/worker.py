"""The process that drains: python -m bench.worker PLACE ALARMS; prints what it saw."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import wakeful
from wakeful.process.application import open_local
from wakeful.process.server import run_process, tune_interpreter


async def drain(place: dict[str, Any], alarms: int) -> None:
    done = 0
    async with open_local(**place) as clock:
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
    told = {
        "per_s": round(alarms / seconds),
        "seconds": round(seconds, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    run_process(drain(json.loads(sys.argv[1]), int(sys.argv[2])))  # as `wakeful worker` does

"""How long it takes to understand when: cron, shared schedules, phrases, and importing the room.

python -m bench.when
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

from wakeful.schedule import parse, schedule, zone
from wakeful.schedule.cron import Cron
from wakeful.schedule.wall_schedule import WallSchedule

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)
BERLIN = "Europe/Berlin"
PHRASES = [
    *("in 30 minutes", "2 hours and 30 minutes from now", "in 3 days at 5pm", "tomorrow at 9am", "tonight at 8"),
    *("friday at 3pm", "next tuesday", "aug 3", "3rd of august 2027", "2026-11-20T15:00:00Z", "11/20 at noon"),
    *("2nd friday of march", "half past 2", "at 5", "1795186800", "every day at 9am", "every weekday at 9am"),
    *("mondays and thursdays at 3:15pm", "every 15 minutes", "every 90 minutes", "15th of every month at 10am"),
    *("every july 4th at noon", "first monday of every month at 9am", "last friday of the month at 5pm"),
    *("0 9 * * 1-5", "@daily", "@every 90m", "CRON_TZ=Asia/Tokyo 0 9 * * *"),
]


def run() -> Iterator[dict[str, Any]]:
    yield cron()
    yield shared()
    yield phrases()
    yield importing()


def cron() -> dict[str, Any]:
    """Reading `0 9 * * 1-5` and finding its next fire, from scratch each time."""
    tz = zone(BERLIN)
    micros = micros_per_call(lambda: Cron("0 9 * * 1-5", tz).after(NOW), rounds=100)
    return {"bench": "when", "what": "cron parse and next", "microseconds": round(micros, 1), "limit": 50}


def shared(alarms: int = 100_000) -> dict[str, Any]:
    """That many alarms on one expression, settled one after the other, each asking for its next fire."""
    searches = 0
    search = Cron.search

    def counting(self: WallSchedule, start: datetime) -> datetime | None:
        nonlocal searches
        searches += 1
        return search(self, start)

    Cron.search = counting  # type: ignore[method-assign]  # only while counting
    try:
        started = perf_counter()
        for n in range(alarms):
            schedule("0 9 * * 1-5", BERLIN).after(NOW + timedelta(milliseconds=n))
        seconds = perf_counter() - started
    finally:
        Cron.search = search  # type: ignore[method-assign]  # as it was
    return {"bench": "when", "what": "reschedule", "alarms": alarms, "searches": searches, "seconds": round(seconds, 3)}


def phrases() -> dict[str, Any]:
    """Every kind of phrase; the median and the slowest of them."""
    parse(PHRASES[0], now=NOW)

    def cost(text: str) -> float:
        return micros_per_call(lambda: parse(text, timezone=BERLIN, now=NOW))

    costs = {text: cost(text) for text in PHRASES}
    slowest = max(costs, key=lambda text: costs[text])
    return {
        "bench": "when",
        "what": "phrase parse",
        "phrases": len(costs),
        "median_microseconds": round(statistics.median(costs.values()), 1),
        "slowest": slowest,
        "slowest_microseconds": round(costs[slowest], 1),
        "limit": 120,
    }


def importing(times: int = 15) -> dict[str, Any]:
    """`import wakeful.schedule` in a fresh interpreter: the best and the median of several."""
    code = "from time import perf_counter as t; a = t(); import wakeful.schedule; print((t() - a) * 1000)"
    command = [sys.executable, "-c", code]
    millis = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(times)]
    return {
        "bench": "when",
        "what": "import",
        "milliseconds": round(min(millis), 1),
        "median_milliseconds": round(statistics.median(millis), 1),
        "limit": 40,
    }


def micros_per_call(call: Callable[[], object], *, calls: int = 50, rounds: int = 40) -> float:
    """The best of many short rounds: what the work costs, not what the neighbours do."""
    best = float("inf")
    for _ in range(rounds):
        started = perf_counter()
        for _ in range(calls):
            call()
        best = min(best, perf_counter() - started)
    return best / calls * 1_000_000


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result), flush=True)

"""What every driver in Python shares: its task, the handler that counts, the answer. Standard library only."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from math import ceil
from typing import Any

CALLERS = 64
BULK = 1_000  # jobs to one bulk call
YEAR_S = 365 * 86_400.0

numbers: list[int] = []  # of the jobs that ran, as often as they ran
late_ms: list[float] = []


def note(number: int, due: float = 0.0) -> None:
    """The handler: all it does is to say which job ran, and how late it was."""
    late_ms.append((time.time() - due) * 1000)
    numbers.append(number)


def task() -> dict[str, Any]:
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def each_ran_once(jobs: int) -> None:
    if sorted(numbers) != list(range(jobs)):
        raise SystemExit(f"{len(numbers)} runs of {len(set(numbers))} jobs; {jobs} jobs were to run, each once")


def agree(what: str, found: int, jobs: int) -> None:
    if found != jobs:
        raise SystemExit(f"{found} {what} where {jobs} belong")


def rate(jobs: int, seconds: float) -> dict[str, Any]:
    return {"jobs": jobs, "seconds": round(seconds, 3), "per_s": round(jobs / seconds, 1)}


def lateness(late: list[float]) -> dict[str, Any]:
    """In ms, at the percentiles that count; nobody may be early."""
    ordered = sorted(late)
    if ordered[0] < -1:  # clocks are read in whole milliseconds here and there
        raise SystemExit(f"a job ran {-ordered[0]:.1f} ms early")
    points = {f"p{p}_ms": round(ordered[ceil(len(ordered) * p / 100) - 1], 3) for p in (50, 95, 99)}
    return {"jobs": len(late), **points, "max_ms": round(ordered[-1], 3)}


def answer(package: str, **said: Any) -> None:
    """The last line of a driver. A peer's threads are not waited for."""
    peak_mb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps({"version": version(package), "peak_mb": peak_mb, **said}), flush=True)
    os._exit(0)


async def by_callers(jobs: int, create: Callable[[int], Awaitable[object]]) -> float:
    """Seconds that so many creates take by 64 callers who each wait for theirs."""
    left = iter(range(jobs))

    async def caller() -> None:
        for number in left:
            await create(number)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return time.perf_counter() - started


def by_threads(jobs: int, create: Callable[[int], object], callers: int) -> float:
    """The same for a peer whose calls block: each caller is a thread."""
    left, lock = iter(range(jobs)), threading.Lock()

    def following() -> int | None:
        with lock:
            return next(left, None)

    def caller() -> None:
        while (number := following()) is not None:
            create(number)

    threads = [threading.Thread(target=caller) for _ in range(callers)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def by_threads_at_best(jobs: int, create: Callable[[int], object]) -> dict[str, Any]:
    """Half by one caller after the other's call, half by 64 threads: the faster counts for the peer."""
    half = max(1, jobs // 2)
    tried = {callers: rate(half, by_threads(half, create, callers)) for callers in (1, CALLERS)}
    callers = max(tried, key=lambda n: tried[n]["per_s"])
    return {**tried[callers], "callers": callers, "created": 2 * half}


def pieces(jobs: int) -> Iterator[range]:
    """The numbers of all jobs, a bulk call's at a time."""
    for first in range(0, jobs, BULK):
        yield range(first, min(jobs, first + BULK))


def wait_until(reached: Callable[[], bool], *, every: float = 0.01) -> None:
    while not reached():
        time.sleep(every)


def moments(given: dict[str, Any], *, lead: float) -> list[float]:
    """When each of the jobs of a punctuality measurement is due."""
    start = time.time() + lead
    return [start + n * given["over"] / given["jobs"] for n in range(given["jobs"])]

"""wakeful itself, with the settings it comes with; its worker is a process of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

import wakeful
from bench import bare
from bench.peers.drivers import measuring
from bench.peers.drivers.worker_process import Handled, WorkerProcess
from wakeful.model.requests import CreateRequest
from wakeful.process.application import open_local
from wakeful.process.server import run_process, tune_interpreter

FAR = datetime(2040, 1, 1, tzinfo=UTC)
FIRES = "select count(*) from {{t}}fires where status = '{status}'"


def place_of(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that name the run's database."""
    return {"db": given["file"]} if given["store"] == "sqlite" else {"db": given["dsn"], "schema": "wakeful"}


def drain(given: dict[str, Any]) -> dict[str, Any]:
    """Due alarms beside others that wait, by one worker or several."""
    place, jobs = place_of(given), given["jobs"]
    asyncio.run(_migrated(place))
    bare.fill(place, jobs, due=True)
    if pending := given.get("pending", 0):
        bare.fill(place, pending, due=False)
    bare.analyze(place)
    return _worked_off(place, jobs, workers=given.get("workers", 1)) | {"pending": pending}


def herd(given: dict[str, Any]) -> dict[str, Any]:
    """Series that all come at one moment; each is planned anew when it has fired."""
    place, jobs = place_of(given), given["jobs"]
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3 + jobs // 3_000)
    hours = [(at.hour + other) % 24 for other in range(2, 22)]  # twenty expressions, none due again in this run
    crons = [f"{at.second} {at.minute} {at.hour},{other} * * *" for other in hours]
    asked = [
        CreateRequest(wake_message="wake up", cron_expr=crons[n % 20], timezone="UTC", target="noop")
        for n in range(jobs)
    ]
    asyncio.run(_created(place, asked))
    bare.analyze(place)
    left = (at - datetime.now(UTC)).total_seconds()
    if left < 0:
        raise SystemExit("the herd was due before all of it was created")
    time.sleep(left)
    found = _worked_off(place, jobs)
    measuring.agree("series that go on", _count(place, "select count(*) from {t}alarms where status = 'active'"), jobs)
    return found


def punctual(given: dict[str, Any]) -> dict[str, Any]:
    """Alarms spread evenly over some seconds: few of them show an idle worker, many one at work."""
    place, jobs = place_of(given), given["jobs"]
    asyncio.run(_migrated(place))
    with WorkerProcess(place) as worker:
        due = measuring.moments(given, lead=2 + jobs / 2_000)
        asked = [CreateRequest(wake_message="wake up", fire_at=_moment(at), target="noop") for at in due]
        asyncio.run(_created(place, asked))
        bare.analyze(place)
        if time.time() > due[0]:
            raise SystemExit("the first alarm was due before the last was created")
        worker.go()
        measuring.wait_until(lambda: worker.count() >= jobs, every=0.05)
        handled = worker.stop()
    each_woken_once([handled], jobs)
    return measuring.lateness(handled.late_ms) | {"per_s": round(jobs / given["over"], 1)}


def _served(run: Coroutine[Any, Any, float]) -> float:
    """What it answers, in a process as `wakeful serve` is: on uvloop, as the quickest peer for this is too."""
    answers: list[float] = []

    async def main() -> None:
        answers.append(await run)

    run_process(main())
    return answers[0]


def create(given: dict[str, Any]) -> dict[str, Any]:
    place, jobs = place_of(given), given["jobs"]

    async def run() -> float:
        async with open_local(**place) as alarms:
            tune_interpreter(alarms)  # as `wakeful serve` does

            async def one(number: int) -> None:
                await alarms.set(at=FAR, wake_message="wake up", payload={"number": number})

            return await measuring.by_callers(jobs, one)

    seconds = _served(run())
    measuring.agree("alarms", _count(place, "select count(*) from {t}alarms"), jobs)
    return measuring.rate(jobs, seconds)


def bulk(given: dict[str, Any]) -> dict[str, Any]:
    """Requests are made as the calls are, as the peers' jobs are."""
    place, jobs = place_of(given), given["jobs"]

    async def run() -> float:
        async with open_local(**place) as alarms:
            tune_interpreter(alarms)
            started = time.perf_counter()
            for some in measuring.pieces(jobs):
                await alarms.create_many([CreateRequest(wake_message="wake up", fire_at=FAR.isoformat()) for _ in some])
            return time.perf_counter() - started

    seconds = _served(run())
    measuring.agree("alarms", _count(place, "select count(*) from {t}alarms"), jobs)
    return measuring.rate(jobs, seconds)


def http(given: dict[str, Any]) -> dict[str, Any]:
    from bench.http import cpu_per_create

    return cpu_per_create(place_of(given), requests=given["jobs"])


def webhooks(given: dict[str, Any]) -> dict[str, Any]:
    from bench.peers.drivers import webhook_loops

    place = place_of(given)
    asyncio.run(_migrated(place))
    bare.fill(place, given["jobs"], due=True)
    bare.analyze(place)
    return webhook_loops.measure(place, given["jobs"], recorded=lambda: recorded(place, "delivered"))


def recorded(place: dict[str, Any], status: str = "completed") -> int:
    """Fires that went so: a handler has completed its wake when it returns, a webhook has been delivered."""
    return _count(place, FIRES.format(status=status))


def _worked_off(place: dict[str, Any], jobs: int, *, workers: int = 1) -> dict[str, Any]:
    with ExitStack() as stack:
        running = [stack.enter_context(WorkerProcess(place)) for _ in range(workers)]
        started = time.perf_counter()
        for worker in running:
            worker.go()
        measuring.wait_until(lambda: sum(worker.count() for worker in running) >= jobs)
        measuring.wait_until(lambda: recorded(place) >= jobs)
        seconds = time.perf_counter() - started
        handled = [worker.stop() for worker in running]
    each_woken_once(handled, jobs)
    kept = recorded(place)
    measuring.agree("completed fires", kept, jobs)
    return measuring.rate(jobs, seconds) | {
        "recorded": kept,
        "workers": workers,
        "worker_peak_mb": round(max(one.peak_mb for one in handled)),
        "startup_s": round(max(one.startup_s for one in handled), 3),
        "shares": [len(one.fires) for one in handled],
    }


def each_woken_once(handled: list[Handled], jobs: int) -> None:
    fires = [fire for one in handled for fire in one.fires]
    if len(fires) != jobs or len(set(fires)) != jobs:
        raise SystemExit(f"{len(fires)} wakes of {len(set(fires))} fires; {jobs} were to be woken, each once")


async def _migrated(place: dict[str, Any]) -> None:
    async with open_local(**place):
        pass


async def _created(place: dict[str, Any], asked: list[CreateRequest]) -> None:
    async with open_local(**place) as alarms:
        alarms.handler("noop")(_never)
        for some in measuring.pieces(len(asked)):
            await alarms.create_many([asked[number] for number in some])


async def _never(wake: wakeful.Wake) -> None:
    raise AssertionError(f"{wake.fire_id} was delivered while alarms were being created")


def _count(place: dict[str, Any], sql: str) -> int:
    if "schema" not in place:
        connection = sqlite3.connect(place["db"])
        [[found]] = connection.execute(sql.format(t=""))
        connection.close()
        return int(found)

    async def ask() -> int:
        connection = await asyncpg.connect(place["db"])
        found = await connection.fetchval(sql.format(t=f"{place['schema']}."))
        await connection.close()
        return int(found)

    return asyncio.run(ask())


def _moment(at: float) -> str:
    """In whole milliseconds, as alarms are."""
    return datetime.fromtimestamp(round(at, 3), UTC).isoformat()


MEASURES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    measure.__name__: measure for measure in (drain, herd, punctual, create, bulk, http, webhooks)
}

if __name__ == "__main__":
    given = measuring.task()
    measuring.answer("wakeful", **{"version": wakeful.__version__} | MEASURES[given["measure"]](given))

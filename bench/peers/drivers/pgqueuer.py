"""pgqueuer on asyncpg and uvloop: its own drain mode, 1,000 to a batch."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.types import QueueExecutionMode

from bench.peers.drivers import measuring

FAR = timedelta(seconds=measuring.YEAR_S)


async def drain(given: dict[str, Any]) -> dict[str, Any]:
    connection = await asyncpg.connect(given["dsn"])
    driver = AsyncpgDriver(connection)
    queries, manager = Queries(driver), PgQueuer(driver)
    await queries.install()

    async def noop(job: Any) -> None:
        measuring.note(int(job.payload))

    manager.entrypoint("noop")(noop)
    await _bulk(queries, given["jobs"], None)
    await connection.execute("vacuum analyze pgqueuer")
    await connection.execute("checkpoint")
    started = time.perf_counter()
    await manager.qm.run(batch_size=1_000, mode=QueueExecutionMode.drain)
    seconds = time.perf_counter() - started
    other = await asyncpg.connect(given["dsn"])
    recorded = await other.fetchval("select count(*) from pgqueuer_log where status = 'successful'")
    measuring.each_ran_once(given["jobs"])
    measuring.agree("finished rows in pgqueuer_log", recorded, given["jobs"])
    return measuring.rate(given["jobs"], seconds) | {"recorded": recorded}


async def create(given: dict[str, Any]) -> dict[str, Any]:
    async with asyncpg.create_pool(given["dsn"], min_size=16, max_size=16) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()

        async def one(number: int) -> None:
            await queries.enqueue("noop", str(number).encode(), 0, FAR)

        seconds = await measuring.by_callers(given["jobs"], one)
        measuring.agree("rows", await pool.fetchval("select count(*) from pgqueuer"), given["jobs"])
    return measuring.rate(given["jobs"], seconds)


async def bulk(given: dict[str, Any]) -> dict[str, Any]:
    connection = await asyncpg.connect(given["dsn"])
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    started = time.perf_counter()
    await _bulk(queries, given["jobs"], FAR)
    seconds = time.perf_counter() - started
    measuring.agree("rows", await connection.fetchval("select count(*) from pgqueuer"), given["jobs"])
    return measuring.rate(given["jobs"], seconds)


async def _bulk(queries: Any, jobs: int, after: timedelta | None) -> None:
    for some in measuring.pieces(jobs):
        n = len(some)
        await queries.enqueue(["noop"] * n, [str(number).encode() for number in some], [0] * n, [after] * n)


if __name__ == "__main__":
    given = measuring.task()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    measuring.answer(
        "pgqueuer", **asyncio.run({"drain": drain, "create": create, "bulk": bulk}[given["measure"]](given))
    )

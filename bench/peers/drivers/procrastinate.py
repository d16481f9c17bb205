"""procrastinate on psycopg: 20 jobs at once, which was faster than 1 and 5."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import procrastinate

from bench.peers.drivers import measuring


class Peer:
    def __init__(self, given: dict[str, Any]) -> None:
        self.jobs: int = given["jobs"]
        most = 24 if given["measure"] == "drain" else measuring.CALLERS + 4
        connector = procrastinate.PsycopgConnector(conninfo=given["dsn"], min_size=4, max_size=most)
        self.app = procrastinate.App(connector=connector)

        async def noop(number: int) -> None:
            measuring.note(number)

        self.noop = self.app.task(name="noop")(noop)
        self.far = datetime.now(UTC) + timedelta(seconds=measuring.YEAR_S)

    async def drain(self) -> dict[str, Any]:
        await self._bulk(datetime.now(UTC) - timedelta(minutes=5))
        await self._ask("vacuum analyze procrastinate_jobs")
        await self._ask("checkpoint")
        started = time.perf_counter()
        await self.app.run_worker_async(concurrency=20, wait=False, listen_notify=False, install_signal_handlers=False)
        seconds = time.perf_counter() - started
        recorded = await self._count("where status = 'succeeded'")
        measuring.each_ran_once(self.jobs)
        measuring.agree("succeeded rows", recorded, self.jobs)
        return measuring.rate(self.jobs, seconds) | {"recorded": recorded}

    async def create(self) -> dict[str, Any]:
        async def one(number: int) -> None:
            await self.noop.configure(schedule_at=self.far).defer_async(number=number)

        seconds = await measuring.by_callers(self.jobs, one)
        measuring.agree("rows", await self._count(), self.jobs)
        return measuring.rate(self.jobs, seconds)

    async def bulk(self) -> dict[str, Any]:
        started = time.perf_counter()
        await self._bulk(self.far)
        seconds = time.perf_counter() - started
        measuring.agree("rows", await self._count(), self.jobs)
        return measuring.rate(self.jobs, seconds)

    async def _bulk(self, at: datetime) -> None:
        for some in measuring.pieces(self.jobs):
            await self.noop.configure(schedule_at=at).batch_defer_async(*({"number": number} for number in some))

    async def _count(self, where: str = "") -> int:
        found = await self.app.connector.execute_query_one_async(f"select count(*) n from procrastinate_jobs {where}")
        return int(found["n"])

    async def _ask(self, sql: str) -> None:
        async with self.app.connector.pool.connection() as connection:
            await connection.set_autocommit(True)
            await connection.execute(sql)
            await connection.set_autocommit(False)


async def main() -> None:
    given = measuring.task()
    peer = Peer(given)
    async with peer.app.open_async():
        await peer.app.schema_manager.apply_schema_async()
        measuring.answer("procrastinate", **await getattr(peer, given["measure"])())


if __name__ == "__main__":
    asyncio.run(main())

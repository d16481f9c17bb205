"""DBOS Transact: workflows on a queue and 32 threads. It has no bulk call: 1,000 to a transaction of the caller's."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient

from bench.peers.drivers import measuring


class Peer:
    def __init__(self, given: dict[str, Any]) -> None:
        self.jobs: int = given["jobs"]
        address = given["dsn"].replace("postgresql://", "postgresql+psycopg://", 1)
        self.engine = sqlalchemy.create_engine(address)
        config = {
            "name": "bench",
            "system_database_url": address,
            "log_level": "ERROR",
            "run_admin_server": False,
            "sys_db_pool_size": 20,
            "max_executor_threads": 32,
            "application_version": "1",
        }
        DBOS(config=config)

        def noop(number: int) -> None:
            measuring.note(number)

        DBOS.workflow(name="noop")(noop)
        DBOS.launch()
        self.client = DBOSClient(system_database_url=address, system_database_pool_size=16)

    def drain(self) -> dict[str, Any]:
        self._bulk({})  # before the queue is known, so that nothing is taken early
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sqlalchemy.text("vacuum analyze dbos.workflow_status"))
            connection.execute(sqlalchemy.text("checkpoint"))
        started = time.perf_counter()
        DBOS.register_queue("q", polling_interval_sec=0.1)
        measuring.wait_until(lambda: len(measuring.numbers) >= self.jobs and self._rows("SUCCESS") >= self.jobs)
        seconds = time.perf_counter() - started
        measuring.each_ran_once(self.jobs)
        return measuring.rate(self.jobs, seconds) | {"recorded": self._rows("SUCCESS")}

    def create(self) -> dict[str, Any]:
        DBOS.register_queue("q")

        async def one(number: int) -> None:
            await self.client.enqueue_async(_delayed(measuring.YEAR_S), number)

        async def all_of_them() -> float:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))
            return await measuring.by_callers(self.jobs, one)

        seconds = asyncio.run(all_of_them())
        measuring.agree("delayed rows", self._rows("DELAYED"), self.jobs)
        return measuring.rate(self.jobs, seconds)

    def bulk(self) -> dict[str, Any]:
        DBOS.register_queue("q")
        started = time.perf_counter()
        self._bulk({"delay_seconds": measuring.YEAR_S})
        seconds = time.perf_counter() - started
        measuring.agree("delayed rows", self._rows("DELAYED"), self.jobs)
        return measuring.rate(self.jobs, seconds)

    def _bulk(self, more: dict[str, Any]) -> None:
        for some in measuring.pieces(self.jobs):
            with self.engine.begin() as connection:
                for number in some:
                    self.client.enqueue_in_transaction(connection, _delayed(None) | more, number)

    def _rows(self, status: str) -> int:
        with self.engine.connect() as connection:
            sql = sqlalchemy.text("select count(*) from dbos.workflow_status where status = :status")
            return int(connection.execute(sql, {"status": status}).scalar())


def _delayed(seconds: float | None) -> dict[str, Any]:
    plain: dict[str, Any] = {"workflow_name": "noop", "queue_name": "q"}
    return plain if seconds is None else plain | {"delay_seconds": seconds}


if __name__ == "__main__":
    given = measuring.task()
    measuring.answer("dbos", **getattr(Peer(given), given["measure"])())

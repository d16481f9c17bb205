"""APScheduler 3 with its SQLAlchemy job store on SQLite (WAL, synchronous=full) or PostgreSQL and a pool of 10."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import sqlalchemy
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from bench.peers.drivers import measuring


class Peer:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given, self.jobs = given, given["jobs"]
        if given["store"] == "postgres":
            address = given["dsn"].replace("postgresql://", "postgresql+psycopg://", 1)
            self.engine = sqlalchemy.create_engine(address, pool_size=16)
        else:
            self.engine = sqlalchemy.create_engine("sqlite:///" + given["file"])
            sqlalchemy.event.listen(self.engine, "connect", _durable)
        self.store = SQLAlchemyJobStore(engine=self.engine)
        self.scheduler = BackgroundScheduler(
            jobstores={"default": self.store}, executors={"default": ThreadPoolExecutor(10)}, timezone=UTC
        )

    def drain(self) -> dict[str, Any]:
        self.scheduler.start(paused=True)
        past = time.time() - 300
        for number in range(self.jobs):
            self._add(number, past + number / 1000)
        self._settle_down()
        started = time.perf_counter()
        self.scheduler.resume()
        measuring.wait_until(lambda: len(measuring.numbers) >= self.jobs and self._rows() == 0)
        seconds = time.perf_counter() - started
        measuring.each_ran_once(self.jobs)
        return measuring.rate(self.jobs, seconds) | {"recorded": None}

    def create(self) -> dict[str, Any]:
        self.scheduler.start(paused=True)
        far = time.time() + measuring.YEAR_S
        took = measuring.by_threads_at_best(self.jobs, lambda number: self._add(number, far))
        measuring.agree("rows", self._rows(), took["created"])
        return took

    def punctual(self) -> dict[str, Any]:
        self.scheduler.start()
        due = measuring.moments(self.given, lead=2 + self.jobs / 100)
        for number, moment in enumerate(due):
            self._add(number, moment)
        if time.time() > due[0]:
            raise SystemExit("the first job was due before the last was created")
        measuring.wait_until(lambda: len(measuring.numbers) >= self.jobs, every=0.05)
        measuring.each_ran_once(self.jobs)
        return measuring.lateness(measuring.late_ms)

    def _add(self, number: int, at: float) -> None:
        moment = datetime.fromtimestamp(at, UTC)
        handler = "bench.peers.drivers.measuring:note"
        self.scheduler.add_job(handler, "date", run_date=moment, args=[number, at], misfire_grace_time=None)

    def _rows(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(sqlalchemy.text("select count(*) from apscheduler_jobs")).scalar())

    def _settle_down(self) -> None:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            if self.given["store"] == "postgres":
                connection.execute(sqlalchemy.text("vacuum analyze apscheduler_jobs"))
                connection.execute(sqlalchemy.text("checkpoint"))
            else:
                connection.execute(sqlalchemy.text("pragma wal_checkpoint(truncate)"))


def _durable(connection: Any, _: object) -> None:
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")


if __name__ == "__main__":
    given = measuring.task()
    measuring.answer("apscheduler", **getattr(Peer(given), given["measure"])())

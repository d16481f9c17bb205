"""Huey on SQLite (WAL, fsync): its consumer in this process, four threads, which were faster than one."""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta
from typing import Any

from huey import SqliteHuey
from huey.consumer import Consumer

from bench.peers.drivers import measuring


class Peer:
    def __init__(self, given: dict[str, Any]) -> None:
        self.jobs: int = given["jobs"]
        self.huey = SqliteHuey("bench", filename=given["file"], fsync=True, utc=False, timeout=60)
        self.noop = self.huey.task()(measuring.note)

    def drain(self) -> dict[str, Any]:
        past = datetime.now() - timedelta(minutes=5)  # noqa: DTZ005 - Huey's own way without utc
        for number in range(self.jobs):
            self.huey.add_schedule(self.noop.s(number, eta=past + timedelta(milliseconds=number)))
        self.huey.storage.conn.execute("pragma wal_checkpoint(truncate)")
        consumer = Consumer(
            self.huey, workers=4, periodic=False, initial_delay=0.001, max_delay=0.05, scheduler_interval=1
        )
        started = time.perf_counter()
        consumer.start()
        measuring.wait_until(lambda: len(measuring.numbers) >= self.jobs)
        seconds = time.perf_counter() - started
        measuring.each_ran_once(self.jobs)
        measuring.agree("tasks left", len(self.huey) + self.huey.scheduled_count(), 0)
        return measuring.rate(self.jobs, seconds) | {"recorded": None}

    def create(self) -> dict[str, Any]:
        far = datetime.now() + timedelta(seconds=measuring.YEAR_S)  # noqa: DTZ005 - likewise
        took = measuring.by_threads_at_best(self.jobs, lambda number: self.noop.schedule(args=(number,), eta=far))
        measuring.agree("tasks", len(self.huey), took["created"])
        return took


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    given = measuring.task()
    measuring.answer("huey", **getattr(Peer(given), given["measure"])())

"""PostgreSQL goes away as in a power cut: no create says yes for nothing, and the worker comes back by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conftest import Cluster
from wakeful.clock import SystemClock
from wakeful.errors import StoreUnavailable

from .conftest import Scene, until


async def test_a_worker_outlives_its_database_and_fires_what_fell_due_meanwhile(
    pg_cluster: Cluster, tmp_path: Path
) -> None:
    scene = Scene({"db": pg_cluster.dsn}, tmp_path)
    try:
        await scene.store.migrate()
        worker = scene.start()
        acknowledged = await scene.add("plain")
        await until(scene.all_done, "it works")
        waiting = await scene.add(*["plain"] * 20, delay=3)
        await asyncio.to_thread(pg_cluster.crash)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await scene.add("refused")
        await until(lambda: "the store cannot be reached" in worker.log, "the worker notices")
        await until(lambda: SystemClock().now() > waiting[0].next_fire_at, "they are due")
        assert worker.running
        await asyncio.to_thread(pg_cluster.start)

        async def all_done() -> bool:
            try:
                return await scene.all_done()
            except StoreUnavailable:  # the server is still reading its log
                return False

        await until(all_done, "it recovers by itself")
        acknowledged += await scene.add("plain")
        await until(scene.all_done, "and goes on")
        assert worker.running
        hits, alarms = scene.hits(), await scene.alarms()
        assert [hits[alarm.fire_id] for alarm in acknowledged] == [1, 1]
        # Once each, unless this machine took so long to stop the server that some were in flight already.
        assert all(1 <= hits[alarm.fire_id] <= 2 for alarm in waiting)
        assert set(alarms) == {alarm.id for alarm in acknowledged + waiting}
        assert {alarm.status for alarm in alarms.values()} == {"fired"}
    finally:
        scene.close()
        await scene.store.close()

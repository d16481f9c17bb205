"""The bare loop of bench/bare.py at the batch that is best for it: what the database itself allows."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import wakeful
from bench import bare
from bench.peers.drivers import measuring

BATCHES = (100, 250, 500, 1_000)


def drain(given: dict[str, Any]) -> dict[str, Any]:
    tried = {batch: _drained(_place(given, batch), given["jobs"], batch) for batch in BATCHES}
    best = max(tried, key=lambda batch: tried[batch])
    jobs = given["jobs"]
    per_batch = {str(batch): round(per_s) for batch, per_s in tried.items()}
    return measuring.rate(jobs, jobs / tried[best]) | {"recorded": jobs, "batch": best, "per_batch": per_batch}


def _place(given: dict[str, Any], batch: int) -> dict[str, Any]:
    """Tables of its own for each batch."""
    if given["store"] == "sqlite":
        folder = f"{os.path.dirname(given['file'])}/{batch}"
        os.mkdir(folder)
        return {"db": f"{folder}/jobs.db"}
    return {"db": given["dsn"], "schema": f"batch_{batch}"}


def _drained(place: dict[str, Any], jobs: int, batch: int) -> float:
    async def migrated() -> None:
        async with wakeful.open(**place):
            pass

    asyncio.run(migrated())
    bare.fill(place, jobs, due=True)
    bare.analyze(place)
    return bare.drain(place, jobs, batch=batch)  # it counts its rows itself


if __name__ == "__main__":
    measuring.answer("wakeful", version=wakeful.__version__, **drain(measuring.task()))

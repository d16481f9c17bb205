"""How fast due alarms are delivered to a no-op handler and recorded, beside the bare claim-and-settle loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import wakeful
from bench import bare
from bench.worlds import World

BATCH = 500  # the default: the most that a claim takes


def run(world: World, *, alarms: int) -> Iterator[dict[str, Any]]:
    plain = _bare(world, alarms)
    yield _told(world, "drain", _drained(world, alarms), plain, alarms)


def scale(world: World, *, alarms: int, pending: int) -> Iterator[dict[str, Any]]:
    empty = _drained(world, alarms)
    full = _drained(world, alarms, pending=pending)
    plain = _bare(world, alarms, pending=pending)
    yield _told(world, "scale", full, plain, alarms) | {
        "pending": pending,
        "empty_per_s": empty["per_s"],
        "of_empty": round(full["per_s"] / empty["per_s"], 2),
    }


def _told(world: World, what: str, ours: dict[str, Any], plain: float, alarms: int) -> dict[str, Any]:
    beside = {"bare_per_s": round(plain), "ratio": round(ours["per_s"] / plain, 2)}
    return {"bench": what, "store": world.store, "alarms": alarms, "batch": BATCH} | ours | beside


def _bare(world: World, alarms: int, *, pending: int = 0) -> float:
    with world.fresh() as place:
        asyncio.run(_prepare(place, alarms, pending))
        return bare.drain(place, alarms, batch=BATCH)


def _drained(world: World, alarms: int, *, pending: int = 0) -> dict[str, Any]:
    """In a process of its own, so that its memory is its own too."""
    with world.fresh() as place:
        asyncio.run(_prepare(place, alarms, pending))
        command = [sys.executable, "-m", "bench.worker", json.dumps(place), str(alarms)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found: dict[str, Any] = json.loads(answer)
        return found


async def _prepare(place: dict[str, Any], alarms: int, pending: int) -> None:
    async with wakeful.open(**place):
        pass
    bare.fill(place, alarms, due=True)
    if pending:
        bare.fill(place, pending, due=False)
    bare.analyze(place)

"""What it costs to claim owners in turn, and what it is worth to a quiet owner beside another's flood."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import wakeful
from bench import bare
from bench.worlds import World
from wakeful.process.application import open_local
from wakeful.process.server import tune_interpreter
from wakeful.store import Turn
from wakeful.testing.conformance.making import done

OWNERS = 100_000  # that have something pending, and nothing due
CLAIMS = 300
SLOTS = 100
FLOOD = 10_000
QUIET = 100  # alarms of the quiet owner, due one after the other while the flood is delivered
LEASE = timedelta(minutes=2)


def run(world: World, *, due: int) -> Iterator[dict[str, Any]]:
    yield from _claims(world, due)
    for owners in (0, OWNERS):
        yield from _floods(world, owners)


def _claims(world: World, due: int) -> Iterator[dict[str, Any]]:
    with world.fresh() as place:
        asyncio.run(_prepare(place, due, OWNERS))
        for what, share in (("claim in due order", 0), ("claim in turn", SLOTS // 2)):
            took = sorted(asyncio.run(_claim(place, share)))
            yield {"bench": what, "store": world.store, "due": due, "owners": OWNERS} | _points(took, "ms")


async def _prepare(place: dict[str, Any], due: int, owners: int) -> None:
    async with open_local(**place):
        pass
    bare.fill(place, due, due=True)
    bare.fill(place, owners, due=False)
    bare.part(place)
    bare.analyze(place)


async def _claim(place: dict[str, Any], share: int) -> list[float]:
    """Milliseconds for each of many claims, the walk going on from one to the next."""
    took, stood = [], ""
    async with open_local(**place) as alarms:
        for _ in range(CLAIMS):
            turns = {"noop": Turn(share, stood)} if share else {}
            started = time.perf_counter()
            answer = await alarms._store.claim({"noop": SLOTS}, lease=LEASE, suspects=False, turns=turns)
            took.append((time.perf_counter() - started) * 1000)
            assert len(answer.alarms) == SLOTS
            await alarms._store.settle([done(alarm) for alarm in answer.alarms])
            stood = answer.stood.get("noop", "")
    return took


def _floods(world: World, owners: int) -> Iterator[dict[str, Any]]:
    found: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for _ in range(3):  # alternately: the machine has its moods
        for fair in (False, True):
            with world.fresh() as place:
                asyncio.run(_prepare(place, FLOOD, owners))
                found[fair].append(asyncio.run(_flood(place, fair)))
    for fair, runs in found.items():
        middle = sorted(runs, key=lambda run: float(run["per_s"]))[1]
        yield {"bench": "flood", "store": world.store, "owners": owners, "in_turn": fair, "flood": FLOOD} | middle


async def _flood(place: dict[str, Any], fair: bool) -> dict[str, Any]:
    """The quiet owner's waits, in batches of the flood that were started between its due moment and its start."""
    flood: list[float] = []
    quiet: list[tuple[float, float]] = []
    async with open_local(**place) as alarms:
        tune_interpreter(alarms)  # as `wakeful worker` does
        if not fair:
            alarms.dispatcher._turns.wanted = lambda slots, *, probes=(): {}  # type: ignore[method-assign]

        @alarms.handler("noop")
        async def noop(wake: wakeful.Wake) -> None:
            if wake.owner_did == "quiet":
                quiet.append((wake.scheduled_for.timestamp(), time.time()))
            else:
                flood.append(time.time())
            if len(flood) + len(quiet) == FLOOD + QUIET:
                alarms.dispatcher.stop()

        start = datetime.now(UTC) + timedelta(milliseconds=500)
        moments = [start + timedelta(milliseconds=5 * n) for n in range(QUIET)]
        quietly = alarms.for_owner("quiet")
        await asyncio.gather(*(quietly.set(at=at, wake_message="now", target="noop") for at in moments))
        started = time.perf_counter()
        await alarms.run()
        seconds = time.perf_counter() - started
    waits = sorted((bisect_left(flood, begun) - bisect_left(flood, due)) / SLOTS for due, begun in quiet)
    return {"per_s": round((FLOOD + QUIET) / seconds)} | _points(waits, "batches")


def _points(values: list[float], unit: str) -> dict[str, float]:
    points = {f"p{p}_{unit}": round(values[min(len(values) - 1, len(values) * p // 100)], 2) for p in (50, 95, 99)}
    return points | {f"max_{unit}": round(values[-1], 2)}

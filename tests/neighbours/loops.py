"""Wakes that come again and again, and receivers that do not let go of who calls them."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Final

from .attack import at_once, attack, tried, unless
from .house import House
from .records import Tried

LOOPS: Final = 20
HOSTILE: Final = 64  # connections to each of the hostile receivers
KINDS: Final = ("interim", "header", "drip", "bomb")


async def _loop(house: House, until: float, target: str, most: float) -> tuple[dict[str, int], int, float, str]:
    """Alarms that ask to be sent at once again; then each is cancelled, and that must hold."""
    since = time.time()
    async with house.as_owner("looper") as looper:
        policy = {"backoff_base": 1, "backoff_cap": 1}
        ids = await at_once(looper, LOOPS, target, max_failures=1000, policy=policy)
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        cancels = await asyncio.gather(*(looper("DELETE", f"/v1/alarms/{id}") for id in ids))
        # What is in flight while it is cancelled may still arrive.
        await asyncio.sleep(0.5)
        before, took = house.hits(target, since), time.time() - since
        await asyncio.sleep(2.0)
        more = (house.hits(target, since) - before).total()
    worst = max(before.values(), default=0)
    refused = [reply.status for reply in cancels if reply.status != 200]
    wrong = "; ".join(
        one
        for one in (
            unless(ids, "no alarm could be set"),
            unless(worst <= most * took + 1, f"one alarm was delivered {worst} times in {took:.1f} s"),
            unless(not refused, f"cancels answered {refused[:3]}"),
            unless(not more, f"{more} wakes came after the cancel"),
        )
        if one
    )
    return dict(looper.came), worst, took, wrong


@attack("wakes that are snoozed by a millisecond", stage=7)
async def snoozes(house: House, until: float) -> Tried:
    came, worst, took, wrong = await _loop(house, until, "snoozer", most=1.0)
    return tried(f"{LOOPS} alarms in a loop: each came {worst} times at most in {took:.0f} s; cancelled", came, wrong)


@attack("retries without a pause", stage=7)
async def retries(house: House, until: float) -> Tried:
    came, worst, took, wrong = await _loop(house, until, "refuser", most=1.0)
    async with house.as_owner("looper") as looper:
        body = {"wake_message": "x", "when": "in 1 hour", "policy": {"backoff_base": 0}}
        reply = await looper("POST", "/v1/alarms", body)
    what = (
        f"{LOOPS} alarms that fail: each came {worst} times at most in {took:.0f} s; `backoff_base` 0: {reply.status}"
    )
    return tried(what, came, wrong, unless(reply.status == 400, f"backoff_base 0 answered {reply.status}"))


@attack("four kinds of receivers that never let go", stage=7)
async def receivers(house: House, until: float) -> Tried:
    since, rounds = time.time(), 0
    async with house.as_owner("eve") as eve:
        while time.monotonic() < until:
            for kind in KINDS:
                await at_once(eve, HOSTILE, kind, max_failures=0)
            rounds += 1
            await asyncio.sleep(max(0.0, min(3.0, until - time.monotonic())))
        hits = {kind: house.hits(kind, since).total() for kind in KINDS}
        await eve("DELETE", "/v1/alarms?all=true")
    least = math.floor(min(hits.values()))
    what = f"interim replies, heads, drips and gzip bombs without end, {HOSTILE} of each at once, {rounds} times"
    return tried(what, hits, unless(least, f"a receiver was never called: {hits}"))

"""Requests that are hard to refuse: a thousand at once, phrases nobody understands, times out of reach, long ids."""

from __future__ import annotations

import time
from typing import Any, Final

from tests.faults.client import iso

from .attack import attack, over_and_over, tried, unless
from .house import House
from .records import Tried

# Each is refused, and none of them is a reason to break.
MONSTERS: Final[tuple[dict[str, Any], ...]] = (
    {"when": "313020271h30m"},
    {"when": "every 9999999999999999999 weeks"},
    {"when": "in " + "9" * 4000 + " minutes"},
    {"cron_expr": "9" * 5000},
    {"cron_expr": "@every " + "9" * 400 + "h"},
    {"fire_at": "9999-12-31T23:59:59-12:00"},
    {"fire_at": 1e300},
    {"delay_seconds": -1e308},
    {"when": "tomorrow", "timezone": "x" * 30_000},
    {"when": "in 1 hour", "policy": {"backoff_base": 0}},
    {"when": "in 1 hour", "policy": {"jitter": "9" * 300}},
    {"when": "\x00", "label": "\x00"},
    {"cron_expr": "0 0 30 2 *"},
)


@attack("batches of 1,000 alarms", stage=4)
async def thousand(house: House, until: float) -> Tried:
    async with house.as_owner("reader") as reader:
        made = 0

        async def once() -> None:
            nonlocal made
            due = iso(time.time() + 86400)
            alarms = [{"wake_message": "x", "fire_at": due} for _ in range(1000)]
            reply = await reader("POST", "/v1/alarms/batch", {"alarms": alarms})
            made += reply.json["created"] if reply.status == 200 else 0

        number = await over_and_over(until, 2, once)
    return tried(f"{number} batches, {made} alarms set, two batches at once", reader.came)


@attack("batches of 1,000 phrases that mean nothing", stage=4)
async def phrases(house: House, until: float) -> Tried:
    bad = {"wake_message": "x", "when": "every blue moon but the second after tea, or the day before " + "very " * 30}
    async with house.as_owner("eve") as eve:
        accepted = 0

        async def once() -> None:
            nonlocal accepted
            reply = await eve("POST", "/v1/alarms/batch", {"alarms": [bad] * 1000})
            accepted += reply.json["created"] if reply.status == 200 else 0

        number = await over_and_over(until, 2, once)
    return tried(f"{number} batches, two at once", eve.came, unless(not accepted, f"{accepted} were accepted"))


@attack("times out of reach", stage=4)
async def monsters(house: House, until: float) -> Tried:
    async with house.as_owner("spy") as spy:
        accepted: set[str] = set()

        async def once() -> None:
            for monster in MONSTERS:
                reply = await spy("POST", "/v1/alarms", {"wake_message": "x"} | monster)
                if 200 <= reply.status < 300:
                    accepted.add(str(monster)[:60])

        number = await over_and_over(until, 2, once)
    what = f"{len(MONSTERS)} of them {number} times: thousands of digits, the year 9999, no pause before a retry"
    return tried(what, spy.came, unless(not accepted, f"accepted: {', '.join(sorted(accepted))}"))


@attack("ids of 60 and 160 kB", stage=4)
async def ids(house: House, until: float) -> Tried:
    """In a path (the head of a request ends at 64 kB or so), and where a body has room for more."""
    async with house.as_owner("eve") as eve:

        async def once() -> None:
            await eve("GET", f"/v1/alarms/{'a_' * 30_000}")
            await eve("GET", f"/v1/alarms/wk_{'a_' * 30_000}/why")
            body = {"wake_message": "x", "when": "in 1 hour", "parent_fire": "a:_" * 53_000}
            await eve("POST", "/v1/alarms", body)
            await eve("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour", "target": "wk_" * 53_000})

        number = await over_and_over(until, 2, once)
    accepted = sum(count for status, count in eve.came.items() if status.startswith("2"))
    return tried(f"{4 * number} of them", eve.came, unless(not accepted, f"{accepted} were accepted"))

"""One owner's alarms at a place that all share: thousands at once, or a receiver that fails for that owner alone.

Both are judged by what the quiet owner sees at the same place.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from . import quiet
from .attack import at_once, attack, tried, unless
from .house import House
from .records import Tried

FLOOD: Final = 5000
SECRET: Final = "the combination is 4711"


@attack("5,000 due alarms at a slow place that all share", stage=10)
async def flood(house: House, until: float) -> Tried:
    async with house.as_owner("crowd") as crowd:
        ids = await at_once(crowd, FLOOD, "shared", ahead=3.0)
        await asyncio.sleep(max(8.0, until - time.monotonic()))  # until they have been due for some seconds
    return tried(
        f"{len(ids)} alarms due at once, {quiet.HOLDS * 1000:.0f} ms each", crowd.came, unless(ids, "none set")
    )


@attack("a router that answers one owner with 500 and quotes the wake", stage=11)
async def router(house: House, until: float) -> Tried:
    heard: list[str] = []
    came: Counter[str] = Counter()
    async with house.as_owner(quiet.LOUD) as loud, house.as_owner("spy") as spy:
        await at_once(loud, 200, "agents", wake_message=SECRET, max_failures=100)
        while time.monotonic() < until:
            mine = await at_once(spy, 3, "agents", ahead=0.1)
            await asyncio.sleep(1.0)
            paths = [f"/v1/alarms/{id}{what}" for id in mine for what in ("", "/why", "/fires")]
            heard += [(await spy("GET", path)).text for path in paths]
        await loud("DELETE", "/v1/alarms?all=true")
        came += loud.came + spy.came
    told = sum(SECRET in text for text in heard)
    what = f"200 alarms of one owner, 500 for each; another asked {len(heard)} times why theirs waits"
    return tried(what, came, unless(heard, "nothing was asked"), unless(not told, f"{told} answers told the words"))

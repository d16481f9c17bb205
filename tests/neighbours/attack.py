"""An attack: a name, when it comes, and a function that makes it until a moment and says how it went."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from tests.faults.client import iso

from .house import House, Visitor
from .records import Tried

Make = Callable[[House, float], Awaitable[Tried]]  # `float`: until when it goes on, monotonic


class Attack(Struct, frozen=True):
    name: str
    stage: int  # attacks of one stage are made at once
    make: Make


GRACE: Final = 1.0  # seconds that an answer may take beyond the end
ATTACKS: Final[dict[str, Attack]] = {}


def attack(name: str, *, stage: int) -> Callable[[Make], Make]:
    def enter(make: Make) -> Make:
        ATTACKS[name] = Attack(name, stage, make)
        return make

    return enter


def tried(what: str, came: Mapping[str, int], *wrong: str) -> Tried:
    """`wrong`: each thing that should not have been; empty texts are none. An answer 500 never should."""
    found = [one for one in wrong if one]
    if came.get("500"):
        found.append(f"{came['500']} answers were 500")
    return Tried(what=what, came=dict(came), through="; ".join(found))


def unless(true: object, what: str) -> str:
    return "" if true else what


async def over_and_over(until: float, many: int, once: Callable[[], Awaitable[Any]]) -> int:
    """As many at a time as asked for, again and again; how often it was done."""
    done = 0

    async def one() -> None:
        nonlocal done
        while time.monotonic() < until:
            await once()
            done += 1

    tasks = [asyncio.create_task(one()) for _ in range(many)]
    _, slow = await asyncio.wait(tasks, timeout=max(0.0, until - time.monotonic()) + GRACE)
    for task in slow:  # whoever attacks does not wait for the end of it either
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (trouble := task.exception()) is not None:
            raise trouble
    return done


async def at_once(visitor: Visitor, count: int, target: str, *, ahead: float = 0.5, **more: Any) -> list[str]:
    """So many alarms that fall due together; their ids."""
    due = iso(time.time() + ahead)
    ids = []
    for start in range(0, count, 1000):
        number = min(1000, count - start)
        alarms = [{"wake_message": "now", "fire_at": due, "target": target} | more for _ in range(number)]
        reply = await visitor("POST", "/v1/alarms/batch", {"alarms": alarms})
        if reply.status == 200:
            ids += [one["alarm"]["id"] for one in reply.json["results"] if one["status"] == 201]
    return ids


def summed(*visitors: Visitor) -> Counter[str]:
    return sum((visitor.came for visitor in visitors), Counter())

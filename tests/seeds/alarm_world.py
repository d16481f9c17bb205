"""Where the tests about Alarm keep their alarms, and the targets they send them to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_of
from wakeful import Wake
from wakeful.python.client import LocalWakeful

Place = dict[str, Any]
STORES = ("sqlite", "postgres")
FUNCTIONS = {  # of Alarm's API reference, and the verb each one has here
    "set_timer": "set",
    "cancel": "cancel",
    "reset": "reset",
    "list_ids": "pending",
    "get": "get",
    "history": "history",
    "stats": "stats",
    "failed": "failed",
    "completed": "completed",
    "delivery_failed": "delivery_failed",
    "parse_timestamp": "parse",
}


def a_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The arguments of `wakeful.open` for an empty database of the store that the fixture's parameter names."""
    return database_of(request, tmp_path)


class Desk:
    """Three targets of one process: `good` completes, `bad` raises, `later` takes the wake up and reports later."""

    def __init__(self, alarms: LocalWakeful) -> None:
        self.wakes: list[Wake] = []
        self._clock = alarms
        self._arrived = asyncio.Semaphore(0)
        alarms.handler("good")(self.good)
        alarms.handler("bad")(self.bad)
        alarms.handler("later", reports=True)(self.later)

    async def good(self, wake: Wake) -> str:
        self._note(wake)
        return "ok"

    async def bad(self, wake: Wake) -> str:
        self._note(wake)
        raise ConnectionError("HTTP 503")

    async def later(self, wake: Wake) -> None:
        self._note(wake)

    def _note(self, wake: Wake) -> None:
        self.wakes.append(wake)
        self._arrived.release()

    async def settled(self, count: int) -> None:
        """Wait until so many more wakes have come and what became of them is written down."""
        async with asyncio.timeout(60):
            for _ in range(count):
                await self._arrived.acquire()
            await self._clock.dispatcher._all_down()

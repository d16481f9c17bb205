"""The only module that asks the time or sleeps."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def nap(seconds: float) -> None:
    """Sleep in a thread that has nothing else to do."""
    time.sleep(seconds)


def stopwatch() -> float:
    """Seconds on a clock that never goes back; only differences mean something."""
    return time.monotonic()

"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta
from typing import Final

NEW_YEAR: Final = datetime(2030, 1, 1, tzinfo=UTC)
_TURNS: Final = (
    25  # of the loop, after each sleeper that woke: enough for a chain of awaits, without a thread among them
)


class ManualClock:
    """A clock under the control of a test. Sleepers wake in order while the clock is moved past them."""

    def __init__(self, now: datetime = NEW_YEAR) -> None:
        self._now = now
        self._passed = timedelta(0)  # what sleepers go by: setting the clock back makes nobody sleep longer
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        until = self._passed + timedelta(seconds=max(0.0, seconds))
        if until <= self._passed:
            await _let_run(1)
            return
        heapq.heappush(self._sleepers, (until, next(self._order), woken))
        await woken

    async def advance(self, by: timedelta | float) -> None:
        """Let time pass: each sleeper finds the clock at its own moment."""
        await _let_run(_TURNS)
        end = self._passed + (by if isinstance(by, timedelta) else timedelta(seconds=by))
        while self._sleepers and self._sleepers[0][0] <= end:
            until, _, woken = heapq.heappop(self._sleepers)
            self._pass(until)
            if not woken.done():
                woken.set_result(None)
                await _let_run(_TURNS)
        self._pass(end)
        await _let_run(_TURNS)

    async def stand_still(self, by: timedelta | float) -> None:
        """Simulate a suspended machine: time passes, and all sleepers wake at its end."""
        self._pass(self._passed + (by if isinstance(by, timedelta) else timedelta(seconds=by)))
        await self.advance(0)

    def set_back(self, by: timedelta | float) -> None:
        """Set the clock back, as an operator or a time server does. No time passes."""
        self._now -= by if isinstance(by, timedelta) else timedelta(seconds=by)

    @property
    def sleepers(self) -> int:
        return sum(not woken.done() for _, _, woken in self._sleepers)

    def _pass(self, until: timedelta) -> None:
        self._now += until - self._passed
        self._passed = until


async def _let_run(turns: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        turn: asyncio.Future[None] = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn

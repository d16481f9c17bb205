"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from wakeful.clock import BUSY, stopwatch

NEW_YEAR: Final = datetime(2030, 1, 1, tzinfo=UTC)
_TURNS: Final = 25  # of the loop, after each sleeper that woke: enough for a chain of awaits


OWN: Final = 2  # sleepers of a dispatcher that is idle: its loop and its upkeep
PATIENCE: Final = 0.5  # real seconds without any change: then deliveries wait for this clock or for the test
TURNS_PATIENT: Final = 250  # milliseconds of them in which this process was really given a turn
LONGEST: Final = 10.0  # real seconds for anything


class ManualClock:
    """Time as a test wants it. Sleepers wake in the order of their moments while the clock is moved past them.

    A dispatcher that runs by it (`alarms.run()`) is waited for: when `advance` returns, what fell due is delivered and
    written. A handler that waits for something else is given a moment, once, and then left to it.
    """

    def __init__(self, now: datetime = NEW_YEAR) -> None:
        self._now = now
        self._passed = timedelta(0)  # what sleepers go by: setting the clock back makes nobody sleep longer
        self._sleepers: list[tuple[timedelta, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._working: list[Callable[[], object]] = []
        self._left_alone: object = None  # deliveries that were waited for in vain
        self._left_busy: object = None  # the same of what else was under way, with how many slept meanwhile

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

    @contextmanager
    def working(self, work: Callable[[], object]) -> Iterator[None]:
        """Wait for whoever works by this clock, before each step, until nothing is under way."""
        self._working.append(work)
        try:
            yield
        finally:
            self._working.remove(work)

    async def _all_idle(self) -> None:
        """Until nobody has anything left to do. Deliveries that wait for something else are waited for once."""
        await _let_run(_TURNS)
        began = since = stopwatch()
        before: object = None
        turns = 0
        while under_way := [found for work in self._working if (found := work()) not in (None, self._left_alone)]:
            now, state = stopwatch(), (under_way, self.sleepers)
            if state != before:
                before, since, turns = state, now, 0
            is_waiting = BUSY not in under_way or self.sleepers > OWN * len(self._working)
            if is_waiting and state == self._left_busy:
                return
            self._left_busy = None
            is_still = turns > TURNS_PATIENT and now - since > PATIENCE * _slowness()
            if now - began > LONGEST or (is_waiting and is_still):
                self._left_alone = next((found for found in under_way if found != BUSY), self._left_alone)
                self._left_busy = state if BUSY in under_way else None
                return
            await _let_threads_run()
            turns += 1
        self._left_busy = None

    async def advance(self, by: timedelta | float) -> None:
        """Let time pass: each sleeper finds the clock at its own moment."""
        await self._all_idle()
        end = self._passed + (by if isinstance(by, timedelta) else timedelta(seconds=by))
        while self._sleepers and self._sleepers[0][0] <= end:
            until, _, woken = heapq.heappop(self._sleepers)
            self._pass(until)
            if not woken.done():
                woken.set_result(None)
                await self._all_idle()
        self._pass(end)
        await self._all_idle()

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


def _slowness() -> float:
    """How many times longer work takes than on an idle machine: how many processes share a processor."""
    try:
        return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except (AttributeError, OSError):  # not on Windows
        return 1.0


async def _let_threads_run() -> None:
    """A millisecond of real time: the database works in threads, or in a process of its own."""
    loop = asyncio.get_running_loop()
    rested: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(0.001, rested.set_result, None)
    try:
        await rested
    finally:
        timer.cancel()


async def _let_run(turns: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        turn: asyncio.Future[None] = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn

"""The system clock, and everything else that reads the time or sleeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


class Clock(Protocol):
    def now(self) -> datetime: ...

    def monotonic(self) -> float:
        """Return seconds on a monotonic clock, for measuring intervals. Only differences have a meaning."""
        ...

    async def sleep(self, seconds: float) -> None: ...


BUSY: Final = "busy"
_STRETCH: Final = 0.001  # seconds


@runtime_checkable
class SteppedClock(Protocol):
    """A clock that a test moves, and that waits before each step for those who work by it.

    `work` says what is under way: None, BUSY, or the deliveries that are out and may themselves wait for something.
    """

    def working(self, work: Callable[[], object]) -> AbstractContextManager[None]: ...


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def turn() -> None:
    """Yield to the other tasks of this event loop."""
    await asyncio.sleep(0)


class LoopShare:
    """How long a stretch of work may keep the other tasks of this event loop waiting: a millisecond, then they come."""

    def __init__(self) -> None:
        self._until = stopwatch() + _STRETCH

    def is_used_up(self) -> bool:
        return stopwatch() >= self._until

    async def give_way(self) -> None:
        await turn()
        self._until = stopwatch() + _STRETCH


async def within(seconds: float, what: Coroutine[Any, Any, None]) -> bool:
    """Wait for a task and return whether it finished in time; if not, cancel it."""
    waiting = asyncio.ensure_future(what)
    done, _ = await asyncio.wait((waiting,), timeout=seconds)
    if not done:
        waiting.cancel()
    return bool(done)


def nap(seconds: float) -> None:
    """Sleep in a thread."""
    time.sleep(seconds)


def monotonic_us() -> int:
    """Return the monotonic clock in whole microseconds: for where it is asked thousands of times a second."""
    return time.monotonic_ns() // 1000


def thread_time() -> float:
    """Return the CPU seconds that the current thread has used; only differences have a meaning."""
    return time.thread_time()


_measure: Callable[[], float] = time.monotonic


def stopwatch() -> float:
    """Return seconds on a clock that never goes back; only differences have a meaning."""
    return _measure()


@contextmanager
def measured_by(monotonic: Callable[[], float]) -> Iterator[None]:
    """Inside, stopwatches go by this clock: a simulation has no real time."""
    global _measure
    before, _measure = _measure, monotonic
    try:
        yield
    finally:
        _measure = before

"""The system clock, and everything else that reads the time or sleeps."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, runtime_checkable


class Clock(Protocol):
    def now(self) -> datetime: ...

    def monotonic(self) -> float:
        """Return seconds on a monotonic clock, for measuring intervals. Only differences have a meaning."""
        ...

    async def sleep(self, seconds: float) -> None: ...


@runtime_checkable
class SteppedClock(Protocol):
    """A clock that a test moves, and that waits before each step until those who work by it have nothing left to do."""

    def working(self, is_idle: Callable[[], bool]) -> AbstractContextManager[None]: ...


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Here(threading.local):
    loop: asyncio.AbstractEventLoop | None = None
    watch: _Watch


_here = _Here()


def running_loop() -> asyncio.AbstractEventLoop:
    """Return this thread's event loop. Until Python 3.12 asyncio makes a system call for it; this does so only once."""
    loop = _here.loop
    if loop is None or not loop.is_running():  # a thread has only one that runs
        loop = _here.loop = asyncio.get_running_loop()
        _here.watch = _Watch(loop)
    return loop


class Within:
    """A cheap `asyncio.timeout` for the path of every request: it shares a timer, and may be up to an eighth late."""

    __slots__ = ("_before", "_rang", "_seconds", "_task", "_watch", "ends_at")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds  # None: for as long as it takes
        self._rang = False

    def __enter__(self) -> None:
        if self._seconds is None:
            return
        loop = running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._task, self._before = task, task.cancelling()
        self.ends_at = loop.time() + self._seconds
        self._watch = _here.watch
        self._watch.add(self, self._seconds / 8)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._seconds is None:
            return
        self._watch.entries.discard(self)
        # Cancelled by us, and by nobody else meanwhile.
        if self._rang and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def ring(self) -> None:
        self._rang = True
        self._task.cancel()


class _Watch:
    """One timer for all timeouts of a loop: thousands a second would fill its heap with cancelled timers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.entries: set[Within] = set()
        self._loop = loop
        self._next = math.inf  # when it looks again

    def add(self, entry: Within, soon: float) -> None:
        self.entries.add(entry)
        at = self._loop.time() + soon
        if at < self._next - soon:
            self._look_at(at, soon)

    def _look_at(self, at: float, soon: float) -> None:
        self._next = at
        self._loop.call_at(at, self._look, at, soon)

    def _look(self, at: float, soon: float) -> None:
        if at != self._next:
            return  # another look was set for sooner
        now, self._next = self._loop.time(), math.inf
        for entry in [entry for entry in self.entries if entry.ends_at <= now]:
            self.entries.discard(entry)
            entry.ring()
        if self.entries:
            self._look_at(now + soon, soon)


async def turn() -> None:
    """Yield to the other tasks of this event loop."""
    await asyncio.sleep(0)


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


def stopwatch() -> float:
    """Return seconds on a clock that never goes back; only differences have a meaning."""
    return time.monotonic()

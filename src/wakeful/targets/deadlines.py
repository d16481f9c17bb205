"""An end to calls that take too long, at the price of one timer for all of them."""

from __future__ import annotations

import asyncio
from typing import Any


class Running:
    """One call under way."""

    __slots__ = ("cancelling", "ends", "late", "task")

    def __init__(self, task: asyncio.Task[Any], ends: float) -> None:
        self.task = task
        self.ends = ends
        self.cancelling = task.cancelling()
        self.late = False

    @property
    def is_only_late(self) -> bool:
        """Whether it was cancelled by its deadline, and by nobody else besides."""
        return self.late and self.task.cancelling() <= self.cancelling + 1


class Deadlines:
    """One timer for all calls of a target: they get the same time, so the first to begin is the first to be late.

    A timer for each call would cost more than most calls.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._calls: dict[Running, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> Running:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        running = Running(task, loop.time() + self._seconds)
        self._calls[running] = None
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_at(running.ends, self._sweep, loop)
        return running

    def end(self, running: Running) -> None:
        self._calls.pop(running, None)
        if running.late:
            running.task.uncancel()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while (first := next(iter(self._calls), None)) is not None and first.ends <= now:
            del self._calls[first]
            first.late = True
            first.task.cancel()
        if first is not None:
            self._timer = loop.call_at(first.ends, self._sweep, loop)

"""What bounds the calls of a target: a few threads for those that block, and one timer for all deadlines."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[[], Any]]


class Threads:
    """A few threads for calls that block.

    They are daemons: unlike those of an executor they never hold up the end of the process, however long a call hangs.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._started = 0

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call it in a thread, with the context of here. Cancelled before a thread was free, it never starts."""
        call = partial(contextvars.copy_context().run, function, *args)
        future: Future[T] = Future()
        self._jobs.put((future, call))
        if not self._free.acquire(blocking=False) and self._started < self._limit:
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=_work, args=(self._jobs, self._free), name=name, daemon=True).start()
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Let every thread end once it has done what was asked of it. A later call starts new ones."""
        for _ in range(self._started):
            self._jobs.put(None)
        self._begin()


def _work(jobs: queue.SimpleQueue[_Job | None], free: threading.Semaphore) -> None:
    while (job := jobs.get()) is not None:
        future, call = job
        if future.set_running_or_notify_cancel():
            _answer(future, call)
        del job, future, call  # nothing of a finished call stays alive while waiting for the next
        free.release()


def _answer(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        result = call()
    except StopIteration as error:  # a future cannot carry it
        future.set_exception(RuntimeError(f"StopIteration: {error}"))
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


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

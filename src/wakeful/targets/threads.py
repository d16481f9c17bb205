"""A few threads for calls that block.

They are daemons: unlike those of an executor they never hold up the end of the process, however long a call hangs.
"""

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

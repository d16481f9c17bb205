"""A deterministic event loop with virtual time, and the clocks of what runs on it.

No threads, no sockets, no real time. What is ready runs in the order that a seed says; where nothing is ready, time
jumps to the next timer. Tasks belong to groups, one for each simulated process: a group can be frozen, and killed
without any of its cleanup.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, TypeVar, cast

from wakeful.clock import measured_by
from wakeful.testing.manual_clock import NEW_YEAR

T = TypeVar("T")

# What running one callback takes: without it, whoever waits turn by turn for a moment would wait for ever.
CALLBACK: Final = 0.00005
OUT_OF_TURN: Final = 0.25  # the share of callbacks that do not run in the order in which they became ready
_PRUNE: Final = 256  # tasks that a group remembers before it looks which have ended


class Stuck(Exception):
    """Nothing is ready and no timer is set, but the main task is not done."""


class Group:
    """The tasks of one simulated process."""

    def __init__(self) -> None:
        self.alive = True
        self.frozen = False
        self.held: list[_Handle] = []  # became ready while it was frozen
        self.context = copy_context()
        self.context.run(_group.set, self)
        self._tasks: list[tuple[asyncio.Task[Any], Coroutine[Any, Any, Any], Context]] = []

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of this process, whoever asks for it."""
        return self.context.run(asyncio.get_running_loop().create_task, work)

    def started(self, task: asyncio.Task[Any], work: Coroutine[Any, Any, Any], context: Context) -> None:
        if len(self._tasks) >= _PRUNE:
            self._tasks = [known for known in self._tasks if not known[0].done()]
        self._tasks.append((task, work, context))

    def entered(self) -> None:
        """The loop goes on with a callback of this group after one of another."""

    def end(self) -> None:
        """Drop every task where it stands. Their `finally` blocks run, but whatever these await never comes."""
        self.alive = False
        self.held.clear()
        for task, work, context in self._tasks:
            if not task.done():
                context.run(_close, work)
        self._tasks.clear()


def _close(work: Coroutine[Any, Any, Any]) -> None:
    for _ in range(20):  # each time it gets as far as the next await of a cleanup
        try:
            work.close()
        except BaseException:
            continue
        return


_group: Final[ContextVar[Group]] = ContextVar("the simulated process")


class _Handle:
    __slots__ = ("args", "callback", "context", "gone", "number", "time")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context, time: float, number: int
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.time = time
        self.number = number
        self.gone = False

    def cancel(self) -> None:
        self.gone = True

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        return self.time

    def __lt__(self, other: _Handle) -> bool:
        return (self.time, self.number) < (other.time, other.number)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """`order`: draws which of the ready callbacks is next; without it they run in turn, as on any event loop."""

    def __init__(self, order: Random | None = None) -> None:
        self.turns = 0  # callbacks that were run
        self._draw = None if order is None else order.random
        self._now = 0.0
        self._ready: list[_Handle] = []
        self._timers: list[_Handle] = []
        self._number = 0
        self._entered: Group | None = None
        self._closed = False

    # Running

    def run(self, main: Coroutine[Any, Any, T], *, until: Callable[[], object] = lambda: None) -> T | None:
        """Run until `main` is done, or `until` says that it is enough: then None."""
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            with measured_by(self.time):
                task = self.create_task(main)
                while not task.done():
                    self._turn()
                    if until():
                        return None
                return task.result()
        finally:
            asyncio._set_running_loop(outer)

    def _turn(self) -> None:
        """Run one callback that is ready."""
        ready = self._ready
        if not ready:
            self._jump()
        if self._timers and self._timers[0].time <= self._now:
            self._ring()
        if not ready:
            return
        at = 0
        if len(ready) > 1 and self._draw is not None and (drawn := self._draw()) < OUT_OF_TURN:
            at = int(drawn / OUT_OF_TURN * len(ready))
        handle = ready.pop(at)
        if not handle.gone and self._may_run(handle):
            self.turns += 1
            self._now += CALLBACK
            handle.context.run(handle.callback, *handle.args)

    def _jump(self) -> None:
        """To the moment of the next timer."""
        timers = self._timers
        while timers and timers[0].gone:
            heapq.heappop(timers)
        if not timers:
            raise Stuck
        self._now = max(self._now, timers[0].time)

    def _ring(self) -> None:
        timers = self._timers
        while timers and timers[0].time <= self._now:
            if not (due := heapq.heappop(timers)).gone:
                self._ready.append(due)

    def _may_run(self, handle: _Handle) -> bool:
        """Whether its process is alive and goes on; where it is another than the last one, the loop enters it."""
        if (group := handle.context.get(_group)) is None:
            return True
        if group.frozen and group.alive:
            group.held.append(handle)
        if group.frozen or not group.alive:
            return False
        if group is not self._entered:
            self._entered = group
            group.entered()
        return True

    def thaw(self, group: Group) -> None:
        """Let a frozen process go on: what became ready meanwhile is ready now."""
        group.frozen = False
        self._ready += group.held
        group.held = []

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    # What asyncio asks of a loop

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # typeshed lets it take more kinds of work
        self, coro: Coroutine[Any, Any, T], *, name: object = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        context = copy_context() if context is None else context
        task = asyncio.Task(coro, loop=self, context=context)
        if (group := context.get(_group)) is not None:
            group.started(task, coro, context)
        return task

    def call_soon(  # type: ignore[override]  # a handle of our own has all that asyncio asks of one
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self._number += 1
        handle = _Handle(callback, args, copy_context() if context is None else context, self._now, self._number)
        self._ready.append(handle)
        return cast(asyncio.Handle, handle)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._number += 1
        handle = _Handle(callback, args, copy_context() if context is None else context, when, self._number)
        heapq.heappush(self._timers, handle)
        return cast(asyncio.TimerHandle, handle)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """What would be done in a thread is done here and now; its answer comes a turn later."""
        answer: asyncio.Future[T] = self.create_future()
        try:
            answer.set_result(func(*args))
        except Exception as error:
            answer.set_exception(error)
        return answer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tasks of processes that were killed end unfinished: nothing is wrong with that."""

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        return None


def simulated_loop(order: Random | None = None) -> SimulatedLoop:
    return SimulatedLoop(order)  # type: ignore[abstract]  # it has no sockets, pipes, signals and child processes


class SimulatedClock:
    """The clock of one machine. Its wall clock can be set; its monotonic clock cannot."""

    def __init__(self, loop: SimulatedLoop, *, booted: float = 0.0) -> None:
        self._loop = loop
        self._booted = booted  # seconds before the simulation began: no two machines count from the same moment
        self.offset = timedelta(0)

    def now(self) -> datetime:
        return NEW_YEAR + timedelta(microseconds=round(self._loop.time() * 1_000_000)) + self.offset

    def monotonic(self) -> float:
        return self._booted + self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await pause(self._loop, seconds)


class _Turn:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def pause(loop: SimulatedLoop, seconds: float) -> None:
    """Sleep for so long in virtual time; of 0 seconds, let others run."""
    if seconds <= 0:
        await _Turn()
        return
    woken = loop.create_future()
    timer = loop.call_later(seconds, _wake, woken)
    try:
        await woken
    finally:
        timer.cancel()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


@contextmanager
def closing(loop: SimulatedLoop, groups: list[Group]) -> Iterator[None]:
    """End every task of these groups, and the loop, however the run ends."""
    try:
        yield
    finally:
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(loop)
        try:
            for group in groups:
                group.end()
        finally:
            asyncio._set_running_loop(outer)
        loop.close()

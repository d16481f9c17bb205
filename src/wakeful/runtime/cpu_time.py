"""CPU time of requests: measured in the event loop and in threads, and charged to the owner of the request.

Each step of a request's coroutine is measured, and what is done for it in threads. Tasks that the request starts use
the same account. Callers without limits, the dispatcher and the operator's own process have none.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, Protocol, TypeVar

from wakeful.clock import thread_time

T = TypeVar("T")


class Account(Protocol):
    """Whose CPU time it is."""

    def spend(self, seconds: float) -> None: ...

    def thread(self) -> AbstractAsyncContextManager[None]:
        """Wait for a thread: of those for work beside the event loop one owner has one at a time."""
        ...


# Of the request that is being answered; None for wakeful's own work, and for callers without limits.
_account: Final[contextvars.ContextVar[Account | None]] = contextvars.ContextVar("account", default=None)


async def charged(work: Awaitable[T], to: Account | None = None) -> T:
    """Do it, and charge its CPU time to an account: this one, or that of the request it belongs to."""
    if (to := to or _account.get()) is None:
        return await work
    before = _account.set(to)
    try:
        return await _Measured(work, to.spend)
    finally:
        _account.reset(before)


class _Measured(Awaitable[T], Generic[T]):
    """Work whose steps are measured one by one: between them others run in the same thread."""

    def __init__(self, work: Awaitable[T], spend: Callable[[float], None]) -> None:
        self._work = work
        self._spend = spend

    def __await__(self) -> Generator[Any, Any, T]:
        work, answer = self._work.__await__(), None
        error: BaseException | None = None
        while True:
            began = thread_time()
            try:
                awaited = work.send(answer) if error is None else work.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                error = None  # kept, it would make a cycle with this frame
                self._spend(thread_time() - began)
            try:
                answer = yield awaited
            except BaseException as raised:
                error = raised


def charging(work: Callable[..., T]) -> Callable[..., T]:
    """The same work, for a thread: what it uses there is charged to the account of the request that asks for it."""
    if (to := _account.get()) is None:
        return work
    spend, loop = to.spend, asyncio.get_running_loop()

    def measured(*args: Any) -> T:
        began = thread_time()
        try:
            return work(*args)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(spend, thread_time() - began)

    return measured


@functools.cache
def _threads(pid: int) -> ThreadPoolExecutor:
    """Threads of this process: those of a parent are not there in a forked child."""
    return ThreadPoolExecutor(2, "beside the event loop")


async def in_thread(work: Callable[[], T]) -> T:
    """Do work of unknown length beside the event loop, in its own context.

    In threads of its own: the default ones look up names for deliveries, which must not wait for a request's work.
    """
    context, to = contextvars.copy_context(), _account.get()
    measured = charging(lambda: context.run(work))
    async with to.thread() if to is not None else contextlib.nullcontext():
        return await asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), measured)

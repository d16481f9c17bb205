"""The client for plain scripts and notebooks: all verbs (python/verbs.py) and handlers without `await`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from wakeful.errors import OneProcess, StoreUnavailable
from wakeful.python.program import Wakeful
from wakeful.python.verbs import SyncTransactionVerbs, SyncVerbs
from wakeful.runtime.os_signals import ending_program
from wakeful.service import Alarms
from wakeful.settings import Settings
from wakeful.targets.handler import HandlerFunction

R = TypeVar("R")
F = TypeVar("F", bound=HandlerFunction)


def _awaited(running: concurrent.futures.Future[None]) -> None:
    """Wait for it, and wake up now and then: a signal that comes just before the wait does not interrupt it."""
    while True:
        done, _ = concurrent.futures.wait((running,), timeout=1)
        if done:
            return running.result()


class SyncWakeful(SyncVerbs):
    """All verbs of `Wakeful` without `await`; an event loop in its own thread does the work."""

    asynchronous: Wakeful

    def __init__(self, make: Callable[[], Wakeful], *, background: bool = False) -> None:
        self._background = background  # whether the dispatcher runs as long as it is open
        self._running: AbstractAsyncContextManager[object] | None = None
        self._process = OneProcess()  # that opened it
        self._start()

        async def build() -> Wakeful:
            return make()

        super().__init__(self._result(build()), self.wait)

    def _start(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wakeful", daemon=True)
        self._thread.start()

    def wait(self, what: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the event loop of the verbs and wait for its result."""
        try:
            self._process.check()
        except StoreUnavailable:
            what.close()
            raise
        self._start_here()
        return self._result(what)

    def _start_here(self) -> None:
        """Also in a process whose parent has made it, and opened nothing yet."""
        if self._pid != os.getpid():
            self._start()

    def _result(self, what: Coroutine[Any, Any, R]) -> R:
        waiting = asyncio.run_coroutine_threadsafe(what, self._loop)
        try:
            return waiting.result()
        except KeyboardInterrupt:
            waiting.cancel()
            raise

    def __enter__(self) -> Self:
        try:
            self.wait(self.asynchronous.__aenter__())
            if self._background:
                self._running = self.asynchronous.running()
                self.wait(self._running.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store and stop the thread. `with` does this."""
        if self._process.is_forked or self._pid != os.getpid():
            return  # all that there is to close is the parent's
        if self._loop.is_closed():
            return
        try:
            if self._running is not None:
                self.wait(self._running.__aexit__(None, None, None))
        finally:
            self.wait(self.asynchronous.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def run(self, *, signals: bool = True) -> None:
        """Deliver alarms as they become due, until a signal ends the program; see `Wakeful.run`.

        SIGTERM and SIGINT (Ctrl-C) let deliveries in flight finish; a second one ends the program at once.
        """
        task: asyncio.Task[Any] | None = None

        async def until_stopped() -> None:
            nonlocal task
            task = asyncio.current_task()
            await self.asynchronous.run(signals=False)

        def stop() -> None:
            self._loop.call_soon_threadsafe(lambda: task is None or task.cancel())

        self._process.check()
        running = asyncio.run_coroutine_threadsafe(until_stopped(), self._loop)
        with ending_program(stop) if signals else nullcontext():
            try:
                _awaited(running)
            except KeyboardInterrupt:  # of a program that handles it as Python does
                stop()
                with suppress(concurrent.futures.CancelledError):
                    _awaited(running)
                raise

    @property
    def settings(self) -> Settings:
        """The settings that were in force when it was opened."""
        return self.asynchronous.settings

    def handler(
        self, name: str, *, timeout: float = 900, concurrency: int | None = None, reports: bool = False
    ) -> Callable[[F], F]:
        """Register a function as the target `name` in this process; see `Wakeful.handler`."""
        decorate = self.asynchronous.handler(name, timeout=timeout, concurrency=concurrency, reports=reports)

        def register(function: F) -> F:
            async def on_its_loop() -> F:  # which may be serving the others just now
                return decorate(function)

            if self._process.is_forked:
                self._process.check()
            self._start_here()  # nothing is opened by this: a child of this process may still do so
            return self._result(on_its_loop())

        return register

    @contextmanager
    def within(self, connection: Any) -> Iterator[SyncTransactionVerbs]:
        """The verbs that set and change alarms, inside your own transaction; see `Wakeful.within`."""
        entering = self.asynchronous.within(connection)
        inside = self.wait(entering.__aenter__())
        try:
            yield SyncTransactionVerbs(inside, self.wait)
        finally:
            self.wait(entering.__aexit__(None, None, None))

    def declare(self, *names: str) -> None:
        """Name targets that handlers of other processes serve."""
        self.asynchronous.declare(*names)

    def run_due(self) -> int:
        """Deliver what is due now and return how many; see `Wakeful.run_due`."""
        return self.wait(self.asynchronous.run_due())


for name, verb in vars(Alarms).items():  # help() shows all that is said of a verb
    if inspect.iscoroutinefunction(verb):
        getattr(SyncVerbs, name).__doc__ = verb.__doc__

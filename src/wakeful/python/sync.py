"""The client for plain scripts and notebooks: all verbs without `await`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar

from wakeful.errors import OneProcess, StoreUnavailable
from wakeful.python.client import Wakeful
from wakeful.runtime.os_signals import ending_program
from wakeful.service import Alarms, Transaction
from wakeful.settings import Settings
from wakeful.targets.handler import HandlerFunction

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=HandlerFunction)


class Waiting(Protocol):
    """Verbs on an event loop in another thread, and how to wait for one of them."""

    @property
    def clock(self) -> Any: ...

    def wait(self, what: Coroutine[Any, Any, R]) -> R: ...


_NAMES: Final = {verb: name for name, verb in vars(Alarms).items() if inspect.iscoroutinefunction(verb)}


def _waited(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Waiting, P], R]:
    name = _NAMES.get(verb, verb.__name__)

    @functools.wraps(verb)
    def call(self: Waiting, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # By name: a remote client has verbs of its own.
        asked: Coroutine[Any, Any, R] = getattr(self.clock, name)(*args, **kwargs)
        return self.wait(asked)

    return call


def _awaited(running: concurrent.futures.Future[None]) -> None:
    """Wait for it, and wake up now and then: a signal that comes just before the wait does not interrupt it."""
    while True:
        done, _ = concurrent.futures.wait((running,), timeout=1)
        if done:
            return running.result()


class SyncTransaction:
    """The verbs inside a caller's own transaction without `await`; see `SyncWakeful.within`."""

    def __init__(self, outside: SyncWakeful, inside: Transaction) -> None:
        self._outside = outside
        self.clock = inside

    def wait(self, what: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine on the event loop of the verbs and wait for its result."""
        return self._outside.wait(what)

    set = _waited(Transaction.set)
    create = _waited(Transaction.create)
    get = _waited(Transaction.get)
    update = _waited(Transaction.update)
    edit = _waited(Transaction.edit)
    pause = _waited(Transaction.pause)
    resume = _waited(Transaction.resume)
    snooze = _waited(Transaction.snooze)
    skip = _waited(Transaction.skip)
    undo = _waited(Transaction.undo)
    cancel = _waited(Transaction.cancel)
    signal = _waited(Transaction.signal)


class SyncWakeful:
    """All verbs of `Wakeful` without `await`; an event loop in its own thread does the work."""

    def __init__(self, make: Callable[[], Wakeful], *, background: bool = False) -> None:
        self._background = background  # whether the dispatcher runs as long as it is open
        self._running: AbstractAsyncContextManager[object] | None = None
        self._process = OneProcess()  # that opened it
        self._start()

        async def build() -> Wakeful:
            return make()

        self.clock = self._result(build())

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
            self.wait(self.clock.__aenter__())
            if self._background:
                self._running = self.clock.running()
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
            self.wait(self.clock.close())
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
            await self.clock.run(signals=False)

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
        return self.clock.settings

    def handler(
        self, name: str, *, timeout: float = 900, concurrency: int | None = None, reports: bool = False
    ) -> Callable[[F], F]:
        """Register a function as the target `name` in this process; see `Wakeful.handler`."""
        decorate = self.clock.handler(name, timeout=timeout, concurrency=concurrency, reports=reports)

        def register(function: F) -> F:
            async def on_its_loop() -> F:  # which may be serving the others just now
                return decorate(function)

            if self._process.is_forked:
                self._process.check()
            self._start_here()  # nothing is opened by this: a child of this process may still do so
            return self._result(on_its_loop())

        return register

    @contextmanager
    def within(self, connection: Any) -> Iterator[SyncTransaction]:
        """The verbs that set and change alarms, inside your own transaction; see `Wakeful.within`."""
        entering = self.clock.within(connection)
        inside = self.wait(entering.__aenter__())
        try:
            yield SyncTransaction(self, inside)
        finally:
            self.wait(entering.__aexit__(None, None, None))

    def declare(self, *names: str) -> None:
        """Name targets that handlers of other processes serve."""
        self.clock.declare(*names)

    set = _waited(Wakeful.set)
    create = _waited(Wakeful.create)
    create_many = _waited(Wakeful.create_many)
    create_each = _waited(Wakeful.create_each)
    details = _waited(Wakeful.details)
    parse = _waited(Wakeful.parse)
    get = _waited(Wakeful.get)
    find = _waited(Wakeful.find)
    fires = _waited(Wakeful.fires)
    fire_of = _waited(Wakeful.fire_of)
    active = _waited(Wakeful.active)
    pending = _waited(Wakeful.pending)
    history = _waited(Wakeful.history)
    failed = _waited(Wakeful.failed)
    stats = _waited(Wakeful.stats)
    agenda = _waited(Wakeful.agenda)
    why = _waited(Wakeful.why)
    owner_settings = _waited(Wakeful.owner_settings)
    set_owner_settings = _waited(Wakeful.set_owner_settings)
    change_settings = _waited(Wakeful.change_settings)
    targets = _waited(Wakeful.targets)
    budget = _waited(Wakeful.budget)
    signal = _waited(Wakeful.signal)
    overview = _waited(Wakeful.overview)
    recent_events = _waited(Wakeful.recent_events)
    update = _waited(Wakeful.update)
    edit = _waited(Wakeful.edit)
    cancel_chain = _waited(Wakeful.cancel_chain)
    pause = _waited(Wakeful.pause)
    resume = _waited(Wakeful.resume)
    snooze = _waited(Wakeful.snooze)
    skip = _waited(Wakeful.skip)
    undo = _waited(Wakeful.undo)
    fire = _waited(Wakeful.fire)
    cancel = _waited(Wakeful.cancel)
    cancel_many = _waited(Wakeful.cancel_many)
    reset = _waited(Wakeful.reset)
    report = _waited(Wakeful.report)
    completed = _waited(Wakeful.completed)
    delivery_failed = _waited(Wakeful.delivery_failed)
    working = _waited(Wakeful.working)
    snooze_fire = _waited(Wakeful.snooze_fire)
    retry = _waited(Wakeful.retry)
    retry_at = _waited(Wakeful.retry_at)
    inbox = _waited(Wakeful.inbox)
    run_due = _waited(Wakeful.run_due)

"""SIGTERM and SIGINT: the first asks this process to stop in good order, the second ends it at once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

from wakeful.runtime import child, systemd

log = logging.getLogger("wakeful.server")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# What Python itself does with them: where a program has another handler, that decides.
_DEFAULTS: Final[dict[signal.Signals, Any]] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class SignalHandler:
    """Calls those who asked to be told when the process is to stop, whoever says so: a signal, or a parent process."""

    def __init__(self) -> None:
        self._asked = False
        self._signalled = False
        self.first: signal.Signals | None = None  # that was sent
        self._stops: list[Callable[[], object]] = []

    @contextlib.contextmanager
    def calling(self, stop: Callable[[], object]) -> Iterator[None]:
        self._stops.append(stop)
        if self._asked:
            stop()  # it came when nobody was at work
        try:
            yield
        finally:
            self._stops.remove(stop)

    def told(self, number: signal.Signals) -> None:
        if self._signalled:
            end_at_once(f"{number.name} again", 128 + number)
        self._signalled = True
        self.first = number
        self.ask(number.name)

    def ask(self, why: str) -> None:
        """Stop in good order. A parent says so besides the signal that both may have got: it counts once."""
        if self._asked:
            return
        self._asked = True
        systemd.notify(systemd.STOPPING)
        log.info("%s: stopping", why)
        for stop in self._stops:
            stop()


def end_at_once(why: str, status: int) -> None:
    log.warning("%s: stopping now; deliveries in flight will be tried again", why)
    child.kill_all()
    logging.shutdown()  # what the log still holds back
    os._exit(status)


_signal_handler: ContextVar[SignalHandler | None] = ContextVar("_signal_handler", default=None)


@contextlib.contextmanager
def handling_signals() -> Iterator[SignalHandler]:
    """The handler there is, or one from here on."""
    if (handler := _signal_handler.get()) is not None:
        yield handler
        return
    handler, loop = SignalHandler(), asyncio.get_running_loop()
    # Only the main thread receives signals; in other threads the program decides.
    numbers = SIGNALS if threading.current_thread() is threading.main_thread() else ()
    for number in numbers:
        loop.add_signal_handler(number, handler.told, number)
    token = _signal_handler.set(handler)
    try:
        yield handler
    finally:
        _signal_handler.reset(token)
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    with handling_signals() as handler, handler.calling(stop):
        yield


@contextlib.contextmanager
def ending_program(stop: Callable[[], object], *, loop: asyncio.AbstractEventLoop | None = None) -> Iterator[None]:
    """End somebody's program in good order: the first signal calls `stop`, and the program ends after the block.

    SIGTERM ends it with status 0, SIGINT with KeyboardInterrupt; a second signal ends it at once. Only in the main
    thread, and only where the program has no handler of its own: `asyncio.run` has one for SIGINT, which cancels.
    `loop`: the one that this thread runs; without it the thread only waits.
    """
    handler = SignalHandler()
    try:
        with _in_place_of_defaults(handler, loop), handler.calling(stop):
            yield
    except (asyncio.CancelledError, concurrent.futures.CancelledError):
        if handler.first is None:
            raise
    if handler.first is signal.SIGINT:
        raise KeyboardInterrupt
    if handler.first is not None:
        raise SystemExit(0)


@contextlib.contextmanager
def _in_place_of_defaults(handler: SignalHandler, loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    in_main = threading.current_thread() is threading.main_thread()
    numbers = [one for one, usual in _DEFAULTS.items() if in_main and signal.getsignal(one) is usual]
    for number in numbers:
        if loop is None:
            signal.signal(number, lambda sent, _: handler.told(signal.Signals(sent)))
        else:
            loop.add_signal_handler(number, handler.told, number)
    try:
        yield
    finally:
        for number in numbers:
            if loop is None:
                signal.signal(number, _DEFAULTS[number])
            else:
                loop.remove_signal_handler(number)  # Python's own is back


@contextlib.contextmanager
def ending_run() -> Iterator[None]:
    """The same for the task that is running: it is cancelled, and finishes what is in flight."""
    task = asyncio.current_task()
    assert task is not None
    with ending_program(task.cancel, loop=asyncio.get_running_loop()):
        yield

"""SIGTERM and SIGINT: the first asks this process to stop in good order, the second ends it at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final

from wakeful import systemd

log = logging.getLogger("wakeful.server")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class SignalHandler:
    """Calls those who asked to be told when the process is to stop, whoever says so: a signal, or a parent process."""

    def __init__(self) -> None:
        self._asked = False
        self._signalled = False
        self._stops: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def calling(self, stop: Callable[[], None]) -> Iterator[None]:
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

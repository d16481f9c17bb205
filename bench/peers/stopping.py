"""Stopping a run: a signal is noted and ends the driver that is under way, and the run sees it where it can end well.

An exception that a handler raises may come up inside a destructor or a callback, where Python drops it: the run would
go on as if nobody had asked.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator


class Stopped(Exception):
    """Somebody asked for the run to end."""


class Stop:
    """Whether the run shall end, and the driver that ends with it."""

    def __init__(self) -> None:
        self._asked = False
        self._driver: subprocess.Popen[str] | None = None

    def ask(self) -> None:
        self._asked = True
        self._end_driver()

    def check(self) -> None:
        if self._asked:
            raise Stopped

    @contextlib.contextmanager
    def driving(self, driver: subprocess.Popen[str]) -> Iterator[None]:
        """Its processes end with the run, and with whatever goes wrong here."""
        self._driver = driver
        try:
            if self._asked:  # it was being started
                self._end_driver()
            yield
        except BaseException:
            self._end_driver()
            raise
        finally:
            self._driver = None

    def _end_driver(self) -> None:
        if self._driver is not None and self._driver.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.killpg(self._driver.pid, signal.SIGKILL)


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    stop = Stop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: stop.ask())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

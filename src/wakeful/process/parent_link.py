"""The line between one of several `serve` processes and the parent that started it (see serve_processes.py).

The process says that it is ready, and that it is alive; the parent tells it to stop. Its end says that the parent died.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from wakeful.clock import Clock
from wakeful.runtime.os_signals import SignalHandler, end_at_once

READY: Final = b"r"
ALIVE: Final = b"a"
STOP: Final = b"s"
STOP_AT_ONCE: Final = b"k"


class ParentLink:
    """The end of the process; what else its parent hands down: one sign-in link for all, and who prints it."""

    def __init__(
        self,
        line: socket.socket,
        *,
        number: int,
        announces: bool,
        sign_in: tuple[str, datetime],
        alive_every: float | None,
    ) -> None:
        line.setblocking(False)
        self._line = line
        self.number = number  # among the processes, from 0
        self.announces = announces
        self.sign_in = sign_in  # its secret, and until when it is good
        self._alive_every = alive_every

    def ready(self, url: str) -> None:
        self._say(READY)

    async def say_alive(self, clock: Clock, is_alive: Callable[[], bool]) -> None:
        while self._alive_every is not None:
            if is_alive():
                self._say(ALIVE)
            await clock.sleep(self._alive_every)

    @contextlib.contextmanager
    def heard(self, handler: SignalHandler) -> Iterator[None]:
        """Stop when the parent says so, or is gone."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._line.fileno(), self._hear, handler)
        try:
            yield
        finally:
            loop.remove_reader(self._line.fileno())

    def _hear(self, handler: SignalHandler) -> None:
        said = b""
        with contextlib.suppress(ConnectionError):
            said = self._line.recv(64)
        if STOP_AT_ONCE in said:
            end_at_once("the parent process was told to stop again", 128 + signal.SIGTERM)
        if not said:
            asyncio.get_running_loop().remove_reader(self._line.fileno())
        handler.ask("the parent process stops" if said else "the parent process is gone")

    def _say(self, what: bytes) -> None:
        with contextlib.suppress(OSError):  # a parent that is gone is noticed by reading
            self._line.send(what)

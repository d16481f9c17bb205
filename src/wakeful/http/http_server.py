"""uvicorn's server, but signals are left to the process, which has a dispatcher to stop as well.

And it stops when it is told to, not at its next tick.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator
from functools import partial
from typing import Any, Final

import uvicorn

from wakeful.clock import SystemClock, within
from wakeful.http.acceptor import Acceptor

log = logging.getLogger("wakeful.server")

TICK: Final = 1.0  # seconds: what the Date header counts
FIRST_LOOK, LAST_LOOK = 0.001, 0.1  # seconds between two looks whether all that was accepted is answered


class HttpServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()
        self._acceptors: list[Acceptor] = []

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        connection: Any = self.config.http_protocol_class
        protocol = partial(
            connection, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        self._acceptors = [Acceptor(listener, protocol) for listener in sockets or ()]

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # the number of a tick at which uvicorn writes the Date header
            await within(TICK, self._told_to_stop())

    async def _told_to_stop(self) -> None:
        await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
            await acceptor.all_connected()
        asked = self._ask_to_end(set())
        if not await within(self.config.timeout_graceful_shutdown or 0, self._all_ended(asked)):
            log.error("%d requests were not answered in time and are cancelled", len(self.server_state.tasks))
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()

    def _ask_to_end(self, asked: set[Any]) -> set[Any]:
        """Each connection once: one that is idle is closed, any other when its request is answered."""
        connections = set(self.server_state.connections)
        for connection in connections - asked:
            connection.shutdown()
        return asked | connections

    async def _all_ended(self, asked: set[Any]) -> None:
        wait = FIRST_LOOK
        while self.server_state.connections or self.server_state.tasks:
            await SystemClock().sleep(wait)  # the network's time, also where a test moves the clock
            wait = min(wait * 2, LAST_LOOK)
            asked = self._ask_to_end(asked)  # also who became a WebSocket meanwhile

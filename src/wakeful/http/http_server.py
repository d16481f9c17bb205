"""uvicorn's server, but signals are left to the process; connections are accepted a few at a time."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

import uvicorn

from wakeful.clock import SystemClock, within

http_log = logging.getLogger("wakeful.http")

ACCEPTED_AT_ONCE: Final = 32  # connections before those who are connected are counted again
TRY_AGAIN_AFTER: Final = 1.0  # seconds, where there is no descriptor
NOTHING_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Hands the connections of a listening socket to protocols, until it is closed."""

    def __init__(self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._listener = listener
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[Any]] = set()  # accepted, and not counted yet
        self._later: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._begin()

    def close(self) -> None:
        if self._listener.fileno() >= 0:
            self._pause()
            self._listener.close()

    async def all_connected(self) -> None:
        """Wait until all that was accepted has its protocol."""
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _begin(self) -> None:
        self._later = None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _pause(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        if self._later is not None:
            self._later.cancel()

    def _accept(self) -> None:
        """Accept who waits, but no more than can be counted before the next are accepted."""
        for _ in range(ACCEPTED_AT_ONCE - len(self._connecting)):
            try:
                accepted, _address = self._listener.accept()
            except OSError as error:
                if error.errno in NOTHING_LEFT:
                    http_log.error("no connection can be accepted now, trying again in 1 s: %s", error.strerror)
                    self._pause()
                    self._later = self._loop.call_later(TRY_AGAIN_AFTER, self._begin)
                return  # else nobody waits, or who did has left
            accepted.setblocking(False)
            connecting = self._loop.create_task(self._connect(accepted))
            self._connecting.add(connecting)
            connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, accepted)
        except OSError as error:
            http_log.warning("a connection was lost while it was accepted: %s", error)
            accepted.close()


log = logging.getLogger("wakeful.server")

TICK: Final = 1.0  # seconds: what the Date header counts
FIRST_CHECK, LAST_CHECK = 0.001, 0.1  # seconds between two checks whether all that was accepted is answered


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
        ending = self._ask_to_end(set())
        if not await within(self.config.timeout_graceful_shutdown or 0, self._all_ended(ending)):
            log.error("%d requests were not answered in time and are cancelled", len(self.server_state.tasks))
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()

    def _ask_to_end(self, ending: set[Any]) -> set[Any]:
        """Each connection once: one that is idle is closed, any other when its request is answered."""
        connections = set(self.server_state.connections)
        for connection in connections - ending:
            connection.shutdown()
        return ending | connections

    async def _all_ended(self, ending: set[Any]) -> None:
        wait = FIRST_CHECK
        while self.server_state.connections or self.server_state.tasks:
            await SystemClock().sleep(wait)  # the network's time, also where a test moves the clock
            wait = min(wait * 2, LAST_CHECK)
            ending = self._ask_to_end(ending)  # also who became a WebSocket meanwhile

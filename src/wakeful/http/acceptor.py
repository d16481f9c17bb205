"""Accepts connections a few at a time, the same with every event loop, and waits where no descriptor is left.

asyncio accepts as many as wait before the first is counted: they would have the descriptors that deliveries need. And
without a descriptor uvloop closes everyone who waits, while asyncio writes a line to the log for each.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

log = logging.getLogger("wakeful.http")

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
                    log.error("no connection can be accepted now, trying again in 1 s: %s", error.strerror)
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
            log.warning("a connection was lost while it was accepted: %s", error)
            accepted.close()

"""One HTTP connection of uvicorn, with a time limit for the head of a request."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import h11
from starlette.types import Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from wakeful.http.security.connection_limiter import BELONGS, ConnectionLimiter

HEAD_WITHIN: Final = 30.0  # seconds from connecting, or from the first byte, to the end of the headers
HANG_UP: Final = "wakeful.hang_up"  # in a scope's state: ends the connection, whatever was still to be sent


async def hang_up(scope: Scope, receive: Receive) -> None:
    """Close the connection of a request before its answer is complete. Does nothing in another program's server."""
    if (abort := scope.get("state", {}).get(HANG_UP)) is not None:
        abort()
        while (await receive())["type"] != "http.disconnect":
            pass


class Connection(H11Protocol):
    limiter: ConnectionLimiter | None = None  # of the server it belongs to
    _waiting_since: float | None = None
    _timer: asyncio.TimerHandle | None = None  # one for many requests: reset when it fires, not with each of them

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        self.app_state = {**self.app_state, HANG_UP: transport.abort}
        if self.limiter is not None:
            self.app_state[BELONGS] = partial(self.limiter.belongs, transport)
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self.limiter is not None and not self.limiter.let_in(transport, address, self.loop.time()):
            transport.abort()
            return
        self._wait_for_head()

    @classmethod
    def among(cls, limiter: ConnectionLimiter) -> type[Connection]:
        """Return the connection class of one server, which counts its connections."""
        return type(cls.__name__, (cls,), {"limiter": limiter})

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_head()
            return
        self._waiting_since = None
        if self.limiter is None:
            return
        if self.conn.their_state is h11.SEND_BODY:
            # It owes us the rest: one that stops in the middle is as silent as one that never began.
            self.limiter.is_silent(self.transport, self.loop.time())
        else:
            self.limiter.speaks(self.transport)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.limiter is not None and self.conn.their_state is h11.IDLE:
            self.limiter.is_silent(self.transport, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self.limiter is not None:
            self.limiter.leaves(self.transport)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def _wait_for_head(self) -> None:
        if self._waiting_since is None:
            self._waiting_since = self.loop.time()
        if self._timer is None:
            self._timer = self.loop.call_at(self._waiting_since + HEAD_WITHIN, self._look)

    def _stop_waiting(self) -> None:
        self._waiting_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._waiting_since is None:
            return
        if self.loop.time() >= self._waiting_since + HEAD_WITHIN:
            self.transport.close()
        else:
            self._wait_for_head()

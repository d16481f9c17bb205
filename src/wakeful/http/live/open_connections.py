"""Closes long-lived connections when their token is no longer valid or the server stops.

One check serves all of them: hundreds of idle listeners cost next to nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, Literal

from wakeful.clock import Clock
from wakeful.errors import StoreUnavailable
from wakeful.http.security.auth import Auth, Principal
from wakeful.service.inbox_signal import InboxSignal

log = logging.getLogger("wakeful.live")

LOOK_EVERY: Final = 0.25  # seconds between two looks at whether the server stops
TOKENS_EVERY: Final = 4  # looks between two at the tokens

End = Literal["refused", "stopped"]


class OpenConnections:
    def __init__(self, auth: Auth, signal: InboxSignal, clock: Clock) -> None:
        self._auth = auth
        self._signal = signal
        self._clock = clock
        self._staying: defaultdict[Principal, set[asyncio.Future[End]]] = defaultdict(set)
        self._looking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watched(self, principal: Principal) -> Iterator[asyncio.Future[End]]:
        """Register a connection and the function to call when it must end."""
        end: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._staying[principal].add(end)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="wakeful open connections")
        try:
            yield end
        finally:
            self._staying[principal].discard(end)
            if not self._staying[principal]:
                del self._staying[principal]
            if not self._staying and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        looks = 0
        while not self._signal.stopped:
            await self._clock.sleep(LOOK_EVERY)
            looks += 1
            if looks % TOKENS_EVERY == 0:
                await self._look_at_tokens()
        for ends in self._staying.values():
            _end(ends, "stopped")
        self._looking = None

    async def _look_at_tokens(self) -> None:
        for principal in list(self._staying):
            try:
                alive = await self._auth.is_alive(principal)
            except StoreUnavailable:
                continue  # nothing is known to have changed
            except Exception:  # those who stay are looked after whatever becomes of one of them
                log.exception("a token could not be checked")
                continue
            if not alive and principal in self._staying:
                _end(self._staying[principal], "refused")


def _end(ends: set[asyncio.Future[End]], why: End) -> None:
    for end in ends:
        if not end.done():
            end.set_result(why)

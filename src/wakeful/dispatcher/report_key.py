"""The key that this process makes report tokens with: looked at once a tick, so that a new one needs no restart."""

from __future__ import annotations

import logging

from wakeful.clock import Clock
from wakeful.store import Store

log = logging.getLogger("wakeful.dispatcher")


class ReportKey:
    def __init__(self, store: Store, clock: Clock, *, every: float) -> None:
        self._store = store
        self._clock = clock
        self._every = every
        self._look_from = 0.0
        self.key = b""

    async def look(self) -> None:
        now = self._clock.monotonic()
        if self.key and now < self._look_from:
            return
        key = (await self._store.access.report_keys()).current
        if self.key and key != self.key:
            log.warning("the key of report tokens was changed: new wakes carry tokens made with the new key")
        self.key, self._look_from = key, now + self._every

"""Waits for new wakes in an inbox without polling the database all the time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

FIRST_LOOK: Final = 0.02  # a ring comes a moment before the row is written
LONGEST_PAUSE: Final = 1.0  # other processes cannot ring: their deliveries are seen when looked for


class InboxSignal:
    """Rung for one owner at a time. Lost rings cost at most a pause."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.stopped = False

    def ring(self, owner: str) -> None:
        for event in self._waiting.get(owner, ()):
            event.set()

    def stop(self) -> None:
        """Nobody waits any more: this process is about to end."""
        self.stopped = True
        for owner in list(self._waiting):
            self.ring(owner)

    async def heard(self, owner: str, within: float) -> bool:
        """Wait for a ring; False when none came in time."""
        event = asyncio.Event()
        self._waiting[owner].add(event)
        try:
            async with asyncio.timeout(within):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting[owner].discard(event)
            if not self._waiting[owner]:
                del self._waiting[owner]
        return True

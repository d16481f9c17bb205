"""Limits connections that stay open, and requests that wait.

Each process counts for itself. Only callers with a token are limited, not the machine's owner.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from wakeful.errors import TooMany

SEAT_AGAIN: Final = 5.0  # seconds after which a seat may have become free


class ConnectionLimit:
    """Counts WebSockets, event streams and waits at an inbox, in total and per owner."""

    def __init__(self, per_owner: int, total: int) -> None:
        self._most = per_owner
        self._total = total
        self._taken: Counter[str | None] = Counter()

    @contextlib.contextmanager
    def seat(self, owner: str | None) -> Iterator[None]:
        """Reserve a place while the context is open; TooMany if none is left. None: an owner without limit."""
        if owner is not None and self._taken[owner] >= self._most:
            raise TooMany(
                f"{self._most} WebSockets, event streams and waits at the inbox are open, and that is the limit",
                field="live_per_owner",
                fix="Close one. One socket that subscribes to everything is enough.",
            )
        if self._taken.total() >= self._total:
            raise TooMany(
                f"{self._total} WebSockets, event streams and waits at inboxes are open here, and that is the limit",
                field="live_total",
                fix="Try again later, or ask the operator to raise live_total or start another server.",
                retry_after=SEAT_AGAIN,
            )
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]

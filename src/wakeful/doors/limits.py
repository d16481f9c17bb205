"""What one owner may take of a process's doors: requests within a minute, and connections that stay open.

Each process counts for itself. Whoever owns the machine is not limited: callers ask only for those with a token.
"""

from __future__ import annotations

import contextlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from wakeful.errors import TooMany

MINUTE: Final = timedelta(minutes=1)
SEAT_AGAIN: Final = 5.0  # seconds after which a seat may have become free
OWNERS: Final = 4096  # remembered at once; one that is forgotten begins anew


class Rate:
    """Requests by owner. What was not used within a minute may come all at once; after that, steadily.

    Kept is one moment for each owner: when all that was asked would be used up, had it come evenly spread.
    """

    def __init__(self, per_minute: int) -> None:
        self._most = per_minute
        self._each = MINUTE / per_minute
        self._spent: OrderedDict[str, datetime] = OrderedDict()

    def admit(self, owner: str, now: datetime) -> None:
        """Count one request, or refuse it: TooMany says when the next may come."""
        # Never further off than a minute: a clock that is set back refuses nobody for longer.
        spent = min(max(self._spent.get(owner, now), now), now + MINUTE)
        self._spent[owner] = spent
        early = spent + self._each - (now + MINUTE)
        if early > timedelta(0):
            raise TooMany(
                f"{self._most} requests a minute are answered",
                field="requests_per_minute",
                fix="Wait a moment. To learn what happens, use alarm_inbox or /v1/inbox with wait, or /v1/events.",
                retry_after=early.total_seconds(),
            )
        self._spent[owner] = spent + self._each
        self._spent.move_to_end(owner)
        if len(self._spent) > OWNERS:
            self._spent.popitem(last=False)


class Seats:
    """Connections that stay open: WebSockets and event streams, in all and by owner."""

    def __init__(self, per_owner: int, total: int) -> None:
        self._most = per_owner
        self._total = total
        self._taken: Counter[str | None] = Counter()

    @contextlib.contextmanager
    def seat(self, owner: str | None) -> Iterator[None]:
        """A place for as long as this is open; TooMany where none is left. None: an owner without limit."""
        if owner is not None and self._taken[owner] >= self._most:
            raise TooMany(
                f"{self._most} WebSockets and event streams are open, and no more are allowed",
                field="live_per_owner",
                fix="Close one; one socket that subscribes to everything tells as much as many.",
            )
        if self._taken.total() >= self._total:
            raise TooMany(
                f"this server holds {self._total} WebSockets and event streams open, and takes no more",
                field="live_total",
                fix="Try again later, or have the operator raise live_total or start another server.",
                retry_after=SEAT_AGAIN,
            )
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]

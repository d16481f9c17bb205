"""Limits of one owner at one process: requests and CPU time per minute, and answers that are not read yet.

Connections that stay open: service/limits.py.

Each process counts for itself. Only callers with a token are limited, not the machine's owner.
"""

from __future__ import annotations

import contextlib
import ipaddress
import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Final

from wakeful.clock import Clock
from wakeful.errors import TooMany
from wakeful.store.records import ReadTurns

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
LONGEST_WAIT: Final = 60.0  # seconds until an owner may ask again, however much was used before it was measured
OWNERS: Final = 4096  # remembered at once; one that is forgotten starts again


class Rate:
    """Requests per owner. A minute's worth may come all at once; after that, at a steady rate.

    One moment is kept per owner: when its requests so far would end if they came evenly spread.
    """

    def __init__(self, per_minute: int) -> None:
        self._limit = per_minute
        self._each = MINUTE / per_minute
        self._spent: OrderedDict[str, datetime] = OrderedDict()

    def admit(self, owner: str, now: datetime) -> None:
        """Count one request, or raise TooMany, which says when the next may come."""
        # Never further off than a minute: a clock that is set back refuses nobody for longer.
        spent = min(max(self._spent.get(owner, now), now), now + MINUTE)
        self._spent[owner] = spent
        early = spent + self._each - (now + MINUTE)
        if early > timedelta(0):
            raise TooMany(
                f"{self._limit} requests a minute are allowed",
                field="requests_per_minute",
                fix="Wait a moment. To be told of events, use alarm_inbox or /v1/inbox with wait, or /v1/events.",
                retry_after=early.total_seconds(),
            )
        self._spent[owner] = spent + self._each
        self._spent.move_to_end(owner)
        if len(self._spent) > OWNERS:
            self._spent.popitem(last=False)


class CpuShares:
    """CPU time of each owner's requests. A minute's worth may be used at once; after that, at a steady rate.

    One moment is kept per owner, on the monotonic clock: when what was used would be over if it came evenly spread.
    """

    def __init__(self, per_minute: timedelta, clock: Clock) -> None:
        self._seconds = per_minute.total_seconds()
        self._each = MINUTE.total_seconds() / self._seconds
        self._clock = clock
        self._spent: OrderedDict[str, float] = OrderedDict()
        self._threads = ReadTurns(1)

    def account(self, owner: str) -> OwnerAccount:
        return OwnerAccount(self, owner)

    def admit(self, owner: str) -> None:
        """Raise TooMany if this owner has used more than its share, with when the next request may come."""
        early = self._spent.get(owner, -math.inf) - self._clock.monotonic() - MINUTE.total_seconds()
        if early > 0:
            raise TooMany(
                f"your requests used more than {self._seconds:g} s of CPU time within a minute",
                field="cpu_per_minute",
                fix="Send fewer or smaller requests: searches, large batches and rare rules cost most.",
                retry_after=early,
            )

    def spend(self, owner: str, seconds: float) -> None:
        now = self._clock.monotonic()
        spent = max(self._spent.get(owner, now), now) + seconds * self._each
        self._spent[owner] = min(spent, now + MINUTE.total_seconds() + LONGEST_WAIT)
        self._spent.move_to_end(owner)
        if len(self._spent) > OWNERS:
            self._spent.popitem(last=False)

    def thread(self, owner: str) -> AbstractAsyncContextManager[None]:
        return self._threads.turn(owner)


class OwnerAccount:
    """What one owner's requests are charged to."""

    def __init__(self, shares: CpuShares, owner: str) -> None:
        self._shares = shares
        self._owner = owner

    def spend(self, seconds: float) -> None:
        self._shares.spend(self._owner, seconds)

    def thread(self) -> AbstractAsyncContextManager[None]:
        return self._shares.thread(self._owner)


class Outgoing:
    """Bytes of long answers being sent, per owner: one who keeps asking without reading is refused."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[str] = Counter()

    def check(self, owner: str, more: int = 0) -> None:
        """Raise TooMany unless there is room for this many bytes; a single answer is always allowed."""
        if self._held[owner] and self._held[owner] + more > self._limit:
            raise TooMany(
                f"{self._held[owner]} bytes of answers to you are still unread, and at most {self._limit} are allowed",
                field="unread_per_owner",
                fix="Read the answers you asked for, or close their connections.",
                retry_after=1.0,
            )

    @contextlib.contextmanager
    def held(self, owner: str, size: int) -> Iterator[None]:
        """While an answer is being sent."""
        self.check(owner, size)
        self._held[owner] += size
        try:
            yield
        finally:
            self._held[owner] -= size
            if not self._held[owner]:
                del self._held[owner]


class Newcomers:
    """Limits new owners who sign in with a DID: per hour, in total and per address.

    One who has come is not counted again within the hour. Of an IPv6 address the network counts: the rest is the
    caller's to choose.
    """

    def __init__(self, per_address: int, total: int) -> None:
        self._limit = per_address
        self._total = total
        self._since: datetime | None = None
        self._owners: set[str] = set()
        self._by_address: Counter[str] = Counter()

    def admit(self, owner: str, address: str, now: datetime) -> None:
        # Also a little before: who asked first is not always let in first. An hour before, the clock was set back.
        if self._since is None or abs(now - self._since) >= HOUR:
            self._since = now
            self._owners.clear()
            self._by_address.clear()
        if owner in self._owners:
            return
        place = _network(address)
        for count, limit, field, where in (
            (self._by_address[place], self._limit, "did_owners_per_address", " from one address"),
            (len(self._owners), self._total, "did_owners_per_hour", ""),
        ):
            if count >= limit:
                raise TooMany(
                    f"{limit} new owners are accepted within an hour{where}",
                    field=field,
                    fix="Try again later, or ask the operator for a token or a higher limit.",
                    retry_after=(self._since + HOUR - now).total_seconds(),
                )
        self._owners.add(owner)
        self._by_address[place] += 1


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    wide = isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None
    return str(ipaddress.ip_network(f"{found}/64", strict=False)) if wide else str(found)

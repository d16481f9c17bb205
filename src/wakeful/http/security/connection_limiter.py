"""Limits the connections of a process, in total and per address, so that deliveries have enough file descriptors.

If it is full, an idle connection makes room: of the address with the most, the one that has been silent for
the longest. So an idle socket never blocks an active one, and a flood closes its own connections.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
from collections import Counter
from typing import Final

from msgspec import Struct

from wakeful.config import Settings

log = logging.getLogger("wakeful.http")

BELONGS: Final = "wakeful.belongs"  # in a scope's state: takes the owner whose token a connection brought
MOST_FILES: Final = 65_536  # what a process asks for, where it may have as many
OWN_FILES: Final = 64  # the database, its log, standard streams, the listener


def raise_limit() -> int:
    """Raise the limit of file descriptors as far as allowed; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # then with what there is
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def room(settings: Settings, descriptors: int) -> int:
    """Return the most connections to accept: deliveries keep what they need, or half if there are few descriptors."""
    kept = min(settings.total_concurrency + OWN_FILES, descriptors // 2)
    return max(1, min(settings.connections, descriptors - kept))


class _Connected(Struct):
    address: str
    silent_since: float | None  # None: a request is complete and not answered yet
    owner: str = ""  # whose token it brought last; strangers count as one owner


class ConnectionLimiter:
    """Keeps count of the connections. Those that became WebSockets count until their transport is closed."""

    def __init__(self, most: int, per_address: int) -> None:
        self._most = most
        self._per_address = per_address
        self._guests: dict[asyncio.Transport, _Connected] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def let_in(self, transport: asyncio.Transport, address: str, now: float) -> bool:
        """Count a new connection; False if it must be closed because there is no room even without idle ones."""
        near = _is_near(address)  # a proxy here speaks for everybody
        there = 0 if near else sum(guest.address == address for guest in self._guests.values())
        if there >= self._per_address and not self._made_room(address):
            log.warning("refusing connections from %s: it has %d open", address, there)
            return False
        if len(self._guests) >= self._most and not self._made_room():
            log.warning("refusing a connection: %d are open, and all of them are busy", len(self._guests))
            return False
        self._guests[transport] = _Connected(address, now)
        return True

    def speaks(self, transport: asyncio.Transport) -> None:
        """Mark a connection as active: it is not closed to make room."""
        if (guest := self._guests.get(transport)) is not None:
            guest.silent_since = None

    def is_silent(self, transport: asyncio.Transport, now: float) -> None:
        """Mark a connection as idle: it owes a request, or the rest of one."""
        if (guest := self._guests.get(transport)) is not None:
            guest.silent_since = now

    def belongs(self, transport: asyncio.Transport, owner: str) -> None:
        if (guest := self._guests.get(transport)) is not None:
            guest.owner = owner

    def leaves(self, transport: asyncio.Transport) -> None:
        self._guests.pop(transport, None)

    def _made_room(self, address: str | None = None) -> bool:
        for transport in [one for one in self._guests if one.is_closing()]:
            del self._guests[transport]
        # Whoever has the most gives way first: else a flood of new ones would put out those who were silent before it.
        crowds = Counter(guest.owner for guest in self._guests.values())
        silent = [
            (-crowds[guest.owner], guest.silent_since, at, transport)
            for at, (transport, guest) in enumerate(self._guests.items())
            if guest.silent_since is not None and address in (None, guest.address)
        ]
        if silent:
            *_, transport = min(silent)
            del self._guests[transport]
            transport.abort()
            return True
        if address is None:
            return len(self._guests) < self._most
        return sum(guest.address == address for guest in self._guests.values()) < self._per_address


def _is_near(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True  # a Unix socket, or nothing that has an address

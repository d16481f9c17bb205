"""Ids that sort by creation time: UUID version 7, strictly increasing within a process."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Final

from wakeful.moments import unix_ms

_AT_ONCE: Final = 256  # ids' worth of random bytes: the system call costs as much as the rest of a create
_VARIANT: Final = bytes(0x80 | byte & 0x3F for byte in range(256))


class Ids:
    """Creates ids; two of the same millisecond are still in order."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes
        self._last = 0
        self._noise: list[str] = []
        self._lock = threading.Lock()

    def new(self, now: datetime) -> str:
        # 48 bits of milliseconds, then 12 bits that count within one.
        with self._lock:
            self._last = stamp = max(unix_ms(now) << 12, self._last + 1)
            self._noise = self._noise or _noise(self._random_bytes)
            noise = self._noise.pop()
        return _written(_head(stamp >> 12), stamp, noise)

    def many(self, now: datetime, count: int) -> list[str]:
        """So many ids for one moment, in order: each for a third of what it costs alone."""
        with self._lock:
            first = max(unix_ms(now) << 12, self._last + 1)
            self._last = first + count - 1
            while len(self._noise) < count:
                self._noise += _noise(self._random_bytes)
            noise, self._noise = self._noise[:count], self._noise[count:]
        return [_written(_head(stamp >> 12), stamp, rest) for stamp, rest in enumerate(noise, first)]


def id_of(made_at: datetime, *what: bytes) -> str:
    """Return an id that is always the same for the same parts."""
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in what)).digest()
    noise = 1 << 63 | int.from_bytes(digest[2:10]) >> 2
    stamp = unix_ms(made_at) << 12 | int.from_bytes(digest[:2]) >> 4
    return _written(_head(stamp >> 12), stamp, f"{noise:016x}")


def _noise(random_bytes: Callable[[int], bytes]) -> list[str]:
    """The second halves of so many ids, in hexadecimal: random, but for the two bits that say how to read them."""
    found = bytearray(random_bytes(8 * _AT_ONCE))
    found[::8] = found[::8].translate(_VARIANT)
    return found.hex("-", 8).split("-")


@lru_cache(maxsize=4)
def _head(ms: int) -> str:
    """How the ids of a millisecond begin: where many are made, most of them follow one of the same."""
    return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7"


def _written(head: str, stamp: int, noise: str) -> str:
    return f"{head}{stamp & 0xFFF:03x}-{noise[:4]}-{noise[4:]}"

"""Ids that sort by creation time: UUID version 7, strictly increasing within a process."""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from datetime import datetime

from wakeful.moments import unix_ms


class Ids:
    """Creates ids; two of the same millisecond are still in order."""

    def __init__(self) -> None:
        self._last = 0
        self._noise: list[int] = []
        self._lock = threading.Lock()

    def new(self, now: datetime) -> str:
        # 48 bits of milliseconds, then 12 bits that count within one.
        with self._lock:
            self._last = stamp = max(unix_ms(now) << 12, self._last + 1)
            if not self._noise:
                # Many at once: the system call costs as much as the rest of a create.
                self._noise = list(struct.unpack("<256Q", os.urandom(2048)))
            noise = self._noise.pop()
        return _written(stamp, noise)


def id_of(made_at: datetime, *what: bytes) -> str:
    """Return an id that is always the same for the same parts."""
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in what)).digest()
    return _written(unix_ms(made_at) << 12 | int.from_bytes(digest[:2]) >> 4, int.from_bytes(digest[2:10]))


def _written(stamp: int, noise: int) -> str:
    text = f"{stamp >> 12:012x}7{stamp & 0xFFF:03x}{1 << 63 | noise >> 2:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

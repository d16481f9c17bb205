"""Ids that sort by the moment they were made: UUID version 7, strictly rising within a process."""

from __future__ import annotations

import os
import threading
from datetime import datetime

from wakeful.alarm import unix_ms


class Ids:
    """Makes ids; two made in the same millisecond still come out in order."""

    def __init__(self) -> None:
        self._last = 0
        self._noise = b""
        self._lock = threading.Lock()

    def new(self, now: datetime) -> str:
        # 48 bits of milliseconds, then 12 bits that count within one.
        with self._lock:
            self._last = stamp = max(unix_ms(now) << 12, self._last + 1)
            if not self._noise:
                self._noise = os.urandom(4096)  # the system call costs as much as the rest of a create
            tail, self._noise = int.from_bytes(self._noise[:8]), self._noise[8:]
        value = (stamp >> 12) << 80 | 7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | tail >> 2
        text = f"{value:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

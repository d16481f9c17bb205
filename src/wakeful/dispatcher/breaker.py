"""Whether a target is fit to be sent to: after repeated trouble one probe at a time, at growing distances.

Alarms of a broken target stay due and keep their retries; nothing is dropped, nobody else waits.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

OPENS_AFTER: Final = 5
FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(seconds=30)


class Breaker:
    def __init__(self) -> None:
        self.opened_at: datetime | None = None
        self.last_error = ""
        self._failures = 0
        self._pause = FIRST_PAUSE
        self._probe_at: datetime | None = None

    def room(self, free: int, in_flight: int, *, now: datetime) -> int:
        """How many of the free slots may be used."""
        if self._probe_at is None:
            return free
        return min(free, 1) if in_flight == 0 and now >= self._probe_at else 0

    @property
    def probe_at(self) -> datetime | None:
        return self._probe_at

    def succeeded(self) -> None:
        self.opened_at = self._probe_at = None
        self.last_error = ""
        self._failures = 0
        self._pause = FIRST_PAUSE

    def failed(self, error: str, *, now: datetime) -> None:
        self._failures += 1
        self.last_error = error
        if self._failures < OPENS_AFTER:
            return
        if self._probe_at is None or self.opened_at is None:
            self.opened_at = now
        elif now < self._probe_at:
            return  # sent before it opened: no probe, and no reason to wait longer
        else:
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
        self._probe_at = now + self._pause

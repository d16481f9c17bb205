"""Circuit breaker of a target, or of one owner at a target: after repeated failures it sends one probe at a time.

The pause between probes doubles up to LONGEST_PAUSE. Alarms that wait stay due and keep their retries.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

OPENS_AFTER: Final = 5
FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(seconds=30)
LONGEST_HOLD: Final = timedelta(minutes=10)  # what a receiver may ask for: then one wake sees how it is


class Breaker:
    def __init__(self) -> None:
        self.opened_at: datetime | None = None
        self.last_error = ""
        self._failures = 0
        self._pause = FIRST_PAUSE
        self._planned_at: datetime | None = None  # when the next probe was decided on
        self._probe_at: datetime | None = None

    def room(self, free: int, in_flight: int, *, now: datetime) -> int:
        """How many of the free slots may be used."""
        if self._probe_at is None:
            return free
        return min(free, 1) if in_flight == 0 and self.may_probe(now) else 0

    @property
    def probe_at(self) -> datetime | None:
        return self._probe_at

    @property
    def is_open(self) -> bool:
        return self._probe_at is not None

    def may_probe(self, now: datetime) -> bool:
        """Whether the pause is over. One that was planned later than now is: the clock was set back since."""
        if self._probe_at is None or self._planned_at is None:
            return True
        return not self._planned_at <= now < self._probe_at

    def succeeded(self) -> None:
        self.opened_at = self._planned_at = self._probe_at = None
        self.last_error = ""
        self._failures = 0
        self._pause = FIRST_PAUSE

    def failed(self, error: str, *, now: datetime, wait: timedelta = timedelta(0)) -> None:
        """Count it. `wait`: how long the receiver asked to be left alone; that holds from the first time on."""
        self._failures += 1
        self.last_error = error
        pause = min(wait, LONGEST_HOLD)
        if self._probe_at is None:
            if self._failures >= OPENS_AFTER:
                pause = max(pause, self._pause)
        elif self.may_probe(now):
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            pause = max(pause, self._pause)
        # Else it was sent before this opened: no probe, and no reason of its own to wait longer.
        if pause and (self._probe_at is None or self.may_probe(now) or now + pause > self._probe_at):
            self.opened_at = self.opened_at or now
            self._planned_at, self._probe_at = now, now + pause

"""The store's clock, as near as a dispatcher knows it: measured at each claim, and watched for jumps."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from wakeful.clock import Clock, SystemClock, stopwatch, unix_us
from wakeful.metrics import Metrics
from wakeful.moments import EPOCH, from_unix_ms

log = logging.getLogger("wakeful.dispatcher")

JUMP: Final = 1.0
SLOW: Final = 0.5
_MS: Final = timedelta(milliseconds=1)
_US: Final = timedelta(microseconds=1)


class ClockJumpDetector:
    """Watches the store's clock against one that never jumps. A claim that took long says nothing: when was it?"""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before: float | None = None

    def look(self, now: datetime, *, asked: float, answered: float) -> None:
        if answered - asked > SLOW:
            return
        ahead = now.timestamp() - answered
        moved = 0.0 if self._before is None else ahead - self._before
        self._before = ahead
        if abs(moved) > JUMP:
            self._metrics.clock_jumped()
            log.warning("the store's clock moved by %+.1f s", moved)


class StoreClock:
    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._unix_us = unix_us if type(clock) is SystemClock else lambda: (clock.now() - EPOCH) // _US
        self._offset = timedelta(0)  # the store's clock less ours
        self._offset_us = 0
        self._last = -1, EPOCH  # a millisecond, and as a moment: most are asked for many times
        self._jumps = ClockJumpDetector(metrics)
        self._asked = (stopwatch(), clock.now())

    def now(self) -> datetime:
        """This moment by the store's clock, in whole milliseconds."""
        ms = (self._unix_us() + self._offset_us) // 1000
        if ms != self._last[0]:
            self._last = ms, from_unix_ms(ms)
        return self._last[1]

    def until(self, moment: datetime) -> float:
        """Seconds from now, to the microsecond: what a nap goes by."""
        return (moment - self._clock.now() - self._offset).total_seconds()

    def ask(self) -> None:
        """The store is about to be asked for the time, among other things."""
        self._asked = (stopwatch(), self._clock.now())

    def heard(self, theirs: datetime) -> None:
        asked, asked_at = self._asked
        self._offset = believable(self._offset, theirs, asked_at, self._clock.now())
        self._offset_us = self._offset // _US
        self._jumps.look(theirs, asked=asked, answered=stopwatch())


def believable(offset: timedelta, theirs: datetime, asked: datetime, answered: datetime) -> timedelta:
    """How far the store's clock is ahead of ours, given that it said `theirs`, cut to the millisecond, in between.

    What was believed before stands until it cannot be true: a slow answer alone teaches nothing.
    """
    return min(max(offset, theirs - answered), theirs + _MS - asked)

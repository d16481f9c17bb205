"""The store's time between two claims, computed from its last answer and the monotonic clock.

So setting this machine's clock changes nothing before the store's next answer, which shows whether the store's own
clock was set too. What is due and what is leased goes by the store's clock; waits and intervals by the monotonic one.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from wakeful.clock import Clock, SystemClock, monotonic_us
from wakeful.moments import EPOCH, from_unix_ms
from wakeful.runtime.metrics import Metrics

log = logging.getLogger("wakeful.dispatcher")

JUMP: Final = 1.0
SLOW: Final = 0.5
_MS: Final = timedelta(milliseconds=1)
_US: Final = timedelta(microseconds=1)


class ClockJumpDetector:
    """Watches the store's clock, and ours, against the monotonic one. A claim that took long says nothing."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before: dict[str, float] = {}

    def observe(self, now: datetime, *, sent: float, received: float, own: datetime | None = None) -> None:
        if received - sent > SLOW:
            return
        theirs = self._moved("store", now.timestamp() - received)
        ours = 0.0 if own is None else self._moved("own", own.timestamp() - received)
        if abs(theirs) > JUMP:
            self._metrics.clock_jumped()
            log.warning("the store's clock moved by %+.1f s", theirs)
        elif abs(ours) > JUMP:
            self._metrics.clock_jumped()
            log.warning("this machine's clock moved by %+.1f s; what is due goes by the store's, which did not", ours)

    def _moved(self, which: str, ahead: float) -> float:
        before, self._before[which] = self._before.get(which, ahead), ahead
        return ahead - before


class StoreClock:
    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._monotonic_us = (
            monotonic_us if type(clock) is SystemClock else lambda: round(clock.monotonic() * 1_000_000)
        )
        self._offset = clock.now() - self._passed()  # the store's clock less the monotonic one
        self._offset_us = self._offset // _US
        self._of_ours = timedelta(0)  # the store's clock less ours
        self._last = -1, EPOCH  # a millisecond, and as a moment: most are asked for many times
        self._jumps = ClockJumpDetector(metrics)
        self.requests()

    def _passed(self) -> datetime:
        """The monotonic clock as a moment. Only differences have a meaning."""
        return EPOCH + timedelta(microseconds=self._monotonic_us())

    def now(self) -> datetime:
        """This moment by the store's clock, in whole milliseconds."""
        ms = (self._monotonic_us() + self._offset_us) // 1000
        if ms != self._last[0]:
            self._last = ms, from_unix_ms(ms)
        return self._last[1]

    def until(self, moment: datetime) -> float:
        """Seconds from now, to the microsecond: what a nap goes by."""
        return (moment - self._passed() - self._offset).total_seconds()

    def surely_until(self, moment: datetime) -> float:
        """As `until`, or longer where our own clock says so: it may be the store's, and have been set back just now."""
        return max(self.until(moment), (moment - self._clock.now() - self._of_ours).total_seconds())

    def requests(self) -> None:
        """Note the time just before a request that the store answers with its own."""
        self._requested = self._passed(), self._clock.now()

    def heard(self, theirs: datetime) -> None:
        (sent, ours_then), received, ours = self._requested, self._passed(), self._clock.now()
        self._offset = believable(self._offset, theirs, sent, received)
        self._offset_us = self._offset // _US
        self._of_ours = believable(self._of_ours, theirs, ours_then, ours)
        self._jumps.observe(theirs, sent=sent.timestamp(), received=received.timestamp(), own=ours)


def believable(offset: timedelta, theirs: datetime, sent: datetime, received: datetime) -> timedelta:
    """How far the store's clock is ahead of another, given that it was `theirs`, cut to the millisecond, in between.

    What was believed before stands until it cannot be true: a slow answer alone teaches nothing. Then it is the least
    that can be: of what is between, more would be early by as long as the question was on its way. Where nothing can
    be, the other clock was set back in between: then less is believed, never more.
    """
    least, most = theirs - received, theirs + _MS - sent
    if least > most:
        return min(offset, most)
    return offset if least <= offset <= most else least

"""One line in the log for each wake that was delivered: which, where to, how it ended, how late, how long it took.

What it says is on the path of every wake. So nothing is done where nobody reads it, and of a flood the first lines are
written and the others counted: a line that is written costs about as much as a delivery.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from wakeful.alarm import INBOX, Try, first_due
from wakeful.dispatcher.flights import Flight
from wakeful.logs import FIRST, SPAN

log = logging.getLogger("wakeful.dispatcher")

_SPAN: Final = timedelta(seconds=SPAN)
_SHORT: Final = 13  # characters of an alarm's id: the millisecond it was made at; every command understands them


class WakeLog:
    def __init__(self) -> None:
        self._began: datetime | None = None
        self._written = 0
        self._held = 0

    def delivered(self, flight: Flight, outcome: str, attempt: Try) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        if self._began is None or attempt.ended - self._began >= _SPAN:
            self.sum_up()
            self._began = attempt.ended
        if self._written >= FIRST:
            self._held += 1
            return
        self._written += 1
        alarm_id, _, moment = flight.alarm.fire_id.partition("@")
        log.info(
            "%s: %s, %s, took %d ms",
            f"{alarm_id[:_SHORT]}@{moment}",
            _went(outcome, flight.alarm.target),
            _lateness(flight, attempt),
            attempt.ms,
        )

    def sum_up(self, now: datetime | None = None) -> None:
        """Say how many were held back: when the span is over or, without `now`, at once."""
        if self._held == 0 and now is not None:
            return
        if now is not None and self._began is not None and now - self._began < _SPAN:
            return
        if self._held:
            log.info("… and %s more wakes", f"{self._held:,}")
        self._began, self._written, self._held = None, 0, 0


def _went(outcome: str, target: str) -> str:
    if outcome == "waiting":
        return "in the inbox" if target == INBOX else f"in the inbox {target}"
    return f"{outcome} to {target}" if outcome == "delivered" else f"{outcome} by {target}"


def _lateness(flight: Flight, attempt: Try) -> str:
    """How late the first attempt began; a retry is late on purpose."""
    before = flight.fire.attempts if flight.fire is not None else 0
    if before or flight.alarm.failure_count:
        return f"attempt {before + 1}"
    late = max(timedelta(), attempt.started - first_due(flight.alarm))
    return (
        f"{late // timedelta(milliseconds=1)} ms late"
        if late < timedelta(seconds=10)
        else f"{late.total_seconds():.0f} s late"
    )

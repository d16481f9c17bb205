"""Observability of the dispatcher: metrics for everything, log lines for wakes and for what went wrong.

A line says how far an error went, not what the target said: that can quote the wake. The fire has the whole of it.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from wakeful.dispatcher.flights import Flight
from wakeful.model.alarm import INBOX, Alarm, Change, Fire
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Snoozed, Try, Waiting
from wakeful.rules.plan import first_due
from wakeful.rules.settle import is_silent
from wakeful.runtime.logs import FIRST, SPAN
from wakeful.runtime.metrics import Metrics
from wakeful.targets.table_writer import NOT_INSERTED

log = logging.getLogger("wakeful.dispatcher")

_WORDS: Final[dict[type[Any], str]] = {
    Completed: "completed",
    Delivered: "delivered",
    Failed: "failed",
    Snoozed: "snoozed",
    Waiting: "waiting",
}
_SHOWN: Final = 120
_SHOWN_OF_DATABASE: Final = 300
NOT_WRITTEN: Final = "the row could not be written"
NOT_SETTLED: Final = "the outcome could not be written"
_FRAMES: Final = 5
_SPAN: Final = timedelta(seconds=SPAN)
_SHORT: Final = 13  # characters of an alarm's id: the millisecond it was made at; every command understands them


class DispatcherHealth(Struct, frozen=True):
    """The health of a dispatcher. `age`: seconds since its loop last got through and reached the store."""

    state: str  # idle (never run), running, stopping, ended
    age: float = 0.0
    in_flight: int = 0
    breakers: dict[str, bool] = {}  # target → open
    stalled: float = 0.0  # seconds since anything was settled, while something waits to be
    held: Mapping[str, int] = {}  # target → owners whose wakes to it wait
    stuck: float = 0.0  # seconds since its loop last ran, where that is too long


class DeliveryMetrics:
    """For the way that every alarm takes: next to nothing is done there but noting down."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._late = metrics.late
        self._took: dict[tuple[str, type[Any]], Callable[[timedelta], None]] = {}
        self.wakes = WakeLog()

    def begun(self, flight: Flight, started: datetime) -> None:
        """The first attempt of a fire: how late it is. Retries are late on purpose."""
        alarm, fire = flight.alarm, flight.fire
        if alarm.failure_count == 0 and (fire is None or fire.attempts == 0):
            self._late(started - first_due(alarm))

    def attempted(self, flight: Flight, outcome: Outcome, attempt: Try) -> None:
        key = flight.alarm.target, type(outcome)
        if key not in self._took:
            self._took[key] = self._metrics.took(key[0], _WORDS[key[1]])
        self._took[key](attempt.ended - attempt.started)
        if isinstance(outcome, Failed):
            failed(flight, outcome, attempt)
        else:
            self.wakes.delivered(flight, _WORDS[key[1]], attempt)

    def settled(self, flights: Sequence[Flight]) -> None:
        """Flights whose changes are written. Most have one fire that is new, and ended as its neighbours' did."""
        new = [flight.change.fires for flight in flights if flight.fire is None and flight.change is not None]
        ends = Counter([(fire.status, fire.reason, fire.count) for fires in new for fire in fires])
        for (status, reason, each), times in ends.items():
            self._metrics.ended(status, reason, each * times)
        if any(status in _BAD for status, _, _ in ends):
            log_ends(None, [fire for fires in new for fire in fires])
        for flight in flights:
            if flight.fire is not None and flight.change is not None:
                settled(self._metrics, flight.fire, flight.change)


class WakeLog:
    """One line for each delivered wake: which, where to, how it ended, how late, how long it took.

    A line costs about as much as a delivery. So nothing is done where nobody reads it, and of a flood the first lines
    are written and the others counted.
    """

    def __init__(self) -> None:
        self._began: datetime | None = None
        self._written = 0
        self._left_out = 0

    def delivered(self, flight: Flight, outcome: str, attempt: Try) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        if self._began is None or attempt.ended - self._began >= _SPAN:
            self.sum_up()
            self._began = attempt.ended
        if self._written >= FIRST:
            self._left_out += 1
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
        """Log how many were left out: when the span is over or, without `now`, at once."""
        if self._left_out == 0 and now is not None:
            return
        if now is not None and self._began is not None and now - self._began < _SPAN:
            return
        if self._left_out:
            log.info("… and %s more wakes", f"{self._left_out:,}")
        self._began, self._written, self._left_out = None, 0, 0


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


def failed(flight: Flight, outcome: Failed, attempt: Try) -> None:
    """A table that does not take the row is the operator's to mend; everything else may be the target's bad day."""
    tried = flight.fire.attempts + 1 if flight.fire else 1
    level = logging.WARNING if outcome.error.startswith(_DATABASE_SAYS) else logging.INFO
    more = fields(flight.alarm, attempt=tried, ms=attempt.ms)
    log.log(level, "delivery failed: %s", shown(outcome.error), extra=more)


def settled(metrics: Metrics, before: Fire | None, change: Change) -> None:
    """What a change that is written means for the fires in it."""
    metrics.fires(before, change.fires)
    log_ends(before, change.fires)


def log_ends(before: Fire | None, fires: Sequence[Fire]) -> None:
    for fire in fires:
        if before is not None and before.status == fire.status:
            continue
        more = {"fire_id": fire.id, "target": fire.target, "attempt": fire.attempts, "reason": fire.reason}
        more["alarm_id"] = fire.alarm_id
        if fire.status in _BAD:
            log.warning("%s: %s", _BAD[fire.status], shown(fire.last_error), extra=more)
        elif is_silent(fire):
            log.info("%s, it is sent again: %s", _BAD["timed_out"], shown(fire.last_error), extra=more)


def broke(what: str, alarm: Alarm, error: Exception) -> None:
    """Log a bug: its type and location, without its message, which can quote the wake."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    log.error("%s: %s in %s", what, type(error).__name__, where, extra=fields(alarm))


_BAD: Final[dict[str, str]] = {"failed": "a fire failed for good", "timed_out": "no report came in time"}


def fields(alarm: Alarm, **more: Any) -> dict[str, Any]:
    """The fields of a log line about an alarm, and what of it must not stand in the line."""
    hide = tuple(text for text in (alarm.wake_message, alarm.payload_json) if len(text) > 2)
    return {"alarm_id": alarm.id, "fire_id": alarm.fire_id, "target": alarm.target, "hide": hide, **more}


def shown(error: str) -> str:
    """What of an error may stand in a log: its head, since what comes after a colon is somebody else's text.

    A database that refuses a row names tables and columns after its colons: its first line is shown, without the
    values that it quotes.
    """
    if not error.startswith(_DATABASE_SAYS):
        return error.partition(":")[0][:_SHOWN] or "no reason given"
    message, *quoted = _QUOTED.split(error.partition("\n")[0], maxsplit=1)
    return (_VALUE.sub('value "…"', message) + (": …" if quoted else ""))[:_SHOWN_OF_DATABASE]


_DATABASE_SAYS: Final = (f"{NOT_WRITTEN}:", f"{NOT_INSERTED}:")
_QUOTED: Final = re.compile(r""": ?["']""")
_VALUE: Final = re.compile(r'value "[^"]*"')

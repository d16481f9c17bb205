"""Circuit breakers: of a target that cannot be reached, and of one owner whom a target answers with errors.

After repeated failures one probe is sent at a time; the pause between probes doubles up to LONGEST_PAUSE. Alarms that
wait stay due and keep their retries. An error of one owner's agent says nothing about a shared router, so it holds only
that owner's wakes. All of it is kept in memory: after a restart every target and every owner is tried again.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Final, Protocol

from wakeful.model.alarm import Alarm
from wakeful.model.outcome import Failed

OPENS_AFTER: Final = 5
FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(seconds=30)
LONGEST_HOLD: Final = timedelta(minutes=10)  # what a receiver may ask for: then one wake sees how it is
MOST: Final = 10_000  # owners at targets that are remembered; forgetting one costs it a few attempts
FORGOTTEN_AFTER: Final = 2 * LONGEST_HOLD  # without a failure: it has nothing more to send
# However many an owner has, they come up again a few at a time, among everybody's: so many together, so far apart.
TOGETHER: Final = 50
APART: Final = timedelta(milliseconds=100)


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


class Sent(Protocol):
    """A wake on its way."""

    @property
    def alarm(self) -> Alarm: ...
    @property
    def finished(self) -> bool: ...


class _Hold:
    def __init__(self) -> None:
        self.breaker = Breaker()
        self.failed_at: datetime
        self.deferred = 0  # wakes since the next probe was decided on, or sent
        self.probe: Sent | None = None

    def wait(self, sent: Sent, now: datetime) -> timedelta | None:
        probe_at = self.breaker.probe_at
        if probe_at is None:
            return None
        is_time = self.breaker.may_probe(now)
        if is_time and (self.probe is None or self.probe.finished):
            self.probe, self.deferred = sent, 0
            return None
        wait = FIRST_PAUSE if is_time else probe_at - now
        wait += APART * (self.deferred // TOGETHER)
        self.deferred += 1
        return wait


class Holds:
    """Hold back the wakes of an owner whom a target answers with 5xx or 429; other owners' wakes go on.

    Such an answer counts against that owner at that target, and shows that the target itself can be reached. While a
    hold lasts, the owner's alarms are released as they are claimed, until the next probe. They come up again TOGETHER
    at a time, APART from each other, so nobody waits behind them. One is sent as the probe. `Retry-After` holds in the
    same way.

    Releasing uses up no retries and writes no event. An alarm of a series is deferred at most to its next occurrence;
    the occurrences that passed are recorded as missed. Holds are kept in memory: after a restart every owner is tried
    again.
    """

    def __init__(self) -> None:
        self._holds: dict[tuple[str, str], _Hold] = {}  # by target and owner; who failed last stands last

    def wait(self, sent: Sent, *, now: datetime) -> timedelta | None:
        """How long a wake that is about to be sent has to wait instead; None: it goes, perhaps as the probe."""
        hold = self._holds.get(_key(sent.alarm))
        return None if hold is None else hold.wait(sent, now)

    def succeeded(self, alarm: Alarm) -> None:
        self._holds.pop(_key(alarm), None)

    def failed(self, alarm: Alarm, outcome: Failed, *, now: datetime) -> None:
        """The receiver answered this owner's wake, and not well."""
        key = _key(alarm)
        hold = self._holds[key] = self._holds.pop(key) if key in self._holds else _Hold()
        planned = hold.breaker.probe_at
        # No further than a breaker cares: a receiver can ask for more seconds than there are.
        wait = timedelta(seconds=min(outcome.retry_after or 0.0, LONGEST_HOLD.total_seconds()))
        hold.breaker.failed(outcome.error, now=now, wait=wait)
        hold.failed_at = now
        if hold.breaker.probe_at != planned:
            hold.deferred = 0
        self._forget(now)

    def owners(self, now: datetime) -> Counter[str]:
        """How many owners wait, for each target."""
        self._forget(now)
        return Counter(target for (target, _), hold in self._holds.items() if hold.breaker.is_open)

    def __len__(self) -> int:
        return len(self._holds)

    def _forget(self, now: datetime) -> None:
        while self._holds:
            first = next(iter(self._holds))
            if len(self._holds) <= MOST and now - self._holds[first].failed_at <= FORGOTTEN_AFTER:
                return
            del self._holds[first]


def _key(alarm: Alarm) -> tuple[str, str]:
    return alarm.target, alarm.owner_did

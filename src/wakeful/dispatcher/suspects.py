"""When this process may try suspects: alarms that were claimed before and never settled (alarm/suspect.py).

It tries the suspects of one claim at a time. The next ones follow when all of these are settled, or when this process
has outlived the start of their deliveries: by GROUP_PROVED_AFTER for a group, by PROVED_AFTER for one that is alone.
A delivery that is not settled yet still counts: a crash would take its settlement with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from wakeful.alarm import Alarm, is_alone
from wakeful.clock import Clock
from wakeful.dispatcher.flights import Flight

# Seconds that a worker outlives the start of a delivery before it tries other suspects. A group is soon followed by the
# next one: nobody is blamed for either. Blame falls on whoever was tried alone, so that one is given more time.
GROUP_PROVED_AFTER: Final = 1.0
PROVED_AFTER: Final = 10.0


class Suspects:
    """One claim's suspects are on trial at a time: a group, or a single one."""

    def __init__(self, clock: Clock, *, every: float) -> None:
        self._clock = clock
        self._every = every  # seconds: they come about when a lease ends, so there is no hurry to look for the first
        self._look_from = 0.0
        self._on_trial: list[Flight] = []

    def wanted(self) -> bool:
        """Whether a claim may bring suspects: this process has survived those that it tried last."""
        return self.survived() and self._clock.monotonic() >= self._look_from

    def survived(self) -> bool:
        """Whether each is settled, or this process has outlived the start of its delivery by a while.

        Settled, not only delivered: what the next one's death takes with it would count against the last one.
        """
        while self._on_trial and self._is_over(self._on_trial[-1]):
            self._on_trial.pop()
        return not self._on_trial

    def _is_over(self, flight: Flight) -> bool:
        return flight.landed or self._outlived(flight, PROVED_AFTER if is_alone(flight.alarm) else GROUP_PROVED_AFTER)

    def _outlived(self, flight: Flight, seconds: float) -> bool:
        since = flight.on_trial_since
        return since is not None and self._clock.monotonic() - since >= seconds

    def may_be_blamed(self, others: Iterable[Flight]) -> bool:
        """Whether a death would be that of a suspect which is begun now: `others` are in flight and did no harm."""
        return all(self._outlived(flight, PROVED_AFTER) for flight in others)

    def looked(self, claimed: Sequence[Alarm]) -> None:
        """A claim that was to bring some has brought these."""
        if not any(alarm.is_suspect for alarm in claimed):
            self._look_from = self._clock.monotonic() + self._every

    def look_at_once(self) -> None:
        """For a round that is to leave nothing behind."""
        self._look_from = 0.0

    def leave_alone(self) -> None:
        """This process stood still; others may have too, with the whole machine: they come first to what they hold."""
        self._look_from = self._clock.monotonic() + 2 * self._every

    def tries(self, flight: Flight) -> None:
        self._on_trial.append(flight)

"""When this process may try an alarm that was claimed before and never settled: one at a time (alarm/suspect.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wakeful.alarm import Alarm
from wakeful.clock import Clock
from wakeful.dispatcher.flights import Flight

PROVED_AFTER: Final = 1.0  # seconds a worker outlives the start of a suspect's delivery before it tries the next one


class Suspects:
    def __init__(self, clock: Clock, *, every: float) -> None:
        self._clock = clock
        self._every = every  # seconds: they come about when a lease ends, so there is no hurry to look for the first
        self._look_from = 0.0
        self._last: Flight | None = None

    def wanted(self) -> bool:
        """Whether the last one has come back, or this process has outlived the start of its delivery by a while."""
        now, last = self._clock.monotonic(), self._last
        if last is not None and not last.back:
            return last.on_trial_since is not None and now - last.on_trial_since >= PROVED_AFTER
        return now >= self._look_from

    def looked(self, claimed: Sequence[Alarm]) -> None:
        """A claim that was to bring one has brought these."""
        if not any(alarm.is_suspect for alarm in claimed):
            self._look_from = self._clock.monotonic() + self._every

    def look_at_once(self) -> None:
        """For a round that is to leave nothing behind."""
        self._look_from = 0.0

    def leave_alone(self) -> None:
        """This process stood still; others may have too, with the whole machine: they come first to what they hold."""
        self._look_from = self._clock.monotonic() + 2 * self._every

    def tries(self, flight: Flight) -> None:
        self._last = flight

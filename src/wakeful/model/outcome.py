"""The result of a delivery attempt, and what a target may report later. Failures are values, not exceptions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from wakeful.model.alarm import RESULT_LIMIT, Row

_MS: Final = timedelta(milliseconds=1)
ReportOutcome = Literal["completed", "failed", "working", "snooze"]
MOST_COST: Final = 1e9  # of one report: sums of millionths of it are still whole numbers of 64 bits
SHORTEST_SNOOZE: Final = timedelta(seconds=1)  # what a receiver may ask for: it must not have the same wake in a loop


class Delivered(Struct, frozen=True):
    """The target has the wake. `awaits_report`: it will report the outcome later."""

    detail: str = ""
    awaits_report: bool = False
    row: Row | None = None


class Completed(Struct, frozen=True):
    """The target has the wake and has done the work. `cost`: what that cost, where it says so."""

    result: str = ""
    cost: float = 0.0


class Failed(Struct, frozen=True):
    """The attempt failed. `unhealthy`: the target itself seems to be down, it did not just refuse this wake.

    `answered`: the receiver itself answered, so its problem may concern only this owner's wakes.
    """

    error: str
    retryable: bool = True
    retry_after: float | None = None
    unhealthy: bool = False
    answered: bool = False


class Snoozed(Struct, frozen=True):
    """The target wants the wake again later."""

    wait: timedelta


class Waiting(Struct, frozen=True):
    """Kept in the inbox until its owner fetches it."""


Outcome = Delivered | Completed | Failed | Snoozed | Waiting


class Report(Struct, frozen=True):
    """A target's report on a fire."""

    outcome: ReportOutcome
    text: str = ""
    wait: timedelta | None = None
    cost: float = 0.0
    renew: bool = False  # whether its series goes on for as long again: see lineage.py


class Try(Struct, frozen=True):
    """The start and end of an attempt, by the store's clock."""

    started: datetime
    ended: datetime

    @property
    def ms(self) -> int:
        return max(0, (self.ended - self.started) // _MS)


# The words of the Alarm system, which its users look for in `result`; the status says the same in one word.


def retry_result(error: str, attempt: int, allowed: int) -> str:
    """Return the result text of a fire that is tried again."""
    return f"RETRY: {error} (attempt {attempt}/{allowed})"[:RESULT_LIMIT]


def failed_result(error: str, attempts: int) -> str:
    """Return the result text of a fire that has failed."""
    return f"FAILED: {error} (after {max(1, attempts)} attempts)"[:RESULT_LIMIT]

"""Passing over what is due without delivering it, because it may have been delivered already. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from wakeful.alarm.model import Alarm, Change, Fire
from wakeful.alarm.settle import begin, skip


def pass_over(alarm: Alarm, fire: Fire | None, *, now: datetime) -> Change:
    """What becomes of a due alarm that is not to be delivered: what is overdue is on record as missed.

    Where its fire is over already, or its policy says something else of being late, that holds. A fire that was
    tried before keeps the log of its attempts.
    """
    change = begin(alarm, fire, now=now) or skip(alarm, "missed", now=now)
    if fire is None:
        return change
    return replace(change, fires=tuple(with_tries(one, fire) for one in change.fires))


def with_tries(skipped: Fire, before: Fire) -> Fire:
    """A skipped fire with the log of the attempts there were before."""
    if skipped.status != "skipped" or skipped.scheduled_for != before.scheduled_for:
        return skipped
    tries = {"attempts": before.attempts, "failures": before.failures, "started_at": before.started_at}
    return replace(skipped, **tries, last_error=before.last_error, log=before.log)

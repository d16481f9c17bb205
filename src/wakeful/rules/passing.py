"""Passing over what is due without delivering it, because it may have been delivered already. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from wakeful.model.alarm import ERROR_LIMIT, Alarm, Change, Fire
from wakeful.model.outcome import failed_result
from wakeful.moments import whole_ms
from wakeful.rules.attempts import open_fire
from wakeful.rules.settle import begin, skip


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


# Set aside an alarm that cannot be processed, with the reason, so that it does not block others.


def quarantine(alarm: Alarm, fire: Fire | None, why: str, *, now: datetime) -> Change:
    """End it as `failed`. `why`: what could not be done, and the error. What a report said of the fire stays."""
    now = whole_ms(now)
    said = f"set aside: {why}"[:ERROR_LIMIT]
    known = fire or open_fire(alarm, now)
    kept = replace(
        known,
        status="failed",
        reason="broken",
        result=failed_result(said, known.attempts),
        last_error=said,
        report_by=None,
        updated_at=now,
    )
    after = replace(
        alarm, status="failed", last_error=said, claim=alarm.claim + 1, claimed_at=None, unsettled=0, updated_at=now
    )
    is_reported = fire is not None and fire.status == "completed"
    return Change(claim=alarm.claim, version=alarm.version, after=after, fires=() if is_reported else (kept,))

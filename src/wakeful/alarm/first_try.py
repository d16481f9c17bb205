"""The way that nearly every fire takes: a first attempt that completed. Pure.

settle.py decides the same of it, at length; a test compares the two. Here it is a third of the work, and a store that
is told so writes a few columns instead of all.
"""

from __future__ import annotations

from msgspec.structs import replace

from wakeful.alarm.model import RESULT_LIMIT, Alarm, Attempt, Change, Fire
from wakeful.alarm.outcome import Completed, Try
from wakeful.alarm.plan import advance, passed_over
from wakeful.moments import MS, whole_ms


def completed_at_once(alarm: Alarm, outcome: Completed, attempt: Try) -> Change | None:
    """Return what follows the first attempt at a fire, or None if there is more to say of it."""
    if alarm.unsettled > 1 or alarm.failure_count or alarm.awaiting is not None or outcome.cost:
        return None
    started, ended = whole_ms(attempt.started), whole_ms(attempt.ended)
    after = replace(
        alarm,
        status="fired" if alarm.kind == "once" else alarm.status,
        last_fired_at=ended,
        last_error="",
        fire_count=alarm.fire_count + 1,
        failed_in_a_row=0,
        claim=alarm.claim + 1,
        claimed_at=None,
        unsettled=0,
        updated_at=ended,
    )
    if alarm.kind == "cron":
        policy = alarm.policy
        if policy.renew_for is not None or policy.calendar or passed_over(alarm, started=attempt.started, now=ended):
            return None
        after = advance(after, max(ended, alarm.next_fire_at))
    result = outcome.result
    fire = Fire(
        alarm_id=alarm.id,
        scheduled_for=alarm.occurrence_at,
        owner_did=alarm.owner_did,
        target=alarm.target,
        status="completed",
        attempts=1,
        started_at=started,
        delivered_at=ended,
        completed_at=ended,
        duration_ms=max(0, (ended - started) // MS),
        result=result[:RESULT_LIMIT],
        log=(Attempt(started, attempt.ms, f"completed: {result[:200]}" if result else "completed"),),
        updated_at=ended,
    )
    return Change(claim=alarm.claim, version=alarm.version, after=after, fires=(fire,), at_once=True)

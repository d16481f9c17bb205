"""Decide what a signal does to an alarm that waits for it: `unless` cancels it, `or_when` fires it at once. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from wakeful.alarm.edit import cancel
from wakeful.alarm.model import Alarm, Change, Event, Fire, HeardSignal
from wakeful.alarm.signals import Signal, by_signal
from wakeful.moments import whole_ms

SIGNALLED: Final = "signalled"
_MS: Final = timedelta(milliseconds=1)


def signalled(
    alarm: Alarm,
    fire: Fire | None,
    signal: Signal,
    *,
    now: datetime,
    by: str = "",
    inbox: Sequence[Fire] = (),
    fired_at: Collection[datetime] = (),
) -> Change | None:
    """What a signal does to an alarm. None: nothing, as it does not wait for it, or is being delivered already.

    `fired_at`: the moments from now on that have a fire on record. There are some after a clock was set back.
    """
    if alarm.status != "active":
        return None
    if alarm.policy.unless == signal.name:
        return cancel(alarm, fire, now=now, by=by, reason=by_signal(signal.name), inbox=inbox)
    if alarm.policy.or_when != signal.name or alarm.claimed_at is not None:
        return None
    now = whole_ms(now)
    at = now
    while at == alarm.last_fired_at or at in fired_at:  # a fire of its own, not one that was
        at += _MS
    return _at_once(alarm, signal, at, now=now, by=by)


def _at_once(alarm: Alarm, signal: Signal, at: datetime, *, now: datetime, by: str) -> Change:
    """Make it due now. A fire that was put off or is retried comes now; else this is one more, and the series goes on.

    The retries that a fire has used up stay used up.
    """
    occurrence = min(alarm.occurrence_at, at)
    before = alarm.policy.heard
    resumes_at = before.resumes_at if before is not None else None
    if alarm.kind == "cron" and occurrence < alarm.occurrence_at:
        resumes_at = alarm.occurrence_at
    heard = HeardSignal(
        name=signal.name, occurrence_at=occurrence, payload_json=signal.payload_json, resumes_at=resumes_at
    )
    after = replace(
        alarm,
        occurrence_at=occurrence,
        next_fire_at=min(alarm.next_fire_at, at),
        policy=replace(alarm.policy, heard=heard),
        claim=alarm.claim + 1,
        version=alarm.version + 1,
        unsettled=0,
        updated_at=now,
    )
    event = Event(
        at=now,
        what=SIGNALLED,
        alarm_id=alarm.id,
        owner_did=alarm.owner_did,
        fire_id=after.fire_id,
        by=by,
        reason=by_signal(signal.name),
    )
    return Change(claim=alarm.claim, version=alarm.version, after=after, events=(event,), edited=True)

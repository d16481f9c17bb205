"""Wakes in the inbox: which are still open, and what happens to them when their alarm is cancelled or moved. Pure.

A wake that nobody has seen is removed. One that a reader has is only marked, so that it does not wait again when
no report comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from wakeful.alarm.attempts import PUT_INTO_INBOX
from wakeful.alarm.model import INBOX, Alarm, Fire, SkipReason
from wakeful.alarm.outcome import failed_result

OPEN = ("waiting", "delivered")  # statuses an open wake of the inbox can have


def is_in_inbox(fire: Fire) -> bool:
    """Whether a fire was last put into an inbox to be fetched, rather than sent.

    Its own log says so, whatever the inbox is called: a process that does not know the name judges it the same way.
    """
    return fire.target == INBOX or (bool(fire.log) and fire.log[-1].said.startswith(PUT_INTO_INBOX))


def in_hand(fire: Fire, now: datetime) -> bool:
    """Return whether a reader fetched it and may still be working on it."""
    return is_in_inbox(fire) and fire.status == "delivered" and fire.report_by is not None and fire.report_by > now


def retract(fires: Sequence[Fire], reason: SkipReason, *, now: datetime) -> tuple[Fire, ...]:
    """Return the open fires among these as they are after their alarm was cancelled or moved."""
    return tuple(_taken_back(fire, reason, now) for fire in fires if _is_open(fire))


def no_longer_awaited(alarm: Alarm, gone: Sequence[Fire]) -> Alarm:
    """Return the alarm without the awaited report of a removed fire, so that its series continues."""
    ended = {fire.scheduled_for for fire in gone if fire.status != "delivered"}
    return replace(alarm, awaiting=None) if alarm.awaiting in ended else alarm


def _is_open(fire: Fire) -> bool:
    if not is_in_inbox(fire):
        return False
    return fire.status == "waiting" or (fire.status == "delivered" and fire.report_by is not None and not fire.reason)


def _taken_back(fire: Fire, reason: SkipReason, now: datetime) -> Fire:
    if fire.status == "delivered":
        return replace(fire, reason=reason, updated_at=now)
    if fire.attempts:  # it had been handed out before, and was not reported on
        said = failed_result(fire.last_error or reason, fire.attempts)
        return replace(fire, status="failed", reason=reason, result=said, updated_at=now)
    return replace(fire, status="skipped", reason=reason, through=fire.scheduled_for, updated_at=now)

"""Wakes that an owner fetches: which of them are still open, and what becomes of those whose alarm is taken back. Pure.

What nobody has seen is retracted. What somebody has in hand is not: it is marked, so that it does not wait again when
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
    """Whether somebody fetched it and may still be at it."""
    return is_in_inbox(fire) and fire.status == "delivered" and fire.report_by is not None and fire.report_by > now


def retract(fires: Sequence[Fire], reason: SkipReason, *, now: datetime) -> tuple[Fire, ...]:
    """The open ones among these fires, as they are once their alarm is taken back."""
    return tuple(_taken_back(fire, reason, now) for fire in fires if _is_open(fire))


def no_longer_awaited(alarm: Alarm, gone: Sequence[Fire]) -> Alarm:
    """The alarm that waits for no report on what was retracted: its series is not held up by it."""
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

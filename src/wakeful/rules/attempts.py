"""Count the attempts of a fire and keep its log. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from wakeful.model.alarm import INBOX, LOG_LIMIT, STEPPED_OVER, Alarm, Attempt, Fire, SkipReason
from wakeful.model.outcome import (
    SHORTEST_SNOOZE,
    Completed,
    Delivered,
    Failed,
    Outcome,
    Snoozed,
    Try,
    Waiting,
    failed_result,
)
from wakeful.moments import whole_ms

NO_ANSWER: Final = "no answer: its worker died"
NOTED: Final = " (no longer ours)"
PUT_INTO_INBOX: Final = "put into the inbox"


def open_fire(alarm: Alarm, now: datetime) -> Fire:
    return Fire(
        alarm_id=alarm.id,
        scheduled_for=alarm.occurrence_at,
        owner_did=alarm.owner_did,
        target=alarm.target,
        status="retrying",
        failures=alarm.failure_count,
        updated_at=now,
    )


def attempt_number(alarm: Alarm, fire: Fire | None) -> int:
    """Return the number of the current attempt: at least this many, including it, may have reached the target."""
    known = None if fire is None or fire.status in STEPPED_OVER else fire
    return (known.attempts if known else 0) + _unanswered(alarm, known) + 1


def _unanswered(alarm: Alarm, fire: Fire | None) -> int:
    """Count attempts without a result. Putting a wake into the inbox does not count: its owner has not seen it."""
    if alarm.unsettled <= 1 or alarm.target == INBOX:
        return 0
    came_back = sum(line.said.endswith(NOTED) for line in fire.log) if fire else 0  # late, and counted then
    return max(0, alarm.unsettled - 1 - came_back)


def taken_up(alarm: Alarm, fire: Fire | None, now: datetime) -> Fire:
    """Return the current fire with unanswered attempts added to its log."""
    known = open_fire(alarm, now) if fire is None or fire.status in STEPPED_OVER else fire
    lost = _unanswered(alarm, known)
    for _ in range(lost):
        known = _with_line(known, Attempt(whole_ms(now), 0, NO_ANSWER))
    return replace(known, attempts=known.attempts + lost) if lost else known


def logged(fire: Fire, outcome: Outcome, attempt: Try, *, suffix: str = "") -> Fire:
    line = Attempt(whole_ms(attempt.started), attempt.ms, _said(outcome) + suffix)
    tried = not isinstance(outcome, Waiting)  # putting it into the inbox is not an attempt: its owner has not seen it
    return replace(
        _with_line(fire, line),
        attempts=fire.attempts + tried,
        started_at=fire.started_at or (whole_ms(attempt.started) if tried else None),
        updated_at=whole_ms(attempt.ended),
    )


def _with_line(fire: Fire, line: Attempt) -> Fire:
    log = fire.log if len(fire.log) < LOG_LIMIT else (fire.log[0], *fire.log[2:])
    return replace(fire, log=(*log, line))


def _said(outcome: Outcome) -> str:
    match outcome:
        case Completed(result):
            return f"completed: {result[:200]}" if result else "completed"
        case Delivered(detail):
            return f"delivered: {detail}" if detail else "delivered"
        case Waiting():
            return PUT_INTO_INBOX
        case Snoozed(wait):
            return f"snoozed for {max(wait, SHORTEST_SNOOZE).total_seconds():.0f} s"
        case Failed(error):
            return f"failed: {error[:500]}"


# Wakes in the inbox: which are still open, and what happens to them when their alarm is cancelled or moved. Pure.
#
# A wake that nobody has seen is removed. One that a reader has is only marked, so that it does not wait again when
# no report comes.

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

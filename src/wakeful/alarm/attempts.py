"""Count the attempts of a fire and keep its log. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from wakeful.alarm.model import INBOX, LOG_LIMIT, STEPPED_OVER, Alarm, Attempt, Fire
from wakeful.alarm.outcome import (
    SHORTEST_SNOOZE,
    Completed,
    Delivered,
    Failed,
    Outcome,
    Snoozed,
    Try,
    Waiting,
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

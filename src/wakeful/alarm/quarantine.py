"""Set aside an alarm that cannot be processed, with the reason, so that it does not block others."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from wakeful.alarm.attempts import open_fire
from wakeful.alarm.model import ERROR_LIMIT, Alarm, Change, Fire
from wakeful.alarm.outcome import failed_result
from wakeful.moments import whole_ms


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

"""Limit how often one alarm is delivered, even in a loop of retries, snoozes, reports and edits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from wakeful.model.alarm import Alarm, Change, Event
from wakeful.moments import whole_ms
from wakeful.rules.plan import skipped_run, undecided
from wakeful.rules.settle import release

MINUTE: Final = timedelta(minutes=1)
HELD_BACK: Final = "held back"  # what its event says


def too_soon(delivered: Sequence[datetime], most: int, *, now: datetime) -> timedelta:
    """Return how long an alarm delivered at these moments (latest last) must wait; zero if it may be delivered now."""
    if len(delivered) < most:
        return timedelta(0)
    since = now - delivered[-most]
    # A moment ahead of now is from before the clock was set back: it says nothing.
    return MINUTE - since if timedelta(0) <= since < MINUTE else timedelta(0)


def hold_back(alarm: Alarm, most: int, wait: timedelta, *, now: datetime) -> Change:
    """Put a claimed alarm back until its minute is over, and record that.

    Occurrences of the series in the meantime are recorded as skipped, because the fire is still under way.
    """
    change, until = release(alarm, now=now), max(alarm.next_fire_at, whole_ms(now + wait))
    passed = skipped_run(alarm, undecided(alarm), until, "overlap", now=whole_ms(now))
    event = Event(
        at=whole_ms(now),
        what=HELD_BACK,
        alarm_id=alarm.id,
        owner_did=alarm.owner_did,
        fire_id=alarm.fire_id,
        reason=f"delivered {most} times within a minute, and fires_per_minute allows no more",
    )
    after = replace(change.after, next_fire_at=until)
    return replace(change, after=after, events=(event,), fires=() if passed is None else (passed,))

"""Suspects: alarms that were claimed but never settled, and may have killed their worker. Pure.

`unsettled` counts the claims that no settlement followed; a settlement clears it.

1: claimed for the first time. If its worker dies, everything that worker held is at 1, and that proves nothing.
2: claimed again, in a group with all others that were at 1. Most crashes end here, as fast as the receivers answer.
3: the group's worker died too. The members are claimed one by one, and nothing against any of them is known yet.
4 and more: the delivery of a suspect alone is counted before it begins: each number above 3 is a worker that died then.

So an alarm that kills its worker costs at most 2 + DEATHS_LIMIT workers, and one that does not is never blamed for
those of others. Versions before groups counted lone deliveries from 3 on: beside them an alarm is blamed one sooner.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from wakeful.model.alarm import SUSPECT, Alarm, Change

ALONE: Final = SUSPECT + 1  # `unsettled` of a suspect from the claim on that brings no other
DEATHS_LIMIT: Final = 3  # workers that died while they delivered this suspect and no other


def is_alone(alarm: Alarm) -> bool:
    """Return whether a claimed alarm is a suspect that is delivered while no other one is."""
    return alarm.unsettled >= ALONE


def deaths(alarm: Alarm) -> int:
    """Count the workers that died while they delivered it and no other suspect."""
    return max(0, alarm.unsettled - ALONE)


def is_poison(alarm: Alarm) -> bool:
    return deaths(alarm) >= DEATHS_LIMIT


def unsettled_again(alarm: Alarm) -> int:
    """What a claimed alarm that is released undelivered counts then: this claim says nothing against it.

    Of a member of a group that is 1 again: its group did not die. Who is claimed alone stays alone.
    """
    return alarm.unsettled if is_alone(alarm) else max(0, alarm.unsettled - 1)


def put_on_trial(alarm: Alarm) -> Change:
    """Count a suspect's delivery before it begins. Lease and version stay: this concerns only its worker."""
    counted = replace(alarm, unsettled=alarm.unsettled + 1)
    return Change(claim=alarm.claim, version=alarm.version, after=counted)


def acquitted(alarm: Alarm, *, now: datetime) -> Change:
    """Take back what was counted when its delivery began: its worker outlived that, and is about to try another."""
    return Change(claim=alarm.claim, version=alarm.version, after=replace(alarm, claimed_at=now))

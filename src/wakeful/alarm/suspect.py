"""Suspects: alarms that were claimed but never settled, and may have killed their worker. Pure.

Blame needs evidence. `unsettled` is 1 while an alarm is claimed for the first time: whatever shared a batch with a
crash has that, and it proves nothing. The next claim makes it 2: a suspect. Suspects are delivered one at a time, and
each such delivery is counted before it begins: it is what the worker did last, should it die. A settlement clears it.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from wakeful.alarm.model import SUSPECT, Alarm, Change

DEATHS_LIMIT: Final = 3  # workers that died while they delivered an alarm as a suspect


def deaths(alarm: Alarm) -> int:
    """Count the workers that died while they delivered it and no other suspect."""
    return max(0, alarm.unsettled - SUSPECT)


def is_poison(alarm: Alarm) -> bool:
    return deaths(alarm) >= DEATHS_LIMIT


def put_on_trial(alarm: Alarm) -> Change:
    """Count a suspect's delivery before it begins. Lease and version stay: this concerns only its worker."""
    counted = replace(alarm, unsettled=alarm.unsettled + 1)
    return Change(claim=alarm.claim, version=alarm.version, after=counted)

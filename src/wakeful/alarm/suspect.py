"""An alarm that was claimed and never settled: it may have killed its worker, or only been there when that died. Pure.

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
    """How many workers died while they delivered it, and no other suspect."""
    return max(0, alarm.unsettled - SUSPECT)


def is_poison(alarm: Alarm) -> bool:
    return deaths(alarm) >= DEATHS_LIMIT


def put_on_trial(alarm: Alarm) -> Change:
    """A suspect's delivery is about to begin. Lease and version stay: nobody but us is concerned."""
    counted = replace(alarm, unsettled=alarm.unsettled + 1)
    return Change(claim=alarm.claim, version=alarm.version, after=counted)

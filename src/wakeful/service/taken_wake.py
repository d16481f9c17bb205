"""A wake taken from the inbox, with the facts that a webhook has in its headers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Self

from msgspec.structs import replace

from wakeful.alarm import Alarm, Fire, following
from wakeful.moments import unix_ms

_PASSED_OVER: Final = frozenset({"missed", "overlap", "expired"})  # not what its owner paused or moved


class TakenWake(tuple[Alarm, Fire]):
    """A wake taken from the inbox; it unpacks as (alarm, fire).

    `late_ms`: how long after its scheduled time it was taken. `missed`: how many later fires of its series came and
    went without a wake of their own by then. `attempt`: how often it has been handed out.
    """

    late_ms: int
    missed: int

    def __new__(cls, alarm: Alarm, fire: Fire, *, missed: int = 0) -> Self:
        made = super().__new__(cls, (alarm, fire))
        handed_at = fire.delivered_at or fire.scheduled_for
        made.late_ms = max(0, unix_ms(handed_at) - unix_ms(fire.scheduled_for))
        made.missed = missed
        return made

    @property
    def alarm(self) -> Alarm:
        return self[0]

    @property
    def fire(self) -> Fire:
        return self[1]

    @property
    def attempt(self) -> int:
        return self[1].attempts


def may_have_missed(alarm: Alarm, fire: Fire, now: datetime) -> bool:
    """Whether the series came round again since: only then something can have been passed over."""
    uncounted = replace(alarm, fire_count=0)  # its last fire allowed has a past too
    after = following(uncounted, fire.scheduled_for)
    return after is not None and after <= now


def missed(skipped: Iterable[Fire]) -> int:
    """How many instants these skipped runs passed over without anybody having asked for it."""
    return sum(fire.count for fire in skipped if fire.reason in _PASSED_OVER)

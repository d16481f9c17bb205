"""A wake taken from the inbox, with the facts that a webhook has in its headers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alarm import Alarm, Fire, Wake, following
from wakeful.alarm.lineage import Author, author_of, is_ending
from wakeful.alarm.model import STEPPED_OVER, FireStatus, HeardSignal
from wakeful.alarm.wake import prompt
from wakeful.moments import unix_ms
from wakeful.service.history import HistoryEntry

# Not what its owner paused, moved or skipped.
PASSED_OVER: Final = frozenset({"missed", "overlap", "expired", "budget"})


class PreviousFire(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fire of the same series before a wake: what became of it."""

    fire_id: str
    status: FireStatus
    result: str = ""
    error: str = ""


class PlaceInSeries(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which fire of its alarm a wake is, of how many at most, what came before it and what comes next."""

    number: int = 1
    max_fires: int | None = None
    previous: PreviousFire | None = None
    next_fire_at: datetime | None = None


ALONE: Final = PlaceInSeries()  # of an alarm that fires once


class TakenWake(tuple[Alarm, Fire]):
    """A wake taken from the inbox; it unpacks as (alarm, fire).

    `late_ms`: how long after its scheduled time it was taken. `missed`: how many later fires of its series came and
    went without a wake of their own by then. `attempt`: how often it has been handed out. `number`, `max_fires`,
    `previous`, `next_fire_at`: see PlaceInSeries. `token`, `author`, `ends_at`, `renewable`: as in a Wake.
    """

    late_ms: int
    missed: int
    place: PlaceInSeries
    token: str
    ends_at: datetime | None
    renewable: bool

    def __new__(
        cls, alarm: Alarm, fire: Fire, *, missed: int = 0, place: PlaceInSeries = ALONE, token: str = ""
    ) -> Self:
        made = super().__new__(cls, (alarm, fire))
        made.place = place
        made.token = token
        made.ends_at = alarm.policy.ends_at if alarm.kind == "cron" else None
        made.renewable = is_ending(replace(alarm, occurrence_at=fire.scheduled_for))
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
    def author(self) -> Author:
        return author_of(self[0])

    @property
    def attempt(self) -> int:
        return self[1].attempts

    @property
    def signal(self) -> HeardSignal | None:
        """The signal that it comes for; None where its time had come."""
        return self[0].signal_of(self[1].scheduled_for)

    @property
    def prompt(self) -> str:
        """The wake as one text for a model, with what became of the fire before it."""
        alarm, fire, previous = *self, self.previous
        outcome = "" if previous is None else f"{previous.status}: {previous.error or previous.result}".rstrip(": ")
        return prompt(Wake(replace(alarm, occurrence_at=fire.scheduled_for)).content, previous=outcome)

    @property
    def number(self) -> int:
        return self.place.number

    @property
    def max_fires(self) -> int | None:
        return self.place.max_fires

    @property
    def previous(self) -> PreviousFire | None:
        return self.place.previous

    @property
    def next_fire_at(self) -> datetime | None:
        return self.place.next_fire_at


def place_in_series(alarm: Alarm, fire: Fire, latest: Sequence[Fire]) -> PlaceInSeries:
    """Where a fire that was handed out stands among its alarm's latest fires, newest first."""
    happened = [one for one in latest if one.status not in STEPPED_OVER]
    later = sum(one.scheduled_for > fire.scheduled_for for one in happened)
    before = next((one for one in happened if one.scheduled_for < fire.scheduled_for), None)
    return PlaceInSeries(
        number=max(1, alarm.fire_count - later),
        max_fires=alarm.policy.max_fires,
        previous=None
        if before is None
        else PreviousFire(fire_id=before.id, status=before.status, result=before.result, error=before.last_error),
        next_fire_at=alarm.next_fire_at if alarm.status == "active" else None,
    )


def may_have_missed(alarm: Alarm, fire: Fire, now: datetime) -> bool:
    """Whether the series came round again since: only then something can have been passed over."""
    uncounted = replace(alarm, fire_count=0)  # its last fire allowed has a past too
    after = following(uncounted, fire.scheduled_for)
    return after is not None and after <= now


def missed(skipped: Iterable[Fire | HistoryEntry]) -> int:
    """How many instants these skipped runs passed over without anybody having asked for it."""
    return sum(fire.count for fire in skipped if fire.status == "skipped" and fire.reason in PASSED_OVER)

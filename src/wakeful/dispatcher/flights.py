"""The flights of this process: alarms it has claimed and not yet settled, and the places they take.

A target's places are taken while deliveries are in progress. A delivery that ended and waits to be settled takes none.

`slots` says how many alarms of each target a claim asks for: at most what can start at once. Each target has RESERVED
places whatever the others hold, so hanging targets cannot crowd out the rest. A claim asks for FIRST_REACH alarms at
first, and for twice as many after each claim that brought all it asked for, up to `batch`: one of several workers does
not take all of a short queue, and a long queue is not read in small pieces.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.dispatcher.breaker import Breaker, Holds
from wakeful.model.alarm import Alarm, Change, Fire
from wakeful.model.outcome import Failed, Outcome, Try
from wakeful.rules.checks import CheckLook
from wakeful.rules.users import Users
from wakeful.targets import Target

RESERVED: Final = 4
EARLY: Final = timedelta(milliseconds=40)
COLLECTS_FOR: Final = 0.01  # seconds that a claim waits for more free slots; other targets wait no longer than that
FIRST_REACH: Final = 100  # alarms that a claim asks for at first; twice as many after each that brought all of them


class ServedTarget(Struct, frozen=True):
    """A target as this process serves it."""

    target: Target
    concurrency: int
    breaks: bool = True  # in-process targets are always reachable: no breaker
    users: Users = Users()


class Flight(Struct, eq=False):
    """One claimed alarm on its way from claim to settlement."""

    alarm: Alarm
    fire: Fire | None
    task: asyncio.Task[None] | None = None
    taken: float = 0.0  # when its claim was asked for, by the monotonic clock
    started: datetime | None = None
    arrived: datetime | None = None  # what its fire had for `delivered_at` when the attempt began
    outcome: Outcome | None = None
    attempt: Try | None = None
    change: Change | None = None
    look: CheckLook | None = None  # what its alarm's check found
    notes: int = 0  # times its outcome was put on record for an alarm no longer ours
    decided_again: int = 0  # times its change met an alarm that had changed, and was decided again
    set_aside: int = 0  # times that something simpler was to be written, since the store did not take the change
    to_release: bool = False  # it is cancelled because this process stops
    finished: bool = False  # its delivery is over, however it went
    landed: bool = False
    lost: bool = False  # somebody else has the alarm, or its owner changed it: its outcome is only noted
    on_trial_since: float | None = None  # a suspect whose delivery has begun, by the monotonic clock

    again: Flight | None = None  # the alarm as it was claimed again while the end of this flight was being written

    @property
    def key(self) -> tuple[str, datetime]:
        return self.alarm.id, self.alarm.occurrence_at

    def is_ended_by(self, again: Flight) -> bool:
        """Whether the wake counts as arrived since this attempt began, and a later claim is of the next try.

        Its receiver reported a failure, say, and another worker has planned that try: this attempt's answer is none of
        it. A report that nobody has settled yet is of this attempt.
        """
        if self.started is None or again.fire is None or again.fire.completed_at is not None:
            return False
        return again.fire.delivered_at not in (None, self.arrived)

    def adopt(self, again: Flight) -> None:
        """Go on with a later claim of the alarm, which nobody settled in between: the wake is not sent again.

        Its fire comes with it: a report may have ended it since the first claim.
        """
        # The count stays: no worker died of it, it was ours all along.
        self.alarm = replace(again.alarm, unsettled=self.alarm.unsettled)
        self.fire = again.fire
        self.lost, self.taken = False, again.taken


class Flights:
    def __init__(self, served: Mapping[str, ServedTarget], *, total: int, batch: int) -> None:
        self.served = served
        self.paused: frozenset[str] = frozenset()
        self.breakers: dict[str, Breaker] = {}
        self.holds = Holds()
        self.hungry: set[str] = set()  # targets that may have more due than was claimed
        self._reach: dict[str, int] = {}  # of these: how many the next claim asks for
        self._total = total
        self._batch = batch
        self._flying: dict[tuple[str, datetime], Flight] = {}  # by alarm and occurrence: one flight a fire
        self._by_target: Counter[str] = Counter()
        self._unsettled: Counter[str] = Counter()  # of each target, delivered or not: what a crash may repeat
        self._delivering = 0
        self._collects_until = 0.0  # the deadline for collecting free slots before a claim; 0: none is set

    def __len__(self) -> int:
        return len(self._flying)

    def __iter__(self) -> Iterator[Flight]:
        return iter(tuple(self._flying.values()))

    def holding(self, alarm: Alarm) -> Flight | None:
        """The flight that is under way for this very fire."""
        return self._flying.get((alarm.id, alarm.occurrence_at))

    def suspects_beside(self, flight: Flight) -> list[Flight]:
        """The other suspects whose deliveries have begun and are not settled."""
        return [one for one in self._flying.values() if one.on_trial_since is not None and one is not flight]

    def take_off(self, flight: Flight) -> None:
        self._flying[flight.key] = flight
        self._by_target[flight.alarm.target] += 1
        self._unsettled[flight.alarm.target] += 1
        self._delivering += 1

    def finish(self, flight: Flight) -> None:
        """The delivery is over, however it went: its place is free."""
        if not flight.finished:
            flight.finished = True
            self._by_target[flight.alarm.target] -= 1
            self._delivering -= 1

    def land(self, flight: Flight) -> None:
        """It is settled, and no longer ours."""
        self.finish(flight)
        flight.landed = True
        key = flight.key
        if self._flying.get(key) is flight:
            del self._flying[key]
            self._unsettled[flight.alarm.target] -= 1

    def slots(self, now: datetime) -> dict[str, int]:
        """How many alarms each target can start at once, at most a batch each: of several workers none takes all.

        Where there is not room for all of them, targets that had little to do lately get little; the rest share evenly.
        A few places are each target's own, whatever the others hold: hanging targets cannot crowd out the rest.
        """
        room = {
            name: min(free, self._batch, self._reach.get(name, FIRST_REACH))
            for name in self.served
            if (free := self._room(name, now)) > 0
        }
        left = 0 if self._crowded else self._total - self._delivering
        if sum(room.values()) <= left:
            return room
        wanted = {name: most if name in self.hungry else min(most, RESERVED) for name, most in room.items()}
        shared: dict[str, int] = {}
        # The smallest first: what it leaves of its share goes to the others.
        for waiting, name in zip(range(len(wanted), 0, -1), sorted(wanted, key=wanted.__getitem__), strict=True):
            share = min(wanted[name], -(-left // waiting))
            left -= share
            own = min(room[name], max(0, RESERVED - self._by_target[name]))
            if most := max(own, share):
                shared[name] = most
        return shared

    def early(self, slots: Mapping[str, int]) -> dict[str, timedelta]:
        """How long before they are due alarms are claimed: not at all where more is due than was claimed."""
        return {name: EARLY for name in slots if name not in self.hungry}

    def fed(self, slots: Mapping[str, int], claimed: Counter[str]) -> None:
        """Remember who took all it was offered: there may be more where that came from."""
        for name, offered in slots.items():
            if claimed[name] >= offered:
                self.hungry.add(name)
                self._reach[name] = min(self._batch, max(FIRST_REACH, 2 * offered))
            else:
                self.hungry.discard(name)
                self._reach.pop(name, None)

    def open_targets(self, now: datetime) -> list[str]:
        """The targets with room for at least one more."""
        return [
            name
            for name in self.served
            if self._room(name, now) > 0 and not (self._crowded and self._by_target[name] >= RESERVED)
        ]

    @property
    def _crowded(self) -> bool:
        # What is not yet settled is bounded too, in case the store takes claims faster than settlements.
        return self._delivering >= self._total or len(self._flying) >= 4 * self._total

    def _room(self, name: str, now: datetime) -> int:
        if name in self.paused:
            return 0
        flying = self._by_target[name]
        places = self.served[name].concurrency
        free = max(0, min(places - flying, 2 * places - self._unsettled[name]))
        breaker = self.breakers.get(name)
        return free if breaker is None else breaker.room(free, flying, now=now)

    def is_awaited(self, target: str) -> bool:
        """Whether something that is due may wait for a place: else nobody needs to know that one is free."""
        is_full = target in self.hungry or self._crowded
        return is_full and not (self._collects_until and self.making_room)

    def collecting(self, now: float) -> float:
        """Seconds for which the next claim is to wait for more free slots; `now`: by the monotonic clock."""
        if self.making_room:
            self._collects_until = self._collects_until or now + COLLECTS_FOR
            if (rest := self._collects_until - now) > 0:
                return rest
        self._collects_until = 0.0
        return 0.0

    @property
    def making_room(self) -> bool:
        """Whether a target with more due has room for a few only, and for more in a moment.

        Deliveries are being finished, or finished ones written. One large claim costs less than many small ones.
        """
        return any(self._is_making_room(name) for name in self.hungry if name in self.served)

    def _is_making_room(self, name: str) -> bool:
        places = self.served[name].concurrency
        free = places - self._by_target[name]
        if 0 < free < places // 8:
            return True
        return 2 * places - self._unsettled[name] < min(free, self._reach[name] // 4)

    def judge(self, flight: Flight, outcome: Outcome, *, now: datetime) -> None:
        """Whom an outcome speaks of: a bad answer of its owner there, no answer at all of the target."""
        alarm = flight.alarm
        failed = outcome if isinstance(outcome, Failed) else None
        if failed is None:
            self.holds.succeeded(alarm)
        if (failed is None or failed.answered) and (breaker := self.breakers.get(alarm.target)):
            breaker.succeeded()
        if failed is not None and failed.unhealthy and self.served[alarm.target].breaks:
            if failed.answered:
                self.holds.failed(alarm, failed, now=now)
            else:
                self.breakers.setdefault(alarm.target, Breaker()).failed(failed.error, now=now)

    def on_probe(self) -> list[str]:
        """The targets that get one wake at a time, to see whether they can be reached: it need not be the oldest."""
        return [name for name, breaker in self.breakers.items() if breaker.is_open]

    def next_probe(self) -> datetime | None:
        return min((b.probe_at for b in self.breakers.values() if b.probe_at is not None), default=None)

"""Which alarms a claim takes, in the order and by the rules of the statements `suspect`, `due` and `in_turn`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.model.alarm import Alarm
from wakeful.moments import MS
from wakeful.store import Claimed, Turn
from wakeful.store.memory.database import MemoryDatabase
from wakeful.store.records import OWNERS_A_CLAIM
from wakeful.store.rows import length_ms

_COUNTED: Final = 3  # how far claims alone raise `unsettled`


class Claiming(Struct, frozen=True):
    """One claim: the moment it happens at, and how long a lease is."""

    database: MemoryDatabase
    now: datetime
    lease: timedelta

    def due(self, target: str, *, until: datetime | None = None) -> Iterator[Alarm]:
        """What is due and nobody has, oldest first."""
        alarms, until = self.database.alarms, until or self.now
        for at, _, id in self.database.due.get(target, ()):
            if at > until:
                return
            if not (alarm := alarms[id]).is_leased(self.now, self.lease):
                yield alarm

    def suspect(self, slots: Mapping[str, int]) -> Alarm | None:
        """The alarm that was claimed before and never settled with the least against it.

        One that was not retried in a group yet is taken wherever it stands; others only among the first that are due.
        """
        for most in (1, None):
            found: list[Alarm] = []
            for target, free in slots.items():
                first = islice((one for one in self.due(target) if most is None or one.unsettled <= most), free)
                found += [alarm for alarm in first if alarm.unsettled > 0]
            if found:
                return min(found, key=lambda alarm: (alarm.unsettled, alarm.next_fire_at))
        return None

    def queue(self, target: str, free: int, suspect: Alarm | None, early: timedelta) -> list[Alarm]:
        """What is claimed in the order it is due. Other suspects than this one, or than those of its group, wait."""
        in_group = suspect is not None and suspect.unsettled == 1

        def is_taken(alarm: Alarm) -> bool:
            if alarm.unsettled == 0 or (suspect is not None and alarm.id == suspect.id):
                return True
            return in_group and alarm.unsettled == 1 and alarm.next_fire_at <= self.now

        return list(islice(filter(is_taken, self.due(target, until=self.now + early)), free))

    def in_turn(self, target: str, turn: Turn) -> tuple[list[Alarm], str]:
        """Of owners one after the other the oldest of each, then the second of each; and who was read last."""
        active = [self.database.alarms[id].owner_did for _, _, id in self.database.due.get(target, ())]
        owners = [owner for owner in sorted(dict.fromkeys(active)) if owner > turn.after]
        own: dict[str, list[Alarm]] = {}
        for alarm in self.due(target):
            if alarm.unsettled == 0 and len(found := own.setdefault(alarm.owner_did, [])) < turn.each:
                found.append(alarm)
        served: list[list[Alarm]] = []
        stood = ""
        for owner in owners[:OWNERS_A_CLAIM]:
            if len(served) >= turn.share:
                break
            stood = owner
            if owner in own:
                served.append(own[owner])
        rounds = (alarms[at] for at in range(turn.each) for alarms in served if at < len(alarms))
        return list(islice(rounds, turn.share)), stood if owners and stood < owners[-1] else ""

    def claim(
        self,
        slots: Mapping[str, int],
        *,
        suspects: bool,
        turns: Mapping[str, Turn],
        early: Mapping[str, timedelta],
    ) -> Claimed:
        suspect = self.suspect(slots) if suspects else None
        is_ahead = suspect is not None and suspect.claimed_at is not None and suspect.claimed_at > self.now
        chosen: list[Alarm] = []
        stood: dict[str, str] = {}
        for target, free in slots.items():
            before = length_ms(early[target]) * MS if target in early else timedelta(0)
            queue = self.queue(target, free, suspect, before)
            if target in turns:
                first, stood[target] = self.in_turn(target, turns[target])
                queue = _in_front(first, queue, free, suspect)
            chosen += queue
        claimed = [self._leased(alarm) for alarm in chosen]
        claimed.sort(key=lambda alarm: (alarm.target, alarm.next_fire_at, alarm.id))
        return Claimed(claimed, self.now, is_ahead, stood)

    def _leased(self, alarm: Alarm) -> Alarm:
        unsettled = min(alarm.unsettled + 1, max(alarm.unsettled, _COUNTED))
        leased = replace(alarm, claimed_at=self.now, claim=alarm.claim + 1, unsettled=unsettled)
        self.database.put_alarm(leased)
        return leased


def _in_front(first: Sequence[Alarm], queue: Sequence[Alarm], free: int, suspect: Alarm | None) -> list[Alarm]:
    """Those whose turn it is before those that were due first, as many as there are slots; the suspect before all."""
    order = [*(alarm for alarm in queue if suspect is not None and alarm.id == suspect.id), *first, *queue]
    return list({alarm.id: alarm for alarm in order}.values())[:free]

"""One alarm of a fault run: everything that was asked for it and every wake of it, in order, and what follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from .records import Ack, Evidence, Seen

# Receivers that never take a wake, or take it their own way: what becomes of their alarms is not judged, only that
# they are on record and that nobody else suffers.
HOSTILE: Final = frozenset({"hang", "stream", "reset", "garbage", "refuse", "poison"})


class Story(Struct, frozen=True, kw_only=True):
    n: int
    id: str
    created: Ack
    acks: list[Ack]
    wakes: list[Seen]

    @property
    def target(self) -> str:
        return self.created.target

    @property
    def period(self) -> float:
        return self.created.period

    @property
    def ends(self) -> float:
        return self.created.ends

    @property
    def due(self) -> float:
        """When it was to fire, as last acknowledged; of a series: the first time."""
        return self._due([ack for ack in self.acks if ack.known == "ok"])

    def due_before(self, change: Ack) -> float:
        return self._due([ack for ack in self.acks if ack.known == "ok" and ack.answered <= change.sent])

    def _due(self, acks: list[Ack]) -> float:
        known = [ack.due for ack in (self.created, *acks) if ack.due is not None]
        return known[0] if self.period else known[-1]

    @property
    def taken(self) -> bool:
        return any(wake.taken for wake in self.wakes)

    @property
    def reports(self) -> list[Ack]:
        return [ack for ack in self.acks if ack.verb == "report" and ack.known != "refused"]

    @property
    def done(self) -> bool:
        """Whether its work was reported as done: then it need not come again, whoever died with it."""
        return any(ack.outcome == "completed" for ack in self.reports)

    @property
    def gave_up(self) -> bool:
        """Whether its target, which had the wake, reported a failure: where no retry is left, that is its end."""
        return any(ack.outcome == "failed" for ack in self.reports)

    @property
    def must_fire(self) -> bool:
        """Whether nothing that was or may have been said lets it stay silent."""
        if any(ack.verb == "cancel" and ack.known != "refused" for ack in self.acks):
            return False
        holds = [ack for ack in self.acks if ack.verb in ("pause", "resume") and ack.known != "refused"]
        return not holds or (holds[-1].verb == "resume" and holds[-1].known == "ok")

    def first_tries(self) -> Iterator[Seen]:
        """The first wake of each fire."""
        seen: set[str] = set()
        for wake in self.wakes:
            if wake.fire not in seen:
                seen.add(wake.fire)
                yield wake

    def expected_statuses(self) -> frozenset[str]:
        """What its row may say once everything is over."""
        cancels = [ack for ack in self.acks if ack.verb == "cancel" and ack.known != "refused"]
        if any(ack.known == "ok" for ack in cancels):
            return frozenset({"cancelled"})
        expected = {"fired"} | ({"cancelled"} if cancels else set())
        if any(ack.outcome == "failed" for ack in self.reports):
            expected.add("failed")
        holds = [ack for ack in self.acks if ack.verb in ("pause", "resume") and ack.known != "refused"]
        if holds and (holds[-1].verb == "pause" or holds[-1].known == "unknown"):
            expected |= {"paused"}
        return frozenset(expected)

    def scheduled_of(self, fire: str) -> float:
        return int(fire.rpartition("@")[2]) / 1000

    def instants(self, until: float) -> Iterator[float]:
        """The moments that must be on record: of a one-off, the one at which it fired."""
        if not self.must_fire:
            return
        if not self.period:
            if self.taken:
                yield next(wake.scheduled for wake in self.wakes if wake.taken)
            return
        first = self.created.due or 0.0
        count = int((min(self.ends - 0.05, until) - first) // self.period) + 1
        yield from (first + k * self.period for k in range(max(0, count)))


def stories(evidence: Evidence) -> list[Story]:
    """Every alarm whose creation was acknowledged."""
    acks: dict[int, list[Ack]] = defaultdict(list)
    for ack in sorted(evidence.acks, key=lambda one: one.answered):
        acks[ack.n].append(ack)
    wakes: dict[str, list[Seen]] = defaultdict(list)
    for wake in sorted(evidence.wakes, key=lambda one: one.at):
        wakes[wake.alarm].append(wake)
    told = []
    for n, said in acks.items():
        created = next((ack for ack in said if ack.verb == "create" and ack.known == "ok"), None)
        if created is not None:
            rest = [ack for ack in said if ack.verb != "create"]
            told.append(Story(n=n, id=created.alarm, created=created, acks=rest, wakes=wakes[created.alarm]))
    return told

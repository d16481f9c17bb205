"""Decide when a target's owners are claimed in turn, so that nobody waits for another owner's whole backlog.

Alarms are claimed in due order as long as claims bring everything that is due. When a claim is full there may be more:
half of the next one is then taken from the target's owners in turn. The store walks along an index from owner to owner
(`Turn` in store/__init__.py), starting after the last one and visiting at most OWNERS_A_CLAIM. Each owner gives its
oldest alarm before any gives a second. If no turns are asked for, the store runs the plain claim statement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from wakeful.store import Claimed, Turn

BETWEEN: Final = 3  # claims between two in turn where the last one met nobody else: looking costs PostgreSQL 2 ms


class Turns:
    def __init__(self) -> None:
        self._stood: dict[str, str] = {}  # per target: the owner who was looked at last
        self._behind: set[str] = set()  # targets that may have more due than was claimed
        self._passed: Counter[str] = Counter()  # per target: the claims in due order since the last one in turn
        self._lonely: set[str] = set()  # targets with one owner, as far as the last claim in turn has seen

    def wanted(self, slots: Mapping[str, int], *, probes: Collection[str] = ()) -> dict[str, Turn]:
        """What to ask of the next claim.

        `probes`: targets of which one alarm is to find out how they are. Each time it is another owner's: what is
        wrong may be one owner's affair.
        """
        return {
            target: Turn(max(1, free // 2), self._stood.get(target, ""))
            for target, free in slots.items()
            if target in probes or (target in self._behind and self._passed[target] >= self._between(target, free))
        }

    def _between(self, target: str, free: int) -> int:
        """How many claims in due order come before the next one in turn. With one slot the two alternate."""
        if target in self._lonely:
            return BETWEEN
        return 1 if free == 1 else 0

    def claimed(self, slots: Mapping[str, int], answer: Claimed) -> None:
        """A claim of so many slots brought this."""
        owners: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for alarm in answer.alarms:
            owners[alarm.target][alarm.owner_did] += 1
        for target, offered in slots.items():
            _put(target, self._behind, owners[target].total() >= offered)
            self._passed[target] += 1
            if target in answer.stood:
                self._passed[target] = 0
                came_round = not self._stood.get(target) and not answer.stood[target]
                _put(target, self._lonely, came_round and len(owners[target]) == 1)
        self._stood.update(answer.stood)


def _put(target: str, among: set[str], there: bool) -> None:
    (among.add if there else among.discard)(target)

"""What a claim asks for besides free slots: owners in turn, and alarms that were claimed before and never settled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from wakeful.clock import Clock
from wakeful.dispatcher.flights import Flight
from wakeful.model.alarm import Alarm
from wakeful.rules.suspect import is_alone
from wakeful.store import Claimed, Turn

BETWEEN: Final = 3  # claims between two in turn where the last one met nobody else: a read costs PostgreSQL 2 ms
# Seconds that a worker outlives the start of a delivery before it tries other suspects. A group is soon followed by the
# next one: nobody is blamed for either. Blame falls on whoever was tried alone, so that one is given more time.
GROUP_PROVED_AFTER: Final = 1.0
PROVED_AFTER: Final = 10.0


class Turns:
    """Decide when a target's owners are claimed in turn, so that nobody waits for another owner's whole backlog.

    Alarms are claimed in due order as long as claims bring everything that is due. When a claim is full there may be
    more: half of the next one is then taken from the target's owners in turn. The store walks along an index from owner
    to owner (`Turn` in store/__init__.py), starting after the last one and visiting at most OWNERS_A_CLAIM. Each owner
    gives its oldest alarm before any gives a second. If no turns are asked for, the store runs the plain claim
    statement.
    """

    def __init__(self) -> None:
        self._stood: dict[str, str] = {}  # per target: the owner who was read last
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


class Suspects:
    """When this process may try suspects: alarms that were claimed before and never settled (rules/suspect.py).

    It tries the suspects of one claim at a time. The next ones follow when all of these are settled, or when this
    process has outlived the start of their deliveries: by GROUP_PROVED_AFTER for a group, by PROVED_AFTER for one that
    is alone. A delivery that is not settled yet still counts: a crash would take its settlement with it.
    """

    def __init__(self, clock: Clock, *, every: float) -> None:
        self._clock = clock
        self._every = every  # seconds: they come about when a lease ends, so the first ones are in no hurry
        self._wanted_from = 0.0
        self._on_trial: list[Flight] = []

    def wanted(self) -> bool:
        """Whether a claim may bring suspects: this process has survived those that it tried last."""
        return self.survived() and self._clock.monotonic() >= self._wanted_from

    def survived(self) -> bool:
        """Whether each is settled, or this process has outlived the start of its delivery by a while.

        Settled, not only delivered: what the next one's death takes with it would count against the last one.
        """
        while self._on_trial and self._is_over(self._on_trial[-1]):
            self._on_trial.pop()
        return not self._on_trial

    def _is_over(self, flight: Flight) -> bool:
        return flight.landed or self._outlived(flight, PROVED_AFTER if is_alone(flight.alarm) else GROUP_PROVED_AFTER)

    def _outlived(self, flight: Flight, seconds: float) -> bool:
        since = flight.on_trial_since
        return since is not None and self._clock.monotonic() - since >= seconds

    def may_be_blamed(self, others: Iterable[Flight]) -> bool:
        """Whether a death would be that of a suspect which is begun now: `others` are in flight and did no harm."""
        return all(self._outlived(flight, PROVED_AFTER) for flight in others)

    def claimed(self, claimed: Sequence[Alarm]) -> None:
        """A claim that was to bring suspects has brought these."""
        if not any(alarm.is_suspect for alarm in claimed):
            self._wanted_from = self._clock.monotonic() + self._every

    def want_at_once(self) -> None:
        """For a round that is to leave nothing behind."""
        self._wanted_from = 0.0

    def leave_alone(self) -> None:
        """This process stood still; others may have too, with the whole machine: they come first to what they hold."""
        self._wanted_from = self._clock.monotonic() + 2 * self._every

    def tries(self, flight: Flight) -> None:
        self._on_trial.append(flight)

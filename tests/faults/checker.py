"""The judge: joins what was answered, what arrived and what the database holds, and names every broken promise. Pure.

A delivery was in flight at a fault when the time from its arrival to its settlement touches the time the fault lasted
and what a fault of that kind takes to be over: a lease and a tick. Only a fault that hit the process that sent it, the
store, or its receiver excuses anything.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, Literal, get_args

from msgspec import Struct

from .records import Ack, AlarmRow, Evidence, FireRow, Injection, Seen
from .story import HOSTILE, Story, stories

Column = Literal[
    "lost",
    "duplicate_in_flight",
    "duplicate_other",
    "early",
    "late",
    "after_cancel",
    "after_edit",
    "wrong_status",
    "unaccounted",
    "stuck",
]
COLUMNS: Final[tuple[str, ...]] = get_args(Column)
ALLOWED: Final = frozenset({"duplicate_in_flight"})  # promised to be possible, and counted all the same
PUNCTUAL: Final = 2.0  # how late a wake may be with no fault near
SETTLING: Final = 1.5  # from an answer to its settlement, on a busy machine
SLACK: Final = 1.5  # after a lease and a tick: claiming, connecting, a retry's first wait
CALM: Final = "(no fault)"


class Violation(Struct, frozen=True):
    column: Column
    kind: str  # of the fault in whose time it fell
    alarm: str
    says: str


class Verdict(Struct, frozen=True, kw_only=True):
    store: str
    violations: list[Violation]
    alarms: dict[str, int]  # kind → acknowledged alarms that were due in its time
    recovery: dict[str, float]  # kind → the longest from the end of the fault to the arrival of what it held up


def judge(evidence: Evidence) -> Verdict:
    told = stories(evidence)
    court = _Court(evidence)
    found = [violation for story in told for violation in court.about(story)]
    found += court.duplicates()
    found += court.repeated_keys()
    alarms: dict[str, int] = defaultdict(int)
    recovery: dict[str, float] = {}
    for story in told:
        alarms[court.kind_at(story.due)] += 1
        for kind, took in court.recoveries(story):
            recovery[kind] = max(took, recovery.get(kind, 0.0))
    return Verdict(store=evidence.store, violations=found, alarms=dict(alarms), recovery=recovery)


class _Court:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.injections = sorted(evidence.injections, key=lambda one: one.began)
        self.over = evidence.lease + evidence.tick
        self.rows = {row.id: row for row in evidence.alarms}
        self.fires: dict[str, list[FireRow]] = defaultdict(list)
        for fire in evidence.fires:
            self.fires[fire.alarm].append(fire)

    def about(self, story: Story) -> Iterator[Violation]:
        yield from self._timing(story)
        if self._forgotten(story.created.answered):
            return
        yield from self._owners_word(story)
        missing = self._missing(story)
        if missing is not None:
            yield missing
            return
        yield from self._status(story)
        yield from self._accounts(story)

    def kind_at(self, moment: float) -> str:
        """The fault in whose time a moment falls: from its beginning to the beginning of the next."""
        last = CALM
        for one in self.injections:
            if (one.since or one.began) > moment:
                break
            last = one.kind
        return last

    # Lost and stuck

    def _missing(self, story: Story) -> Violation | None:
        row = self.rows.get(story.id)
        if row is None:
            return self._found("lost", story, story.due, "the database has no row of it")
        if not story.must_fire or story.taken or story.target in HOSTILE or self._rolled_back(story):
            return None
        if story.due > self.evidence.read_at - self.over - PUNCTUAL:
            return None
        if row.status == "active" and self._planned_by_wrong_clock(row):
            return None
        if row.status == "active":
            return self._found("stuck", story, story.due, f"active, next_fire_at {row.next_fire_at - story.due:+.1f} s")
        return self._found("lost", story, story.due, f"{row.status} and never delivered: {row.last_error}")

    def _planned_by_wrong_clock(self, row: AlarmRow) -> bool:
        """A retry set while the clock that decides was an hour ahead comes when the right clock has got there."""
        ahead = any(one.skew > 0 for one in self.injections)
        return ahead and row.next_fire_at > self.evidence.read_at and self.evidence.store == "sqlite"

    # Early and late

    def _timing(self, story: Story) -> Iterator[Violation]:
        for wake in story.wakes:
            early = self._due_of(story, wake) - wake.at - self._skew(wake)
            if early > 0.005:
                yield self._found("early", story, wake.at, f"{early:.3f} s early, by {wake.process}")
        if story.target in HOSTILE or self._forgotten(story.created.answered):
            return
        for wake in story.first_tries():
            due = self._due_of(story, wake)
            by = self._latest(story, due, wake)
            if wake.at > by:
                yield self._found("late", story, due, f"{wake.at - due:.2f} s late, {wake.at - by:.2f} s too many")

    def _due_of(self, story: Story, wake: Seen) -> float:
        if story.period:
            return wake.scheduled
        # One that answered `in_flight` puts off what comes after the attempt under way, which then has its new moment.
        acks = [ack for ack in story.acks if ack.known == "ok" and not ack.in_flight]
        snoozed = [ack for ack in acks if ack.verb == "snooze" and ack.answered < wake.at]
        put_off = [a.due for a in snoozed if not self._forgotten(a.answered)]
        return max([wake.scheduled, *(due for due in put_off if due is not None)])

    def _skew(self, wake: Seen) -> float:
        return self._ahead(wake.at, of=wake.process)

    def _ahead(self, moment: float, *, of: str = "") -> float:
        """By how much a clock that decides was ahead just before. PostgreSQL has its own, which no fault moves."""
        if not self.evidence.store.startswith("sqlite"):
            return 0.0
        skews = [
            one.skew
            for one in self.injections
            if f"clock:{of}" in one.hits or (not of and one.skew)
            if one.began <= moment <= one.ended + SETTLING + self._stall(one.ended, moment)
        ]
        return max([0.0, *skews])

    def _latest(self, story: Story, due: float, wake: Seen) -> float:
        stall = self._stall(due, wake.at)
        # What was set or resumed when it was due already counts from that answer. The wake may be faster than that.
        said = [min(ack.answered, wake.at) for ack in (story.created, *story.acks) if ack.sent <= wake.at]
        latest = max([due, *said]) + PUNCTUAL + stall
        for one in self.injections:
            if not only_receivers(one) and one.began - SETTLING <= wake.at and one.ended + self.over >= due:
                latest = max(latest, max(one.ended, due) + self.over + SLACK + stall)
        return latest

    def _stall(self, since: float, until: float) -> float:
        return sum(seconds for at, seconds in self.evidence.stalls if since - 1 <= at <= until + 1)

    def recoveries(self, story: Story) -> Iterator[tuple[str, float]]:
        """How long after the end of a fault that hit more than a receiver its alarms arrived."""
        if story.target in HOSTILE or self._forgotten(story.created.answered):
            return
        for wake in story.first_tries():
            due = self._due_of(story, wake)
            for one in self.injections:
                if not only_receivers(one) and one.began <= due <= one.ended + self.over and wake.at > one.ended:
                    yield one.kind, wake.at - max(one.ended, due)

    # Duplicates

    def duplicates(self) -> list[Violation]:
        by_fire: dict[str, list[Seen]] = defaultdict(list)
        for wake in self.evidence.wakes:
            if wake.taken:
                by_fire[wake.fire].append(wake)
        found = []
        for wakes in by_fire.values():
            wakes.sort(key=lambda wake: wake.at)
            for first, second in itertools.pairwise(wakes):
                if not self._snoozed_between(first, second):
                    found.append(self._duplicate(first, second))
        return found

    def _duplicate(self, first: Seen, second: Seen) -> Violation:
        fault = self._in_flight_at(first, second)
        says = (
            f"{first.fire} by {first.process} (attempt {first.attempt}) answered {first.status},"
            f" {second.at - first.at:.2f} s later by {second.process} (attempt {second.attempt}): {first.message}"
        )
        if fault is None:
            return Violation("duplicate_other", self.kind_at(second.at), first.alarm, says)
        return Violation("duplicate_in_flight", fault.kind, first.alarm, says)

    def _in_flight_at(self, first: Seen, second: Seen) -> Injection | None:
        touched = {"store", first.process, second.process, f"receiver:{first.receiver}"}
        settled = first.answered + SETTLING + self._stall(first.at, first.answered + SETTLING)
        for one in reversed(self.injections):
            hit = touched & set(one.hits) and settled >= one.began and first.at <= one.ended + self.over
            returned = one.forgets_since is not None and one.forgets_since - SETTLING <= first.at <= one.ended
            if hit or returned:
                return one
        return None

    def _snoozed_between(self, first: Seen, second: Seen) -> bool:
        return any(
            ack.verb == "snooze"
            and ack.alarm == first.alarm
            and ack.known != "refused"
            and first.at - SETTLING <= ack.answered
            and ack.sent <= second.at
            for ack in self.evidence.acks
        )

    def repeated_keys(self) -> list[Violation]:
        """The same key must always have been answered with the same alarm."""
        held: dict[str, str] = {}
        found = []
        for ack in self.evidence.acks:
            if ack.verb != "create" or ack.known != "ok" or not ack.key or self._forgotten(ack.answered):
                continue
            if held.setdefault(ack.key, ack.alarm) != ack.alarm:
                says = f"n{ack.n} key {ack.key} gave {held[ack.key]} and {ack.alarm}"
                found.append(Violation("duplicate_other", self.kind_at(ack.answered), ack.alarm, says))
        return found

    # What the owner said

    def _owners_word(self, story: Story) -> Iterator[Violation]:
        for ack in story.acks:
            if ack.known != "ok" or self._forgotten(ack.answered):
                continue
            if ack.verb in ("cancel", "pause"):
                yield from self._after_stop(story, ack)
            elif ack.verb in ("edit", "snooze"):
                yield from self._after_edit(story, ack)

    def _after_stop(self, story: Story, ack: Ack) -> Iterator[Violation]:
        until = min((a.sent for a in story.acks if a.verb == "resume" and a.sent >= ack.answered), default=float("inf"))
        after = [wake for wake in story.wakes if ack.answered < wake.at < until]
        if ack.in_flight or (ack.in_flight is None and ack.verb == "pause" and self._was_due(story, ack)):
            after = after[1:]  # at most that one attempt
        for wake in after:
            says = f"{ack.verb} answered in_flight={ack.in_flight}, {wake.at - ack.answered:.3f} s before it"
            yield self._found("after_cancel", story, wake.at, f"{says}; sent by {wake.process}")

    def _after_edit(self, story: Story, ack: Ack) -> Iterator[Violation]:
        if ack.in_flight or (ack.in_flight is None and self._was_due(story, ack)):
            return
        for wake in story.wakes:
            later = [a for a in story.acks if a.verb in ("edit", "snooze") and a.sent > ack.sent]
            if wake.at <= ack.answered or later:
                continue
            if ack.verb == "edit" and ack.message and wake.message != ack.message:
                yield self._found("after_edit", story, wake.at, f"said {wake.message!r} instead of {ack.message!r}")
            elif ack.due is not None and not story.period and wake.at + self._skew(wake) < ack.due - 0.005:
                yield self._found("after_edit", story, wake.at, f"{ack.due - wake.at:.2f} s before its new time")

    def _was_due(self, story: Story, ack: Ack) -> bool:
        """Whether a worker could have it already, where the answer does not say."""
        return story.due_before(ack) <= ack.answered + self._ahead(ack.answered)

    # What the database says

    def _status(self, story: Story) -> Iterator[Violation]:
        row = self.rows[story.id]
        if self._rolled_back(story) or story.target in HOSTILE:
            return
        expected = story.expected_statuses()
        late_series = story.period and story.ends > self.evidence.read_at - self.over - PUNCTUAL
        if row.status not in expected and not late_series and not self._planned_by_wrong_clock(row):
            overdue = row.status == "active" and row.next_fire_at < self.evidence.read_at - self.over
            column: Column = "stuck" if overdue else "wrong_status"
            says = f"{row.status} ({row.last_error or 'no error'}), not {' or '.join(sorted(expected))}"
            yield self._found(column, story, story.due, says)
        yield from self._reports(story)

    def _reports(self, story: Story) -> Iterator[Violation]:
        for ack in story.acks:
            if ack.verb != "report" or ack.known != "ok":
                continue
            held = [fire for fire in self.fires[story.id] if _same(fire.scheduled, story.scheduled_of(ack.fire))]
            if [fire.status for fire in held] != ["completed"]:
                now = held[0].status if held else "not there"
                yield self._found("wrong_status", story, ack.answered, f"reported completed, but it is {now}")

    def _accounts(self, story: Story) -> Iterator[Violation]:
        """Every due instant has a row that says what became of it."""
        if self._rolled_back(story):
            return
        until = self.evidence.read_at - self.over - PUNCTUAL
        for instant in story.instants(until):
            if not any(_covers(fire, instant) for fire in self.fires[story.id]):
                yield self._found("unaccounted", story, instant, f"no fire at {instant:.3f}")

    # Faults that excuse

    def _forgotten(self, moment: float) -> bool:
        """Whether a backup from before that moment came back after it."""
        return any(o.forgets_since is not None and o.forgets_since <= moment <= o.ended for o in self.injections)

    def _rolled_back(self, story: Story) -> bool:
        return any(self._forgotten(ack.answered) for ack in story.acks) or any(
            self._forgotten(wake.at) for wake in story.wakes
        )

    def _found(self, column: Column, story: Story, moment: float, says: str) -> Violation:
        return Violation(column, self.kind_at(moment), story.id, f"n{story.n} {story.target} {says}")


def only_receivers(one: Injection) -> bool:
    return all(hit.startswith("receiver:") for hit in one.hits)


def _same(one: float, other: float) -> bool:
    return abs(one - other) < 0.002


def _covers(fire: FireRow, instant: float) -> bool:
    return fire.scheduled - 0.002 <= instant <= (fire.through or fire.scheduled) + 0.002


def worst(verdicts: list[Verdict]) -> list[Violation]:
    """What breaks a promise, in one list."""
    return [one for verdict in verdicts for one in verdict.violations if one.column not in ALLOWED]


__all__ = ["ALLOWED", "CALM", "COLUMNS", "AlarmRow", "Verdict", "Violation", "judge", "only_receivers", "worst"]

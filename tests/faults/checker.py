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

from .processes import CROWD
from .records import Ack, AlarmRow, Evidence, FireRow, Injection, Seen
from .story import HOSTILE, Story, stories

Column = Literal[
    "lost",
    "duplicate_in_flight",
    "duplicate_other",
    "early",
    "late",
    "very_late",
    "after_cancel",
    "after_edit",
    "overwritten",
    "wrong_status",
    "unaccounted",
    "stuck",
]
COLUMNS: Final[tuple[str, ...]] = get_args(Column)
# Counted, and no broken promise: what is promised to be possible, and what a busy machine does.
ALLOWED: Final = frozenset({"duplicate_in_flight", "late"})
PUNCTUAL: Final = 2.0  # how late a wake may be with no fault near
BUSY_MACHINE: Final = 30.0  # seconds more that a machine with other work may take, whatever was measured of it
SETTLING: Final = 3.0  # from an answer to its settlement, on a busy machine
SENDING: Final = 10.0  # from a claim to the arrival of its last wake, on a busy machine
UNSETTLED: Final = 4.2  # after a fault, in which what it met may still be in flight
CALM: Final = "(no fault)"
# How a fire must stand after each report, unless a later report or try changed it (docs/decisions.md).
ENDS: Final[dict[str, frozenset[str]]] = {
    "completed": frozenset({"completed"}),
    "snooze": frozenset({"snoozed"}),
    "failed": frozenset({"failed", "retrying"}),
    "working": frozenset({"delivered", "retrying"}),
}
FINAL: Final = frozenset({"completed", "snooze"})


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
    rate: float = 0.0  # alarms that were asked for in a second, while any were
    in_flight: int = 0  # deliveries at once, at most


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
    return Verdict(
        store=evidence.store,
        violations=found,
        alarms=dict(alarms),
        recovery=recovery,
        rate=rate_of(evidence.acks),
        in_flight=most_in_flight(evidence.wakes),
    )


def rate_of(acks: list[Ack]) -> float:
    sent = sorted(ack.sent for ack in acks if ack.verb == "create")
    return len(sent) / max(1.0, sent[-1] - sent[0]) if sent else 0.0


def most_in_flight(wakes: list[Seen]) -> int:
    changes = sorted([(wake.at, 1) for wake in wakes] + [(wake.answered, -1) for wake in wakes])
    return max(itertools.accumulate((change for _, change in changes), initial=0))


class _Court:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.injections = sorted(evidence.injections, key=lambda one: one.began)
        self.over = evidence.lease + evidence.tick
        self.rows = {row.id: row for row in evidence.alarms}
        self.fires: dict[str, list[FireRow]] = defaultdict(list)
        for fire in evidence.fires:
            self.fires[fire.alarm].append(fire)
        self.again: dict[str, list[Ack]] = defaultdict(list)  # what may bring a wake a second time
        for ack in evidence.acks:
            if ack.known != "refused" and (ack.verb == "snooze" or ack.outcome == "failed"):
                self.again[ack.alarm].append(ack)

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
        if not story.must_fire or story.taken or story.done or story.target in HOSTILE or self._rolled_back(story):
            return None
        if row.status == "active" and story.due > self.evidence.read_at - self.over - PUNCTUAL:
            return None
        if row.status == "active" and self._planned_by_wrong_clock(row):
            return None
        if row.status == "active":
            return self._found("stuck", story, story.due, f"active, next_fire_at {row.next_fire_at - story.due:+.1f} s")
        if row.status == "failed" and story.gave_up:
            return None
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
                is_late = wake.at <= by + BUSY_MACHINE or self._is_crowded(due, wake.at)
                column: Column = "late" if is_late else "very_late"
                yield self._found(column, story, due, f"{wake.at - due:.2f} s late, {wake.at - by:.2f} s too many")

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
            if one.began <= moment <= one.ended + self._sending(one.ended, moment)
        ]
        return max([0.0, *skews])

    def _sending(self, since: float, until: float) -> float:
        return SENDING * (4 if self._is_crowded(since, until) else 1) + self._stall(since, until)

    def _latest(self, story: Story, due: float, wake: Seen) -> float:
        stall = self._stall(due, wake.at)
        # What was set or resumed when it was due already counts from that answer. The wake may be faster than that.
        said = [min(ack.answered, wake.at) for ack in (story.created, *story.acks) if ack.sent <= wake.at]
        latest = max([due, *said]) + PUNCTUAL + stall
        for one in self.injections:
            within = self._within(one)
            if not only_receivers(one) and one.began - SETTLING <= wake.at and one.ended + within >= due:
                latest = max(latest, max(one.ended, due) + within + self.evidence.slack + stall)
        return latest

    def _within(self, one: Injection) -> float:
        return self.over if one.within is None else one.within

    def _stall(self, since: float, until: float) -> float:
        return sum(seconds for at, seconds in self.evidence.stalls if since - 1 <= at <= until + 1)

    def _is_crowded(self, since: float, until: float) -> bool:
        """Whether the machine had so much other work that nothing can be said about how long something took."""
        near = 30.0  # seconds: it is measured over a minute
        return any(crowd > CROWD for at, crowd in self.evidence.crowds if since - near <= at <= until + near)

    def recoveries(self, story: Story) -> Iterator[tuple[str, float]]:
        """How long after the end of a fault that hit more than a receiver its alarms arrived."""
        if story.target in HOSTILE or self._forgotten(story.created.answered):
            return
        for wake in story.first_tries():
            due = self._due_of(story, wake)
            for one in self.injections:
                if (
                    not only_receivers(one)
                    and one.began <= due <= one.ended + self._within(one)
                    and wake.at > one.ended
                ):
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
                if not self._asked_for_again(first, second):
                    found.append(self._duplicate(first, second))
        return found

    def _duplicate(self, first: Seen, second: Seen) -> Violation:
        fault = self._in_flight_at(first, second)
        says = (
            f"{first.fire} by {first.process} (attempt {first.attempt}) answered {first.status},"
            f" {second.at - first.at:.2f} s later by {second.process} (attempt {second.attempt}): {first.message}"
        )
        if fault is not None:
            return Violation("duplicate_in_flight", fault.kind, first.alarm, says)
        column: Column = "duplicate_in_flight" if self._outlasted_its_lease(first, second) else "duplicate_other"
        return Violation(column, self.kind_at(second.at), first.alarm, says)

    def _outlasted_its_lease(self, first: Seen, second: Seen) -> bool:
        """Whether the machine let a living worker stand still, so that it may have renewed or settled too late."""
        if self._is_crowded(first.at, second.at):
            return True
        lease = self.evidence.lease
        return second.at - first.at >= lease / 2 and self._stall(first.at, second.at) >= lease / 4

    def _in_flight_at(self, first: Seen, second: Seen) -> Injection | None:
        touched = {"store", first.process, second.process, f"receiver:{first.receiver}"}
        settled = first.answered + SETTLING + self._stall(first.at, first.answered + SETTLING)
        for one in reversed(self.injections):
            hit = touched & set(one.hits) and settled >= one.began and first.at <= one.ended + UNSETTLED
            returned = one.forgets_since is not None and one.forgets_since - SETTLING <= first.at <= one.ended
            if hit or returned:
                return one
        return None

    def _asked_for_again(self, first: Seen, second: Seen) -> bool:
        return any(
            ack.sent <= second.at
            and (ack.fire == first.fire if ack.verb == "report" else first.at - SETTLING <= ack.answered)
            for ack in self.again[first.alarm]
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
        # A receiver that could not go on may read late what was sent before, and given up by its sender.
        after = [w for w in story.wakes if ack.answered + self._stall(ack.answered, w.at) < w.at < until]
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
        for ack in story.reports:
            if ack.known != "ok":
                continue
            held = [fire for fire in self.fires[story.id] if _same(fire.scheduled, story.scheduled_of(ack.fire))]
            now = held[0].status if held else "not there"
            if (
                now not in ENDS[ack.outcome]
                and not self._changed_since(story, ack, now)
                and not self._ran_out(ack, now)
            ):
                says = f"reported {ack.outcome} {ack.answered - story.due:.3f} s after it was due, but it is {now}"
                yield self._found("overwritten", story, ack.answered, says)
            elif ack.outcome == "snooze" and self._never_came_again(story, ack):
                yield self._found(
                    "lost", story, ack.answered, "snoozed by its target, and no further fire is on record"
                )

    def _ran_out(self, ack: Ack, now: str) -> bool:
        """Whether the time that "working" asked for is over, by the clock that decides: then silence is silence."""
        if now != "timed_out" or ack.lasts is None:
            return False
        wrong = [abs(one.skew) for one in self.injections if self.evidence.store.startswith("sqlite")]
        return ack.sent + ack.lasts <= self.evidence.read_at + max([0.0, *wrong])

    def _never_came_again(self, story: Story, ack: Ack) -> bool:
        """An alarm that is still active comes, or is found as stuck."""
        since = story.scheduled_of(ack.fire) + 0.002
        return self.rows[story.id].status != "active" and all(f.scheduled <= since for f in self.fires[story.id])

    def _changed_since(self, story: Story, ack: Ack, now: str) -> bool:
        """Whether the fire stands as a later report left it, or another try came after this one."""
        if ack.outcome in FINAL:
            return False
        later = [a for a in story.reports if a.fire == ack.fire and a.answered >= ack.answered and a is not ack]
        tried = any(wake.fire == ack.fire and wake.at > ack.sent for wake in story.wakes)
        return tried or any(now in ENDS[a.outcome] for a in later)

    def _accounts(self, story: Story) -> Iterator[Violation]:
        """Every due instant has a row that says what became of it."""
        if self._rolled_back(story):
            return
        is_over = self.rows[story.id].status != "active"
        until = self.evidence.read_at - (0.0 if is_over else self.over + PUNCTUAL)
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

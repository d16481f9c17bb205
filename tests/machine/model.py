"""What must be true of an alarm whatever happens to it, written down apart from the code that makes it true.

The model decides nothing. It remembers what was asked and what was answered, and complains when the store's rows do not
fit: two live leases, an occurrence fired again, an instant nobody can account for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct, field

from wakeful.model.alarm import Alarm, Fire
from wakeful.schedule import schedule

LEASE = timedelta(minutes=2)
DELIVERIES_WITHOUT_AN_ANSWER = 4  # one among others, three alone; after that it is settled instead
_OPEN = ("retrying", "waiting")


class Span(Struct):
    """A time an alarm had one schedule: from its making or an edit, to the next edit or its cancelling."""

    alarm: Alarm
    since: datetime
    until: datetime | None = None

    def instants(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """By the schedule's own word, not by the code that plans with it."""
        end = min(end, self.until) if self.until else end
        if self.alarm.kind == "once":
            assert self.alarm.fire_at is not None
            if start < self.alarm.fire_at <= end:
                yield self.alarm.fire_at
            return
        policy = self.alarm.policy
        rhythm = schedule(self.alarm.cron_expr, self.alarm.timezone, anchor=policy.anchor)
        moment = rhythm.after(max(start, self.since))
        while moment is not None and moment <= end and not (policy.ends_at and moment > policy.ends_at):
            if policy.starts_at is None or moment >= policy.starts_at:
                yield moment
            moment = rhythm.after(moment)


class Lease(Struct):
    claim: int
    since: datetime

    def live(self, now: datetime) -> bool:
        return now < self.since + LEASE and self.since <= now + LEASE  # one from further ahead is none


class Known(Struct):
    """What is known of one alarm, and its rows as they were last seen."""

    alarm: Alarm
    spans: list[Span]
    fires: dict[datetime, Fire] = field(default_factory=dict)
    lease: Lease | None = None
    last_claim: int = 0
    unanswered: int = 0  # deliveries since it was last settled or taken back
    cancelled: bool = False
    ended: set[datetime] = field(default_factory=set)  # occurrences that are over and may not fire again
    excused: set[datetime] = field(
        default_factory=set
    )  # instants that need no row: the series was over, or it is purged
    overtaken: set[datetime] = field(default_factory=set)  # rows about a future that an edit has changed

    # What happens

    def claimed(self, alarm: Alarm, now: datetime) -> None:
        assert not self.cancelled, "E4: claimed after its cancelling was acknowledged"
        assert self.alarm.next_fire_at <= now, "F3: claimed early"
        assert self.lease is None or not self.lease.live(now), "L1: two live leases"
        assert alarm.claim > self.last_claim, "L2: a claim's number was given twice"
        self.lease, self.last_claim = Lease(alarm.claim, now), alarm.claim

    def delivering(self, alarm: Alarm, fire: Fire | None, now: datetime) -> None:
        assert alarm.occurrence_at not in self.ended, f"F4: {alarm.occurrence_at} fires again"
        self.unanswered += 1
        is_enough = self.unanswered > DELIVERIES_WITHOUT_AN_ANSWER
        assert not is_enough, "I3: an alarm that kills its workers is delivered for ever"
        known = self.fires.get(alarm.occurrence_at)
        assert fire == known, "a row of this fire that the worker did not look for"
        tried = known is not None and known.attempts > 0
        assert tried or now >= alarm.occurrence_at, "F3: delivered early"  # a retry is, where the clock was set back

    def holds(self, claim: int) -> bool:
        return self.lease is not None and self.lease.claim == claim

    def settled(self, *, tried: bool = True) -> None:
        """Its worker has answered, or handed it back untried."""
        self.lease = None
        self.unanswered = 0 if tried else max(0, self.unanswered - 1)

    def taken_back(self) -> None:
        """Its owner changed when it fires, or whether: no lease and no count survives that."""
        self.lease, self.unanswered = None, 0

    def planned_anew(self, alarm: Alarm, now: datetime) -> None:
        """Its owner gave it another time."""
        if self.spans[-1].until is None:
            self.spans[-1].until = now
        self.spans.append(Span(alarm, now))
        self.cancelled = False
        ahead = {at for at, fire in self.fires.items() if (fire.through or at) > now}
        self.overtaken |= ahead
        self.ended -= {at for at in ahead if at > now}

    def reopened(self, occurrence: datetime) -> None:
        """Somebody asked for this fire again: by a reported failure, a snooze, or by hand."""
        self.ended.discard(occurrence)

    def time_passes(self, start: datetime, end: datetime) -> None:
        alarm = self.alarm
        last = alarm.policy.max_fires is not None and alarm.fire_count + 1 >= alarm.policy.max_fires
        for moment in self.spans[-1].instants(start, end):
            if alarm.finished or (last and moment > alarm.occurrence_at):
                self.excused.add(moment)

    def purged(self, gone: Fire) -> None:
        assert gone.status not in _OPEN, "a fire without an end was purged"
        assert gone.report_by is None, "a fire whose report is awaited was purged"
        through = gone.through or gone.scheduled_for
        for span in self.spans:
            self.excused |= set(span.instants(gone.scheduled_for - timedelta(milliseconds=1), through))
        self.ended.add(gone.scheduled_for)

    # What always holds

    def seen(self, alarm: Alarm, fires: Mapping[datetime, Fire], now: datetime) -> None:
        """Compare the rows with what they were and what they must be."""
        self._check_history(fires)
        self.alarm, self.fires = alarm, dict(fires)
        self._check_lease()
        self._check_rows()
        self._check_instants(now)
        for at, fire in fires.items():
            worked_on = at == alarm.occurrence_at and not alarm.finished
            if not worked_on and fire.status not in _OPEN and at not in self.overtaken:
                self.ended.add(at)

    def _check_lease(self) -> None:
        alarm, lease = self.alarm, self.lease
        held = None if alarm.claimed_at is None else Lease(alarm.claim, alarm.claimed_at)
        assert held == lease, f"L1: the row is leased by {held}, the model knows of {lease}"
        assert not (self.cancelled and alarm.status != "cancelled"), "E4: a cancelled alarm came back"
        waits = any(fire.status == "waiting" for fire in self.fires.values())
        assert not (self.cancelled and waits), "E4: the wake of a cancelled alarm waits in the inbox"

    def _check_history(self, fires: Mapping[datetime, Fire]) -> None:
        for at, before in self.fires.items():
            now = fires.get(at)
            assert now is not None or at in self.excused, f"F1: the fire of {at} is gone"
            if now is None or now.status == before.status or at in self.overtaken or at not in self.ended:
                continue
            # A wake that was fetched from the inbox without a report waits there again.
            assert now.status not in _OPEN or before.status == "delivered", f"F4: {at} had ended {before.status}"
            if before.status != "skipped":
                assert now.status != "skipped", f"F1: {at} was {before.status}, now it was never tried"

    def _check_rows(self) -> None:
        rows = [fire for at, fire in sorted(self.fires.items()) if at not in self.overtaken]
        for one, other in pairwise(rows):
            assert (one.through or one.scheduled_for) < other.scheduled_for, "F1: two rows for one instant"

    def _check_instants(self, now: datetime) -> None:
        alarm = self.alarm
        runs = [(fire.scheduled_for, fire.through) for fire in self.fires.values() if fire.through is not None]
        for span in self.spans:
            for moment in span.instants(span.since, now):
                if moment in self.fires or moment in self.excused or any(a <= moment <= b for a, b in runs):
                    continue
                assert span is self.spans[-1], f"F1: {moment} of an older schedule was forgotten"
                assert not alarm.finished, f"F1: {moment} was forgotten when the alarm ended"
                # Being worked on, or behind what is: decided when that is settled, or when the pause ends.
                assert moment == alarm.occurrence_at or moment > alarm.next_fire_at, f"F1: {moment} was forgotten"

"""Whatever happens to an alarm, in whatever order: every due instant is accounted for, once, and nothing is early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import Struct

from tests.acting import edit
from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.model.alarm import Alarm, Policy
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Report, Snoozed, Try, Waiting
from wakeful.rules.backoff import backoff, fraction, spread
from wakeful.rules.edit import replace_with, update
from wakeful.rules.plan import following
from wakeful.rules.settle import begin, release, settle
from wakeful.schedule import schedule

from .world import LEASE, MINUTE, MONDAY, SECOND, World, alarm

CRONS = ["@every 10m", "*/15 * * * *", "0 * * * *", "@every 45s"]

WAITS = [timedelta(seconds=s) for s in (1, 10, 35, 90, 130, 400, 900, 1800, 4000, 9000)]
SPELLS = [timedelta(seconds=s) for s in (0, 0, 0, 1, 50, 700, 4000)]
OUTCOMES: list[Outcome] = [Delivered(), Delivered(awaits_report=True), Completed("ok"), Waiting(), Failed("no")]
OUTCOMES += [
    Failed("no"),
    Failed("gone", retryable=False),
    Failed("busy", retry_after=600.0),
    *map(Snoozed, WAITS[4:7]),
]
REPORTS = [Report("completed"), Report("failed"), Report("failed"), Report("working")]
REPORTS += [Report("snooze", wait=wait) for wait in WAITS[3:7]]
POLICY: dict[str, list[Any]] = {
    "backoff_base": [30.0, 5.0],
    "catch_up": ["one", "one", "skip"],
    "expires": [None, None, None, 100.0, 2000.0],
    "overlap": ["skip", "allow"],
    "report_within": [None, None, 60.0, 2000.0],
    "starts_at": [None, None, MONDAY + 20 * MINUTE],
    "ends_at": [None, None, None, MONDAY + 400 * MINUTE],
    "max_fires": [None, None, None, None, 1, 3],
    "jitter": [0.0, 0.0, 40.0, 5000.0],
    "auto_pause_after": [None, None, 2],
}

waits, spells = st.sampled_from(WAITS), st.sampled_from(SPELLS)
outcomes, reports = st.sampled_from(OUTCOMES), st.sampled_from(REPORTS)
policies = st.builds(Policy, **{name: st.sampled_from(values) for name, values in POLICY.items()})


class Span(Struct):
    """A time an alarm had one schedule: from its making or an edit, to the next edit or its cancelling."""

    alarm: Alarm
    since: datetime
    until: datetime | None = None

    def instants(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """By the schedule's own word, not by the code under test."""
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


class Life(RuleBasedStateMachine):
    """One alarm, its workers, its owner and its target, and a clock that only goes forward."""

    @initialize(
        cron=st.sampled_from([*CRONS, ""]), policy=policies, max_failures=st.sampled_from([0, 1, 5]), wait=waits
    )
    def made(self, cron: str, policy: Policy, max_failures: int, wait: timedelta) -> None:
        when = {"cron_expr": cron} if cron else {"delay": wait}
        self.world = World(alarm(policy=policy, max_failures=max_failures, **when))
        self.now = MONDAY
        self.flights: list[tuple[Alarm, datetime]] = []
        self.spans = [Span(self.world.alarm, self.now)]
        self.excused: set[datetime] = set()  # after the last fire a series is allowed, or after its end
        self.overtaken: set[datetime] = set()  # rows about a future that an edit has changed
        self.ended: set[datetime] = set()

    # The world goes on

    @rule(by=waits)
    def time_passes(self, by: timedelta) -> None:
        alarm = self.world.alarm
        last = alarm.policy.max_fires is not None and alarm.fire_count + 1 >= alarm.policy.max_fires
        for moment in self.spans[-1].instants(self.now, self.now + by):
            if alarm.finished or (last and moment != alarm.occurrence_at):
                self.excused.add(moment)
        self.now += by

    @precondition(lambda self: self.world.alarm.status == "active")
    @rule()
    def it_is_due(self) -> None:
        self.time_passes(max(SECOND, self.world.alarm.next_fire_at - self.now))

    @precondition(lambda self: self.claimable())
    @rule()
    def a_worker_claims_it(self) -> None:
        alarm = self.world.claim(self.now)
        known = self.world.fire
        instead = begin(alarm, known if alarm.may_have_fire else None, now=self.now)
        if instead is not None:
            assert self.world.write(instead)
            return
        assert alarm.may_have_fire or known is None, "a row the worker would not have looked for"
        assert alarm.occurrence_at not in self.ended, "delivered again after its end"
        self.flights.append((alarm, self.now))

    @precondition(lambda self: self.world.alarm.status == "active" and not self.flights)
    @rule(late=spells, took=spells, outcome=outcomes)
    def an_occurrence_is_worked_on(self, late: timedelta, took: timedelta, outcome: Outcome) -> None:
        """The usual course of things in one step, so that a run of forty gets far."""
        self.time_passes(max(timedelta(0), self.world.alarm.next_fire_at - self.now) + late)
        if self.claimable():
            self.a_worker_claims_it()
        if self.flights:
            self.time_passes(took)
            self.an_attempt_comes_back(outcome, 0)

    @precondition(lambda self: self.flights)
    @rule(outcome=outcomes, which=st.integers(0, 3))
    def an_attempt_comes_back(self, outcome: Outcome, which: int) -> None:
        held, started = self.flights.pop(which % len(self.flights))
        before = self.world.alarm
        if before.claim != held.claim:
            self.world.note(held, outcome, started, self.now)
            return
        change = settle(before, self.world.fire, outcome, Try(started, self.now))
        assert self.world.write(change)
        after = change.after
        again = after.occurrence_at == before.occurrence_at or change.fires[0].status == "snoozed"
        if before.kind == "cron" and not again:
            upcoming = following(after, max(self.now, before.occurrence_at))
            assert after.status == "fired" if upcoming is None else after.occurrence_at == upcoming > self.now

    @precondition(lambda self: self.flights)
    @rule(untried=st.booleans())
    def a_worker_stops_or_dies(self, untried: bool) -> None:
        held, _ = self.flights.pop()
        if untried and self.world.alarm.claim == held.claim:
            assert self.world.write(release(self.world.alarm, now=self.now))

    @rule(said=reports, which=st.integers(0, 5))
    def the_target_reports(self, said: Report, which: int) -> None:
        known = sorted({*self.world.fires, self.world.alarm.occurrence_at})
        self.tried(lambda: self.world.report(known[-1 - which % len(known)], said, self.now))

    @rule()
    def the_sweep_comes_by(self) -> None:
        for occurrence, fire in list(self.world.fires.items()):
            if fire.report_by is not None and fire.report_by < self.now:
                self.world.sweep(occurrence, self.now)

    @rule()
    def the_inbox_is_fetched(self) -> None:
        for occurrence, fire in list(self.world.fires.items()):
            if fire.status == "waiting":
                self.world.fetch(occurrence, self.now)

    # The owner acts

    @rule()
    def paused(self) -> None:
        self.tried(lambda: self.world.pause(self.now))

    @rule()
    def resumed(self) -> None:
        self.tried(lambda: self.world.resume(self.now))

    @rule(wait=waits)
    def snoozed(self, wait: timedelta) -> None:
        self.tried(lambda: self.world.snooze(wait, self.now))

    @rule()
    def skipped(self) -> None:
        self.tried(lambda: self.world.skip(self.now))

    @rule(which=st.integers(0, 5))
    def retried(self, which: int) -> None:
        known = sorted(at for at, fire in self.world.fires.items() if fire.status in ("failed", "timed_out"))
        if not known:
            return
        occurrence = known[-1 - which % len(known)]
        if self.tried(lambda: self.world.retry(occurrence, self.now)):
            self.ended.discard(occurrence)

    @rule()
    def relabelled(self) -> None:
        self.tried(lambda: self.world.update(self.now, label="another"))

    @rule(cron=st.sampled_from([*CRONS, ""]), wait=waits, replaced=st.booleans(), sure=st.integers(0, 3))
    def given_another_time(self, cron: str, wait: timedelta, replaced: bool, sure: int) -> None:
        if sure and not self.world.alarm.finished:
            return
        when = {"cron_expr": cron} if cron else {"delay": wait}
        world, inbox = self.world, tuple(self.world.fires.values())
        try:
            if replaced:
                fresh = alarm(now=self.now, policy=Policy(overlap=world.alarm.policy.overlap), **when)
                change = replace_with(world.alarm, world.fire, fresh, now=self.now, inbox=inbox)
            else:
                change = update(world.alarm, world.fire, edit(**when), now=self.now, inbox=inbox)
        except (Conflict, InvalidRequest):
            return
        if self.spans[-1].until is None:
            self.spans[-1].until = self.now
        assert world.write(change)
        self.spans.append(Span(world.alarm, self.now))
        future = {at for at, fire in world.fires.items() if (fire.through or at) > self.now}
        self.overtaken |= future

    @rule(sure=st.integers(0, 19))
    def cancelled(self, sure: int) -> None:
        if sure == 0 and self.world.cancel(self.now):
            self.spans[-1].until = self.now

    def tried(self, act: Callable[[], object]) -> bool:
        try:
            return act() is not False
        except (Conflict, NotFound, InvalidRequest):
            return False

    def check(self) -> None:
        self.nothing_is_early()
        self.no_two_rows_claim_the_same_instant()
        self.every_due_instant_is_accounted_for()
        self.what_waits_is_not_on_record_as_done()
        self.what_ended_stays_ended()
        self.an_alarm_that_fires_ever_after_has_a_moment_to_do_so()

    def claimable(self) -> bool:
        alarm = self.world.alarm
        free = alarm.claimed_at is None or alarm.claimed_at <= self.now - LEASE
        return alarm.status == "active" and alarm.next_fire_at <= self.now and free

    # What always holds

    @invariant()
    def nothing_is_early(self) -> None:
        alarm = self.world.alarm
        assert alarm.next_fire_at >= alarm.occurrence_at

    @invariant()
    def no_two_rows_claim_the_same_instant(self) -> None:
        rows = [fire for at, fire in sorted(self.world.fires.items()) if at not in self.overtaken]
        for one, other in pairwise(rows):
            assert (one.through or one.scheduled_for) < other.scheduled_for

    @invariant()
    def every_due_instant_is_accounted_for(self) -> None:
        alarm, fires = self.world.alarm, self.world.fires
        runs = [(fire.scheduled_for, fire.through) for fire in fires.values() if fire.through is not None]
        limit = alarm.policy.max_fires
        if limit is not None and alarm.fire_count + (not alarm.finished) >= limit:
            self.excused.update(self.spans[-1].instants(alarm.occurrence_at, self.now))
        for span in self.spans:
            for moment in span.instants(span.since, self.now):
                if moment in fires or moment in self.excused or any(a <= moment <= b for a, b in runs):
                    continue
                assert span is self.spans[-1], f"{moment} of an older schedule was forgotten"
                assert not alarm.finished, f"{moment} was forgotten when the alarm ended"
                # Being worked on, or behind what is: decided when that is settled, or when the pause ends.
                assert moment == alarm.occurrence_at or moment > alarm.next_fire_at, f"{moment} was forgotten"

    @invariant()
    def what_waits_is_not_on_record_as_done(self) -> None:
        alarm, fire = self.world.alarm, self.world.fire
        if alarm.finished or fire is None or fire.scheduled_for in self.overtaken:
            return
        reported = fire.completed_at is not None
        assert reported or fire.status in ("retrying", "delivered", "timed_out")

    @invariant()
    def what_ended_stays_ended(self) -> None:
        alarm = self.world.alarm
        for at, fire in self.world.fires.items():
            worked_on = at == alarm.occurrence_at and not alarm.finished
            if fire.status == "delivered" or at in self.overtaken:
                self.ended.discard(at)  # a worker that had lost it brought it back, or an edit brought back its instant
            elif at in self.ended:
                assert fire.status in ("completed", "failed", "skipped")
            elif fire.status in ("completed", "failed", "skipped") and not worked_on:
                self.ended.add(at)

    @invariant()
    def an_alarm_that_fires_ever_after_has_a_moment_to_do_so(self) -> None:
        alarm = self.world.alarm
        if alarm.status == "active":
            assert alarm.claimed_at is None or alarm.unsettled > 0
        if self.flights and alarm.claimed_at is None:
            assert all(held.claim != alarm.claim for held, _ in self.flights), "a spent claim still counts"


Life.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLife = Life.TestCase


LEFT: dict[str, set[tuple[str, str]]] = {
    "report": {("fired", "active"), ("fired", "failed")},
    "retry": {("fired", "active"), ("failed", "active")},
}


class Terminal(Life):
    """The same life, watching who takes an alarm out of its end."""

    def tried(self, act: Callable[[], object]) -> bool:
        before = self.world.alarm
        done = super().tried(act)
        after = self.world.alarm
        if before.finished and after.status != before.status:
            allowed = LEFT["retry"] | LEFT["report"]
            assert (before.status, after.status) in allowed
            if before.status == "failed":
                assert self.world.events[-1].what == "retried"
        return done

    @invariant()
    def nothing_else_leaves_an_end(self) -> None:
        assert self.world.alarm.status != "cancelled" or self.world.alarm.cancelled_at is not None


Terminal.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTerminal = Terminal.TestCase


@given(st.integers(0, 10_000), st.floats(0, 1e6), st.floats(0, 1e6), st.text())
def test_a_wait_stays_between_its_rung_and_a_tenth_more(failures: int, base: float, cap: float, key: str) -> None:
    wait = backoff(failures, base=base, cap=cap)
    assert timedelta(0) <= wait <= timedelta(seconds=cap)
    assert wait <= spread(wait, key) <= wait * 1.1 + timedelta(microseconds=1)
    assert 0 <= fraction(key) < 1
    assert spread(wait, key) == spread(wait, key)


@given(st.sampled_from(CRONS), policies, st.integers(0, 10_000))
def test_the_next_occurrence_is_the_schedules_own_answer(cron: str, policy: Policy, minutes: int) -> None:
    made = alarm(cron_expr=cron, policy=policy)
    moment = MONDAY + timedelta(minutes=minutes)
    found = following(made, moment)
    expected = next(Span(made, MONDAY).instants(moment, moment + timedelta(hours=12)), None)
    assert found == expected
    assert found is None or found > moment


def test_the_ladder_of_the_seed() -> None:
    assert [backoff(failures).total_seconds() for failures in range(8)] == [30, 60, 120, 240, 480, 900, 900, 900]

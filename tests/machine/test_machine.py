"""Alarms on a real store, their workers, owners and targets, and a clock that also goes back: whatever the order, the
promises hold. The same machine runs on both stores.

WAKEFUL_TEST_MACHINE_EXAMPLES asks for a longer search, anew each time; without it the examples are the
same in every run, and there are more of them with --long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from tests.acting import edit
from wakeful.model.alarm import Alarm, Change, Fire, Policy
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome, Report, Snoozed
from wakeful.rules.edit import cancel, pause, replace_with, resume, skip_next, snooze, update
from wakeful.rules.report import fetch, report, retry, sweep
from wakeful.rules.settle import release
from wakeful.rules.signalling import signalled
from wakeful.rules.signals import Signal
from wakeful.store import Claim
from wakeful.testing.manual_clock import NEW_YEAR

from .acting import OWNER, Acting
from .house import House, postgres_house, sqlite_house
from .model import LEASE, Known, Lease, Span

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
PHASES = (Phase.generate,) if os.environ.get("WAKEFUL_TEST_MUTANT") else tuple(Phase)  # found is found
EXAMPLES = int(os.environ.get("WAKEFUL_TEST_MACHINE_EXAMPLES", "0"))
ALWAYS_THE_SAME = int(os.environ.get("WAKEFUL_TEST_MACHINE_SAME_EXAMPLES", "40"))  # 150 with --long

times = st.sampled_from(["", "", "@every 10m", "*/15 * * * *", "0 * * * *"])
waits = st.sampled_from([1, 10, 35, 90, 130, 400, 900, 1800, 4000, 9000]).map(lambda s: timedelta(seconds=s))
which = st.integers(0, 7)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.sampled_from([Delivered(), Delivered(awaits_report=True), Completed("ok"), Failed("no"), Failed("no")]),
    st.sampled_from([Failed("gone", retryable=False), Failed("busy", retry_after=600.0)]),
    waits.map(Snoozed),
)
reports = st.one_of(
    st.sampled_from([Report("completed"), Report("failed"), Report("working")]),
    waits.map(lambda wait: Report("snooze", wait=wait)),
)
policies = st.builds(
    Policy,
    backoff_base=st.sampled_from([30.0, 5.0]),
    catch_up=st.sampled_from(["one", "one", "skip"]),
    expires=st.sampled_from([None, None, None, 100.0, 2000.0]),
    overlap=st.sampled_from(["skip", "allow"]),
    report_within=st.sampled_from([None, None, 60.0, 2000.0]),
    ends_at=st.sampled_from([None, None, None, NEW_YEAR + 400 * MINUTE]),
    max_fires=st.sampled_from([None, None, None, 1, 3]),
    jitter=st.sampled_from([0.0, 0.0, 40.0]),
    auto_pause_after=st.sampled_from([None, None, 2]),
)


class Alarms(Acting):
    # Time

    @rule(by=waits)
    def time_passes(self, by: timedelta) -> None:
        for known in self.known.values():
            known.time_passes(self.now, self.now + by)
        self.house.do(self.clock.advance(by))

    @rule()
    def the_next_one_is_due(self) -> None:
        due = [known.alarm.next_fire_at for known in self.known.values() if known.alarm.status == "active"]
        self.time_passes(max(SECOND, min(due, default=self.now) - self.now))

    @rule(by=waits)
    def the_clock_is_set_back(self, by: timedelta) -> None:
        self.clock.set_back(by)

    # Workers

    @rule(slots=st.sampled_from([1, 100, 100]))
    def a_worker_claims(self, slots: int) -> None:
        self.claim(slots)

    @precondition(lambda self: self.flights)
    @rule(outcome=outcomes, nr=which)
    def an_attempt_comes_back(self, outcome: Outcome, nr: int) -> None:
        self.land(self.flights.pop(nr % len(self.flights)), outcome)

    @rule(outcome=outcomes, again=outcomes)
    def a_lease_runs_out_and_both_workers_come_back(self, outcome: Outcome, again: Outcome) -> None:
        self.the_next_one_is_due()
        first = self.claim(100)
        self.look()
        self.time_passes(LEASE)
        second = {flight.alarm.id: flight for flight in self.claim(100)}
        self.look()
        for flight in first:
            if flight.alarm.id in second:
                self.write_the_old_decision(flight, outcome)
                self.land(flight, outcome)
                self.look()
                self.land(second[flight.alarm.id], again)
                self.look()
        self.flights = [flight for flight in self.flights if flight.alarm.id not in second]

    @rule(outcome=outcomes, back=waits, later=waits)
    def an_attempt_ends_before_it_began(self, outcome: Outcome, back: timedelta, later: timedelta) -> None:
        self.the_next_one_is_due()
        flights = self.claim(100)
        self.look()
        self.clock.set_back(back)
        for flight in flights:
            self.flights.remove(flight)
            self.land(flight, outcome)
            self.look()
        self.time_passes(later)
        self.claim(100)

    @rule(outcome=outcomes)
    def an_edit_comes_in_between(self, outcome: Outcome) -> None:
        self.the_next_one_is_due()
        for flight in self.claim(100):
            self.look()
            self.relabel(self.known[flight.alarm.id])
            self.look()
            self.write_the_old_decision(flight, outcome)
            self.flights.remove(flight)
            self.land(flight, outcome)

    @rule(deaths=st.integers(1, 5))
    def workers_die_one_after_the_other(self, deaths: int) -> None:
        self.the_next_one_is_due()
        for _ in range(deaths):
            self.claim(100)
            self.flights.clear()
            self.look()
            self.time_passes(LEASE)

    @precondition(lambda self: self.flights)
    @rule(outcome=outcomes, nr=which)
    def an_old_decision_is_written(self, outcome: Outcome, nr: int) -> None:
        self.write_the_old_decision(self.flights[nr % len(self.flights)], outcome)

    @precondition(lambda self: self.flights)
    @rule(nr=which, wait=st.one_of(st.just(timedelta(0)), waits))
    def a_worker_hands_back(self, nr: int, wait: timedelta) -> None:
        flight = self.flights.pop(nr % len(self.flights))
        holds = self.known[flight.alarm.id].holds(flight.alarm.claim)
        flight.change = release(flight.alarm, now=self.now, wait=wait)
        self.write(flight)
        if holds:
            self.known[flight.alarm.id].settled(tried=False)

    @precondition(lambda self: self.flights)
    @rule()
    def a_worker_renews(self) -> None:
        mine = {Claim(flight.alarm.id, flight.alarm.claim) for flight in self.flights}
        lost = set(self.house.do(self.store.renew(sorted(mine, key=lambda one: (one.id, one.claim)))))
        for claim in mine:
            known = self.known[claim.id]
            holds = known.holds(claim.claim) and known.alarm.status == "active"
            assert holds is (claim not in lost), "L1: a lease was kept or lost wrongly"
            if holds:
                known.lease = Lease(claim.claim, self.now)

    @precondition(lambda self: self.flights)
    @rule()
    def the_workers_die(self) -> None:
        self.flights.clear()

    @rule()
    def silence_is_swept(self) -> None:
        for alarm, fire in self.house.do(self.store.overdue(limit=100)):
            assert fire.report_by is not None
            assert fire.report_by <= self.now, "swept early"
            self.house.do(self.store.settle([sweep(alarm, fire, now=self.now)]))
        assert self.house.do(self.store.overdue(limit=100)) == []

    # Targets

    @precondition(lambda self: self.known)
    @rule(said=reports, nr=which, fire=which)
    def the_target_reports(self, said: Report, nr: int, fire: int) -> None:
        known = self.pick(nr)
        occurrences = sorted({*known.fires, known.alarm.occurrence_at})
        occurrence = occurrences[-1 - fire % len(occurrences)]

        def decide(alarm: Alarm, fire: Fire | None, now: datetime) -> Change | None:
            return report(alarm, fire, occurrence, said, now=now)

        change = self.change(known, decide, occurrence)
        if change is not None and change.fires[0].status == "retrying":
            known.reopened(occurrence)
        if change is not None and said.outcome in ("completed", "failed") and change.fires[0].status == said.outcome:
            assert self.change(known, decide, occurrence) is None, "E5: the same report counted twice"

    @rule()
    def the_inbox_is_fetched(self) -> None:
        for alarm, fire in self.house.do(self.store.waiting(OWNER, limit=100)):
            [answer] = self.house.do(self.store.settle([fetch(alarm, fire, now=self.now)]))
            assert answer.what in ("applied", "edited")  # the same alarm may have two waiting

    # Owners

    @rule(
        cron=times, wait=waits, policy=policies, retries=st.sampled_from([0, 1, 5]), key=st.sampled_from(["", "", "k"])
    )
    def set(self, cron: str, wait: timedelta, policy: Policy, retries: int, key: str) -> None:
        fresh = self.drawn(cron, wait, policy=policy, max_failures=retries, idempotency_key=key)
        if fresh is None:
            return
        [added] = self.house.do(self.store.add([fresh]))
        assert added.deduped is (key in self.keys), "D2: one alarm per key"
        if added.deduped:
            assert added.alarm == self.known[self.keys[key]].alarm
            return
        self.known[fresh.id] = Known(fresh, [Span(fresh, self.now)])
        if key:
            self.keys[key] = fresh.id

    @rule(cron=times, wait=waits)
    def set_again_under_its_key(self, cron: str, wait: timedelta) -> None:
        fresh = self.drawn(cron, wait, idempotency_key="k")
        if fresh is None or "k" not in self.keys:
            return
        [added] = self.house.do(self.store.add([fresh]))
        known = self.known[added.alarm.id]
        rows = tuple(known.fires.values())
        self.planned_anew(known, lambda alarm, fire, now: replace_with(alarm, fire, fresh, now=now, inbox=rows))

    @precondition(lambda self: self.known)
    @rule(cron=times, wait=waits, nr=which)
    def given_another_time(self, cron: str, wait: timedelta, nr: int) -> None:
        wanted = edit(cron_expr=cron) if cron else edit(delay=wait)
        known = self.pick(nr)
        rows = tuple(known.fires.values())
        self.planned_anew(known, lambda alarm, fire, now: update(alarm, fire, wanted, now=now, inbox=rows))

    @precondition(lambda self: self.known)
    @rule(nr=which)
    def relabelled(self, nr: int) -> None:
        self.relabel(self.pick(nr))

    @precondition(lambda self: self.known)
    @rule(nr=which)
    def paused(self, nr: int) -> None:
        self.owned(self.pick(nr), lambda alarm, _, now: pause(alarm, now=now))

    @precondition(lambda self: self.known)
    @rule(nr=which)
    def resumed(self, nr: int) -> None:
        self.owned(self.pick(nr), lambda alarm, fire, now: resume(alarm, fire, now=now))

    @precondition(lambda self: self.known)
    @rule(nr=which, wait=waits)
    def snoozed(self, nr: int, wait: timedelta) -> None:
        self.owned(self.pick(nr), lambda alarm, fire, now: snooze(alarm, fire, wait, now=now))

    @precondition(lambda self: self.known)
    @rule(nr=which)
    def signal_sent(self, nr: int) -> None:
        known, fires = self.pick(nr), self.rows()[1]

        def fired(alarm: Alarm, fire: Fire | None, now: datetime) -> Change | None:
            waiting = replace(alarm, policy=replace(alarm.policy, or_when="go"))
            return signalled(waiting, fire, Signal(name="go"), now=now, fired_at=fires.get(alarm.id, ()))

        change = self.planned_anew if known.alarm.kind == "once" else self.owned
        change(known, fired)

    @precondition(lambda self: self.known)
    @rule(nr=which)
    def skipped(self, nr: int) -> None:
        self.owned(self.pick(nr), lambda alarm, fire, now: skip_next(alarm, fire, now=now, lease=LEASE))

    @precondition(lambda self: self.known)
    @rule(nr=which)
    def cancelled(self, nr: int) -> None:
        known = self.pick(nr)
        rows = tuple(known.fires.values())
        if self.owned(known, lambda alarm, fire, now: cancel(alarm, fire, now=now, inbox=rows)) is not None:
            known.cancelled = True
            known.spans[-1].until = known.spans[-1].until or self.now

    @precondition(lambda self: self.known)
    @rule(nr=which, fire=which)
    def retried(self, nr: int, fire: int) -> None:
        known = self.pick(nr)
        failed = sorted(at for at, one in known.fires.items() if one.status in ("failed", "timed_out"))
        if not failed:
            return
        occurrence = failed[-1 - fire % len(failed)]

        def decide(alarm: Alarm, fire: Fire | None, now: datetime) -> Change:
            assert fire is not None
            return retry(alarm, fire, now=now)

        if self.change(known, decide, occurrence) is not None:
            known.reopened(occurrence)

    @rule()
    def what_is_old_is_purged(self) -> None:
        self.house.do(self.store.maintenance.purge(self.now - DAY))
        alarms, fires = self.rows()
        for id, known in list(self.known.items()):
            for at, fire in known.fires.items():
                if at not in fires.get(id, {}):
                    assert fire.updated_at < self.now - DAY, "purged before its time"
                    known.purged(fire)
            if id not in alarms:
                assert known.alarm.finished, "D1: an unfinished alarm was purged"
                assert known.alarm.updated_at < self.now - DAY, "purged before its time"
                del self.known[id]
                self.keys = {key: owner for key, owner in self.keys.items() if owner != id}


@pytest.fixture(params=["sqlite", "postgres"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    if request.param == "sqlite":
        with sqlite_house(tmp_path) as house:
            yield house
    else:
        with postgres_house() as house:
            yield house


def test_the_promises_hold_in_whatever_order_things_happen(house: House) -> None:
    run_state_machine_as_test(
        lambda: Alarms(house),  # type: ignore[arg-type]  # any maker of machines will do
        settings=settings(
            max_examples=EXAMPLES or ALWAYS_THE_SAME,
            stateful_step_count=30,
            deadline=None,
            database=None,
            phases=PHASES,
            derandomize=EXAMPLES == 0,
            print_blob=EXAMPLES > 0,
            suppress_health_check=list(HealthCheck),
        ),
    )

"""Alarms on a real store, their workers, owners and targets, and a clock that also goes back: whatever the order, the
promises hold. The same machine runs on both stores.

WAKEFUL_MACHINE_EXAMPLES asks for a longer search, anew each time; without it the examples are the same in every run.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from wakeful.alarm import (
    INBOX,
    Alarm,
    Change,
    Completed,
    Delivered,
    Draft,
    Edit,
    Failed,
    Fire,
    Outcome,
    Policy,
    Report,
    Snoozed,
    Try,
    Waiting,
    begin,
    cancel,
    create,
    fetch,
    pause,
    release,
    replace_with,
    report,
    resume,
    retry,
    settle,
    snooze,
    sweep,
    update,
)
from wakeful.dispatcher.flights import Flight
from wakeful.dispatcher.settler import Settler
from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.store import AlarmQuery, Claim, FireQuery
from wakeful.testing.clock import NEW_YEAR

from .house import House, postgres_house, sqlite_house
from .model import LEASE, Known, Lease, Span

OWNER, DESK = "ada", "desk"
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
PHASES = (Phase.generate,) if os.environ.get("WAKEFUL_MUTANT") else tuple(Phase)  # found is found
EXAMPLES = int(os.environ.get("WAKEFUL_MACHINE_EXAMPLES", "0"))

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


class Alarms(RuleBasedStateMachine):
    def __init__(self, house: House) -> None:
        super().__init__()
        house.begin()
        self.house = house
        self.store, self.clock = house.store, house.clock
        self.known: dict[str, Known] = {}
        self.keys: dict[str, str] = {}
        self.flights: list[Flight] = []
        self.numbers = itertools.count(1)

    @property
    def now(self) -> datetime:
        return self.clock.now()

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
    @rule(nr=which)
    def a_worker_hands_back(self, nr: int) -> None:
        flight = self.flights.pop(nr % len(self.flights))
        holds = self.known[flight.alarm.id].holds(flight.alarm.claim)
        flight.change = release(flight.alarm, now=self.now)
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
        self.planned_anew(known, lambda alarm, fire, now: replace_with(alarm, fire, fresh, now=now))

    @precondition(lambda self: self.known)
    @rule(cron=times, wait=waits, nr=which)
    def given_another_time(self, cron: str, wait: timedelta, nr: int) -> None:
        edit = Edit(cron_expr=cron) if cron else Edit(delay=wait)
        self.planned_anew(self.pick(nr), lambda alarm, fire, now: update(alarm, fire, edit, now=now))

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
    def cancelled(self, nr: int) -> None:
        known = self.pick(nr)
        if self.owned(known, lambda alarm, fire, now: cancel(alarm, fire, now=now)) is not None:
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
        self.house.do(self.store.purge(self.now - DAY))
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

    # How it is done

    def pick(self, nr: int) -> Known:
        ids = sorted(self.known)
        return self.known[ids[nr % len(ids)]]

    def drawn(self, cron: str, wait: timedelta, **asked: Any) -> Alarm | None:
        id = f"01900000-0000-7000-8000-{next(self.numbers):012x}"
        target = INBOX if int(id[-1], 16) % 4 == 0 else DESK
        when: dict[str, Any] = {"cron_expr": cron} if cron else {"delay": wait}
        try:
            return create(
                Draft(owner_did=OWNER, wake_message="up", target=target, **when, **asked), id=id, now=self.now
            )
        except InvalidRequest:  # after its end already
            return None

    def claim(self, slots: int) -> list[Flight]:
        now = self.now
        due = {id for id, known in self.known.items() if self.is_due(known, now)}
        claimed = self.house.do(self.store.claim({DESK: slots, INBOX: slots}, lease=LEASE))
        assert claimed.now == now
        ids = {alarm.id for alarm in claimed.alarms}
        assert ids <= due
        assert slots < len(due) or ids == due, "an alarm that is due was not claimed"
        keys = [(alarm.id, alarm.occurrence_at) for alarm in claimed.alarms if alarm.may_have_fire]
        fires = self.house.do(self.store.fires_at(keys)) if keys else {}
        taken = [self.start(alarm, fires.get((alarm.id, alarm.occurrence_at))) for alarm in claimed.alarms]
        started = [flight for flight in taken if flight is not None]
        self.flights += started
        return started

    def is_due(self, known: Known, now: datetime) -> bool:
        leased = known.lease is not None and known.lease.live(now)
        return known.alarm.status == "active" and known.alarm.next_fire_at <= now and not leased

    def start(self, alarm: Alarm, fire: Fire | None) -> Flight | None:
        known = self.known[alarm.id]
        known.claimed(alarm, self.now)
        instead = begin(alarm, fire, now=self.now)
        if instead is None:
            known.delivering(alarm, fire, self.now)
            return Flight(alarm, fire, started=self.now)
        [answer] = self.house.do(self.store.settle([instead]))
        assert answer.what == "applied"
        known.settled()
        return None

    def land(self, flight: Flight, outcome: Outcome) -> None:
        """As the dispatcher does it, second thoughts included."""
        known = self.known.get(flight.alarm.id)
        if known is None:
            return  # finished and purged meanwhile
        holds = known.holds(flight.alarm.claim)
        assert flight.started is not None
        flight.outcome = Waiting() if flight.alarm.target == INBOX else outcome
        flight.attempt = Try(flight.started, self.now)
        flight.change = settle(flight.alarm, flight.fire, flight.outcome, flight.attempt)
        before = self.stored(flight.alarm.id)
        self.write(flight)
        if holds:
            known.settled()
        else:
            assert moves(self.stored(flight.alarm.id)) == moves(before), "L2: a stale settlement moved the alarm"

    def write(self, flight: Flight) -> None:
        landed: list[Flight] = []

        async def written() -> None:
            settler = Settler(self.store, self.clock, landed.append)
            settler.add(flight)
            running = asyncio.create_task(settler.run())
            await settler.idle()
            running.cancel()

        self.house.do(written())
        assert landed == [flight]

    def write_the_old_decision(self, flight: Flight, outcome: Outcome) -> None:
        """What a worker that knows nothing of second thoughts would write: it must change nothing."""
        known = self.known.get(flight.alarm.id)
        if known is None or (known.alarm.claim, known.alarm.version) == (flight.alarm.claim, flight.alarm.version):
            return
        before = self.rows()
        change = settle(flight.alarm, flight.fire, outcome, Try(self.now, self.now))
        [answer] = self.house.do(self.store.settle([change]))
        assert answer.what == ("edited" if known.alarm.claim == flight.alarm.claim else "lost"), "L2: by an old claim"
        assert self.rows() == before, "L2: a stale settlement changed something"

    def change(
        self,
        known: Known,
        decide: Callable[[Alarm, Fire | None, datetime], Change | None],
        occurrence: datetime | None = None,
    ) -> Change | None:
        alarm = self.stored(known.alarm.id)
        key = (alarm.id, occurrence or alarm.occurrence_at)
        fire = self.house.do(self.store.fires_at([key])).get(key)
        try:
            change = decide(alarm, fire, self.now)
        except (Conflict, NotFound, InvalidRequest):
            return None
        if change is not None:
            [answer] = self.house.do(self.store.settle([change]))
            assert answer.what == "applied"
        return change

    def relabel(self, known: Known) -> None:
        self.change(known, lambda alarm, fire, now: update(alarm, fire, Edit(label="other"), now=now))

    def owned(self, known: Known, decide: Callable[[Alarm, Fire | None, datetime], Change | None]) -> Change | None:
        change = self.change(known, decide)
        if change is not None:
            known.taken_back()
        return change

    def planned_anew(self, known: Known, decide: Callable[[Alarm, Fire | None, datetime], Change | None]) -> None:
        change = self.owned(known, decide)
        if change is not None:
            alarms, fires = self.rows()
            known.fires = fires.get(known.alarm.id, {})
            known.planned_anew(alarms[known.alarm.id], self.now)

    def stored(self, id: str) -> Alarm:
        alarm = self.house.do(self.store.get(id))
        assert alarm is not None, "D1: an alarm is gone"
        return alarm

    def rows(self) -> tuple[dict[str, Alarm], dict[str, dict[datetime, Fire]]]:
        alarms = {alarm.id: alarm for alarm in self.house.do(self.store.find(AlarmQuery(limit=1000)))}
        fires: dict[str, dict[datetime, Fire]] = {}
        for fire in self.house.do(self.store.fires(FireQuery(limit=10_000))):
            fires.setdefault(fire.alarm_id, {})[fire.scheduled_for] = fire
        return alarms, fires

    # What always holds

    @invariant()
    def look(self) -> None:
        alarms, fires = self.rows()
        assert set(alarms) == set(self.known), "D1: what was acknowledged is there, and nothing else"
        keys = [alarm.idempotency_key for alarm in alarms.values() if alarm.idempotency_key]
        assert len(keys) == len(set(keys)), "D2: one alarm per key"
        for id, known in self.known.items():
            known.seen(alarms[id], fires.get(id, {}), self.now)


def moves(alarm: Alarm) -> tuple[Any, ...]:
    """All that decides when and whether an alarm fires."""
    return (
        *(alarm.status, alarm.next_fire_at, alarm.occurrence_at, alarm.claim, alarm.claimed_at, alarm.unsettled),
        *(alarm.failure_count, alarm.fire_count, alarm.awaiting),
    )


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
            max_examples=EXAMPLES or 150,
            stateful_step_count=30,
            deadline=None,
            database=None,
            phases=PHASES,
            derandomize=EXAMPLES == 0,
            print_blob=EXAMPLES > 0,
            suppress_health_check=list(HealthCheck),
        ),
    )

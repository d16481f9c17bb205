"""How things are done to alarms on a real store, each as the dispatcher, the service or a target's report does it.

The rules in `test_machine.py` say what happens; here the model is told of it, and the store's answers are compared.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from tests.acting import Draft, edit
from wakeful.dispatcher.flights import Flight
from wakeful.dispatcher.settler import Settler
from wakeful.dispatcher.sql_tasks import SqlTasks
from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.model.alarm import INBOX, Alarm, Change, Fire
from wakeful.model.outcome import Outcome, Try, Waiting
from wakeful.rules.edit import update
from wakeful.rules.settle import begin, settle
from wakeful.rules.suspect import is_alone, put_on_trial
from wakeful.runtime.metrics import Metrics
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, FireQuery

from .house import House
from .model import LEASE, Known

OWNER, DESK = "ada", "desk"
Decision = Callable[[Alarm, Fire | None, datetime], Change | None]


class Acting(RuleBasedStateMachine):
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

    def pick(self, nr: int) -> Known:
        ids = sorted(self.known)
        return self.known[ids[nr % len(ids)]]

    def drawn(self, cron: str, wait: timedelta, **asked: Any) -> Alarm | None:
        id = f"01900000-0000-7000-8000-{next(self.numbers):012x}"
        target = INBOX if int(id[-1], 16) % 4 == 0 else DESK
        when: dict[str, Any] = {"cron_expr": cron} if cron else {"delay": wait}
        try:
            draft = Draft(owner_did=OWNER, wake_message="up", target=target, **when, **asked)
            return draft.alarm(id=id, now=self.now)
        except InvalidRequest:  # after its end already
            return None

    def claim(self, slots: int) -> list[Flight]:
        """As long as there is something: what killed a group comes one at a time."""
        claimed, flights = self.claim_once(slots)
        while claimed and slots > 1:
            self.look()
            claimed, more = self.claim_once(slots)
            flights += more
        return flights

    def claim_once(self, slots: int) -> tuple[int, list[Flight]]:
        now = self.now
        due = {id for id, known in self.known.items() if self.is_due(known, now)}
        claimed = self.house.do(self.store.claim({DESK: slots, INBOX: slots}, lease=LEASE))
        assert claimed.now == now
        ids = {alarm.id for alarm in claimed.alarms}
        alone = {id for id in due if self.known[id].alarm.unsettled > 1}
        group = {id for id in due if self.known[id].alarm.unsettled == 1}
        assert ids <= due
        assert slots < len(due) or ids >= due - alone, "an alarm that is due was not claimed"
        assert not (ids & alone and ids & group), "one that is to be tried alone came with a group"
        assert len(ids & alone) <= 1, "two that are to be tried alone"
        assert slots < len(due) or group or len(ids & alone) == bool(alone), "a suspect was left lying"
        keys = [(alarm.id, alarm.occurrence_at) for alarm in claimed.alarms if alarm.may_have_fire]
        fires = self.house.do(self.store.fires_at(keys)) if keys else {}
        taken = [self.start(alarm, fires.get((alarm.id, alarm.occurrence_at))) for alarm in claimed.alarms]
        started = [flight for flight in taken if flight is not None]
        self.flights += started
        return len(ids), started

    def is_due(self, known: Known, now: datetime) -> bool:
        leased = known.lease is not None and known.lease.live(now)
        return known.alarm.status == "active" and known.alarm.next_fire_at <= now and not leased

    def start(self, alarm: Alarm, fire: Fire | None) -> Flight | None:
        known = self.known[alarm.id]
        known.claimed(alarm, self.now)
        instead = begin(alarm, fire, now=self.now)
        if instead is None:
            if is_alone(alarm):
                [answer] = self.house.do(self.store.settle([put_on_trial(alarm)]))
                assert answer.what == "applied"
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
            metrics = Metrics()
            settings = Settings()
            features = (SqlTasks(self.store, settings, metrics),)
            settler = Settler(self.store, self.clock, landed.append, metrics, features, tick=settings.tick)
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
        decide: Decision,
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
        self.change(known, lambda alarm, fire, now: update(alarm, fire, edit(label="other"), now=now))

    def owned(self, known: Known, decide: Decision) -> Change | None:
        change = self.change(known, decide)
        if change is not None:
            known.taken_back()
        return change

    def planned_anew(self, known: Known, decide: Decision) -> None:
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

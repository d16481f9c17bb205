"""The simulator's checker: each of its rules fails when its promise is broken, and none without that."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.model.alarm import Alarm, Change, Fire, Policy
from wakeful.model.outcome import Completed, Delivered, Outcome, Report
from wakeful.rules.report import report
from wakeful.rules.wake import Wake
from wakeful.service import Changed
from wakeful.store import Claimed, Settled
from wakeful.testing.manual_clock import NEW_YEAR
from wakeful.testing.simulation.checker import Checker, KnownAlarm, Operation

ID = "01900000-0000-7000-8000-000000000001"
SECOND = timedelta(seconds=1)
ONE, OTHER = "one process", "another process"


class House:
    """A checker and the little it looks at; each verb is what a sound system does."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.alarms: dict[str, Alarm] = {}
        self.fires: dict[tuple[str, datetime], Fire] = {}
        self.checker = Checker(now=self.now, passed=lambda: self.passed, alarms=self.alarms, fires=self.fires)
        self.known = self.checker.known[0] = KnownAlarm(0, owner="ann", words={"hello"}, key="k")
        self.alarm = Alarm(
            id=ID,
            owner_did="ann",
            user_id="ann",
            idempotency_key="k",
            wake_message="hello",
            target="steady",
            next_fire_at=NEW_YEAR + SECOND,
            occurrence_at=NEW_YEAR + SECOND,
            created_at=NEW_YEAR,
            updated_at=NEW_YEAR,
        )
        self.alarms[ID] = self.alarm
        self.checker.created(self.known, ID)
        self.passed = 1.0

    def now(self) -> datetime:
        return NEW_YEAR + timedelta(seconds=self.passed)

    @property
    def row(self) -> Alarm:
        return self.alarms[ID]

    def put(self, **fields: object) -> Alarm:
        self.alarms[ID] = replace(self.row, **fields)
        return self.row

    def claim(self, process: object = ONE) -> Alarm:
        before = {ID: self.row}
        claimed = self.put(claim=self.row.claim + 1, claimed_at=self.now(), unsettled=self.row.unsettled + 1)
        self.checker.claims(process, Claimed([claimed], self.now()), before, {})
        return claimed

    def start(self, process: object = ONE, outcome: Outcome | None = None) -> None:
        attempt = self.checker.starts(process, Wake(self.row, secret=b"k"))
        if outcome is not None:
            self.checker.ends(attempt, outcome)

    def settle(self, status: str = "delivered", *, process: object = ONE, version: int = 0, **fields: object) -> None:
        fire = Fire(
            alarm_id=ID,
            scheduled_for=self.row.occurrence_at,
            owner_did="ann",
            target=self.row.target,
            status=status,  # type: ignore[arg-type]
            attempts=1,
            updated_at=self.now(),
        )
        fire = replace(fire, **fields)
        before, fires = {ID: self.row}, dict(self.fires)
        after = replace(
            self.row, claim=self.row.claim + 1, claimed_at=None, unsettled=0, version=self.row.version + version
        )
        change = Change(claim=self.row.claim, version=self.row.version, after=after, fires=(fire,))
        self.alarms[ID] = after
        self.fires[ID, fire.scheduled_for] = fire
        self.checker.settles(process, None, [change], [Settled("applied")], before, fires)

    def ask(self, what: str, *, in_flight: bool = False, status: str = "", message: str = "") -> None:
        operation = Operation(what, self.passed, 0, alarm=0, fire_id=self.row.fire_id, message=message)
        self.checker.asks(operation)
        self.passed += 0.01
        answer = Changed(replace(self.row, status=status or self.row.status), in_flight)
        self.checker.answered(operation, answer)

    @property
    def broken(self) -> str:
        return self.checker.broken.promise if self.checker.broken is not None else ""


def lost_row(house: House) -> None:
    house.alarms.clear()
    house.checker.at_the_end()


def completed_twice(house: House) -> None:
    house.settle("completed")
    house.settle("delivered")


def overwritten(house: House) -> None:
    house.claim()
    house.settle("completed", version=1)
    house.ask("completed")
    house.fires.clear()
    house.settle("timed_out")


def two_of_a_key(house: House) -> None:
    house.alarms["other"] = replace(house.row, id="other")
    house.checker.created(house.known, "other")


def early(house: House) -> None:
    house.passed = 0.5
    house.put(claim=1)
    house.start()


def claimed_early(house: House) -> None:
    house.passed = 0.5
    house.claim()


def leased_twice(house: House) -> None:
    house.claim()
    house.claim(OTHER)


def stale(house: House) -> None:
    change = Change(claim=7, version=1, after=house.row)
    house.checker.settles(ONE, None, [change], [Settled("applied")], {ID: house.row}, {})


def sent_again(house: House) -> None:
    house.passed = 30.0
    house.claim()
    house.start(outcome=Delivered())
    house.settle("delivered")
    house.put(status="active")
    house.claim()
    house.start()


def sent_twice_at_once(house: House) -> None:
    house.passed = 30.0
    house.claim()
    house.start(outcome=Delivered())
    house.start()


def other_body(house: House) -> None:
    house.checker.starts(ONE, Wake(house.row, secret=b"k"))
    house.checker.died(ONE)
    house.checker.starts(OTHER, Wake(replace(house.row, label="other"), secret=b"k"))


def after_cancel(house: House) -> None:
    house.ask("cancel", status="cancelled")
    house.start()


def twice_after_cancel(house: House) -> None:
    house.ask("cancel", status="cancelled", in_flight=True)
    house.start()
    house.checker.died(ONE)
    house.start(OTHER)


def old_words(house: House) -> None:
    house.ask("reword", message="new words")
    house.start()


def over_budget(house: House) -> None:
    for second in (1, 2):
        house.passed = float(second)
        at = NEW_YEAR + second * SECOND
        house.put(policy=Policy(wakes_per_hour=1), next_fire_at=at, occurrence_at=at)
        house.start(outcome=Completed())


def blamed(house: House) -> None:
    house.settle("failed", reason="worker died")


def late(house: House) -> None:
    for half in range(40):
        house.passed = 1.0 + half / 2
        house.checker.check(serving=lambda _: True, settling=60.0)


def late_after_a_clock_step(house: House) -> None:
    house.passed = 50.0
    house.checker.clock_was_set(of_store=False)
    for half in range(6):
        house.passed = 50.0 + half / 2
        house.checker.check(serving=lambda _: True, settling=60.0)


def leased_to_nobody(house: House) -> None:
    request = object()
    house.put(target="inbox")
    house.settle("waiting")
    before, fires = {ID: house.row}, dict(house.fires)
    given = replace(house.fires[ID, house.row.occurrence_at], status="delivered")
    change = Change(claim=house.row.claim, version=house.row.version, after=house.row, fires=(given,))
    house.fires[ID, given.scheduled_for] = given
    house.checker.settles(ONE, request, [change], [Settled("applied")], before, fires)
    house.checker.gone(request)


def series(house: House, **policy: Any) -> Alarm:
    """An alarm every 10 s, the first of which is due after a second."""
    anchor = NEW_YEAR - 9 * SECOND
    return house.put(kind="cron", cron_expr="@every 10s", policy=Policy(anchor=anchor, **policy))


def change(house: House, asked: str = "", *fires: Fire, version: int = 0, **fields: object) -> None:
    """A change takes effect: of a worker, or of what a client asks."""
    before, known = {ID: house.row}, dict(house.fires)
    after = replace(house.row, **({"claim": house.row.claim + 1, "updated_at": house.now()} | fields))
    after = replace(after, version=house.row.version + (version or bool(asked)))
    written = Change(claim=house.row.claim, version=house.row.version, after=after, fires=fires)
    house.alarms[ID] = after
    house.fires |= {(fire.alarm_id, fire.scheduled_for): fire for fire in fires}
    request = Operation(asked, house.passed, 0, alarm=0) if asked else None
    house.checker.settles(ONE, request, [written], [Settled("applied")], before, known)


def fire_of(house: House, status: str, **fields: object) -> Fire:
    row = house.row
    return Fire(
        alarm_id=ID,
        scheduled_for=row.occurrence_at,
        owner_did="ann",
        target=row.target,
        status=status,  # type: ignore[arg-type]
        updated_at=house.now(),
        **fields,  # type: ignore[arg-type]
    )


def no_row(house: House) -> None:
    change(house, status="fired")


def off_the_schedule(house: House) -> None:
    at = series(house).occurrence_at + 5 * SECOND
    change(house, "", fire_of(house, "delivered", attempts=1), occurrence_at=at, next_fire_at=at)


def passed_in_silence(house: House) -> None:
    at = series(house).occurrence_at + 30 * SECOND
    house.passed = 25.0
    change(house, "", fire_of(house, "delivered", attempts=1), occurrence_at=at, next_fire_at=at)


def left_in_silence(house: House) -> None:
    change(house, "move", occurrence_at=NEW_YEAR + 60 * SECOND, next_fire_at=NEW_YEAR + 60 * SECOND)


def retried_too_soon(house: House) -> None:
    fire = fire_of(house, "retrying", attempts=1, failures=1)
    change(house, "", fire, failure_count=1, next_fire_at=house.now() + SECOND)


def retried_once_too_often(house: House) -> None:
    house.put(max_failures=0)
    fire = fire_of(house, "retrying", attempts=1, failures=1)
    change(house, "", fire, failure_count=1, next_fire_at=house.now() + 40 * SECOND)


def retried_past_the_next_occurrence(house: House) -> None:
    series(house)
    fire = fire_of(house, "retrying", attempts=1, failures=1)
    change(house, "", fire, failure_count=1, next_fire_at=house.now() + 40 * SECOND)


def held_back_for_another(house: House) -> None:
    house.claim()
    change(house, claimed_at=None, next_fire_at=house.now() + 5 * SECOND, unsettled=0)


def not_taken_back(house: House) -> None:
    change(house, "cancel", claim=house.row.claim, status="cancelled")


def skipped_in_flight(house: House) -> None:
    series(house)
    house.claim()
    at = house.row.occurrence_at + 10 * SECOND
    change(house, "skip", fire_of(house, "skipped"), occurrence_at=at, next_fire_at=at, claimed_at=None)


def reported_twice(house: House) -> None:
    house.fires[ID, house.row.occurrence_at] = fire_of(house, "failed", completed_at=house.now())
    change(house, "report completed", fire_of(house, "completed", completed_at=house.now()))


def edited_more_than_named(house: House) -> None:
    house.put(policy=Policy(exact_backoff=True))
    change(house, "policy", policy=Policy(catch_up="skip"))


def paused_and_heard(house: House) -> None:
    house.put(status="paused", policy=Policy(or_when="go"))
    change(house, "signal", status="active")


def broken_off(house: House) -> None:
    attempt = house.checker.starts(ONE, Wake(house.row, secret=b"k"))
    house.checker.aborted(attempt, is_stopping=False)


def not_sent_within_its_budget(house: House) -> None:
    house.put(policy=Policy(wakes_per_hour=2))
    change(house, "", fire_of(house, "skipped", reason="budget"), status="failed")


BREAKS: list[tuple[str, Callable[[House], None]]] = [
    ("D1", lost_row),
    ("D1", completed_twice),
    ("E5", overwritten),
    ("D2", two_of_a_key),
    ("F3", early),
    ("F3", claimed_early),
    ("L1", leased_twice),
    ("L2", stale),
    ("E1", sent_again),
    ("E1", sent_twice_at_once),
    ("E3", other_body),
    ("E4", after_cancel),
    ("E4", twice_after_cancel),
    ("E4", old_words),
    ("I7", over_budget),
    ("I3", blamed),
    ("I9", late),
    ("F4", late_after_a_clock_step),
    ("W1", leased_to_nobody),
    ("F1", no_row),
    ("F2", off_the_schedule),
    ("F1", passed_in_silence),
    ("F1", left_in_silence),
    ("E6", retried_too_soon),
    ("E6", retried_once_too_often),
    ("F2", retried_past_the_next_occurrence),
    ("I6", held_back_for_another),
    ("L2", not_taken_back),
    ("F1", skipped_in_flight),
    ("E5", reported_twice),
    ("A1", edited_more_than_named),
    ("A1", paused_and_heard),
    ("E1", broken_off),
    ("I7", not_sent_within_its_budget),
]


@pytest.mark.parametrize(("promise", "breaks"), BREAKS, ids=[breaks.__name__ for _, breaks in BREAKS])
def test_a_broken_promise_is_named(promise: str, breaks: Callable[[House], None]) -> None:
    house = House()
    breaks(house)
    assert house.broken == promise, house.checker.broken


def test_a_wake_that_goes_well_breaks_nothing() -> None:
    house = House()
    house.claim()
    house.start(outcome=Delivered())
    house.settle("delivered")
    house.put(status="fired")
    said = report(
        house.row, house.fires[ID, NEW_YEAR + SECOND], NEW_YEAR + SECOND, Report("completed"), now=house.now()
    )
    assert said is not None
    house.settle("completed", version=1)
    house.ask("completed")
    house.passed = 60.0
    house.checker.check(serving=lambda _: True, settling=60.0)
    house.checker.at_the_end()
    assert not house.broken


def test_after_a_fault_a_wake_may_come_twice() -> None:
    house = House()
    house.claim()
    house.start(outcome=Delivered())
    house.checker.died(ONE)
    house.passed = 7.0
    house.claim(OTHER)
    house.start(OTHER)
    assert not house.broken


def test_an_attempt_that_the_change_before_told_of_may_start_once_after_a_cancel() -> None:
    house = House()
    house.claim()
    house.ask("move", in_flight=True)
    house.passed += 0.01
    house.ask("cancel", status="cancelled")
    house.start(outcome=Delivered())
    assert house.checker.broken is None
    house.start()
    assert [house.broken] == ["E4"]

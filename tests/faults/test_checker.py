"""The judge of the fault runs finds every kind of broken promise that is planted before it, and no others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from .checker import ALLOWED, CALM, COLUMNS, judge, worst
from .records import Ack, AlarmRow, Evidence, FireRow, Injection, Seen

DUE = 1_000_100.0
KILL = Injection(kind="kill worker", store="sqlite", began=DUE - 0.1, ended=DUE + 0.2, hits=("worker-1",))
LATER = Injection(kind="kill it later", store="sqlite", began=DUE + 60, ended=DUE + 60.2, hits=("worker-1",))


def ack(verb: Any = "create", **more: Any) -> Ack:
    given: dict[str, Any] = {"n": 1, "alarm": "a", "sent": DUE - 5, "answered": DUE - 4.9, "target": "honest"}
    if verb == "create":
        given |= {"message": "n1 v1", "due": DUE}
    return Ack(verb=verb, **(given | more))


def wake(**more: Any) -> Seen:
    given: dict[str, Any] = {"at": DUE + 0.05, "answered": DUE + 0.06, "status": 200, "attempt": 1, "alarm": "a"}
    given |= {"fire": f"a@{int(DUE * 1000)}", "message": "n1 v1", "scheduled": DUE, "receiver": "honest"}
    return Seen(**(given | {"process": "worker-1"} | more))


def row(**more: Any) -> AlarmRow:
    given: dict[str, Any] = {"id": "a", "status": "fired", "next_fire_at": DUE, "target": "honest", "message": "n1 v1"}
    return AlarmRow(**(given | more))


def fire(**more: Any) -> FireRow:
    given: dict[str, Any] = {"alarm": "a", "scheduled": DUE, "status": "delivered"}
    return FireRow(**(given | more))


def evidence(**more: Any) -> Evidence:
    given: dict[str, Any] = {"acks": [ack()], "wakes": [wake()], "alarms": [row()], "fires": [fire()]}
    given |= {"store": "sqlite", "injections": [], "lease": 4.0, "tick": 0.2, "read_at": DUE + 100}
    return Evidence(**(given | more))


def report(outcome: str, **more: Any) -> Ack:
    given: dict[str, Any] = {"outcome": outcome, "fire": wake().fire, "sent": DUE + 1, "answered": DUE + 1.1}
    return ack("report", **(given | more))


def columns(found: Evidence) -> list[str]:
    return sorted(one.column for one in judge(found).violations)


def test_an_alarm_that_came_once_and_in_time_breaks_nothing() -> None:
    verdict = judge(evidence())
    assert verdict.violations == []
    assert verdict.alarms == {CALM: 1}


PLANTED: list[tuple[str, Evidence]] = [
    ("lost", evidence(alarms=[])),
    ("lost", evidence(wakes=[], fires=[])),
    ("lost", evidence(wakes=[], fires=[], alarms=[row(status="failed", last_error="worker died")])),
    ("stuck", evidence(wakes=[], fires=[], alarms=[row(status="active")])),
    ("stuck", evidence(alarms=[row(status="active")])),
    ("early", evidence(wakes=[wake(at=DUE - 0.05, answered=DUE - 0.04)])),
    ("late", evidence(wakes=[wake(at=DUE + 2.5, answered=DUE + 2.6)])),
    ("late", evidence(wakes=[wake(at=DUE + 9, answered=DUE + 9)], injections=[KILL])),
    ("very_late", evidence(wakes=[wake(at=DUE + 33, answered=DUE + 33)])),
    ("very_late", evidence(wakes=[wake(at=DUE + 36.5, answered=DUE + 37)], injections=[KILL])),
    ("duplicate_other", evidence(wakes=[wake(), wake(at=DUE + 5, answered=DUE + 5.1)])),
    ("duplicate_other", evidence(wakes=[wake(), wake(at=DUE + 62, answered=DUE + 62)], injections=[LATER])),
    ("duplicate_in_flight", evidence(wakes=[wake(), wake(at=DUE + 4.3, answered=DUE + 4.4)], injections=[KILL])),
    ("after_cancel", evidence(acks=[ack(), ack("cancel", in_flight=False)], alarms=[row(status="cancelled")])),
    ("after_cancel", evidence(acks=[ack(), ack("pause")], alarms=[row(status="paused")])),
    ("after_edit", evidence(acks=[ack(), ack("edit", message="n1 v2", due=DUE)])),
    ("after_edit", evidence(acks=[ack(), ack("edit", due=DUE + 3)])),
    ("overwritten", evidence(acks=[ack(), report("completed")], fires=[fire()])),
    ("overwritten", evidence(acks=[ack(), report("completed")], fires=[fire(status="timed_out")])),
    ("overwritten", evidence(acks=[ack(), report("failed")], fires=[fire()])),
    ("overwritten", evidence(acks=[ack(), report("working")], fires=[fire(status="timed_out")])),
    ("overwritten", evidence(acks=[ack(), report("working", lasts=99.5)], fires=[fire(status="timed_out")])),
    ("overwritten", evidence(acks=[ack(), report("working", lasts=9.0)], fires=[fire(status="completed")])),
    ("overwritten", evidence(acks=[ack(), report("snooze")], fires=[fire(), fire(scheduled=DUE + 4)])),
    ("lost", evidence(acks=[ack(), report("snooze")], fires=[fire(status="snoozed")])),
    ("wrong_status", evidence(alarms=[row(status="failed", last_error="worker died")])),
    ("wrong_status", evidence(wakes=[], fires=[], acks=[ack(), ack("cancel", in_flight=False)])),
    ("unaccounted", evidence(fires=[])),
]


@pytest.mark.parametrize(("column", "planted"), PLANTED, ids=[f"{i} {name}" for i, (name, _) in enumerate(PLANTED)])
def test_what_is_planted_is_found(column: str, planted: Evidence) -> None:
    assert columns(planted) == [column]


def test_every_column_has_something_planted() -> None:
    assert {column for column, _ in PLANTED} == set(COLUMNS)
    assert {"duplicate_in_flight", "late"} == ALLOWED


def test_a_fault_that_hit_another_process_excuses_no_duplicate() -> None:
    twice = [wake(process="worker-2"), wake(at=DUE + 4.3, answered=DUE + 4.4, process="worker-2")]
    assert columns(evidence(wakes=twice, injections=[KILL])) == ["duplicate_other"]
    at_the_store = replace(KILL, hits=("store",))
    assert columns(evidence(wakes=twice, injections=[at_the_store])) == ["duplicate_in_flight"]


def test_a_hostile_receiver_excuses_nobody_elses_lateness() -> None:
    slow = evidence(wakes=[wake(at=DUE + 3, answered=DUE + 3)], injections=[replace(KILL, hits=("receiver:hang",))])
    assert columns(slow) == ["late"]
    assert judge(slow).recovery == {}


def test_a_try_that_was_not_taken_is_no_duplicate() -> None:
    assert columns(evidence(wakes=[wake(status=500), wake(at=DUE + 1, answered=DUE + 1, attempt=2)])) == []


def test_a_cancel_that_said_in_flight_allows_one_attempt_and_no_second() -> None:
    cancelled = {"acks": [ack(), ack("cancel", in_flight=True)], "alarms": [row(status="cancelled")]}
    assert columns(evidence(**cancelled)) == []
    again = [wake(), wake(at=DUE + 1, answered=DUE + 1)]
    assert columns(evidence(**cancelled, wakes=again)) == ["after_cancel", "duplicate_other"]


def test_an_unknown_answer_leaves_both_ends_open() -> None:
    unsure = [ack(), ack("cancel", known="unknown")]
    assert columns(evidence(acks=unsure)) == []
    assert columns(evidence(acks=unsure, wakes=[], fires=[], alarms=[row(status="cancelled")])) == []
    assert columns(evidence(acks=[ack(known="unknown")], alarms=[], wakes=[], fires=[])) == []


def test_a_report_that_stands_overwrites_nothing() -> None:
    for outcome, status in (("completed", "completed"), ("failed", "failed"), ("working", "delivered")):
        assert columns(evidence(acks=[ack(), report(outcome)], fires=[fire(status=status)])) == []
    snoozed = [fire(status="snoozed"), fire(scheduled=DUE + 4)]
    assert columns(evidence(acks=[ack(), report("snooze")], fires=snoozed)) == []


def test_a_wake_that_was_worked_on_is_timed_out_when_the_time_it_asked_for_is_over() -> None:
    gone = [fire(status="timed_out")]
    assert columns(evidence(acks=[ack(), report("working", lasts=98.9)], fires=gone)) == []
    long = evidence(acks=[ack(), report("working", lasts=3600.0)], fires=gone)
    assert columns(long) == ["overwritten"]
    hour = Injection(kind="clock", store="sqlite", began=DUE + 3, ended=DUE + 9, hits=("clock:worker-1",), skew=3600)
    assert columns(replace(long, injections=[hour])) == []
    assert columns(replace(long, injections=[hour], store="postgres")) == ["overwritten"]


def test_a_snoozed_alarm_that_is_still_to_come_is_not_lost() -> None:
    asleep = {"acks": [ack(), report("snooze")], "fires": [fire(status="snoozed")]}
    ahead = Injection(kind="clock", store="sqlite", began=DUE, ended=DUE + 2, hits=("clock:serve",), skew=600)
    planned = row(status="active", next_fire_at=DUE + 604)
    assert columns(evidence(**asleep, alarms=[planned], injections=[ahead])) == []
    assert columns(evidence(**asleep, alarms=[row(status="active", next_fire_at=DUE + 4)])) == ["stuck"]


def test_a_wake_that_is_late_is_counted_and_one_that_is_very_late_breaks_a_promise() -> None:
    late, very = evidence(wakes=[wake(at=DUE + 30, answered=DUE + 30)]), evidence(wakes=[wake(at=DUE + 33)])
    assert worst([judge(late)]) == []
    assert [one.column for one in worst([judge(very)])] == ["very_late"]


def test_a_machine_that_could_not_renew_a_lease_in_time_may_send_twice() -> None:
    twice = evidence(wakes=[wake(), wake(at=DUE + 5, answered=DUE + 5.1, process="worker-2")])
    assert columns(replace(twice, stalls=[(DUE + 3, 1.0)])) == ["duplicate_in_flight"]
    assert columns(replace(twice, stalls=[(DUE + 3, 0.9)])) == ["duplicate_other"]
    assert columns(replace(twice, stalls=[(DUE + 30, 9.0)])) == ["duplicate_other"]
    at_once = evidence(wakes=[wake(), wake(at=DUE + 1, answered=DUE + 1.1, process="worker-2")])
    assert columns(replace(at_once, stalls=[(DUE + 1, 1.0)])) == ["duplicate_other"]


def test_a_machine_with_much_other_work_may_send_twice_and_very_late_and_loses_nothing() -> None:
    twice = evidence(wakes=[wake(), wake(at=DUE + 1.8, answered=DUE + 1.9, process="worker-2")])
    very_late = evidence(wakes=[wake(at=DUE + 50, answered=DUE + 50)])
    for near, far in (DUE + 20, DUE + 90), (DUE - 25, DUE - 35):
        assert columns(replace(twice, crowds=[(near, 3.1)])) == ["duplicate_in_flight"]
        assert columns(replace(twice, crowds=[(near, 2.9), (far, 9.0)])) == ["duplicate_other"]
        assert columns(replace(very_late, crowds=[(near, 3.1)])) == ["late"]
    crowded = [(DUE, 9.0)]
    for column, planted in PLANTED:
        if column not in ("duplicate_other", "very_late"):
            assert columns(replace(planted, crowds=crowded)) == [column]


def test_a_receiver_that_could_not_read_a_wake_before_a_cancel_breaks_nothing() -> None:
    cancelled = evidence(
        acks=[ack(), ack("cancel", answered=DUE + 6, sent=DUE + 5.9, in_flight=False)],
        wakes=[wake(at=DUE + 6.5, answered=DUE + 6.6)],
        alarms=[row(status="cancelled")],
    )
    assert "after_cancel" in columns(cancelled)
    assert columns(replace(cancelled, stalls=[(DUE + 6.5, 6.0)])) == []


def test_what_was_claimed_by_a_wrong_clock_may_arrive_when_it_is_right_again() -> None:
    hour = Injection(kind="clock", store="sqlite", began=DUE - 30, ended=DUE - 20, hits=("clock:worker-1",), skew=3600)
    slow = evidence(wakes=[wake(at=DUE - 12, answered=DUE - 11)], injections=[hour])
    assert columns(slow) == []
    slower = replace(slow, wakes=[wake(at=DUE - 9, answered=DUE - 8)])
    assert columns(slower) == ["early"]
    assert columns(replace(slower, crowds=[(DUE - 10, 3.1)])) == []


def test_a_failure_that_was_reported_before_the_worker_died_is_an_end() -> None:
    """The receiver had the wake and spoke of it; its answer to the delivery reached nobody."""
    dead = {"wakes": [wake(status=0)], "alarms": [row(status="failed", last_error="it could not be done")]}
    failed = fire(status="failed")
    assert columns(evidence(acks=[ack(), report("failed")], fires=[failed], **dead)) == []
    assert columns(evidence(fires=[failed], **dead)) == ["lost"]


def test_a_report_that_was_refused_or_not_answered_promises_nothing() -> None:
    for known in ("refused", "unknown"):
        assert columns(evidence(acks=[ack(), report("completed", known=known)])) == []


def test_a_later_report_or_try_may_change_a_failure_but_never_what_was_completed() -> None:
    late = report("completed", sent=DUE + 9, answered=DUE + 9.1)
    assert columns(evidence(acks=[ack(), report("failed"), late], fires=[fire(status="completed")])) == []
    again = [wake(), wake(at=DUE + 2, answered=DUE + 2.1, attempt=2)]
    assert columns(evidence(acks=[ack(), report("failed")], wakes=again)) == []
    assert "overwritten" in columns(evidence(acks=[ack(), report("completed")], wakes=again))


def test_a_reported_failure_asks_for_another_wake_of_its_own_fire_only() -> None:
    again = [wake(), wake(at=DUE + 2, answered=DUE + 2.1, attempt=2)]
    other = [ack(), report("failed", fire="a@1", known="unknown")]
    assert columns(evidence(acks=other, wakes=again)) == ["duplicate_other"]


def test_what_was_reported_as_done_need_not_come_again() -> None:
    killed = evidence(acks=[ack(), report("completed")], wakes=[], fires=[fire(status="completed")])
    assert columns(killed) == []


def test_what_held_no_lease_has_no_lease_to_recover() -> None:
    late = evidence(wakes=[wake(at=DUE + 9, answered=DUE + 9)], injections=[KILL], lease=120.0, tick=1.0)
    assert columns(late) == []
    assert columns(replace(late, injections=[replace(KILL, within=1.0)])) == ["late"]


def test_an_alarm_that_ended_undelivered_is_lost_also_just_before_the_end() -> None:
    assert columns(evidence(wakes=[], fires=[], read_at=DUE + 1)) == ["lost"]
    assert columns(evidence(wakes=[], fires=[], alarms=[row(status="active")], read_at=DUE + 1)) != ["lost"]


def test_the_load_of_a_round_is_measured() -> None:
    acks = [ack(n=n, alarm=f"a{n}", sent=DUE + n / 100) for n in range(201)]
    wakes = [wake(alarm=f"a{n}", at=DUE + n, answered=DUE + n + 2.5) for n in range(9)]
    assert judge(evidence(acks=acks, wakes=wakes)).rate == pytest.approx(100, rel=0.02)
    assert judge(evidence(acks=acks, wakes=wakes)).in_flight == 3


def test_every_instant_of_a_series_is_on_record_delivered_or_passed_over() -> None:
    series = ack(period=2.0, ends=DUE + 7)
    wakes = [wake(), wake(at=DUE + 6.1, answered=DUE + 6.2, scheduled=DUE + 6, fire=f"a@{int((DUE + 6) * 1000)}")]
    fires = [fire(), fire(scheduled=DUE + 2, through=DUE + 4, status="skipped"), fire(scheduled=DUE + 6)]
    assert columns(evidence(acks=[series], wakes=wakes, fires=fires)) == []
    assert columns(evidence(acks=[series], wakes=wakes, fires=[fires[0], fires[2]])) == ["unaccounted"] * 2


def test_a_clock_that_was_wrong_is_judged_by_the_stores_clock() -> None:
    hour = Injection(kind="clock", store="sqlite", began=DUE - 3, ended=DUE - 1, hits=("clock:worker-1",), skew=3600)
    early = evidence(wakes=[wake(at=DUE - 2, answered=DUE - 1.9)], injections=[hour])
    assert columns(early) == []
    assert columns(replace(early, store="postgres")) == ["early"]


def test_a_pause_may_come_too_late_for_a_worker_whose_clock_is_ahead() -> None:
    hour = Injection(kind="clock", store="sqlite", began=DUE - 6, ended=DUE - 1, hits=("clock:worker-1",), skew=3600)
    paused = [ack(), ack("pause"), ack("resume", sent=DUE - 2, answered=DUE - 1.9)]
    taken = evidence(acks=paused, wakes=[wake(at=DUE - 4.5, answered=DUE - 4.4)], injections=[hour])
    assert columns(taken) == []
    assert columns(replace(taken, injections=[])) == ["after_cancel", "early"]


def test_what_was_set_in_preparation_of_a_fault_belongs_to_it() -> None:
    assert judge(evidence(injections=[replace(KILL, began=DUE + 0.1)])).alarms == {CALM: 1}
    assert judge(evidence(injections=[replace(KILL, began=DUE + 0.1, since=DUE - 1)])).alarms == {KILL.kind: 1}


def test_a_retry_planned_by_a_clock_an_hour_ahead_is_not_stuck_but_one_that_is_overdue_is() -> None:
    hour = Injection(kind="clock", store="sqlite", began=DUE - 3, ended=DUE + 3, hits=("clock:worker-1",), skew=3600)
    planned = evidence(wakes=[], fires=[], alarms=[row(status="active", next_fire_at=DUE + 3601)], injections=[hour])
    assert columns(planned) == []
    assert columns(replace(planned, alarms=[row(status="active")])) == ["stuck"]
    assert columns(replace(planned, store="postgres")) == ["stuck"]
    assert columns(replace(planned, injections=[])) == ["stuck"]


def test_a_backup_takes_back_what_was_said_after_it_and_no_more() -> None:
    back = Injection(kind="restore", store="sqlite", began=DUE + 8, ended=DUE + 9, hits=("store",))
    assert columns(evidence(alarms=[], injections=[replace(back, forgets_since=DUE - 6)])) == []
    assert columns(evidence(alarms=[], injections=[replace(back, forgets_since=DUE - 1)])) == ["lost"]
    again = [wake(), wake(at=DUE + 10, answered=DUE + 10)]
    assert columns(evidence(wakes=again, injections=[replace(back, forgets_since=DUE - 1)])) == ["duplicate_in_flight"]


def test_a_machine_that_stood_still_is_not_held_against_the_alarm() -> None:
    slow = evidence(wakes=[wake(at=DUE + 2.5, answered=DUE + 2.6)])
    assert columns(replace(slow, stalls=[(DUE + 1, 1.0)])) == []


def test_one_key_that_gave_two_alarms_is_found() -> None:
    twice = [ack(key="k"), ack(key="k", alarm="b", answered=DUE - 4.5)]
    found = Counter(columns(evidence(acks=twice)))
    assert found["duplicate_other"] == 1


def test_what_a_fault_held_up_says_how_long_recovery_took() -> None:
    verdict = judge(evidence(wakes=[wake(at=DUE + 1.2, answered=DUE + 1.3)], injections=[KILL]))
    assert verdict.recovery == {"kill worker": pytest.approx(1.0, abs=0.01)}


def test_a_wake_may_be_faster_than_the_answer_to_the_resume_it_waited_for() -> None:
    paused = ack("pause", sent=DUE - 1, answered=DUE - 0.9, in_flight=False)
    resumed = ack("resume", sent=DUE + 4, answered=DUE + 4.1)
    quick = [wake(at=DUE + 4.05, answered=DUE + 4.06)]
    assert columns(evidence(acks=[ack(), paused, resumed], wakes=quick)) == []
    late = [wake(at=DUE + 7, answered=DUE + 7)]
    assert columns(evidence(acks=[ack(), paused, resumed], wakes=late)) == ["late"]


def test_a_snooze_while_a_wake_is_under_way_puts_off_the_next_one() -> None:
    snoozed = ack("snooze", sent=DUE - 1, answered=DUE + 0.03, due=DUE + 4, in_flight=True)
    under_way = wake(at=DUE + 0.08, answered=DUE + 0.09)
    again = wake(at=DUE + 4.01, answered=DUE + 4.02, scheduled=DUE + 4, fire="a1@2")
    too_soon = wake(at=DUE + 3, answered=DUE + 3.1, scheduled=DUE + 4, fire="a1@2")
    assert "early" not in columns(evidence(acks=[ack(), snoozed], wakes=[under_way, again]))
    assert "early" in columns(evidence(acks=[ack(), snoozed], wakes=[under_way, too_soon]))
    answered_before = replace(snoozed, in_flight=False)
    assert "early" in columns(evidence(acks=[ack(), answered_before], wakes=[under_way, again]))


def test_a_snooze_that_a_backup_forgot_does_not_make_a_wake_early() -> None:
    snoozed = ack("snooze", sent=DUE - 2, answered=DUE - 1.9, due=DUE + 2)
    back = Injection(
        kind="restored", store="sqlite", began=DUE - 3, ended=DUE + 3, hits=("store",), forgets_since=DUE - 3
    )
    given = {"acks": [ack(), snoozed], "wakes": [wake(at=DUE + 1.5, answered=DUE + 1.6)]}
    assert "early" in columns(evidence(**given))
    assert columns(evidence(**given, injections=[back])) == []

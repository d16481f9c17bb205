"""What follows one delivery attempt."""

from __future__ import annotations

from datetime import timedelta

import pytest

from wakeful.model.alarm import ERROR_LIMIT, INBOX, LOG_LIMIT, Policy, Row
from wakeful.model.outcome import Delivered, Failed, Outcome, Report, Snoozed, Try, Waiting
from wakeful.rules.attempts import attempt_number
from wakeful.rules.passing import quarantine
from wakeful.rules.report import report
from wakeful.rules.settle import release, settle, skip
from wakeful.rules.suspect import put_on_trial

from .world import ARRIVED, AWAITED, BROKEN, DAY, DONE, HOUR, MINUTE, World, alarm, at, hourly, once

LADDER = [30, 60, 120, 240, 480, 900, 900]


def test_the_ladder_climbs_from_30_seconds_to_15_minutes_and_its_spread_only_ever_adds() -> None:
    world = once(max_failures=7)
    for seconds in LADDER:
        world.attempt(BROKEN, took=timedelta(0))
        wait = (world.alarm.next_fire_at - world.alarm.updated_at).total_seconds()
        assert seconds <= wait <= seconds * 1.1
    assert world.alarm.status == "active"


def test_the_ladder_starts_and_ends_where_the_policy_says() -> None:
    world = once(policy=Policy(backoff_base=5, backoff_cap=12))
    waits = []
    for _ in range(3):
        world.attempt(BROKEN, took=timedelta(0))
        waits.append((world.alarm.next_fire_at - world.alarm.updated_at).total_seconds())
    assert all(low <= wait <= low * 1.1 for low, wait in zip([5, 10, 12], waits, strict=True))


def test_a_retry_keeps_the_occurrence_and_its_fire_id() -> None:
    world = once()
    first = world.alarm.fire_id
    world.attempt(BROKEN)
    assert world.alarm.fire_id == first
    assert world.alarm.next_fire_at > world.alarm.occurrence_at == at(9)
    assert world.rows == [(at(9), "retrying", "")]
    assert world.fires[at(9)].result == "RETRY: HTTP 503 (attempt 1/5)"


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_a_one_shot_is_retried_as_often_as_it_says_and_then_ends_failed(retries: int) -> None:
    world = once(max_failures=retries)
    for _ in range(retries):
        world.attempt(BROKEN)
        assert world.alarm.status == "active"
    world.attempt(Failed("HTTP 500"))
    assert (world.alarm.status, world.alarm.last_error) == ("failed", "HTTP 500")
    [fire] = world.fires.values()
    assert (fire.status, fire.reason, fire.last_error, fire.attempts) == (
        "failed",
        "exhausted",
        "HTTP 500",
        retries + 1,
    )
    assert fire.result == f"FAILED: HTTP 500 (after {retries + 1} attempts)"


@pytest.mark.parametrize(("outcome", "status"), [(ARRIVED, "delivered"), (DONE, "completed"), (Waiting(), "waiting")])
def test_a_one_shot_that_arrived_has_fired(outcome: Outcome, status: str) -> None:
    world = once()
    world.attempt(BROKEN)
    world.attempt(outcome)
    assert (world.alarm.status, world.alarm.failure_count, world.alarm.last_error) == ("fired", 0, "")
    assert (world.alarm.fire_count, world.alarm.claimed_at, world.alarm.unsettled) == (1, None, 0)
    assert world.rows == [(at(9), status, "")]
    assert world.alarm.last_fired_at == world.alarm.updated_at


def test_a_series_goes_on_with_its_schedule_not_with_now_plus() -> None:
    world = hourly()
    world.attempt(ARRIVED, at(9, 20), took=5 * MINUTE)
    assert (world.alarm.status, world.alarm.occurrence_at, world.alarm.next_fire_at) == ("active", at(10), at(10))


def test_a_series_that_runs_out_of_retries_skips_and_advances() -> None:
    world = hourly(max_failures=1)
    world.attempt(BROKEN)
    world.attempt(BROKEN)
    assert world.rows == [(at(9), "failed", "exhausted")]
    assert (world.alarm.status, world.alarm.occurrence_at, world.alarm.failure_count) == ("active", at(10), 0)
    assert world.alarm.last_error == "HTTP 503"
    world.attempt(ARRIVED)
    assert world.alarm.last_error == ""


def test_a_retry_that_would_reach_the_next_occurrence_gives_way_to_it() -> None:
    world = World(alarm(cron_expr="* * * * *"))
    world.attempt(BROKEN)
    assert world.rows == [(at(8, 1), "retrying", "")]
    world.attempt(BROKEN)
    assert world.rows == [(at(8, 1), "failed", "superseded")]
    assert world.alarm.next_fire_at == at(8, 2)


def test_a_retry_that_comes_just_when_the_next_occurrence_does_gives_way() -> None:
    world = hourly(policy=Policy(backoff_base=0, backoff_cap=0))
    world.claim(at(9))
    world.settle(Failed("busy", retry_after=HOUR.total_seconds()), at(9), at(9))
    assert world.rows == [(at(9), "failed", "superseded")]
    world = hourly(policy=Policy(backoff_base=0, backoff_cap=0))
    world.claim(at(9))
    world.settle(Failed("busy", retry_after=3599.999), at(9), at(9))
    assert world.rows == [(at(9), "retrying", "")]


def test_a_late_retry_gives_way_and_what_the_series_has_next_is_delivered_late() -> None:
    world = hourly()
    world.attempt(BROKEN, at(9))
    assert not world.attempt(ARRIVED, at(10, 30))
    assert world.rows == [(at(9), "failed", "superseded")]
    assert world.alarm.next_fire_at == at(10)
    assert world.attempt(ARRIVED, at(10, 30))
    assert world.rows[1:] == [(at(10), "delivered", "")]


def test_the_last_fire_of_a_series_is_retried_as_long_as_it_may() -> None:
    world = World(alarm(cron_expr="* * * * *", policy=Policy(max_fires=1)))
    for _ in range(5):
        world.attempt(BROKEN)
        assert world.rows == [(at(8, 1), "retrying", "")]
    world.attempt(ARRIVED)
    assert world.rows == [(at(8, 1), "delivered", "")]
    assert world.alarm.status == "fired"


def test_retry_after_is_honoured_up_to_a_day_and_never_shortens_the_ladder() -> None:
    for asked, waited in [(3600.0, HOUR), (1e12, DAY), (float("inf"), DAY)]:
        world = once()
        world.claim(at(9))
        world.settle(Failed("HTTP 429", retry_after=asked), at(9), at(9))
        assert world.alarm.next_fire_at == at(9) + waited
    world = once()
    world.attempt(Failed("HTTP 429", retry_after=1.0))
    assert world.alarm.next_fire_at >= at(9, 0, 31)


def test_a_refusal_ends_it_at_once() -> None:
    gone = Failed("HTTP 410", retryable=False)
    world = once()
    world.attempt(gone)
    assert world.alarm.status == "failed"
    assert world.rows == [(at(9), "failed", "refused")]
    series = hourly()
    series.attempt(gone)
    assert (series.alarm.status, series.alarm.next_fire_at) == ("active", at(10))


def test_an_alarm_that_kills_its_workers_is_settled_without_another_delivery() -> None:
    world = once()
    for minute in (0, 2, 4, 6, 8):
        world.dies(at(9, minute))
    assert not world.attempt(ARRIVED, at(9, 10))
    assert world.alarm.status == "failed"
    assert world.rows == [(at(9), "failed", "worker died")]
    assert world.alarm.last_error == "worker died 3 times while this alone was tried again"
    assert world.fires[at(9)].attempts == len(world.fires[at(9)].log) == 5


@pytest.mark.parametrize("alone", [0, 1, 2])
def test_only_deaths_while_an_alarm_was_alone_count_against_it(alone: int) -> None:
    """Its first worker, its group's, and any number that died between its claim and its delivery prove nothing."""
    world = once()
    for minute in range(20):
        world.claim(at(9, minute))
    for minute in range(alone):
        world.dies(at(9, 20 + minute))
    assert world.attempt(ARRIVED, at(9, 30))


def test_an_attempt_nobody_came_back_from_counts_and_is_on_record() -> None:
    world = once(max_failures=5)
    world.claim(at(9))
    lost = world.claim(at(9, 2))
    assert attempt_number(lost, None) == 2
    world.settle(BROKEN, at(9, 2), at(9, 2, 1))
    assert world.fire is not None
    assert (world.fire.attempts, world.alarm.failure_count) == (2, 1), "a dead worker is no failure of the target"
    assert [line.said for line in world.fire.log] == ["no answer: its worker died", "failed: HTTP 503"]
    world.claim(at(9, 4))
    assert attempt_number(world.alarm, world.fire) == 3
    again = world.claim(at(9, 6))
    assert attempt_number(again, world.fire) == 4
    world.settle(DONE, at(9, 6), at(9, 6, 1))
    assert world.fires[at(9)].attempts == len(world.fires[at(9)].log) == 4


def test_an_attempt_that_came_back_late_counts_once() -> None:
    world = once()
    held = world.claim(at(9))
    world.claim(at(9, 2))
    world.note(held, BROKEN, at(9), at(9, 2, 1))
    assert attempt_number(world.alarm, world.fire) == 2
    world.settle(DONE, at(9, 2), at(9, 3))
    assert world.fires[at(9)].attempts == len(world.fires[at(9)].log) == 2


def test_a_worker_that_died_before_the_inbox_had_the_wake_was_no_attempt() -> None:
    world = once(target=INBOX)
    world.claim(at(9))
    world.claim(at(9, 2))
    world.settle(Waiting(), at(9, 2), at(9, 2))
    world.fetch(at(9), at(9, 5))
    assert world.fires[at(9)].attempts == 1


def test_three_dead_workers_are_not_yet_the_alarms_fault() -> None:
    world = once()
    for minute in (0, 2, 4):
        world.dies(at(9, minute))
    assert world.attempt(ARRIVED, at(9, 6))


def test_workers_that_died_before_they_began_to_deliver_it_say_nothing_about_an_alarm() -> None:
    world = once()
    for minute in range(20):
        world.claim(at(9, minute))
    assert world.attempt(ARRIVED, at(9, 30))


def test_a_series_that_kills_its_workers_twice_running_is_paused() -> None:
    world = hourly()
    for hour, status in ((9, "active"), (10, "paused")):
        for minute in (0, 2, 4, 6, 8):
            world.dies(at(hour, minute))
        world.attempt(ARRIVED, at(hour, 10))
        assert world.alarm.status == status
        assert world.alarm.occurrence_at == at(hour + 1)
    assert "worker died" in world.alarm.paused_reason
    assert world.events[-1].what == "paused"


def test_an_alarm_handed_back_untried_counts_no_claim_against_it() -> None:
    world = once()
    for _ in range(10):
        world.claim(at(9))
        assert world.write(release(world.alarm, now=at(9)))
        assert (world.alarm.claimed_at, world.alarm.unsettled) == (None, 0)
    assert world.attempt(ARRIVED)


def test_a_suspect_handed_back_stays_one_and_its_last_delivery_does_not_count() -> None:
    world = once()
    for minute in (0, 2, 4, 5):
        world.dies(at(9, minute))
    for is_begun in (False, True) * 5:
        claimed = world.claim(at(9, 6))
        if is_begun:
            assert world.write(put_on_trial(claimed))
        assert world.write(release(claimed, now=at(9, 6)))
        assert (world.alarm.claimed_at, world.alarm.unsettled) == (None, claimed.unsettled)
    assert world.attempt(ARRIVED, at(9, 7))


def test_a_member_of_a_group_handed_back_is_retried_in_a_group_again() -> None:
    world = once()
    world.dies(at(9))
    for _ in range(10):
        claimed = world.claim(at(9, 2))
        assert claimed.unsettled == 2
        assert world.write(release(claimed, now=at(9, 2)))
        assert (world.alarm.claimed_at, world.alarm.unsettled) == (None, 1)
    assert world.attempt(ARRIVED, at(9, 3))


def test_a_claim_made_before_a_settlement_says_nothing_afterwards() -> None:
    world = hourly()
    before = world.claim(at(9))
    world.settle(ARRIVED, at(9), at(9))
    assert world.alarm.claim > before.claim
    assert world.alarm.version == before.version


def test_the_log_keeps_the_first_attempt_and_the_latest() -> None:
    world = once(max_failures=50)
    for number in range(30):
        world.attempt(Failed(f"no. {number}"))
    [fire] = world.fires.values()
    said = [line.said for line in fire.log]
    assert (len(said), fire.attempts) == (LOG_LIMIT, 30)
    assert (said[0], said[1], said[-1]) == ("failed: no. 0", "failed: no. 11", "failed: no. 29")


def test_the_first_start_is_kept_and_the_duration_runs_from_it() -> None:
    world = once()
    world.attempt(BROKEN)
    world.attempt(DONE)
    [fire] = world.fires.values()
    assert fire.started_at == at(9)
    assert fire.completed_at is not None
    assert fire.duration_ms == (fire.completed_at - at(9)) / timedelta(milliseconds=1) > 30_000


def test_an_error_without_end_is_cut() -> None:
    world = once()
    world.attempt(Failed("x" * 1_000_000))
    assert len(world.alarm.last_error) == ERROR_LIMIT
    assert len(world.fires[at(9)].log[0].said) < 600


@pytest.mark.parametrize(
    ("policy", "outcome", "report_by"),
    [
        (Policy(), ARRIVED, None),
        (Policy(), AWAITED, at(9, 5, 1)),
        (Policy(report_within=60), ARRIVED, at(9, 1, 1)),
        (Policy(report_within=60), AWAITED, at(9, 1, 1)),
    ],
)
def test_a_report_is_awaited_where_alarm_or_target_say_so(policy: Policy, outcome: Outcome, report_by: object) -> None:
    world = once(policy=policy)
    world.attempt(outcome)
    assert world.fires[at(9)].report_by == report_by
    assert world.alarm.awaiting == (at(9) if report_by else None)


def test_the_row_of_a_table_target_travels_with_the_settlement() -> None:
    row = Row("messages", {"text": "hi"}, "fire_id")
    world = once()
    world.claim(at(9))
    change = settle(world.alarm, None, Delivered(row=row), Try(at(9), at(9)))
    assert change.row is row
    assert not change.edited


def test_a_target_may_ask_for_the_wake_again_later() -> None:
    world = once()
    world.attempt(Snoozed(15 * MINUTE))
    assert world.rows == [(at(9), "snoozed", "")]
    assert (world.alarm.status, world.alarm.occurrence_at) == ("active", at(9, 15, 1))
    assert world.alarm.next_fire_at == at(9, 15, 1)
    world.attempt(ARRIVED)
    assert world.alarm.status == "fired"
    assert len(world.fires) == 2


def test_a_snooze_that_reaches_the_next_occurrence_gives_way_to_it() -> None:
    world = hourly()
    world.attempt(Snoozed(timedelta(minutes=59, seconds=59)))
    assert world.rows == [(at(9), "snoozed", "")]
    assert world.alarm.occurrence_at == at(10)
    world.attempt(Snoozed(30 * MINUTE))
    assert world.alarm.occurrence_at == at(10, 30, 1)
    world.attempt(Snoozed(5 * HOUR))
    assert world.alarm.occurrence_at == at(11)
    world.attempt(ARRIVED)
    assert world.alarm.occurrence_at == at(12)


def test_a_snooze_of_no_length_still_moves_on() -> None:
    world = once()
    world.attempt(Snoozed(-HOUR), took=timedelta(0))
    assert world.alarm.occurrence_at == at(9, 0, 1)


@pytest.mark.parametrize("kind", ["once", "series"])
def test_what_arrived_while_its_owner_held_the_alarm_and_was_never_reported_is_not_sent_again(kind: str) -> None:
    policy = Policy(report_within=60.0)
    world = hourly(policy=policy) if kind == "series" else once(policy=policy)
    held = world.claim(at(9))
    assert world.pause(at(9))
    world.note(held, ARRIVED, at(9), at(9, 0, 1))
    world.sweep(at(9), at(9, 2))
    assert world.rows == [(at(9), "timed_out", "")]
    assert world.resume(at(9, 3))
    assert not world.attempt(ARRIVED, max(at(9, 3), world.alarm.next_fire_at)) or kind == "series"
    assert (at(9), "timed_out", "") in world.rows
    assert world.alarm.status == ("fired" if kind == "once" else "active")


def test_a_clock_set_back_fires_no_occurrence_again() -> None:
    world = hourly()
    world.claim(at(9))
    world.settle(ARRIVED, at(9), at(7))
    assert world.alarm.occurrence_at == at(10)


def test_putting_a_wake_into_the_inbox_is_no_attempt_yet() -> None:
    world = once()
    world.attempt(Waiting())
    [fire] = world.fires.values()
    assert (fire.status, fire.attempts, fire.started_at) == ("waiting", 0, None)
    assert [line.said for line in fire.log] == ["put into the inbox"]
    assert world.alarm.awaiting == at(9)


def test_a_retry_planned_after_the_clock_was_set_back_stays_after_its_occurrence() -> None:
    world = hourly()
    due = world.alarm.occurrence_at
    world.attempt(BROKEN, took=-30 * MINUTE)
    assert world.alarm.next_fire_at >= due + timedelta(seconds=30)


def test_an_alarm_set_aside_keeps_what_a_report_has_said() -> None:
    world = once()
    now = world.alarm.next_fire_at
    claimed = world.claim(now)
    done = report(claimed, None, claimed.occurrence_at, Report("completed", "ok"), now=now)
    assert done is not None
    aside = quarantine(done.after, done.fires[0], "it cannot be planned", now=now)
    assert (aside.after.status, aside.fires) == ("failed", ())
    [kept] = quarantine(claimed, None, "it cannot be planned", now=now).fires
    assert (kept.status, kept.reason) == ("failed", "broken")


def test_what_passed_before_a_retry_of_the_last_fire_allowed_is_on_record_when_that_is_skipped() -> None:
    policy = Policy(max_fires=1, backoff_base=150, backoff_cap=150, exact_backoff=True)
    world = World(alarm(cron_expr="* * * * *", policy=policy))
    world.attempt(BROKEN)
    claimed = world.claim(world.alarm.next_fire_at)
    assert world.write(skip(claimed, "budget", now=claimed.next_fire_at))
    [fire] = world.fires.values()
    assert (fire.status, fire.scheduled_for, fire.through, fire.count) == ("skipped", at(8, 1), at(8, 3), 3)
    assert world.alarm.next_fire_at == at(8, 4)

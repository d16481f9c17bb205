"""Wakes that wait until their owner fetches them."""

from __future__ import annotations

from datetime import timedelta

from wakeful.model.alarm import INBOX, Policy
from wakeful.model.outcome import Report, Waiting

from .world import BROKEN, HOUR, at, hourly, once

COMPLETED, FAILED, WORKING = Report("completed", "done"), Report("failed", "no disk"), Report("working", "page 3")


def test_a_wake_from_the_inbox_is_leased_until_its_report_and_waits_again_without_one() -> None:
    world = once(target=INBOX)
    world.attempt(Waiting())
    world.fetch(at(9), at(11))
    [fire] = world.fires.values()
    assert (fire.status, fire.report_by, fire.attempts, fire.started_at) == ("delivered", at(11, 5), 1, at(11))
    world.sweep(at(9), at(11, 6))
    assert (world.rows, world.fires[at(9)].report_by) == ([(at(9), "waiting", "")], None)
    world.fetch(at(9), at(12))
    world.report(at(9), COMPLETED, at(12, 1))
    assert (world.fires[at(9)].attempts, world.fires[at(9)].duration_ms) == (
        2,
        HOUR / timedelta(milliseconds=1) + 60_000,
    )


def test_a_wake_that_moved_to_the_inbox_behaves_like_one() -> None:
    world = once()
    world.attempt(BROKEN)
    world.update(at(9, 0, 5), target="inbox")
    world.attempt(Waiting())
    world.fetch(at(9), at(10))
    world.sweep(at(9), at(10, 6))
    assert world.rows == [(at(9), "waiting", "")]


def test_an_inbox_may_have_any_name() -> None:
    world = once(target="ops")
    world.attempt(Waiting())
    world.fetch(at(9), at(11))
    world.sweep(at(9), at(11, 6))
    assert world.rows == [(at(9), "waiting", "")]
    world.cancel(at(12))
    assert world.rows == [(at(9), "failed", "cancelled")]


def test_the_owner_says_how_long_a_fetched_wake_is_leased() -> None:
    world = once(target=INBOX, policy=Policy(report_within=30))
    world.attempt(Waiting())
    world.fetch(at(9), at(11))
    assert world.fires[at(9)].report_by == at(11, 0, 30)


def test_a_failure_of_a_fetched_wake_brings_it_back() -> None:
    world = once(target=INBOX)
    world.attempt(Waiting())
    world.fetch(at(9), at(11))
    world.report(at(9), FAILED, at(11, 1))
    assert world.alarm.status == "active"
    world.attempt(Waiting())
    assert world.rows == [(at(9), "waiting", "")]


def test_a_wake_that_is_never_reported_on_fails_when_its_retries_are_used_up() -> None:
    world = once(target=INBOX, max_failures=2)
    world.attempt(Waiting())
    for hour in (10, 11, 12):
        assert world.rows == [(at(9), "waiting", "")]
        world.fetch(at(9), at(hour))
        world.sweep(at(9), at(hour, 6))
    fire = world.fires[at(9)]
    assert (fire.status, fire.reason, fire.attempts, fire.report_by) == ("failed", "unreported", 3, None)
    assert fire.last_error.startswith("handed out 3 times without a report")
    assert (world.alarm.status, world.alarm.last_error, world.alarm.awaiting) == ("failed", fire.last_error, None)


def test_with_no_retries_it_is_handed_out_once() -> None:
    world = once(target=INBOX, max_failures=0)
    world.attempt(Waiting())
    world.fetch(at(9), at(10))
    world.sweep(at(9), at(10, 6))
    assert world.rows == [(at(9), "failed", "unreported")]


def test_a_series_goes_on_after_a_wake_that_nobody_reported_on() -> None:
    world = hourly(target=INBOX, max_failures=0)
    world.attempt(Waiting())
    world.fetch(at(9), at(9, 10))
    world.sweep(at(9), at(9, 20))
    assert (world.alarm.status, world.alarm.awaiting, world.alarm.failed_in_a_row) == ("active", None, 1)
    assert world.attempt(Waiting()), "the ten o'clock fire"
    assert world.rows[-1] == (at(10), "waiting", "")


def test_a_series_whose_wakes_nobody_reports_on_is_paused_where_its_policy_says_so() -> None:
    world = hourly(target=INBOX, max_failures=0, policy=Policy(auto_pause_after=2))
    for hour in (9, 10):
        world.attempt(Waiting())
        world.fetch(at(hour), at(hour, 10))
        world.sweep(at(hour), at(hour, 20))
    assert (world.alarm.status, [event.what for event in world.events]) == ("paused", ["paused"])


def test_a_late_report_still_corrects_it_and_a_retry_opens_it_again() -> None:
    world = once(target=INBOX, max_failures=0)
    world.attempt(Waiting())
    world.fetch(at(9), at(10))
    world.sweep(at(9), at(10, 6))
    world.report(at(9), COMPLETED, at(11))
    assert world.rows == [(at(9), "completed", "late")]
    again = once(target=INBOX, max_failures=0)
    again.attempt(Waiting())
    again.fetch(at(9), at(10))
    again.sweep(at(9), at(10, 6))
    again.retry(at(9), at(11))
    again.attempt(Waiting(), at(11))
    assert again.rows == [(at(9), "waiting", "")]


def test_work_that_is_still_going_on_is_not_counted_as_silence() -> None:
    world = once(target=INBOX, max_failures=0)
    world.attempt(Waiting())
    world.fetch(at(9), at(10))
    for minute in (4, 8, 12):
        world.report(at(9), WORKING, at(10, minute))
    assert (world.fires[at(9)].status, world.fires[at(9)].failures) == ("delivered", 0)
    world.report(at(9), COMPLETED, at(10, 16))
    assert world.rows == [(at(9), "completed", "")]


def test_a_wake_that_had_been_handed_out_before_its_alarm_was_cancelled_counts_as_tried() -> None:
    world = once(target=INBOX)
    world.attempt(Waiting())
    world.fetch(at(9), at(10))
    world.sweep(at(9), at(10, 6))
    assert world.cancel(at(11))
    assert world.rows == [(at(9), "failed", "cancelled")]

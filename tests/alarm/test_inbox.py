"""Wakes that wait until their owner fetches them."""

from __future__ import annotations

from datetime import timedelta

from wakeful.alarm import INBOX, Policy, Report, Waiting

from .world import BROKEN, HOUR, at, once

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

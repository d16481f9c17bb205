"""Where an alarm comes from; and a series set with the token of a wake: it ends, says so before, and can be renewed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from wakeful.errors import Conflict
from wakeful.model.alarm import Alarm, Policy
from wakeful.model.outcome import Report
from wakeful.rules.lineage import author_of, end_note, is_ending, renewed, with_end
from wakeful.rules.report import report
from wakeful.rules.wake import Wake

from .world import ARRIVED, AWAITED, BROKEN, DAY, DONE, HOUR, MONDAY, World, alarm, at

LASTS = 90 * DAY
END = MONDAY + LASTS


def bounded(**asked: Any) -> Alarm:
    return with_end(alarm(**({"cron_expr": "0 9 * * *"} | asked)), LASTS, now=MONDAY)


def daily(**asked: Any) -> World:
    return World(bounded(**asked))


def at_last(world: World, **fields: Any) -> World:
    """The same series shortly before its end."""
    last = (world.alarm.policy.ends_at or END).replace(hour=9) - DAY
    world.alarm = replace(world.alarm, occurrence_at=last, next_fire_at=last, **fields)
    return world


def told(world: World) -> list[tuple[str, str]]:
    return [(event.what, event.reason) for event in world.events]


# Who wrote the words


@pytest.mark.parametrize(
    ("via", "author"),
    [
        ("http", "owner"),
        ("cli", "owner"),
        ("python", "owner"),
        ("dashboard", "owner"),
        ("my-own-program", "owner"),
        ("mcp", "agent"),
        ("chronos", "import"),
        ("alarm", "import"),
        ("template", "template"),
        ("sql", "task"),
    ],
)
def test_every_wake_says_who_wrote_its_words(via: str, author: str) -> None:
    made = alarm(fire_at=at(9), created_via=via)
    assert author_of(made) == Wake(made).author == msgspec.json.decode(Wake(made).body)["author"] == author


def test_whatever_is_set_out_of_a_wake_an_agent_wrote() -> None:
    made = replace(alarm(fire_at=at(9), created_via="http"), parent_fire="a0@1", root_id="a0", generation=1)
    body = msgspec.json.decode(Wake(made).body)
    assert (body["author"], body["parent_fire"], body["root_id"], body["generation"]) == ("agent", "a0@1", "a0", 1)
    copied = replace(made, parent_fire="")  # as `fire` makes one
    assert author_of(copied) == "agent"


# The end


def test_a_series_ends_after_a_while_and_says_so() -> None:
    made = bounded()
    assert made.policy == Policy(ends_at=END, renew_for=LASTS.total_seconds())
    assert end_note(made).startswith("It ends at 2026-04-05T08:00:00Z, since it was set with the token of a wake.")
    assert "keeps it going for 90 days" in end_note(made)


def test_what_fires_once_has_no_end_and_an_earlier_one_stays() -> None:
    single = alarm(fire_at=at(9))
    assert with_end(single, LASTS, now=MONDAY) is single
    early = alarm(cron_expr="0 9 * * *", policy=Policy(ends_at=MONDAY + 3 * DAY))
    assert with_end(early, LASTS, now=MONDAY) is early
    assert end_note(single) == end_note(early) == ""


def test_a_later_end_is_brought_forward() -> None:
    late = bounded(policy=Policy(ends_at=MONDAY + 4000 * DAY, max_fires=7))
    assert (late.policy.ends_at, late.policy.max_fires) == (END, 7)
    assert late.policy.renew_for is not None


def test_a_rare_series_fires_at_least_once() -> None:
    yearly = bounded(cron_expr="0 9 24 12 *")
    assert yearly.policy.ends_at == yearly.occurrence_at == datetime.fromisoformat("2026-12-24T09:00:00Z")
    world = World(yearly)
    world.attempt(AWAITED)
    assert world.alarm.finished
    assert world.report(yearly.occurrence_at, Report("completed", renew=True), yearly.occurrence_at + HOUR)
    assert world.alarm.status == "active"
    assert world.alarm.next_fire_at == world.alarm.policy.ends_at == datetime.fromisoformat("2027-12-24T09:00:00Z")


# Before the end


def test_the_last_wakes_say_that_they_are_and_the_others_do_not() -> None:
    world, said = daily(), {}
    while world.alarm.status == "active":
        body = msgspec.json.decode(Wake(world.alarm).body)
        assert body["ends_at"] == "2026-04-05T08:00:00Z"
        said[world.alarm.occurrence_at] = body["renewable"]
        world.attempt(DONE)
    assert len(said) == 90
    assert [day for day, is_said in said.items() if is_said] == [END.replace(hour=9) - n * DAY for n in range(7, 0, -1)]


def test_a_rare_one_says_it_in_its_last_two() -> None:
    world, said = daily(cron_expr="0 9 1 * *"), []  # the first of February, March and April
    while world.alarm.status == "active":
        said.append(Wake(world.alarm).renewable)
        world.attempt(DONE)
    assert said == [False, True, True]


@pytest.mark.parametrize(
    "asked",
    [
        {"cron_expr": "RRULE:FREQ=DAILY;COUNT=3;BYHOUR=9;BYMINUTE=0;BYSECOND=0"},
        {"cron_expr": "0 9 * * *", "policy": Policy(max_fires=3)},
    ],
)
def test_what_ends_otherwise_does_not_say_that_a_report_could_help(asked: dict[str, Any]) -> None:
    world, said = daily(**asked), []
    while world.alarm.status == "active":
        said.append(Wake(world.alarm).renewable)
        world.attempt(DONE)
    assert said == [False, False, False]
    last = max(world.fires)
    with pytest.raises(Conflict, match="has no further fire, whatever its end is"):
        report(world.alarm, world.fires[last], last, Report("completed", renew=True), now=last)
    assert told(world) == []


def test_it_is_the_same_on_every_attempt() -> None:
    world = at_last(daily())
    world.claim(world.alarm.next_fire_at)
    first = Wake(world.alarm).body
    world.settle(BROKEN, world.alarm.next_fire_at, world.alarm.next_fire_at)
    assert world.alarm.failure_count == 1
    assert Wake(world.alarm).body == first


def test_an_end_that_somebody_named_is_not_renewable() -> None:
    made = alarm(cron_expr="0 9 * * *", policy=Policy(ends_at=MONDAY + 2 * DAY))
    wake = Wake(made)
    assert (wake.ends_at, wake.renewable) == (MONDAY + 2 * DAY, False)
    assert Wake(alarm(fire_at=at(9))).ends_at is None


@pytest.mark.parametrize("outcome", [DONE, ARRIVED])
def test_it_is_announced_once(outcome: Any) -> None:
    world = daily()
    while world.alarm.status == "active":
        world.attempt(outcome)
    assert told(world) == [("ending", "at 2026-04-05T08:00:00Z, unless a report with renew comes before")]


def test_it_is_announced_also_where_the_fires_before_failed_or_were_skipped() -> None:
    world = daily(max_failures=0)
    while world.alarm.status == "active":
        world.attempt(BROKEN)
    assert [what for what, _ in told(world)] == ["ending"]
    late = daily(policy=Policy(catch_up="skip", grace=60))
    late.attempt(DONE, END - 3 * DAY)
    assert late.rows[0][1:] == ("skipped", "missed")
    assert [what for what, _ in told(late)] == ["ending"]


# Renewed


def test_a_report_renews_it_from_that_moment_on() -> None:
    world = daily()
    world.attempt(AWAITED)
    assert world.report(at(9), Report("completed", renew=True), at(10))
    assert world.alarm.policy.ends_at == at(10) + LASTS
    assert told(world) == [("renewed", "until 2026-04-05T10:00:00Z")]
    assert world.fires[at(9)].status == "completed"
    assert world.alarm.next_fire_at == at(33)


@pytest.mark.parametrize("outcome", ["completed", "failed", "working", "snooze"])
def test_every_report_can_renew(outcome: Any) -> None:
    world = daily()
    world.attempt(AWAITED)
    assert world.report(at(9), Report(outcome, wait=HOUR, renew=True), at(10))
    assert world.alarm.policy.ends_at == at(10) + LASTS


def test_the_report_on_the_very_last_wake_takes_the_series_up_again() -> None:
    world = at_last(daily())
    last = world.alarm.occurrence_at
    world.attempt(AWAITED)
    assert world.alarm.finished
    assert world.report(last, Report("completed", renew=True), last + 3 * DAY)
    assert (world.alarm.status, world.alarm.next_fire_at) == ("active", last + 4 * DAY)
    assert world.alarm.policy.ends_at == last + 3 * DAY + LASTS
    world.attempt(DONE)
    assert world.alarm.status == "active"


def test_a_report_that_comes_while_the_last_attempt_is_under_way_renews_it() -> None:
    world = at_last(daily(), version=2)
    last = world.alarm.occurrence_at
    world.claim(last)
    assert world.report(last, Report("completed", renew=True), last)
    world.settle(ARRIVED, last, last)
    assert (world.alarm.status, world.alarm.next_fire_at) == ("active", last + DAY)


def test_it_is_announced_again_before_the_next_end() -> None:
    world = at_last(daily())
    last = world.alarm.occurrence_at
    world.attempt(AWAITED)
    world.report(last, Report("completed", renew=True), last)
    while world.alarm.status == "active":
        world.attempt(DONE)
    assert [what for what, _ in told(world)] == ["renewed", "ending"]


def test_a_report_said_before_may_be_said_again_to_renew() -> None:
    world = daily()
    world.attempt(AWAITED)
    assert world.report(at(9), Report("completed"), at(10))
    assert not world.report(at(9), Report("completed"), at(11))
    assert world.report(at(9), Report("completed", renew=True), at(11))
    assert world.alarm.policy.ends_at == at(11) + LASTS
    assert world.fires[at(9)].completed_at == at(10)


def test_renewing_never_brings_an_end_forward() -> None:
    made = bounded()
    late = replace(made, policy=replace(made.policy, ends_at=END + 900 * DAY))
    assert renewed(late, now=MONDAY).policy.ends_at == END + 900 * DAY


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"policy": Policy()}, "has no end that a report can renew"),
        ({"policy": Policy(ends_at=END)}, "has no end that a report can renew"),
        ({"status": "cancelled"}, "is cancelled"),
        ({"policy": Policy(ends_at=END, renew_for=60.0, max_fires=1), "fire_count": 1}, "has no further fire"),
    ],
)
def test_what_has_no_such_end_is_refused_and_nothing_changes(change: dict[str, Any], why: str) -> None:
    world = daily()
    world.attempt(AWAITED)
    world.alarm = replace(world.alarm, **change)
    with pytest.raises(Conflict, match=why) as refused:
        report(world.alarm, world.fires[at(9)], at(9), Report("completed", renew=True), now=at(10))
    assert refused.value.field == "renew"


@pytest.mark.parametrize("end", [None, END + DAY])
def test_an_end_that_the_owner_sets_or_takes_out_is_the_owners(end: datetime | None) -> None:
    world = daily()
    world.update(at(8, 30), policy=Policy(ends_at=end))
    assert (world.alarm.policy.ends_at, world.alarm.policy.renew_for) == (end, None)
    assert not is_ending(world.alarm)


def test_another_edit_of_the_policy_keeps_the_end_renewable() -> None:
    world = daily()
    world.update(at(8, 30), policy=replace(world.alarm.policy, jitter=5.0))
    assert world.alarm.policy.renew_for == LASTS.total_seconds()


def test_a_short_life_has_a_short_notice() -> None:
    made = with_end(alarm(cron_expr="0 * * * *"), timedelta(days=10), now=MONDAY)
    end = made.policy.ends_at
    assert end is not None
    assert not is_ending(replace(made, occurrence_at=end - 25 * HOUR))
    assert is_ending(replace(made, occurrence_at=end - 24 * HOUR))

"""Budgets: which limits a wake meets, which wakes are let through, and what becomes of the others."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.rules.world import ARRIVED, BROKEN, HOUR, MINUTE, MONDAY, SECOND, World, alarm, at
from wakeful.model.alarm import Alarm, Policy
from wakeful.model.limits import OwnerLimits
from wakeful.model.outcome import Report, Snoozed
from wakeful.rules.budget import (
    Allowance,
    Budget,
    BudgetCount,
    Charge,
    Key,
    Refusal,
    charged,
    costs,
    is_rewake,
    over_budget,
    wake_notes,
    wakes_per_day,
)
from wakeful.rules.report import report
from wakeful.settings.tables import BudgetSettings

USUAL = Budget(BudgetSettings())


def scopes(one: Alarm, budget: Budget = USUAL, fire: Any = None) -> list[tuple[str, str, int]]:
    return [(met.scope, met.period, met.wakes) for met in budget.allowances(one, fire)]


def once(**asked: Any) -> Alarm:
    return alarm(delay=HOUR, **asked)


# Who has limits


def test_by_default_an_ordinary_wake_meets_no_limit() -> None:
    for one in (once(), alarm(cron_expr="* * * * *"), alarm(cron_expr="@every 1s"), once(policy=Policy(max_fires=3))):
        assert scopes(one) == []


def test_what_was_set_out_of_a_wake_shares_the_limit_of_its_chain() -> None:
    chained = replace(once(), root_id="a0", generation=1)
    assert scopes(chained) == [("chain", "hour", 120), ("chain", "day", 500)]
    assert {met.id for met in USUAL.allowances(chained, None)} == {"a0"}


def test_one_shots_of_an_owners_agents_outside_of_chains_share_a_limit() -> None:
    by_agent = replace(once(), created_via="mcp", owner_did="ada")
    assert scopes(by_agent) == [("agent", "hour", 300), ("agent", "day", 1500)]
    assert {met.id for met in USUAL.allowances(by_agent, None)} == {"ada"}
    assert [scope for scope, _, _ in scopes(replace(by_agent, root_id="a0", generation=1))] == ["chain", "chain"]
    assert scopes(replace(alarm(cron_expr="* * * * *"), created_via="mcp")) == []
    for via in ("http", "python", "cli"):
        assert scopes(replace(by_agent, created_via=via)) == []


def test_a_copy_that_was_fired_by_hand_is_not_a_chain() -> None:
    assert scopes(replace(once(), root_id="a0", generation=0)) == []


def test_a_snoozed_wake_meets_the_limit_of_wakes_that_come_again() -> None:
    world = World(once())
    world.attempt(Snoozed(MINUTE))
    assert scopes(world.alarm) == [("rewake", "hour", 60), ("rewake", "day", 300)]


def test_a_series_is_limited_only_where_it_was_snoozed() -> None:
    world = World(alarm(cron_expr="0 * * * *", timezone="Europe/Berlin"))
    assert not is_rewake(world.alarm, None)
    world.attempt(Snoozed(MINUTE))
    assert is_rewake(world.alarm, None)
    world.attempt(ARRIVED)
    assert not is_rewake(world.alarm, None)


def test_an_alarm_that_was_given_another_time_does_not_come_again() -> None:
    world = World(once())
    world.update(MONDAY, delay=2 * HOUR)
    assert not is_rewake(world.alarm, None)


def test_a_retry_comes_again_only_where_the_wake_had_arrived() -> None:
    world = World(once())
    world.attempt(BROKEN)
    assert not is_rewake(world.alarm, world.fire)
    assert scopes(world.alarm, Budget(BudgetSettings(owner_wakes_per_hour=5)), world.fire) == []
    world = World(once(policy=Policy(report_within=600.0)))
    world.attempt(ARRIVED)
    world.report(at(9), Report("failed"), at(9, 1))
    assert is_rewake(world.alarm, world.fire)


def test_an_alarm_has_the_limits_its_owner_gave_it_and_no_more_than_the_operator_allows() -> None:
    own = once(policy=Policy(wakes_per_hour=4, wakes_per_day=50, cost_per_day=2.0))
    assert scopes(own) == [("alarm", "hour", 4), ("alarm", "day", 50)]
    strict = Budget(BudgetSettings(alarm_wakes_per_hour=10, alarm_wakes_per_day=20, alarm_cost_per_day=1.5))
    assert scopes(own, strict) == [("alarm", "hour", 4), ("alarm", "day", 20)]
    assert [met.cost for met in strict.allowances(own, None)] == [0, 1.5]
    assert scopes(once(), strict) == [("alarm", "hour", 10), ("alarm", "day", 20)]


def test_an_owner_has_limits_where_the_operator_gave_it_some() -> None:
    owners = {"ada": OwnerLimits(owner_wakes_per_day=9, chain_wakes_per_hour=0)}
    budget = Budget(BudgetSettings(), BudgetSettings(owners=owners).by_owner)
    assert scopes(once(), budget) == [("owner", "day", 9)]
    assert scopes(once(owner_did="bob"), budget) == []
    chained = replace(once(), root_id="a0", generation=1)
    assert scopes(chained, budget) == [("owner", "day", 9), ("chain", "day", 500)]
    assert scopes(once(), Budget(BudgetSettings(owner_wakes_per_hour=5))) == [("owner", "hour", 5)]


# Which wakes are let through


def let_through(limits: list[Allowance], moments: list[datetime]) -> list[Refusal | None]:
    known: dict[Key, BudgetCount] = {}
    answers = []
    for moment in moments:
        [answer], changed = charged([Charge(tuple(limits), moment)], known)
        known |= {count.key: count for count in changed}
        answers.append(answer)
    return answers


def test_the_limit_is_let_through_and_not_one_more_until_the_hour_is_over() -> None:
    answers = let_through([Allowance("chain", "a0", "hour", 3)], [at(9, 59)] * 5 + [at(10)])
    words = "the budget of the chain that began with alarm a0 is used up: 3 wakes in one hour"
    assert answers[:3] == [None] * 3
    assert answers[3:] == [Refusal("chain", words, at(10), first=True), Refusal("chain", words, at(10)), None]


def test_many_at_once_are_counted_one_after_the_other() -> None:
    answers, [count] = charged([Charge((Allowance("owner", "ada", "day", 2),), at(9))] * 4, {})
    assert [answer is None for answer in answers] == [True, True, False, False]
    assert (count.wakes, count.told) == (2, True)
    assert [answer.first for answer in answers if answer] == [True, False]


def test_what_is_refused_counts_against_none_of_its_limits() -> None:
    hour, day = Allowance("owner", "ada", "hour", 5), Allowance("alarm", "a1", "day", 1)
    _, counts = charged([Charge((hour, day), at(9))] * 4, {})
    assert sorted((count.scope, count.wakes) for count in counts) == [("alarm", 1), ("owner", 1)]


def test_it_waits_for_the_limit_that_is_used_up_for_longest() -> None:
    limits = [Allowance("owner", "ada", "hour", 1), Allowance("alarm", "a1", "day", 1)]
    _, refusal = let_through(limits, [at(9), at(9)])
    assert refusal is not None
    assert (refusal.scope, refusal.until) == ("alarm", at(24))


def test_a_cost_that_is_used_up_stops_wakes_until_the_next_day() -> None:
    limit = Allowance("owner", "ada", "day", cost=0.3)
    spent = BudgetCount(scope="owner", id="ada", period="day", starts_at=at(0), cost=299_999)
    assert charged([Charge((limit,), at(9))], {spent.key: spent})[0] == [None]
    spent = replace(spent, cost=300_000)
    [refusal], _ = charged([Charge((limit,), at(9))], {spent.key: spent})
    assert refusal is not None
    assert refusal.until == at(24)
    assert refusal.words == "the budget of its owner is used up: a cost of 0.3 in one day"


def test_a_report_adds_its_cost_once() -> None:
    world = World(replace(once(policy=Policy(report_within=600.0)), root_id="a0", generation=2))
    world.attempt(ARRIVED)
    found = report(world.alarm, world.fire, at(9), Report("completed", cost=0.1), now=at(9, 1))
    assert found is not None
    assert [(count.scope, count.id, count.period, count.starts_at, count.cost) for count in costs(found)] == [
        ("owner", "ada", "day", at(0), 100_000),
        ("alarm", "a1", "day", at(0), 100_000),
        ("chain", "a0", "day", at(0), 100_000),
    ]
    world.write(found)
    assert report(world.alarm, world.fire, at(9), Report("completed", cost=0.1), now=at(9, 2)) is None
    assert costs(replace(found, cost=0.0)) == []


# What a series costs


@pytest.mark.parametrize(
    ("cron_expr", "wakes"),
    [
        ("*/5 * * * *", 288),
        ("* * * * *", 1440),
        ("0 * * * *", 24),
        ("0 9,17 * * 1-5", 2),
        ("*/30 9-17 * * 5", 18),
        ("0 9 1 * *", 1),
        ("*/10 * * * * *", 8640),
        ("* * * * * *", 86_400),
        ("@every 90s", 960),
        ("@every 1s", 86_400),
        ("@every 36h", 0),
        ("RRULE:FREQ=DAILY;INTERVAL=3;BYHOUR=9;BYMINUTE=0", 1),
        ("RRULE:FREQ=DAILY;BYHOUR=9,17", 2),
        ("RRULE:FREQ=HOURLY", 24),
        ("RRULE:FREQ=MINUTELY;INTERVAL=5", 288),
        ("DTSTART:20270105T090000 RRULE:FREQ=WEEKLY;BYDAY=TU;BYHOUR=9,10,11", 3),
    ],
)
@pytest.mark.parametrize("timezone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_how_often_a_series_wakes_on_a_day_on_which_it_does(cron_expr: str, wakes: int, timezone: str) -> None:
    assert wakes_per_day(alarm(cron_expr=cron_expr, timezone=timezone)) == wakes


def test_whoever_sets_a_series_is_told_what_it_costs_and_what_of_that_is_allowed() -> None:
    often = alarm(cron_expr="* * * * *")
    assert wake_notes(often, BudgetSettings()) == ("It wakes 1,440 times a day.",)
    assert wake_notes(once(), BudgetSettings()) == ()
    assert wake_notes(alarm(cron_expr="0 9 * * *"), BudgetSettings()) == ()
    allowed = "Its budget allows 100 wakes a day:"
    assert wake_notes(often, BudgetSettings(owner_wakes_per_day=100))[1] == f"{allowed} the others are skipped."
    waits = replace(often, policy=Policy(wakes_per_day=100, at_limit="defer"))
    assert wake_notes(waits, BudgetSettings())[1] == f"{allowed} after that it waits for the next day."
    by_hour = wake_notes(replace(often, policy=Policy(wakes_per_hour=3)), BudgetSettings())
    assert by_hour == (
        "It is due 1,440 times a day, and wakes 72 times at most.",
        "Its budget allows 3 wakes an hour: the others are skipped.",
    )
    later = replace(often, policy=Policy(wakes_per_hour=3, at_limit="defer"))
    assert wake_notes(later, BudgetSettings())[1].endswith("3 wakes an hour: the others wait for the next hour.")
    assert wake_notes(replace(often, policy=Policy(wakes_per_hour=60)), BudgetSettings()) == (
        "It wakes 1,440 times a day.",
    )
    chained = replace(often, root_id="a0", generation=1)
    assert wake_notes(chained, BudgetSettings())[1].startswith("Its budget allows 500 wakes a day")


# What becomes of the others

UNTIL = at(10)
REFUSED = Refusal("owner", "the budget of its owner is used up: 3 wakes in one hour", UNTIL, first=True)


def refused(world: World, refusal: Refusal = REFUSED, now: datetime | None = None) -> World:
    now = now or world.alarm.next_fire_at
    fire = world.fire
    assert world.write(over_budget(world.claim(now), fire, refusal, now=now))
    return world


def test_a_one_shot_waits_until_its_budget_allows_it() -> None:
    world = refused(World(once()))
    assert (world.alarm.status, world.alarm.next_fire_at, world.alarm.occurrence_at) == ("active", UNTIL, at(9))
    assert world.rows == []
    assert [event.what for event in world.events] == ["budget_reached", "deferred"]
    assert "3 wakes in one hour" in world.events[1].reason
    assert world.attempt(ARRIVED)
    assert world.rows == [(at(9), "delivered", "")]


def test_the_owner_is_told_once() -> None:
    world = refused(World(once()), replace(REFUSED, first=False))
    assert [event.what for event in world.events] == ["deferred"]


def test_a_series_skips_the_occurrence_and_goes_on() -> None:
    world = refused(World(alarm(cron_expr="*/10 * * * *")))
    assert world.rows == [(at(8, 10), "skipped", "budget")]
    assert world.alarm.next_fire_at == at(8, 20)
    assert [event.what for event in world.events] == ["budget_reached"]


def test_a_series_that_is_to_wait_stands_for_those_it_passes_over() -> None:
    world = refused(World(alarm(cron_expr="*/10 * * * *", policy=Policy(at_limit="defer"))))
    assert world.alarm.next_fire_at == UNTIL
    assert world.rows == [(at(8, 20), "skipped", "budget")]
    assert world.fires[at(8, 20)].through == UNTIL
    assert world.attempt(ARRIVED)
    assert world.alarm.next_fire_at == at(10, 10)


def test_a_one_shot_that_is_not_to_wait_fails_with_the_reason() -> None:
    world = refused(World(once(policy=Policy(at_limit="skip"))))
    assert world.alarm.status == "failed"
    assert world.alarm.last_error == "not delivered: budget, 0 s after it was due"
    assert world.rows == [(at(9), "skipped", "budget")]


@pytest.mark.parametrize("policy", [{"expires": 60}, {"catch_up": "skip", "grace": 60}], ids=str)
def test_what_would_be_too_late_by_then_is_skipped_at_once(policy: dict[str, Any]) -> None:
    assert refused(World(once(policy=Policy(**policy)))).rows == [(at(9), "skipped", "budget")]


def test_a_skipped_retry_keeps_the_log_of_its_attempts() -> None:
    world = World(alarm(cron_expr="0 * * * *", policy=Policy(report_within=600.0)))
    world.attempt(ARRIVED)
    world.report(at(9), Report("failed", "no"), at(9, 1))
    assert world.alarm.occurrence_at == at(9)
    refused(world, now=world.alarm.next_fire_at + SECOND)
    fire = world.fires[at(9)]
    assert (fire.status, fire.reason, fire.attempts, len(fire.log)) == ("skipped", "budget", 1, 1)
    assert world.alarm.next_fire_at == at(10)


def test_hours_and_days_are_those_of_utc() -> None:
    charge = Charge((Allowance("owner", "ada", "hour", 1), Allowance("owner", "ada", "day", 1)), at(9, 30))
    assert [starts for *_, starts in charge.keys] == [at(9), at(0)]
    assert timedelta(0) == charge.keys[1][3].utcoffset()

"""Which alarms wait for their budget: those put off until a limit that is used up is free, and no others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.world import HOUR, MINUTE, alarm, at
from wakeful.model.alarm import Alarm
from wakeful.rules.budget import Budget, BudgetCount, may_wait_for_budget, uses, waiting_for_budget
from wakeful.settings.tables import BudgetSettings

BUDGET = Budget(BudgetSettings(rewakes_per_hour=3, owner_cost_per_day=2.0))
NOW = at(9, 30)


def put_off(until: int = 10, **more: object) -> Alarm:
    return replace(alarm(delay=HOUR), occurrence_at=at(9, 20), next_fire_at=at(until), **more)


def rewakes(one: Alarm, wakes: int) -> BudgetCount:
    return BudgetCount(scope="rewake", id=one.id, period="hour", starts_at=at(9), wakes=wakes)


@pytest.mark.parametrize(("wakes", "waits"), [(3, True), (2, False), (0, False)])
def test_it_waits_only_for_a_limit_that_is_used_up(wakes: int, waits: bool) -> None:
    one = put_off()
    counts = [rewakes(one, wakes)] if wakes else []
    assert waiting_for_budget([one], BUDGET, counts, NOW) == ({one.id} if waits else set())


def test_it_waits_only_where_it_is_free_again_when_it_fires() -> None:
    one = put_off(until=11)
    assert waiting_for_budget([one], BUDGET, [rewakes(one, 3)], NOW) == set()


def test_most_alarms_are_not_looked_at() -> None:
    one = put_off()
    assert may_wait_for_budget(one)
    assert not may_wait_for_budget(replace(one, status="paused"))
    assert not may_wait_for_budget(replace(one, occurrence_at=one.next_fire_at))
    assert not may_wait_for_budget(replace(one, next_fire_at=one.next_fire_at + MINUTE))


def test_what_is_used_up_comes_first_and_what_is_not_used_is_left_out() -> None:
    one = put_off()
    cost = BudgetCount(scope="owner", id=one.owner_did, period="day", starts_at=at(0), cost=500_000)
    limits = BUDGET.limits_on(one)
    found = uses(limits, [cost, rewakes(one, 3)], NOW)
    assert [(use.scope, use.wakes, use.cost, use.used_up, use.until) for use in found] == [
        ("rewake", 3, 0.0, True, at(10)),
        ("owner", 0, 0.5, False, at(24)),
    ]
    assert (found[1].wakes_allowed, found[1].cost_allowed) == (0, 2.0)
    assert len(uses(limits, [], NOW)) == 0
    assert len(uses(limits, [], NOW, always=limits)) == len(limits) == 3

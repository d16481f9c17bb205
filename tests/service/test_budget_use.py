"""What is used of budgets, for whoever asks: limits, wakes, cost; and in the history what waits for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import wakeful
from tests.databases import database_of
from wakeful.errors import NotFound
from wakeful.model.requests import ReportRequest
from wakeful.rules.budget import BudgetUse
from wakeful.service.inbox import missed
from wakeful.testing import ManualClock

NEXT_HOUR = datetime(2030, 1, 1, 1, tzinfo=UTC)
NEXT_DAY = datetime(2030, 1, 2, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return database_of(request, tmp_path)


async def snoozed(alarms: wakeful.Wakeful, clock: ManualClock, times: int, **fields: Any) -> wakeful.Alarm:
    """An alarm that was taken from the inbox and snoozed so often."""
    alarm = await alarms.set(delay=1, wake_message="look", **fields)
    for _ in range(times):
        await clock.advance(2)
        await alarms.run_due()
        for _, fire in await alarms.inbox():
            await alarms.snooze_fire(fire.id, 1)
    await clock.advance(2)
    await alarms.run_due()
    return alarm


def told(uses: list[BudgetUse]) -> list[tuple[str, str, int, int, bool]]:
    return [(use.scope, use.period, use.wakes, use.wakes_allowed, use.used_up) for use in uses]


async def test_what_is_used_of_an_alarms_limits(db: dict[str, Any]) -> None:
    clock = ManualClock()
    async with wakeful.open(**db, clock=clock, budget={"rewakes_per_hour": 3, "owner_wakes_per_day": 50}) as alarms:
        alarm = await snoozed(alarms, clock, 1, policy={"wakes_per_hour": 9}, key="k")
        assert told(await alarms.budget("k")) == [
            ("owner", "day", 2, 50, False),
            ("alarm", "hour", 2, 9, False),
            ("rewake", "hour", 1, 3, False),
            ("rewake", "day", 1, 300, False),
        ]
        until = {use.period: use.until for use in await alarms.budget(alarm.id)}
        assert until == {"hour": NEXT_HOUR, "day": NEXT_DAY}
        with pytest.raises(NotFound):
            await alarms.budget("nobody")
        with pytest.raises(NotFound):
            await alarms.for_owner("eve").budget(alarm.id)
        await clock.advance(3600)
        assert told(await alarms.budget("k"))[1:3] == [("alarm", "hour", 0, 9, False), ("rewake", "hour", 0, 3, False)]


async def test_an_owner_sees_its_own_limits_and_what_is_used_of_its_alarms(db: dict[str, Any]) -> None:
    clock = ManualClock()
    async with wakeful.open(**db, clock=clock, budget={"rewakes_per_hour": 2}) as alarms:
        assert await alarms.budget() == []  # no limit of its own, and nothing used
        alarm = await snoozed(alarms, clock, 5)
        await alarms.set("in 1 hour", "nothing was used of its limits")
        assert told(await alarms.budget()) == [("rewake", "hour", 2, 2, True), ("rewake", "day", 2, 300, False)]
        assert [use.id for use in await alarms.budget()] == [alarm.id] * 2
        assert await alarms.for_owner("eve").budget() == []
    async with wakeful.open(**db, clock=clock, budget={"owner_wakes_per_hour": 7, "rewakes_per_hour": 0}) as alarms:
        assert told(await alarms.budget())[0] == ("owner", "hour", 0, 7, False)  # there before anything is used


async def test_cost_is_told_also_where_it_has_no_limit(db: dict[str, Any]) -> None:
    clock = ManualClock()
    async with wakeful.open(**db, clock=clock) as alarms:
        await alarms.set(delay=1, wake_message="look")
        await clock.advance(2)
        await alarms.run_due()
        [(_, fire)] = await alarms.inbox()
        await alarms.report(fire.id, ReportRequest(outcome="completed", cost=0.25))
        [use] = await alarms.budget()
        assert (use.scope, use.period, use.cost, use.cost_allowed, use.used_up) == ("owner", "day", 0.25, 0.0, False)


async def test_the_history_says_what_waits_for_its_budget_and_nothing_else_does(db: dict[str, Any]) -> None:
    clock = ManualClock()
    async with wakeful.open(**db, clock=clock, budget={"rewakes_per_hour": 2}) as alarms:
        alarm = await snoozed(alarms, clock, 5)
        other = await alarms.set("in 5 minutes", "put off by a person, to the same moment")
        await alarms.snooze(other.id, until=NEXT_HOUR)
        found = {entry.alarm_id: entry for entry in await alarms.history(status="pending")}
        assert {id: (entry.reason, entry.scheduled_for) for id, entry in found.items()} == {
            alarm.id: ("budget", NEXT_HOUR),
            other.id: ("", NEXT_HOUR),
        }
        assert missed(found.values()) == 0  # it waits, and comes
        await clock.advance(NEXT_HOUR - clock.now() + timedelta(seconds=1))
        await alarms.run_due()
        assert [wake.alarm.id for wake in await alarms.inbox()] == [alarm.id, other.id]
        assert await alarms.history(status="pending") == []

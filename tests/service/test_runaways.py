"""Runaways: an agent in a loop is stopped at its budget, everything it set is on record, and ordinary use goes on.

Over the product's own path: a clock that runs, with a handler or an inbox as the agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import wakeful
from tests.databases import database_of
from wakeful.model.requests import ReportRequest
from wakeful.process.application import open_local
from wakeful.python.client import LocalWakeful
from wakeful.store import EventQuery
from wakeful.testing import ManualClock

HOUR = 3600
TOO_MANY = 400  # wakes: where nothing stops the agent, the test does
NEXT_HOUR = datetime(2030, 1, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return database_of(request, tmp_path)


@asynccontextmanager
async def opened(db: dict[str, Any], clock: ManualClock, **budget: Any) -> AsyncIterator[LocalWakeful]:
    async with open_local(**db, clock=clock, tick="1m", lease="5m", budget=budget) as alarms:
        yield alarms


@asynccontextmanager
async def running(alarms: LocalWakeful) -> AsyncIterator[None]:
    task = asyncio.create_task(alarms.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def in_a_loop(alarms: LocalWakeful, *, each: int = 1, said: bool = True) -> list[wakeful.Wake]:
    """An agent that sets alarms out of every wake, a quarter of a second ahead; the wakes it got."""
    wakes: list[wakeful.Wake] = []

    @alarms.handler("agent")
    async def agent(wake: wakeful.Wake) -> str:
        wakes.append(wake)
        for number in range(each if len(wakes) < TOO_MANY else 0):
            parent = wake.fire_id if said else ""
            await alarms.set(delay=0.25, wake_message=f"again {number}", target="agent", parent_fire=parent)
        return "done"

    return wakes


async def told(alarms: LocalWakeful, what: str) -> list[str]:
    events = await alarms.service.store.events(EventQuery(limit=1000))
    return [event.reason for _, event in events if event.what == what]


async def test_an_agent_that_sets_alarms_out_of_wakes_is_stopped_by_default(
    db: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It got 47 wakes in 12 s, and would have gone on for ever."""
    clock = ManualClock()
    async with opened(db, clock) as alarms:
        wakes = in_a_loop(alarms)
        root = await alarms.set(delay=0.25, wake_message="begin", target="agent")
        with caplog.at_level(logging.WARNING, "wakeful.dispatcher"):
            async with running(alarms):
                for _ in range(4 * 32):
                    await clock.advance(0.25)
                assert len(wakes) == 1 + 120  # the first was set by a person
                [waiting] = await alarms.find(status="active")
                assert waiting.next_fire_at == NEXT_HOUR
                why = await alarms.why(waiting.id)
                reason = f"the budget of the chain that began with alarm {root.id} is used up: 120 wakes in one hour"
                assert why.summary.startswith(f"It waits until 2030-01-01T01:00:00Z: {reason}.")
        await clock.advance(HOUR)
        for _ in range(4 * 32):
            await alarms.run_due()
            await clock.advance(0.25)
        assert len(wakes) == 1 + 240
        assert [text.partition(";")[0] for text in await told(alarms, "budget_reached")] == [reason] * 2
        assert len(await told(alarms, "deferred")) == 2
        assert sum(reason in record.getMessage() for record in caplog.records) == 2


async def test_alarms_that_multiply_share_the_budget_of_their_chain_for_a_day(db: dict[str, Any]) -> None:
    clock = ManualClock()
    async with opened(db, clock, chain_wakes_per_hour=8, chain_wakes_per_day=20) as alarms:
        wakes = in_a_loop(alarms, each=2)
        await alarms.set(delay=0.25, wake_message="begin", target="agent")
        brought = []
        for _ in range(5):
            before = len(wakes)
            for _ in range(20):
                await clock.advance(0.25)
                await alarms.run_due()
            brought.append(len(wakes) - before)
            await clock.advance(HOUR)
        assert brought == [1 + 8, 8, 4, 0, 0]
        # Every alarm that was set is accounted for: it woke the agent, or it waits and says for what.
        waiting = await alarms.find(status="active", limit=100)
        assert len(wakes) + len(waiting) == 1 + 2 * len(wakes)
        tomorrow = {alarm.next_fire_at.isoformat() for alarm in waiting}
        assert tomorrow == {"2030-01-02T00:00:00+00:00"}
        for alarm in waiting:
            assert "20 wakes in one day" in (await alarms.why(alarm.id)).summary


async def test_an_agent_that_snoozes_all_the_time_is_stopped(db: dict[str, Any]) -> None:
    """Snoozes of 0.3 s brought 23 wakes in 8 s."""
    clock = ManualClock()
    async with opened(db, clock, rewakes_per_hour=20) as alarms:
        await alarms.set(delay=1, wake_message="begin")
        other = await alarms.set(delay=1, wake_message="ordinary")
        handed: list[str] = []
        async with running(alarms):
            for _ in range(60):
                await clock.advance(1)
                for alarm, fire in await alarms.inbox():
                    handed.append(alarm.wake_message)
                    if alarm.id != other.id:
                        await alarms.snooze_fire(fire.id, 0.3)
        assert (handed.count("begin"), handed.count("ordinary")) == (1 + 20, 1)
        [waiting] = await alarms.find(status="active")
        summary = (await alarms.why(waiting.id)).summary
        assert "the budget of this alarm is used up: 20 snoozed or repeated wakes in one hour" in summary
        assert len(await told(alarms, "budget_reached")) == 1


async def test_a_series_over_its_own_limit_skips_with_the_reason_on_record(db: dict[str, Any]) -> None:
    clock = ManualClock()
    async with opened(db, clock) as alarms:
        wakes: list[str] = []

        @alarms.handler("agent")
        async def agent(wake: wakeful.Wake) -> str:
            wakes.append(wake.fire_id)
            return "done"

        alarm = await alarms.set("every 10 minutes", "look", target="agent", policy={"wakes_per_hour": 2})
        for _ in range(11):
            await clock.advance(600)
            await alarms.run_due()
        assert len(wakes) == 4
        fires = await alarms.fires(alarm.id)
        skipped = [fire for fire in fires if fire.status == "skipped"]
        assert {fire.reason for fire in skipped} == {"budget"}
        assert len(wakes) + sum(fire.count for fire in skipped) == 11
        why = await alarms.why(skipped[0].id)
        assert "was skipped: a budget was used up" in why.summary
        assert len(await told(alarms, "budget_reached")) == 2
        counted = alarms.service.metrics.exposition()[0].decode()
        assert 'wakeful_over_budget_total{action="skipped",scope="alarm"} 7.0' in counted
        assert 'wakeful_fires_total{reason="budget",status="skipped"} 7.0' in counted


async def test_cost_that_is_reported_stops_wakes_until_the_next_day(db: dict[str, Any]) -> None:
    clock = ManualClock()
    owners = {"local": {"owner_cost_per_day": 1.0}}
    async with opened(db, clock, owners=owners) as alarms:
        alarm = await alarms.set("every hour", "look")
        handed = 0
        for _ in range(30):
            await clock.advance(HOUR)
            await alarms.run_due()
            for _, fire in await alarms.inbox():
                handed += 1
                await alarms.report(fire.id, ReportRequest(outcome="completed", cost=0.4))
        # 0.4 + 0.4 + 0.4: what is under way when the limit is met is not taken back.
        assert handed == 3 + 3
        skipped = [fire for fire in await alarms.fires(alarm.id, limit=100) if fire.status == "skipped"]
        assert {fire.reason for fire in skipped} == {"budget"}
        assert handed + sum(fire.count for fire in skipped) == 30
        assert "a cost of 1 in one day" in (await told(alarms, "budget_reached"))[0]


async def test_an_ordinary_flood_of_one_owner_is_not_touched(db: dict[str, Any]) -> None:
    clock = ManualClock()
    async with opened(db, clock) as alarms:
        wakes: list[str] = []

        @alarms.handler("agent")
        async def agent(wake: wakeful.Wake) -> str:
            wakes.append(wake.fire_id)
            return "done"

        asked = [
            wakeful.CreateRequest(wake_message=str(number), delay_seconds=1, target="agent") for number in range(2000)
        ]
        await alarms.create_many(asked)
        await clock.advance(1)
        await alarms.run_due()
        assert len(wakes) == 2000
        assert await told(alarms, "deferred") == []

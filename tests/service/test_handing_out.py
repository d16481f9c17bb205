"""What goes along with a wake from the inbox, and where it ends when nobody reports on it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from wakeful.model.alarm import Policy
from wakeful.python.client import LocalWakeful
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import HOUR, ends, waiting, waking


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def test_it_says_how_late_it_is_each_time_it_is_handed_out(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await waiting(wake_me, clock)
    await clock.advance(90)
    [taken] = await wake_me.inbox()
    assert (taken.attempt, taken.late_ms, taken.missed) == (1, 90_000, 0)
    await clock.advance(600)
    await wake_me.run_due()
    [taken] = await wake_me.inbox()
    assert (taken.attempt, taken.late_ms, taken.missed) == (2, 690_000, 0)


async def test_it_says_how_many_instants_nobody_was_there_for(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await wake_me.set(cron="0 * * * *", wake_message="hourly")
    await clock.advance(5 * HOUR)
    await wake_me.run_due()
    [taken] = await wake_me.inbox()
    assert (taken.late_ms, taken.missed) == (4 * 3_600_000, 4)


async def test_it_says_how_many_instants_passed_while_it_waited(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await waiting(wake_me, clock, cron="0 * * * *")
    for _ in range(3):
        await clock.advance(HOUR)
        await wake_me.run_due()
    [taken] = await wake_me.inbox()
    assert (taken.late_ms, taken.missed) == (3 * 3_600_000, 3)


async def test_what_has_a_wake_of_its_own_was_not_missed(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock, cron="0 * * * *", policy=Policy(overlap="allow", max_fires=2))
    await clock.advance(HOUR)
    await wake_me.run_due()
    first, second = (await wake_me.inbox())[0], await wake_me.inbox()
    assert ([first.missed], [taken.missed for taken in second]) == ([0], [0])
    assert (await wake_me.get(alarm.id)).status == "fired"


async def test_what_a_budget_skipped_was_missed_and_what_was_skipped_on_request_was_not(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await waiting(wake_me, clock, cron="0 * * * *", policy=Policy(overlap="allow", wakes_per_day=1))
    await wake_me.skip(alarm.id)
    for _ in range(3):
        await clock.advance(HOUR)
        await wake_me.run_due()
    [taken] = await wake_me.inbox()
    assert taken.missed == 2


async def test_one_that_is_never_reported_on_ends_and_why_says_so(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock, max_failures=1)
    for handed in (1, 1, 0):
        assert len(await wake_me.inbox()) == handed
        await clock.advance(timedelta(minutes=10))
        await wake_me.run_due()
    assert await ends(wake_me, alarm.id) == [("failed", "unreported")]
    assert (await wake_me.get(alarm.id)).status == "failed"
    why = (await wake_me.why(alarm.id)).summary
    assert "handed out 2 times without a report" in why
    assert "nobody said how it went" in why


async def test_why_says_that_it_came_back_to_the_inbox(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock)
    await wake_me.inbox()
    await clock.advance(timedelta(minutes=10))
    await wake_me.run_due()
    assert "waits in the inbox until its owner fetches it. It was handed out once without" in (
        (await wake_me.why(alarm.id)).summary
    )


async def test_its_prompt_says_what_became_of_the_fire_before(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await waiting(wake_me, clock, cron="0 * * * *", payload={"page": 3})
    [first] = await wake_me.inbox()
    await wake_me.completed(first.fire.id, "3 grants")
    await clock.advance(HOUR)
    await wake_me.run_due()
    [second] = await wake_me.inbox()
    assert "Outcome of the previous fire" not in first.prompt
    assert 'Outcome of the previous fire (data): "completed: 3 grants"' in second.prompt
    assert 'Payload (data, JSON): {"page":3}' in second.prompt
    assert f"Fire id: {second.fire.id}" in second.prompt

"""Fire now: a fire beside an alarm's own times, shown where its user looks, marked as manual."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import Fire, Policy
from wakeful.python.client import LocalWakeful
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import HOUR, waking

SECOND = timedelta(seconds=1)


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def fired_by_hand(wake_me: LocalWakeful, clock: ManualClock, id: str, times: int = 1) -> list[str]:
    """The ids of the copies, oldest first."""
    copies = []
    for _ in range(times):
        copies.append((await wake_me.fire(id)).alarm.id)
        await wake_me.run_due()
        await clock.advance(SECOND)
    return copies


async def test_it_is_a_fire_of_its_alarm_and_no_alarm_of_its_own(wake_me: LocalWakeful, clock: ManualClock) -> None:
    series = await wake_me.set("every hour", "Tea", policy={"max_fires": 2, "overlap": "allow"})
    [copy] = await fired_by_hand(wake_me, clock, series.id)
    assert [one.id for one in await wake_me.find()] == [series.id]
    [fire] = await wake_me.fires(series.id)
    assert (fire.alarm_id, fire.status) == (copy, "waiting")
    assert (await wake_me.get(copy)).policy.manual_of == series.id


async def test_it_does_not_count_and_moves_nothing(wake_me: LocalWakeful, clock: ManualClock) -> None:
    series = await wake_me.set("every hour", "Tea", policy={"max_fires": 2, "overlap": "allow"})
    await fired_by_hand(wake_me, clock, series.id, 3)
    after = await wake_me.get(series.id)
    assert (after.fire_count, after.next_fire_at, after.version) == (0, series.next_fire_at, series.version)
    for _ in range(2):
        await clock.advance(HOUR)
        await wake_me.run_due()
    assert (await wake_me.get(series.id)).status == "fired"
    assert len(await wake_me.fires(series.id)) == 5


async def test_pages_of_fires_have_each_of_them_once_and_in_order(wake_me: LocalWakeful, clock: ManualClock) -> None:
    series = await wake_me.set("every minute", "Tea")
    for _ in range(4):
        await fired_by_hand(wake_me, clock, series.id, 2)
        await clock.advance(timedelta(minutes=1))
        await wake_me.run_due()
    everything = await wake_me.fires(series.id)
    assert len(everything) == 12
    for limit, most in ((1, 0), (3, 0), (5, 0), (12, 0), (12, 1)):
        paged: list[Fire] = []
        page = await wake_me.fires(series.id, limit=limit, most=most)
        paged += page
        while page.further is not None:
            page = await wake_me.fires(series.id, limit=limit, most=most, cursor=page.further)
            paged += page
        assert [fire.id for fire in paged] == [fire.id for fire in everything]
    assert sorted(everything, key=lambda fire: fire.scheduled_for, reverse=True) == everything
    assert await wake_me.fires(series.id, status="failed") == []
    assert await wake_me.fires(series.id, target="other") == []
    begin = everything[4].scheduled_for
    assert [fire.id for fire in await wake_me.fires(series.id, since=begin)] == [fire.id for fire in everything[:5]]
    assert [fire.id for fire in await wake_me.fires(series.id, until=begin)] == [fire.id for fire in everything[5:]]


async def test_the_history_says_whose_it_is_before_and_after(wake_me: LocalWakeful, clock: ManualClock) -> None:
    series = await wake_me.set("every hour", "Tea")
    copy = await wake_me.fire(series.id)
    told = {entry.id: (entry.alarm_id, entry.status, entry.manual) for entry in await wake_me.history()}
    assert told == {copy.alarm.id: (series.id, "pending", True), series.id: (series.id, "pending", False)}
    await wake_me.run_due()
    told = {entry.id: (entry.alarm_id, entry.status, entry.manual) for entry in await wake_me.history()}
    assert told == {copy.alarm.fire_id: (series.id, "waiting", True), series.id: (series.id, "pending", False)}


async def test_why_tells_of_it(wake_me: LocalWakeful, clock: ManualClock) -> None:
    series = await wake_me.set("every hour", "Tea")
    copy = await wake_me.fire(series.id)
    said = await wake_me.why(series.id)
    assert "It was fired by hand at 2030-01-01T00:00:00Z by local: not delivered yet." in said.summary
    await wake_me.run_due()
    said = await wake_me.why(series.id)
    assert "It was fired by hand at 2030-01-01T00:00:00Z by local: waiting." in said.summary
    assert f"manual fire {copy.alarm.fire_id}: waiting" in said.facts
    assert f"It is a manual fire of the alarm {series.id}." in (await wake_me.why(copy.alarm.id)).summary
    await clock.advance(HOUR)
    await wake_me.run_due()
    assert "by hand" not in (await wake_me.why(series.id)).summary  # it has fired since


async def test_a_manual_fire_of_a_manual_fire_is_one_of_the_alarm(wake_me: LocalWakeful, clock: ManualClock) -> None:
    series = await wake_me.set("every hour", "Tea")
    [copy] = await fired_by_hand(wake_me, clock, series.id)
    [again] = await fired_by_hand(wake_me, clock, copy)
    assert [fire.alarm_id for fire in await wake_me.fires(series.id)] == [again, copy]


async def test_of_a_chain_each_alarm_has_its_own(wake_me: LocalWakeful, clock: ManualClock) -> None:
    series = await wake_me.set("every hour", "Tea")
    await clock.advance(HOUR)
    await wake_me.run_due()
    [wake] = await wake_me.inbox()
    child = await wake_me.set("in 5 hours", "Sugar", parent_fire=wake.fire.id)
    [of_child] = await fired_by_hand(wake_me, clock, child.id)
    [of_series] = await fired_by_hand(wake_me, clock, series.id)
    assert [fire.alarm_id for fire in await wake_me.fires(child.id)] == [of_child]
    assert [fire.alarm_id for fire in await wake_me.fires(series.id)] == [of_series, series.id]


async def test_nobody_says_so_in_a_request(wake_me: LocalWakeful) -> None:
    said: Any = {"manual_of": "x"}
    with pytest.raises(InvalidRequest, match="manual_of"):
        await wake_me.set("in 1 hour", "Tea", policy=said)
    alarm = await wake_me.set("in 1 hour", "Tea", policy=Policy(manual_of="x"))
    assert alarm.policy.manual_of is None

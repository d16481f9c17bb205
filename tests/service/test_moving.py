"""Many alarms are moved or cancelled by the time at which they fire, and moved to another zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.python.client import LocalWakeful
from wakeful.rules.plan import coming
from wakeful.store import Store
from wakeful.testing import NEW_YEAR, ManualClock

from .world import HOUR, waking

DAY = timedelta(days=1)
TOMORROW: dict[str, Any] = {"due_from": "tomorrow", "due_to": "tomorrow"}


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def test_what_fires_tomorrow_is_moved_to_the_day_after(wake_me: LocalWakeful) -> None:
    today = await wake_me.set(at=NEW_YEAR + 23 * HOUR, wake_message="x")
    first = await wake_me.set(at=NEW_YEAR + DAY, wake_message="x")
    last = await wake_me.set(at=NEW_YEAR + 2 * DAY - HOUR, wake_message="x")
    after = await wake_me.set(at=NEW_YEAR + 2 * DAY, wake_message="x")
    would = await wake_me.move_many(**TOMORROW, by="1d", dry_run=True)
    assert {one.id for one in would.alarms} == {first.id, last.id}
    assert (await wake_me.get(first.id)).version == 1
    moved = await wake_me.move_many(**TOMORROW, by="1d")
    assert {one.id: one.next_fire_at for one in moved.alarms} == {
        first.id: first.next_fire_at + DAY,
        last.id: last.next_fire_at + DAY,
    }
    for alarm in (today, after):
        assert (await wake_me.get(alarm.id)).next_fire_at == alarm.next_fire_at


async def test_whole_days_keep_the_time_of_day_where_clocks_change(wake_me: LocalWakeful, clock: ManualClock) -> None:
    # In Berlin clocks go forward in the night to the 31st.
    await clock.advance(datetime(2030, 3, 29, tzinfo=UTC) - clock.now())
    alarm = await wake_me.set("tomorrow at 9am", "x", timezone="Europe/Berlin")
    [moved] = (await wake_me.move_many([alarm.id], by="1d")).alarms
    assert moved.next_fire_at == alarm.next_fire_at + 23 * HOUR
    [moved] = (await wake_me.move_many([alarm.id], by="90m")).alarms
    assert moved.next_fire_at == alarm.next_fire_at + 24.5 * HOUR


async def test_of_a_series_the_next_fire_moves(wake_me: LocalWakeful) -> None:
    series = await wake_me.set("every monday at 9am", "x")
    [moved] = (await wake_me.move_many([series.id], by="1d")).alarms
    assert moved.next_fire_at == series.next_fire_at + DAY
    assert next(coming(moved)) in (series.next_fire_at + 7 * DAY, series.next_fire_at + DAY)


async def test_what_is_cancelled_tomorrow_leaves_series_out_that_day_only(wake_me: LocalWakeful) -> None:
    once = await wake_me.set(at=NEW_YEAR + DAY + HOUR, wake_message="x")
    daily = await wake_me.set("every day at 9am", "x", policy={"starts_at": NEW_YEAR + DAY})
    hourly = await wake_me.set("every hour", "x", policy={"starts_at": NEW_YEAR + DAY})
    before = await wake_me.set("every 6 hours", "x")
    would = await wake_me.cancel_many(**TOMORROW, dry_run=True)
    assert ({one.id for one in would.alarms}, would.skipped) == ({once.id, daily.id, hourly.id}, 2)
    done = await wake_me.cancel_many(**TOMORROW)
    assert done.skipped == 2
    assert (await wake_me.get(once.id)).status == "cancelled"
    for series in (daily, hourly):
        now_is = await wake_me.get(series.id)
        assert (now_is.status, now_is.next_fire_at >= NEW_YEAR + 2 * DAY) == ("active", True)
    assert (await wake_me.get(before.id)).version == before.version
    assert done.notes == [f"1 series fires then, but also before that, and stays as it is: {before.id}."]


async def test_a_series_that_ends_then_is_cancelled(wake_me: LocalWakeful) -> None:
    bounds: Any = {"starts_at": NEW_YEAR + DAY, "ends_at": NEW_YEAR + 2 * DAY - HOUR}
    series = await wake_me.set("every hour", "x", policy=bounds)
    await wake_me.cancel_many(**TOMORROW)
    assert (await wake_me.get(series.id)).status == "cancelled"


async def test_all_alarms_move_to_another_zone(wake_me: LocalWakeful) -> None:
    series = await wake_me.set("every day at 9am", "x", timezone="Europe/Berlin")
    once = await wake_me.set("tomorrow at 9am", "x", timezone="Europe/Berlin")
    paused = await wake_me.set("every day at 9am", "y", timezone="Europe/Berlin")
    await wake_me.pause(paused.id)
    moved = await wake_me.move_many(everything=True, timezone="Asia/Tokyo")
    assert {(one.id, one.timezone) for one in moved.alarms} == {(x.id, "Asia/Tokyo") for x in (series, once, paused)}
    assert (await wake_me.get(once.id)).next_fire_at == once.next_fire_at
    assert [at.hour for at in islice(coming(await wake_me.get(series.id)), 2)] == [0, 0]


async def test_what_cannot_be_moved_is_told_and_the_others_are(wake_me: LocalWakeful) -> None:
    first = await wake_me.set("in 1 hour", "a")
    paused = await wake_me.set("every day at 9am", "b")
    await wake_me.pause(paused.id)
    moved = await wake_me.move_many([first.id, paused.id], by="1d")
    assert [one.id for one in moved.alarms] == [first.id]
    assert [note.partition(":")[0] for note in moved.notes] == [f"{paused.id} was not moved"]
    with pytest.raises(Conflict):
        await wake_me.move_many([paused.id], by="1d")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"by": "1d"}, "ids"),
        ({"everything": True}, "by"),
        ({"everything": True, "by": "1d", "timezone": "Asia/Tokyo"}, "by"),
        ({"everything": True, "by": "soon"}, "by"),
        ({"everything": True, "timezone": "Mars"}, "timezone"),
        ({"due_from": "blue", "by": "1d"}, "due_from"),
        ({"due_from": "tomorrow", "due_to": "in 1 hour", "by": "1d"}, "due_to"),
        ({"ids": ["k"], "due_to": "tomorrow", "by": "1d"}, "ids"),
    ],
)
async def test_what_is_not_understood_moves_nothing(wake_me: LocalWakeful, asked: dict[str, Any], field: str) -> None:
    alarm = await wake_me.set("in 1 hour", "x", key="k")
    with pytest.raises(InvalidRequest) as refused:
        await wake_me.move_many(**asked)
    assert refused.value.field == field
    assert (await wake_me.get(alarm.id)).version == 1


async def test_a_name_that_is_not_found_moves_nothing(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("in 1 hour", "x", key="k")
    with pytest.raises(NotFound):
        await wake_me.move_many(["k", "nobody"], by="1d")
    assert (await wake_me.get(alarm.id)).version == 1


async def test_another_owners_alarms_are_not_moved(wake_me: LocalWakeful) -> None:
    theirs = await wake_me.for_owner("ben").set("in 1 hour", "x")
    assert (await wake_me.for_owner("ana").move_many(everything=True, by="1d")).alarms == []
    assert (await wake_me.for_owner("ben").get(theirs.id)).version == 1

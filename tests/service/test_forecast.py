"""The days to come in simulated time: the real dispatcher over a copy of the alarms, with nothing sent and changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from wakeful.errors import InvalidRequest
from wakeful.process.forecast import Down, Forecast, JumpingClock, forecast
from wakeful.python.client import LocalWakeful
from wakeful.settings import Settings
from wakeful.settings.tables import BudgetSettings, CalendarSettings, CheckSettings
from wakeful.store import AlarmQuery, FireQuery, Store, TargetState
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock

from .world import waking

DAY = timedelta(days=1)
Scratch = Callable[[JumpingClock], Store]


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return lambda clock: SqliteStore(str(tmp_path / "simulated.db"), clock=clock)


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def coming(store: Store, scratch: Scratch, *down: Down, settings: Settings | None = None) -> Forecast:
    chosen = settings or Settings()
    return await forecast(store, scratch, chosen, concurrency={"inbox": 3}, length=2 * DAY, down=down, cost=0.5)


async def test_fires_are_counted_by_hour_and_target_and_nothing_is_changed(
    wake_me: LocalWakeful, store: Store, scratch: Scratch
) -> None:
    hourly = await wake_me.set("0 * * * *", "hourly")
    once = await wake_me.set("in 90 minutes", "Tea")
    cancelled = await wake_me.set("in 90 minutes", "Coffee")
    await wake_me.cancel(cancelled.id)
    before = list(await store.find(AlarmQuery()))
    found = await coming(store, scratch)
    assert (found.alarms, found.fires, found.skipped, found.late) == (2, 49, 0, 0)
    assert sum(hour.fires for hour in found.hours) == 49
    with_tea = once.next_fire_at.replace(minute=0, second=0, microsecond=0)
    assert [hour.hour for hour in found.hours if hour.fires == 2] == [with_tea]
    assert list(await store.find(AlarmQuery())) == before
    assert not await store.fires(FireQuery(alarm_id=hourly.id))


async def test_while_no_worker_runs_fires_are_late_or_missed(
    wake_me: LocalWakeful, store: Store, scratch: Scratch
) -> None:
    await wake_me.set("0 * * * *", "hourly", label="hourly")
    found = await coming(store, scratch, Down(time(2, 30), time(5, 30)))
    assert [(late.label, late.scheduled_for.hour, late.started_at.time()) for late in found.late_fires] == [
        ("hourly", 3, time(5, 30)),
        ("hourly", 3, time(5, 30)),
    ]
    assert [(run.reason, run.first.hour, run.count) for run in found.skips] == [("missed", 4, 2), ("missed", 4, 2)]
    assert (found.fires, found.skipped, found.late) == (44, 4, 2)


@pytest.mark.parametrize(
    ("moment", "ends"),
    [
        ("2030-01-01T22:59:59", None),
        ("2030-01-01T23:00:00", "2030-01-02T04:00:00"),
        ("2030-01-02T03:59:59", "2030-01-02T04:00:00"),
        ("2030-01-02T04:00:00", None),
    ],
)
def test_a_pause_of_the_workers_may_pass_midnight(moment: str, ends: str | None) -> None:
    at = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    back = Down(time(23), time(4)).end(at, UTC)
    assert back == (None if ends is None else datetime.fromisoformat(ends).replace(tzinfo=UTC))


async def test_minutes_in_which_a_target_gets_more_than_it_takes_are_collisions(
    wake_me: LocalWakeful, store: Store, scratch: Scratch
) -> None:
    for number in range(4):
        await wake_me.set("in 90 minutes", f"Tea {number}")
    await wake_me.set("in 3 hours", "alone")
    [collision] = (await coming(store, scratch)).collisions
    assert (collision.target, collision.fires, collision.concurrency) == ("inbox", 4, 3)


async def test_what_a_budget_leaves_out_is_told_by_day(wake_me: LocalWakeful, store: Store, scratch: Scratch) -> None:
    await wake_me.set("0 * * * *", "hourly", label="hourly")
    budget = BudgetSettings(owner_wakes_per_day=20)
    found = await coming(store, scratch, settings=Settings(budget=budget))
    full = found.budgets[1]
    assert (full.wakes, full.cost, full.wakes_per_day, full.over_budget) == (20, 10.0, 20, 4)
    assert {run.reason for run in found.skips} == {"budget"}


async def test_holidays_and_clock_changes_are_told(
    store: Store, clock: ManualClock, scratch: Scratch, tmp_path: Path
) -> None:
    (tmp_path / "off.ics").write_text(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20300101T000000Z\r\n"
        "DTSTART;VALUE=DATE:20300331\r\nSUMMARY:Stocktaking\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    await clock.advance(datetime(2030, 3, 30, 12, tzinfo=UTC) - clock.now())
    calendars = {"office": CalendarSettings(ics=str(tmp_path / "off.ics"))}
    wake_me = waking(store, clock, calendars=calendars)
    await wake_me.set("every day at 9am", "plan", timezone="Europe/Berlin", policy={"calendar": "office"})
    found = await coming(store, scratch, settings=Settings(calendars=calendars))
    assert [(run.reason, run.count) for run in found.skips] == [("holiday", 1)]
    assert "Stocktaking" in found.skips[0].detail
    [change] = found.clock_changes
    assert (change.zone, change.at, change.seconds, change.alarms) == (
        "Europe/Berlin",
        datetime(2030, 3, 31, 1, tzinfo=UTC),
        3600,
        1,
    )


async def test_checks_are_not_made(store: Store, clock: ManualClock, scratch: Scratch) -> None:
    checks = {"mail": CheckSettings(sql="select 1")}
    await waking(store, clock, checks=checks).set("0 * * * *", "hourly", policy={"only_if": "mail"})
    found = await coming(store, scratch, settings=Settings(checks=checks))
    assert (found.fires, found.skipped) == (48, 0)


async def test_a_target_that_is_paused_gets_nothing(
    wake_me: LocalWakeful, store: Store, clock: ManualClock, scratch: Scratch
) -> None:
    await wake_me.set("0 * * * *", "hourly")
    await store.maintenance.set_target_state(TargetState(target="inbox", paused_at=clock.now(), updated_at=clock.now()))
    assert (await coming(store, scratch)).fires == 0


async def test_too_long_a_time_is_refused(store: Store, scratch: Scratch) -> None:
    with pytest.raises(InvalidRequest, match="from 1 to 366"):
        await forecast(store, scratch, Settings(), concurrency={}, length=400 * DAY)

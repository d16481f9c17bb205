"""Alarms obey the law: a database set by one edition of the zone data, dispatched by another, on both stores."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.acting import Draft, keep
from tests.zone_worlds import (
    ALWAYS_SUMMER_TIME,
    BERLIN,
    NO_SUMMER_TIME,
    TODAY,
    TOMORROW,
    machine,
    process_on,
)
from wakeful.dispatcher import upkeep
from wakeful.model.alarm import Alarm, Change
from wakeful.model.outcome import Delivered, Try
from wakeful.rules.settle import settle
from wakeful.runtime.metrics import Metrics
from wakeful.schedule.zone_rules import ZoneRules
from wakeful.store import EventQuery
from wakeful.store.maintenance import Edition, adopt_newer_rules, keep_edition
from wakeful.testing import ManualClock

from .conftest import OWNER, World

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MAY = datetime(2027, 5, 3, tzinfo=UTC)
JULY = datetime(2027, 7, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MAY)


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return machine(tmp_path / TODAY, TODAY)


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return machine(tmp_path / TOMORROW, TOMORROW, Berlin=NO_SUMMER_TIME)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with process_on(None):
        yield


async def say(world: World, when: str) -> Alarm:
    draft = Draft(owner_did=OWNER, wake_message="wake up", target="desk", when=when, timezone=BERLIN)
    return (await keep(world.service, draft)).alarm


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    process = world.another()
    task = asyncio.create_task(process.run())
    yield
    process.stop()
    await task


async def set_up(world: World, before: Path) -> tuple[Alarm, Alarm, Alarm]:
    """A daily and a yearly series and a one-shot, set and run for a while under the first edition."""
    with process_on(before):
        daily = await world.set(cron="0 9 * * *", timezone=BERLIN)
        yearly = await world.set(cron="0 9 1 7 *", timezone=BERLIN)
        once = await say(world, "2027-07-01 09:00")
        await world.another().run_due()
        assert (yearly.next_fire_at, once.next_fire_at) == (JULY + 7 * HOUR, JULY + 7 * HOUR)
    return daily, yearly, once


async def test_alarms_fire_at_their_wall_time_by_the_new_rules(world: World, before: Path, after: Path) -> None:
    daily, yearly, once = await set_up(world, before)
    metrics = Metrics()
    with process_on(after):
        process = world.another(metrics=metrics)
        await process.run_due()
        assert (await world.read(daily)).next_fire_at == MAY + 8 * HOUR
        assert (await world.read(yearly)).next_fire_at == JULY + 8 * HOUR
        assert (await world.read(once)).next_fire_at == (await world.read(once)).fire_at == JULY + 8 * HOUR
        for hour in range(6, 10):
            await world.clock.advance(MAY + hour * HOUR - world.clock.now())
            await process.run_due()
            assert len(world.desk.wakes) == (1 if hour >= 8 else 0), hour
    [event] = [event for _, event in await world.store.events(EventQuery(alarm_id=yearly.id))]
    assert event.what == "rezoned"
    assert "2027-07-01T07:00:00+00:00 is now 2027-07-01T08:00:00+00:00" in event.reason
    assert b"wakeful_rezoned_total 3.0" in metrics.exposition()[0]


async def test_alarms_set_before_any_worker_ran_follow_the_law_too(world: World, before: Path, after: Path) -> None:
    """Set by a library, a command or an import under one edition; the first worker there is has the next."""
    with process_on(before):
        series = await world.set(cron="0 9 1 7 *", timezone=BERLIN)
        once = await say(world, "2027-07-01 09:00")
        [kept] = await world.store.maintenance.editions()
        assert (kept.version, kept.planned_at) == (TODAY, MAY)
    assert (series.next_fire_at, once.next_fire_at) == (JULY + 7 * HOUR, JULY + 7 * HOUR)
    with process_on(after):
        await world.another().run_due()
    for alarm in (series, once):
        assert (await world.read(alarm)).next_fire_at == JULY + 8 * HOUR


async def test_the_first_edition_is_looked_for_once(
    world: World, before: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with process_on(before):
        await asyncio.gather(*(world.set(cron="0 9 1 7 *", timezone=BERLIN) for _ in range(20)))
        [_] = await world.store.maintenance.editions()

        async def asked() -> list[Edition]:
            raise AssertionError("asked again")

        monkeypatch.setattr(world.store.maintenance, "editions", asked)
        monkeypatch.setattr(world.store.maintenance, "put_edition", asked)
        await world.set(cron="0 9 1 7 *", timezone=BERLIN)


async def test_two_first_editions_at_once_leave_no_alarm_behind(world: World, before: Path, after: Path) -> None:
    """Two processes with different data set their first alarms together: neither has seen what the other keeps."""
    with process_on(before):
        alarm = await world.set(cron="0 9 1 7 *", timezone=BERLIN)
    with process_on(after):
        await keep_edition(world.store.maintenance, TOMORROW)
        assert [kept.planned_at is None for kept in await world.store.maintenance.editions()] == [True, False]
        await world.another().run_due()
    assert (await world.read(alarm)).next_fire_at == JULY + 8 * HOUR


async def test_nothing_is_claimed_before_it_is_planned_again(world: World, before: Path, after: Path) -> None:
    """Due at 07:00 by the old rules; the process with the new ones starts at 07:30."""
    daily, _, _ = await set_up(world, before)
    await world.clock.advance(7.5 * HOUR)
    with process_on(after):
        assert await world.another().run_due() == 0
    assert (await world.read(daily)).next_fire_at == MAY + 8 * HOUR


async def test_a_running_dispatcher_plans_again_before_its_first_claim(world: World, before: Path, after: Path) -> None:
    """Due at 07:00 by the old rules, at 08:00 by the new ones."""
    daily, _, _ = await set_up(world, before)
    await world.clock.advance(8 * HOUR - 2 * MINUTE)
    with process_on(after):
        async with running(world):
            await world.clock.advance(MINUTE)
            assert world.desk.wakes == []
            await world.clock.advance(2 * MINUTE)
        assert [wake.alarm.id for wake in world.desk.wakes] == [daily.id]


async def test_the_edition_is_kept_once_and_the_one_before_it(world: World, before: Path, after: Path) -> None:
    await set_up(world, before)
    [kept] = await world.store.maintenance.editions()
    assert (kept.version, kept.since, kept.planned_at) == (TODAY, MAY, MAY)
    with process_on(after):
        process = world.another()
        await process.run_due()
        newest, former = await world.store.maintenance.editions()
        assert (newest.version, newest.planned_at, former.version) == (TOMORROW, None, TODAY)
        await world.clock.advance(60)
        await process.run_due()
        assert (await world.store.maintenance.editions())[0].planned_at == MAY + timedelta(minutes=1)
    packed = await world.store.maintenance.zone_rules(TOMORROW)
    assert packed is not None
    assert ZoneRules.unpacked(TOMORROW, packed).data[BERLIN] == NO_SUMMER_TIME
    assert await world.store.maintenance.zone_rules("2029a") is None
    await world.store.maintenance.put_edition("2031a", packed)
    await world.store.maintenance.note_planned("2031a")
    assert [one.version for one in await world.store.maintenance.editions()] == ["2031a", TOMORROW]


async def test_an_edition_in_which_no_rule_changed_moves_nothing(world: World, before: Path, tmp_path: Path) -> None:
    daily, _, _ = await set_up(world, before)
    with process_on(machine(tmp_path / "same", TOMORROW)):
        await world.another().run_due()
    assert (await world.read(daily)).version == 1
    assert (await world.store.maintenance.editions())[0].planned_at is not None


@pytest.mark.parametrize("opened", [True, False], ids=["opened before", "found at a tick"])
async def test_a_process_with_older_data_goes_by_the_newer_rules_and_says_so(
    world: World, before: Path, after: Path, caplog: pytest.LogCaptureFixture, opened: bool
) -> None:
    daily, _, _ = await set_up(world, before)
    with process_on(after):
        await world.another().run_due()
    with process_on(before), caplog.at_level(logging.WARNING):
        if opened:
            await adopt_newer_rules(world.store.maintenance)  # as whoever opens the database does
        process = world.another()
        await process.run_due()
        await world.clock.advance(8 * HOUR)
        await process.run_due()
        later = await say(world, "2027-08-01 09:00")
    assert later.next_fire_at == datetime(2027, 8, 1, 8, tzinfo=UTC)
    assert (await world.read(daily)).next_fire_at == MAY + DAY + 8 * HOUR
    assert [one.version for one in await world.store.maintenance.editions()] == [TOMORROW, TODAY]
    [line] = [one.getMessage() for one in caplog.records if "older" in one.getMessage()]
    assert TODAY in line
    assert TOMORROW in line


@pytest.mark.parametrize("upgraded", [True, False], ids=["its machine was upgraded", "its machine has older data"])
async def test_a_process_that_only_sets_alarms_hears_of_newer_rules(
    world: World, before: Path, after: Path, upgraded: bool
) -> None:
    await set_up(world, before)
    with process_on(before):
        await adopt_newer_rules(world.store.maintenance)  # as whoever opens the database does
        assert (await say(world, "2027-08-01 09:00")).next_fire_at.hour == 7
        if upgraded:
            machine(before, TOMORROW, Berlin=NO_SUMMER_TIME)  # it has read its zones, and does not see this
        with process_on(after):
            await world.another().run_due()
        await world.clock.advance(31)
        assert (await say(world, "2027-08-01 09:00")).next_fire_at.hour == 8


async def test_data_that_is_upgraded_under_a_running_process_counts(world: World, before: Path) -> None:
    daily, yearly, _ = await set_up(world, before)
    with process_on(before):
        process = world.another()
        await process.run_due()
        machine(before, TOMORROW, Berlin=NO_SUMMER_TIME)
        await process.run_due()
        assert (await world.read(yearly)).next_fire_at == JULY + 7 * HOUR  # it may be half written: looked at twice
        await process.run_due()
        assert (await world.read(yearly)).next_fire_at == JULY + 8 * HOUR
        await world.clock.advance(8 * HOUR)
        await process.run_due()
    assert (await world.read(daily)).next_fire_at == MAY + DAY + 8 * HOUR


async def test_planning_again_goes_on_where_a_process_died(
    world: World, before: Path, after: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SCAN_LIMIT", 2)
    with process_on(before):
        alarms = [await world.set(cron="0 9 1 7 *", timezone=BERLIN) for _ in range(5)]
        await world.another().run_due()
    with process_on(after):
        dying = world.another()
        assert not await dying._zones.step()
        moved = [(await world.read(alarm)).next_fire_at.hour for alarm in alarms]
        assert sorted(moved) == [7, 7, 7, 8, 8]
    with process_on(after):
        await world.another().run_due()
    for alarm in alarms:
        assert (await world.read(alarm)).next_fire_at == JULY + 8 * HOUR
        assert [event.what for _, event in await world.store.events(EventQuery(alarm_id=alarm.id))] == ["rezoned"]


async def test_what_another_process_planned_by_the_old_rules_meanwhile_is_planned_again(
    world: World, before: Path, after: Path
) -> None:
    """It had the alarm when the rules changed, and had not heard of them when it settled it."""
    daily, _, _ = await set_up(world, before)
    await world.clock.advance(7 * HOUR)
    with process_on(before):
        claimed = await world.store.claim({"desk": 1}, lease=timedelta(minutes=1))
    with process_on(after):
        process = world.another()
        await process.run_due()
    with process_on(before):
        now = world.clock.now()
        change = settle(claimed.alarms[0], None, Delivered("HTTP 200"), Try(now, now))
        assert change.after.next_fire_at == MAY + DAY + 7 * HOUR
    assert [one.what for one in await world.store.settle([change])] == ["applied"]
    with process_on(after):
        process = world.another()
        await process.run_due()
        await world.clock.advance(60)
        await process.run_due()
    assert (await world.read(daily)).next_fire_at == MAY + DAY + 8 * HOUR


async def test_a_change_that_was_not_finished_is_finished_before_the_next(
    world: World, before: Path, after: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SCAN_LIMIT", 1)
    _, yearly, once = await set_up(world, before)
    with process_on(after):
        await world.another()._zones.step()
    await world.clock.advance(60)
    with process_on(machine(tmp_path / "next", "2030c", Berlin=ALWAYS_SUMMER_TIME)):
        process = world.another()
        await process.run_due()
        await process.run_due()
        late = await say(world, "2027-12-01 09:00")
    assert late.next_fire_at.hour == 7
    assert [one.version for one in await world.store.maintenance.editions()] == ["2030c", TOMORROW]
    assert (await world.read(yearly)).next_fire_at == (await world.read(once)).next_fire_at == JULY + 7 * HOUR


async def test_a_row_that_cannot_be_planned_keeps_no_other_waiting(world: World, before: Path, after: Path) -> None:
    _, yearly, once = await set_up(world, before)
    broken = await world.read(once)
    spoilt = replace(broken, cron_expr="half past nine")
    change = Change(claim=broken.claim, version=broken.version, after=spoilt, edited=True)
    assert [one.what for one in await world.store.settle([change])] == ["applied"]
    with process_on(after):
        await world.another().run_due()
    assert (await world.read(yearly)).next_fire_at == JULY + 8 * HOUR


async def test_data_that_cannot_be_read_just_now_stops_nobody(
    world: World, before: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unread(_: str) -> ZoneRules:
        raise OSError(24, "Too many open files")

    with process_on(before):
        process = world.another()
        with monkeypatch.context() as patch:
            patch.setattr("wakeful.store.maintenance.rules_here", unread)
            await world.set(1)
            await world.clock.advance(1)
            for _ in range(3):
                await process.run_due()
            assert (len(world.desk.wakes), await world.store.maintenance.editions()) == (1, [])
        await process.run_due()
        assert len(await world.store.maintenance.editions()) == 1
    assert caplog.text.count("the time zone data cannot be read, trying again") == 1

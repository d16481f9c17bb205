"""Rules whose next fire takes long to find, first of all those that count: it is found beside the event loop (I6).

Nobody's request is behind it: an owner with many such alarms, due together, would keep everybody's wakes waiting.
"""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.zone_worlds import BERLIN, NO_SUMMER_TIME, TODAY, TOMORROW, machine, process_on
from wakeful.model.alarm import Alarm
from wakeful.model.outcome import Delivered
from wakeful.schedule import recurrence_schedule, zone
from wakeful.schedule.recurrence_schedule import RuleSchedule
from wakeful.testing import ManualClock

from .conftest import World

PASSED = 400  # fires of a rule before it is looked at
FEW = 10  # that may be counted in the event loop


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2027, 5, 3, tzinfo=UTC))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How many fires were searched for: in the event loop's thread (True), and in others."""
    found: Counter[bool] = Counter()
    loops, search = threading.get_ident(), RuleSchedule.search_uncounted

    def noted(self: RuleSchedule, asked: datetime) -> datetime | None:
        found[threading.get_ident() == loops] += 1
        return search(self, asked)

    monkeypatch.setattr(RuleSchedule, "search_uncounted", noted)
    return found


async def counting_alarm(world: World, number: int = 0, **given: Any) -> Alarm:
    """A daily alarm, due in a second, that has fired often; nothing is remembered of its schedule."""
    due = world.clock.now() + timedelta(seconds=1)
    begun = due - timedelta(days=PASSED + number)
    alarm = await world.set(cron=f"DTSTART:{begun:%Y%m%dT%H%M%S}Z RRULE:FREQ=DAILY;COUNT=5000", **given)
    assert alarm.next_fire_at <= due
    return alarm


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[object, ...], Any]:
    """Schedules of this process that can be forgotten, as by a restart."""
    known: dict[tuple[object, ...], Any] = {}

    def shared(recurrence: Any, timezone: str, anchor: datetime | None) -> Any:
        key = (recurrence, zone(timezone), anchor)
        if key not in known:
            known[key] = recurrence_schedule._build(*key)
        return known[key]

    monkeypatch.setattr(recurrence_schedule, "_shared", shared)
    return known


async def test_its_fires_are_counted_in_a_thread_when_it_is_due(
    world: World, counted: Counter[bool], forgetful: dict[tuple[object, ...], Any]
) -> None:
    alarms = [await counting_alarm(world, number) for number in range(3)]
    forgetful.clear()
    counted.clear()
    assert await world.run_due(1) == 3
    assert len(world.desk.wakes) == 3
    assert counted[False] >= 3 * PASSED
    assert counted[True] <= 3 * FEW
    for alarm in alarms:
        assert (await world.read(alarm)).next_fire_at == alarm.next_fire_at + timedelta(days=1)


async def test_rules_that_are_searched_one_after_another_are_searched_in_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch, forgetful: dict[tuple[object, ...], Any]
) -> None:
    rare: Counter[bool] = Counter()
    loop, search = threading.get_ident(), RuleSchedule.search_uncounted

    def noted(self: RuleSchedule, asked: datetime) -> datetime | None:
        if self.rule.by_month_day:
            rare[threading.get_ident() == loop] += 1
        return search(self, asked)

    monkeypatch.setattr(RuleSchedule, "search_uncounted", noted)
    due = world.clock.now() + timedelta(seconds=1)
    daily, never = "RRULE:FREQ=DAILY", "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"
    alarm = await world.set(cron=f"DTSTART:{due:%Y%m%dT%H%M%S}Z {daily} {never}")
    forgetful.clear()
    rare.clear()
    assert await world.run_due(1) == 1
    assert (await world.read(alarm)).next_fire_at == alarm.next_fire_at + timedelta(days=1)
    assert rare[False] >= 1
    assert rare[True] == 0


async def test_its_fires_are_counted_in_a_thread_when_its_report_does_not_come(
    world: World, counted: Counter[bool], forgetful: dict[tuple[object, ...], Any]
) -> None:
    world.desk.answer(Delivered(awaits_report=True))
    alarm = await counting_alarm(world, policy={"report_within": 60.0, "on_silence": "again"})
    assert await world.run_due(1) == 1
    await world.clock.advance(61)
    forgetful.clear()
    counted.clear()
    assert await world.dispatcher._upkeep.sweep(world.clock.now()) == 1
    assert counted[False] >= PASSED
    assert counted[True] <= FEW
    [fire] = await world.fires(alarm)
    assert fire.status in ("retrying", "timed_out")


async def test_its_fires_are_counted_in_a_thread_when_the_rules_of_its_zone_change(
    world: World, counted: Counter[bool], tmp_path: Path
) -> None:
    before = machine(tmp_path / "before", TODAY)
    after = machine(tmp_path / "after", TOMORROW, Berlin=NO_SUMMER_TIME)
    begun = world.clock.now() - timedelta(days=PASSED)
    with process_on(before):
        rule = f"DTSTART;TZID={BERLIN}:{begun:%Y%m%d}T090000 RRULE:FREQ=DAILY;COUNT=5000"
        alarm = await world.set(cron=rule, timezone=BERLIN)
        await world.another().run_due()
    with process_on(after):
        counted.clear()
        await world.another().run_due()
    assert (await world.read(alarm)).next_fire_at == alarm.next_fire_at + timedelta(hours=1)
    assert counted[False] >= PASSED
    assert counted[True] <= FEW

"""The setting `bare_day_time`: the time of day of everything that only names a day."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import time, timedelta
from pathlib import Path

import pytest

import wakeful
from tests.remote.world import command
from wakeful.process.application import open_local
from wakeful.python.client import LocalWakeful
from wakeful.testing import NEW_YEAR, ManualClock

NOON = time(12)


@pytest.fixture
async def alarms(tmp_path: Path) -> AsyncIterator[LocalWakeful]:
    async with open_local(tmp_path / "w.db", clock=ManualClock(), bare_day_time="12:00") as alarms:
        yield alarms


async def test_it_counts_wherever_a_day_is_named(alarms: LocalWakeful) -> None:
    once = await alarms.set("friday", "Standup")
    assert once.next_fire_at.time() == NOON
    assert (await alarms.update(once.id, when="aug 3")).alarm.next_fire_at.time() == NOON
    assert (await alarms.snooze(once.id, until="aug 4")).alarm.next_fire_at.time() == NOON
    series = await alarms.set("every day", "Standup")
    assert series.next_fire_at == NEW_YEAR + timedelta(hours=12)
    assert (await alarms.skip(series.id, at="today")).alarm.next_fire_at == NEW_YEAR + timedelta(hours=36)
    [fire_at] = (await alarms.parse("next tuesday")).next(1)
    assert fire_at.time() == NOON


async def test_a_time_that_is_said_counts_as_before(alarms: LocalWakeful) -> None:
    for text, hour in (("friday at 8am", 8), ("friday morning", 9), ("tonight", 21)):
        assert (await alarms.parse(text)).next(1)[0].hour == hour


@pytest.mark.parametrize("wrong", ["noon", "24:00", "9:00", "", "12:00:00", "12:60"])
def test_what_is_no_time_of_day_is_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(wakeful.InvalidConfig, match="bare_day_time"):
        open_local(tmp_path / "w.db", bare_day_time=wrong)


def test_the_command_line_says_it_too(tmp_path: Path) -> None:
    code, out, told = command(["preview", "2030-08-03", "--tz", "UTC"], tmp_path, WAKEFUL_BARE_DAY_TIME="00:00")
    assert code == 0, told
    assert "2030-08-03T00:00:00Z" in out

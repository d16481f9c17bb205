"""Schedules are shared values, and importing them is cheap."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from wakeful.schedule import schedule, zone
from wakeful.schedule.cron import Cron

from .helpers import BERLIN, NOW


def test_the_same_expression_and_zone_are_one_value() -> None:
    assert schedule("0 9 * * 1-5", BERLIN) is schedule(" 0 9 * * 1-5", BERLIN)
    assert schedule("0 9 * * 1-5", BERLIN) is not schedule("0 9 * * 1-5", "UTC")


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    asked: list[datetime] = []
    search = Cron.search

    def counting(self: Cron, moment: datetime) -> datetime | None:
        asked.append(moment)
        return search(self, moment)

    monkeypatch.setattr(Cron, "search", counting)
    return asked


def test_many_fires_of_one_moment_cost_a_search_on_either_side(searches: list[datetime]) -> None:
    daily = schedule("11 9 * * *", BERLIN)
    occurrence = daily.after(NOW)
    assert occurrence is not None
    before = occurrence - timedelta(milliseconds=1)
    answers = {(daily.after(before), daily.after(occurrence)) for _ in range(1000)}
    assert answers == {(occurrence, occurrence + timedelta(days=1))}
    assert len(searches) == 2


def test_many_alarms_on_one_expression_cost_one_search(searches: list[datetime]) -> None:
    fires = {schedule("7 9 * * 1-5", BERLIN).after(NOW + n * timedelta(milliseconds=1)) for n in range(10_000)}
    assert len(fires) == 1
    assert len(searches) == 1


def test_a_search_that_found_nothing_is_not_made_again_that_day(searches: list[datetime]) -> None:
    never = Cron("*/5 2 * 3 SUN#2", zone("America/New_York"))
    assert {never.after(NOW + n * timedelta(minutes=1)) for n in range(1000)} == {None}
    assert len(searches) == 1
    assert never.after(NOW + timedelta(days=1)) is None
    assert never.after(NOW) is None  # who asks for a moment before is answered from there
    assert len(searches) == 3


def test_importing_it_loads_neither_the_rest_of_wakeful_nor_the_phrases() -> None:
    code = "import sys, wakeful.schedule; print(*[name for name in sys.modules if name.startswith(('wak', 'msgspec'))])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) <= {
        "wakeful",
        "wakeful._version",
        "wakeful.errors",
        "wakeful.schedule",
        *(f"wakeful.schedule.{name}" for name in ("cron", "expression", "interval", "names", "wall_schedule", "zones")),
    }

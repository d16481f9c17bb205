"""From one release of the zone data to the next: set under the first, run under the second for a year.

Always with releases made here; with `--long` with every pair of consecutive releases of the package tzdata since 2020a.
WAKEFUL_TEST_TZDATA names a folder with their wheels; without it pip downloads them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.acting import Draft, keep
from tests.zone_worlds import ALWAYS_SUMMER_TIME, NO_SUMMER_TIME, TODAY, TOMORROW, compiled, machine, process_on
from wakeful.model.alarm import Alarm, Fire
from wakeful.schedule import instant, zone
from wakeful.schedule.zone_rules import ZoneRules, differing, edition, rules_here
from wakeful.testing import ManualClock

from .conftest import OWNER, World

DAY = timedelta(days=1)
WEEKLY, MONTHLY = "0 9 * * 1", "30 2 10 * *"
BESIDE = "Europe/London"  # looked at in every pair: a zone that does not change
WHEELS = "WAKEFUL_TEST_TZDATA"
_RELEASES = (
    *("2020.1", "2020.2", "2020.3", "2020.4", "2020.5", "2021.1", "2021.2", "2021.3", "2021.4", "2021.5"),
    *("2022.1", "2022.2", "2022.3", "2022.4", "2022.5", "2022.6", "2022.7", "2023.1", "2023.2", "2023.3", "2023.4"),
    *("2024.1", "2024.2", "2025.1", "2025.2", "2025.3"),
    *("2026.1", "2026.2", "2026.3", "2026.4", "2026.5", "2026.6"),
)

# Where a folder is named, what is there.
RELEASES = [one for one in _RELEASES if WHEELS not in os.environ or list(Path(os.environ[WHEELS]).glob(f"*-{one}-*"))]


class Year:
    """Alarms in some zones, set at New Year; in April the second release comes; a year later they are counted."""

    def __init__(self, world: World, clock: ManualClock, year: int) -> None:
        self.world = world
        self.clock = clock
        self.begin = datetime(year, 1, 1, tzinfo=UTC)
        self.change = datetime(year, 4, 1, 12, tzinfo=UTC)
        self.change += (2 - self.change.weekday()) % 7 * DAY  # on a wednesday: no fire of theirs is near
        self.end = self.change + 365 * DAY
        self.alarms: dict[tuple[str, str], Alarm] = {}

    async def run(self, first: Path, second: Path, names: Iterable[str]) -> None:
        await self.clock.advance(self.begin - self.clock.now())
        with process_on(first):
            for name in names:
                await self._set(name)
            await self._until(self.change)
        with process_on(second):
            await self._until(self.end)
            for (name, said), alarm in self.alarms.items():
                self._check(name, said, alarm, await self.world.fires(alarm))

    async def _set(self, name: str) -> None:
        for cron in (WEEKLY, MONTHLY):
            self.alarms[name, cron] = await self._keep(cron_expr=cron, timezone=name)
        for month in range(12):
            day = (self.change + 30 * DAY * month).date() + 10 * DAY
            self.alarms[name, f"{day}"] = await self._keep(when=f"{day} 09:00", timezone=name)

    async def _keep(self, **asked: str) -> Alarm:
        draft = Draft(owner_did=OWNER, wake_message="wake up", target="desk", **asked)
        return (await keep(self.world.service, draft)).alarm

    async def _until(self, moment: datetime) -> None:
        """As a process that was just started, then from one due moment to the next."""
        process = self.world.another()
        await process.run_due()
        while (due := await self.world.store.next_due(["desk"])) is not None and due < moment:
            await self.clock.advance(max(due - self.clock.now(), timedelta(0)))
            await process.run_due()
        await self.clock.advance(moment - self.clock.now())

    def _check(self, name: str, said: str, alarm: Alarm, fires: list[Fire]) -> None:
        got = sorted(fire.scheduled_for for fire in fires if fire.scheduled_for > self.change)
        assert {fire.status for fire in fires} == {"delivered"}, (name, said)
        assert got == sorted(self._wanted(name, said)), (name, said)

    def _wanted(self, name: str, said: str) -> list[datetime]:
        tz, days = zone(name), [self.begin.date() + number * DAY for number in range(500)]
        if said == WEEKLY:
            walls = [datetime.combine(day, time(9)) for day in days if day.weekday() == 0]
        elif said == MONTHLY:
            walls = [datetime.combine(day, time(2, 30)) for day in days if day.day == 10]
        else:
            walls = [datetime.fromisoformat(f"{said}T09:00")]
        return [at for wall in walls if self.change < (at := instant(wall, tz)) < self.end]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2019, 12, 31, tzinfo=UTC))


@pytest.mark.parametrize(
    "rules",
    [NO_SUMMER_TIME, ALWAYS_SUMMER_TIME, compiled("CET-1CEST,M5.2.0,M9.1.0/3"), compiled("MSK-3", 3 * 3600)],
    ids=["no summer time", "always summer time", "a shorter summer", "another zone"],
)
async def test_a_year_after_a_change_of_the_law(world: World, clock: ManualClock, tmp_path: Path, rules: bytes) -> None:
    first, second = machine(tmp_path / TODAY, TODAY), machine(tmp_path / TOMORROW, TOMORROW, Berlin=rules)
    await Year(world, clock, 2027).run(first, second, ["Europe/Berlin", BESIDE])


@pytest.mark.long
@pytest.mark.parametrize(("former", "current"), list(pairwise(RELEASES)))
async def test_a_year_after_each_release(
    world: World, clock: ManualClock, releases: Path, tmp_path: Path, former: str, current: str
) -> None:
    first, second = (_unpacked(releases, release, tmp_path) for release in (former, current))
    year = Year(world, clock, int(current[:4]))
    names = differing(_rules(first), _rules(second), year.change)
    await year.run(first, second, sorted({*names, BESIDE}))


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with their wheels."""
    if given := os.environ.get(WHEELS):
        return Path(given)
    folder = tmp_path_factory.mktemp("releases")
    for release in RELEASES:
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder))
        subprocess.run([*pip, f"tzdata=={release}"], check=True)
    return folder


def _unpacked(releases: Path, release: str, folder: Path) -> Path:
    [wheel] = releases.glob(f"tzdata-{release}-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / release)
    zones = folder / release / "tzdata" / "zoneinfo"
    year, _, number = release.partition(".")
    (zones / "+VERSION").write_text(f"{year}{chr(ord('a') + int(number) - 1)}\n")
    return zones


def _rules(folder: Path) -> ZoneRules:
    with process_on(folder):
        return rules_here(edition())

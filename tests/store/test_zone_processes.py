"""The server itself, started with other zone data and killed while it plans alarms again."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acting import Draft
from tests.zone_worlds import BERLIN, NO_SUMMER_TIME, TODAY, TOMORROW, machine, process_on
from wakeful.clock import SystemClock
from wakeful.ids import Ids
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, EventQuery, FireQuery, Store

from .copying_world import Databases, end_of
from .test_backup_processes import environ

WAKEFUL = (sys.executable, "-m", "wakeful.cli")
YEARLY, ONCE = 6000, 20


@pytest.fixture
async def databases(tmp_path: Path, pg_dsn: str) -> AsyncIterator[Databases]:
    made = Databases(tmp_path, pg_dsn)
    yield made
    await made.drop()


@asynccontextmanager
async def serving(settings: Settings, zones: Path, cwd: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *WAKEFUL,
        *("serve", "--port", "0", "--log-level", "error"),
        cwd=cwd,
        env=environ(settings) | {"PYTHONTZPATH": str(zones)},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until(met: Callable[[], Awaitable[bool]], seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not await met():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)


async def moved(store: Store) -> Counter[str]:
    """How often each alarm was planned again."""
    found: Counter[str] = Counter()
    after = 0
    while some := await store.events(EventQuery(after=after, limit=5000)):
        found.update(event.alarm_id for _, event in some if event.what == "rezoned")
        after = some[-1][0]
    return found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_server_killed_while_it_plans_again_has_lost_and_repeated_nothing(
    databases: Databases, tmp_path: Path, kind: str
) -> None:
    settings = databases.new(kind)
    before = machine(tmp_path / TODAY, TODAY)
    after = machine(tmp_path / TOMORROW, TOMORROW, Berlin=NO_SUMMER_TIME)
    now = SystemClock().now()
    summer = datetime(now.year + 1, 7, 1, 9, tzinfo=UTC)
    async with end_of(settings) as end:
        store = end.store
        await store.migrate()

        async def has_begun() -> bool:
            return bool(await store.maintenance.editions())

        async def is_moving() -> bool:
            return bool(await store.events(EventQuery(limit=1)))

        async def is_planned() -> bool:
            newest, *_ = await store.maintenance.editions()
            return newest.version == TOMORROW and newest.planned_at is not None

        async def is_fired() -> bool:
            return (await store.stats()).pending == YEARLY

        async with serving(settings, before, tmp_path):
            await until(has_begun)
        ids = Ids()
        with process_on(before):
            series = [
                Draft(owner_did="ada", wake_message="tax", cron_expr="0 9 1 7 *", timezone=BERLIN).alarm(
                    id=ids.new(now), now=now
                )
                for _ in range(YEARLY)
            ]
        soon = [
            Draft(owner_did="ada", wake_message="now", fire_at=now + timedelta(seconds=2)).alarm(
                id=ids.new(now), now=now
            )
            for _ in range(ONCE)
        ]
        await store.add([*series, *soon])
        async with serving(settings, after, tmp_path) as server:
            await until(is_moving)
            server.send_signal(signal.SIGKILL)
            await server.wait()
        done = await moved(store)
        assert 0 < len(done) < YEARLY
        assert not await is_planned()
        async with serving(settings, after, tmp_path):
            await until(is_planned)
            await until(is_fired)
        done = await moved(store)
        assert set(done) == {alarm.id for alarm in series}
        assert set(done.values()) == {1}
        fires = await store.fires(FireQuery(limit=2 * ONCE))
        assert Counter(fire.alarm_id for fire in fires) == Counter(alarm.id for alarm in soon)
        found = await store.find(AlarmQuery(limit=YEARLY + ONCE, kind="cron"))
        assert {alarm.next_fire_at for alarm in found} == {summer.replace(hour=8)}

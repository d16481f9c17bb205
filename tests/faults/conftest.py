"""Real processes on a real database, and a store of the test's own to look at what they left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from tests.acting import Draft
from tests.databases import database_of
from wakeful.ids import Ids
from wakeful.model.alarm import Alarm, Fire
from wakeful.process.application import build_store
from wakeful.settings import load
from wakeful.store import AlarmQuery, FireQuery, Store

from .worker import Orders

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0  # seconds; only bounds a wait, also on a machine with ten times the work it can do
SHORT = {"lease": "2s", "tick": "200ms", "stop_within": "2s"}
_ids = Ids()


async def until(true: Callable[[], Any], what: str, *, within: float = PATIENCE) -> None:
    """Wait for a condition; a slow machine gets all the time it needs, a stuck one an answer."""
    try:
        async with asyncio.timeout(within):
            while not (await answer if asyncio.iscoroutine(answer := true()) else answer):  # noqa: ASYNC110 - processes
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"not within {within:.0f} s: {what}")


class Process:
    """A child, where it writes its log, and how it ended."""

    def __init__(self, args: list[str], folder: Path, *, name: str) -> None:
        self._log = (folder / f"{name}.log").open("w+")
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        self._child = subprocess.Popen(args, cwd=folder, env=environ, stdout=self._log, stderr=self._log)
        self.pid = self._child.pid

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    async def frozen(self) -> None:
        """Until it has reached its halting point."""

        def stopped() -> bool:
            assert self.running, self.log
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)

        await until(stopped, "it never came to its halting point")

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()

    def tell(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    async def ended_or(self, true: Callable[[], Any]) -> bool:
        """Whether it ended by itself before something became true."""
        while self.running:
            if await true():
                return False
            await asyncio.sleep(0.05)
        return True

    async def ended(self) -> int:
        return await asyncio.wait_for(asyncio.to_thread(self._child.wait), PATIENCE)

    def close(self) -> None:
        if self.running:
            self.kill()
        self._log.close()


class Scene:
    """One database, its processes, and what they wrote down."""

    def __init__(self, settings: dict[str, Any], folder: Path) -> None:
        self.settings = settings | SHORT
        self.folder = folder
        self.notes = folder / "notes"
        self.gate = folder / "gate"
        self.store: Store = build_store(load(flags=self.settings))
        self._processes: list[Process] = []

    def start(self, **orders: Any) -> Process:
        settings = self.settings | orders.pop("settings", {})
        asked = Orders(settings=settings, notes=str(self.notes), gate=str(self.gate), **orders)
        return self.run([sys.executable, "-m", "tests.faults.worker", msgspec.json.encode(asked).decode()])

    def run(self, args: list[str]) -> Process:
        process = Process(args, self.folder, name=f"process-{len(self._processes)}")
        self._processes.append(process)
        return process

    async def add(self, *messages: str, delay: float = 0.001, target: str = "desk") -> list[Alarm]:
        """Alarms that are acknowledged: one call, so that one claim can take them all."""
        now = await self.store.now()
        drafts = [
            Draft(owner_did="local", wake_message=message, target=target, delay=timedelta(seconds=delay))
            for message in messages
        ]
        alarms = [draft.alarm(id=_ids.new(now), now=now) for draft in drafts]
        return [added.alarm for added in await self.store.add(alarms)]

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.notes.read_text().splitlines()] if self.notes.exists() else []

    async def more_lines(self, count: int) -> None:
        """Until so many more have been written down."""
        enough = len(self.lines()) + count
        await until(lambda: len(self.lines()) >= enough, f"{count} more lines")

    def hits(self) -> Counter[str]:
        """How often each fire was delivered."""
        return Counter(line[0] for line in self.lines())

    async def alarms(self) -> dict[str, Alarm]:
        found: dict[str, Alarm] = {}
        cursor = None
        while page := await self.store.find(AlarmQuery(limit=1000, cursor=cursor)):
            found |= {alarm.id: alarm for alarm in page}
            cursor = (page[-1].created_at, page[-1].id)
        return found

    async def fires(self) -> list[Fire]:
        return await self.store.fires(FireQuery(limit=100_000))

    async def all_done(self) -> bool:
        return (await self.store.stats()).pending == 0

    def close(self) -> None:
        for process in self._processes:
            process.close()


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return database_of(request, tmp_path)


@pytest.fixture
async def scene(settings: dict[str, Any], tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(settings, tmp_path)
    await scene.store.migrate()
    yield scene
    scene.close()
    await scene.store.close()

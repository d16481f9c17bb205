"""A dispatcher on each store, with a clock moved by hand and targets that do as they are told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.acting import Draft, keep
from tests.store.conftest import clock, outbox, place, store
from wakeful.clock import Clock
from wakeful.dispatcher import Dispatcher, ServedTarget
from wakeful.model.alarm import Alarm, Fire, Policy
from wakeful.runtime.metrics import Metrics
from wakeful.service import Service
from wakeful.settings import Settings
from wakeful.store import FireQuery, Store, Worker
from wakeful.targets import Target
from wakeful.testing import ManualClock
from wakeful.testing.receiver import RecordingTarget

__all__ = ["clock", "outbox", "place", "store"]

OWNER = "ada"


class World:
    """A store, a service, and as many dispatchers as a test wants."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.desk = RecordingTarget()
        self.served: dict[str, ServedTarget] = {"desk": ServedTarget(self.desk, 64)}
        self.settings = Settings(stop_within=timedelta(seconds=5))
        self.service = Service(store, clock=clock, settings=self.settings, targets=self.served)
        self._dispatcher: Dispatcher | None = None

    def serve(self, name: str, target: Target, concurrency: int = 64, *, breaks: bool = True) -> None:
        self.served[name] = ServedTarget(target, concurrency, breaks=breaks)

    def another(
        self,
        served: dict[str, ServedTarget] | None = None,
        *,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        **given: Any,
    ) -> Dispatcher:
        """A dispatcher as another process would have it."""
        now = self.clock.now()
        worker = Worker(id=f"w{id(object())}", host="here", pid=1, version="0", started_at=now, seen_at=now)
        settings = replace(self.settings, **given)
        clock = clock or self.clock
        return Dispatcher(
            self.store, served or self.served, worker=worker, settings=settings, clock=clock, metrics=metrics
        )

    @property
    def dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            self._dispatcher = self.another()
        return self._dispatcher

    async def set(self, delay: float = 1, *, cron: str = "", target: str = "desk", **given: Any) -> Alarm:
        policy = Policy(**given.pop("policy", {}))
        timing: dict[str, Any] = {"cron_expr": cron} if cron else {"delay": timedelta(seconds=delay)}
        draft = Draft(owner_did=OWNER, wake_message="wake up", target=target, policy=policy, **timing, **given)
        return (await keep(self.service, draft)).alarm

    async def run_due(self, after: float | timedelta = 0) -> int:
        """Let time pass, then deliver what is due."""
        await self.clock.advance(after)
        return await self.dispatcher.run_due()

    async def read(self, alarm: Alarm) -> Alarm:
        found = await self.store.get(alarm.id)
        assert found is not None
        return found

    async def fires(self, alarm: Alarm) -> list[Fire]:
        return await self.store.fires(FireQuery(alarm_id=alarm.id))


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    return World(store, clock)

"""A simulated process: the real service and dispatcher, and what it has of the database."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from wakeful.config import Settings
from wakeful.config.tables import BudgetSettings
from wakeful.dispatcher import Dispatcher, ServedTarget
from wakeful.errors import StoreUnavailable
from wakeful.ids import Ids
from wakeful.metrics import Metrics
from wakeful.schedule.zones import ProcessRules, simulated_rules, switch_rules
from wakeful.service import Alarms, Caller, Service
from wakeful.store import Store, Worker
from wakeful.store.memory import MemoryStore
from wakeful.store.zones import adopt_newer_rules
from wakeful.testing.simulation.change_rules import LEASE, TICK
from wakeful.testing.simulation.checker import LIMITED, LIMITS
from wakeful.testing.simulation.event_loop import Group, SimulatedClock, pause
from wakeful.testing.simulation.receivers import TARGETS, SimulatedInbox

if TYPE_CHECKING:
    from wakeful.testing.simulation.world import World

SETTINGS: Final = Settings(
    db="memory",
    tick=TICK,
    lease=LEASE,
    stop_within=timedelta(seconds=3),
    backoff_base=timedelta(seconds=1),
    backoff_cap=timedelta(seconds=2),
    default_target="steady",
    fires_per_minute=1000,
    budget=BudgetSettings(owners={LIMITED: LIMITS}),
)
METRICS: Final = Metrics()
CONCURRENCY: Final = 64
ZONES: Final = ("2030a", "2030b")  # editions of the zone data: Berlin loses its summer time with the second
_PARTS: Final = ("budget", "checks", "zones", "owner_settings")


class Process(Group):
    """One run of a process: it ends with a kill or a stop, and another one takes its place."""

    def __init__(self, world: World, number: int, clock: SimulatedClock, edition: int) -> None:
        super().__init__()
        self.number = number
        self.stopping = False
        self.edition = edition
        self._rules = zone_rules(edition)
        self._world = world
        self.kept = MemoryStore(world.database, clock=world.store_clock(clock), tick=TICK)
        calls = SimulatedStore(world, self, self.kept)
        calls.__dict__["tasks"] = NoTasks()
        self.store = cast(Store, calls)
        served = {
            name: ServedTarget(target(world, self), CONCURRENCY, breaks=name not in ("inbox", *world.brought.handlers))
            for name, target in (TARGETS | world.brought.targets).items()
        }
        self.service = Service(
            self.store,
            clock=clock,
            settings=SETTINGS,
            targets=lambda: served,
            metrics=METRICS,
            delivering=lambda: {name: one.target for name, one in served.items()},
        )
        self.service.ids = Ids(random_bytes=world.random.randbytes)
        cast(SimulatedInbox, served["inbox"].target).arriving = self.service.inbox_signal.ring
        now = clock.now()
        worker = Worker(id=self.service.ids.new(now), host="", pid=number, version="", started_at=now, seen_at=now)
        self.dispatcher = Dispatcher(
            self.store, served, worker=worker, settings=SETTINGS, clock=clock, report_url="{fire_id}", metrics=METRICS
        )
        self.run = self.spawn(self._run())

    def entered(self) -> None:
        switch_rules(self._rules)

    async def _run(self) -> None:
        while True:
            try:
                await self.store.migrate()
                await adopt_newer_rules(self.store.zones)
                break
            except StoreUnavailable:
                await pause(self._world.loop, 0.1)
        try:
            await self.dispatcher.run()
        except Exception as error:
            if self.alive:  # else it was killed
                said = f"the dispatcher of process {self.number} has ended: {type(error).__name__}: {error}"
                self._world.checker.breaks("F1", said)

    def verbs(self, owner: str) -> Alarms:
        return self.service.of(Caller(owner=owner, via="http", limited=False))

    def end(self) -> None:
        super().end()
        self.hears(True)
        self.kept.abandon()

    def hears(self, hints: bool) -> None:
        """Whether hints of the database reach it."""
        listeners, ours = self._world.database.listeners, self.kept.hints
        if hints and ours not in listeners:
            listeners.append(ours)
        elif not hints and ours in listeners:
            listeners.remove(ours)


@lru_cache(maxsize=2)
def _zone_files(edition: int) -> Mapping[str, bytes]:
    rule = b"CET-1" if edition else b"CET-1CEST,M3.5.0,M10.5.0/3"
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    block = struct.pack(">lbb", 3600, 0, 0) + b"STD\0"
    return {"Europe/Berlin": header + block + header + block + b"\n" + rule + b"\n"}


def zone_rules(edition: int) -> ProcessRules:
    """A process that has just started on a machine with this edition."""
    return simulated_rules(ZONES[edition], -1 - edition, _zone_files(edition))


class SimulatedStore:
    """What a process has of the database: each call takes time, and may meet trouble."""

    def __init__(self, world: World, process: Process, kept: Any) -> None:
        self._world = world
        self._process = process
        self._kept = kept
        for name in _PARTS:
            if hasattr(kept, name):
                setattr(self, name, SimulatedStore(world, process, getattr(kept, name)))

    def __getattr__(self, name: str) -> Any:
        kept = getattr(self._kept, name)
        if not asyncio.iscoroutinefunction(kept):
            return kept

        async def call(*args: Any, **given: Any) -> Any:
            return await self._world.store_call(self._process, name, kept, args, given)

        self.__dict__[name] = call
        return call


class NoTasks:
    """There is no table of tasks."""

    async def nameless(self) -> dict[str, str]:
        return {}

    async def mend(self) -> bool:
        return False

    async def news(self, *, limit: int, after: int = 0) -> list[Any]:
        return []

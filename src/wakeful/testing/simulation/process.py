"""A simulated process: the real service and dispatcher, what it has of the database, and the receivers of its wakes."""

from __future__ import annotations

import asyncio
import inspect
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from random import Random
from typing import Any, Final, Protocol, cast

from msgspec import Struct

from wakeful.dispatcher import Dispatcher, ServedTarget
from wakeful.errors import StoreUnavailable
from wakeful.ids import Ids
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome
from wakeful.rules.wake import Wake
from wakeful.runtime.metrics import Metrics
from wakeful.schedule.zones import ProcessRules, simulated_rules, switch_rules
from wakeful.service import Alarms, Caller, Service
from wakeful.settings import Settings
from wakeful.settings.tables import BudgetSettings
from wakeful.store import Store, Worker
from wakeful.store.maintenance import adopt_newer_rules
from wakeful.store.memory import MemoryStore
from wakeful.store.memory.database import MemoryDatabase
from wakeful.targets import Target
from wakeful.targets.handler import Handler, HandlerFunction
from wakeful.targets.inbox import Inbox
from wakeful.testing.simulation.change_rules import LEASE, TICK
from wakeful.testing.simulation.checker import COST, LIMITED, LIMITS, WORK, Checker
from wakeful.testing.simulation.event_loop import Group, SimulatedClock, SimulatedLoop, pause
from wakeful.testing.simulation.script import Answer, Script

NEVER_ANSWERED: Final = 4.0  # seconds after which a delivery is given up


class SimulatedWorld(Protocol):
    """What processes, receivers and clients need of the world that they live in."""

    loop: SimulatedLoop
    random: Random
    script: Script
    checker: Checker
    database: MemoryDatabase
    outside: Group
    processes: list[Process | None]
    answers: list[Answer]
    brought: Brought

    def note(self, *what: object) -> None: ...
    def began(self, wake: Wake, process: Process) -> None: ...
    def short_while(self) -> float: ...
    def kill_soon(self, process: Process) -> None: ...
    def store_clock(self, clock: SimulatedClock) -> SimulatedClock: ...
    async def store_call(
        self,
        process: Process,
        name: str,
        kept: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any: ...


class SimulatedTarget:
    """A receiver without trouble, and what all of them do."""

    name = "steady"

    def __init__(self, world: SimulatedWorld, process: Process) -> None:
        self.world = world
        self.process = process

    async def deliver(self, wake: Wake) -> Outcome:
        attempt = self.world.checker.starts(self.process, wake)
        self.world.began(wake, self.process)
        try:
            outcome = await self._answer(wake)
        except asyncio.CancelledError:
            self.world.checker.aborted(attempt, is_stopping=self.process.stopping or not self.process.alive)
            raise
        self.world.checker.ends(attempt, outcome)
        self.world.note("answers", self.process.number, wake.fire_id, type(outcome).__name__)
        return outcome

    async def _answer(self, wake: Wake) -> Outcome:
        await pause(self.world.loop, self.world.short_while())
        return self._good(wake)

    def _good(self, wake: Wake) -> Outcome:
        if wake.alarm.policy.report_within is not None:
            return Delivered(awaits_report=True)
        cost = COST if wake.alarm.owner_did == LIMITED else 0.0
        return Completed("done", cost) if self.world.random.random() < 0.3 else Delivered()

    async def close(self) -> None:
        return None


class SlowTarget(SimulatedTarget):
    name = "slow"

    async def _answer(self, wake: Wake) -> Outcome:
        await pause(self.world.loop, WORK[self.name])
        return self._good(wake)


class LongTarget(SimulatedTarget):
    """Its work takes longer than a lease."""

    name = "long"

    async def _answer(self, wake: Wake) -> Outcome:
        await pause(self.world.loop, WORK[self.name])
        return self._good(wake)


class ShakyTarget(SimulatedTarget):
    """It has trouble of its own, as the script says."""

    name = "shaky"

    async def _answer(self, wake: Wake) -> Outcome:
        await pause(self.world.loop, self.world.short_while())
        answer = self.world.answers.pop(0) if self.world.answers else None
        if answer is not None:
            self.world.checker.troubled()
        match answer:
            case "500":
                return Failed("HTTP 500", unhealthy=True, answered=True)
            case "429":
                return Failed("HTTP 429", unhealthy=True, answered=True, retry_after=3.0)
            case "410":
                return Failed("HTTP 410", retryable=False, answered=True)
            case "hangs up":
                return Failed("connection reset", unhealthy=True)
            case "late":
                await pause(self.world.loop, 2.5)
            case "never":
                await pause(self.world.loop, NEVER_ANSWERED)
                return Failed("no answer", unhealthy=True)
        return self._good(wake)


class PoisonTarget(SimulatedTarget):
    """Whatever comes here kills its worker."""

    name = "poison"

    async def _answer(self, wake: Wake) -> Outcome:
        self.world.kill_soon(self.process)
        await self.world.loop.create_future()
        raise AssertionError("nobody comes back from here")


class SimulatedInbox(SimulatedTarget):
    name = "inbox"

    def __init__(self, world: SimulatedWorld, process: Process) -> None:
        super().__init__(world, process)
        self._inbox = Inbox()

    @property
    def arriving(self) -> Callable[[str], None]:
        return self._inbox.arriving

    @arriving.setter
    def arriving(self, listener: Callable[[str], None]) -> None:
        self._inbox.arriving = listener

    async def _answer(self, wake: Wake) -> Outcome:
        return await self._inbox.deliver(wake)


TARGETS: Final[dict[str, Callable[[Any, Process], Target]]] = {
    one.name: one for one in (SimulatedTarget, SlowTarget, LongTarget, ShakyTarget, PoisonTarget, SimulatedInbox)
}


class HandlerTarget(SimulatedTarget):
    """A function that somebody brings along to see how it fares."""

    def __init__(self, world: SimulatedWorld, process: Process, function: HandlerFunction) -> None:
        super().__init__(world, process)

        async def called(wake: Wake) -> object:
            found = function(wake)
            return await found if inspect.isawaitable(found) else found

        self._handler = Handler(called)

    async def _answer(self, wake: Wake) -> Outcome:
        return await self._handler.deliver(wake)


class Brought(Struct, frozen=True):
    """Handlers by name, and alarms as the arguments of `Alarms.set`, that somebody brings along."""

    handlers: Mapping[str, HandlerFunction] = {}
    alarms: Sequence[Mapping[str, Any]] = ()

    @property
    def targets(self) -> dict[str, Callable[[Any, Process], Target]]:
        return {name: partial(HandlerTarget, function=function) for name, function in self.handlers.items()}


NOTHING: Final = Brought()


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
_PARTS: Final = ("access", "maintenance")


class Process(Group):
    """One run of a process: it ends with a kill or a stop, and another one takes its place."""

    def __init__(self, world: SimulatedWorld, number: int, clock: SimulatedClock, edition: int) -> None:
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
            targets=served,
            metrics=METRICS,
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
                await adopt_newer_rules(self.store.maintenance)
                break
            except StoreUnavailable:
                await pause(self._world.loop, 0.1)
        try:
            await self.dispatcher.run()
        except Exception as error:
            if self.alive:  # else it was killed
                message = f"the dispatcher of process {self.number} has ended: {type(error).__name__}: {error}"
                self._world.checker.breaks("F1", message)

    def verbs(self, owner: str) -> Alarms:
        return Alarms(self.service, Caller(owner=owner, via="http", limited=False))

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

    def __init__(self, world: SimulatedWorld, process: Process, kept: Any) -> None:
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

        async def call(*args: Any, **keywords: Any) -> Any:
            return await self._world.store_call(self._process, name, kept, args, keywords)

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

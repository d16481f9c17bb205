"""Receivers of the simulated world: what they answer, and when, is up to the script and the seed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from wakeful.alarm import Completed, Delivered, Failed, Outcome, Wake
from wakeful.targets import Target
from wakeful.targets.handler import Handler, HandlerFunction
from wakeful.targets.inbox import Inbox
from wakeful.testing.simulation.checker import COST, LIMITED, WORK
from wakeful.testing.simulation.event_loop import pause

if TYPE_CHECKING:
    from wakeful.testing.simulation.process import Process
    from wakeful.testing.simulation.world import World

NEVER_ANSWERED: Final = 4.0  # seconds after which a delivery is given up


class SimulatedTarget:
    """A receiver without trouble, and what all of them do."""

    name = "steady"

    def __init__(self, world: World, process: Process) -> None:
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

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world, process)
        self._inbox = Inbox()

    @property
    def arriving(self) -> Callable[[str], None]:
        return self._inbox.arriving

    @arriving.setter
    def arriving(self, told: Callable[[str], None]) -> None:
        self._inbox.arriving = told

    async def _answer(self, wake: Wake) -> Outcome:
        return await self._inbox.deliver(wake)


TARGETS: Final[dict[str, Callable[[Any, Process], Target]]] = {
    one.name: one for one in (SimulatedTarget, SlowTarget, LongTarget, ShakyTarget, PoisonTarget, SimulatedInbox)
}


class HandlerTarget(SimulatedTarget):
    """A function that somebody brings along to see how it fares."""

    def __init__(self, world: World, process: Process, function: HandlerFunction) -> None:
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

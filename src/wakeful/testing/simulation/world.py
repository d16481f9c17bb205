"""The simulated world: processes, one database in memory, receivers and clients, and what happens step by step.

Every call of the store is a place where the seed may switch tasks, take time, or where a script's trouble strikes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Change as AlarmChange
from wakeful.rules.budget import Charge
from wakeful.rules.wake import Wake
from wakeful.service.diagnosis import audited
from wakeful.store.memory import MemoryStore
from wakeful.store.memory.database import MemoryDatabase
from wakeful.testing.simulation.change_rules import LEASE, TICK
from wakeful.testing.simulation.checker import Checker, KnownAlarm
from wakeful.testing.simulation.clients import BROUGHT, Clients, current_request
from wakeful.testing.simulation.event_loop import Group, SimulatedClock, SimulatedLoop, pause
from wakeful.testing.simulation.process import NOTHING, Brought, Process
from wakeful.testing.simulation.script import (
    Answer,
    Away,
    Change,
    Create,
    Deaf,
    Fetch,
    Freeze,
    Kill,
    Receiver,
    Report,
    Script,
    SetClock,
    Signal,
    Step,
    Stop,
    StoreTrouble,
    Wait,
)

SETTLING: Final = 60.0  # seconds that targets with trouble of their own may take to be well again
QUIET: Final = 2.5  # seconds of watching after everything is well again
LONGEST_END: Final = 90.0
LAST: Final = 1_000_000  # the number of the alarm that is set when all trouble is over
REPEATED: Final = frozenset({"add", "settle", "renew", "get", "fires_at", "now", "next_due"})


class World:
    """All of it, and what happens in it step by step."""

    def __init__(
        self, script: Script, loop: SimulatedLoop, *, traced: bool = False, brought: Brought = NOTHING
    ) -> None:
        self.script = script
        self.brought = brought
        self.loop = loop
        self.random = Random(f"run {script.seed}")
        self.database = MemoryDatabase(random_bytes=self.random.randbytes)
        self._database_clock = SimulatedClock(loop)
        self._clocks = [SimulatedClock(loop, booted=1000.0 * (at + 1)) for at in range(script.processes)]
        if script.one_machine:
            self._clocks = [SimulatedClock(loop, booted=1000.0)] * script.processes
            self._database_clock = self._clocks[0]
        self.checker = Checker(
            now=self._database_clock.now,
            passed=loop.time,
            alarms=self.database.alarms,
            fires=self.database.fires,
        )
        self.trace: list[tuple[object, ...]] | None = [] if traced else None
        self.outside = Group()  # clients and the operator
        self.groups: list[Group] = [self.outside]
        self.answers: list[Answer] = []
        self.store_calls = 0
        self._troubles: list[StoreTrouble] = []
        self._away_until = 0.0
        self._healed = False
        self.clients = Clients(self)
        self._editions = [0] * script.processes
        self.processes: list[Process | None] = [None] * script.processes

    def note(self, *what: object) -> None:
        if self.trace is not None:
            self.trace.append((round(self.loop.time(), 6), *what))

    def store_clock(self, clock: SimulatedClock) -> SimulatedClock:
        return clock if self.script.one_machine else self._database_clock

    def short_while(self) -> float:
        if not self.script.delays:
            return 0.001
        drawn = self.random.random()
        return 0.0 if drawn < 0.5 else drawn * 0.05

    # The store

    async def store_call(
        self,
        process: Process,
        name: str,
        kept: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        if not process.alive:
            raise StoreUnavailable("this process is dead")
        self.store_calls += 1
        trouble = self._trouble(process, name) if self._troubles else None
        if trouble is not None and trouble.what == "dies":
            self.kill_soon(process)
            await self.loop.create_future()
        await self._travel(trouble)
        if self._away_until > self.loop.time():
            self.note("store", process.number, name, "away")
            raise StoreUnavailable("simulated: the database is away")
        if trouble is not None and trouble.what == "refused":
            raise StoreUnavailable("simulated: refused")
        answer = await self._effect(process, name, kept, args, keywords)
        if trouble is not None and trouble.what == "repeated" and name in REPEATED:
            await self._effect(process, name, kept, args, keywords)
        await self._travel(None)
        if trouble is not None:
            await self._travel_back(trouble)
        return answer

    async def _travel_back(self, trouble: StoreTrouble) -> None:
        if trouble.what == "late":
            await pause(self.loop, trouble.seconds)
        elif trouble.what != "clock":
            self.checker.troubled()
            if trouble.what == "lost":
                raise StoreUnavailable("simulated: the answer was lost")

    async def _travel(self, trouble: StoreTrouble | None) -> None:
        if trouble is not None and trouble.what == "clock":
            self._set_clock(trouble.process, timedelta(seconds=trouble.seconds))
        elif trouble is not None and trouble.what != "late":
            self.checker.troubled()
            if trouble.what == "slow":
                await pause(self.loop, trouble.seconds)
                self.checker.troubled()
        if not self.script.delays:
            return
        drawn = self.random.random()
        if drawn < 0.7:
            return
        await pause(self.loop, 0.0 if drawn < 0.93 else (drawn - 0.93) / 10 if drawn < 0.99 else (drawn - 0.98) * 2)

    def _trouble(self, process: Process, name: str) -> StoreTrouble | None:
        for at, trouble in enumerate(self._troubles):
            if trouble.process == process.number and trouble.call in (name, "any"):
                if trouble.times > 1:
                    self._troubles[at] = replace(trouble, times=trouble.times - 1)
                else:
                    del self._troubles[at]
                self.note("store", process.number, name, trouble.what)
                return trouble
        return None

    async def _effect(
        self,
        process: Process,
        name: str,
        kept: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        if name == "claim":
            return await self._claim(process, kept, args, keywords)
        if name == "settle":
            return await self._settle(process, kept, args[0])
        if name == "spend":
            return await self._spend(kept, args[0])
        answer = await kept(*args, **keywords)
        if name == "add":
            self.checker.added(answer)
        return answer

    async def _claim(
        self, process: Process, kept: Callable[..., Awaitable[Any]], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        before = dict(self.database.alarms)
        claimed = await kept(*args, **keywords)
        if claimed.alarms:
            self.checker.claims(process, claimed, before, keywords.get("early", {}))
            self.note("claims", process.number, *((one.id, one.claim, one.unsettled) for one in claimed.alarms))
        return claimed

    async def _spend(self, kept: Callable[..., Awaitable[Any]], charges: Sequence[Charge]) -> Any:
        budget = self.database.budget
        before = dict(budget)
        answers = await kept(charges)
        for charge in (charge for charge, refusal in zip(charges, answers, strict=True) if refusal is None):
            limits = [key for key in charge.keys if key not in charge.marks]
            was, now = (sum(counts[key].wakes for key in limits if key in counts) for counts in (before, budget))
            self.checker.charged(charge.attempt, charge.at, is_counted=now > was and len(charges) == 1)
        return answers

    async def _settle(
        self, process: Process, kept: Callable[..., Awaitable[Any]], changes: Sequence[AlarmChange]
    ) -> Any:
        alarms, fires = self.database.alarms, self.database.fires
        rows = {change.after.id: alarms[change.after.id] for change in changes if change.after.id in alarms}
        keys = [(fire.alarm_id, fire.scheduled_for) for change in changes for fire in change.fires]
        before = {key: fires[key] for key in keys if key in fires}
        answers = await kept(changes)
        self.checker.settles(process, current_request.get(), changes, answers, rows, before)
        if self.trace is not None:
            for change, answer in zip(changes, answers, strict=True):
                ends = [(fire.id, fire.status, fire.reason) for fire in change.fires]
                self.note("settles", process.number, change.after.id, change.after.status, answer.what, *ends)
        return answers

    # What the script does

    def began(self, wake: Wake, process: Process) -> None:
        self.clients.woken(wake)
        self.note("begins", process.number, wake.fire_id, wake.attempt, wake.message)

    async def play(self) -> None:
        for number in range(self.script.processes):
            self._start(number)
        watching = self.outside.spawn(self._watch())
        for at, fields in enumerate(self.brought.alarms):
            self.outside.spawn(self.clients.set(KnownAlarm(BROUGHT + at, owner="ann"), fields))
        for step in self.script.steps:
            if isinstance(step, Wait):
                await pause(self.loop, step.seconds)
            else:
                self.note("step", step)
                self._do(step)
        await self._end_well()
        watching.cancel()
        self.checker.at_the_end()
        await self._audit()

    async def _audit(self) -> None:
        """What `doctor --audit` asks of a database, but for its look at leases: here clocks are set by days."""
        store = MemoryStore(self.database, clock=self._database_clock, tick=TICK)
        found = await audited(store, lease=LEASE, patience=LEASE, keeps=None)
        for problem in [one for one in found.first if one.check != "leases"]:
            self.checker.breaks("F1", f"alarm {problem.alarm_id}: {problem.said}")

    def _do(self, step: Step) -> None:
        match step:
            case Create() | Change() | Report() | Signal() | Fetch():
                self.clients.play(step)
            case Kill(process=number) | Stop(process=number) | Freeze(process=number) | Deaf(process=number):
                self._strike(step, self.processes[number])
            case SetClock():
                self.outside.spawn(self._clock_set(step))
            case StoreTrouble():
                self._troubles.append(step)
            case Away(seconds=seconds):
                self.outside.spawn(self._away(seconds))
            case Receiver():
                self.answers += [step.answer] * step.times

    def _strike(self, step: Kill | Stop | Freeze | Deaf, process: Process | None) -> None:
        if process is None or not process.alive:
            return
        if isinstance(step, Kill | Stop) and step.newer_zones:
            self._editions[step.process] = 1
        match step:
            case Kill():
                self.kill(process, step.down)
            case Stop():
                self.outside.spawn(self._stop(process, step.down))
            case Deaf():
                self.outside.spawn(self._deaf(process, step.seconds))
            case Freeze() if not process.frozen:
                process.frozen = True
                self.checker.died(process)
                self.outside.spawn(self._thaw(process, step.seconds))

    # Processes

    def _start(self, number: int) -> None:
        before = self.processes[number]
        if before is None or not before.alive:
            self.processes[number] = process = Process(self, number, self._clocks[number], self._editions[number])
            self.groups.append(process)
            self.note("starts", number)

    def kill_soon(self, process: Process) -> None:
        """For who dies of what it is doing: a running task cannot be dropped."""
        self.outside.context.run(self.loop.call_soon, self.kill, process, 0.3)

    def kill(self, process: Process, down: float) -> None:
        if process.alive:
            self.note("dies", process.number)
            self.checker.died(process)
            process.end()
            self.outside.spawn(self._start_later(process.number, down))

    async def _start_later(self, number: int, down: float) -> None:
        await pause(self.loop, down)
        self.checker.troubled()
        self._start(number)

    async def _stop(self, process: Process, down: float) -> None:
        self.checker.troubled()
        process.service.inbox_signal.stop()
        process.stopping = True
        process.dispatcher.stop()
        await asyncio.wait((process.run,))
        if process.alive:
            self.note("stopped", process.number)
            self.checker.died(process)
            process.end()
            await self._start_later(process.number, down)

    async def _thaw(self, process: Process, seconds: float) -> None:
        until = self.loop.time() + seconds
        while (left := until - self.loop.time()) > 0 and not self._healed:
            await pause(self.loop, min(left, 0.5))
        self.loop.thaw(process)
        self.checker.troubled()

    async def _deaf(self, process: Process, seconds: float) -> None:
        process.hears(False)
        await pause(self.loop, seconds)
        if process.alive:
            process.hears(True)

    async def _away(self, seconds: float) -> None:
        self._away_until = max(self._away_until, self.loop.time() + seconds)
        self.checker.troubled()
        await pause(self.loop, seconds)
        self.checker.troubled()

    def _set_clock(self, machine: int, by: timedelta) -> None:
        clock = self._database_clock if machine < 0 else self._clocks[machine]
        clock.offset += by
        self.note("clock", machine, by.total_seconds())
        self.checker.clock_was_set(of_store=clock is self._database_clock)

    async def _clock_set(self, step: SetClock) -> None:
        self._set_clock(step.machine, timedelta(seconds=step.by))
        if step.back_after is not None:
            await pause(self.loop, step.back_after)
            self._set_clock(step.machine, -timedelta(seconds=step.by))

    async def _watch(self) -> None:
        while True:
            await pause(self.loop, 0.5)
            self.checker.check(serving=_serves, settling=SETTLING)

    async def _end_well(self) -> None:
        """No more trouble: everything that is due is delivered, and what is set now is on time."""
        self._healed = True
        self._troubles.clear()
        self.answers.clear()
        self._away_until = 0.0
        self.checker.troubled()
        await pause(self.loop, 1.0)
        for number in range(self.script.processes):
            self._start(number)
        last = Create(alarm=LAST, after=0.5, key=True)
        await self.clients.create(last)
        began, calm = self.loop.time(), self.loop.time() + QUIET
        while self.loop.time() < max(began, self.checker.recovered) + LONGEST_END:
            await pause(self.loop, 0.5)
            if self.checker.is_quiet(serving=_serves) and self.loop.time() > calm:
                return
        self.checker.breaks("stuck", "long after the last trouble something that is due is not delivered")


def _serves(process: object) -> bool:
    return isinstance(process, Process) and process.alive and not process.frozen

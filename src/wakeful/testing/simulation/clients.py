"""Clients of the simulated world: what they ask of a process, what they are told, and how they go away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, Final

from wakeful.errors import StoreUnavailable, WakefulError
from wakeful.model.requests import CreateRequest, EditRequest, PolicyRequest, ReportRequest
from wakeful.rules.wake import Wake
from wakeful.service import Alarms
from wakeful.testing.simulation.checker import KnownAlarm, Operation
from wakeful.testing.simulation.event_loop import pause
from wakeful.testing.simulation.process import SimulatedWorld
from wakeful.testing.simulation.script import Change, Create, Fetch, Report, Reported, Signal, What

BROUGHT: Final = 2_000_000  # the number of the first alarm that somebody brought along
current_request: Final[ContextVar[object]] = ContextVar("the request that is answered", default=None)
# What a client asks of an alarm: the verbs, its id, how far, and new words.
CHANGES: Final[Mapping[What, Callable[[Alarms, str, float, str], Awaitable[Any]]]] = {
    "cancel": lambda verbs, id, _seconds, _words: verbs.cancel(id),
    "pause": lambda verbs, id, _seconds, _words: verbs.pause(id),
    "resume": lambda verbs, id, _seconds, _words: verbs.resume(id),
    "skip": lambda verbs, id, _seconds, _words: verbs.skip(id),
    "undo": lambda verbs, id, _seconds, _words: verbs.undo(id),
    "fire": lambda verbs, id, _seconds, _words: verbs.fire(id),
    "retry": lambda verbs, id, _seconds, _words: verbs.retry(id),
    "snooze": lambda verbs, id, seconds, _words: verbs.snooze(id, max(0.001, seconds)),
    "move": lambda verbs, id, seconds, _words: verbs.edit(id, EditRequest(delay_seconds=seconds, kind="once")),
    "reword": lambda verbs, id, _seconds, words: verbs.edit(id, EditRequest(wake_message=words)),
    "when": lambda verbs, id, _seconds, _words: verbs.edit(id, EditRequest(when="in 3 seconds")),
    "policy": lambda verbs, id, _seconds, _words: verbs.edit(id, EditRequest(policy=PolicyRequest(catch_up="skip"))),
    "rearm": lambda verbs, id, _seconds, _words: verbs.edit(
        id, EditRequest(policy=PolicyRequest(unless="stop", rearm=2.0))
    ),
    "repeat": lambda verbs, id, _seconds, _words: verbs.edit(id, EditRequest(cron_expr="@every 5s", kind="cron")),
}


class Clients:
    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._latest: dict[int, tuple[str, str]] = {}  # by alarm: the fire that began last, and its owner
        self.refused: BaseException | None = None  # an alarm that was brought along is not understood

    def play(self, step: Create | Change | Report | Signal | Fetch) -> None:
        match step:
            case Create():
                self._world.outside.spawn(self.create(step))
            case Change():
                self._request(step.by, self.change(step))
            case Report():
                self._request(step.by, self.report(step))
            case Signal():
                self._request(step.by, self.signal(step))
            case Fetch():
                self.fetch(step)

    def woken(self, wake: Wake) -> None:
        """They know of a wake as soon as it begins: a report may come before its answer."""
        if (known := self._world.checker.known_as(wake.alarm.id)) is not None:
            self._latest[known.number] = wake.fire_id, wake.alarm.owner_did

    def _request(self, number: int, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """A request that this process answers; nobody does where it is down."""
        process = self._world.processes[number]
        if process is None or not process.alive:
            work.close()
            return None
        return process.spawn(work)

    async def _asked(self, operation: Operation, verb: Callable[[Alarms], Awaitable[Any]], owner: str) -> Any:
        """Ask, and tell the checker what was asked and answered. None: refused, or nobody knows."""
        self._world.checker.asks(operation)
        current_request.set(operation)
        answer = None
        try:
            answer = await verb(self._verbs(operation.process, owner))
        except WakefulError as error:
            self._world.note("refused", operation.what, operation.alarm, error.code)
        else:
            self._world.note("answered", operation.what, operation.alarm)
        self._world.checker.answered(operation, answer)
        return answer

    async def create(self, step: Create) -> None:
        """Like a client of the network: one with a key asks again until it is answered, by whoever is there."""
        for at in range(step.many):
            known = self._world.checker.known.setdefault(step.alarm + at, KnownAlarm(step.alarm + at))
            known.owner, known.poison = step.owner, step.target == "poison"
            known.key = f"key {known.number}" if step.key else ""
            known.words = {f"alarm {known.number}"}
        number = step.by
        for _ in range(100):
            process = self._world.processes[number]
            if process is not None and process.alive:
                made: asyncio.Future[bool] = self._world.loop.create_future()
                process.spawn(self._created(step, number, made))
                await asyncio.wait((made,), timeout=8.0)
                if made.done() and made.result():
                    return
            if not step.key:
                return
            await pause(self._world.loop, 0.4)
            number = (number + 1) % self._world.script.processes

    async def set(self, known: KnownAlarm, fields: Mapping[str, Any]) -> None:
        """Set an alarm that was brought along, as often as it takes."""
        known.key = str(fields.get("key") or f"alarm {known.number - BROUGHT}")
        self._world.checker.known[known.number] = known
        number = 0
        while not known.ids:
            process, made = self._world.processes[number], self._world.loop.create_future()
            if process is not None and process.alive:
                process.spawn(self._set_once(known, fields, number, made))
                await asyncio.wait((made,), timeout=8.0)
                if made.done() and (error := made.exception()) is not None:
                    self.refused = self.refused or error
                    return
            await pause(self._world.loop, 0.4)
            number = (number + 1) % self._world.script.processes

    async def _set_once(
        self, known: KnownAlarm, fields: Mapping[str, Any], number: int, made: asyncio.Future[None]
    ) -> None:
        try:
            answer = await self._verbs(number, known.owner).set(**{**fields, "key": known.key})
        except StoreUnavailable:
            pass
        except Exception as error:  # it was not understood: whoever brought it is told
            made.set_exception(error)
            return
        else:
            self._world.checker.created(known, answer.id)
        made.set_result(None)

    def _verbs(self, number: int, owner: str) -> Alarms:
        process = self._world.processes[number]
        assert process is not None
        return process.verbs(owner)

    async def _created(self, step: Create, number: int, made: asyncio.Future[bool]) -> None:
        known = [self._world.checker.known[step.alarm + at] for at in range(step.many)]
        requests = [_create_request(step, one) for one in known]
        operation = Operation("create", self._world.loop.time(), number, alarm=step.alarm)
        if step.many == 1:
            answer = await self._asked(operation, lambda verbs: verbs.create(requests[0]), step.owner)
            answers = None if answer is None else [answer]
        else:
            answers = await self._asked(operation, lambda verbs: verbs.create_many(requests), step.owner)
        for one, created in zip(known, answers or (), strict=False):
            self._world.checker.created(one, created.alarm.id)
        if not made.done():
            made.set_result(answers is not None)

    def _named(self, number: int) -> tuple[KnownAlarm, str] | None:
        known = self._world.checker.known.get(number)
        return (known, known.ids[-1]) if known is not None and known.ids else None

    async def change(self, step: Change) -> None:
        if (named := self._named(step.alarm)) is None:
            return
        known, id = named
        message = f"alarm {known.number}, reworded at {self._world.loop.time():.3f}"
        operation = Operation(step.what, self._world.loop.time(), step.by, alarm=step.alarm, message=message)

        def verb(verbs: Alarms) -> Awaitable[Any]:
            return CHANGES[step.what](verbs, id, step.seconds, message)

        await self._asked(operation, verb, known.owner)

    async def report(self, step: Report) -> None:
        if (latest := self._latest.get(step.alarm)) is None:
            return
        fire_id, owner = latest
        await self._reported(step.alarm, fire_id, step.what, step.by, owner)

    async def _reported(self, alarm: int, fire_id: str, what: Reported, by: int, owner: str) -> None:
        request = ReportRequest(outcome=what, wait="2s" if what == "snooze" else None)
        operation = Operation(what, self._world.loop.time(), by, alarm=alarm, fire_id=fire_id)
        await self._asked(operation, lambda verbs: verbs.report(fire_id, request), owner)

    async def signal(self, step: Signal) -> None:
        operation = Operation("signal", self._world.loop.time(), step.by)
        self._world.checker.signals(operation, step.owner)
        current_request.set(operation)
        is_answered = False
        try:
            await self._verbs(step.by, step.owner).signal(step.name)
            is_answered = True
        except WakefulError as error:
            self._world.note("refused", "signal", error.code)
        self._world.checker.signalled(operation, step.name, owner=step.owner, is_answered=is_answered)

    def fetch(self, step: Fetch) -> None:
        request = object()
        reading = self._request(step.by, self._fetched(step, request))
        if reading is not None and step.gone is not None:
            self._world.outside.spawn(self._hang_up(step, reading, request))

    async def _fetched(self, step: Fetch, request: object) -> None:
        current_request.set(request)
        operation = Operation("fetch", self._world.loop.time(), step.by)
        try:
            wakes = await self._verbs(step.by, step.owner).inbox(wait=step.wait)
        except WakefulError:
            self._world.checker.taken(request)
            return
        self._world.checker.taken(request)
        for wake in wakes:
            self._world.note("handed out", step.by, wake.fire.id)
            self._world.checker.handed_out(operation, wake.alarm, wake.fire)
            if (known := self._world.checker.known_as(wake.alarm.id)) is not None:
                self._latest[known.number] = wake.fire.id, wake.alarm.owner_did
                if step.completes:
                    await self._reported(known.number, wake.fire.id, "completed", step.by, step.owner)

    async def _hang_up(self, step: Fetch, reading: asyncio.Task[None], request: object) -> None:
        assert step.gone is not None
        await pause(self._world.loop, step.gone)
        if reading.done():
            return
        calm = self._world.checker.trouble
        reading.cancel()
        await asyncio.wait((reading,), timeout=8.0)
        if reading.done() and reading.cancelled() and self._world.checker.trouble == calm:
            self._world.checker.gone(request)
        self._world.checker.taken(request)


def _create_request(step: Create, known: KnownAlarm) -> CreateRequest:
    fields: dict[str, Any] = {
        name: value
        for name in (
            "report_within",
            "on_silence",
            "overlap",
            "catch_up",
            "max_fires",
            "wakes_per_hour",
            "unless",
            "or_when",
            "exact_backoff",
            "expires",
            "at_limit",
            "unless_since",
            "rearm",
        )
        if (value := getattr(step, name)) is not None
    }
    when: dict[str, Any] = {"delay_seconds": step.after}
    if step.every:
        when = {"cron_expr": f"@every {step.every}s"}
    elif step.wall_time:
        when = {"cron_expr": "1 1 * * *", "timezone": "Europe/Berlin"}
    return CreateRequest(
        wake_message=f"alarm {known.number}",
        idempotency_key=known.key or None,
        target=step.target,
        max_failures=step.max_failures,
        policy=PolicyRequest(**fields),
        **when,
    )

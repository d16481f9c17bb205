"""Writes what attempts brought back, in batches: while one batch is on its way the next one collects."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from wakeful.alarm import Alarm, Change, Failed, Fire, note, release, settle
from wakeful.clock import Clock, stopwatch
from wakeful.dispatcher import telling
from wakeful.dispatcher.flights import Flight
from wakeful.dispatcher.tasks import TaskPlanning
from wakeful.dispatcher.telling import Teller
from wakeful.errors import StoreUnavailable
from wakeful.metrics import Metrics
from wakeful.store import Settled, Store

log = logging.getLogger("wakeful.dispatcher")

BATCH: Final = 500
LONGEST_WAIT: Final = 1.0  # seconds between two tries at a store that is away: it is back for longer than that


class Settler:
    def __init__(
        self, store: Store, clock: Clock, landed: Callable[[Flight], None], metrics: Metrics, tasks: TaskPlanning
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._clock = clock
        self._landed = landed
        self._metrics = metrics
        self._teller = Teller(metrics)
        self._waiting: deque[Flight] = deque()
        self._bell = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, flight: Flight) -> None:
        self._waiting.append(flight)
        self._idle.clear()
        self._bell.set()

    async def idle(self) -> None:
        """Until everything handed in has been written."""
        await self._idle.wait()

    async def run(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                await self._write(batch)
            self._idle.set()

    async def _write(self, batch: list[Flight]) -> None:
        """Try until the store has answered. The lease is renewed meanwhile; if it is lost, the answer will say so."""
        changes = [flight.change for flight in batch if flight.change is not None]
        wait = 0.05
        while True:
            asked = stopwatch()
            try:
                answers = await self._store.settle(changes)
                break
            except StoreUnavailable as error:
                self._metrics.store_failed()
                log.warning("cannot settle %d fires yet: %s", len(batch), error)
                await self._clock.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
        self._metrics.settled(stopwatch() - asked)
        self._teller.settled(
            [flight for flight, answer in zip(batch, answers, strict=True) if answer.what == "applied"]
        )
        for flight, answer in zip(batch, answers, strict=True):
            if answer.what == "applied":
                self._landed(flight)
            else:
                await self._decide_again(flight, answer)

    async def _decide_again(self, flight: Flight, answer: Settled) -> None:
        """The world moved while the attempt was under way: read what is there now, and decide on that."""
        try:
            again = await self._second_thought(flight, answer)
        except StoreUnavailable:
            again = flight.change  # the same change comes back with the same answer, once the store is there
        except Exception as error:  # a bug of ours must not end the settler: the lease ends, the poison rule counts
            telling.broke("it cannot be decided again", flight.alarm, error)
            again = None
        if again is None:
            self._landed(flight)
        else:
            flight.change = again
            self.add(flight)

    async def _second_thought(self, flight: Flight, answer: Settled) -> Change | None:
        held = flight.alarm
        if answer.what == "moved":
            return await self._overtaken(flight)
        if answer.what == "refused":
            flight.outcome = refusal = Failed(f"{telling.NOT_WRITTEN}: {answer.error}")
            if flight.attempt is not None:
                telling.failed(flight, refusal, flight.attempt)
        alarm = await self._store.get(held.id)
        if alarm is None:
            return None
        fire = await _fire(self._store, alarm, held)
        if _is_ours(alarm, held):
            return _decided(flight, alarm, fire)
        if flight.outcome is None or flight.attempt is None:
            return None
        flight.notes += 1
        if answer.what != "edited" and flight.notes > 1:
            return None
        return note(alarm, fire, held.occurrence_at, flight.outcome, flight.attempt)

    async def _overtaken(self, flight: Flight) -> Change | None:
        """The settlement itself was to say it, and has not, because the task's row was changed: nothing was delivered.

        The row is planned anew, and the alarm, if it is still ours, handed back: it then says what the row says now.
        """
        held, now = flight.alarm, flight.attempt.ended if flight.attempt is not None else flight.alarm.updated_at
        flight.outcome = flight.attempt = None
        waits = await self._tasks.overtaken([held], now)
        # Where the row stands after all, somebody is about to change it: not again at once.
        wait = waits.get(held.id, self._tasks.tick)
        alarm = await self._store.get(held.id)
        return release(alarm, now=now, wait=wait) if alarm is not None and _is_ours(alarm, held) else None


def _is_ours(alarm: Alarm, held: Alarm) -> bool:
    return alarm.claim == held.claim and alarm.claimed_at is not None and alarm.occurrence_at == held.occurrence_at


def _decided(flight: Flight, alarm: Alarm, fire: Fire | None) -> Change:
    # A suspect's delivery that was counted when it began is the one that is decided on here.
    alarm = replace(alarm, unsettled=flight.alarm.unsettled)
    if flight.outcome is None or flight.attempt is None:
        return release(alarm, now=alarm.updated_at)  # nothing was delivered
    return settle(alarm, fire, flight.outcome, flight.attempt)


async def _fire(store: Store, alarm: Alarm, held: Alarm) -> Fire | None:
    key = (alarm.id, held.occurrence_at)
    return (await store.fires_at([key])).get(key)

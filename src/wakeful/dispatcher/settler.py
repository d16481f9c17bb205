"""Write the results of attempts in batches: while one batch is being written, the next one collects.

If few results wait and others were written a moment ago, they wait LINGER for more. If many wait, up to SIDE_BY_SIDE
batches are written at the same time: while one waits for the disk, the others are worked on.

If the store refuses a batch but still settles other changes, the batch is split until the refused change is found.
That flight is retried by itself, and quarantined after ENOUGH refusals, so that it does not block the others.

If the alarm has changed meanwhile, the change is decided again. The second time in a row that happens, it waits first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from wakeful.clock import Clock, SystemClock, stopwatch
from wakeful.dispatcher import observability
from wakeful.dispatcher.flights import Flight
from wakeful.dispatcher.guards import Feature, overtaken
from wakeful.dispatcher.observability import DeliveryMetrics
from wakeful.errors import StoreBusy, StoreUnavailable
from wakeful.model.alarm import Alarm, Change, Fire
from wakeful.model.outcome import Failed
from wakeful.rules.checks import with_look
from wakeful.rules.passing import quarantine
from wakeful.rules.settle import note, release, settle
from wakeful.runtime.metrics import Metrics
from wakeful.store import Settled, Store

log = logging.getLogger("wakeful.dispatcher")

BATCH: Final = 500
SIDE_BY_SIDE: Final = 3
LINGER: Final = 0.005  # seconds that a few wait for more, where others were written a moment ago: not a lone one
WORTH_IT: Final = 250  # flights that are written beside others, instead of after them together with more
ENOUGH: Final = 3  # times that the store settled, but not this one, before it is set aside
_LAST_RESORT: Final = 2
FIRST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 1.0  # seconds between two tries at a store that is away: it is back for longer than that


class Settler:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        landed: Callable[[Flight], None],
        metrics: Metrics,
        features: Sequence[Feature],
        *,
        tick: timedelta,
    ) -> None:
        self._store = store
        self._features = features
        self._tick = tick
        self._clock = clock
        self._landed = landed
        self._metrics = metrics
        self._delivery_metrics = DeliveryMetrics(metrics)
        self._waiting: deque[Flight] = deque()
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing: set[asyncio.Task[None]] = set()  # one for each batch
        self._aside: set[asyncio.Task[None]] = set()  # one for each flight that the store does not take
        self._wrote = 0.0  # when something was last settled, by the stopwatch
        self._working = False
        self._moved = 0.0  # when something was last settled, or first waited to be, by the stopwatch

    def add(self, flight: Flight) -> None:
        if not self._working:
            self._working, self._moved = True, stopwatch()
        self._waiting.append(flight)
        self._idle.clear()
        self._woken.set()

    async def idle(self) -> None:
        """Until everything handed in has been written."""
        await self._idle.wait()

    @property
    def stalled(self) -> float:
        """Seconds since something was last settled, while something waits to be; 0 when nothing does.

        What was taken aside does not count: the store settles, and only that one is in trouble.
        """
        return stopwatch() - self._moved if self._working else 0.0

    async def run(self) -> None:
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                for task in [task for task in self._writing if task.done()]:
                    self._writing.discard(task)
                    task.result()  # what ends one ends the settler: silence would be worse
                if self._waiting and self._is_in_a_stream():
                    await SystemClock().sleep(LINGER)
                while self._waiting and self._has_room():
                    batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                    task = asyncio.create_task(self._write(batch), name="wakeful settler, batch")
                    task.add_done_callback(lambda _: self._woken.set())
                    self._writing.add(task)
                if not self._writing:
                    self._working = False
                    self._rest()
        finally:
            tasks = [*self._writing, *self._aside]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _is_in_a_stream(self) -> bool:
        """Whether more are likely to finish at once: a write of a few costs nearly as much as one of many."""
        return not self._writing and len(self._waiting) < WORTH_IT and stopwatch() - self._wrote < 4 * LINGER

    def _has_room(self) -> bool:
        return not self._writing or (len(self._writing) < SIDE_BY_SIDE and len(self._waiting) >= WORTH_IT)

    def _rest(self) -> None:
        if not self._working and not self._aside:
            self._idle.set()

    async def _write(self, batch: list[Flight]) -> None:
        """Try until the store has answered. The leases are renewed meanwhile; if one is lost, the answer will say so.

        Where the store settles, but not these, they are parted until the one is found that it does not take.
        """
        parts, wait = deque([batch]), FIRST_WAIT
        while parts:
            part = parts.popleft()
            error = await self._tried(part)
            if error is None:
                continue
            await self._clock.sleep(wait)
            if not await self._is_theirs(part, error):
                parts.appendleft(part)
                wait = min(wait * 2, LONGEST_WAIT)
            elif len(part) > 1:
                half = len(part) // 2
                parts.extendleft((part[half:], part[:half]))
            else:
                self._take_aside(self._alone(part[0]))

    async def _tried(self, batch: Sequence[Flight]) -> Exception | None:
        """Have these settled, and see to the answers; or the error there was instead."""
        changes = [_seen(flight, flight.change) for flight in batch if flight.change is not None]
        started = stopwatch()
        try:
            answers = await self._store.settle(changes)
        except Exception as error:  # also a bug of ours, met by one of them: it must not end the settler
            self._metrics.store_failed()
            log.warning("cannot settle %d fires yet, trying again: %s", len(batch), error)
            return error
        self._moved = self._wrote = stopwatch()
        self._metrics.settled(self._moved - started)
        self._delivery_metrics.settled(
            [flight for flight, answer in zip(batch, answers, strict=True) if answer.what == "applied"]
        )
        for flight, answer in zip(batch, answers, strict=True):
            if answer.what == "applied":
                self._landed(flight)
                continue
            # Claimed again as one that nobody settled: its lease had expired before this was written.
            again = flight.again
            if again is not None and again.alarm.is_suspect and not flight.is_ended_by(again):
                flight.adopt(again)
                flight.again = None
            await self._decide_again(flight, answer)
        return None

    async def _is_theirs(self, batch: Sequence[Flight], error: Exception) -> bool:
        """Whether it is about one of these, not about the store: asked to change nothing of the first, it answers.

        Not by any other write: where settlements fail for everybody, nobody in particular is to blame.
        """
        if isinstance(error, StoreBusy):
            return True  # somebody holds a row, and parting them shows which
        try:
            alarm = await self._store.get(batch[0].alarm.id)
            if alarm is not None:
                await self._store.settle([Change(claim=alarm.claim, version=alarm.version, after=alarm)])
        except Exception:
            return False
        return True

    def _take_aside(self, work: Coroutine[None, None, None]) -> None:
        """Work on one flight: those behind it do not wait for it."""
        task = asyncio.create_task(work, name="wakeful settler, aside")
        self._aside.add(task)
        task.add_done_callback(self._came_from_aside)

    def _came_from_aside(self, task: asyncio.Task[None]) -> None:
        self._aside.discard(task)
        self._rest()

    async def _alone(self, flight: Flight) -> None:
        """Until it is settled, or the store has refused it often enough while it settled when asked for nothing."""
        against, wait = 1, FIRST_WAIT
        while True:
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
            error = await self._tried([flight])
            if error is None:
                return
            if _is_the_worlds(error) or not await self._is_theirs([flight], error):
                continue
            against += 1
            if against >= ENOUGH:
                if not self._set_aside(flight, error):
                    self._landed(flight)  # its lease ends, and the poison rule counts
                    return
                against = 0

    def _set_aside(self, flight: Flight, error: Exception) -> bool:
        """Something simpler to write instead: that it failed, and why; or that the whole alarm did. False: neither."""
        log.error("a fire is set aside: %s", error, extra=observability.fields(flight.alarm))
        # Not the words of the error: they name our database, and can quote another's row.
        why = f"{observability.NOT_SETTLED}: {type(error.__cause__ or error).__name__}"
        flight.set_aside += 1
        attempt = flight.attempt
        if flight.set_aside == 1 and attempt is not None:
            flight.outcome = refusal = Failed(why, retryable=False)
            flight.change = settle(flight.alarm, flight.fire, refusal, attempt)
        elif flight.set_aside <= _LAST_RESORT:
            now = flight.alarm.updated_at if attempt is None else attempt.ended
            flight.set_aside = _LAST_RESORT
            flight.change = quarantine(flight.alarm, flight.fire, why, now=now)
        else:
            return False
        return True

    async def _decide_again(self, flight: Flight, answer: Settled) -> None:
        """The world moved while the attempt was under way: read what is there now, and decide on that."""
        try:
            again = await self._second_thought(flight, answer)
        except StoreUnavailable:
            again = flight.change  # the same change gets the same answer, once the store is there
        except Exception as error:  # a bug of ours must not end the settler: the lease ends, the poison rule counts
            observability.broke("it cannot be decided again", flight.alarm, error)
            again = None
        if again is None:
            self._landed(flight)
        else:
            flight.change = again
            self._settle_again(flight)

    def _settle_again(self, flight: Flight) -> None:
        """At once after one change of the alarm; what is refused again and again waits longer each time."""
        flight.decided_again += 1
        if flight.decided_again == 1:
            self.add(flight)
        else:
            wait = min(FIRST_WAIT * 2 ** min(flight.decided_again - 2, 10), LONGEST_WAIT)
            self._take_aside(self._add_after(flight, wait))

    async def _add_after(self, flight: Flight, wait: float) -> None:
        await self._clock.sleep(wait)
        self.add(flight)

    async def _second_thought(self, flight: Flight, answer: Settled) -> Change | None:
        held = flight.alarm
        if answer.what == "moved":
            return await self._overtaken(flight)
        if answer.what == "refused":
            flight.outcome = refusal = Failed(f"{observability.NOT_WRITTEN}: {answer.error}")
            if flight.attempt is not None:
                observability.failed(flight, refusal, flight.attempt)
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
        return note(alarm, fire, held.occurrence_at, flight.outcome, flight.attempt, arrived=flight.arrived)

    async def _overtaken(self, flight: Flight) -> Change | None:
        """The settlement was to be the delivery, and was not written because a feature's row has changed.

        The row is planned again, and the alarm, if it is still ours, released: it then says what the row says now.
        """
        held, now = flight.alarm, flight.attempt.ended if flight.attempt is not None else flight.alarm.updated_at
        flight.outcome = flight.attempt = None
        waits = await overtaken(self._features, [held], now)
        # Where the row stands after all, somebody is about to change it: not again at once.
        wait = waits.get(held.id, self._tick)
        alarm = await self._store.get(held.id)
        return release(alarm, now=now, wait=wait) if alarm is not None and _is_ours(alarm, held) else None


def _is_the_worlds(error: Exception) -> bool:
    """Whether it says nothing against what was to be written, however often: somebody holds a row, the disk is full."""
    return isinstance(error, StoreUnavailable) and (error.by_machine or isinstance(error, StoreBusy))


def _seen(flight: Flight, change: Change) -> Change:
    """The change with what its alarm's check had found, where a wake was sent after that."""
    if flight.look is None or flight.outcome is None or flight.attempt is None:
        return change
    return with_look(change, flight.look, flight.outcome, at=flight.attempt.ended)


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

"""Takes claimed alarms through their guards and their delivery to the settler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from wakeful.clock import Clock
from wakeful.dispatcher import observability
from wakeful.dispatcher.claiming import Suspects
from wakeful.dispatcher.flights import EARLY, Flight, Flights
from wakeful.dispatcher.guards import AWAITED_GUARDS, GUARDS, Checks, Context, Feature, Pace
from wakeful.dispatcher.observability import DeliveryMetrics
from wakeful.dispatcher.settler import Settler
from wakeful.dispatcher.store_clock import StoreClock
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Alarm, Change
from wakeful.model.outcome import Failed, Outcome, Try
from wakeful.moments import MS
from wakeful.rules.attempts import attempt_number
from wakeful.rules.budget import Budget
from wakeful.rules.passing import quarantine
from wakeful.rules.plan import following
from wakeful.rules.settle import clock_set_back, release, settle
from wakeful.rules.wake import Wake
from wakeful.runtime.cpu_time import in_thread
from wakeful.runtime.metrics import Metrics
from wakeful.schedule import takes_long
from wakeful.settings import Settings
from wakeful.store import Store

log = logging.getLogger("wakeful.dispatcher")

LONGEST_EARLY: Final = 2 * EARLY.total_seconds()  # of a wait for an alarm that was claimed early
FEW: Final = 8  # flights
TIMER_OFF: Final = 0.0005  # seconds: timers go by the nearest millisecond
TIMER_LATE: Final = 0.0003  # seconds more, until a processor that slept is awake and this process has its turn


class Deliveries:
    def __init__(
        self,
        store: Store,
        flights: Flights,
        suspects: Suspects,
        store_clock: StoreClock,
        features: Sequence[Feature],
        *,
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
        report_url: str,
    ) -> None:
        self._flights = flights
        self._suspects = suspects
        self._store_clock = store_clock
        self._settings = settings
        self._clock = clock
        self._now = store_clock.now
        self._context = Context(
            store,
            settings,
            clock,
            store_clock.now,
            flights,
            suspects,
            metrics,
            Pace(settings.fires_per_minute),
            Checks(store, settings, clock, metrics),
            Budget(settings.budget, settings.budget.by_owner).allowances,
            settings.lease.total_seconds(),
        )
        self._report_url = report_url
        self._woken = store.hints
        self._working_out: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by owner
        self.event_loop: asyncio.AbstractEventLoop  # kept: asking for it costs a system call each time
        self.stopping = False
        self.report_key = ReportKey(store, clock, every=settings.tick.total_seconds())
        self.metrics = DeliveryMetrics(metrics)
        self.settler = Settler(store, clock, self._landed, metrics, features, tick=settings.tick)

    def begin(self, flight: Flight, now: datetime) -> None:
        """Deliver a claimed alarm, or have written what is to follow instead."""
        if (held := self._flights.holding(flight.alarm)) is not None:
            self._claimed_again(held, flight)
        else:
            self._begin(flight, now)

    def is_busy(self) -> bool:
        """Whether something is under way that is not a delivery: a change being written, a rule being worked out."""
        if any(flight.task is None for flight in self._flights):
            return True
        return any(lock.locked() for lock in self._working_out.values())

    async def all_down(self) -> None:
        """Wait until everything is delivered and settled."""
        while len(self._flights):
            tasks = [flight.task for flight in self._flights if flight.task is not None]
            if tasks:
                await asyncio.wait(tasks)
            await self.settler.idle()
            await self._clock.sleep(0)  # whatever happens, others get their turn

    def cancel(self) -> None:
        """Cancel what is being delivered: it is released."""
        for flight in self._flights:
            flight.to_release = True
            if flight.task is not None:
                flight.task.cancel()

    def _begin(self, flight: Flight, now: datetime) -> None:
        self._flights.take_off(flight)
        if flight.change is not None:
            self._end(flight, flight.change)
        elif flight.alarm.next_fire_at > now or takes_long(flight.alarm.cron_expr):
            flight.task = self.event_loop.create_task(self._deliver_in_time(flight))
        elif self._passes(flight, now):
            flight.task = self.event_loop.create_task(self._deliver(flight))

    def _claimed_again(self, held: Flight, again: Flight) -> None:
        """An alarm whose lease has expired, or whose retry is due, while this process still has a flight of it.

        While its delivery is under way it is not sent again: the flight goes on with the new claim. Where it is over,
        the store is writing what followed; its answer shows whether that was before this claim, which then begins. So
        does a claim of the next try, after a failure was reported on this one.
        """
        if held.finished or held.is_ended_by(again):
            held.again = again
        else:
            held.adopt(again)

    async def _deliver_in_time(self, flight: Flight) -> None:
        """Deliver an alarm that was claimed a moment before it is due, then: never early."""
        try:
            if takes_long(flight.alarm.cron_expr):
                await self._work_out(flight.alarm)
            while (rest := self._store_clock.surely_until(flight.alarm.next_fire_at)) > 0:
                if rest > LONGEST_EARLY:
                    self._clock_set_back(flight, rest)
                    return
                # Where few wait, theirs ends before the moment, and the rest is awaited turn by turn; of many each
                # sleeps once.
                is_many = len(self._flights) > FEW
                await self._clock.sleep(rest + TIMER_OFF if is_many else max(0.0, rest - TIMER_OFF - TIMER_LATE))
        except asyncio.CancelledError:
            self._release(flight)  # the process is stopping
            return
        if self._passes(flight, self._now()):
            await self._deliver(flight)

    async def _work_out(self, alarm: Alarm) -> None:
        """Work out when a costly rule fires next in a thread: its schedule remembers, so what follows costs nothing.

        One of an owner's alarms at a time: however many there are, other owners have the other thread.
        """
        async with self._working_out.setdefault(alarm.owner_did, asyncio.Lock()):
            with suppress(Exception):  # what is wrong with it is reported where the alarm is planned
                for moment in (alarm.occurrence_at - MS, alarm.occurrence_at):  # a fire asks on either side of it
                    await in_thread(partial(following, alarm, moment))

    def _clock_set_back(self, flight: Flight, rest: float) -> None:
        """Release an alarm that is not due for long: a clock was set back, and the next claim learns which."""
        by = timedelta(seconds=rest)
        log.warning("a clock was set back by about %.1f s: released", rest, extra=observability.fields(flight.alarm))
        self._end(flight, clock_set_back(flight.alarm, by, now=self._now()))
        self._woken.set()

    def _passes(self, flight: Flight, now: datetime) -> bool:
        """Whether no guard stops it before its delivery has a task."""
        change: Change | None = None
        try:
            for guard in GUARDS:
                change = guard(self._context, flight, now)
                if change is not None:
                    break
        except Exception as error:  # a row this version cannot plan must not wedge the queue
            change = self._set_aside(flight, "it cannot be planned", error)
        if change is None:
            return True
        self._end(flight, change)
        return False

    async def _deliver(self, flight: Flight) -> None:
        try:
            for guard in AWAITED_GUARDS:
                change = await guard(self._context, flight)
                if change is not None:
                    self._end(flight, change)
                    return
            await self._attempt(flight)
        except asyncio.CancelledError:
            self._interrupted(flight)
        except StoreUnavailable as error:  # of a guard: what it cannot ask, or count, is not sent
            log.warning("a wake waits for the store, trying again: %s", error)
            self._release(flight, wait=self._settings.tick)
        except Exception as error:
            # A bug of ours. The alarm is let go: its lease ends by itself, and the poison rule counts.
            observability.broke("this attempt was lost", flight.alarm, error)
            self._landed(flight)

    async def _attempt(self, flight: Flight) -> None:
        alarm = flight.alarm
        started = flight.started = self._now()
        flight.arrived = flight.fire.delivered_at if flight.fire is not None else None
        served = self._flights.served[alarm.target]
        self._context.pace.begun(alarm, started)
        self.metrics.begun(flight, started)
        try:
            outcome: Outcome = await served.target.deliver(self._wake(flight, started))
        except Exception as error:
            # A target's own bug is a failed attempt like any other, not the end of the dispatcher.
            observability.broke("the target broke", alarm, error)
            outcome = Failed(f"the target broke: {type(error).__name__}: {error}")
        ended = self._now()
        self._flights.judge(flight, outcome, now=ended)
        self._settle(flight, outcome, Try(started, ended))

    def _wake(self, flight: Flight, started: datetime) -> Wake:
        alarm, fire = flight.alarm, flight.fire
        return Wake(
            alarm,
            attempt=attempt_number(alarm, fire),
            late_ms=max(0, (started - alarm.occurrence_at) // MS),
            report_url=self._report_url,
            secret=self.report_key.key,
            check=flight.look,
        )

    def _settle(self, flight: Flight, outcome: Outcome, attempt: Try) -> None:
        flight.outcome, flight.attempt = outcome, attempt
        self.metrics.attempted(flight, outcome, attempt)
        try:
            change = settle(flight.alarm, flight.fire, outcome, attempt)
        except Exception as error:  # as in _passes
            change = self._set_aside(flight, "what follows its delivery cannot be planned", error)
        self._end(flight, change)

    def _interrupted(self, flight: Flight) -> None:
        """Handle a cancelled delivery: the process is stopping and releases the alarm, or the target did it."""
        if flight.to_release:
            self._release(flight)
        else:
            ended = self._now()
            failed = Failed("the target cancelled its own delivery")
            self._settle(flight, failed, Try(flight.started or ended, ended))

    def _release(self, flight: Flight, *, wait: timedelta = timedelta(0)) -> None:
        """End a flight without a delivery, as far as this process goes."""
        self._end(flight, release(flight.alarm, now=self._now(), wait=wait))

    def _set_aside(self, flight: Flight, what: str, error: Exception) -> Change:
        observability.broke(what, flight.alarm, error)
        return quarantine(flight.alarm, flight.fire, f"{what}: {type(error).__name__}: {error}", now=self._now())

    def _end(self, flight: Flight, change: Change) -> None:
        """Have the change written, and claim the next: both then go into one transaction where they can."""
        flight.change, flight.task = change, None
        self.settler.add(flight)
        self._flights.finish(flight)
        self._claim_more(flight)

    def _landed(self, flight: Flight) -> None:
        """The settler is done with a flight."""
        self._flights.land(flight)
        if (again := flight.again) is not None and not again.lost:
            if self.stopping and again.change is None:
                again.change = release(again.alarm, now=self._now())
            self._begin(again, self._now())
        if flight.alarm.is_suspect and self._suspects.survived():
            self._woken.set()  # the next suspects need not wait for a tick
        self._claim_more(flight)

    def _claim_more(self, flight: Flight) -> None:
        if self._flights.is_awaited(flight.alarm.target):
            self._woken.set()


class ReportKey:
    """The key that this process makes report tokens with, read once a tick: a new one needs no restart."""

    def __init__(self, store: Store, clock: Clock, *, every: float) -> None:
        self._store = store
        self._clock = clock
        self._every = every
        self._read_from = 0.0
        self.key = b""

    async def read(self) -> None:
        now = self._clock.monotonic()
        if self.key and now < self._read_from:
            return
        key = (await self._store.access.report_keys()).current
        if self.key and key != self.key:
            log.warning("the key of report tokens was changed: new wakes carry tokens made with the new key")
        self.key, self._read_from = key, now + self._every

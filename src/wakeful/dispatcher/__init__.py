"""Claim → deliver → settle, and sleeping in between.

The row is the timer: there is no heap of alarms in memory. A dispatcher sleeps until the earliest due moment of the
targets it serves, until a hint says that something came sooner, or for one tick. Any number of them share a store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from wakeful.alarm import (
    Alarm,
    Change,
    Failed,
    Fire,
    Outcome,
    Try,
    Wake,
    begin,
    missed_before,
    quarantine,
    release,
    settle,
    unix_ms,
    whole_ms,
)
from wakeful.clock import Clock, SystemClock, stopwatch
from wakeful.config import Settings
from wakeful.dispatcher import telling
from wakeful.dispatcher.flights import Flight, Flights, Served
from wakeful.dispatcher.settler import Settler
from wakeful.dispatcher.telling import Jumps, Pulse, Teller
from wakeful.dispatcher.upkeep import Upkeep
from wakeful.errors import StoreUnavailable
from wakeful.metrics import Metrics
from wakeful.store import Claimed, Store, Worker

__all__ = ["Dispatcher", "Pulse", "Served"]

log = logging.getLogger("wakeful.dispatcher")

LONGEST_WAIT: Final = 5.0
SHORTEST_PAUSE: Final = 0.001
_MS: Final = timedelta(milliseconds=1)


class Dispatcher:
    def __init__(
        self,
        store: Store,
        served: Mapping[str, Served],
        *,
        worker: Worker,
        settings: Settings | None = None,
        clock: Clock | None = None,
        report_url: str = "",
        metrics: Metrics | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._report_url = report_url
        self._secret = b""
        self._offset = timedelta(0)  # the store's clock less ours, measured at each claim
        self._stopping = False
        self._state = "idle"
        self._busy = False
        self.on_busy: Callable[[bool], None] | None = None  # told when deliveries begin, and when all is quiet again
        self._looked = 0.0  # when the loop last got through, by the stopwatch
        self._metrics = metrics or Metrics()
        self._jumps = Jumps(self._metrics)
        self._teller = Teller(self._metrics)
        self._event_loop: asyncio.AbstractEventLoop  # kept: asking for it costs a system call each time
        self._bell = store.hints  # rung by whoever has news: the store, a landed flight, a stop
        self._flights = Flights(served, total=self._settings.total_concurrency, batch=self._settings.batch)
        self._settler = Settler(store, self._clock, self._landed, self._metrics)
        self._upkeep = Upkeep(store, self._flights, self._settings, self._clock, worker, self._metrics)

    async def run(self) -> None:
        """Dispatch until cancelled or told to stop; then finish or hand back what is in flight."""
        self._event_loop = asyncio.get_running_loop()
        self._state, self._looked = "running", stopwatch()
        self._upkeep.heard = self._looked
        try:
            await self._run()
        finally:
            self._state = "ended"

    @property
    def pulse(self) -> Pulse:
        """How it is, for whoever asks whether this process is well."""
        state = "stopping" if self._stopping and self._state == "running" else self._state
        breakers = {name: breaker.opened_at is not None for name, breaker in self._flights.breakers.items()}
        everyone = {name: False for name, served in self._flights.served.items() if served.breaks}
        age = stopwatch() - min(self._looked, self._upkeep.heard)
        return Pulse(state, age, len(self._flights), everyone | breakers)

    async def _run(self) -> None:
        settler = asyncio.create_task(self._settler.run(), name="wakeful settler")
        upkeep = asyncio.create_task(self._upkeep.run(self._now), name="wakeful upkeep")
        loop = asyncio.create_task(self._loop(), name="wakeful dispatcher")
        parts = (loop, settler, upkeep)
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The loop is asked, not cancelled: a claim on its way would leave alarms leased to nobody.
            # A second cancel cuts the farewell short: leases then end by themselves.
            self.stop()
            await asyncio.wait((loop,))
            await self._farewell(settler, upkeep)
        for part in parts:
            if not part.cancelled():
                part.result()  # a part that broke breaks the whole: silence would be worse

    def stop(self) -> None:
        """Claim nothing more, and let run() return once what is in flight has come down."""
        self._stopping = True
        self._bell.set()

    async def run_due(self) -> int:
        """Deliver and settle what is due now, and sweep what is overdue; how many alarms were claimed.

        For tests and one-off runs: it returns when nothing is due any more.
        """
        self._event_loop = asyncio.get_running_loop()
        settler = asyncio.create_task(self._settler.run())
        done = 0
        try:
            await self._upkeep.look_around()
            await self._upkeep.tasks.plan(self._now())
            while claimed := len(await self._claim()):
                done += claimed
                await self._all_down()
            await self._upkeep.sweep(self._now())
        finally:
            settler.cancel()
            with suppress(asyncio.CancelledError):
                await settler
        return done

    # The loop

    async def _loop(self) -> None:
        wait = 0.05
        while not self._stopping:
            self._bell.clear()
            try:
                pause = await self._step()
                wait, self._looked = 0.05, stopwatch()
            except StoreUnavailable as error:
                self._metrics.store_failed()
                log.warning("the store is away, trying again in %.2f s: %s", wait, error)
                pause, wait = wait, min(wait * 2, LONGEST_WAIT)
            self._tell_busy(pause <= 0 or len(self._flights) > 0)
            if pause > 0 and not self._stopping:
                await self._nap(pause)

    def _tell_busy(self, busy: bool) -> None:
        if busy != self._busy and self.on_busy is not None:
            self.on_busy(busy)
        self._busy = busy

    async def _step(self) -> float:
        """Claim what is due and start it; how long there is nothing more to do."""
        slots = self._flights.slots(self._now())
        claimed = await self._claim(slots) if slots else []
        self._flights.fed(slots, Counter(alarm.target for alarm in claimed))
        if any(target in self._flights.hungry for target in self._flights.slots(self._now())):
            return 0.0  # there may be more where that came from, and room for it
        now = self._now()
        moments = [now + self._settings.tick]
        if probe := self._flights.next_probe():
            moments.append(probe)
        if open_targets := self._flights.open_targets(now):
            due = await self._store.next_due(open_targets, lease=self._settings.lease)
            if due is not None:
                moments.append(due)
        # Nothing could be taken though something is due (another worker is at it just now): do not spin.
        least = 0.0 if claimed else SHORTEST_PAUSE
        return max(least, (min(moments) - self._clock.now() - self._offset).total_seconds())

    async def _nap(self, seconds: float) -> None:
        """Sleep, or until the bell rings."""
        bell = asyncio.ensure_future(self._bell.wait())
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait((bell, sleep), return_when=asyncio.FIRST_COMPLETED)
        finally:
            bell.cancel()
            sleep.cancel()

    # One alarm

    async def _claim(self, slots: Mapping[str, int] | None = None) -> list[Alarm]:
        if not self._secret:
            self._secret = await self._store.secret()
        if slots is None:
            slots = self._flights.slots(self._now())
        if not slots:
            return []
        asked, asked_at = stopwatch(), self._clock.now()
        claimed = await self._store.claim(slots, lease=self._settings.lease)
        self._offset = _believable(self._offset, claimed.now, asked_at, self._clock.now())
        self._jumps.look(claimed.now, asked=asked, answered=stopwatch())
        self._metrics.claimed([alarm.unsettled for alarm in claimed.alarms])
        fires = await self._known_fires(claimed)
        for alarm in claimed.alarms:
            self._start(alarm, fires.get((alarm.id, alarm.occurrence_at)), claimed.now)
        return claimed.alarms

    async def _known_fires(self, claimed: Claimed) -> dict[tuple[str, datetime], Fire]:
        keys = [(alarm.id, alarm.occurrence_at) for alarm in claimed.alarms if alarm.may_have_fire]
        return await self._store.fires_at(keys) if keys else {}

    def _start(self, alarm: Alarm, fire: Fire | None, now: datetime) -> None:
        flight = Flight(alarm, fire)
        self._flights.take_off(flight)
        try:
            flight.change = begin(alarm, fire, now=now)
        except Exception as error:  # a row this version cannot plan must not wedge the queue
            flight.change = self._set_aside(flight, error)
        if flight.change is not None:
            self._settler.add(flight)
        else:
            flight.task = self._event_loop.create_task(self._deliver(flight))

    async def _deliver(self, flight: Flight) -> None:
        try:
            await self._attempt(flight)
        except Exception as error:
            # A bug of ours. The alarm is let go: its lease ends by itself, and the poison rule counts.
            telling.broke("this attempt was lost", flight.alarm, error)
            self._landed(flight)

    async def _attempt(self, flight: Flight) -> None:
        alarm = flight.alarm
        started = flight.started = self._now()
        served = self._flights.served[alarm.target]
        self._teller.begun(flight, started)
        try:
            outcome: Outcome = await served.target.deliver(self._wake(flight, started))
        except asyncio.CancelledError:
            self._interrupted(flight)
            return
        except Exception as error:
            # A target's own bug is a failed attempt like any other, not the end of the dispatcher.
            telling.broke("the target broke", alarm, error)
            outcome = Failed(f"the target broke: {type(error).__name__}: {error}")
        self._judge(flight, outcome)
        self._settle(flight, outcome, started)

    def _settle(self, flight: Flight, outcome: Outcome, started: datetime) -> None:
        flight.outcome, flight.attempt = outcome, Try(started, self._now())
        self._teller.attempted(flight, outcome, flight.attempt)
        try:
            flight.change = settle(flight.alarm, flight.fire, outcome, flight.attempt)
        except Exception as error:  # as above
            flight.change = self._set_aside(flight, error)
        self._came_back(flight)

    def _came_back(self, flight: Flight) -> None:
        """Hand it on to be written, and look for the next: both then go into one transaction where they can."""
        flight.task = None
        self._settler.add(flight)
        self._flights.come_back(flight)
        self._bell.set()

    def _set_aside(self, flight: Flight, error: Exception) -> Change:
        telling.broke("it cannot be planned", flight.alarm, error)
        return quarantine(flight.alarm, flight.fire, f"{type(error).__name__}: {error}", now=self._now())

    def _wake(self, flight: Flight, started: datetime) -> Wake:
        alarm, fire = flight.alarm, flight.fire
        return Wake(
            alarm,
            attempt=fire.attempts + 1 if fire else 1,
            late_ms=max(0, unix_ms(started) - unix_ms(alarm.occurrence_at)),
            missed=missed_before(alarm, started) if alarm.kind == "cron" else 0,
            report_url=self._report_url,
            secret=self._secret,
        )

    def _judge(self, flight: Flight, outcome: Outcome) -> None:
        if not isinstance(outcome, Failed):
            self._flights.landed_well(flight)
        elif outcome.unhealthy:
            self._flights.landed_badly(flight, outcome.error, now=self._now())

    def _interrupted(self, flight: Flight) -> None:
        """A delivery was cancelled: the process is stopping and hands the alarm back, or its lease was lost."""
        if flight.given_back:
            flight.task = None
            flight.change = release(flight.alarm, now=self._now())
            self._settler.add(flight)
        else:
            lost = Failed("given up: the alarm was changed, or its lease was lost, while this attempt was under way")
            self._settle(flight, lost, flight.started or self._now())

    def _landed(self, flight: Flight) -> None:
        self._flights.land(flight)
        self._bell.set()

    # The end

    async def _farewell(self, settler: asyncio.Task[None], upkeep: asyncio.Task[None]) -> None:
        patience = self._settings.stop_within.total_seconds()
        try:
            if not await self._within(patience, self._all_down()):
                for flight in self._flights:
                    flight.given_back = True
                    if flight.task is not None:
                        flight.task.cancel()
                await self._within(patience, self._all_down())
        finally:
            upkeep.cancel()
            settler.cancel()
            await asyncio.gather(settler, upkeep, return_exceptions=True)
        with suppress(StoreUnavailable):
            await self._upkeep.beat(stopped=True, now=self._now())

    async def _all_down(self) -> None:
        while len(self._flights):
            tasks = [flight.task for flight in self._flights if flight.task is not None]
            if tasks:
                await asyncio.wait(tasks)
            await self._settler.idle()
            await self._clock.sleep(0)  # whatever happens, others get their turn

    async def _within(self, seconds: float, what: Coroutine[Any, Any, None]) -> bool:
        waiting = asyncio.ensure_future(what)
        done, _ = await asyncio.wait((waiting,), timeout=seconds)
        if not done:
            waiting.cancel()
        return bool(done)

    def _now(self) -> datetime:
        """This moment by the store's clock, as near as we know."""
        return whole_ms(self._clock.now() + self._offset)


def _believable(offset: timedelta, theirs: datetime, asked: datetime, answered: datetime) -> timedelta:
    """How far the store's clock is ahead of ours, given that it said `theirs`, cut to the millisecond, in between.

    What was believed before stands until it cannot be true: a slow answer alone teaches nothing.
    """
    return min(max(offset, theirs - answered), theirs + _MS - asked)

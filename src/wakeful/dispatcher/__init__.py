"""The dispatcher: claim, deliver, settle, and sleep in between.

The row is the timer: there is no heap of alarms in memory. A dispatcher sleeps until the earliest due moment of the
targets it serves, until a hint says that something came sooner, or for one tick. Any number of them share a store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from wakeful.clock import BUSY, Clock, SteppedClock, SystemClock, stopwatch, within
from wakeful.dispatcher.claiming import Suspects, Turns
from wakeful.dispatcher.delivery import Deliveries
from wakeful.dispatcher.flights import Flight, Flights, ServedTarget
from wakeful.dispatcher.guards import Feature, overtaken
from wakeful.dispatcher.observability import DispatcherHealth
from wakeful.dispatcher.store_clock import StoreClock
from wakeful.dispatcher.upkeep import Upkeep, ZonePlanning
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Alarm, Fire
from wakeful.rules.settle import release
from wakeful.runtime.metrics import Metrics
from wakeful.settings import Settings
from wakeful.store import NOT_EARLY, Claimed, Store, Worker

__all__ = ["Dispatcher", "DispatcherHealth", "MakeFeature", "ServedTarget"]

log = logging.getLogger("wakeful.dispatcher")

LONGEST_WAIT: Final = 1.0  # seconds between two tries at a store that is away: it is back for longer than that
SHORTEST_PAUSE: Final = 0.001
LEAD: Final = timedelta(milliseconds=20)  # before an alarm is due it is claimed, with what is due soon after it
TICKS_SILENT: Final = 10  # that the loop may miss
SHORTEST_SILENCE: Final = 5.0  # seconds that it may miss in any case: a process can be short of processor time
STORE_PATIENCE: Final = 60.0  # seconds that a store may take to answer before the loop counts as stuck


MakeFeature = Callable[[Store, Settings, Metrics], Feature]


class LoopTimes(Struct):
    """When the loop of a dispatcher did what; by the monotonic clock, except `completed`."""

    ran: float = 0.0  # it last ran
    wake_at: float = 0.0  # its sleep ends
    knows_next_until: float = 0.0  # until then the store is not asked again what is due next
    completed: float = 0.0  # it last got through, and so reached the store; by the stopwatch


class Dispatcher:
    """The loop: claim, hand to `Deliveries`, sleep. What stops a delivery is in guards.py."""

    def __init__(
        self,
        store: Store,
        served: Mapping[str, ServedTarget],
        *,
        worker: Worker,
        settings: Settings | None = None,
        clock: Clock | None = None,
        report_url: str = "",
        metrics: Metrics | None = None,
        features: Iterable[MakeFeature] = (),
    ) -> None:
        self._store = store
        self._settings = settings = settings or Settings()
        self._clock = clock = clock or SystemClock()
        self._metrics = metrics = metrics or Metrics()
        self._state = "idle"
        self._napping = False
        self._busy = False
        self.on_busy: Callable[[bool], None] | None = None  # called when deliveries begin, and when all is quiet again
        self._times = LoopTimes()
        # A clock that is moved by hand stands still at each moment: there is nothing to be early for.
        self._lead = timedelta(0) if isinstance(clock, SteppedClock) else LEAD
        self._woken = store.hints  # set by whoever has news: the store, a landed flight, a stop
        self._features = [make(store, settings, metrics) for make in features]
        self._store_clock = StoreClock(clock, metrics)
        self._now = self._store_clock.now
        self._turns = Turns()
        self._suspects = Suspects(clock, every=settings.tick.total_seconds())
        self._flights = Flights(served, total=settings.total_concurrency, batch=settings.batch)
        self._zones = ZonePlanning(store, clock, metrics, tick=settings.tick)
        self._upkeep = Upkeep(store, self._flights, settings, clock, worker, metrics, self._features)
        self._deliveries = Deliveries(
            store,
            self._flights,
            self._suspects,
            self._store_clock,
            self._features,
            settings=settings,
            clock=clock,
            metrics=metrics,
            report_url=report_url,
        )

    async def announce(self) -> None:
        """Record which targets are served here, before a request could be refused because nobody serves them."""
        with suppress(StoreUnavailable):  # the first beat will say it
            await self._upkeep.beat(await self._store.now())

    async def run(self) -> None:
        """Dispatch until cancelled or stopped; then finish or release the deliveries in flight."""
        self._deliveries.event_loop = asyncio.get_running_loop()
        self._state, started = "running", self._clock.monotonic()
        self._times = LoopTimes(ran=started, wake_at=started, completed=stopwatch())
        self._upkeep.heard = self._times.completed
        by_hand = self._clock.working(self._work) if isinstance(self._clock, SteppedClock) else nullcontext()
        try:
            with by_hand:
                await self._run()
        finally:
            self._state, self._deliveries.stopping = "ended", False  # a program may run it again
            self._deliveries.metrics.wakes.sum_up()

    def _work(self) -> object:
        """What is under way, for a clock that is moved by hand."""
        if not self._napping or self._woken.is_set() or not self._upkeep.resting:
            return BUSY
        if self._deliveries.is_busy():
            return BUSY
        return frozenset((flight.alarm.id, flight.alarm.claim) for flight in self._flights) or None

    @property
    def health(self) -> DispatcherHealth:
        """Return the dispatcher's health, for health checks."""
        state = "stopping" if self._deliveries.stopping and self._state == "running" else self._state
        breakers = {name: breaker.opened_at is not None for name, breaker in self._flights.breakers.items()}
        everyone = {name: False for name, served in self._flights.served.items() if served.breaks}
        age = stopwatch() - min(self._times.completed, self._upkeep.heard)
        held = self._flights.holds.owners(self._now())
        stuck = self._stuck if state == "running" else 0.0
        stalled = self._deliveries.settler.stalled
        return DispatcherHealth(state, age, len(self._flights), everyone | breakers, stalled, held, stuck)

    @property
    def _stuck(self) -> float:
        """Seconds since the loop last ran, where that is too long; else 0. It sleeps for a tick at most."""
        silent = self._clock.monotonic() - self._times.ran
        patience = max(TICKS_SILENT * self._settings.tick.total_seconds(), SHORTEST_SILENCE)
        return silent if silent > (patience if self._napping else max(patience, STORE_PATIENCE)) else 0.0

    async def _run(self) -> None:
        settler = asyncio.create_task(self._deliveries.settler.run(), name="wakeful settler")
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
        """Claim nothing more, and let run() return once deliveries in flight have finished."""
        self._deliveries.stopping = True
        self._woken.set()

    async def run_due(self) -> int:
        """Deliver and settle what is due now, and sweep overdue reports; return how many alarms were claimed.

        For tests and single runs: it returns when nothing is due any more.
        """
        self._deliveries.event_loop = asyncio.get_running_loop()
        settler = asyncio.create_task(self._deliveries.settler.run())
        done = 0
        try:
            self._suspects.want_at_once()
            while not await self._zones.step(anew=True):
                pass
            await self._upkeep.catch_up(anew=True)
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
        while not self._deliveries.stopping:
            self._woken.clear()
            self._times.ran = self._clock.monotonic()
            try:
                pause = await self._step()
                wait, self._times.completed = 0.05, stopwatch()
            except StoreUnavailable as error:
                self._metrics.store_failed()
                log.warning("the store cannot be reached, trying again in %.2f s: %s", wait, error)
                pause, wait = wait, min(wait * 2, LONGEST_WAIT)
            self._report_busy(pause <= 0 or len(self._flights) > 0)
            self._deliveries.metrics.wakes.sum_up(self._now())
            self._times.ran = self._clock.monotonic()
            self._times.wake_at = self._times.ran + max(0.0, pause)
            if pause > 0 and not self._deliveries.stopping:
                await self._nap(pause)

    def _report_busy(self, busy: bool) -> None:
        if busy != self._busy and self.on_busy is not None:
            self.on_busy(busy)
        self._busy = busy

    async def _after_a_stall(self) -> None:
        """Renew leases that nobody took while this process stood still."""
        if self._clock.monotonic() - self._times.wake_at > self._settings.lease.total_seconds() / 2:
            await self._upkeep.renew(self._now())
            self._suspects.leave_alone()

    async def _step(self) -> float:
        """Claim what is due and start it; return how long to sleep."""
        if not await self._zones.step():
            return 0.0
        await self._upkeep.catch_up()
        await self._after_a_stall()
        if self._lead and (rest := self._flights.collecting(self._clock.monotonic())) > 0:
            return rest
        slots = self._flights.slots(self._now())
        claimed = await self._claim(slots, self._flights.early(slots) if self._lead else NOT_EARLY) if slots else []
        self._flights.fed(slots, Counter(alarm.target for alarm in claimed))
        if any(target in self._flights.hungry for target in self._flights.slots(self._now())):
            return 0.0  # there may be more where that came from, and room for it
        # Nothing could be taken though something is due (another worker is at it just now): do not spin.
        least = 0.0 if claimed else SHORTEST_PAUSE
        return max(least, self._store_clock.until(await self._next_pass()))

    async def _next_pass(self) -> datetime:
        """When the next pass begins, unless a hint arrives before."""
        now = self._now()
        moments = [now + self._settings.tick]
        if probe := self._flights.next_probe():
            moments.append(probe)
        if self._lead and self._flights.hungry and self._clock.monotonic() < self._times.knows_next_until:
            # A full target is claimed from again as soon as its deliveries finish. Of the others nothing was due just
            # now, and a claim also takes what is due within EARLY: so the store is not asked in each pass.
            moments.append(now + self._lead)
        elif open_targets := self._flights.open_targets(now):
            due = await self._store.next_due(open_targets)
            self._times.knows_next_until = self._clock.monotonic() + self._lead.total_seconds()
            if due is not None:
                moments.append(due - self._lead)
        return min(moments)

    async def _nap(self, seconds: float) -> None:
        """Sleep, or until a hint arrives."""
        woken = asyncio.ensure_future(self._woken.wait())
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        self._napping = True
        try:
            await asyncio.wait((woken, sleep), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._napping = False
            woken.cancel()
            sleep.cancel()

    async def _claim(
        self, slots: Mapping[str, int] | None = None, early: Mapping[str, timedelta] = NOT_EARLY
    ) -> list[Alarm]:
        await self._deliveries.report_key.read()
        if slots is None:
            slots = self._flights.slots(self._now())
        if not slots:
            return []
        suspects = self._suspects.wanted()
        taken = self._clock.monotonic()
        self._store_clock.requests()
        turns = self._turns.wanted(slots, probes=self._flights.on_probe())
        claimed = await self._store.claim(
            slots, lease=self._settings.lease, suspects=suspects, turns=turns, early=early
        )
        self._turns.claimed(slots, claimed)
        self._store_clock.heard(claimed.now)
        self._metrics.claimed([alarm.unsettled for alarm in claimed.alarms], ahead=claimed.ahead)
        if suspects:
            self._suspects.claimed(claimed.alarms)
        fires = await self._known_fires(claimed)
        waits = await overtaken(self._features, claimed.alarms, claimed.now)
        for alarm in claimed.alarms:
            flight = Flight(alarm, fires.get((alarm.id, alarm.occurrence_at)), taken=taken)
            if alarm.id in waits:
                flight.change = release(alarm, now=self._now(), wait=waits[alarm.id])
            self._deliveries.begin(flight, claimed.now)
        return claimed.alarms

    async def _known_fires(self, claimed: Claimed) -> dict[tuple[str, datetime], Fire]:
        keys = [(alarm.id, alarm.occurrence_at) for alarm in claimed.alarms if alarm.may_have_fire]
        return await self._store.fires_at(keys) if keys else {}

    # The end

    async def _farewell(self, settler: asyncio.Task[None], upkeep: asyncio.Task[None]) -> None:
        patience = self._settings.stop_within.total_seconds()
        try:
            if not await within(patience, self._all_down()):
                self._deliveries.cancel()
                await within(patience, self._all_down())
        finally:
            upkeep.cancel()
            settler.cancel()
            await asyncio.gather(settler, upkeep, return_exceptions=True)
        with suppress(StoreUnavailable):
            await self._upkeep.beat(stopped=True, now=self._now())

    async def _all_down(self) -> None:
        await self._deliveries.all_down()

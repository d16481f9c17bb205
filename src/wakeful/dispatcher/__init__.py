"""The dispatcher: claim, deliver, settle, and sleep in between.

The row is the timer: there is no heap of alarms in memory. A dispatcher sleeps until the earliest due moment of the
targets it serves, until a hint says that something came sooner, or for one tick. Any number of them share a store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from wakeful.alarm import (
    Alarm,
    Change,
    Failed,
    Fire,
    Outcome,
    Try,
    Wake,
    acquitted,
    attempt_number,
    begin,
    clock_set_back,
    hold_back,
    is_alone,
    put_on_trial,
    quarantine,
    release,
    settle,
)
from wakeful.alarm.budget import Allowance
from wakeful.alarm.checks import keeps_back, unchanged
from wakeful.alarm.plan import following
from wakeful.clock import BUSY, Clock, SteppedClock, SystemClock, stopwatch, within
from wakeful.config import Settings
from wakeful.cpu_time import in_thread
from wakeful.dispatcher import observability
from wakeful.dispatcher.budget import BudgetGuard
from wakeful.dispatcher.claiming import Suspects, Turns
from wakeful.dispatcher.flights import EARLY, Flight, Flights, ServedTarget
from wakeful.dispatcher.gate import WakeGate
from wakeful.dispatcher.observability import DeliveryMetrics, DispatcherHealth
from wakeful.dispatcher.pace import Pace
from wakeful.dispatcher.report_key import ReportKey
from wakeful.dispatcher.settler import Settler
from wakeful.dispatcher.store_clock import StoreClock
from wakeful.dispatcher.upkeep import Upkeep
from wakeful.dispatcher.zone_planning import ZonePlanning
from wakeful.errors import StoreUnavailable
from wakeful.metrics import Metrics
from wakeful.moments import MS
from wakeful.schedule import takes_long
from wakeful.store import NOT_EARLY, Claimed, Store, Worker

__all__ = ["Dispatcher", "DispatcherHealth", "ServedTarget"]

log = logging.getLogger("wakeful.dispatcher")

LONGEST_WAIT: Final = 1.0  # seconds between two tries at a store that is away: it is back for longer than that
SHORTEST_PAUSE: Final = 0.001
LEAD: Final = timedelta(milliseconds=20)  # before an alarm is due it is claimed, with what is due soon after it
ROOM_WITHIN: Final = 0.01  # seconds that a claim waits for room for many: other targets wait no longer than that for it
LONGEST_EARLY: Final = 2 * EARLY.total_seconds()  # of a wait for an alarm that was claimed early
TICKS_SILENT: Final = 10  # that the loop may miss
SHORTEST_SILENCE: Final = 5.0  # seconds that it may miss in any case: a process can be short of processor time
STORE_PATIENCE: Final = 60.0  # seconds that a store may take to answer before the loop counts as stuck
FEW: Final = 8  # flights
TIMER_OFF: Final = 0.0005  # seconds: timers go by the nearest millisecond
TIMER_LATE: Final = 0.0003  # seconds more, until a processor that slept is awake and this process has its turn


class Dispatcher:
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
    ) -> None:
        self._store = store
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._lease = self._settings.lease.total_seconds()
        self._report_url = report_url
        self._report_key = ReportKey(store, self._clock, every=self._settings.tick.total_seconds())
        self._stopping = False
        self._state = "idle"
        self._busy = False
        self.on_busy: Callable[[bool], None] | None = None  # told when deliveries begin, and when all is quiet again
        self._looked = 0.0  # when the loop last got through, by the stopwatch
        self._ran = 0.0  # when the loop last ran, by the monotonic clock
        self._napping = False
        # A clock that is moved by hand stands still at each moment: there is nothing to be early for.
        self._lead = timedelta(0) if isinstance(self._clock, SteppedClock) else LEAD
        self._awake_at = 0.0  # when the loop is to go on, by the clock that nobody sets
        self._asked_until = 0.0  # for how long nobody is asked what is due next, by the same clock
        self._room_by = 0.0  # until when a claim waits to be a large one, by the same clock
        self._suspects = Suspects(self._clock, every=self._settings.tick.total_seconds())
        self._pace = Pace(self._settings.fires_per_minute)
        self._turns = Turns()
        self._working_out: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by owner
        self._metrics = metrics or Metrics()
        self._budget = BudgetGuard(store, self._settings, self._metrics)
        self._gate = WakeGate(store, self._settings, self._clock, self._metrics)
        self._store_clock = StoreClock(self._clock, self._metrics)
        self._now = self._store_clock.now
        self._teller = DeliveryMetrics(self._metrics)
        self._event_loop: asyncio.AbstractEventLoop  # kept: asking for it costs a system call each time
        self._woken = store.hints  # set by whoever has news: the store, a landed flight, a stop
        self._flights = Flights(served, total=self._settings.total_concurrency, batch=self._settings.batch)
        self._zones = ZonePlanning(store, self._clock, self._metrics, tick=self._settings.tick)
        self._upkeep = Upkeep(store, self._flights, self._settings, self._clock, worker, self._metrics)
        self._settler = Settler(store, self._clock, self._landed, self._metrics, self._upkeep.tasks)

    async def announce(self) -> None:
        """Say which targets are served here, before anybody is answered who would be told that no one serves them."""
        with suppress(StoreUnavailable):  # the first beat will say it
            await self._upkeep.beat(await self._store.now())

    async def run(self) -> None:
        """Dispatch until cancelled or told to stop; then finish or release the deliveries in flight."""
        self._event_loop = asyncio.get_running_loop()
        self._state, self._looked, self._awake_at = "running", stopwatch(), self._clock.monotonic()
        self._upkeep.heard, self._ran = self._looked, self._awake_at
        by_hand = self._clock.working(self._work) if isinstance(self._clock, SteppedClock) else nullcontext()
        try:
            with by_hand:
                await self._run()
        finally:
            self._state, self._stopping = "ended", False  # a program may run it again
            self._teller.wakes.sum_up()

    def _work(self) -> object:
        """What is under way, for a clock that is moved by hand."""
        if not self._napping or self._woken.is_set() or not self._upkeep.resting:
            return BUSY
        if any(flight.task is None for flight in self._flights):
            return BUSY  # it came back, and is being written
        if any(lock.locked() for lock in self._working_out.values()):
            return BUSY
        return frozenset((flight.alarm.id, flight.alarm.claim) for flight in self._flights) or None

    @property
    def health(self) -> DispatcherHealth:
        """Return the dispatcher's health, for health checks."""
        state = "stopping" if self._stopping and self._state == "running" else self._state
        breakers = {name: breaker.opened_at is not None for name, breaker in self._flights.breakers.items()}
        everyone = {name: False for name, served in self._flights.served.items() if served.breaks}
        age = stopwatch() - min(self._looked, self._upkeep.heard)
        held = self._flights.holds.owners(self._now())
        stuck = self._stuck if state == "running" else 0.0
        return DispatcherHealth(state, age, len(self._flights), everyone | breakers, self._settler.stalled, held, stuck)

    @property
    def _stuck(self) -> float:
        """Seconds since the loop last ran, where that is too long; else 0. It sleeps for a tick at most."""
        silent = self._clock.monotonic() - self._ran
        patience = max(TICKS_SILENT * self._settings.tick.total_seconds(), SHORTEST_SILENCE)
        return silent if silent > (patience if self._napping else max(patience, STORE_PATIENCE)) else 0.0

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
        """Claim nothing more, and let run() return once deliveries in flight have finished."""
        self._stopping = True
        self._woken.set()

    async def run_due(self) -> int:
        """Deliver and settle what is due now, and sweep overdue reports; return how many alarms were claimed.

        For tests and single runs: it returns when nothing is due any more.
        """
        self._event_loop = asyncio.get_running_loop()
        settler = asyncio.create_task(self._settler.run())
        done = 0
        try:
            self._suspects.look_at_once()
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
        while not self._stopping:
            self._woken.clear()
            self._ran = self._clock.monotonic()
            try:
                pause = await self._step()
                wait, self._looked = 0.05, stopwatch()
            except StoreUnavailable as error:
                self._metrics.store_failed()
                log.warning("the store cannot be reached, trying again in %.2f s: %s", wait, error)
                pause, wait = wait, min(wait * 2, LONGEST_WAIT)
            self._tell_busy(pause <= 0 or len(self._flights) > 0)
            self._teller.wakes.sum_up(self._now())
            self._ran = self._clock.monotonic()
            self._awake_at = self._ran + max(0.0, pause)
            if pause > 0 and not self._stopping:
                await self._nap(pause)

    def _tell_busy(self, busy: bool) -> None:
        if busy != self._busy and self.on_busy is not None:
            self.on_busy(busy)
        self._busy = busy

    async def _after_a_stall(self) -> None:
        """Renew leases that nobody took while this process stood still."""
        if self._clock.monotonic() - self._awake_at > self._lease / 2:
            await self._upkeep.renew(self._now())
            self._suspects.leave_alone()

    async def _step(self) -> float:
        """Claim what is due and start it; return how long to sleep."""
        if not await self._zones.step():
            return 0.0
        await self._upkeep.catch_up()
        await self._after_a_stall()
        if self._lead and self._flights.making_room:
            self._room_by = self._room_by or self._clock.monotonic() + ROOM_WITHIN
            if (rest := self._room_by - self._clock.monotonic()) > 0:
                return rest  # or until there is room for many
        self._room_by = 0.0
        slots = self._flights.slots(self._now())
        claimed = await self._claim(slots, self._flights.early(slots) if self._lead else NOT_EARLY) if slots else []
        self._flights.fed(slots, Counter(alarm.target for alarm in claimed))
        if any(target in self._flights.hungry for target in self._flights.slots(self._now())):
            return 0.0  # there may be more where that came from, and room for it
        # Nothing could be taken though something is due (another worker is at it just now): do not spin.
        least = 0.0 if claimed else SHORTEST_PAUSE
        return max(least, self._store_clock.until(await self._next_look()))

    async def _next_look(self) -> datetime:
        """When to look again, unless somebody says that there is something before."""
        now = self._now()
        moments = [now + self._settings.tick]
        if probe := self._flights.next_probe():
            moments.append(probe)
        if self._lead and self._flights.hungry and self._clock.monotonic() < self._asked_until:
            # A full target is looked at again as soon as its deliveries come back; of the others nothing was due just
            # now, and whatever comes within EARLY of a look is claimed by it. So they are not asked about each time.
            moments.append(now + self._lead)
        elif open_targets := self._flights.open_targets(now):
            due = await self._store.next_due(open_targets)
            self._asked_until = self._clock.monotonic() + self._lead.total_seconds()
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

    # One alarm

    async def _claim(
        self, slots: Mapping[str, int] | None = None, early: Mapping[str, timedelta] = NOT_EARLY
    ) -> list[Alarm]:
        await self._report_key.look()
        if slots is None:
            slots = self._flights.slots(self._now())
        if not slots:
            return []
        suspects = self._suspects.wanted()
        taken = self._clock.monotonic()
        self._store_clock.ask()
        turns = self._turns.wanted(slots, probes=self._flights.on_probe())
        claimed = await self._store.claim(
            slots, lease=self._settings.lease, suspects=suspects, turns=turns, early=early
        )
        self._turns.claimed(slots, claimed)
        self._store_clock.heard(claimed.now)
        self._metrics.claimed([alarm.unsettled for alarm in claimed.alarms], ahead=claimed.ahead)
        if suspects:
            self._suspects.looked(claimed.alarms)
        fires = await self._known_fires(claimed)
        overtaken = await self._upkeep.tasks.overtaken(claimed.alarms, claimed.now)
        for alarm in claimed.alarms:
            flight = Flight(alarm, fires.get((alarm.id, alarm.occurrence_at)), taken=taken)
            if alarm.id in overtaken:
                flight.change = release(alarm, now=self._now(), wait=overtaken[alarm.id])
            elif wait := self._pace.wait(alarm, claimed.now):
                flight.change = hold_back(alarm, self._pace.most, wait, now=claimed.now)
            if (held := self._flights.holding(alarm)) is not None:
                self._claimed_again(held, flight)
            else:
                self._begin(flight, claimed.now)
        return claimed.alarms

    async def _known_fires(self, claimed: Claimed) -> dict[tuple[str, datetime], Fire]:
        keys = [(alarm.id, alarm.occurrence_at) for alarm in claimed.alarms if alarm.may_have_fire]
        return await self._store.fires_at(keys) if keys else {}

    def _start(self, flight: Flight, now: datetime) -> None:
        self._flights.take_off(flight)
        if flight.alarm.next_fire_at > now or takes_long(flight.alarm.cron_expr):
            flight.task = self._event_loop.create_task(self._deliver_in_time(flight))
        elif self._is_to_be_delivered(flight, now):
            flight.task = self._event_loop.create_task(self._deliver(flight))

    async def _deliver_in_time(self, flight: Flight) -> None:
        """Deliver an alarm that was claimed a moment before it is due, then: never early."""
        try:
            if takes_long(flight.alarm.cron_expr):
                await self._work_out(flight.alarm)
            while (rest := self._store_clock.surely_until(flight.alarm.next_fire_at)) > 0:
                if rest > LONGEST_EARLY:
                    self._set_back(flight, rest)
                    return
                # Where few wait, theirs ends before the moment, and the rest is awaited turn by turn; of many each
                # sleeps once.
                is_many = len(self._flights) > FEW
                await self._clock.sleep(rest + TIMER_OFF if is_many else max(0.0, rest - TIMER_OFF - TIMER_LATE))
        except asyncio.CancelledError:
            self._hand_back(flight)  # the process is stopping
            return
        if self._is_to_be_delivered(flight, self._now()):
            await self._deliver(flight)

    async def _work_out(self, alarm: Alarm) -> None:
        """Work out when a costly rule fires next in a thread: its schedule remembers, so what follows costs nothing.

        One of an owner's alarms at a time: however many there are, other owners have the other thread.
        """
        async with self._working_out.setdefault(alarm.owner_did, asyncio.Lock()):
            with suppress(Exception):  # what is wrong with it is told where the alarm is planned
                for moment in (alarm.occurrence_at - MS, alarm.occurrence_at):  # a fire asks on either side of it
                    await in_thread(partial(following, alarm, moment))

    def _set_back(self, flight: Flight, rest: float) -> None:
        """Release an alarm that is not due for long: a clock was set back, and the next claim learns which."""
        by = timedelta(seconds=rest)
        log.warning("a clock was set back by about %.1f s: released", rest, extra=observability.fields(flight.alarm))
        flight.change = clock_set_back(flight.alarm, by, now=self._now())
        self._came_back(flight)
        self._woken.set()

    def _is_to_be_delivered(self, flight: Flight, now: datetime) -> bool:
        """Whether it is; else what follows instead goes to be written."""
        alarm = flight.alarm
        try:
            refused = self._flights.served[alarm.target].users.refusal(alarm)
            flight.change = begin(alarm, flight.fire, now=now, refused=refused) or self._held(flight)
        except Exception as error:  # a row this version cannot plan must not wedge the queue
            flight.change = self._set_aside(flight, "it cannot be planned", error)
        if flight.change is not None:
            self._came_back(flight)
            return False
        if alarm.is_suspect:
            self._suspects.tries(flight)
        return True

    def _held(self, flight: Flight) -> Change | None:
        """Put an alarm back while its target answers its owner with errors, so that nobody waits behind it."""
        if not self._flights.holds:
            return None  # nearly always, and without asking the time
        wait = self._flights.holds.wait(flight, now=self._now())
        return None if wait is None else release(flight.alarm, now=self._now(), wait=wait)

    def _claimed_again(self, held: Flight, again: Flight) -> None:
        """An alarm whose lease has expired, or whose retry is due, while this process still has a flight of it.

        While its delivery is under way it is not sent again: the flight goes on with the new claim. Where it is over,
        the store is writing what followed; its answer tells whether that was before this claim, which then begins.
        """
        if held.back:
            held.again = again
        else:
            held.adopt(again)

    def _begin(self, flight: Flight, now: datetime) -> None:
        """Deliver a claimed alarm, or have written what is to follow instead."""
        if flight.change is None:
            self._start(flight, now)
        else:
            self._flights.take_off(flight)
            self._came_back(flight)

    async def _deliver(self, flight: Flight) -> None:
        try:
            if (check := flight.alarm.policy.only_if) is not None and not await self._is_open(flight, check):
                return
            met = self._budget.allowances(flight.alarm, flight.fire)
            if met and not await self._is_affordable(flight, met):
                return
            if flight.alarm.is_suspect and not await self._is_on_trial(flight):
                return
            if self._clock.monotonic() - flight.taken > self._lease:
                self._hand_back(flight)  # this process stood still: somebody else may be at it by now
            else:
                await self._attempt(flight)
        except asyncio.CancelledError:
            self._interrupted(flight)
        except Exception as error:
            # A bug of ours. The alarm is let go: its lease ends by itself, and the poison rule counts.
            observability.broke("this attempt was lost", flight.alarm, error)
            self._landed(flight)

    async def _is_open(self, flight: Flight, check: str) -> bool:
        """Look at the alarm's check; where nothing has changed there, nobody is woken."""
        alarm = flight.alarm
        try:
            flight.look = await self._gate.look(alarm, check)
        except StoreUnavailable as error:
            log.warning("what a check saw cannot be read yet, trying again: %s", error)
            flight.change = release(alarm, now=self._now(), wait=self._settings.tick)
        else:
            if keeps_back(alarm, flight.fire, flight.look):
                flight.change = unchanged(alarm, flight.look, now=self._now())
        if flight.change is not None:
            self._came_back(flight)
        return flight.change is None

    async def _is_affordable(self, flight: Flight, met: tuple[Allowance, ...]) -> bool:
        """Count a wake that meets a limit before it is sent. If that cannot be written, it is not sent."""
        try:
            flight.change = await self._budget.refused(flight.alarm, flight.fire, met, now=self._now())
        except StoreUnavailable as error:
            log.warning("a wake cannot be counted yet, trying again: %s", error)
            flight.change = release(flight.alarm, now=self._now(), wait=self._settings.tick)
        if flight.change is not None:
            self._came_back(flight)
        return flight.change is None

    async def _is_on_trial(self, flight: Flight) -> bool:
        """Whether a suspect's delivery begins: one that is tried alone is counted first, or it does not."""
        if is_alone(flight.alarm) and not await self._is_counted(flight):
            self._hand_back(flight)
            return False
        flight.on_trial_since = self._clock.monotonic()
        return True

    async def _is_counted(self, flight: Flight) -> bool:
        others = self._flights.suspects_beside(flight)
        if not self._suspects.may_be_blamed(others):
            return True  # tried, but not alone
        now = self._now()
        cleared = [acquitted(one.alarm, now=now) for one in others if is_alone(one.alarm) and not one.back]
        try:
            answers = await self._store.settle([put_on_trial(flight.alarm), *cleared])
        except StoreUnavailable:
            return False
        return answers[0].what == "applied"

    async def _attempt(self, flight: Flight) -> None:
        alarm = flight.alarm
        started = flight.started = self._now()
        served = self._flights.served[alarm.target]
        self._pace.begun(alarm, started)
        self._teller.begun(flight, started)
        try:
            outcome: Outcome = await served.target.deliver(self._wake(flight, started))
        except Exception as error:
            # A target's own bug is a failed attempt like any other, not the end of the dispatcher.
            observability.broke("the target broke", alarm, error)
            outcome = Failed(f"the target broke: {type(error).__name__}: {error}")
        ended = self._now()
        self._flights.judge(flight, outcome, now=ended)
        self._settle(flight, outcome, Try(started, ended))

    def _settle(self, flight: Flight, outcome: Outcome, attempt: Try) -> None:
        flight.outcome, flight.attempt = outcome, attempt
        self._teller.attempted(flight, outcome, attempt)
        try:
            flight.change = settle(flight.alarm, flight.fire, outcome, attempt)
        except Exception as error:  # as above
            flight.change = self._set_aside(flight, "what follows its delivery cannot be planned", error)
        self._came_back(flight)

    def _came_back(self, flight: Flight) -> None:
        """Hand it on to be written, and look for the next: both then go into one transaction where they can."""
        flight.task = None
        self._settler.add(flight)
        self._flights.come_back(flight)
        self._look_for_more(flight)

    def _look_for_more(self, flight: Flight) -> None:
        waits_for_many = self._room_by and self._flights.making_room
        if self._flights.is_awaited(flight.alarm.target) and not waits_for_many:
            self._woken.set()

    def _set_aside(self, flight: Flight, what: str, error: Exception) -> Change:
        observability.broke(what, flight.alarm, error)
        return quarantine(flight.alarm, flight.fire, f"{what}: {type(error).__name__}: {error}", now=self._now())

    def _wake(self, flight: Flight, started: datetime) -> Wake:
        alarm, fire = flight.alarm, flight.fire
        return Wake(
            alarm,
            attempt=attempt_number(alarm, fire),
            late_ms=max(0, (started - alarm.occurrence_at) // MS),
            report_url=self._report_url,
            secret=self._report_key.key,
            check=flight.look,
        )

    def _interrupted(self, flight: Flight) -> None:
        """Handle a cancelled delivery: the process is stopping and releases the alarm, or the target did it."""
        if flight.given_back:
            self._hand_back(flight)
        else:
            ended = self._now()
            failed = Failed("the target cancelled its own delivery")
            self._settle(flight, failed, Try(flight.started or ended, ended))

    def _hand_back(self, flight: Flight) -> None:
        """Undelivered, as far as this process goes."""
        flight.change = release(flight.alarm, now=self._now())
        self._came_back(flight)

    def _landed(self, flight: Flight) -> None:
        self._flights.land(flight)
        if (again := flight.again) is not None:
            if self._stopping and again.change is None:
                again.change = release(again.alarm, now=self._now())
            self._begin(again, self._now())
        if flight.alarm.is_suspect and self._suspects.survived():
            self._woken.set()  # the next suspects need not wait for a tick
        self._look_for_more(flight)

    # The end

    async def _farewell(self, settler: asyncio.Task[None], upkeep: asyncio.Task[None]) -> None:
        patience = self._settings.stop_within.total_seconds()
        try:
            if not await within(patience, self._all_down()):
                for flight in self._flights:
                    flight.given_back = True
                    if flight.task is not None:
                        flight.task.cancel()
                await within(patience, self._all_down())
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

"""The dispatcher's background duties: renew leases, sweep missing reports, watch targets, send heartbeats."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from wakeful.alarm import Change, Event, sweep
from wakeful.clock import Clock, stopwatch
from wakeful.dispatcher import observability
from wakeful.dispatcher.flights import Flights
from wakeful.dispatcher.guards import Feature
from wakeful.errors import StoreUnavailable
from wakeful.runtime.cpu_time import in_thread
from wakeful.runtime.metrics import Metrics
from wakeful.schedule import takes_long
from wakeful.settings import Settings
from wakeful.store import Claim, Store, TargetState, Worker
from wakeful.store.maintenance import BUDGETS_KEPT

log = logging.getLogger("wakeful.dispatcher")

SWEEP_LIMIT: Final = 500
BEAT_EVERY: Final = timedelta(seconds=10)
PURGE_EVERY: Final = timedelta(hours=1)
PURGE_LIMIT: Final = 1000


class Upkeep:
    def __init__(
        self,
        store: Store,
        flights: Flights,
        settings: Settings,
        clock: Clock,
        worker: Worker,
        metrics: Metrics,
        features: Sequence[Feature],
    ) -> None:
        self._store = store
        self._flights = flights
        self._settings = settings
        self._clock = clock
        self._worker = worker
        self._metrics = metrics
        self._features = features
        self._caught_up = False
        self.resting = False  # until the next duty
        self.heard = 0.0  # when the store last took our beat, by the stopwatch
        self._recorded: dict[str, datetime | None] = {}  # breakers as last recorded

    async def run(self, now: Callable[[], datetime]) -> None:
        """Run each duty when it is due. If the store cannot be reached a duty is postponed; the upkeep never ends."""
        duties: list[tuple[timedelta, Callable[[datetime], Coroutine[Any, Any, object]]]] = [
            (self._settings.tick, self._exchange_target_states),
            (self._settings.tick, self.sweep),
            *((self._settings.tick, feature.upkeep) for feature in self._features),
            (self._settings.lease / 3, self.renew),
            (BEAT_EVERY, self.beat),
            (PURGE_EVERY, self._purge),
        ]
        # By the monotonic clock: a wall clock set back must not put off renewals, or leases would end.
        passed = self._clock.monotonic
        # Leases are young at the start; everything else is worth doing at once.
        due = [passed() + (every.total_seconds() if duty == self.renew else 0.0) for every, duty in duties]
        while True:
            for index, (every, duty) in enumerate(duties):
                if passed() >= due[index]:
                    due[index] = passed() + every.total_seconds()
                    try:
                        await duty(now())
                    except StoreUnavailable as error:
                        self._metrics.store_failed()
                        log.debug("upkeep is waiting for the store: %s", error)
                    except Exception:  # one duty that breaks must not end the others: leases hang on them
                        log.exception("upkeep: %s raised an unexpected error", duty.__name__)
            self.resting = True
            await self._clock.sleep(max(0.001, min(due) - passed()))
            self.resting = False

    async def sweep(self, now: datetime) -> int:
        """Close the fires whose report did not come. If another worker was first, its decision stands."""
        overdue = await self._store.overdue(limit=SWEEP_LIMIT)

        def decided() -> list[Change]:
            return [sweep(alarm, fire, now=now) for alarm, fire in overdue]

        is_costly = any(takes_long(alarm.cron_expr) for alarm, _ in overdue)
        changes = await in_thread(decided) if is_costly else decided()
        answers = await self._store.settle(changes) if changes else []
        for (_, fire), change, answer in zip(overdue, changes, answers, strict=True):
            if answer.what == "applied":
                observability.settled(self._metrics, fire, change)
        return len(overdue)

    async def beat(self, now: datetime, *, stopped: bool = False) -> None:
        served = self._flights.served
        await self._store.maintenance.beat(
            replace(
                self._worker,
                seen_at=now,
                stopped_at=now if stopped else None,
                targets=tuple(name for name, one in served.items() if one.breaks),
                handlers=tuple(name for name, one in served.items() if not one.breaks),
            )
        )
        self.heard = stopwatch()

    async def catch_up(self, *, anew: bool = False) -> None:
        """Before the first claim, read which targets are paused, and let features plan what changed in the meantime."""
        if self._caught_up and not anew:
            return
        now = await self._store.now()
        await self.read_paused_targets()
        for feature in self._features:
            await feature.catch_up(now, whole=anew)
        self._caught_up = True

    async def read_paused_targets(self) -> None:
        """Read which targets an operator has paused."""
        states = await self._store.maintenance.target_states()
        self._flights.paused = frozenset(name for name, state in states.items() if state.paused_at is not None)

    async def _exchange_target_states(self, now: datetime) -> None:
        await self.read_paused_targets()
        for name, breaker in list(self._flights.breakers.items()):
            if self._recorded.get(name) != breaker.opened_at:
                await self._record_breaker(name, breaker.opened_at, breaker.last_error, now)
                self._recorded[name] = breaker.opened_at

    async def _record_breaker(self, name: str, opened_at: datetime | None, error: str, now: datetime) -> None:
        known = (await self._store.maintenance.target_states()).get(name) or TargetState(target=name, updated_at=now)
        what = "breaker opened" if opened_at else "breaker closed"
        log.warning(
            "%s of target %s%s", what, name, f": {observability.shown(error)}" if error else "", extra={"target": name}
        )
        await self._store.maintenance.set_target_state(
            replace(known, breaker_opened_at=opened_at, last_error=error, updated_at=now),
            event=Event(at=now, what=what, by=f"target {name}", reason=error),
        )

    async def renew(self, _: datetime) -> None:
        """Renew the leases of deliveries under way. One that lost its lease goes on, and is recorded when it ends."""
        latest = [flight.again or flight for flight in self._flights]
        flights = {Claim(flight.alarm.id, flight.alarm.claim): flight for flight in latest if not flight.lost}
        for claim in await self._store.renew(list(flights)) if flights else ():
            flight = flights[claim]
            flight.lost = flight.alarm.claim == claim.claim  # not where it was claimed again meanwhile
            if flight.lost and flight.task is not None:
                log.warning(
                    "no longer ours: the alarm was changed or taken over", extra=observability.fields(flight.alarm)
                )

    async def _purge(self, now: datetime) -> None:
        await self._store.maintenance.purge_counts(now - BUDGETS_KEPT, limit=PURGE_LIMIT)
        before = self._settings.kept_since(now)
        while before is not None and await self._store.maintenance.purge(before, limit=PURGE_LIMIT) >= PURGE_LIMIT:
            await self._clock.sleep(0.05)  # others write to the same database

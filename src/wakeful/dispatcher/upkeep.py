"""The dispatcher's background duties: renew leases, sweep missing reports, watch targets, send heartbeats."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import Clock, stopwatch
from wakeful.dispatcher import observability
from wakeful.dispatcher.flights import Flights
from wakeful.dispatcher.guards import Feature
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Alarm, Change, Event
from wakeful.rules.report import sweep
from wakeful.rules.rezone import rezone
from wakeful.runtime.cpu_time import in_thread
from wakeful.runtime.metrics import Metrics
from wakeful.schedule import takes_long
from wakeful.schedule.holiday_calendars import refresh_calendars
from wakeful.schedule.zone_rules import ZoneRules, differing, edition, rules_here
from wakeful.schedule.zones import first_edition, forget_former, remember_former, rules_in_force, use_rules
from wakeful.settings import Settings
from wakeful.store import Claim, Store, TargetState, Worker
from wakeful.store.maintenance import BUDGETS_KEPT, Edition, keep_edition, with_first_planned

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

        changes = await _computed(decided, (alarm for alarm, _ in overdue))
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


async def _computed(decided: Callable[[], list[Change]], alarms: Iterable[Alarm]) -> list[Change]:
    """In a thread where a rule takes long: the event loop goes on."""
    is_costly = any(takes_long(alarm.cron_expr) for alarm in alarms)
    return await in_thread(decided) if is_costly else decided()


# Follow changes of time zone law: plan alarms again before they fire by the old rules.
#
# The newest edition of the zone data that any process brought to the database counts for all of them. Each change
# is written only if its alarm is as it was read. So it can be repeated and done by several processes at once,
# without a lock or a leader. A second round follows when every process has seen the edition (docs/internals.md,
# Time zone law changes).


SCAN_LIMIT: Final = 1000  # alarms, in one batch
# Until every process has read the new edition (`Service.now` does every 30 s): others may still plan by the old rules.
SPREADS_WITHIN: Final = timedelta(seconds=45)
# Clocks of two editions differ by a day at most: after that no moment reads like one before the change.
FORMER_MATTER: Final = timedelta(days=2)
_SHOWN: Final = 5


class _Round(Struct, frozen=True):
    """A pass over the alarms of the zones that changed, up to one of them."""

    edition: Edition
    names: frozenset[str]
    begun: datetime
    after: str = ""
    moved: int = 0


class ZonePlanning:
    def __init__(self, store: Store, clock: Clock, metrics: Metrics, *, tick: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._every = tick.total_seconds()
        self._spreads_within = max(SPREADS_WITHIN, 5 * tick)
        self._read_from = 0.0
        self._round: _Round | None = None
        self._passed = ""  # the edition that this process has gone through all alarms for
        self._machine = ""  # the machine's edition, as this process reads its zones
        self._upgrade = ""  # another one that was seen there since
        self._former = ""  # the edition before, as it was remembered
        self._warned = ""  # the edition that was logged as newer than the machine's
        self._unread = ""  # why the machine's data could not be read, as it was logged

    async def step(self, *, anew: bool = False) -> bool:
        """Read whether rules have changed, or plan some alarms again; return whether alarms may be claimed."""
        if self._round is None and (anew or self._clock.monotonic() >= self._read_from):
            self._read_from = self._clock.monotonic() + self._every
            await self._try_to_read()
        if self._round is None:
            return True
        await self._batch(self._round)
        return False  # also after the last one: there may be a newer edition to go on with

    async def _try_to_read(self) -> None:
        try:
            await self._read_editions()
            self._unread = ""
        except OSError as error:  # no descriptor is left, or files are being replaced: it goes by what it knows
            if self._unread != (reason := str(error)):
                self._unread = reason
                log.warning("the time zone data cannot be read, trying again: %s", reason)

    async def _read_editions(self) -> None:
        refresh_calendars()  # they are a law of their own, and come to count as they are found
        here = max(self._machine_edition(), rules_in_force()[0])
        zones = self._store.maintenance
        kept = await with_first_planned(zones, await zones.editions())
        if not kept or (kept[0].planned_at is not None and kept[0].version < here):
            kept = await keep_edition(zones, here)
        await self._follow(kept[0], kept[1] if len(kept) > 1 else None)

    def _machine_edition(self) -> str:
        """The machine's, once it has been the same in two reads: while files are replaced it may say anything."""
        found = edition()
        if not self._machine:
            self._machine = first_edition(found)
        if found == self._machine:
            self._upgrade = ""
        elif found != self._upgrade:
            self._upgrade = found
        else:
            self._machine = found
            if found > rules_in_force()[0]:
                use_rules(found, rules_here(found).data)
        return self._machine

    async def _follow(self, current: Edition, former: Edition | None) -> None:
        """Go by the edition in force, and plan alarms again where that is not done."""
        self._warn_of_older_data(current.version)
        if current.version != (rules_in_force()[0] or self._machine):
            use_rules(current.version, (await self._rules(current.version)).data)
        now = await self._store.now()
        matters = current.planned_at is None or now < current.since + FORMER_MATTER
        if former is None or not matters:
            if self._former:
                forget_former()
                self._former = ""
            return
        if self._former != former.version:
            remember_former((await self._rules(former.version)).data, current.since)
            self._former = former.version
        if current.planned_at is None and (
            self._passed != current.version or now >= current.since + self._spreads_within
        ):
            await self._begin(current, former, now)

    def _warn_of_older_data(self, version: str) -> None:
        if version > self._machine and version != self._warned:
            self._warned = version
            log.warning(
                "the time zone data of this machine (%s) is older than that of the database (%s), which is used;"
                " update the machine's",
                self._machine,
                version,
            )

    async def _rules(self, version: str) -> ZoneRules:
        packed = await self._store.maintenance.zone_rules(version)
        return rules_here(version) if packed is None else ZoneRules.unpacked(version, packed)

    async def _begin(self, current: Edition, former: Edition, now: datetime) -> None:
        rules = await self._rules(former.version), await self._rules(current.version)
        names = await asyncio.to_thread(differing, *rules, current.since)
        if self._passed != current.version:
            named = ", ".join(sorted(names)[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            log.warning(
                "the time zone data is %s now, %s before: %s",
                current.version,
                former.version,
                f"{len(names)} zones have other rules ({named}), their alarms are planned again"
                if names
                else "no zone has other rules",
            )
        self._round = _Round(current, names, now)

    async def _batch(self, round: _Round) -> None:
        found: list[Alarm] = []
        further = ""
        if round.names:
            found, further = await self._store.alarms_in_zones(round.names, after=round.after, scan_limit=SCAN_LIMIT)
        now = await self._store.now()

        def decided() -> list[Change]:
            return [change for alarm in found if (change := self._rezoned(alarm, now, round)) is not None]

        changes = await _computed(decided, found)
        answers = await self._store.settle(changes) if changes else []
        written = sum(answer.what == "applied" for answer in answers)
        self._metrics.rezoned(written)
        self._round = replace(round, after=further, moved=round.moved + written)
        if not further:
            await self._finish(self._round)

    def _rezoned(self, alarm: Alarm, now: datetime, round: _Round) -> Change | None:
        try:
            return rezone(alarm, now=now, version=round.edition.version)
        except Exception as error:  # a row this version cannot plan must not keep the others waiting
            observability.broke("it cannot be planned by the new rules of its time zone", alarm, error)
            return None

    async def _finish(self, round: _Round) -> None:
        version = round.edition.version
        if not round.names or round.begun >= round.edition.since + self._spreads_within:
            await self._store.maintenance.note_planned(version)
        if round.moved or self._passed != version:
            log.info("%d alarms were planned again by the time zone data %s", round.moved, version)
        self._passed, self._round, self._read_from = version, None, 0.0

"""The guards of a delivery, in order: each may return a change to settle instead, and the first that does ends it.

A feature that may stop a delivery is an entry in one of the lists at the end. A feature that plans alarms itself, and
knows of many at once whether they still stand, is a `Feature`: process/application.py lists those.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct

from wakeful.clock import Clock
from wakeful.dispatcher import observability
from wakeful.dispatcher.claiming import Suspects
from wakeful.dispatcher.flights import Flight, Flights
from wakeful.errors import WakefulError
from wakeful.model.alarm import Alarm, Change, Fire
from wakeful.rules.budget import DEFERRED, Allowance, Charge, attempt_of, over_budget
from wakeful.rules.checks import CheckFailed, CheckLook, keeps_back, look_at, unchanged
from wakeful.rules.pace import hold_back, too_soon
from wakeful.rules.settle import begin, release
from wakeful.rules.suspect import acquitted, deaths, is_alone, put_on_trial
from wakeful.runtime.metrics import Metrics
from wakeful.settings import Settings
from wakeful.settings.tables import CheckSettings
from wakeful.store import Store
from wakeful.store.access import MAX_CHECK_ROWS

log = logging.getLogger("wakeful.dispatcher")

QUERIES_AT_ONCE: Final = 2  # of one process: people's lists share the database's readers with them
REMEMBERED: Final = 20_000  # alarms whose pace is known; beyond that those delivered longest ago are forgotten
_NO_TIME: Final = timedelta(0)


class Feature(Protocol):
    """An optional feature that plans alarms of its own beside the dispatcher's work."""

    async def catch_up(self, now: datetime, *, whole: bool) -> None:
        """Plan what changed while no dispatcher ran, before the first claim; `whole`: all of it."""

    async def upkeep(self, now: datetime) -> object:
        """Run once a tick."""

    async def overtaken(self, alarms: Sequence[Alarm], now: datetime) -> Mapping[str, timedelta]:
        """Return which claimed alarms do not stand any more, by id, and how long each is put off."""


async def overtaken(features: Iterable[Feature], alarms: Sequence[Alarm], now: datetime) -> dict[str, timedelta]:
    found: dict[str, timedelta] = {}
    for feature in features:
        found.update(await feature.overtaken(alarms, now))
    return found


class Context(Struct, frozen=True):
    """What the guards of a dispatcher share."""

    store: Store
    settings: Settings
    clock: Clock
    now: Callable[[], datetime]
    flights: Flights
    suspects: Suspects
    metrics: Metrics
    pace: Pace
    checks: Checks
    allowances: Callable[[Alarm, Fire | None], tuple[Allowance, ...]]
    lease: float  # seconds


def pace(context: Context, flight: Flight, now: datetime) -> Change | None:
    """Put off an alarm that was delivered as often in this minute as it may be."""
    wait = context.pace.wait(flight.alarm, now)
    return hold_back(flight.alarm, context.pace.most, wait, now=now) if wait else None


def beginning(context: Context, flight: Flight, now: datetime) -> Change | None:
    """Settle what is over already, too late or suspended by policy, or whose owner may not use the target."""
    alarm = flight.alarm
    refused = context.flights.served[alarm.target].users.refusal(alarm)
    return begin(alarm, flight.fire, now=now, refused=refused)


def holds(context: Context, flight: Flight, _: datetime) -> Change | None:
    """Put off an alarm while its target answers its owner with errors, so that nobody waits behind it."""
    if not context.flights.holds:
        return None  # nearly always, and without reading the time
    now = context.now()
    wait = context.flights.holds.wait(flight, now=now)
    return None if wait is None else release(flight.alarm, now=now, wait=wait)


def suspects(context: Context, flight: Flight, _: datetime) -> Change | None:
    """Stop nobody, but note each suspect that goes on: the next ones are claimed when this process outlived these."""
    if flight.alarm.is_suspect:
        context.suspects.tries(flight)
    return None


async def check(context: Context, flight: Flight) -> Change | None:
    """Skip a wake where its alarm's check finds nothing new."""
    alarm = flight.alarm
    name = alarm.policy.only_if
    if name is None:
        return None
    flight.look = await context.checks.read(alarm, name)
    return unchanged(alarm, flight.look, now=context.now()) if keeps_back(alarm, flight.fire, flight.look) else None


async def budget(context: Context, flight: Flight) -> Change | None:
    """Count a wake that meets a limit before it is sent; defer or skip it where the limit is used up."""
    alarm = flight.alarm
    met = context.allowances(alarm, flight.fire)
    if not met:
        return None
    now = context.now()
    [refusal] = await context.store.access.spend([Charge(met, now, attempt=attempt_of(alarm), again=alarm.claim > 1)])
    if refusal is None:
        return None
    change = over_budget(alarm, flight.fire, refusal, now=now)
    action = DEFERRED if any(event.what == DEFERRED for event in change.events) else "skipped"
    context.metrics.over_budget(refusal.scope, action)
    if refusal.first:
        until = refusal.until.isoformat()
        log.warning("%s: %s until %s", refusal.words, action, until, extra=observability.fields(alarm))
    return change


async def trial(context: Context, flight: Flight) -> Change | None:
    """Release a suspect that is to be tried alone where that cannot be counted in its row before it begins."""
    if not flight.alarm.is_suspect:
        return None
    others = context.flights.suspects_beside(flight)
    if is_alone(flight.alarm) and context.suspects.may_be_blamed(others):
        if not await _is_counted(context, flight, others):
            return release(flight.alarm, now=context.now())
    elif deaths(flight.alarm):  # it has killed before: beside others it could do so for ever, and never be blamed
        return release(flight.alarm, now=context.now(), wait=context.settings.tick)
    flight.on_trial_since = context.clock.monotonic()
    return None


async def _is_counted(context: Context, flight: Flight, others: Sequence[Flight]) -> bool:
    now = context.now()
    cleared = [acquitted(one.alarm, now=now) for one in others if is_alone(one.alarm) and not one.finished]
    answers = await context.store.settle([put_on_trial(flight.alarm), *cleared])
    return answers[0].what == "applied"


async def lease(context: Context, flight: Flight) -> Change | None:
    """Release an alarm whose lease is over because this process stood still: another worker may have it by now."""
    is_over = context.clock.monotonic() - flight.taken > context.lease
    return release(flight.alarm, now=context.now()) if is_over else None


class Pace:
    """When this process delivered the alarms that come again and again (rules/pace.py)."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._delivered: dict[str, deque[datetime]] = {}

    def wait(self, alarm: Alarm, now: datetime) -> timedelta:
        """How long this alarm is to wait before it is delivered once more; nothing: it may go."""
        times = self._delivered.get(alarm.id)
        return _NO_TIME if times is None else too_soon(times, self.most, now=now)

    def begun(self, alarm: Alarm, now: datetime) -> None:
        """It is being delivered. An alarm in its first claim is in no loop: a drain of many costs nothing here."""
        if alarm.claim <= 1:
            return
        times = self._delivered.pop(alarm.id, None)  # and put in again at the end: the first is the longest ago
        self._delivered[alarm.id] = times = deque(maxlen=self.most) if times is None else times
        times.append(now)
        if len(self._delivered) > REMEMBERED:
            del self._delivered[next(iter(self._delivered))]


class Checks:
    """Reads the checks of alarms with `only_if`, for no longer than their time limit; rules/checks.py decides.

    A check runs in the task of the delivery, before the budget is spent. If it fails, the wake is sent. The value that
    it saw is written in the transaction that settles the wake: if that wake is lost, the next one is checked against
    the old value and not skipped.
    """

    def __init__(self, store: Store, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        self._store = store
        self._checks = settings.checks
        self._clock = clock
        self._metrics = metrics
        # Half a lease at most: what takes longer would be taken for a worker that stands still.
        self._longest = settings.lease.total_seconds() / 2
        self._longest_query = min(self._longest, settings.read_within.total_seconds())
        self._queries = asyncio.Semaphore(QUERIES_AT_ONCE)

    async def read(self, alarm: Alarm, name: str) -> CheckLook:
        """What the check finds. StoreUnavailable where it is not known what was seen before."""
        known = await self._store.access.check_value(alarm.id, name)
        try:
            look = look_at(name, _digest(await self._value(name)), known)
        except (CheckFailed, WakefulError) as error:
            # Of the database the operator's log has more than the owner of an alarm may know.
            why = str(error) if isinstance(error, CheckFailed) else "it cannot be looked at"
            log.warning("the check %s failed: %s", name, error, extra=observability.fields(alarm))
            look = CheckLook(name=name, found="failed", error=why)
        self._metrics.checked(look.found)
        return look

    async def _value(self, name: str) -> str:
        check = self._checks.get(name)
        if check is None:
            raise CheckFailed("the operator has removed it")
        return await (self._queried(check) if check.sql else self._fetched(check))

    async def _fetched(self, check: CheckSettings) -> str:
        from wakeful.targets.sending.check import read  # only where one is read: its libraries take long to import

        allowed = check.allow_private
        return await read(
            check.url,
            check.changed,
            headers=check.headers,
            timeout=min(check.within, self._longest),
            allow_private=allowed if isinstance(allowed, bool) else tuple(allowed),
            clock=self._clock,
        )

    async def _queried(self, check: CheckSettings) -> str:
        within = min(check.within, self._longest_query)
        try:
            async with asyncio.timeout(within), self._queries:
                rows = await self._store.access.check_rows(check.sql, within=within)
        except TimeoutError:
            raise CheckFailed(f"no answer within {within:g} s") from None
        if len(rows) > MAX_CHECK_ROWS:
            raise CheckFailed(f"its query has more than {MAX_CHECK_ROWS} rows")
        return repr(rows)


def _digest(value: str) -> str:
    """What is kept of a value: enough to compare it, and no more."""
    return hashlib.sha256(value.encode()).hexdigest()


Guard = Callable[[Context, Flight, datetime], Change | None]
AwaitedGuard = Callable[[Context, Flight], Awaitable[Change | None]]

# Two lists: what the first one stops costs no task, and of an owner whose target fails thousands are put off at once.
# The second one is asked in the delivery's own task, which may wait for the store or for a check.
GUARDS: Final[tuple[Guard, ...]] = (pace, beginning, holds, suspects)
AWAITED_GUARDS: Final[tuple[AwaitedGuard, ...]] = (check, budget, trial, lease)

"""What a database's alarms will do in the days to come: they are copied, and run in simulated time.

`forecast` copies every active and paused alarm into a store of its own, and runs the real dispatcher over it with a
clock that jumps from one due moment to the next. Targets are replaced: each wake counts as delivered and done at once,
so nothing leaves the process, and the database is only read. Checks (`only_if`) are not made: their alarms fire.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import turn
from wakeful.dispatcher import ServedTarget
from wakeful.errors import InvalidRequest
from wakeful.model.alarm import PENDING, Alarm, Fire
from wakeful.model.outcome import Completed, Outcome
from wakeful.python.client import LocalWakeful
from wakeful.rules.wake import Wake
from wakeful.schedule import split_zone
from wakeful.schedule.zones import transition, zone
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, FireQuery, Store

LONGEST: Final = timedelta(days=366)
FIRES: Final = 1_000_000  # the simulation ends after so many
LATE: Final = timedelta(minutes=1)
LISTED: Final = 20  # entries of each list, the most important ones
_PAGE: Final = 500
_DAY, _HOUR, _MINUTE, _SECOND = (timedelta(seconds=length) for length in (86_400, 3600, 60, 1))


class Down(Struct, frozen=True):
    """A time of day at which no worker runs, in the zone of the forecast. It may pass midnight."""

    begins: time
    ends: time

    def end(self, moment: datetime, tz: tzinfo) -> datetime | None:
        """When a worker runs again, if none does at this moment."""
        local = moment.astimezone(tz)
        now, is_over_midnight = local.time(), self.ends <= self.begins
        if not (now >= self.begins or now < self.ends if is_over_midnight else self.begins <= now < self.ends):
            return None
        day = local.date() + _DAY if is_over_midnight and now >= self.begins else local.date()
        return datetime.combine(day, self.ends, tz).astimezone(UTC)


class HourOfTarget(Struct, frozen=True):
    hour: datetime
    target: str
    fires: int
    skipped: int


class Collision(Struct, frozen=True):
    """A minute in which more wakes are sent to a target than it takes at once."""

    minute: datetime
    target: str
    fires: int
    concurrency: int


class OwnerDay(Struct, frozen=True):
    """What an owner's wakes use of its budget on one day, in UTC; a limit of 0 is none."""

    day: str
    owner: str
    wakes: int
    cost: float
    over_budget: int  # skipped for a budget of the owner, an alarm or a chain
    wakes_per_day: int
    cost_per_day: float


class SkippedRun(Struct, frozen=True):
    """Instants that do not fire: on holidays, for a budget, or because no worker ran."""

    alarm_id: str
    label: str
    reason: str
    first: datetime
    count: int
    detail: str = ""


class LateFire(Struct, frozen=True):
    alarm_id: str
    label: str
    scheduled_for: datetime
    started_at: datetime


class ClockChange(Struct, frozen=True):
    """A zone whose clocks are set, and how many alarms go by it."""

    zone: str
    at: datetime
    seconds: int  # forward; negative where they are set back
    alarms: int


class Forecast(Struct, kw_only=True):
    """`is_cut`: it ended early, after as many fires as are simulated. Lists have the most important entries only."""

    since: datetime
    until: datetime
    timezone: str
    alarms: int
    fires: int
    skipped: int
    late: int
    is_cut: bool
    hours: list[HourOfTarget]
    collisions: list[Collision]
    budgets: list[OwnerDay]
    skips: list[SkippedRun]
    late_fires: list[LateFire]
    clock_changes: list[ClockChange]


class JumpingClock:
    """A clock that stands still until it is set; whoever sleeps goes on at once."""

    def __init__(self, now: datetime) -> None:
        self._began = self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._began).total_seconds()

    async def sleep(self, seconds: float) -> None:
        await turn()

    def working(self, work: Callable[[], object]) -> AbstractContextManager[None]:
        return nullcontext()

    def jump(self, moment: datetime) -> None:
        self._now = max(self._now, moment)


class _Done:
    """A target that is done with each wake at once."""

    def __init__(self, cost: float) -> None:
        self._outcome = Completed(cost=cost)

    async def deliver(self, wake: Wake) -> Outcome:
        return self._outcome

    async def close(self) -> None: ...


async def forecast(
    source: Store,
    scratch: Callable[[JumpingClock], Store],
    settings: Settings,
    *,
    concurrency: Mapping[str, int],
    length: timedelta,
    down: Sequence[Down] = (),
    cost: float = 0.0,
) -> Forecast:
    """Run the alarms of `source` in simulated time, in an empty store that `scratch` makes.

    `concurrency`: how many wakes each target takes at once. `cost`: what each wake is assumed to cost.
    """
    if not timedelta(0) < length <= LONGEST:
        raise InvalidRequest(f"{length.days} days are not from 1 to 366", field="days", fix="For example 7.")
    since = await source.now()
    alarms = [alarm async for alarm in _pending(source)]
    known = {alarm.target: settings.concurrency for alarm in alarms} | dict(concurrency)
    clock, done = JumpingClock(since), _Done(cost)
    store = scratch(clock)
    served = {name: ServedTarget(done, places, breaks=False) for name, places in known.items()}
    async with LocalWakeful(store, settings=settings, targets=served, clock=clock) as simulated:
        for at in range(0, len(alarms), _PAGE):
            await store.add(alarms[at : at + _PAGE])
        closed = {
            name for name, state in (await source.maintenance.target_states()).items() if state.paused_at is not None
        }
        open_targets = sorted(served.keys() - closed)
        until = await _run(simulated, store, clock, open_targets, since + length, _worker_is_back(settings, down))
        fires = [fire async for fire in _fires(store)]
    return Forecast(
        since=since,
        until=until,
        timezone=settings.timezone,
        alarms=len(alarms),
        is_cut=until < since + length,
        fires=sum(fire.status != "skipped" for fire in fires),
        skipped=sum(fire.count for fire in fires if fire.status == "skipped"),
        late=sum(_late_by(fire) >= LATE for fire in fires),
        hours=_hours(fires),
        collisions=_collisions(fires, known),
        budgets=_budgets(alarms, fires, settings, cost),
        skips=_skips(alarms, fires),
        late_fires=_late_fires(alarms, fires),
        clock_changes=_clock_changes(alarms, since, until),
    )


def _worker_is_back(settings: Settings, down: Sequence[Down]) -> Callable[[datetime], datetime | None]:
    tz = zone(settings.timezone)
    return lambda moment: max((end for one in down if (end := one.end(moment, tz)) is not None), default=None)


async def _pending(store: Store) -> AsyncIterator[Alarm]:
    """Alarms as if no worker had them, and no report on an earlier fire were awaited."""
    cursor = None
    while True:
        page = await store.find(AlarmQuery(statuses=PENDING, limit=_PAGE, cursor=cursor))
        for alarm in page:
            policy = replace(alarm.policy, only_if=None)
            yield replace(alarm, claimed_at=None, unsettled=0, awaiting=None, policy=policy)
        if (cursor := page.further) is None:
            return


async def _run(
    simulated: LocalWakeful,
    store: Store,
    clock: JumpingClock,
    targets: Sequence[str],
    until: datetime,
    worker_is_back: Callable[[datetime], datetime | None],
) -> datetime:
    """Fire what is due, from one moment to the next. Returns how far it got."""
    fired = 0
    while (due := await store.next_due(targets)) is not None:
        moment = max(due, clock.now())
        while (back := worker_is_back(moment)) is not None:
            moment = back
        if moment > until:
            break
        clock.jump(moment)
        taken = await simulated.run_due()
        fired += taken
        if not taken:  # it is put off by something that goes by the clock
            clock.jump(moment + _SECOND)
        if fired >= FIRES:
            return clock.now()
    return until


async def _fires(store: Store) -> AsyncIterator[Fire]:
    cursor = None
    while True:
        page = await store.fires(FireQuery(limit=_PAGE, cursor=cursor))
        for fire in page:
            yield fire
        if (cursor := page.further) is None:
            return


def _sent_at(fire: Fire) -> datetime:
    return fire.started_at or fire.scheduled_for


def _late_by(fire: Fire) -> timedelta:
    return timedelta(0) if fire.status == "skipped" else _sent_at(fire) - fire.scheduled_for


def _floor(moment: datetime, span: timedelta) -> datetime:
    return moment - (moment - datetime.min.replace(tzinfo=UTC)) % span


def _hours(fires: Iterable[Fire]) -> list[HourOfTarget]:
    counts: dict[tuple[datetime, str], list[int]] = defaultdict(lambda: [0, 0])
    for fire in fires:
        is_skipped = fire.status == "skipped"
        counts[_floor(_sent_at(fire), _HOUR), fire.target][is_skipped] += fire.count if is_skipped else 1
    return [HourOfTarget(hour, target, *count) for (hour, target), count in sorted(counts.items())]


def _collisions(fires: Iterable[Fire], concurrency: Mapping[str, int]) -> list[Collision]:
    minutes = Counter((_floor(_sent_at(fire), _MINUTE), fire.target) for fire in fires if fire.status != "skipped")
    found = [
        Collision(minute, target, count, concurrency[target])
        for (minute, target), count in minutes.items()
        if count > concurrency[target]
    ]
    return sorted(found, key=lambda one: (-one.fires, one.minute, one.target))[:LISTED]


def _budgets(alarms: Iterable[Alarm], fires: Iterable[Fire], settings: Settings, cost: float) -> list[OwnerDay]:
    wakes: Counter[tuple[str, str]] = Counter()
    over: Counter[tuple[str, str]] = Counter()
    for fire in fires:
        key = f"{_sent_at(fire):%Y-%m-%d}", fire.owner_did
        if fire.status != "skipped":
            wakes[key] += 1
        elif fire.reason == "budget":
            over[key] += fire.count
    found = []
    for day, owner in sorted(wakes.keys() | over.keys()):
        count = wakes[day, owner]
        limits = settings.budget.by_owner.get(owner, settings.budget.for_everyone)
        found.append(
            OwnerDay(
                day=day,
                owner=owner,
                wakes=count,
                cost=count * cost,
                over_budget=over[day, owner],
                wakes_per_day=limits.owner_wakes_per_day,
                cost_per_day=limits.owner_cost_per_day,
            )
        )
    return found


def _labels(alarms: Iterable[Alarm]) -> dict[str, str]:
    return {alarm.id: alarm.label or alarm.wake_message for alarm in alarms}


def _skips(alarms: Iterable[Alarm], fires: Iterable[Fire]) -> list[SkippedRun]:
    labels = _labels(alarms)
    found = [
        SkippedRun(fire.alarm_id, labels[fire.alarm_id], fire.reason, fire.scheduled_for, fire.count, fire.result)
        for fire in fires
        if fire.status == "skipped"
    ]
    return sorted(found, key=lambda run: (-run.count, run.first))[:LISTED]


def _late_fires(alarms: Iterable[Alarm], fires: Iterable[Fire]) -> list[LateFire]:
    labels = _labels(alarms)
    found = (fire for fire in fires if _late_by(fire) >= LATE)
    late = sorted(found, key=lambda fire: (-_late_by(fire), fire.scheduled_for))[:LISTED]
    return [LateFire(fire.alarm_id, labels[fire.alarm_id], fire.scheduled_for, _sent_at(fire)) for fire in late]


def _clock_changes(alarms: Iterable[Alarm], since: datetime, until: datetime) -> list[ClockChange]:
    zones = Counter(split_zone(alarm.cron_expr, alarm.timezone)[1] for alarm in alarms)
    found = []
    for name, count in sorted(zones.items()):
        tz, day = zone(name), since.replace(microsecond=0)
        while day < until:
            after = min(day + _DAY, until)
            by = (after.astimezone(tz).utcoffset() or timedelta(0)) - (day.astimezone(tz).utcoffset() or timedelta(0))
            if by:
                found.append(ClockChange(name, transition(day, after, tz), int(by.total_seconds()), count))
            day = after
    return found

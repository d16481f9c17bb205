"""What `doctor --audit` checks: that every alarm and its fires agree with each other, as wakeful promises.

`problems` is pure: one alarm, its fires, and the moment at which they were read. `audited` reads all alarms of a store,
page by page, and changes nothing. Workers may run meanwhile: what looks wrong is read again before it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from msgspec import Struct, field

from wakeful.alarm import Alarm, Fire
from wakeful.alarm.model import STEPPED_OVER
from wakeful.alarm.plan import timetable
from wakeful.alarm.undo import CHANGES
from wakeful.errors import InvalidRequest
from wakeful.store import AlarmQuery, EventQuery, FireQuery, Store

Check = Literal["reports", "leases", "instants"]
CHECKS: Final[tuple[Check, ...]] = get_args(Check)
INSTANTS: Final = 10_000  # of one series: the earliest ones that can still be on record
DELIVERY: Final = timedelta(minutes=15)  # how long one may take, where its target does not allow more
TAKEN_OVER: Final = ("chronos", "alarm")  # `created_via` of alarms that fired elsewhere before
SHOWN: Final = 3  # problems of each check that are described; the others are counted
READ_AGAIN: Final = 3  # times, where an alarm was changed while it was read
_PAGE: Final = 500
_EVENTS: Final = 50
_REPORTED: Final = frozenset({"completed", "failed", "retrying"})  # statuses of a fire whose report is on record
_TICK: Final = timedelta(microseconds=1)


class Problem(Struct, frozen=True):
    check: Check
    alarm_id: str
    said: str


class Window(Struct, frozen=True, kw_only=True):
    """`now`: when an alarm was read. `since`: what is older may have been deleted. `changed_at`: of its last edit."""

    now: datetime
    since: datetime
    lease: timedelta
    patience: timedelta  # how long after its lease ended a worker may take an alarm over
    changed_at: datetime | None = None


class Audit(Struct):
    """What was found: how much was read, how many problems of each check, and the first of them."""

    alarms: int = 0
    fires: int = 0
    counts: Counter[Check] = field(default_factory=Counter)
    first: list[Problem] = []

    def add(self, problem: Problem) -> None:
        self.counts[problem.check] += 1
        if self.counts[problem.check] <= SHOWN:
            self.first.append(problem)


def problems(alarm: Alarm, fires: Sequence[Fire], window: Window) -> Iterator[Problem]:
    """What is wrong with an alarm; `fires`: all that are on record."""
    yield from (Problem("reports", alarm.id, said) for said in _reports(fires))
    if said := _lease(alarm, window):
        yield Problem("leases", alarm.id, said)
    if missing := _missing(alarm, fires, window):
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield Problem("instants", alarm.id, f"no fire on record for {missing[0].isoformat()}{more}")


def _reports(fires: Sequence[Fire]) -> Iterator[str]:
    """A report that was acknowledged is the end of its fire."""
    for fire in fires:
        if fire.completed_at is not None and fire.status not in _REPORTED:
            reported = fire.completed_at.isoformat()
            yield f"fire {fire.id} was reported at {reported}, but is {fire.status}"


def _lease(alarm: Alarm, window: Window) -> str:
    """Leases end: by a settlement, or because a worker died, and then another one takes the alarm over."""
    if alarm.status != "active" or alarm.claimed_at is None:
        return ""
    if alarm.is_leased(window.now, window.lease):
        if window.now - alarm.next_fire_at > DELIVERY + window.lease:
            return f"leased, and due since {alarm.next_fire_at.isoformat()}: longer than a delivery and a lease take"
        return ""
    ended = alarm.claimed_at + window.lease
    if max(ended, alarm.next_fire_at) + window.patience < window.now:
        return f"its lease ended at {ended.isoformat()}, and no worker has taken it over"
    return ""


def _missing(alarm: Alarm, fires: Sequence[Fire], window: Window) -> list[datetime]:
    """The due instants that neither a fire nor a skipped run accounts for, and that are not being worked on."""
    on_record = {fire.scheduled_for for fire in fires}
    runs = [(fire.scheduled_for, fire.through) for fire in fires if fire.through is not None]
    if alarm.policy.max_fires is not None:
        # Where the last fire that it may have was snoozed, no other instant was due until that came again.
        again = sorted({*on_record, alarm.occurrence_at})
        slept = [fire.scheduled_for for fire in fires if fire.status in STEPPED_OVER and fire.through is None]
        runs += [(at, next((one for one in again if one > at), at)) for at in slept]
    return [
        instant
        for instant in _due(alarm, fires, window)
        if instant not in on_record and not any(first <= instant <= last for first, last in runs)
    ]


def _due(alarm: Alarm, fires: Sequence[Fire], window: Window) -> Iterator[datetime]:
    """The instants that must be on record, earliest first: those before the one that is being worked on."""
    since = max(window.since, window.changed_at or window.since, alarm.created_at)
    if alarm.created_via in TAKEN_OVER:
        since = max(since, min((fire.scheduled_for for fire in fires), default=window.now))
    if alarm.kind == "once":
        if alarm.status == "fired" and alarm.claim and alarm.occurrence_at > since:
            yield alarm.occurrence_at
        return
    if alarm.policy.starts_at is not None:
        since = max(since, alarm.policy.starts_at - _TICK)
    end = min(alarm.occurrence_at, window.now, alarm.policy.ends_at or window.now)
    after = timetable(alarm).after
    instant = after(since)
    for _ in range(INSTANTS):
        if instant is None or instant >= end:
            return
        yield instant
        instant = after(instant)


async def audited(store: Store, *, lease: timedelta, patience: timedelta, keeps: timedelta | None) -> Audit:
    """Read every alarm of all owners. `keeps`: how long finished fires are kept; None: for good."""
    found, query = Audit(), AlarmQuery(limit=_PAGE)
    while True:
        now = await store.now()
        window = Window(now=now, since=_earliest(now, keeps), lease=lease, patience=patience)
        page = await store.find(query)
        for alarm in page:
            found.alarms += 1
            for problem in await _problems(store, alarm, window, found):
                found.add(problem)
        if page.further is None:
            return found
        query = AlarmQuery(limit=_PAGE, cursor=page.further)


def _earliest(now: datetime, keeps: timedelta | None) -> datetime:
    """From when on fires are on record: a purge that runs meanwhile may be an hour ahead of what was read."""
    return datetime.min.replace(tzinfo=now.tzinfo) if keeps is None else now - keeps + timedelta(hours=1)


async def _problems(store: Store, alarm: Alarm, window: Window, found: Audit) -> list[Problem]:
    """Those of an alarm that stay when it is read again: a worker or its owner may change it meanwhile."""
    for tried in range(READ_AGAIN):
        since = await _last_change(store, alarm) if alarm.kind == "cron" or alarm.claimed_at else None
        fires = [fire async for fire in _fires(store, alarm)]
        found.fires += 0 if tried else len(fires)
        try:
            wrong = list(problems(alarm, fires, _at(window, since)))
        except InvalidRequest as error:
            wrong = [Problem("instants", alarm.id, f"its schedule cannot be read: {error}")]
        if not wrong:
            return []
        again = await store.get(alarm.id)
        if again is None:
            return []
        if again == alarm:
            return wrong
        alarm, window = again, _at(window, None, now=await store.now())
    return []  # it is changed all the time: nothing can be told


def _at(window: Window, changed_at: datetime | None, *, now: datetime | None = None) -> Window:
    return Window(
        now=now or window.now, since=window.since, lease=window.lease, patience=window.patience, changed_at=changed_at
    )


async def _last_change(store: Store, alarm: Alarm) -> datetime | None:
    """When it was last given another time, paused, or moved: what was due before that followed other rules."""
    latest = EventQuery(alarm_id=alarm.id, latest=True, limit=_EVENTS)
    events = [event for _, event in await store.events(latest)]
    known = [event.at for event in events if event.what in CHANGES]
    if known:
        return max(known)
    return events[-1].at if len(events) == _EVENTS else None


async def _fires(store: Store, alarm: Alarm) -> AsyncIterator[Fire]:
    query = FireQuery(alarm_id=alarm.id, limit=_PAGE)
    while True:
        page = await store.fires(query)
        for fire in page:
            yield fire
        if page.further is None:
            return
        query = FireQuery(alarm_id=alarm.id, limit=_PAGE, cursor=page.further)

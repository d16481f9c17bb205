"""What `doctor` makes of the facts: each check answers ok, warn or fail, what it saw, and what to do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

from msgspec import Struct, field

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import STEPPED_OVER, Alarm, Fire
from wakeful.rules.plan import timetable
from wakeful.rules.undo import CHANGES
from wakeful.schedule.holiday_calendars import Calendars
from wakeful.schedule.zone_rules import ZoneData, edition_of
from wakeful.service.why import is_alive
from wakeful.store import AlarmQuery, EventQuery, FireQuery, Inspection, Store, TargetState, Worker
from wakeful.store.maintenance import Edition

LATE: Final = timedelta(minutes=1)  # how long an alarm may be due before somebody should know
_OFF: Final = timedelta(seconds=2)  # between two clocks, before it is worth a word
_FAR_OFF: Final = timedelta(minutes=1)
_LITTLE: Final = 1_000_000_000  # bytes free
_TOO_LITTLE: Final = 100_000_000
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")
State = Literal["ok", "warn", "fail"]
_IN_ORDER: Final[Mapping[Check, str]] = {
    "reports": "each report is the end of its fire ({fires} fires)",
    "leases": "none is leased for too long ({alarms} alarms)",
    "instants": "every due instant is accounted for ({alarms} alarms)",
}
_AUDIT_FIX: Final[Mapping[Check, str]] = {
    "reports": "wakeful history ID shows the fire. Please report it: it is a fault in wakeful, or rows were edited.",
    "leases": "wakeful why ID says what each waits for. A worker that hangs is restarted with its service.",
    "instants": "wakeful history ID shows what is there. Please report it: it is a fault in wakeful, or rows are gone.",
}


class Finding(Struct, frozen=True, omit_defaults=True):
    check: str
    state: State
    said: str
    fix: str = ""


def calendars(known: Calendars) -> list[Finding]:
    """Holidays that cannot be read: alarms fire on them."""
    fix = "Mend it: until then, alarms that keep its holidays fire on them too."
    return [Finding(f"calendars.{name}", "fail", problem, fix) for name, problem in known.problems]


def worst(findings: Sequence[Finding]) -> State:
    order: tuple[State, ...] = ("fail", "warn", "ok")
    return next(state for state in order if state == "ok" or any(one.state == state for one in findings))


def size(count: float) -> str:
    """Bytes, in the unit people say them in."""
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} {_UNITS[-1]}"


def length(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def database(found: Inspection, where: str) -> list[Finding]:
    return [
        Finding("database", "ok", f"{found.engine}, {where}, {size(found.size)}"),
        _schema(found),
        _integrity(found),
    ]


def _schema(found: Inspection) -> Finding:
    if found.schema == 0:
        return Finding("schema", "warn", "there are no tables yet", "wakeful db migrate makes them; so does serve.")
    if found.schema < found.known:
        said = f"version {found.schema}, this wakeful knows {found.known}"
        return Finding("schema", "warn", said, "wakeful db migrate brings the tables up to date.")
    if found.needed > found.known:
        said = f"version {found.schema} was made by a newer wakeful, this one knows {found.known}"
        return Finding("schema", "fail", said, "Install that version or a later one.")
    if found.schema > found.known:
        said = f"version {found.schema} was made by a newer wakeful; this one knows {found.known}, and can use it"
        return Finding("schema", "ok", said)
    return Finding("schema", "ok", f"version {found.schema}, up to date")


def _integrity(found: Inspection) -> Finding:
    if found.broken:
        more = f" (and {len(found.broken) - 1} more)" if len(found.broken) > 1 else ""
        fix = "Stop every process on it, keep a copy, and restore a backup."
        return Finding("integrity", "fail", found.broken[0] + more, fix)
    if wrong := {what: count for what, count in found.impossible.items() if count}:
        said = ", ".join(f"{count} {what}" for what, count in wrong.items())
        return Finding("integrity", "fail", said, "wakeful db check explains each.")
    return Finding("integrity", "ok", "nothing is broken")


def dispatcher(workers: Sequence[Worker], now: datetime) -> Finding:
    alive = [worker for worker in workers if is_alive(worker, now)]
    if not alive:
        seen = max((worker.seen_at for worker in workers), default=None)
        since = "none has ever run here" if seen is None else f"the last was seen {length(now - seen)} ago"
        return Finding(
            "dispatcher", "fail", f"nobody delivers: {since}", "Start one: wakeful serve, or wakeful worker."
        )
    said = ", ".join(f"{worker.host}:{worker.pid} ({worker.version})" for worker in alive[:3])
    more = f" and {len(alive) - 3} more" if len(alive) > 3 else ""
    if len({worker.version for worker in alive}) > 1:
        fix = "Fine during an upgrade; afterwards, stop the old ones."
        return Finding("dispatcher", "warn", f"{len(alive)} of different versions: {said}{more}", fix)
    return Finding("dispatcher", "ok", f"{len(alive)} running: {said}{more}")


def targets(
    served: Mapping[str, Sequence[Worker]], states: Mapping[str, TargetState], *, running: bool
) -> list[Finding]:
    """One finding for each target that needs somebody, or one for all of them."""
    found = [one for name in sorted(served) if (one := _target(name, served[name], states.get(name), running))]
    return found or [Finding("targets", "ok", ", ".join(sorted(served)))]


def _target(name: str, workers: Sequence[Worker], state: TargetState | None, running: bool) -> Finding | None:
    check = f"target {name}"
    if state is not None and state.paused_at is not None:
        why = f" ({state.paused_reason})" if state.paused_reason else ""
        said = f"paused by {state.paused_by or 'somebody'}{why}: its alarms stay due"
        return Finding(check, "warn", said, f"wakeful target resume {name}")
    if state is not None and state.breaker_opened_at is not None:
        said = f"cannot be reached: {state.last_error}"
        return Finding(check, "warn", said, f"wakeful target test {name} tries it; its alarms stay due meanwhile.")
    if running and not workers:
        fix = "Restart the workers after a change of settings, or start the program whose handler it is."
        return Finding(check, "warn", "no running worker serves it", fix)
    return None


def clock(here: datetime, there: datetime, workers: Sequence[Worker]) -> Finding:
    """Ours against the store's, and the store's against what it wrote down before."""
    ahead = max((worker.seen_at - there for worker in workers), default=timedelta(0))
    if ahead > _OFF:
        said = f"a worker was seen {length(ahead)} in the future: the clock was set back"
        return Finding("clock", "fail", said, "Check the time of the machine the database's clock is on.")
    off = abs(here - there)
    if off > _OFF:
        said = f"this machine and the database are {length(off)} apart"
        return Finding("clock", "fail" if off > _FAR_OFF else "warn", said, "Synchronise both, for example with NTP.")
    return Finding("clock", "ok", f"{there:%Y-%m-%d %H:%M:%S} UTC")


def zones(data: ZoneData, timezone: str, now: datetime, editions: Sequence[Edition] = ()) -> Finding:
    """`editions`: those the database keeps, newest first."""
    said = f"{data.version or 'unknown edition'} from {data.source}; times are read in {timezone}"
    newest = editions[0] if editions else None
    if newest is not None and newest.version > edition_of(data):
        fix = "Update the tzdata of this machine. Until then it goes by the database's."
        return Finding("time zones", "warn", f"{said}; the database has the newer {newest.version}", fix)
    if newest is not None and newest.planned_at is None:
        return Finding("time zones", "ok", f"{said}; alarms are being planned again by {newest.version}")
    if data.version and int(data.version[:4]) < now.year - 1:
        fix = "Update the system's tzdata: rules of daylight saving time may have changed since."
        return Finding("time zones", "warn", f"{said}; that is old", fix)
    return Finding("time zones", "ok", said)


def overdue(backlog: Mapping[str, tuple[int, datetime]], paused: frozenset[str], now: datetime) -> Finding:
    late = {name: (count, now - since) for name, (count, since) in backlog.items() if name not in paused}
    late = {name: one for name, one in late.items() if one[1] > LATE}
    if not late:
        return Finding("overdue", "ok", "nothing")
    said = "; ".join(
        f"{count} for {name}, the first since {length(ago)}" for name, (count, ago) in sorted(late.items())
    )
    return Finding("overdue", "fail", said, "wakeful why ID says what each waits for.")


def audit(found: Audit) -> list[Finding]:
    """One finding for each of its checks."""
    return [_audited(check, found) for check in CHECKS]


def _audited(check: Check, found: Audit) -> Finding:
    name, count = f"audit {check}", found.counts[check]
    if not count:
        return Finding(name, "ok", _IN_ORDER[check].format(alarms=found.alarms, fires=found.fires))
    first = [problem for problem in found.first if problem.check == check]
    said = "; ".join(f"{problem.alarm_id}: {problem.said}" for problem in first)
    more = f"; and {count - len(first)} more" if count > len(first) else ""
    # A lease may be long because deliveries are: the other two cannot come about without a fault.
    state: State = "warn" if check == "leases" else "fail"
    return Finding(name, state, said + more, _AUDIT_FIX[check])


def disk(free: int, folder: str) -> Finding:
    said = f"{size(free)} free in {folder}"
    if free < _TOO_LITTLE:
        return Finding("disk", "fail", said, "Make room: without it nothing can be accepted.")
    if free < _LITTLE:
        return Finding("disk", "warn", said, "Make room soon; wakeful purge deletes what finished long ago.")
    return Finding("disk", "ok", said)


def access(address: str, *, loopback: bool, live: int, opened: bool) -> Finding:
    if live:
        return Finding("access", "ok", f"{address}, {live} {'token' if live == 1 else 'tokens'}")
    if not loopback:
        fix = "Make one: wakeful token new. Or bind to 127.0.0.1."
        return Finding("access", "fail", f"{address} is reached from other machines, and there is no token", fix)
    if not opened:
        fix = "wakeful token new makes one; wakeful token open --yes lets everyone on this machine in."
        return Finding("access", "warn", f"{address}: every token was revoked or has expired, nobody is let in", fix)
    return Finding("access", "ok", f"{address}, without tokens: open to every program on this machine")


# What `doctor --audit` checks: that every alarm and its fires agree with each other, as wakeful promises.
#
# `problems` is pure: one alarm, its fires, and the moment at which they were read. `audited` reads all alarms of a
# store, page by page, and changes nothing. Workers may run meanwhile: what looks wrong is read again before it
# counts.

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

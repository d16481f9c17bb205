"""Past and upcoming fires as one list: fires, and alarms that wait or were cancelled.

An alarm that waits for its retry stands here once, as the fire that is being retried.
The words for `status` are those of the Alarm system: pending, fired, completed, failed, cancelled, timed_out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import FIRE_STATUSES, PENDING, STEPPED_OVER, UNSUCCESSFUL, Alarm, EndedStatus, Fire
from wakeful.moments import unix_ms
from wakeful.rules.arguments import accepted
from wakeful.rules.budget import Budget, Charge, may_wait_for_budget, waiting_for_budget
from wakeful.rules.plan import coming
from wakeful.runtime.cpu_time import in_thread
from wakeful.store import AlarmQuery, DescribedFire, FireQuery, Matches, Store
from wakeful.store.filters import ROWS_A_READ, Cursor

_ALARMS: Final = {"pending": PENDING, "cancelled": ("cancelled",)}
_UNDER_WAY: Final = ("delivered", "waiting", "retrying")
_FIRES: Final = {"fired": _UNDER_WAY} | {status: (status,) for status in FIRE_STATUSES if status not in _UNDER_WAY}
HistoryStatus = Literal["pending", "cancelled", "fired", EndedStatus]
STATUSES: Final[tuple[HistoryStatus, ...]] = get_args(HistoryStatus)
_ALWAYS: Final = timedelta(days=366 * 1000)
_ALL: Final = 2**31 - 1


class HistoryEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of history: a fire, or an alarm that has not fired."""

    id: str
    alarm_id: str
    status: str
    target: str
    scheduled_for: datetime
    label: str = ""
    message: str = ""
    reason: str = ""
    attempts: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None
    duration_ms: int | None = None
    late_ms: int | None = None  # from its scheduled time until it was first tried; None until then
    result: str = ""
    error: str = ""
    count: int = 1
    manual: bool = False  # somebody fired the alarm by hand; `id` is that of the copy which was made
    max_failures: int = 0
    cancelled_at: datetime | None = None
    created_by: str = ""
    created_via: str = ""


class Pending(NamedTuple):
    """An alarm that waits to fire. A tuple, so that it unpacks as the Alarm system's triples do."""

    id: str
    due: datetime
    offset: timedelta  # from its creation


class History:
    """`most`: so many characters of what is told, but always one line; what is longer is never in memory either."""

    def __init__(self, store: Store, *, most: int = 0, budget: Budget | None = None) -> None:
        self._store = store
        self._most = most
        self._budget = budget  # to say which alarms wait until it is free again

    async def entries(
        self, *, owner: str, status: str, target: str, since: datetime | None, limit: int
    ) -> Matches[HistoryEntry]:
        """The newest. Where there may be more, `further` says of what moment, and of which alarm, the last one is."""
        accepted("status", status, STATUSES)
        if not 1 <= limit <= 500:
            raise InvalidRequest(f"{limit} is not from 1 to 500", field="limit")
        page: dict[str, Any] = {"owner": owner, "target": target, "since": since, "limit": limit, "most": self._most}
        page["look_at"] = ROWS_A_READ
        parts: list[_Lines] = []
        if not status or status in _FIRES:
            parts.append(await self._told(FireQuery(statuses=_FIRES.get(status, ()), **page)))
        if not status or status in _ALARMS:
            statuses = _ALARMS.get(status, (*PENDING, "cancelled"))
            parts.append(await self._untold(AlarmQuery(statuses=statuses, **page)))
        return _joined(parts, limit, self._most)

    async def active(self, owner: str, limit: int | None = None) -> Matches[Alarm]:
        if limit is not None and limit < 1:
            raise InvalidRequest(f"{limit} is less than 1", field="limit")
        until = await self._store.now() + _ALWAYS
        ahead = _ALL if limit is None else limit
        return await self._store.agenda(owner=owner, until=until, limit=ahead, most=self._most)

    async def agenda(self, *, owner: str, hours: float, limit: int) -> Matches[tuple[datetime, Alarm]]:
        """The next fires of all alarms, merged, soonest first; `further` where there may be more of them."""
        until = await self._store.now() + timedelta(hours=hours)
        alarms = await self._store.agenda(owner=owner, until=until, limit=limit, most=self._most)
        if alarms.further is not None:  # of those that come later not all are known
            until = alarms.further[0]
        found = await in_thread(lambda: _merged(alarms, until=until, limit=limit, most=self._most))
        return found if found.further else Matches(found, alarms.further)

    async def failed(self, *, owner: str, limit: int) -> Matches[HistoryEntry]:
        query = FireQuery(owner=owner, statuses=UNSUCCESSFUL, limit=limit, most=self._most, look_at=ROWS_A_READ)
        return _joined([await self._told(query)], limit, self._most)

    async def latest(self, *, owner: str, limit: int) -> Matches[HistoryEntry]:
        """Fires only, whatever became of them."""
        return _joined([await self._told(FireQuery(owner=owner, limit=limit, most=self._most))], limit, self._most)

    async def _told(self, wanted: FireQuery) -> _Lines:
        lines = _Lines(self._most, wanted.limit)
        while True:
            page = await self._store.described_fires(wanted)
            for found in page:
                if not lines.take((found.fire.scheduled_for, found.fire.alarm_id), _told(found)):
                    return lines
            if lines.ends(page.further):
                return lines
            wanted = replace(wanted, cursor=page.further)

    async def _untold(self, wanted: AlarmQuery) -> _Lines:
        """Alarms whose current occurrence has no fire that speaks for it: a retry stands once, as its fire."""
        lines = _Lines(self._most, wanted.limit)
        while True:
            page = await self._store.find(wanted)
            keys = [(alarm.id, alarm.occurrence_at) for alarm in page if _may_be_told(alarm)]
            fires = await self._store.fires_at(keys) if keys else {}
            told = {fire.alarm_id for fire in fires.values() if _speaks(fire, wanted.target)}
            deferred = await self._deferred(page)
            for alarm in page:
                # By their creation: what is to come must not push what happened off the page.
                reason = "budget" if alarm.id in deferred else alarm.paused_reason
                if alarm.id not in told and not lines.take((alarm.created_at, alarm.id), _unfired(alarm, reason)):
                    return lines
            if lines.ends(page.further):
                return lines
            wanted = replace(wanted, cursor=page.further)

    async def _deferred(self, alarms: Iterable[Alarm]) -> set[str]:
        """The ids of those that wait for their budget. Hardly ever is anything asked for it."""
        waiting = [alarm for alarm in alarms if may_wait_for_budget(alarm)]
        if self._budget is None or not waiting:
            return set()
        now = await self._store.now()
        limits = dict.fromkeys(one for alarm in waiting for one in self._budget.limits_on(alarm))
        return waiting_for_budget(
            waiting, self._budget, await self._store.access.spent(Charge(tuple(limits), now)), now
        )


class _Lines:
    """Lines of one kind, newest first, as many as there is room for. `further`: where what is left out begins."""

    def __init__(self, most: int, limit: int) -> None:
        self.lines: list[tuple[Cursor, HistoryEntry]] = []
        self.further: Cursor | None = None
        self._room = most or math.inf
        self._limit = limit

    def take(self, place: Cursor, entry: HistoryEntry) -> bool:
        """Whether there was room for it."""
        if self._is_full:
            self.further = self.lines[-1][0]
            return False
        self.lines.append((place, entry))
        self._room -= _weight(entry)
        return True

    def ends(self, further: Cursor | None) -> bool:
        """Whether nothing more is to be read, given where there would be more."""
        if further is not None and self._is_full:
            self.further = self.lines[-1][0]
        return further is None or self._is_full

    @property
    def _is_full(self) -> bool:
        return bool(self.lines) and (self._room <= 0 or len(self.lines) >= self._limit)


async def next_fires(alarm: Alarm, count: int) -> list[datetime]:
    """The next fires of an alarm, worked out beside the event loop: what a series costs is up to its writer."""

    def fires() -> list[datetime]:
        return list(islice(coming(alarm), count))

    return await in_thread(fires) if alarm.kind == "cron" else fires()


def _joined(parts: Sequence[_Lines], limit: int, most: int) -> Matches[HistoryEntry]:
    """One list of several, as far back as each of them reaches."""
    both = _Lines(most, limit)
    ends = [part.further for part in parts if part.further is not None]
    both.further = max(ends, default=None)
    for place, entry in sorted((line for part in parts for line in part.lines), key=itemgetter(0), reverse=True):
        if (ends and place < max(ends)) or not both.take(place, entry):
            break
    return Matches((entry for _, entry in both.lines), both.further)


def _merged(alarms: Iterable[Alarm], *, until: datetime, limit: int, most: int) -> Matches[tuple[datetime, Alarm]]:
    """The coming fires of all these alarms in one line, soonest first."""

    def upcoming(alarm: Alarm) -> Iterator[tuple[datetime, str, Alarm]]:
        for moment in takewhile(lambda moment: moment <= until, coming(alarm)):
            yield moment, alarm.id, alarm

    found: list[tuple[datetime, Alarm]] = []
    room = most or math.inf
    for moment, id, alarm in heapq.merge(*(upcoming(alarm) for alarm in alarms)):
        if len(found) >= limit or (found and room <= 0):
            return Matches(found, (moment, id))
        found.append((moment, alarm))
        room -= len(alarm.wake_message) + len(alarm.payload_json)  # counted each time it is listed
    return Matches(found)


def _weight(entry: HistoryEntry) -> int:
    return len(entry.message) + len(entry.result) + len(entry.error) + len(entry.label) + len(entry.reason)


def offset(alarm: Alarm) -> timedelta:
    """How long after its creation an alarm is due."""
    return alarm.next_fire_at - alarm.created_at


def _may_be_told(alarm: Alarm) -> bool:
    return alarm.status != "cancelled" and alarm.may_have_fire


def _speaks(fire: Fire, target: str) -> bool:
    """Whether a fire stands in the list for its alarm: it went out, and to the target that is asked for."""
    return fire.status not in STEPPED_OVER and target in ("", fire.target)


def _told(found: DescribedFire) -> HistoryEntry:
    fire = found.fire
    return HistoryEntry(
        id=fire.id,
        alarm_id=found.manual_of or fire.alarm_id,
        manual=bool(found.manual_of),
        status=fire.status,
        target=fire.target,
        scheduled_for=fire.scheduled_for,
        label=found.label,
        message=found.wake_message,
        reason=fire.reason,
        attempts=fire.attempts,
        started_at=fire.started_at,
        completed_at=fire.completed_at,
        duration_ms=fire.duration_ms,
        late_ms=_late_ms(fire),
        result=fire.result,
        error=fire.last_error,
        count=fire.count,
        max_failures=found.max_failures,
        created_by=found.created_by,
        created_via=found.created_via,
    )


def _late_ms(fire: Fire) -> int | None:
    """A wake that waits in the inbox has not been handed out, but was put there."""
    tried = fire.started_at or (fire.log[0].at if fire.log else None)
    return None if tried is None else max(0, unix_ms(tried) - unix_ms(fire.scheduled_for))


def _unfired(alarm: Alarm, reason: str) -> HistoryEntry:
    return HistoryEntry(
        id=alarm.id,
        alarm_id=alarm.policy.manual_of or alarm.id,
        manual=alarm.policy.manual_of is not None,
        status="cancelled" if alarm.status == "cancelled" else "pending",
        target=alarm.target,
        scheduled_for=alarm.next_fire_at,
        label=alarm.label,
        message=alarm.wake_message,
        reason=reason,
        error=alarm.last_error,
        max_failures=alarm.max_failures,
        cancelled_at=alarm.cancelled_at,
        created_by=alarm.created_by,
        created_via=alarm.created_via,
    )


# Manual fires: "Fire now" stores a one-shot copy, and its fire is told as one of the alarm that it copies.

LOOKED_AT: Final = 500  # the newest alarms of a chain, among which an alarm's copies are looked for


async def copies_of(store: Store, alarm: Alarm) -> list[Alarm]:
    """The copies of an alarm by which it was fired, newest first."""
    root = alarm.root_id or alarm.id
    chain = await store.find(AlarmQuery(owner=alarm.owner_did, root_id=root, limit=LOOKED_AT))
    return [one for one in chain if one.policy.manual_of == alarm.id]


async def fires_of(store: Store, copies: list[Alarm]) -> list[Fire]:
    """What has become of these copies. One that was snoozed has two fires: the first, and the one to come."""
    keys = {(one.id, at) for one in copies for at in (one.fire_at, one.occurrence_at) if at is not None}
    return list((await store.fires_at([*keys])).values()) if keys else []


def without_copies(page: Matches[Alarm]) -> Matches[Alarm]:
    """The alarms of a page but for the copies, which are told as fires of their alarms."""
    return Matches((one for one in page if one.policy.manual_of is None), page.further)


async def with_manual(store: Store, id: str, query: FireQuery, page: Matches[Fire]) -> Matches[Fire]:
    """A page of an alarm's fires, with its manual fires among them: those whose `alarm_id` is another."""
    alarm = await store.get(id, owner=query.owner)
    if alarm is None:
        return page
    manual = [one for one in await fires_of(store, await copies_of(store, alarm)) if _fits(one, query)]
    if page.further is not None:  # what is earlier comes with the pages to follow
        manual = [one for one in manual if _place(one) >= page.further]
    if not manual:
        return page
    found = sorted([*page, *manual], key=_place, reverse=True)
    if len(found) <= query.limit:
        return Matches(found, page.further)
    return Matches(found[: query.limit], _place(found[query.limit - 1]))


def _place(fire: Fire) -> tuple[datetime, str]:
    return fire.scheduled_for, fire.alarm_id


def _fits(fire: Fire, query: FireQuery) -> bool:
    return (
        (not query.statuses or fire.status in query.statuses)
        and query.target in ("", fire.target)
        and (query.since is None or fire.scheduled_for >= query.since)
        and (query.until is None or fire.scheduled_for < query.until)
        and (query.cursor is None or _place(fire) < query.cursor)
    )

"""What happened and what is to come, as one list: fires that came about, and alarms that wait or were cancelled.

An alarm that waits for its retry stands here once, as the fire that is being retried.
The words for `status` are those of the Alarm system: pending, fired, completed, failed, cancelled, timed_out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alarm import Alarm, Fire, coming
from wakeful.errors import InvalidRequest
from wakeful.store import AlarmQuery, FireQuery, Store

_ALARMS: Final = {"pending": ("active", "paused"), "cancelled": ("cancelled",)}
_FIRES: Final = {
    "fired": ("delivered", "waiting", "retrying"),
    "completed": ("completed",),
    "failed": ("failed",),
    "timed_out": ("timed_out",),
    "skipped": ("skipped",),
    "snoozed": ("snoozed",),
}
STATUSES: Final = (*_ALARMS, *_FIRES)
_STEPPED_OVER: Final = ("skipped", "snoozed")  # fires of an instant that something later stands in for
_ALWAYS: Final = timedelta(days=366 * 1000)
_ALL: Final = 2**31 - 1


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    result: str = ""
    error: str = ""
    count: int = 1
    max_failures: int = 0
    cancelled_at: datetime | None = None
    created_by: str = ""
    created_via: str = ""


class Pending(NamedTuple):
    """An alarm that waits to fire. A tuple, so that it unpacks as the Alarm system's triples do."""

    id: str
    due: datetime
    offset: timedelta  # from its creation


class Past:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def entries(self, *, owner: str, status: str, target: str, since: datetime | None, limit: int) -> list[Entry]:
        if status and status not in STATUSES:
            raise InvalidRequest(
                f"{status!r} is no status", field="status", fix=f"Accepted are: {', '.join(STATUSES)}."
            )
        if not 1 <= limit <= 500:
            raise InvalidRequest(f"{limit} is not from 1 to 500", field="limit")
        found: list[tuple[datetime, Entry]] = []
        if not status or status in _FIRES:
            statuses = _FIRES.get(status, ())
            query = FireQuery(owner=owner, statuses=statuses, target=target, since=since, limit=limit)
            fires = await self._told(await self._store.fires(query))
            found += [(entry.scheduled_for, entry) for entry in fires]
        if not status or status in _ALARMS:
            statuses = _ALARMS.get(status, ("active", "paused", "cancelled"))
            wanted = AlarmQuery(owner=owner, statuses=statuses, target=target, since=since, limit=limit)
            # By their creation: what is to come must not push what happened off the page.
            found += [(alarm.created_at, _unfired(alarm)) for alarm in await self._untold(wanted)]
        found.sort(key=lambda one: (one[0], one[1].alarm_id), reverse=True)
        return [entry for _, entry in found[:limit]]

    async def pending(self, *, owner: str, limit: int | None = None) -> list[Pending]:
        """Every active alarm, soonest first."""
        return [Pending(alarm.id, alarm.next_fire_at, offset(alarm)) for alarm in await self.active(owner, limit)]

    async def active(self, owner: str, limit: int | None = None) -> list[Alarm]:
        if limit is not None and limit < 1:
            raise InvalidRequest(f"{limit} is less than 1", field="limit")
        until = await self._store.now() + _ALWAYS
        return await self._store.agenda(owner=owner, until=until, limit=_ALL if limit is None else limit)

    async def failed(self, *, owner: str, limit: int) -> list[Entry]:
        query = FireQuery(owner=owner, statuses=("failed", "timed_out"), limit=limit)
        return await self._told(await self._store.fires(query))

    async def _told(self, fires: list[Fire]) -> list[Entry]:
        alarms = await self._store.get_many({fire.alarm_id for fire in fires})
        return [_told(fire, alarms.get(fire.alarm_id)) for fire in fires]

    async def _untold(self, wanted: AlarmQuery) -> list[Alarm]:
        """Alarms whose current occurrence has no fire that speaks for it: a retry stands once, as its fire."""
        found: list[Alarm] = []
        while page := await self._store.find(wanted):
            keys = [(alarm.id, alarm.occurrence_at) for alarm in page if _may_be_told(alarm)]
            fires = await self._store.fires_at(keys) if keys else {}
            told = {fire.alarm_id for fire in fires.values() if _speaks(fire, wanted.target)}
            found += [alarm for alarm in page if alarm.id not in told]
            if len(page) < wanted.limit or len(found) >= wanted.limit:
                break
            wanted = replace(wanted, cursor=(page[-1].created_at, page[-1].id))
        return found[: wanted.limit]

    @staticmethod
    def merged(alarms: Iterable[Alarm], *, until: datetime, limit: int) -> list[tuple[datetime, Alarm]]:
        """The coming fires of all these alarms in one line, soonest first."""

        def upcoming(alarm: Alarm) -> Iterator[tuple[datetime, str, Alarm]]:
            for moment in takewhile(lambda moment: moment <= until, coming(alarm)):
                yield moment, alarm.id, alarm

        line = heapq.merge(*(upcoming(alarm) for alarm in alarms))
        return [(moment, alarm) for (moment, _, alarm), _ in zip(line, range(limit), strict=False)]


def offset(alarm: Alarm) -> timedelta:
    """How long after its creation an alarm is due."""
    return alarm.next_fire_at - alarm.created_at


def _may_be_told(alarm: Alarm) -> bool:
    return alarm.status != "cancelled" and alarm.may_have_fire


def _speaks(fire: Fire, target: str) -> bool:
    """Whether a fire stands in the list for its alarm: it went out, and to the target that is asked for."""
    return fire.status not in _STEPPED_OVER and target in ("", fire.target)


def _told(fire: Fire, alarm: Alarm | None) -> Entry:
    return Entry(
        id=fire.id,
        alarm_id=fire.alarm_id,
        status=fire.status,
        target=fire.target,
        scheduled_for=fire.scheduled_for,
        label=alarm.label if alarm else "",
        message=alarm.wake_message if alarm else "",
        reason=fire.reason,
        attempts=fire.attempts,
        started_at=fire.started_at,
        completed_at=fire.completed_at,
        duration_ms=fire.duration_ms,
        result=fire.result,
        error=fire.last_error,
        count=fire.count,
        max_failures=alarm.max_failures if alarm else 0,
        created_by=alarm.created_by if alarm else "",
        created_via=alarm.created_via if alarm else "",
    )


def _unfired(alarm: Alarm) -> Entry:
    return Entry(
        id=alarm.id,
        alarm_id=alarm.id,
        status="cancelled" if alarm.status == "cancelled" else "pending",
        target=alarm.target,
        scheduled_for=alarm.next_fire_at,
        label=alarm.label,
        message=alarm.wake_message,
        reason=alarm.paused_reason,
        error=alarm.last_error,
        max_failures=alarm.max_failures,
        cancelled_at=alarm.cancelled_at,
        created_by=alarm.created_by,
        created_via=alarm.created_via,
    )

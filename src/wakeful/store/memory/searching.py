"""Lists of alarms and fires: which rows a query goes through, in which order, and which of them fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, TypeVar

from wakeful.model.alarm import Alarm, Fire
from wakeful.moments import whole_ms
from wakeful.store import AlarmQuery, DescribedFire, FireQuery
from wakeful.store.filters import EXACT, Cursor, indexed_statuses, is_bounded, is_by_id
from wakeful.store.memory.database import MemoryDatabase, fire_texts, text_names
from wakeful.store.records import Matches, Page

T = TypeVar("T")
_SEARCHED: Final = ("label", "wake_message", "idempotency_key")
_WORDS: Final = (1, 2, 3)  # where `alarm_row` has them
_alarm_texts: Final = attrgetter(*_SEARCHED, *(name for name in text_names(Alarm) if name not in _SEARCHED))


def listed(
    query: AlarmQuery | FireQuery,
    rows: Iterable[T],
    fits: Callable[[T], bool],
    row: Callable[[T], tuple[Any, ...]],
    cursor: Callable[[T], Cursor],
) -> Matches[T]:
    """The rows that fit, until the page is full or, where the query is bounded, so many were read."""
    text = query.text if isinstance(query, AlarmQuery) else ""
    page: Page[Any] = Page(query.limit, most=query.most, text=text, among=_WORDS)
    most = query.look_at if is_bounded(query) else 0
    last: T | None = None
    for number, one in enumerate(rows):
        if most and number == most and last is not None:
            page.end = cursor(last)
            break
        last = one
        if fits(one) and not page.take(row(one) if text or query.most else (one,)):
            break
    return page.found(lambda found: found[0], cursor)


def alarms_listed(database: MemoryDatabase, query: AlarmQuery) -> Matches[Alarm]:
    rows = alarms_in_order(database, query)
    return listed(query, rows, alarm_filter(query), alarm_row, lambda alarm: (alarm.created_at, alarm.id))


def alarms_in_order(database: MemoryDatabase, query: AlarmQuery) -> Iterator[Alarm]:
    """Newest first, from behind the cursor on: an owner's by when they were created, everybody's by id."""
    if is_by_id(query):
        end = len(database.ids) if query.cursor is None else bisect_left(database.ids, query.cursor[1])
        ids = (database.ids[at] for at in range(end - 1, -1, -1))
    else:
        order = database.ids_of.get(query.owner, [])
        ids = (id for _, id in _between(order, query.since, query.until, query.cursor))
    statuses = indexed_statuses(query)
    alarms = (database.alarms[id] for id in ids)
    return (alarm for alarm in alarms if alarm.status in statuses) if statuses else alarms


def alarm_filter(query: AlarmQuery) -> Callable[[Alarm], bool]:
    fields = {name: "idempotency_key" if name == "key" else name for name in EXACT}
    wanted = [(field, value) for name, field in fields.items() if (value := getattr(query, name))]
    since, until = _whole(query.since), _whole(query.until)

    def fits(alarm: Alarm) -> bool:
        if query.statuses and alarm.status not in query.statuses:
            return False
        if (since is not None and alarm.created_at < since) or (until is not None and alarm.created_at >= until):
            return False
        return all(getattr(alarm, name) == value for name, value in wanted)

    return fits


def fires_listed(database: MemoryDatabase, query: FireQuery) -> Matches[Fire]:
    rows = fires_in_order(database, query)
    return listed(query, rows, fire_filter(query), fire_row, lambda fire: (fire.scheduled_for, fire.alarm_id))


def described_fires_listed(database: MemoryDatabase, query: FireQuery) -> Matches[DescribedFire]:
    fits = fire_filter(query)
    rows = (described(database.alarms.get(fire.alarm_id), fire) for fire in fires_in_order(database, query))
    return listed(
        query,
        rows,
        lambda one: fits(one.fire),
        lambda one: (one, one.label, one.wake_message, one.created_by, one.created_via, *fire_texts(one.fire)),
        lambda one: (one.fire.scheduled_for, one.fire.alarm_id),
    )


def described(alarm: Alarm | None, fire: Fire) -> DescribedFire:
    if alarm is None:
        return DescribedFire(fire=fire)
    return DescribedFire(
        label=alarm.label,
        wake_message=alarm.wake_message,
        max_failures=alarm.max_failures,
        created_by=alarm.created_by,
        created_via=alarm.created_via,
        manual_of=alarm.policy.manual_of or "",
        fire=fire,
    )


def fires_in_order(database: MemoryDatabase, query: FireQuery) -> Iterator[Fire]:
    """Latest first, from behind the cursor on."""
    if query.alarm_id:
        order = [(at, query.alarm_id) for at in database.fires_of(query.alarm_id)]
    else:
        order = database.fire_order.get(query.owner, [])
    statuses = indexed_statuses(query)
    fires = (database.fires[id, at] for at, id in _between(order, query.since, query.until, query.cursor))
    return (fire for fire in fires if fire.status in statuses) if statuses else fires


def fire_filter(query: FireQuery) -> Callable[[Fire], bool]:
    def fits(fire: Fire) -> bool:
        if (query.statuses and fire.status not in query.statuses) or (query.target and fire.target != query.target):
            return False
        return not query.owner or fire.owner_did == query.owner

    return fits


def _between(
    order: list[tuple[datetime, str]], since: datetime | None, until: datetime | None, cursor: Cursor | None
) -> Iterator[tuple[datetime, str]]:
    """What is in a span of time and before a cursor, the latest first."""
    end = len(order) if until is None else bisect_left(order, (whole_ms(until),))
    if cursor is not None:
        end = min(end, bisect_left(order, cursor))
    start = 0 if since is None else bisect_left(order, (whole_ms(since),))
    return (order[at] for at in range(end - 1, start - 1, -1))


def _whole(moment: datetime | None) -> datetime | None:
    return None if moment is None else whole_ms(moment)


def alarm_row(alarm: Alarm) -> tuple[Any, ...]:
    return alarm, *_alarm_texts(alarm)


def fire_row(fire: Fire) -> tuple[Any, ...]:
    return fire, *fire_texts(fire)

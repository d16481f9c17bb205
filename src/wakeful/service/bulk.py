"""One verb on many alarms or fires, a slice at a time, so that each answer comes soon and says how far it is.

What cannot be done to one of them is counted by its reason, and the others are done. A limit that is reached stops
the slice where it is: going on from there later does the rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct

from wakeful.errors import TooMany, WakefulError
from wakeful.model.alarm import ALARM_STATUSES, FIRE_STATUSES, PENDING, UNSUCCESSFUL, Alarm, Fire
from wakeful.rules.arguments import accepted
from wakeful.service.alarms import Alarms
from wakeful.service.history import History, HistoryEntry, without_copies
from wakeful.service.read import Cursor
from wakeful.store import AlarmQuery, FireQuery, Matches
from wakeful.store.filters import ROWS_A_READ, ROWS_A_SEARCH

SLICE: Final = 100
TOGETHER: Final = 4  # done at once: a store commits together what comes together, and others need it meanwhile
COUNTED: Final = 10_000  # further than this nobody counts
_PAGE: Final = 500
_WEIGHT: Final = 2_000_000  # characters of rows that are read at once
# What a verb can be done to. The others that a filter fits are left out, and not counted as done.
ON_ALARMS: Final[dict[str, tuple[str, ...]]] = {
    "pause": ("active",),
    "resume": ("paused",),
    "snooze": ("active",),
    "cancel": PENDING,
}
ON_FIRES: Final[dict[str, tuple[str, ...]]] = {"retry": UNSUCCESSFUL}

Row = TypeVar("Row", Alarm, Fire)
Page = Callable[[Cursor | None, int], Awaitable[Matches[Row]]]
Act = Callable[[str], Awaitable[object]]


class Acted(Struct, frozen=True):
    """What one slice did. `cursor`: where the next begins, None at the end. `stopped`: the limit that was reached."""

    done: int
    refused: dict[str, int]  # by reason
    cursor: Cursor | None = None
    stopped: str = ""
    reached: int = 0  # of the ids: what comes before is done or refused, and the limit stopped this one


def alarms_that_fit(alarms: Alarms, verb: str, filters: dict[str, Any]) -> Page[Alarm]:
    """Pages of the alarms that a filter fits and a verb can be done to, newest first; copies for manual fires too."""
    statuses = _both(filters.get("status", ()), ON_ALARMS[verb])

    async def page(cursor: Cursor | None, limit: int) -> Matches[Alarm]:
        if not statuses:
            return Matches([])
        others = {name: value for name, value in filters.items() if name != "status"}
        owner, look_at = alarms.caller.owner, ROWS_A_SEARCH if filters.get("text") else ROWS_A_READ
        paged: dict[str, Any] = {"cursor": cursor, "limit": limit, "most": _WEIGHT, "look_at": look_at}
        return await alarms.service.store.find(AlarmQuery(owner=owner, statuses=statuses, **others, **paged))

    return page


def fires_that_fit(alarms: Alarms, verb: str, filters: dict[str, Any]) -> Page[Fire]:
    statuses = _both(filters.get("status", ()), ON_FIRES[verb])

    async def page(cursor: Cursor | None, limit: int) -> Matches[Fire]:
        if not statuses:
            return Matches([])
        return await alarms.fires(**{**filters, "status": statuses}, cursor=cursor, limit=limit, most=_WEIGHT)

    return page


def _both(asked: str | Sequence[str], possible: Sequence[str]) -> tuple[str, ...]:
    wanted = (asked,) if isinstance(asked, str) and asked else tuple(asked)
    return tuple(status for status in possible if not wanted or status in wanted)


async def count_that_fit(alarms: Alarms, what: str, verb: str, filters: dict[str, Any]) -> int:
    """How many alarms or fires a filter fits and a verb can be done to, counted no further than COUNTED."""
    if filters.get("text"):  # which only reading them tells
        return await count(alarms_that_fit(alarms, verb, filters))
    possible = ON_ALARMS[verb] if what == "alarms" else ON_FIRES[verb]
    if not (statuses := _both(filters.get("status", ()), possible)):
        return 0
    kind = AlarmQuery if what == "alarms" else FireQuery
    others = {name: value for name, value in filters.items() if name != "status"}
    query = kind(owner=alarms.caller.owner, statuses=statuses, limit=COUNTED, look_at=ROWS_A_READ, **others)
    return await alarms.service.store.count(query)


async def count(page: Page[Row], *, most: int = COUNTED) -> int:
    """How many there are, counted no further than `most`."""
    found, cursor = 0, None
    while found < most:
        some = await page(cursor, min(_PAGE, most - found))
        found += len(some)
        if some.further is None:
            break
        cursor = some.further
    return min(found, most)


async def act_on_slice(
    page: Page[Row], act: Act, cursor: Cursor | None, *, fits: Callable[[Row], bool] = lambda _: True
) -> Acted:
    """Do it to the next of them. What is made meanwhile is newer than the first of them, and is left alone."""
    some = await page(cursor, SLICE)
    rows = [row for row in some if fits(row)]
    acted = await act_on([row.id for row in rows], act)
    if not acted.stopped:
        return Acted(acted.done, acted.refused, some.further)
    return Acted(acted.done, acted.refused, place(rows[acted.reached - 1]) if acted.reached else cursor, acted.stopped)


async def act_on(ids: Sequence[str], act: Act) -> Acted:
    done, refused = 0, Counter[str]()
    for first in range(0, len(ids), TOGETHER):
        some = ids[first : first + TOGETHER]
        errors = await asyncio.gather(*(_error_of(act, id) for id in some))
        limits = [(number, error) for number, error in enumerate(errors) if isinstance(error, TooMany)]
        done += errors.count(None)
        refused.update(
            error.message.replace(id, "…")
            for id, error in zip(some, errors, strict=True)
            if error is not None and not isinstance(error, TooMany)
        )
        if limits:
            number, limit = limits[0]
            stopped = f"{limit.message}. {limit.fix}".strip()
            return Acted(done, dict(refused), stopped=stopped, reached=first + number)
    return Acted(done, dict(refused))


async def _error_of(act: Act, id: str) -> WakefulError | None:
    try:
        await act(id)
    except WakefulError as error:
        return error
    return None


def place(row: Alarm | Fire) -> Cursor:
    """Where a row stands in its list."""
    return (row.created_at, row.id) if isinstance(row, Alarm) else (row.scheduled_for, row.alarm_id)


async def alarms_of(alarms: Alarms, fires: Sequence[Fire | HistoryEntry]) -> dict[str, Alarm]:
    """The alarms of these fires, by their id; what belongs to another owner is left out."""
    store, owner = alarms.service.store, alarms.caller.owner
    found = await asyncio.gather(*(store.get(id, owner=owner) for id in {fire.alarm_id for fire in fires}))
    return {alarm.id: alarm for alarm in found if alarm is not None}


# Lists for people, who rather hear soon that nothing was found yet than wait until everything was looked through


LOOKED_AT: Final = 20_000  # rows of an owner, by an index, whether they fit or not
READ: Final = 3_000  # of these where a text is looked for: each is read in full


async def alarms_like(alarms: Alarms, *, limit: int, most: int, **filters: Any) -> Matches[Alarm]:
    """As `Alarms.find`, among the next LOOKED_AT alarms."""
    filters["statuses"] = accepted("status", filters.pop("status", ()), ALARM_STATUSES)
    look_at = READ if filters.get("text") else LOOKED_AT
    query = AlarmQuery(owner=alarms.caller.owner, limit=limit, most=most, look_at=look_at, **filters)
    return without_copies(await alarms.service.store.find(query))


async def fires_like(alarms: Alarms, *, limit: int, most: int, **filters: Any) -> Matches[Fire]:
    """As `Alarms.fires`, among the next LOOKED_AT fires."""
    filters["statuses"] = accepted("status", filters.pop("status", ()), FIRE_STATUSES)
    query = FireQuery(owner=alarms.caller.owner, limit=limit, most=most, look_at=LOOKED_AT, **filters)
    return await alarms.service.store.fires(query)


async def latest_fires(alarms: Alarms, *, limit: int) -> Matches[HistoryEntry]:
    """What fired last, with the words of its alarm. `Alarms.history` tells the newest alarms among them."""
    return await History(alarms.service.store).latest(owner=alarms.caller.owner, limit=limit)

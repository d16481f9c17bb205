"""Choose the index that answers a search, and limit how many rows it scans.

Where no index holds exactly the requested rows, a read scans at most ROWS_A_READ rows (ROWS_A_SEARCH with a text)
whether they match or not, and continues with a cursor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from wakeful.alarm.model import STEPPED_OVER, UNSUCCESSFUL
from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.pages import Cursor

ROWS_A_READ: Final = 10_000  # that one read looks at, by an index, whether they fit or not
ROWS_A_SEARCH: Final = 5_000  # of these where a text is looked for: each is read in full
# Few rows have these, and an index lists them.
PAUSED: Final = ("paused",)
CANCELLED: Final = ("cancelled",)
_OF_FIRES: Final[tuple[tuple[str, ...], ...]] = (("waiting",), ("retrying",), UNSUCCESSFUL, STEPPED_OVER)


def indexed_statuses(query: AlarmQuery | FireQuery) -> tuple[str, ...]:
    """The statuses of an index that has all that is asked for, and perhaps some more; none where there is no such."""
    if isinstance(query, AlarmQuery):
        return (
            _of_all(query.statuses, (PAUSED, CANCELLED)) if query.owner and not query.root_id and not query.key else ()
        )
    return _of_all(query.statuses, _OF_FIRES) if query.owner and not query.alarm_id else ()


def is_bounded(query: AlarmQuery | FireQuery) -> bool:
    """Whether no more than `look_at` rows are to be looked at: the index has some that do not fit."""
    if not query.look_at:
        return False
    if isinstance(query, FireQuery):
        narrow, others = query.alarm_id, bool(query.target)
    else:
        narrow = query.root_id or (query.key and query.owner)
        others = any((query.target, query.kind, query.label, query.conversation_id, query.text))
        others = others or (is_by_id(query) and any((query.key, query.since, query.until)))
    return not narrow and (others or (bool(query.statuses) and not indexed_statuses(query)))


def bounds(query: AlarmQuery | FireQuery) -> Iterator[int]:
    """How many rows to look at: first a few, since a page is mostly full soon, and only then as many as may be."""
    few = max(200, 4 * query.limit)
    if few < query.look_at:
        yield few
    yield query.look_at


def is_by_id(query: AlarmQuery | FireQuery) -> bool:
    """Whether alarms are told in the order of their ids: those of all owners, for which that is the only index."""
    return isinstance(query, AlarmQuery) and not query.owner


async def counted(query: AlarmQuery | FireQuery, count: Callable[[Any], Awaitable[tuple[int, Cursor | None]]]) -> int:
    """How many there are, up to the limit, in reads that each look at so many rows and say where they end."""
    total = 0
    while True:
        found, end = await count(query)
        total += found
        if end is None or found >= query.limit:
            return total
        query = replace(query, cursor=end, limit=query.limit - found)


def _of_all(asked: Sequence[str], known: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return next((statuses for statuses in known if asked and set(asked) <= set(statuses)), ())

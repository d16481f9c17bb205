"""Which alarms, fires and events are searched for, and which index answers such a search.

A filter is declared here, once: the stores, and whoever asks them, take it from these structs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from wakeful.model.alarm import STEPPED_OVER, UNSUCCESSFUL

Cursor = tuple[datetime, str]

ROWS_A_READ: Final = 10_000  # that one read goes through, by an index, whether they fit or not
ROWS_A_SEARCH: Final = 5_000  # of these where a text is searched for: each is read in full
# Few rows have these, and an index lists them.
PAUSED: Final = ("paused",)
CANCELLED: Final = ("cancelled",)
_OF_FIRES: Final[tuple[tuple[str, ...], ...]] = (("waiting",), ("retrying",), UNSUCCESSFUL, STEPPED_OVER)


class AlarmFilter(Struct, frozen=True, kw_only=True):
    """Which alarms, as a caller may name them. Empty fields do not filter."""

    statuses: Annotated[tuple[str, ...], Meta(description="Alarms in this state.")] = ()
    kind: Annotated[str, Meta(description="One-shots or series.")] = ""
    target: Annotated[str, Meta(description="Alarms of this target.")] = ""
    label: Annotated[str, Meta(description="Alarms with exactly this label.")] = ""
    conversation_id: Annotated[str, Meta(description="Alarms of this conversation.")] = ""
    root_id: Annotated[str, Meta(description="Alarms of the chain that this alarm started.")] = ""
    key: Annotated[str, Meta(description="The alarm with exactly this idempotency_key.")] = ""
    text: Annotated[str, Meta(description="A part of the label, the message or the key, in any case.")] = ""
    since: Annotated[datetime | None, Meta(description="Created at or after.")] = None
    until: Annotated[datetime | None, Meta(description="Created before.")] = None


class AlarmQuery(AlarmFilter, frozen=True, kw_only=True):
    """Which alarms, newest first: an owner's by (created_at, id), all owners' by id."""

    owner: str = ""
    cursor: tuple[datetime, str] | None = None  # (created_at, id) of the last one seen
    limit: int = 100
    most: int = 0  # characters of a page, but always one row; 0: whatever the limit allows
    look_at: int = 0  # so many rows, whether they fit or not; 0: until the page is full


class FireFilter(Struct, frozen=True, kw_only=True):
    """Which fires, as a caller may name them. Empty fields do not filter."""

    statuses: Annotated[tuple[str, ...], Meta(description="Fires with this status.")] = ()
    target: Annotated[str, Meta(description="Fires of this target.")] = ""
    since: Annotated[datetime | None, Meta(description="Scheduled at or after.")] = None
    until: Annotated[datetime | None, Meta(description="Scheduled before.")] = None


class FireQuery(FireFilter, frozen=True, kw_only=True):
    """Which fires, latest scheduled first."""

    owner: str = ""
    alarm_id: str = ""
    cursor: tuple[datetime, str] | None = None  # (scheduled_for, alarm_id) of the last one seen
    limit: int = 100
    most: int = 0  # characters of a page, but always one row; 0: whatever the limit allows
    look_at: int = 0  # so many rows, whether they fit or not; 0: until the page is full


class EventQuery(Struct, frozen=True, kw_only=True):
    """Which events, oldest first. Empty fields do not filter.

    What an alarm was before a change (`Change.former`) is only found with `latest`: it holds words that may have been
    withdrawn since.
    """

    owner: str = ""
    alarm_id: str = ""
    what: str = ""  # with `alarm_id` and `latest`, or with `by`
    by: str = ""  # who did it: together with `what` and `since`
    since: datetime | None = None  # at or after
    after: int = 0  # the last number seen
    latest: bool = False  # of one alarm, newest first
    limit: int = 100
    most: int = 0  # characters of a page, but always one row; 0: whatever the limit allows


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
        others = any(getattr(query, name) for name in (*EXACT, "text") if name not in _NARROW)
        others = others or (is_by_id(query) and any((query.key, query.since, query.until)))
    return not narrow and (others or (bool(query.statuses) and not indexed_statuses(query)))


def bounds(query: AlarmQuery | FireQuery) -> Iterator[int]:
    """How many rows to read: first a few, since a page is mostly full soon, and only then as many as may be."""
    few = max(200, 4 * query.limit)
    if few < query.look_at:
        yield few
    yield query.look_at


def is_by_id(query: AlarmQuery | FireQuery) -> bool:
    """Whether alarms come in the order of their ids: those of all owners, for which that is the only index."""
    return isinstance(query, AlarmQuery) and not query.owner


# What an alarm's own field must be. These two have an index.
_NARROW: Final = ("root_id", "key")
EXACT: Final = ("kind", "target", "label", "conversation_id", *_NARROW)


async def counted(query: AlarmQuery | FireQuery, count: Callable[[Any], Awaitable[tuple[int, Cursor | None]]]) -> int:
    """How many there are, up to the limit, in reads that each go through so many rows and say where they end."""
    total = 0
    while True:
        found, end = await count(query)
        total += found
        if end is None or found >= query.limit:
            return total
        query = replace(query, cursor=end, limit=query.limit - found)


def _of_all(asked: Sequence[str], known: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return next((statuses for statuses in known if asked and set(asked) <= set(statuses)), ())

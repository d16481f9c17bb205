"""How much an owner has: counted no further than a bound, so that asking costs the same however much there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from wakeful.store.pages import Cursor

COUNTED: Final = 10_000  # alarms of each kind, and latest fires


class Stats(Struct, frozen=True, kw_only=True):
    """Counts under the names of the Alarm system: alarms that wait, fires by how they went.

    total, pending, paused, cancelled   alarms: all, active, paused, cancelled
    fired                               fires that went out and have no end yet: delivered or waiting
    completed, failed, timeout_unknown  fires that ended so (timeout_unknown: `timed_out`)
    skipped                             instants passed over: the sum of `count` over skipped fires
    avg_duration_ms                     of completed fires that have a duration, rounded
    more                                there may be more: each count of alarms ends at 10,000, and fires are counted
                                        among the latest 10,000
    """

    total: int = 0
    pending: int = 0
    paused: int = 0
    fired: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    timeout_unknown: int = 0
    skipped: int = 0
    avg_duration_ms: int | None = None
    more: bool = False


class Usage(Struct, frozen=True):
    """What an owner has here: alarms that are active or paused, and the bytes of all alarms' messages and payloads.

    `further`: where to go on, where not all of the owner's alarms were looked at.
    """

    alarms: int
    bytes: int
    further: Cursor | None = None


def stats_of(counts: Mapping[str, Any], *, most: int) -> Stats:
    """From what the statement `stats` tells, which looked at no more than so many fires."""
    told = dict(counts)
    fires: int = told.pop("fires")
    return Stats(**told, more=max(fires, told["total"]) >= most)

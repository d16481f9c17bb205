"""What the store is given and answers, beside alarms and fires themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from msgspec import Struct

from wakeful.alarm import Alarm, Change, Event, Fire, fire_id
from wakeful.store.filters import Cursor

COUNTED: Final = 10_000  # alarms of each kind, and latest fires
OWNERS_A_CLAIM: Final = 64  # whom a claim in turn reads per target: half a millisecond of work
CLOCK_AHEAD: Final = timedelta(days=1)  # how far the clock of whoever makes ids may be ahead of the store's


class Added(Struct, frozen=True):
    """A stored alarm. `deduped`: its key was taken, and this is the alarm that has it."""

    alarm: Alarm
    deduped: bool = False


class Claim(Struct, frozen=True):
    """A lease on an alarm, by number."""

    id: str
    claim: int


class Turn(Struct, frozen=True):
    """How many of a target's slots go to its owners in turn, and the owner who had the last one."""

    share: int
    after: str = ""

    @property
    def each(self) -> int:
        """How many of them one owner gets at most: the rest of its own it claims in the order they are due."""
        return -(-self.share // 4)


NO_TURNS: Final[Mapping[str, Turn]] = {}
NOT_EARLY: Final[Mapping[str, timedelta]] = {}


class Claimed(Struct, frozen=True):
    """What a claim brought, oldest due first per target, and the moment it happened by the store's clock.

    `ahead`: one of them had a lease from the future, that is from a clock that has been set back since.
    `stood`: where owners were taken in turn, who was read last per target; empty when that was the last of all.
    """

    alarms: list[Alarm]
    now: datetime
    ahead: bool = False
    stood: Mapping[str, str] = {}


class Settled(Struct, frozen=True):
    """What became of a change.

    applied   it is written
    edited    the claim holds, but the alarm was changed since it was read: read it again and decide again
    lost      the claim does not hold (or the alarm is gone): someone else decides now
    refused   the row of a table target could not be written; nothing was, and `error` says why
    moved     it would have said the words of a task whose row no longer stands as it was planned; nothing was written
    """

    what: Literal["applied", "edited", "lost", "refused", "moved"]
    error: str = ""


def written_events(change: Change) -> tuple[Event, ...]:
    """The events of a change, and behind them what the alarm was before."""
    return change.events if change.former is None else (*change.events, change.former)


class DescribedFire(Struct, frozen=True, kw_only=True):
    """A fire with what a list of fires tells of its alarm, if there is one. Its payload is not: it may be long."""

    label: str = ""
    wake_message: str = ""
    max_failures: int = 0
    created_by: str = ""
    created_via: str = ""
    manual_of: str = ""  # the alarm whose manual fire it is
    fire: Fire


class NewAlarm(Struct, frozen=True, kw_only=True):
    """As much of a new alarm as live events need: what it says may be long, and stays where it is."""

    id: str
    owner_did: str
    target: str
    status: str
    created_at: datetime


class MovedFire(Struct, frozen=True, kw_only=True):
    """The same of a fire that changed. `reason`: its own, or what its last error begins with."""

    alarm_id: str
    scheduled_for: datetime
    owner_did: str
    target: str
    status: str
    reason: str
    attempts: int
    delivered_at: datetime | None
    count: int
    updated_at: datetime

    @property
    def id(self) -> str:
        return fire_id(self.alarm_id, self.scheduled_for)


class Followed(Struct, frozen=True):
    """What is new since a moment, each list oldest first. `last_event`: the latest number there is, whoever's."""

    alarms: list[NewAlarm]
    fires: list[MovedFire]
    events: list[tuple[int, Event]]
    last_event: int


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

    `further`: where to go on, where not all of the owner's alarms were read.
    """

    alarms: int
    bytes: int
    further: Cursor | None = None


def stats_of(counts: Mapping[str, Any], *, most: int) -> Stats:
    """From what the statement `stats` answers, which read no more than so many fires."""
    values = dict(counts)
    fires: int = values.pop("fires")
    return Stats(**values, more=max(fires, values["total"]) >= most)

"""What the store is given and answers, beside alarms and fires themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct

from wakeful.errors import StoreBusy, TooMany
from wakeful.model.alarm import Alarm, Change, Event, Fire, fire_id
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


# A page of rows: taken as they come until it is full, by number or by weight; and an owner's turn to read.
#
# A search reads a bounded weight of rows, whether they have the text or not, and says where to go on.

SEARCHED: Final = 16_000_000  # characters of rows that one search reads
READ_WITHIN: Final = timedelta(seconds=5)
READS_PER_OWNER: Final = 2
AHEAD_OF_IT: Final = 1_000_000  # characters that are brought before it is known whether they fit
FIRST_ROWS: Final = 4
MOST_ROWS: Final = 200
WAITING: Final = 64  # reads of one owner that wait for their turn

T = TypeVar("T")
V = TypeVar("V")


class Matches(list[T]):
    """What was found. `further`: where to go on, where there may be more; None at the end."""

    def __init__(self, values: Iterable[T] = (), further: Cursor | None = None) -> None:
        super().__init__(values)
        self.further = further


class Page(Generic[T]):
    """Rows of the store, the first ones that fit. `most`: so much weight, but always one row; 0 is without limit."""

    def __init__(self, limit: int, *, most: int = 0, text: str = "", among: tuple[str, ...] | tuple[int, ...]) -> None:
        self.rows: list[T] = []
        self.last: T | None = None  # read, whether it is on the page or not
        self.more = False
        self.end: Cursor | None = None  # where to go on, though all that was to be read is here
        self._limit = limit
        self._most = most
        self._text = text.casefold()
        self._among = among
        self._weight = self._searched = self._seen = 0

    def take(self, row: Any) -> bool:
        """Take a row, or leave it where the page is full already. Whether to bring another."""
        if self._is_full:
            self.more = True
            return False
        self.last = row
        weight = sum([len(value) for value in row if type(value) is str])
        self._searched += weight
        self._seen += 1
        if not self._text or any(self._text in str(row[at]).casefold() for at in self._among):
            self.rows.append(row)
            self._weight += weight
        return True

    @property
    def at_once(self) -> int:
        """How many rows to bring next, going by those that came: long ones one by one, short ones in bulk."""
        if not self._seen:
            return FIRST_ROWS
        return max(1, min(MOST_ROWS, AHEAD_OF_IT * self._seen // max(1, self._searched)))

    def found(self, make: Callable[[T], V], cursor: Callable[[V], Cursor]) -> Matches[V]:
        further = cursor(make(self.last)) if self.more and self.last is not None else self.end
        return Matches(map(make, self.rows), further)

    @property
    def _is_full(self) -> bool:
        if len(self.rows) >= self._limit or (self._text and self._searched >= SEARCHED):
            return True
        return 0 < self._most <= self._weight and bool(self.rows)


def filled(rows: Iterable[Any], page: Page[Any]) -> Page[Any]:
    """Look at rows until the page is full: what comes after is not read."""
    for row in rows:
        if not page.take(row):
            break
    return page


class _Turn(Struct):
    room: asyncio.Semaphore
    here: int = 0


class ReadTurns:
    """So many reads of one owner at once; more of them wait, and nobody else does. No owner: wakeful itself."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._turns: dict[str, _Turn] = {}

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        if not owner:
            yield
            return
        turn = self._turns.setdefault(owner, _Turn(asyncio.Semaphore(self._at_once)))
        if turn.here >= self._at_once + WAITING:
            raise TooMany(
                f"{self._at_once} of your reads are running and {WAITING} more are waiting",
                field="reads_per_owner",
                fix="Wait for their answers before you send more.",
                retry_after=1.0,
            )
        turn.here += 1
        try:
            async with turn.room:
                yield
        finally:
            turn.here -= 1
            if not turn.here:
                self._turns.pop(owner, None)


def too_slow(within: float) -> StoreBusy:
    """A read that was stopped so that others get their turn."""
    return StoreBusy(
        f"this read took longer than {within:g} s and was stopped",
        fix="Ask for less: a smaller limit, a time span, a status or a target.",
    )

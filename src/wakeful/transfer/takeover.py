"""Import from another system: read all of its alarms, page by page, and add them here.

All of it can be done again at any time: a row gives the same alarm under the same id whenever it is read, what is here
already is left as it is, and what is missing comes in. Nothing is ever written to the other system.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import Alarm, Change, Fire
from wakeful.store import Store

PAGE: Final = 500
LISTED: Final = 1000  # rows left behind that are told one by one; beyond that they are counted
LEASE: Final = timedelta(minutes=2)

Seen = Callable[[int], None]
Written = tuple[str, str, str, Any]  # id, status and kind in the other system's words, and the row itself


class Source(Protocol):
    """Where another system keeps its alarms."""

    name: str

    async def check(self) -> None:
        """Refuse what is not of that system."""
        ...

    async def count(self) -> int: ...

    def pages(self) -> AsyncIterator[Sequence[Written]]:
        """Every row, some hundred at a time, in the order of their ids."""
        ...

    async def close(self) -> None: ...


class TakeoverResult(Struct, frozen=True):
    """What a row stands for: an alarm, and the fire that is on record of it."""

    alarm: Alarm
    fire: Fire | None = None
    leased_at: datetime | None = None  # by a worker of the other system


Take = Callable[[Any], TakeoverResult]  # InvalidRequest where wakeful cannot keep the row


class LeftBehind(Struct, frozen=True):
    """A row that cannot be taken over, and why."""

    id: str
    status: str
    kind: str
    reason: str


class Findings(Struct):
    """The rows that were found, and the result of each."""

    kinds: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # by (status, kind)
    waiting: Counter[str] = msgspec.field(default_factory=Counter)  # active, by target
    due: int = 0  # active, and their moment has passed: they fire as soon as somebody delivers
    leased: int = 0  # active, and a worker of the other system had them: they are due again
    leased_now: int = 0  # so lately that the worker may still be running
    old: int = 0  # finished before `old_before`
    taken_over: int = 0
    left_count: int = 0
    left: list[LeftBehind] = []

    @property
    def total(self) -> int:
        return self.kinds.total()

    def leave(self, row: Written, reason: str) -> None:
        self.left_count += 1
        if len(self.left) < LISTED:
            id, status, kind, _ = row
            self.left.append(LeftBehind(id, status, kind, reason))

    def note(self, taken: TakeoverResult, *, now: datetime, old_before: datetime | None) -> None:
        alarm, leased_at = taken.alarm, taken.leased_at
        active = alarm.status == "active"
        leased = active and leased_at is not None
        self.waiting[alarm.target] += active
        self.due += active and alarm.next_fire_at <= now
        self.leased += leased
        self.leased_now += leased and leased_at is not None and leased_at > now - LEASE
        self.old += not active and old_before is not None and alarm.updated_at < old_before


async def go_through(
    source: Source,
    take: Take,
    *,
    now: datetime,
    old_before: datetime | None,
    store: Store | None = None,
    seen: Seen = lambda count: None,
) -> Findings:
    """Read every row; with a store, put it there too. Without one nothing is changed anywhere."""
    found = Findings()
    async for page in source.pages():
        brought: list[tuple[Written, TakeoverResult]] = []
        for row in page:
            _, status, kind, written = row
            found.kinds[status, kind] += 1
            try:
                taken = take(written)
            except InvalidRequest as error:
                found.leave(row, str(error))
                continue
            found.note(taken, now=now, old_before=old_before)
            brought.append((row, taken))
        if store is not None:
            await _put(store, brought, found)
        seen(len(page))
    return found


async def _put(store: Store, brought: Sequence[tuple[Written, TakeoverResult]], found: Findings) -> None:
    # Nobody takes up an alarm whose earlier attempts are not on record yet: until they are it is leased, and a lease
    # ends by itself.
    now = await store.now()
    added = await store.add([_leased(taken, now) for _, taken in brought])
    changes: list[tuple[Written, Change]] = []
    for (row, taken), there in zip(brought, added, strict=True):
        if there.alarm.id != taken.alarm.id:
            key = taken.alarm.idempotency_key
            found.leave(row, f"alarm {there.alarm.id} already has the idempotency_key {key!r} here")
            continue
        found.taken_over += 1
        # Where it is not as it was brought, it has moved on here, or there: what became of it since is not ours to say.
        if taken.fire is not None and replace(there.alarm, claimed_at=None) == taken.alarm:
            changes.append((row, Change(claim=0, version=1, after=taken.alarm, fires=(taken.fire,))))
    if not changes:
        return
    for (row, _), settled in zip(changes, await store.settle([change for _, change in changes]), strict=True):
        if settled.what == "refused":  # any other answer: somebody was faster, and it has moved on
            found.taken_over -= 1
            found.leave(row, f"its outcome cannot be written here: {settled.error}")


def _leased(taken: TakeoverResult, now: datetime) -> Alarm:
    alarm = taken.alarm
    return replace(alarm, claimed_at=now) if taken.fire is not None and alarm.status == "active" else alarm

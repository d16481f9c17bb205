"""Subscriptions to live events: their queues, and their share of the event loop.

An event is put into words once, however many want to hear it. All listeners share one pace: so many are served in a
turn of the event loop, and then the loop belongs to the others, first of all the dispatcher.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from wakeful.clock import stopwatch

QUEUE: Final = 256
CHUNK: Final = 64  # events handed out at a time: a subscriber must have room for them
AT_ONCE: Final = 8  # listeners served in one turn of the loop
LONGEST_REST: Final = 0.01  # seconds; whatever held the loop up, it may not have been us


class LiveEvent(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that happened. `seq` counts its owner's in this process; `status` is that of the fire, or the alarm."""

    seq: int
    at: datetime
    what: str  # one of WHATS
    alarm_id: str
    fire_id: str = ""
    owner: str = ""
    target: str = ""
    status: str = ""
    reason: str = ""


Words = Callable[[str, LiveEvent], bytes]  # how a door says an event, given the event's name


class NumberedEvent:
    """An event on its way to those who listen, with the name by which one may resume."""

    __slots__ = ("_said", "event", "id", "number")

    def __init__(self, id: str, event: LiveEvent, number: int = 0) -> None:
        self.id = id
        self.event = event
        self.number = number  # in order within this process, and told to nobody
        self._said: dict[Words, bytes] = {}

    def said(self, words: Words) -> bytes:
        """The event in a door's words: put together for the first who listens there, and kept for the others."""
        said = self._said.get(words)
        if said is None:
            said = self._said[words] = words(self.id, self.event)
        return said


class Wanted(Struct, frozen=True):
    """Whose events, and which. Empty fields do not filter; an empty owner is the operator."""

    owner: str = ""
    whats: frozenset[str] = frozenset()
    alarm_id: str = ""

    def wants(self, event: LiveEvent) -> bool:
        return (
            (not self.owner or event.owner == self.owner)
            and (not self.whats or event.what in self.whats)
            and (not self.alarm_id or event.alarm_id == self.alarm_id)
        )


class LoopShare:
    """Lets a few through in one turn of the loop, and then leaves it to others for as long as those few took.

    So however many listen and however much there is to tell, that never takes more than about half of the loop, and
    never much of it at a time.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._free = at_once
        self._queue: deque[asyncio.Future[None]] = deque()
        self._began: float | None = None  # when this turn did; None: nobody has come since the last

    async def step(self) -> None:
        """Return when it is the caller's turn."""
        if self._began is None:
            self._begin()
        if self._free and not self._queue:
            self._free -= 1
            return
        mine = asyncio.get_running_loop().create_future()
        self._queue.append(mine)
        await mine

    def _begin(self) -> None:
        self._began = stopwatch()
        asyncio.get_running_loop().call_soon(self._rest)  # runs behind all who are let through now

    def _rest(self) -> None:
        assert self._began is not None
        took = stopwatch() - self._began
        asyncio.get_running_loop().call_later(min(took, LONGEST_REST), self._next_turn)

    def _next_turn(self) -> None:
        self._free, self._began = self._at_once, None
        while self._free and self._queue:
            first = self._queue.popleft()
            if not first.done():  # else it does not wait any more
                first.set_result(None)
                self._free -= 1
        if self._free < self._at_once:
            self._begin()


class Subscription:
    """The events somebody wants, waiting to be taken. `resumed`: it goes on where its `after` said."""

    def __init__(self, wanted: Wanted, pace: LoopShare, missed: Sequence[NumberedEvent] = (), *, resumed: bool) -> None:
        self.wanted = wanted
        self.resumed = resumed
        self.dropped = asyncio.Event()
        self.reason = ""
        self.asks = False  # somebody waits for more: where it is behind, that is not the reader's doing
        self._pace = pace
        self._waiting = deque(telling for telling in missed if wanted.wants(telling.event))
        self._changed = asyncio.Event()

    async def next(self) -> LiveEvent:
        """The next event, whenever there is one."""
        await self._something()
        self._changed.set()
        return self._waiting.popleft().event

    async def take(self, words: Words, most: int = QUEUE) -> list[bytes]:
        """What waits, in the words of a door: at least one event, and no more than `most`."""
        self.asks = True
        try:
            await self._something()
            await self._pace.step()
        finally:
            self.asks = False
        self._changed.set()
        return [self._waiting.popleft().said(words) for _ in range(min(most, len(self._waiting)))]

    async def _something(self) -> None:
        while not self._waiting:
            self._changed.clear()
            await self._changed.wait()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def behind(self) -> bool:
        """Whether another chunk would not fit."""
        return len(self._waiting) > QUEUE - CHUNK

    def put(self, wanted: Sequence[NumberedEvent]) -> None:
        if wanted and not self.dropped.is_set():
            self._waiting.extend(wanted)
            self._changed.set()

    async def has_room(self) -> None:
        """Return once another chunk fits."""
        while self.behind:
            self._changed.clear()
            await self._changed.wait()

    def drop(self, reason: str) -> None:
        self.reason = reason
        self._waiting.clear()
        self.dropped.set()

"""Live events for subscribers.

One poller per process reads what changed in the store, whichever process changed it, and only while somebody listens.
Nothing depends on it: what commits very late may be missed, and a fire that changed twice between two looks is told
once. Memory has bounds: a subscriber who does not keep up is dropped and told why, and may resume where it was. So has
the time it takes of the loop at once: an event is read and put into words once, and handed out a few listeners a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import Clock, stopwatch, turn
from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import FIRE_STATUSES, Event
from wakeful.rules.budget import BUDGET_REACHED
from wakeful.rules.lineage import ENDING, RENEWED
from wakeful.rules.plan import HOLIDAYS_UNKNOWN
from wakeful.rules.signalling import SIGNALLED
from wakeful.rules.undo import UNDONE
from wakeful.service.tasks import OwnerCounts, ResumeNames
from wakeful.store import Followed, MovedFire, NewAlarm, Store

__all__ = ["CHUNK", "QUEUE", "WHATS", "Live", "LiveEvent", "NumberedEvent", "Subscription", "recent"]

log = logging.getLogger("wakeful.live")

OVERLAP: Final = timedelta(seconds=5)  # how late a commit may come and still be told
REMEMBERED: Final = 50_000  # changes already told, so that the overlap tells nothing twice
RING: Final = 1000  # events kept for those who come back
HANDED_AT_ONCE: Final = 32  # subscribers who are handed a chunk in one turn of the loop
ROWS_AT_ONCE: Final = 100  # rows looked through in one turn of the loop
PATIENCE: Final = 2.0  # seconds a subscriber has to make room for a chunk
ROUNDS: Final = 5  # so often at most where it asks for more, and is only not served
PAGE: Final = 1000
PAGES: Final = 10  # read in one go; the rest waits for the next tick
RESUME_WITHIN: Final = timedelta(minutes=1)  # after a time without subscribers
# How far `recent` looks back, in turn: reading begins with the oldest, so the shortest span that has enough is taken.
LOOK_BACK: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 10, 60, 24 * 60, 30 * 24 * 60))
_MS: Final = timedelta(milliseconds=1)
_FAR: Final = 1 << 62
_REASON_LIMIT: Final = 500
_GOES_OUT: Final = frozenset({"delivered", "completed", "waiting", "retrying", "failed"})
_DONE_TO_IT: Final = {  # what somebody did to an alarm, and how it stands since, where that says it
    "cancelled": "cancelled",
    "paused": "paused",
    "resumed": "active",
    "snoozed": "active",
    "updated": "",
    SIGNALLED: "active",
    "replaced": "active",
    UNDONE: "",
    BUDGET_REACHED: "",
    ENDING: "",
    RENEWED: "",
    HOLIDAYS_UNKNOWN: "",
}
# What becomes of a fire is told under its status; of one that waits, nothing more than that it fired.
_FIRES: Final = tuple(status for status in FIRE_STATUSES if status != "waiting")
WHATS: Final = tuple(dict.fromkeys(("created", "fired", *_FIRES, *_DONE_TO_IT)))
_ORDER: Final = {"created": 0, "fired": 2, **dict.fromkeys(_DONE_TO_IT, 1)}
T = TypeVar("T")
TOO_SLOW: Final = "events came faster than they were read"


class Live:
    """Sends events to subscribers while there are any."""

    def __init__(self, store: Store, clock: Clock, tick: timedelta, *, patience: float = PATIENCE) -> None:
        self._store = store
        self._clock = clock
        self._tick = tick
        self._patience = patience
        self._names = ResumeNames()
        self._counts = OwnerCounts()
        self._seq = 0
        self._ring: deque[NumberedEvent] = deque(maxlen=RING)
        self._pace = LoopShare()
        self._subscribers: set[Subscription] = set()
        self._poller: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._place: _Place | None = None
        self._memory = _Memory()
        self._is_away = False

    @property
    def last_id(self) -> str:
        """The name of the latest event, by which one may resume."""
        return self._names.of(self._seq)

    @property
    def subscribers(self) -> int:
        return len(self._subscribers)

    @contextlib.asynccontextmanager
    async def subscribed(
        self, owner: str, whats: Collection[str] = (), alarm_id: str = "", *, after: str = ""
    ) -> AsyncIterator[Subscription]:
        """Everything from now on; where `after` names an event that is still remembered, everything since that one."""
        async with self._starting:
            if self._poller is None:
                await self._catch_up()
                self._poller = asyncio.create_task(self._follow(), name="wakeful live")
            missed = self._since(after)
            wanted = Wanted(owner, frozenset(whats), alarm_id)
            subscription = Subscription(wanted, self._pace, missed or (), resumed=missed is not None)
            self._subscribers.add(subscription)
        try:
            yield subscription
        finally:
            self._subscribers.discard(subscription)
            if not self._subscribers and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    def _since(self, id: str) -> list[NumberedEvent] | None:
        """What came after an event, or None where that is not known any more."""
        oldest = self._ring[0].number - 1 if self._ring else self._seq
        number = self._names.number(id)
        if number is None or not oldest <= number <= self._seq:
            return None
        return [telling for telling in self._ring if telling.number > number]

    async def _catch_up(self) -> None:
        """Continue where the last subscriber left; after a longer time start again from now."""
        now = await self._store.now()
        if self._place is not None and timedelta(0) <= now - self._place.looked_at < RESUME_WITHIN:
            for _ in range(PAGES):
                self._number(await self._page())
                if self._place.caught_up:
                    break
            return
        self._ring.clear()
        self._seq += 1  # so that nobody resumes across the gap
        self._memory = _Memory()
        found = await self._store.changes(owner="", since=now, after_event=_FAR, limit=1)
        self._place = _Place(since=now - OVERLAP, after=found.last_event, looked_at=now)
        for _ in range(PAGES):
            await self._page()
            if self._place.caught_up:
                break

    async def _follow(self) -> None:
        while True:
            await self._clock.sleep(self._tick.total_seconds())
            try:
                await self._look()
            except StoreUnavailable as error:
                if not self._is_away:
                    log.warning("live events are paused, the store cannot be read: %s", error.message)
                self._is_away = True
            except Exception:
                log.exception("live events: an unexpected error, trying again")
            else:
                self._is_away = False

    async def _look(self) -> None:
        for _ in range(PAGES):
            await self._tell(await self._page())
            if self._place is None or self._place.caught_up:
                return

    async def _page(self) -> list[LiveEvent]:
        """Read on from our place, which moves with it; what of that was not told yet."""
        assert self._place is not None
        place, now = self._place, await self._store.now()
        found = await self._store.changes(owner="", since=place.since, after_event=place.after, limit=PAGE)
        self._place = place.beyond(found, now)
        return await self._memory.news(found, place.since)

    def _number(self, events: Sequence[LiveEvent]) -> list[NumberedEvent]:
        tellings = [
            NumberedEvent(self._names.of(number), replace(event, seq=self._counts.next(event.owner)), number)
            for number, event in enumerate(events, self._seq + 1)
        ]
        self._seq += len(tellings)
        self._ring.extend(tellings)
        return tellings

    async def _tell(self, events: Sequence[LiveEvent]) -> None:
        for at in range(0, len(events), CHUNK):
            await self._make_room()
            # Numbered only now: who subscribes while others are still told of it finds it in the ring, or not at all.
            await self._hand_out(self._number(events[at : at + CHUNK]))

    async def _hand_out(self, chunk: Sequence[NumberedEvent]) -> None:
        """To all who are here now, a few in one turn of the loop; looked through once for all who want the same."""
        wanted: dict[Wanted, list[NumberedEvent]] = {}
        for count, subscription in enumerate(list(self._subscribers), 1):
            view = subscription.wanted
            if view not in wanted:
                wanted[view] = [telling for telling in chunk if view.wants(telling.event)]
            subscription.put(wanted[view])
            if count % HANDED_AT_ONCE == 0:
                await turn()

    async def _make_room(self) -> None:
        """Wait for those who are behind, all at once and not for long; then go on without the ones who still are.

        Who asks for more and is not served, because there are so many, is waited for longer.
        """
        for tried in range(1, ROUNDS + 1):
            slow = await self._behind_for(self._patience)
            for subscription in slow:
                if tried == ROUNDS or not subscription.asks:
                    self._subscribers.discard(subscription)
                    subscription.drop(TOO_SLOW)
            if not slow:
                return

    async def _behind_for(self, seconds: float) -> list[Subscription]:
        """Those who made no room in so many seconds."""
        behind = {asyncio.create_task(one.has_room()): one for one in self._subscribers if one.behind}
        if not behind:
            return []
        try:
            _, slow = await asyncio.wait(behind, timeout=seconds)
        finally:
            for task in behind:
                task.cancel()
        return [behind[task] for task in slow]


async def recent(
    store: Store, owner: str, *, limit: int, wanted: Callable[[LiveEvent], bool] = lambda _: True
) -> list[LiveEvent]:
    """The latest events, oldest first: what somebody would have been told who had listened."""
    now = await store.now()
    last = (await store.changes(owner=owner, since=now, after_event=_FAR, limit=1)).last_event
    events: list[LiveEvent] = []
    for back in LOOK_BACK:
        place = _Place(since=now - back, after=max(0, last - PAGE), looked_at=now, caught_up=False)
        latest: deque[LiveEvent] = deque(maxlen=limit)
        memory = _Memory()
        for _ in range(PAGES):
            found = await store.changes(owner=owner, since=place.since, after_event=place.after, limit=PAGE)
            news = await memory.news(found, now - back)
            latest.extend(event for event in news if event.at >= now - back and wanted(event))
            place = place.beyond(found, now)
            if place.caught_up:
                break
        if not place.caught_up and events:
            break  # too much to read all of it: what is known is the latest
        events = list(latest)
        if len(events) >= limit:
            break
    return events


class _Place(Struct, frozen=True):
    """How far has been read."""

    since: datetime
    after: int
    looked_at: datetime
    caught_up: bool = True

    def beyond(self, found: Followed, now: datetime) -> _Place:
        """Where to read on: behind what came, where a page was full; else a while before now."""
        ends = [
            *(found.alarms[-1].created_at for _ in range(len(found.alarms) >= PAGE)),
            *(found.fires[-1].updated_at for _ in range(len(found.fires) >= PAGE)),
        ]
        more_events = len(found.events) >= PAGE
        if ends or more_events:
            # More than a page in one millisecond: the rest of it is left out rather than never getting past it.
            since = max(min(ends), self.since + _MS) if ends else self.since
            after = found.events[-1][0] if found.events else self.after
            return _Place(since=since, after=after, looked_at=now, caught_up=False)
        # A number may commit after a higher one: only what is old enough is not asked for again.
        settled = [seq for seq, event in found.events if event.at < now - OVERLAP]
        return _Place(since=now - OVERLAP, after=max(settled, default=self.after), looked_at=now)


class _Memory:
    """What was told already, as far back as the overlap may reach."""

    def __init__(self) -> None:
        self._told: OrderedDict[object, object] = OrderedDict()

    async def news(self, found: Followed, since: datetime) -> list[LiveEvent]:
        """The events in what was read, in the order they happened."""
        events: list[LiveEvent] = []
        async for alarm in _by_and_by(found.alarms):
            events += self._created(alarm)
        async for seq, event in _by_and_by(found.events):
            events += self._done(seq, event)
        async for fire in _by_and_by(found.fires):
            events += self._moved(fire, since)
        return sorted(events, key=lambda event: (event.at, _ORDER.get(event.what, 3)))

    def _is_news(self, key: object, state: object = None) -> bool:
        known = key in self._told and self._told[key] == state
        self._told[key] = state
        self._told.move_to_end(key)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        return not known

    def _created(self, alarm: NewAlarm) -> Iterator[LiveEvent]:
        if self._is_news(alarm.id):
            yield LiveEvent(
                seq=0,
                at=alarm.created_at,
                what="created",
                alarm_id=alarm.id,
                owner=alarm.owner_did,
                target=alarm.target,
                status=alarm.status,
            )

    def _done(self, seq: int, event: Event) -> Iterator[LiveEvent]:
        if event.what == "snoozed":
            self._is_news(("snoozed", event.alarm_id, event.at))
        if self._is_news(seq) and event.alarm_id and event.what in _DONE_TO_IT:
            yield LiveEvent(
                seq=0,
                at=event.at,
                what=event.what,
                alarm_id=event.alarm_id,
                owner=event.owner_did,
                status=_DONE_TO_IT[event.what],
                reason=event.reason[:_REASON_LIMIT],
            )

    def _moved(self, fire: MovedFire, since: datetime) -> Iterator[LiveEvent]:
        key = (fire.alarm_id, fire.scheduled_for)
        is_known = key in self._told
        if not self._is_news(key, (fire.status, fire.attempts, fire.count)):
            return
        told = LiveEvent(
            seq=0,
            at=fire.updated_at,
            what="fired",
            alarm_id=fire.alarm_id,
            fire_id=fire.id,
            owner=fire.owner_did,
            target=fire.target,
            status=fire.status,
            reason=fire.reason[:_REASON_LIMIT],
        )
        if not is_known and _just_went_out(fire, since):
            yield told
        # The snooze of an alarm is told by its own event.
        is_told = fire.status == "snoozed" and ("snoozed", fire.alarm_id, fire.updated_at) in self._told
        if fire.status != "waiting" and not is_told:
            yield replace(told, what=fire.status)


async def _by_and_by(rows: Sequence[T]) -> AsyncIterator[T]:
    """A page of rows is long: others get their turn in between."""
    for count, row in enumerate(rows, 1):
        yield row
        if count % ROWS_AT_ONCE == 0:
            await turn()


def _just_went_out(fire: MovedFire, since: datetime) -> bool:
    """Whether this is the first that is heard of a fire, not a later word on one that went out long ago."""
    if fire.status not in _GOES_OUT:
        return False
    return fire.attempts <= 1 if fire.delivered_at is None else fire.delivered_at >= since


# Subscriptions to live events: their queues, and their share of the event loop.
#
# An event is put into words once, however many want to hear it. All listeners share one pace: so many are served in a
# turn of the event loop, and then the loop belongs to the others, first of all the dispatcher.

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


Words = Callable[[str, LiveEvent], bytes]  # how an interface writes an event, given the event's name


class NumberedEvent:
    """An event on its way to those who listen, with the name by which one may resume."""

    __slots__ = ("_said", "event", "id", "number")

    def __init__(self, id: str, event: LiveEvent, number: int = 0) -> None:
        self.id = id
        self.event = event
        self.number = number  # in order within this process, and told to nobody
        self._said: dict[Words, bytes] = {}

    def said(self, words: Words) -> bytes:
        """The event as an interface writes it: put together for the first subscriber there, and kept for the others."""
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
        """What waits, as an interface writes it: at least one event, and no more than `most`."""
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

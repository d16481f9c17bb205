"""What all verbs of one process share: the store, the time, the limits, the targets; and the verbs of the operator."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, Protocol

from wakeful.clock import Clock
from wakeful.ids import Ids
from wakeful.rules.budget import Budget
from wakeful.rules.users import Users
from wakeful.runtime.metrics import Metrics
from wakeful.schedule.holiday_calendars import Calendars, refresh_calendars
from wakeful.service.caller import Caller
from wakeful.service.limits import ConnectionLimit, Limits
from wakeful.service.owner_settings import OwnerSettingsCache
from wakeful.service.targets import TargetHere, TargetRegistry, Tested, send_test, target_named, wake_for_test
from wakeful.service.tasks import Tasks
from wakeful.settings import Settings
from wakeful.settings.values import defaults_of
from wakeful.store import FireQuery, Store
from wakeful.store.maintenance import adopt_newer_rules

UNREAD_GOOD_FOR: Final = 1.0  # seconds
WAITING_READ: Final = 200  # rows
INBOXES_KNOWN: Final = 10_000
OFFSET_GOOD_FOR: Final = 30.0  # seconds
OFFSET_DRIFT: Final = 0.1  # by which two monotonic clocks may differ in that time


class Service:
    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        settings: Settings,
        targets: Mapping[str, TargetHere] = MappingProxyType({}),
        declared: Mapping[str, Users] = MappingProxyType({}),
        metrics: Metrics | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.settings = settings
        self.metrics = metrics or Metrics()
        self._here = targets
        self.targets = TargetRegistry(store, targets, declared, settings)
        self.limits = Limits(store, settings)
        self.budget = Budget(settings.budget, settings.budget.by_owner)
        self.defaults = defaults_of(settings)  # of an alarm whose caller does not say
        self.owner_settings = OwnerSettingsCache(store, settings, clock)
        self.calendars = Calendars(settings.calendars)
        self.connections = ConnectionLimit(settings.live_per_owner, settings.live_total)
        self.unread = UnreadInboxes(store, clock)
        self.inbox_signal = InboxSignal()  # rung when a wake goes to an owner's inbox
        self.tasks = Tasks(store, settings, guards=self.limits, now=self.now)
        self.ids = Ids()
        self._offset = timedelta(0)  # the store's clock less ours
        self._measured = (datetime.min.replace(tzinfo=UTC), 0.0)  # when, by our clock and by the one that nobody sets

    async def now(self) -> datetime:
        """This moment by the store's clock, which is asked again only every so often: a create costs one round trip.

        As often it is looked which rules of time zones and which holidays count: whoever asks is about to plan.
        """
        here, passed = self.clock.now(), self.clock.monotonic()
        was_here, was_passed = self._measured
        since = passed - was_passed  # in seconds, as what is compared here: every create asks
        # Our own clock may have been set since: then what was measured against it says nothing.
        if since >= OFFSET_GOOD_FOR or abs((here - was_here).total_seconds() - since) > OFFSET_DRIFT:
            self._offset, self._measured = await self.store.now() - here, (here, passed)
            await adopt_newer_rules(self.store.maintenance)
            refresh_calendars()
        return here + self._offset

    async def test_target(self, name: str, *, via: str) -> Tested:
        """Send one test wake through a target of this process. No alarm is set and nothing is kept."""
        target = target_named(name, self._here)
        return await send_test(target, wake_for_test(self.settings, name, now=await self.now(), via=via))

    # Keep house

    async def has_tokens(self) -> bool:
        """Return whether there is a valid token."""
        now = await self.store.now()
        return any(token.is_live(now) for token in await self.store.access.tokens())

    async def count_old(self, older_than: timedelta, *, owner: str = "") -> dict[str, int]:
        """How many rows of each kind `purge` would delete."""
        return await self.store.maintenance.count_old(await self.store.now() - older_than, owner=owner)

    async def purge(self, older_than: timedelta, *, owner: str = "") -> int:
        """Delete what was finished longer ago than this, of one owner or of all; how many rows went."""
        before = await self.store.now() - older_than
        count = 0
        while gone := await self.store.maintenance.purge(before, owner=owner):
            count += gone
        return count


# Who asks, and of what: the first parameter of every verb.


class Session(Protocol):
    """`service`: what the verbs read and write; inside a caller's own transaction it writes there.

    `outside`: the same without that transaction, for what is looked up besides.
    """

    @property
    def service(self) -> Service: ...

    @property
    def outside(self) -> Service: ...

    @property
    def caller(self) -> Caller: ...


def in_transaction(session: Session) -> bool:
    return session.outside is not session.service


class UnreadInboxes:
    """Since when a wake waits in an inbox. Read once in a second: a batch of alarms asks once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, datetime | None]] = {}

    async def since(self, owner: str, target: str, *, before: datetime) -> datetime | None:
        """When a wake was due that waits there and was due before a moment; None: there is none."""
        now = self._clock.monotonic()
        read, since = self._known.get((owner, target), (now - 2 * UNREAD_GOOD_FOR, None))
        if now - read < UNREAD_GOOD_FOR:
            return since
        query = FireQuery(
            owner=owner, target=target, statuses=("waiting",), until=before, limit=1, look_at=WAITING_READ
        )
        found = await self._store.fires(query)
        since = found[0].scheduled_for if found else None
        if len(self._known) >= INBOXES_KNOWN:
            self._known.clear()
        self._known[owner, target] = now, since
        return since


# Waits for new wakes in an inbox without polling the database all the time.

FIRST_LOOK: Final = 0.02  # a ring comes a moment before the row is written
LONGEST_PAUSE: Final = 1.0  # other processes cannot ring: their deliveries are seen when looked for


class InboxSignal:
    """Rung for one owner at a time. Lost rings cost at most a pause."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.stopped = False

    def ring(self, owner: str) -> None:
        for event in self._waiting.get(owner, ()):
            event.set()

    def stop(self) -> None:
        """Nobody waits any more: this process is about to end."""
        self.stopped = True
        for owner in list(self._waiting):
            self.ring(owner)

    async def heard(self, owner: str, within: float) -> bool:
        """Wait for a ring; False when none came in time."""
        event = asyncio.Event()
        self._waiting[owner].add(event)
        try:
            async with asyncio.timeout(within):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting[owner].discard(event)
            if not self._waiting[owner]:
                del self._waiting[owner]
        return True

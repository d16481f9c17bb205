"""Limits that keep one owner's agent from harming others, or itself: each refusal says what would be accepted.

They apply to requests with a token, not to the machine's owner. Each process counts on its own:
several processes each allow their own number of creates a minute, and count active alarms again each minute.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidRequest, InvalidSchedule, NotFound, TooMany, WakefulError
from wakeful.model.alarm import Alarm, Policy, parse_fire_id
from wakeful.model.requests import Origin, PolicyRequest
from wakeful.rules.plan import timetable
from wakeful.schedule import is_interval, is_rule
from wakeful.service.caller import Caller
from wakeful.settings import Settings
from wakeful.store import Store

MINUTE: Final = timedelta(minutes=1)
REFUSED_BY: Final = timedelta(seconds=1)  # how old a count may be by which somebody is refused
OWNERS: Final = 4096  # remembered at once
BACKOFFS: Final = ("backoff_base", "backoff_cap")
SHORTEST_BACKOFF: Final = 1.0  # seconds
COUNTED_AT_ONCE: Final = 10_000  # alarms of an owner that one read goes through
AHEAD: Final = 200  # years: what fires once in decades is not looked at for longer
GAPS: Final = 4096  # rhythms whose shortest gap is remembered
_gaps: Final[dict[tuple[Hashable, ...], timedelta]] = {}
FIRES: Final = 64  # looked at for the shortest gap; a cron expression repeats its pattern of gaps well within these


def check(alarm: Alarm, settings: Settings, *, now: datetime) -> None:
    """Check one alarm: how often it fires and, if a wake set it, how soon, and the length of the chain."""
    if alarm.kind == "cron":
        _check_interval(alarm, settings.min_interval, now)
    check_backoff(alarm.policy)
    if not alarm.parent_fire:
        return
    if alarm.generation > settings.chain_depth:
        raise Conflict(
            f"this would be alarm {alarm.generation} of a chain in which each wake sets the next, "
            f"and at most {settings.chain_depth} are allowed",
            field="parent_fire",
            fix=f"Use a recurring alarm (cron_expr), or ask a person to continue; the chain's root is {alarm.root_id}.",
        )
    if alarm.kind == "cron":
        _check_interval(alarm, settings.chain_delay, now)
    elif alarm.next_fire_at < now + settings.chain_delay:
        raise InvalidSchedule(
            f"an alarm set by a wake may fire in {_words(settings.chain_delay)} at the earliest",
            field="when",
            fix=f"Give {_words(settings.chain_delay)} or more.",
        )


def check_edit(before: Alarm, after: Alarm, settings: Settings, *, now: datetime) -> None:
    """The same for an alarm whose times were changed; one that was there before the limits is left alone."""
    if any(getattr(before, name) != getattr(after, name) for name in ("kind", "fire_at", "cron_expr", "timezone")):
        check(after, settings, now=now)
    elif before.policy != after.policy:
        check_backoff(after.policy)


def check_backoff(policy: Policy, names: Iterable[str] = BACKOFFS) -> None:
    """Refuse backoffs so short that a failing delivery would be retried without a pause."""
    for name in names:
        if getattr(policy, name) < SHORTEST_BACKOFF:
            raise InvalidRequest(
                f"two attempts must be at least {SHORTEST_BACKOFF:g} s apart",
                field=f"policy.{name}",
                fix=f"Give {SHORTEST_BACKOFF:g} s or more.",
            )


def check_said_backoff(caller: Caller, said: PolicyRequest | Policy | None, meant: Policy) -> None:
    """The same for what a request from the network says of them, even if no token is needed."""
    if caller.remote and said is not None:
        check_backoff(meant, [name for name in BACKOFFS if getattr(said, name) not in (None, UNSET)])


def _check_interval(alarm: Alarm, least: timedelta, now: datetime) -> None:
    steady = is_interval(alarm.cron_expr)
    if least <= MINUTE and not steady and not is_rule(alarm.cron_expr) and len(alarm.cron_expr.split()) < 6:
        return  # without a field for seconds it cannot fire more often than each minute
    if _shortest_gap(alarm, now) < least:
        raise InvalidSchedule(
            f"{alarm.cron_expr!r} fires more often than every {_words(least)}",
            field="cron_expr",
            fix=f"Leave at least {_words(least)} between two fires.",
        )


def _shortest_gap(alarm: Alarm, now: datetime) -> timedelta:
    """Return the shortest time between two fires, among the next FIRES of them. Alarms alike share the answer."""
    policy = alarm.policy
    key = (
        *(alarm.cron_expr, alarm.timezone, policy.anchor, policy.starts_at),
        *(policy.calendar, policy.on_holiday, policy.working_days, now.date()),
    )
    if (known := _gaps.get(key)) is None:
        if len(_gaps) >= GAPS:
            _gaps.clear()
        known = _gaps[key] = min(
            (later - earlier for earlier, later in pairwise(islice(_fires(alarm, now), FIRES))), default=timedelta.max
        )
    return known


def _fires(alarm: Alarm, now: datetime) -> Iterator[datetime]:
    schedule, moment = timetable(alarm), max(now, alarm.policy.starts_at or now)
    last = moment.year + AHEAD
    while (found := schedule.after(moment)) is not None and found.year <= last:
        yield found
        moment = found


def _words(length: timedelta) -> str:
    return f"{length.total_seconds():g} s"


async def chained(store: Store, origin: Origin, parent_fire: str) -> Origin:
    """Where an alarm comes from that the reader of a wake sets: its chain. NotFound where the fire is not theirs."""
    unknown = NotFound(f"there is no fire {parent_fire!r}", field="parent_fire", fix="Give fire_id of your wake.")
    try:
        id, occurrence = parse_fire_id(parent_fire)
    except NotFound:
        raise unknown from None
    parent = await store.get(id, owner=origin.owner_did)
    if parent is None:
        raise unknown
    # A fire is on record only once its attempt ended, and the reader may act before that.
    in_flight = parent.claimed_at is not None and parent.occurrence_at == occurrence
    if not in_flight and not await store.fires_at([(id, occurrence)]):
        raise unknown
    return replace(origin, root_id=parent.root_id or parent.id, generation=parent.generation + 1)


class _Count(Struct):
    at: datetime
    alarms: int
    bytes: int


class _Counting(Struct):
    """A count under way. `begun`: a part of it is known, and there is more."""

    count: _Count
    begun: asyncio.Future[None]
    whole: asyncio.Future[_Count]


class Limits:
    """What is counted per owner: creates within a minute, alarms that are active or paused, and what all of them hold.

    What is there is looked up once a minute, and nobody is refused for what was counted more than a second ago. Whoever
    comes meanwhile waits for the same answer. Of an owner who has very many alarms the newest are counted first, and
    nobody waits for the rest: until it is counted too, one who is over the limit may be let in.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._creates: dict[str, deque[datetime]] = {}
        self._counts: dict[str, _Count] = {}
        self._asking: dict[str, _Counting] = {}

    async def admit(self, alarms: Sequence[Alarm], *, now: datetime) -> None:
        """Admit new alarms of one owner, all or none, and count them."""
        owner, sizes = alarms[0].owner_did, sum(map(size, alarms))
        await self.reserve(owner, len(alarms), sizes, now=now)
        try:
            for alarm in alarms:
                check(alarm, self._settings, now=now)
        except WakefulError:
            self.release(owner, len(alarms), sizes)
            raise

    async def reserve(self, owner: str, number: int, bytes: int, *, now: datetime) -> None:
        """Count alarms that an owner asks for, or raise TooMany: before anything is read or worked out for them."""
        self._check_rate(owner, number, now)
        try:
            await self._check_quota(owner, number, bytes, now)
        except TooMany:
            self._uncount(owner, number)
            raise

    def release(self, owner: str, number: int, bytes: int) -> None:
        """Take back what was counted for alarms that were refused after all."""
        self._uncount(owner, number)
        if (count := self._counts.get(owner)) is not None:
            count.alarms -= number
            count.bytes -= bytes

    def _uncount(self, owner: str, number: int) -> None:
        times = self._creates.get(owner, deque())
        for _ in range(min(number, len(times))):
            times.pop()

    async def admit_words(self, alarm: Alarm, *said: str, now: datetime) -> None:
        """Admit a longer message or payload for an alarm."""
        if (gained := sum(len(text.encode()) for text in said) - size(alarm)) > 0:
            await self._check_quota(alarm.owner_did, 0, gained, now)

    async def admit_again(self, owner: str, *, now: datetime) -> None:
        """Admit a cancelled alarm that is brought back: it counts as one more, and its texts are counted already."""
        self._check_rate(owner, 1, now)
        await self._check_quota(owner, 1, 0, now)

    def admit_retry(self, owner: str, *, now: datetime) -> None:
        """Admit a retry: it is one more delivery, so it is counted together with new alarms."""
        self._check_rate(owner, 1, now)

    def _check_rate(self, owner: str, number: int, now: datetime) -> None:
        limit = self._settings.creates_per_minute
        if owner not in self._creates and len(self._creates) >= OWNERS:
            self._creates = {name: times for name, times in self._creates.items() if times and now - times[-1] < MINUTE}
        times = self._creates.setdefault(owner, deque())
        while times and abs(now - times[0]) >= MINUTE:  # a little ahead: who asked first is not always counted first
            times.popleft()
        over = len(times) + number - limit
        if over > 0:
            wait = None if number > limit else (times[over - 1] + MINUTE - now).total_seconds()
            raise TooMany(
                f"{limit} alarms a minute may be set; {number} more would make {limit + over}",
                field="creates_per_minute",
                fix=f"Wait {wait:.0f} s." if wait is not None else f"Set at most {limit} at once.",
                retry_after=wait,
            )
        times.extend([now] * number)

    async def _check_quota(self, owner: str, number: int, more: int, now: datetime) -> None:
        count = self._counts.get(owner)
        if count is None or not timedelta(0) <= now - count.at < self._good_for(count, number, more):
            is_over = count is not None and self._refusal(count, number, more) is not None
            count = await self._counted(owner, now, in_full=is_over)
        if refusal := self._refusal(count, number, more):
            raise refusal
        count.alarms += number
        count.bytes += more

    def _good_for(self, count: _Count, number: int, more: int) -> timedelta:
        return MINUTE if self._refusal(count, number, more) is None else REFUSED_BY

    def ended(self, owner: str) -> None:
        """Count again at the next request, since an alarm of this owner has ended."""
        self._counts.pop(owner, None)

    def _refusal(self, count: _Count, number: int, more: int) -> TooMany | None:
        most, most_bytes = self._settings.quota_active, self._settings.quota_bytes
        if count.alarms + number > most:
            return TooMany(
                f"there are {count.alarms} active and paused alarms, and at most {most} are allowed",
                field="quota_active",
                fix="Cancel some, or use one recurring alarm instead of many single ones.",
            )
        if more and count.bytes + more > most_bytes:
            return TooMany(
                f"your alarms hold {count.bytes} bytes of messages and payloads, "
                f"{more} more were asked for, and at most {most_bytes} are allowed",
                field="quota_bytes",
                fix="Keep long texts elsewhere and let alarms refer to them. Finished alarms count until they are "
                "deleted (the setting retention); the operator can raise quota_bytes.",
            )
        return None

    async def _counted(self, owner: str, now: datetime, *, in_full: bool) -> _Count:
        """What there is now: asked once, however many wait for it."""
        counting = self._asking.get(owner)
        if counting is None:
            counting = self._asking[owner] = self._begin(owner, now)
        if not in_full:
            await asyncio.wait((counting.begun, counting.whole), return_when=asyncio.FIRST_COMPLETED)
            if not counting.whole.done():  # what was counted before holds until this is
                return self._counts.get(owner, counting.count)
        return await asyncio.shield(counting.whole)  # one who goes away does not take the answer from the others

    def _begin(self, owner: str, now: datetime) -> _Counting:
        count, begun = _Count(now, 0, 0), asyncio.get_running_loop().create_future()
        whole = asyncio.ensure_future(self._count(owner, count, begun))

        def ended(_: asyncio.Future[_Count]) -> None:
            self._asking.pop(owner, None)
            if not whole.cancelled():
                whole.exception()  # whoever waits for it is told; perhaps nobody does

        whole.add_done_callback(ended)
        return _Counting(count, begun, whole)

    async def _count(self, owner: str, count: _Count, begun: asyncio.Future[None]) -> _Count:
        cursor = None
        while True:
            usage = await self._store.usage(owner, cursor=cursor, look_at=COUNTED_AT_ONCE)
            count.alarms += usage.alarms
            count.bytes += usage.bytes
            if (cursor := usage.further) is None:
                break
            if not begun.done():
                begun.set_result(None)
                self._keep(owner, self._counts.get(owner, count))
        self._keep(owner, count)
        return count

    def _keep(self, owner: str, count: _Count) -> None:
        if len(self._counts) >= OWNERS:
            self._counts.clear()
        self._counts[owner] = count


def size(alarm: Alarm) -> int:
    """Return the bytes of an alarm's message and payload."""
    return len(alarm.wake_message.encode()) + len(alarm.payload_json.encode())


# Limits connections that stay open, and requests that wait


SEAT_AGAIN: Final = 5.0  # seconds after which a seat may have become free


class ConnectionLimit:
    """Counts WebSockets, event streams and waits at an inbox, in total and per owner."""

    def __init__(self, per_owner: int, total: int) -> None:
        self._most = per_owner
        self._total = total
        self._taken: Counter[str | None] = Counter()

    @contextlib.contextmanager
    def seat(self, owner: str | None) -> Iterator[None]:
        """Reserve a place while the context is open; TooMany if none is left. None: an owner without limit."""
        if owner is not None and self._taken[owner] >= self._most:
            raise TooMany(
                f"{self._most} WebSockets, event streams and waits at the inbox are open, and that is the limit",
                field="live_per_owner",
                fix="Close one. One socket that subscribes to everything is enough.",
            )
        if self._taken.total() >= self._total:
            raise TooMany(
                f"{self._total} WebSockets, event streams and waits at inboxes are open here, and that is the limit",
                field="live_total",
                fix="Try again later, or ask the operator to raise live_total or start another server.",
                retry_after=SEAT_AGAIN,
            )
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]

"""The verbs every door offers. Each reads, lets a pure function decide, and writes once.

`owner` scopes every verb: somebody else's alarm is not found. An empty owner is the operator, who sees all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from msgspec.structs import replace

from wakeful.alarm import (
    Alarm,
    Draft,
    Fire,
    Users,
    create,
    default_policy,
    differences,
    fetch,
    fire_now,
    parse_fire_id,
)
from wakeful.clock import Clock, stopwatch
from wakeful.config import Settings
from wakeful.errors import Conflict, InvalidRequest
from wakeful.ids import Ids
from wakeful.metrics import Metrics
from wakeful.service.acting import Acting, Changed
from wakeful.service.bell import FIRST_LOOK, LONGEST_PAUSE, Bell
from wakeful.service.guards import Guards, chained
from wakeful.service.history import Entry, Past
from wakeful.service.places import Places
from wakeful.service.seats import Seats
from wakeful.service.taken import Taken, may_have_missed, missed
from wakeful.service.tasks import Tasks
from wakeful.service.why import LATELY, Why, explain, is_put_back
from wakeful.store import Added, AlarmQuery, FireQuery, Found, Stats, Store, TargetState, Worker

__all__ = ["Changed", "Entry", "Kept", "OnConflict", "Past", "Service", "Taken", "Why"]

OnConflict = Literal["return", "replace", "error"]
SIMILAR_AMONG: Final = 100  # latest alarms of an owner that are looked at: every create pays for it
HANDED_OUT: Final = 4_000_000  # characters of wakes taken from an inbox at once, but always one wake
EVIDENCE: Final = 1_000_000  # characters of fires, and of events, that are read for one explanation
OFFSET_GOOD_FOR: Final = timedelta(seconds=30)
OFFSET_DRIFT: Final = timedelta(milliseconds=100)  # by which two clocks that nobody sets may differ in that time


class Kept(Added, frozen=True):
    """An alarm that was set. `in_flight`: it replaced one that a worker, or a reader of the inbox, has just now."""

    in_flight: bool = False


class Service(Acting):
    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        settings: Settings,
        targets: Callable[[], Collection[str]] = lambda: (),
        users: Callable[[str], Users] = lambda _: Users(),
        metrics: Metrics | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._metrics = metrics or Metrics()
        self._places = Places(store, targets, users, settings)
        self._guards = Guards(store, settings)
        self.default_policy = default_policy(settings)  # of an alarm whose caller does not say
        self.seats = Seats(settings.live_per_owner, settings.live_total)
        self.bell = Bell()  # rung when a wake goes to an owner's inbox
        self.tasks = Tasks(store, settings, guards=self._guards, now=self.now)
        self._ids = Ids()
        self._offset = timedelta(0)  # the store's clock less ours
        self._measured = (datetime.min.replace(tzinfo=UTC), 0.0)  # when, by our clock and by the one that nobody sets

    @property
    def clock(self) -> Clock:
        return self._clock

    # Set

    async def set(
        self,
        draft: Draft,
        *,
        on_conflict: OnConflict | None = None,
        connection: Any = None,
        guarded: bool = False,
        by: str = "",
    ) -> Kept:
        """Keep a new alarm. Once this returns, it survives anything the disk survives. `guarded`: see guards.py.

        Where its key is taken: the same request again is answered with the alarm there is, another is a Conflict. With
        `on_conflict`, whatever is asked for: "return" the alarm that has the key, "replace" it, or an "error".
        """
        if on_conflict not in (None, "return", "replace", "error"):
            raise InvalidRequest(
                f"{on_conflict!r} is not accepted", field="on_conflict", fix="Give return, replace or error."
            )
        if connection is not None and on_conflict == "replace":
            raise InvalidRequest(
                "replacing reads and writes outside your transaction", field="on_conflict", fix="Give return or error."
            )
        alarm = await self._drawn(draft)
        if guarded:
            await self._guards.admit([alarm], now=alarm.created_at)
        [added] = await self._store.add([alarm], connection=connection)
        self._metrics.created(alarm.created_via, not added.deduped)
        if not added.deduped:
            return Kept(added.alarm)
        if on_conflict == "replace":
            replaced = await self._replace(added.alarm.id, alarm, by=by or draft.created_by)
            return Kept(replaced.alarm, deduped=True, in_flight=replaced.in_flight)
        _check_key(draft, alarm, added.alarm, on_conflict)
        return Kept(added.alarm, deduped=True)

    async def set_many(self, drafts: Sequence[Draft], *, guarded: bool = False) -> list[Added]:
        """Keep many alarms: one bad draft and none is kept. A key that is taken answers with the alarm that has it."""
        alarms = [await self._drawn(draft) for draft in drafts]
        if guarded:
            await self._guards.admit(alarms, now=await self.now())
        answers = await self._store.add(alarms)
        for alarm, added in zip(alarms, answers, strict=True):
            self._metrics.created(alarm.created_via, not added.deduped)
        return answers

    async def similar(self, alarm: Alarm) -> Alarm | None:
        """Another active alarm of the same owner that says the same at the same times to the same target."""
        return await self._store.similar(alarm, among=SIMILAR_AMONG)

    async def _drawn(self, draft: Draft) -> Alarm:
        if draft.parent_fire:
            draft = await chained(self._store, draft)
        now = await self.now()
        alarm = create(draft, id=self._ids.new(now), now=now)
        await self._places.admit(alarm)
        return alarm

    async def now(self) -> datetime:
        """This moment by the store's clock, which is asked again only every so often: a create costs one round trip."""
        here, passed = self._clock.now(), self._clock.monotonic()
        was_here, was_passed = self._measured
        since = timedelta(seconds=passed - was_passed)
        # Our own clock may have been set since: then what was measured against it says nothing.
        if since >= OFFSET_GOOD_FOR or abs(here - was_here - since) > OFFSET_DRIFT:
            self._offset, self._measured = await self._store.now() - here, (here, passed)
        return here + self._offset

    # Look

    async def find(self, query: AlarmQuery) -> Found[Alarm]:
        """A page. Where it has a `most`, a search may end before all was looked at: `further` says where to go on."""
        found = await self._store.find(query)
        while not query.most and found.further is not None and len(found) < query.limit:
            rest = replace(query, cursor=found.further, limit=query.limit - len(found))
            more = await self._store.find(rest)
            found = Found([*found, *more], more.further)
        return found

    async def fires(self, query: FireQuery) -> Found[Fire]:
        return await self._store.fires(query)

    async def history(
        self,
        *,
        owner: str,
        status: str = "",
        target: str = "",
        since: datetime | None = None,
        limit: int = 50,
        most: int = 0,
    ) -> Found[Entry]:
        """What happened and what is to come, newest first. `most`: see history.py."""
        past = Past(self._store, most=most)
        return await past.entries(owner=owner, status=status, target=target, since=since, limit=limit)

    async def failed(self, *, owner: str, limit: int = 20, most: int = 0) -> Found[Entry]:
        """The latest fires that failed or fell silent."""
        return await Past(self._store, most=most).failed(owner=owner, limit=limit)

    async def stats(self, *, owner: str) -> Stats:
        return await self._store.stats(owner)

    async def agenda(
        self, *, owner: str, hours: float = 24, limit: int = 100, most: int = 0
    ) -> Found[tuple[datetime, Alarm]]:
        """The next fires of all alarms, merged, soonest first."""
        return await Past(self._store, most=most).agenda(owner=owner, hours=hours, limit=limit)

    async def why(self, id: str, *, owner: str, operator: bool = False) -> Why:
        """Why an alarm (or one of its fires) fired late, did not fire, or when it will: words and facts.

        `operator`: also what the target said to others' wakes, and on which machines workers run.
        """
        alarm_id = parse_fire_id(id)[0] if "@" in id else id
        alarm = await self.get(alarm_id, owner=owner)
        fires = (
            [await self.fire_of(id, owner=owner)]
            if "@" in id
            else await self._store.fires(FireQuery(alarm_id=alarm_id, limit=10, most=EVIDENCE))
        )
        now = await self._store.now()
        lately: Sequence[Fire] = ()
        if is_put_back(alarm, now):
            since = now - LATELY
            query = FireQuery(owner=alarm.owner_did, target=alarm.target, since=since, limit=100)
            lately = await self._store.fires(query)
        return explain(
            alarm,
            fires,
            events=[event for _, event in await self._store.events(alarm_id=alarm_id, limit=100, most=EVIDENCE)],
            workers=await self._store.workers(),
            state=(await self._store.target_states()).get(alarm.target),
            lease=self._settings.lease,
            now=now,
            operator=operator,
            lately=lately,
        )

    # Act: see acting.py for what is done to an alarm itself

    async def fire(self, id: str, *, owner: str, by: str = "", via: str = "", guarded: bool = False) -> Alarm:
        """A one-shot copy, due now; the alarm itself is left alone."""
        alarm = await self.get(id, owner=owner)
        now = await self.now()
        copy = fire_now(alarm, id=self._ids.new(now), now=now, by=by, via=via)
        copy = replace(copy, generation=alarm.generation)  # firing starts no new chain
        await self._places.admit(copy)
        if guarded:
            await self._guards.admit([copy], now=now)
        [added] = await self._store.add([copy])
        self._metrics.created(via)
        return added.alarm

    async def inbox(self, *, owner: str, limit: int = 10, wait: float = 0, guarded: bool = False) -> list[Taken]:
        """Hand out what waits in an owner's inbox, each leased until its report is due.

        What is long comes in several calls: what does not fit goes on waiting. With nothing there, `wait` so many
        seconds for it, on a seat; a process that is about to end waits no longer.
        """
        if wait <= 0:
            return await self._handed_out(owner, limit)
        with self.seats.seat(owner if guarded else None):
            return await self._waited(owner, limit, wait)

    async def _waited(self, owner: str, limit: int, wait: float) -> list[Taken]:
        ending, pause = stopwatch() + wait, FIRST_LOOK
        while not (found := await self._handed_out(owner, limit)):
            left = ending - stopwatch()
            if left <= 0 or self.bell.stopped:
                break
            rung = await self.bell.heard(owner, min(left, pause))
            pause = FIRST_LOOK if rung else min(2 * pause, LONGEST_PAUSE)
        return found

    async def _handed_out(self, owner: str, limit: int) -> list[Taken]:
        waiting = await self._store.waiting(owner, limit=limit, most=HANDED_OUT)
        changes = [fetch(alarm, fire, now=await self._store.now()) for alarm, fire in waiting]
        answers = await self._store.settle(changes) if changes else []
        handed = [at for at, answer in enumerate(answers) if answer.what == "applied"]
        for at in handed:
            self._metrics.fires(waiting[at][1], changes[at].fires)
        return [await self._taken(changes[at].after, changes[at].fires[0]) for at in handed]

    async def _taken(self, alarm: Alarm, fire: Fire) -> Taken:
        if not may_have_missed(alarm, fire, alarm.updated_at):
            return Taken(alarm, fire)
        since = fire.scheduled_for + timedelta(milliseconds=1)
        skipped = await self._all_fires(FireQuery(alarm_id=alarm.id, statuses=("skipped",), since=since))
        return Taken(alarm, fire, missed=missed(skipped))

    # Targets

    async def target_states(self) -> dict[str, TargetState]:
        return await self._store.target_states()

    async def targets(self) -> dict[str, list[Worker]]:
        """Every target there is, with the workers that serve it and are alive."""
        return await self._places.served()

    async def pause_target(self, name: str, *, by: str = "", reason: str = "") -> TargetState:
        return await self._places.mark(name, paused=True, by=by, reason=reason)

    async def resume_target(self, name: str, *, by: str = "") -> TargetState:
        return await self._places.mark(name, paused=False, by=by, reason="")

    # Keep house

    async def has_tokens(self) -> bool:
        """Whether there is a token that is good now."""
        now = await self._store.now()
        return any(token.is_live(now) for token in await self._store.tokens())

    async def purge(self, older_than: timedelta) -> int:
        """Delete what was finished longer ago than this; how many rows went."""
        before = await self._store.now() - older_than
        count = 0
        while gone := await self._store.purge(before):
            count += gone
        return count


def _check_key(draft: Draft, alarm: Alarm, known: Alarm, on_conflict: OnConflict | None) -> None:
    """Refuse a key that is taken, unless the caller takes whatever has it or asks for the very same once more."""
    if on_conflict == "return":
        return
    differ = differences(draft, alarm, known)
    if on_conflict is None and not differ:
        return
    what = f", and is different in {', '.join(differ)}" if differ else ""
    raise Conflict(
        f"alarm {known.id} already has the key {alarm.idempotency_key!r}{what}",
        field="idempotency_key",
        fix='Use another key; or give on_conflict: "replace" to change that alarm, "return" to leave it as it is.',
    )

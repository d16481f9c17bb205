"""The verbs every door offers. Each reads, lets a pure function decide, and writes once.

`owner` scopes every verb: somebody else's alarm is not found. An empty owner is the operator, who sees all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from wakeful.alarm import (
    INBOX,
    Alarm,
    Change,
    Draft,
    Edit,
    Fire,
    Report,
    cancel,
    create,
    fetch,
    fire_now,
    parse_fire_id,
    pause,
    replace_with,
    report,
    resume,
    retry,
    snooze,
    update,
)
from wakeful.clock import Clock, stopwatch
from wakeful.config import Settings
from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.ids import Ids
from wakeful.metrics import Metrics
from wakeful.service.bell import FIRST_LOOK, LONGEST_PAUSE, Bell
from wakeful.service.guards import Guards, chained, check_edit
from wakeful.service.history import Entry, Past
from wakeful.service.places import Places
from wakeful.service.tasks import Tasks
from wakeful.service.why import Why, explain
from wakeful.store import Added, AlarmQuery, FireQuery, Stats, Store, TargetState, Worker

__all__ = ["Cancelled", "Entry", "OnConflict", "Past", "Service", "Why"]

OnConflict = Literal["return", "replace", "error"]
TRIES: Final = 10  # rounds of read, decide, write before an alarm counts as fought over
PAGE: Final = 500
PENDING: Final = ("active", "paused")
SIMILAR_AMONG: Final = 100  # latest alarms of an owner that are looked at: every create pays for it
OFFSET_GOOD_FOR: Final = timedelta(seconds=30)


class Cancelled(Struct, frozen=True):
    """A cancelled alarm. `in_flight`: a worker has it just now, so at most that one attempt still happens."""

    alarm: Alarm
    in_flight: bool


class Service:
    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        settings: Settings,
        targets: Callable[[], Collection[str]] = lambda: (),
        metrics: Metrics | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._metrics = metrics or Metrics()
        self._places = Places(store, targets)
        self._guards = Guards(store, settings)
        self.bell = Bell()  # rung when a wake goes to an owner's inbox
        self.tasks = Tasks(store, settings, guards=self._guards, now=self.now)
        self._ids = Ids()
        self._offset = timedelta(0)  # the store's clock less ours
        self._measured: datetime | None = None

    @property
    def clock(self) -> Clock:
        return self._clock

    # Set

    async def set(
        self, draft: Draft, *, on_conflict: OnConflict = "return", connection: Any = None, guarded: bool = False
    ) -> Added:
        """Keep a new alarm. Once this returns, it survives anything the disk survives. `guarded`: see guards.py."""
        if on_conflict not in ("return", "replace", "error"):
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
        if not added.deduped or on_conflict == "return":
            return added
        if on_conflict == "error":
            raise Conflict(
                f"alarm {added.alarm.id} already has the key {draft.idempotency_key!r}",
                field="idempotency_key",
                fix='Use on_conflict "return" or "replace", or another key.',
            )
        replaced = await self._change(
            added.alarm.id,
            draft.owner_did,
            lambda old, fire, now: replace_with(old, fire, alarm, now=now, by=draft.created_by),
        )
        return Added(replaced, deduped=True)

    async def set_many(self, drafts: Sequence[Draft], *, guarded: bool = False) -> list[Added]:
        """Keep many alarms: one bad draft and none is kept."""
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
        if draft.target != INBOX:
            await self.check_target(draft.target)
        return alarm

    async def now(self) -> datetime:
        """This moment by the store's clock, which is asked again only every so often: a create costs one round trip."""
        here = self._clock.now()
        if self._measured is None or not timedelta(0) <= here - self._measured < OFFSET_GOOD_FOR:
            self._offset, self._measured = await self._store.now() - here, here
        return here + self._offset

    # Look

    async def get(self, id: str, *, owner: str) -> Alarm:
        alarm = await self._store.get(id, owner=owner)
        if alarm is None:
            raise NotFound(f"there is no alarm {id!r}", field="id")
        return alarm

    async def find(self, query: AlarmQuery) -> list[Alarm]:
        return await self._store.find(query)

    async def fires(self, query: FireQuery) -> list[Fire]:
        return await self._store.fires(query)

    async def fire_of(self, fire_id: str, *, owner: str) -> Fire:
        alarm_id, occurrence = parse_fire_id(fire_id)
        fire = (await self._store.fires_at([(alarm_id, occurrence)])).get((alarm_id, occurrence))
        if fire is None or (owner and fire.owner_did != owner):
            raise NotFound(f"there is no fire {fire_id!r}", field="fire_id")
        return fire

    async def history(
        self, *, owner: str, status: str = "", target: str = "", since: datetime | None = None, limit: int = 50
    ) -> list[Entry]:
        """What happened and what is to come, newest first."""
        return await Past(self._store).entries(owner=owner, status=status, target=target, since=since, limit=limit)

    async def failed(self, *, owner: str, limit: int = 20) -> list[Entry]:
        """The latest fires that failed or fell silent."""
        return await Past(self._store).failed(owner=owner, limit=limit)

    async def stats(self, *, owner: str) -> Stats:
        return await self._store.stats(owner)

    async def agenda(self, *, owner: str, hours: float = 24, limit: int = 100) -> list[tuple[datetime, Alarm]]:
        """The next fires of all alarms, merged, soonest first."""
        now = await self._store.now()
        until = now + timedelta(hours=hours)
        alarms = await self._store.agenda(owner=owner, until=until, limit=limit)
        return Past.merged(alarms, until=until, limit=limit)

    async def why(self, id: str, *, owner: str) -> Why:
        """Why an alarm (or one of its fires) fired late, did not fire, or when it will: words and facts."""
        alarm_id = parse_fire_id(id)[0] if "@" in id else id
        alarm = await self.get(alarm_id, owner=owner)
        fires = (
            [await self.fire_of(id, owner=owner)]
            if "@" in id
            else await self._store.fires(FireQuery(alarm_id=alarm_id, limit=10))
        )
        return explain(
            alarm,
            fires,
            events=[event for _, event in await self._store.events(alarm_id=alarm_id, limit=100)],
            workers=await self._store.workers(),
            state=(await self._store.target_states()).get(alarm.target),
            lease=self._settings.lease,
            now=await self._store.now(),
        )

    # Act

    async def update(
        self, id: str, edit: Edit, *, owner: str, version: int | None = None, by: str = "", guarded: bool = False
    ) -> Alarm:
        if edit.target is not None:
            await self.check_target(edit.target)

        def decide(alarm: Alarm, fire: Fire | None, now: datetime) -> Change | None:
            change = update(alarm, fire, edit, now=now, version=version, by=by)
            if guarded and change is not None:
                check_edit(alarm, change.after, self._settings, now=now)
            return change

        return await self._change(id, owner, decide)

    async def pause(self, id: str, *, owner: str, reason: str = "", by: str = "") -> Alarm:
        return await self._change(id, owner, lambda alarm, _, now: pause(alarm, now=now, by=by, reason=reason))

    async def resume(self, id: str, *, owner: str, by: str = "") -> Alarm:
        return await self._change(id, owner, lambda alarm, fire, now: resume(alarm, fire, now=now, by=by))

    async def snooze(
        self, id: str, wait: timedelta | None = None, *, until: datetime | None = None, owner: str, by: str = ""
    ) -> Alarm:
        """Put off the next fire, for a while or until a moment."""

        def decide(alarm: Alarm, fire: Fire | None, now: datetime) -> Change:
            length = until - now if until is not None else wait or timedelta(0)
            return snooze(alarm, fire, length, now=now, by=by)

        return await self._change(id, owner, decide)

    async def fire(self, id: str, *, owner: str, by: str = "", via: str = "", guarded: bool = False) -> Alarm:
        """A one-shot copy, due now; the alarm itself is left alone."""
        alarm = await self.get(id, owner=owner)
        now = await self.now()
        copy = fire_now(alarm, id=self._ids.new(now), now=now, by=by, via=via)
        copy = msgspec.structs.replace(copy, generation=alarm.generation)  # firing starts no new chain
        if guarded:
            await self._guards.admit([copy], now=now)
        [added] = await self._store.add([copy])
        self._metrics.created(via)
        return added.alarm

    async def cancel(self, id: str, *, owner: str, by: str = "", reason: str = "") -> Cancelled:
        in_flight = False

        def decide(alarm: Alarm, fire: Fire | None, now: datetime) -> Change | None:
            nonlocal in_flight
            change = cancel(alarm, fire, now=now, by=by, reason=reason)
            leased = alarm.claimed_at is not None and alarm.claimed_at + self._settings.lease > now
            in_flight = change is not None and leased
            return change

        return Cancelled(await self._change(id, owner, decide), in_flight)

    async def reset(self, *, owner: str, by: str = "") -> int:
        """Cancel every pending alarm of an owner; how many."""
        return await self._cancel_all(AlarmQuery(owner=owner, statuses=PENDING, limit=PAGE), by=by, reason="reset")

    async def cancel_chain(self, root_id: str, *, owner: str, by: str = "") -> int:
        """Cancel an alarm and every pending one that was set because of its wakes; how many."""
        chain = AlarmQuery(owner=owner, root_id=root_id, statuses=PENDING, limit=PAGE)
        root = await self._store.get(root_id, owner=owner)
        if root is None and not await self._store.find(msgspec.structs.replace(chain, statuses=(), limit=1)):
            raise NotFound(f"there is no chain {root_id!r}", field="root_id", fix="Give root_id of one of its alarms.")
        is_pending = root is not None and not root.finished
        if is_pending:  # first, so that it sets no more
            await self.cancel(root_id, owner=owner, by=by, reason="chain cancelled")
        return is_pending + await self._cancel_all(chain, by=by, reason="chain cancelled")

    async def _cancel_all(self, query: AlarmQuery, *, by: str, reason: str) -> int:
        count = 0
        while alarms := await self._store.find(query):
            for alarm in alarms:
                await self.cancel(alarm.id, owner=query.owner, by=by, reason=reason)
            count += len(alarms)
        return count

    async def report(self, fire_id: str, said: Report, *, owner: str) -> Fire:
        """Take a target's word on a fire."""
        alarm_id, occurrence = parse_fire_id(fire_id)
        await self._change(
            alarm_id,
            owner,
            lambda alarm, fire, now: report(alarm, fire, occurrence, said, now=now),
            occurrence=occurrence,
        )
        return await self.fire_of(fire_id, owner=owner)

    async def retry(self, fire_id: str, *, owner: str, by: str = "") -> Fire:
        """Open a failed or timed-out fire again."""
        alarm_id, occurrence = parse_fire_id(fire_id)

        def decide(alarm: Alarm, fire: Fire | None, now: datetime) -> Change:
            if fire is None:
                raise NotFound(f"there is no fire {fire_id!r}", field="fire_id")
            return retry(alarm, fire, now=now, by=by)

        await self._change(alarm_id, owner, decide, occurrence=occurrence)
        return await self.fire_of(fire_id, owner=owner)

    async def inbox(self, *, owner: str, limit: int = 10, wait: float = 0) -> list[tuple[Alarm, Fire]]:
        """Hand out what waits in an owner's inbox, each leased until its report is due.

        With nothing there, `wait` so many seconds for it; a process that is about to end waits no longer.
        """
        ending, pause = stopwatch() + wait, FIRST_LOOK
        while not (found := await self._handed_out(owner, limit)):
            left = ending - stopwatch()
            if left <= 0 or self.bell.stopped:
                break
            rung = await self.bell.heard(owner, min(left, pause))
            pause = FIRST_LOOK if rung else min(2 * pause, LONGEST_PAUSE)
        return found

    async def _handed_out(self, owner: str, limit: int) -> list[tuple[Alarm, Fire]]:
        waiting = await self._store.waiting(owner, limit=limit)
        changes = [fetch(alarm, fire, now=await self._store.now()) for alarm, fire in waiting]
        answers = await self._store.settle(changes) if changes else []
        handed = [at for at, answer in enumerate(answers) if answer.what == "applied"]
        for at in handed:
            self._metrics.fires(waiting[at][1], changes[at].fires)
        return [(changes[at].after, changes[at].fires[0]) for at in handed]

    # Targets

    async def check_target(self, name: str) -> None:
        await self._places.check(name)

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

    # Read, decide, write

    async def _change(
        self,
        id: str,
        owner: str,
        decide: Callable[[Alarm, Fire | None, datetime], Change | None],
        *,
        occurrence: datetime | None = None,
    ) -> Alarm:
        """Read an alarm, decide, write; again when someone else was faster. None from `decide` changes nothing."""
        for _ in range(TRIES):
            alarm = await self.get(id, owner=owner)
            key = (alarm.id, occurrence or alarm.occurrence_at)
            fire = (await self._store.fires_at([key])).get(key)
            change = decide(alarm, fire, await self._store.now())
            if change is None:
                return alarm
            [answer] = await self._store.settle([change])
            if answer.what == "applied":
                self._metrics.fires(fire, change.fires)
                return change.after
        raise Conflict(f"alarm {id!r} keeps changing under our hands", field="id", fix="Try again.")

"""What is done to alarms and said of fires: each verb reads, lets a pure function decide, and writes once.

The alarm is read before its fires: whatever changes a fire raises its alarm's `version` or `claim`, so a decision from
fires newer than the alarm they were read with is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import asdict, replace

from wakeful.alarm import (
    INBOX,
    Alarm,
    Change,
    Edit,
    Fire,
    Report,
    cancel,
    in_hand,
    parse_fire_id,
    pause,
    replace_with,
    report,
    resume,
    retry,
    retry_at,
    snooze,
    update,
)
from wakeful.alarm.inbox import OPEN
from wakeful.config import Settings
from wakeful.errors import Conflict, NotFound
from wakeful.metrics import Metrics
from wakeful.service.guards import Guards, check_edit
from wakeful.service.places import Places
from wakeful.service.reporting import reported_on
from wakeful.store import AlarmQuery, FireQuery, Store

TRIES: Final = 10  # rounds of read, decide, write before an alarm counts as fought over
PATIENCE: Final = 1000  # of a cancel: whoever wants to end a loop must not lose to it
PAGE: Final = 500
PENDING: Final = ("active", "paused")
# What to do with an alarm, its current fire, its open wakes of the inbox, at a moment; None: nothing.
Decision = Callable[[Alarm, Fire | None, list[Fire], datetime], Change | None]


class Changed(Alarm, frozen=True, kw_only=True):
    """An alarm as its owner's change left it.

    `in_flight`: a worker has it just now, so at most that one attempt still happens as it was; or a wake of it was
    fetched from the inbox, and whoever has it may still be at it.
    """

    in_flight: bool = False

    @property
    def alarm(self) -> Alarm:
        return Alarm(**{name: getattr(self, name) for name in Alarm.__struct_fields__})


class Acting:
    _store: Store
    _settings: Settings
    _metrics: Metrics
    _places: Places
    _guards: Guards

    async def get(self, id: str, *, owner: str) -> Alarm:
        alarm = await self._store.get(id, owner=owner)
        if alarm is None:
            raise NotFound(f"there is no alarm {id!r}", field="id")
        return alarm

    async def fire_of(self, fire_id: str, *, owner: str) -> Fire:
        alarm_id, occurrence = parse_fire_id(fire_id)
        fire = (await self._store.fires_at([(alarm_id, occurrence)])).get((alarm_id, occurrence))
        if fire is None or (owner and fire.owner_did != owner):
            raise NotFound(f"there is no fire {fire_id!r}", field="fire_id")
        return fire

    # Owners

    async def update(
        self, id: str, edit: Edit, *, owner: str, version: int | None = None, by: str = "", guarded: bool = False
    ) -> Changed:
        if edit.target is not None or edit.conversation_id is not None:
            before = await self.get(id, owner=owner)
            named = {"target": edit.target, "conversation_id": edit.conversation_id}
            after = replace(before, **{name: value for name, value in named.items() if value is not None})
            await self._places.admit(after, via=before.created_via)
        if guarded and (edit.wake_message or edit.payload):
            alarm = await self.get(id, owner=owner)
            await self._guards.admit_words(alarm, edit.wake_message, edit.payload, now=await self._store.now())

        def decide(alarm: Alarm, fire: Fire | None, inbox: list[Fire], now: datetime) -> Change | None:
            change = update(alarm, fire, edit, now=now, version=version, by=by, inbox=inbox)
            if guarded and change is not None:
                check_edit(alarm, change.after, self._settings, now=now)
            return change

        return await self._change(id, owner, decide)

    async def pause(self, id: str, *, owner: str, reason: str = "", by: str = "") -> Changed:
        return await self._change(id, owner, lambda alarm, _fire, _, now: pause(alarm, now=now, by=by, reason=reason))

    async def resume(self, id: str, *, owner: str, by: str = "") -> Changed:
        return await self._change(id, owner, lambda alarm, fire, _, now: resume(alarm, fire, now=now, by=by))

    async def snooze(
        self, id: str, wait: timedelta | None = None, *, until: datetime | None = None, owner: str, by: str = ""
    ) -> Changed:
        """Put off the next fire, for a while or until a moment."""

        def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change:
            length = until - now if until is not None else wait or timedelta(0)
            return snooze(alarm, fire, length, now=now, by=by)

        return await self._change(id, owner, decide)

    async def cancel(self, id: str, *, owner: str, by: str = "", reason: str = "") -> Changed:
        """End an alarm, and retract what waits of it in the inbox."""
        cancelled = await self._change(
            id,
            owner,
            lambda alarm, fire, inbox, now: cancel(alarm, fire, now=now, by=by, reason=reason, inbox=inbox),
            tries=PATIENCE,
        )
        self._guards.ended(owner)
        return cancelled

    async def _replace(self, id: str, new: Alarm, *, by: str) -> Changed:
        return await self._change(
            id,
            new.owner_did,
            lambda alarm, fire, inbox, now: replace_with(alarm, fire, new, now=now, by=by, inbox=inbox),
        )

    async def reset(self, *, owner: str, by: str = "") -> int:
        """Cancel every pending alarm of an owner, and every one whose wake waits in the inbox; how many."""
        count = await self._cancel_all(AlarmQuery(owner=owner, statuses=PENDING, limit=PAGE), by=by, reason="reset")
        return count + await self._cancel_waiting(owner, lambda _: True, by=by, reason="reset")

    async def cancel_chain(self, root_id: str, *, owner: str, by: str = "") -> int:
        """Cancel an alarm and every one that was set because of its wakes, pending or in the inbox; how many."""
        chain = AlarmQuery(owner=owner, root_id=root_id, statuses=PENDING, limit=PAGE)
        root = await self._store.get(root_id, owner=owner)
        if root is None and not await self._store.find(replace(chain, statuses=(), limit=1)):
            raise NotFound(f"there is no chain {root_id!r}", field="root_id", fix="Give root_id of one of its alarms.")
        reason = "chain cancelled"
        is_pending = root is not None and not root.finished
        if is_pending:  # first, so that it sets no more
            await self.cancel(root_id, owner=owner, by=by, reason=reason)
        count = is_pending + await self._cancel_all(chain, by=by, reason=reason)
        return count + await self._cancel_waiting(
            owner, lambda alarm: root_id in (alarm.id, alarm.root_id), by=by, reason=reason
        )

    async def _cancel_all(self, query: AlarmQuery, *, by: str, reason: str) -> int:
        count = 0
        while alarms := await self._store.find(query):
            for alarm in alarms:
                await self.cancel(alarm.id, owner=query.owner, by=by, reason=reason)
            count += len(alarms)
        return count

    async def _cancel_waiting(self, owner: str, chosen: Callable[[Alarm], bool], *, by: str, reason: str) -> int:
        """Cancel what has fired and still waits to be fetched: to its owner that has not happened yet."""
        count = 0
        for id in {fire.alarm_id for fire in await self._all_fires(FireQuery(owner=owner, statuses=("waiting",)))}:
            alarm = await self._store.get(id, owner=owner)
            if alarm is not None and chosen(alarm):
                await self.cancel(id, owner=owner, by=by, reason=reason)
                count += 1
        return count

    # Targets, and whoever fetches from the inbox

    async def report(self, fire_id: str, said: Report, *, owner: str) -> Fire:
        """Take a target's word on a fire, or on the one fire of an alarm that awaits it."""
        fire_id = fire_id if "@" in fire_id else await reported_on(self._store, fire_id, owner=owner)
        alarm_id, occurrence = parse_fire_id(fire_id)
        await self._change(
            alarm_id,
            owner,
            lambda alarm, fire, _, now: report(alarm, fire, occurrence, said, now=now),
            occurrence=occurrence,
        )
        return await self.fire_of(fire_id, owner=owner)

    async def retry_at(self, fire: Fire, *, owner: str) -> datetime | None:
        """When a fire that is being retried is tried next; None where nothing more comes."""
        return retry_at(await self.get(fire.alarm_id, owner=owner), fire) if fire.status == "retrying" else None

    async def retry(self, fire_id: str, *, owner: str, by: str = "", guarded: bool = False) -> Fire:
        """Open a failed or timed-out fire again. `guarded`: counted as a create is."""
        alarm_id, occurrence = parse_fire_id(fire_id)

        def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change:
            if fire is None:
                raise NotFound(f"there is no fire {fire_id!r}", field="fire_id")
            return retry(alarm, fire, now=now, by=by)

        if guarded:
            self._guards.admit_retry(owner, now=await self._store.now())
        await self._change(alarm_id, owner, decide, occurrence=occurrence)
        return await self.fire_of(fire_id, owner=owner)

    # Read, decide, write

    async def _change(
        self, id: str, owner: str, decide: Decision, *, occurrence: datetime | None = None, tries: int = TRIES
    ) -> Changed:
        """Read an alarm, decide, write; again when someone else was faster. None from `decide` changes nothing.

        With an `occurrence` it is about that fire alone, and the inbox is left unread.
        """
        for _ in range(tries):
            alarm = await self.get(id, owner=owner)
            key = (alarm.id, occurrence or alarm.occurrence_at)
            fire = (await self._store.fires_at([key])).get(key)
            inbox = await self._in_inbox(alarm) if occurrence is None else []
            now = await self._store.now()
            # Also when the lease is over: a worker that stands still may be about to send, and go on later.
            in_flight = alarm.claimed_at is not None or any(in_hand(one, now) for one in inbox)
            change = decide(alarm, fire, inbox, now)
            if change is None:
                return Changed(**asdict(alarm), in_flight=in_flight)
            [answer] = await self._store.settle([change])
            if answer.what == "applied":
                known = {one.scheduled_for: one.status for one in inbox}
                news = [one for one in change.fires if known.get(one.scheduled_for) != one.status]
                self._metrics.fires(fire, news)
                return Changed(**asdict(change.after), in_flight=in_flight)
        raise Conflict(f"alarm {id!r} keeps changing under our hands", field="id", fix="Try again.")

    async def _in_inbox(self, alarm: Alarm) -> list[Fire]:
        """The wakes of an alarm that wait in the inbox or were fetched, also those of earlier occurrences."""
        may_have = alarm.target == INBOX or alarm.awaiting is not None or alarm.policy.overlap == "allow"
        if alarm.last_fired_at is None or not may_have:
            return []
        query = FireQuery(alarm_id=alarm.id, target=INBOX, statuses=OPEN)
        return await self._all_fires(query)

    async def _all_fires(self, query: FireQuery) -> list[Fire]:
        found: list[Fire] = []
        page = replace(query, limit=PAGE)
        while True:
            fires = await self._store.fires(page)
            found += fires
            if len(fires) < PAGE:
                return found
            page = replace(page, cursor=(fires[-1].scheduled_for, fires[-1].alarm_id))

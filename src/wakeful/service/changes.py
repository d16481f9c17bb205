"""The verbs that change alarms: each reads, lets a pure function decide, and writes once.

The alarm is read before its fires: every change of a fire raises its alarm's `version` or `claim`, so a decision made
from fires newer than the alarm is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, Unpack

from msgspec.structs import replace

from wakeful.alarm import (
    INBOX,
    Alarm,
    Change,
    Fire,
    cancel,
    in_hand,
    last_change,
    parse_fire_id,
    pause,
    replace_with,
    resume,
    skip_next,
    snooze,
    undo,
    update,
    with_former,
)
from wakeful.alarm.arguments import argument_named, request_fields
from wakeful.alarm.checks import check_gate
from wakeful.alarm.create import MESSAGE_LIMIT, TEXT_LIMIT, check_text
from wakeful.alarm.inbox import OPEN
from wakeful.alarm.relative_moments import bound_meant, said_moment
from wakeful.alarm.request import EditRequest, moment, request_of, span
from wakeful.alarm.undo import Former, former_values
from wakeful.cpu_time import in_thread
from wakeful.errors import Conflict, InvalidRequest, NotFound, WakefulError
from wakeful.keywords import UpdateKeywords
from wakeful.schedule import is_rule, may_be_rule
from wakeful.service.answers import Changed
from wakeful.service.caller import Caller
from wakeful.service.holidays import wanted_edit
from wakeful.service.limits import check_edit, check_said_backoff
from wakeful.service.notes import notes_on
from wakeful.service.resolving import is_id, resolve
from wakeful.store import FireQuery

if TYPE_CHECKING:
    from wakeful.service import Service

TRIES: Final = 10  # rounds of read, decide, write before an alarm counts as fought over
PATIENCE: Final = 1000  # of a cancel: it must win against a loop that keeps changing the alarm
PAGE: Final = 500
LATEST: Final = 100  # events of an alarm among which its last change is looked for
# What to do with an alarm, its current fire, its open wakes of the inbox, at a moment; None: nothing.
Decision = Callable[[Alarm, Fire | None, list[Fire], datetime], Change | None]


class Written(NamedTuple):
    """An alarm as it was read and as it was written, and whether an attempt was under way."""

    before: Alarm
    alarm: Alarm
    in_flight: bool


class ChangeVerbs:
    """The verbs with which one caller changes alarms."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self.service = service
        self.caller = caller

    async def get(self, id: str) -> Alarm:
        """Return an alarm by its id, its key, or the beginning of its id if only one begins so, as in every verb.

        Raises NotFound if there is none, or it belongs to another owner.

        >>> (await clock.get(alarm.id)).wake_message
        'Check the grant portal'
        """
        return await resolve(self.service.store, id, owner=self.caller.owner, reaches=self.caller.reaches)

    async def _fire_key(self, fire_id: str) -> tuple[str, datetime]:
        """A fire's alarm and occurrence; its alarm may be named as `get` takes it."""
        alarm_id, occurrence = parse_fire_id(fire_id)
        return alarm_id if is_id(alarm_id) else (await self.get(alarm_id)).id, occurrence

    async def fire_of(self, fire_id: str) -> Fire:
        """Return one fire of an alarm, by the id that its wake carries.

        >>> (await clock.fire_of(wake.fire.id)).status
        'delivered'
        """
        alarm_id, occurrence = await self._fire_key(fire_id)
        fire = (await self.service.store.fires_at([(alarm_id, occurrence)])).get((alarm_id, occurrence))
        if fire is None or self.caller.owner not in ("", fire.owner_did):
            raise NotFound(f"there is no fire {fire_id!r}", field="fire_id")
        if self.caller.wake is not None:
            await self.get(fire.alarm_id)  # found only where it is of the wake's chain
        return fire

    async def _within(self, connection: Any) -> Self:
        """The same verbs inside the caller's own transaction."""
        within = copy(self)
        within.service = copy(self.service)
        within.service.store = await self.service.store.within(connection)
        return within

    # Owners

    async def update(
        self, id: str, /, *, version: int | None = None, connection: Any = None, **fields: Unpack[UpdateKeywords]
    ) -> Changed:
        """Change the given fields, with the names they have in `set`. A new time starts the alarm again.

        >>> (await clock.update(alarm.id, when="every day at 8am", label="grants")).alarm.cron_expr
        '0 8 * * *'

        Raises StaleVersion if `version` is given and the alarm has another. Like pause, resume, snooze, skip and cancel
        it returns the `alarm`; `in_flight`, whether an attempt was under way, which may still arrive unchanged; and
        `notes`, what to know besides. With `connection` it happens inside your own transaction, as in `set`.
        """
        try:
            asked = request_of(EditRequest, request_fields(fields))
            return await self.edit(id, asked, version=version, connection=connection)
        except WakefulError as error:
            raise argument_named(error, fields) from None

    async def edit(self, id: str, asked: EditRequest, *, version: int | None = None, connection: Any = None) -> Changed:
        """Change an alarm as a request asks, if it still has the given version.

        >>> (await clock.edit(alarm.id, wakeful.EditRequest(label="grants"), version=alarm.version)).alarm.label
        'grants'
        """
        if connection is not None:
            return await (await self._within(connection)).edit(id, asked, version=version)
        try:
            wanted = await wanted_edit(self, id, asked)
        except InvalidRequest as error:
            raise await self._repaired(error, asked) from None
        said = wanted.fields
        check_said_backoff(self.caller, asked.policy, replace(self.service.defaults.policy, **wanted.policy))
        if "target" in said or "conversation_id" in said:
            before = await self.get(id)
            await self.service.targets.admit(replace(before, **said), via=before.created_via)
        words = [said[name] for name in ("wake_message", "payload_json") if name in said]
        if self.caller.limited and any(words):
            now = await self.service.store.now()
            await self.service.limits.admit_words(await self.get(id), *words, now=now)

        def decide(alarm: Alarm, fire: Fire | None, inbox: list[Fire], now: datetime) -> Change | None:
            change = update(alarm, fire, wanted, now=now, version=version, by=self.caller.name, inbox=inbox)
            if "only_if" in wanted.policy or change.after.kind != alarm.kind:
                check_gate(change.after, self.service.settings.checks)
            if self.caller.limited and change is not None:
                check_edit(alarm, change.after, self.service.settings, now=now)
            return change

        written = await self._change(id, decide, rule=asked.cron_expr or asked.when or "")
        return await self._noted(written, asked, before=written.before)

    async def _noted(
        self, written: Written, asked: EditRequest | None = None, *, before: Alarm | None = None
    ) -> Changed:
        """The whole answer. `asked`, `before`: what changed its time, and the alarm whose time that was."""
        return Changed(written.alarm, written.in_flight, await notes_on(self.service, written.alarm, asked, before))

    async def _repaired(self, error: InvalidRequest, asked: EditRequest) -> InvalidRequest:
        """Say with a refused bound ("until friday") which moment was meant."""
        usual = (await self.service.owner_settings.of(self.caller.owner)).timezone
        timezone, now = asked.timezone or usual, await self.service.now()
        error.repair = error.repair or bound_meant(error, asked, timezone=timezone, now=now)
        return error

    async def pause(self, id: str, *, reason: str = "", connection: Any = None) -> Changed:
        """Pause an alarm until it is resumed.

        >>> (await clock.pause(alarm.id, reason="holiday")).alarm.status
        'paused'
        """
        if connection is not None:
            return await (await self._within(connection)).pause(id, reason=reason)
        check_text("reason", reason, TEXT_LIMIT)
        by = self.caller.name
        written = await self._change(id, lambda alarm, _fire, _, now: pause(alarm, now=now, by=by, reason=reason))
        return await self._noted(written)

    async def resume(self, id: str, *, connection: Any = None) -> Changed:
        """Resume a paused alarm. A one-shot whose time has passed fires at once; a series continues with its next fire.

        >>> paused = await clock.pause(alarm.id)
        >>> (await clock.resume(alarm.id)).alarm.status
        'active'
        """
        if connection is not None:
            return await (await self._within(connection)).resume(id)
        by = self.caller.name
        return await self._noted(
            await self._change(id, lambda alarm, fire, _, now: resume(alarm, fire, now=now, by=by))
        )

    async def snooze(
        self,
        id: str,
        wait: timedelta | float | str | None = None,
        *,
        until: datetime | float | str | None = None,
        connection: Any = None,
    ) -> Changed:
        """Postpone the next fire, by a length of time from now or until a moment.

        >>> str((await clock.snooze(alarm.id, "12h")).alarm.next_fire_at)
        '2030-01-01 12:01:00+00:00'

        `until` may also be a phrase such as "tomorrow at 9am", in the alarm's own time zone.
        """
        if connection is not None:
            return await (await self._within(connection)).snooze(id, wait, until=until)
        if (wait is None) == (until is None):
            raise InvalidRequest("give exactly one of for and until", field="for", fix='For example {"for": "1h"}.')
        length = None if wait is None else span(wait, "for")
        order = (await self.service.owner_settings.of(self.caller.owner)).date_order
        bare_day = self.service.defaults.bare_day

        def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change:
            ending = (
                None
                if until is None
                else said_moment(until, "until", timezone=alarm.timezone, now=now, date_order=order, bare_day=bare_day)
            )
            put_off = ending - now if ending is not None else length or timedelta(0)
            return snooze(alarm, fire, put_off, now=now, by=self.caller.name)

        return await self._noted(await self._change(id, decide))

    async def skip(self, id: str, *, at: datetime | float | str | None = None, connection: Any = None) -> Changed:
        """Skip the next fire of a series; the series continues with the one after it.

        >>> str((await clock.skip(alarm.id, at=alarm.next_fire_at)).alarm.next_fire_at)
        '2030-01-02 09:00:00+00:00'

        `at`: the fire that is meant, as a moment or as a phrase ("tomorrow at 9am") in the alarm's timezone. If that is
        not the next one, Conflict names the one that is and nothing changes, so that a call with it may be repeated. A
        one-shot, a paused alarm and a fire that is being delivered are refused too.
        """
        if connection is not None:
            return await (await self._within(connection)).skip(id, at=at)
        meant = None if at is None else await self._moment_meant(id, at)

        def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change:
            nonlocal meant
            lease = self.service.settings.lease
            change = skip_next(alarm, fire, now=now, lease=lease, at=meant, by=self.caller.name)
            meant = alarm.occurrence_at  # if somebody else is faster, never the one after the one that was next
            return change

        return await self._noted(await self._change(id, decide))

    async def _moment_meant(self, id: str, at: datetime | float | str) -> datetime:
        """Read a moment that may also be a phrase, as the alarm's own `when` would be read."""
        if not isinstance(at, str):
            return moment(at, "at")
        alarm, now = await self.get(id), await self.service.store.now()
        order = (await self.service.owner_settings.of(self.caller.owner)).date_order
        bare_day = self.service.defaults.bare_day
        return said_moment(at, "at", timezone=alarm.timezone, now=now, date_order=order, bare_day=bare_day)

    async def cancel(self, id: str, *, reason: str = "", connection: Any = None) -> Changed:
        """Cancel an alarm, and remove its wakes from the inbox.

        >>> (await clock.cancel(alarm.id, reason="no longer needed")).alarm.status
        'cancelled'
        """
        if connection is not None:
            return await (await self._within(connection)).cancel(id, reason=reason)
        check_text("reason", reason, TEXT_LIMIT)
        by = self.caller.name
        written = await self._change(
            id,
            lambda alarm, fire, inbox, now: cancel(alarm, fire, now=now, by=by, reason=reason, inbox=inbox),
            tries=PATIENCE,
        )
        self.service.limits.ended(written.alarm.owner_did)
        return await self._noted(written)

    async def undo(self, id: str, *, when: str | None = None, connection: Any = None) -> Changed:
        """Take back the last change of an alarm, where that was a cancel, skip, pause or edit of the last 24 hours.

        >>> cancelled = await clock.cancel(alarm.id)
        >>> (await clock.undo(alarm.id)).alarm.status
        'active'

        A change can be taken back once. `when`: a new time, which a cancelled or edited one-shot needs whose time has
        passed. Raises Conflict where something else changed since, or the skipped fire is over.
        """
        if connection is not None:
            return await (await self._within(connection)).undo(id, when=when)
        check_text("when", when or "", MESSAGE_LIMIT)  # what cannot be a text is refused in whatever state the alarm is
        wanted = None if when is None else await wanted_edit(self, id, EditRequest(when=when))
        read = await self.get(id)
        former = await last_change_of(self, read)
        await self._admit_undo(read, former)

        def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change | None:
            if alarm.version != read.version:
                raise Conflict("the alarm is being changed just now", field="id", fix="Try again.")
            change = undo(alarm, fire, former, now=now, by=self.caller.name, wanted=wanted)
            if self.caller.limited and wanted is not None:
                check_edit(alarm, change.after, self.service.settings, now=now)
            return change

        occurrence = former.occurrence_at if former.what == "skipped" else None
        written = await self._change(read.id, decide, occurrence=occurrence, rule=when or "")
        return await self._noted(written, None if when is None else EditRequest(when=when))

    async def _admit_undo(self, alarm: Alarm, former: Former) -> None:
        """Check what an edit and a new alarm are checked for: its target, and what its owner may have."""
        values = former_values(former)
        if "target" in values or "conversation_id" in values:
            await self.service.targets.admit(replace(alarm, **values), via=alarm.created_via)
        if not self.caller.limited:
            return
        now = await self.service.store.now()
        if former.what == "cancelled":
            await self.service.limits.admit_again(alarm.owner_did, now=now)
        words = [values[name] for name in ("wake_message", "payload_json") if name in values]
        if any(words):
            await self.service.limits.admit_words(alarm, *words, now=now)

    async def _replace(self, id: str, new: Alarm) -> Written:
        by = self.caller.name
        return await self._change(
            id,
            lambda alarm, fire, inbox, now: replace_with(alarm, fire, new, now=now, by=by, inbox=inbox),
            rule=new.cron_expr,
        )

    # Read, decide, write

    async def _change(
        self, id: str, decide: Decision, *, occurrence: datetime | None = None, tries: int = TRIES, rule: str = ""
    ) -> Written:
        """Read an alarm, decide and write; start over if someone else was faster. None from `decide` changes nothing.

        With an `occurrence` only that fire is read, and the inbox is not. `rule`: the time that is asked for, which may
        be a rule.
        """
        store = self.service.store
        for _ in range(tries):
            alarm = await self.get(id)
            key = (alarm.id, occurrence or alarm.occurrence_at)
            fire = (await store.fires_at([key])).get(key)
            inbox = await self._in_inbox(alarm) if occurrence is None else []
            now = await store.now()
            # Also when the lease is over: a worker that stands still may be about to send, and go on later.
            in_flight = alarm.claimed_at is not None or any(in_hand(one, now) for one in inbox)
            work = partial(decide, alarm, fire, inbox, now)
            # What a rule costs is up to its writer: it is worked out beside the event loop.
            decided = await in_thread(work) if may_be_rule(rule) or is_rule(alarm.cron_expr) else work()
            change = with_former(alarm, decided)
            if change is None:
                return Written(alarm, alarm, in_flight)
            [answer] = await store.settle([change])
            if answer.what == "applied":
                known = {one.scheduled_for: one.status for one in inbox}
                news = [one for one in change.fires if known.get(one.scheduled_for) != one.status]
                self.service.metrics.fires(fire, news)
                return Written(alarm, change.after, in_flight)
        raise Conflict(f"alarm {id!r} keeps being changed by others", field="id", fix="Try again.")

    async def _in_inbox(self, alarm: Alarm) -> list[Fire]:
        """Return the alarm's wakes that wait in the inbox or were taken from it, including earlier occurrences."""
        known = [name for name in self.service.settings.inboxes if name in (INBOX, alarm.target)]
        may_have = alarm.target in known or alarm.awaiting is not None or alarm.policy.overlap == "allow"
        if alarm.last_fired_at is None or not may_have:
            return []
        queries = [FireQuery(alarm_id=alarm.id, target=name, statuses=OPEN) for name in known]
        return [fire for query in queries for fire in await self._all_fires(query)]

    async def _all_fires(self, query: FireQuery) -> list[Fire]:
        found: list[Fire] = []
        page = replace(query, limit=PAGE)
        while True:
            fires = await self.service.store.fires(page)
            found += fires
            if len(fires) < PAGE:
                return found
            page = replace(page, cursor=(fires[-1].scheduled_for, fires[-1].alarm_id))


async def last_change_of(verbs: ChangeVerbs, alarm: Alarm) -> Former:
    """The last change of an alarm, as `undo` would take it back; Conflict where it cannot."""
    store = verbs.service.store
    return last_change(await store.latest_events(alarm.id, limit=LATEST), now=await store.now())

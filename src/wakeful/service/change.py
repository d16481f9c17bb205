"""The verbs that change alarms: each reads, lets a pure function decide, and writes once.

The alarm is read before its fires: every change of a fire raises its alarm's `version` or `claim`, so a decision made
from fires newer than the alarm is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, Unpack

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidRequest, StaleVersion, WakefulError
from wakeful.model.alarm import INBOX, Alarm, Change, Fire
from wakeful.model.keywords import UpdateKeywords
from wakeful.model.owner_settings import OwnerSettings, OwnerSettingsView, SettingsRequest
from wakeful.model.requests import EditRequest
from wakeful.rules.arguments import argument_named, request_fields
from wakeful.rules.attempts import OPEN, in_hand
from wakeful.rules.checks import check_gate
from wakeful.rules.create import MESSAGE_LIMIT, TEXT_LIMIT, check_text
from wakeful.rules.edit import cancel, pause, replace_with, resume, skip_next, snooze, update
from wakeful.rules.owner_settings import shown
from wakeful.rules.undo import Former, former_values, last_change, undo, with_former
from wakeful.rules.wanted import appended, bound_meant, json_of, moment, request_of, said_moment, span
from wakeful.runtime.cpu_time import in_thread
from wakeful.schedule import is_rule, may_be_rule
from wakeful.service.answers import Changed
from wakeful.service.core import Service, Session
from wakeful.service.holidays import wanted_edit
from wakeful.service.limits import check_edit, check_said_backoff
from wakeful.service.notes import notes_on
from wakeful.service.resolving import all_fires, get_alarm
from wakeful.store import EventQuery, FireQuery

TRIES: Final = 10  # rounds of read, decide, write before an alarm counts as fought over
PATIENCE: Final = 1000  # of a cancel: it must win against a loop that keeps changing the alarm
LATEST: Final = 100  # events of an alarm among which its last change is looked for
# What to do with an alarm, its current fire, its open wakes of the inbox, at a moment; None: nothing.
Decision = Callable[[Alarm, Fire | None, list[Fire], datetime], Change | None]


class Written(NamedTuple):
    """An alarm as it was read and as it was written, and whether an attempt was under way."""

    before: Alarm
    alarm: Alarm
    in_flight: bool


class Edits(Protocol):
    async def edit(self, id: str, request: EditRequest, *, version: int | None = None) -> Changed: ...


async def update_alarm(
    verbs: Edits, id: str, /, *, version: int | None = None, **fields: Unpack[UpdateKeywords]
) -> Changed:
    """Change the given fields, with the names they have in `set`. A new time starts the alarm again.

    >>> (await alarms.update(alarm.id, when="every day at 8am", label="grants")).alarm.cron_expr
    '0 8 * * *'

    Raises StaleVersion if `version` is given and the alarm has another. Like pause, resume, snooze, skip and cancel
    it returns the `alarm`; `in_flight`, whether an attempt was under way, which may still arrive unchanged; and
    `notes`, what to know besides.
    """
    try:
        request = request_of(EditRequest, request_fields(fields))
        return await verbs.edit(id, request, version=version)
    except WakefulError as error:
        raise argument_named(error, fields) from None


async def edit_alarm(session: Session, id: str, request: EditRequest, *, version: int | None = None) -> Changed:
    """Change an alarm as a request asks, if it still has the given version.

    >>> (await alarms.edit(alarm.id, wakeful.EditRequest(label="grants"), version=alarm.version)).alarm.label
    'grants'
    """
    try:
        wanted = await wanted_edit(session, id, request)
    except InvalidRequest as error:
        raise await _repaired(session, error, request) from None
    said = wanted.fields
    check_said_backoff(session.caller, request.policy, replace(session.service.defaults.policy, **wanted.policy))
    if "target" in said or "conversation_id" in said:
        before = await get_alarm(session, id)
        await session.service.targets.admit(replace(before, **said), via=before.created_via)
    words = [said[name] for name in ("wake_message", "payload_json") if name in said]
    if session.caller.limited and any(words):
        now = await session.service.store.now()
        await session.service.limits.admit_words(await get_alarm(session, id), *words, now=now)

    def decide(alarm: Alarm, fire: Fire | None, inbox: list[Fire], now: datetime) -> Change | None:
        change = update(alarm, fire, wanted, now=now, version=version, by=session.caller.name, inbox=inbox)
        if "only_if" in wanted.policy or change.after.kind != alarm.kind:
            check_gate(change.after, session.service.settings.checks)
        if session.caller.limited and change is not None:
            check_edit(alarm, change.after, session.service.settings, now=now)
        return change

    written = await write_change(session, id, decide, rule=request.cron_expr or request.when or "")
    return await noted(session, written, request, before=written.before)


async def append_payload(session: Session, id: str, payload: Any) -> Changed:
    """Add to the payload of an alarm: fields to an object, elements to a list.

    >>> changed = await alarms.append(alarm.id, {"page": 4, "seen": ["a"]})
    >>> changed.alarm.payload_json
    '{"page":4,"seen":["a"]}'

    A field that is there already is replaced, and a list within an object gets longer. Of two programs that append at
    once neither loses anything.
    """
    more = json_of(payload)
    for _ in range(TRIES):
        alarm = await get_alarm(session, id)
        with suppress(StaleVersion):
            request = EditRequest(payload=appended(alarm.payload_json, more))
            return await edit_alarm(session, alarm.id, request, version=alarm.version)
    raise Conflict(f"alarm {id!r} keeps being changed by others", field="id", fix="Try again.")


PREVIEWED: Final = (
    *("cron_expr", "timezone", "occurrence_at"),
    *("wake_message", "label", "target", "conversation_id", "payload_json"),
)


class EditPreview(Struct, frozen=True):
    """The alarm as it is, and as it would be."""

    before: Alarm
    after: Alarm
    notes: list[str] = []

    @property
    def differences(self) -> Iterator[tuple[str, object, object]]:
        """Name, old and new of every field that a person would see change."""
        for name in PREVIEWED:
            old, new = getattr(self.before, name), getattr(self.after, name)
            if old != new:
                yield name, old, new


async def preview_edit(session: Session, id: str, request: EditRequest, *, version: int | None = None) -> EditPreview:
    """Decide as `edit` does, and stop there. StaleVersion if the alarm has another version than the one given."""
    alarm = await get_alarm(session, id)
    wanted = await wanted_edit(session, id, request)
    key = (alarm.id, alarm.occurrence_at)
    fire = (await session.service.store.fires_at([key])).get(key)
    now = await session.service.store.now()
    by = session.caller.name
    change = await in_thread(lambda: update(alarm, fire, wanted, now=now, version=version, by=by))
    return EditPreview(alarm, change.after, await notes_on(session.service, change.after, request, alarm))


async def noted(
    session: Session, written: Written, request: EditRequest | None = None, *, before: Alarm | None = None
) -> Changed:
    """The whole answer. `asked`, `before`: what changed its time, and the alarm whose time that was."""
    return Changed(written.alarm, written.in_flight, await notes_on(session.outside, written.alarm, request, before))


async def _repaired(session: Session, error: InvalidRequest, request: EditRequest) -> InvalidRequest:
    """Say with a refused bound ("until friday") which moment was meant."""
    usual = (await session.service.owner_settings.of(session.caller.owner)).timezone
    timezone, now = request.timezone or usual, await session.service.now()
    error.repair = error.repair or bound_meant(error, request, timezone=timezone, now=now)
    return error


async def pause_alarm(session: Session, id: str, *, reason: str = "") -> Changed:
    """Pause an alarm until it is resumed.

    >>> (await alarms.pause(alarm.id, reason="holiday")).alarm.status
    'paused'
    """
    check_text("reason", reason, TEXT_LIMIT)
    by = session.caller.name
    written = await write_change(session, id, lambda alarm, _fire, _, now: pause(alarm, now=now, by=by, reason=reason))
    return await noted(session, written)


async def resume_alarm(session: Session, id: str) -> Changed:
    """Resume a paused alarm. A one-shot whose time has passed fires at once; a series continues with its next fire.

    >>> paused = await alarms.pause(alarm.id)
    >>> (await alarms.resume(alarm.id)).alarm.status
    'active'
    """
    by = session.caller.name
    return await noted(
        session, await write_change(session, id, lambda alarm, fire, _, now: resume(alarm, fire, now=now, by=by))
    )


async def snooze_alarm(
    session: Session,
    id: str,
    wait: timedelta | float | str | None = None,
    *,
    until: datetime | float | str | None = None,
) -> Changed:
    """Postpone the next fire, by a length of time from now or until a moment.

    >>> str((await alarms.snooze(alarm.id, "12h")).alarm.next_fire_at)
    '2030-01-01 12:01:00+00:00'

    `until` may also be a phrase such as "tomorrow at 9am", in the alarm's own time zone.
    """
    if (wait is None) == (until is None):
        raise InvalidRequest("give exactly one of for and until", field="for", fix='For example {"for": "1h"}.')
    length = None if wait is None else span(wait, "for")
    order = (await session.service.owner_settings.of(session.caller.owner)).date_order
    bare_day = session.service.defaults.bare_day

    def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change:
        ending = (
            None
            if until is None
            else said_moment(until, "until", timezone=alarm.timezone, now=now, date_order=order, bare_day=bare_day)
        )
        put_off = ending - now if ending is not None else length or timedelta(0)
        return snooze(alarm, fire, put_off, now=now, by=session.caller.name)

    return await noted(session, await write_change(session, id, decide))


async def skip_fire(session: Session, id: str, *, at: datetime | float | str | None = None) -> Changed:
    """Skip the next fire of a series; the series continues with the one after it.

    >>> str((await alarms.skip(alarm.id, at=alarm.next_fire_at)).alarm.next_fire_at)
    '2030-01-02 09:00:00+00:00'

    `at`: the fire that is meant, as a moment or as a phrase ("tomorrow at 9am") in the alarm's timezone. If that is
    not the next one, Conflict names the one that is and nothing changes, so that a call with it may be repeated. A
    one-shot, a paused alarm and a fire that is being delivered are refused too.
    """
    meant = None if at is None else await _moment_meant(session, id, at)

    def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change:
        nonlocal meant
        lease = session.service.settings.lease
        change = skip_next(alarm, fire, now=now, lease=lease, at=meant, by=session.caller.name)
        meant = alarm.occurrence_at  # if somebody else is faster, never the one after the one that was next
        return change

    return await noted(session, await write_change(session, id, decide))


async def _moment_meant(session: Session, id: str, at: datetime | float | str) -> datetime:
    """Read a moment that may also be a phrase, as the alarm's own `when` would be read."""
    if not isinstance(at, str):
        return moment(at, "at")
    alarm, now = await get_alarm(session, id), await session.service.store.now()
    order = (await session.service.owner_settings.of(session.caller.owner)).date_order
    bare_day = session.service.defaults.bare_day
    return said_moment(at, "at", timezone=alarm.timezone, now=now, date_order=order, bare_day=bare_day)


async def cancel_alarm(session: Session, id: str, *, reason: str = "") -> Changed:
    """Cancel an alarm, and remove its wakes from the inbox.

    >>> (await alarms.cancel(alarm.id, reason="no longer needed")).alarm.status
    'cancelled'
    """
    check_text("reason", reason, TEXT_LIMIT)
    by = session.caller.name
    written = await write_change(
        session,
        id,
        lambda alarm, fire, inbox, now: cancel(alarm, fire, now=now, by=by, reason=reason, inbox=inbox),
        tries=PATIENCE,
    )
    session.service.limits.ended(written.alarm.owner_did)
    return await noted(session, written)


async def undo_change(session: Session, id: str, *, when: str | None = None) -> Changed:
    """Take back the last change of an alarm, where that was a cancel, skip, pause or edit of the last 24 hours.

    >>> cancelled = await alarms.cancel(alarm.id)
    >>> (await alarms.undo(alarm.id)).alarm.status
    'active'

    A change can be taken back once. `when`: a new time, which a cancelled or edited one-shot needs whose time has
    passed. Raises Conflict where something else changed since, or the skipped fire is over.
    """
    check_text("when", when or "", MESSAGE_LIMIT)  # what cannot be a text is refused in whatever state the alarm is
    wanted = None if when is None else await wanted_edit(session, id, EditRequest(when=when))
    read = await get_alarm(session, id)
    former = await last_change_of(session, read)
    await _admit_undo(session, read, former)

    def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change | None:
        if alarm.version != read.version:
            raise Conflict("the alarm is being changed just now", field="id", fix="Try again.")
        change = undo(alarm, fire, former, now=now, by=session.caller.name, wanted=wanted)
        if session.caller.limited and wanted is not None:
            check_edit(alarm, change.after, session.service.settings, now=now)
        return change

    occurrence = former.occurrence_at if former.what == "skipped" else None
    written = await write_change(session, read.id, decide, occurrence=occurrence, rule=when or "")
    return await noted(session, written, None if when is None else EditRequest(when=when))


async def _admit_undo(session: Session, alarm: Alarm, former: Former) -> None:
    """Check what an edit and a new alarm are checked for: its target, and what its owner may have."""
    values = former_values(former)
    if "target" in values or "conversation_id" in values:
        await session.service.targets.admit(replace(alarm, **values), via=alarm.created_via)
    if not session.caller.limited:
        return
    now = await session.service.store.now()
    if former.what == "cancelled":
        await session.service.limits.admit_again(alarm.owner_did, now=now)
    words = [values[name] for name in ("wake_message", "payload_json") if name in values]
    if any(words):
        await session.service.limits.admit_words(alarm, *words, now=now)


async def replace_alarm(session: Session, id: str, new: Alarm) -> Written:
    by = session.caller.name
    return await write_change(
        session,
        id,
        lambda alarm, fire, inbox, now: replace_with(alarm, fire, new, now=now, by=by, inbox=inbox),
        rule=new.cron_expr,
    )


# Read, decide, write


async def write_change(
    session: Session,
    id: str,
    decide: Decision,
    *,
    occurrence: datetime | None = None,
    tries: int = TRIES,
    rule: str = "",
) -> Written:
    """Read an alarm, decide and write; start over if someone else was faster. None from `decide` changes nothing.

    With an `occurrence` only that fire is read, and the inbox is not. `rule`: the time that is asked for, which may
    be a rule.
    """
    store = session.service.store
    for _ in range(tries):
        alarm = await get_alarm(session, id)
        key = (alarm.id, occurrence or alarm.occurrence_at)
        fire = (await store.fires_at([key])).get(key)
        inbox = await _in_inbox(session, alarm) if occurrence is None else []
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
            session.service.metrics.fires(fire, news)
            return Written(alarm, change.after, in_flight)
    raise Conflict(f"alarm {id!r} keeps being changed by others", field="id", fix="Try again.")


async def _in_inbox(session: Session, alarm: Alarm) -> list[Fire]:
    """Return the alarm's wakes that wait in the inbox or were taken from it, including earlier occurrences."""
    known = [name for name in session.service.settings.inboxes if name in (INBOX, alarm.target)]
    may_have = alarm.target in known or alarm.awaiting is not None or alarm.policy.overlap == "allow"
    if alarm.last_fired_at is None or not may_have:
        return []
    queries = [FireQuery(alarm_id=alarm.id, target=name, statuses=OPEN) for name in known]
    return [fire for query in queries for fire in await all_fires(session, query)]


async def last_change_of(session: Session, alarm: Alarm) -> Former:
    """The last change of an alarm, as `undo` would take it back; Conflict where it cannot."""
    store = session.service.store
    events = await store.events(EventQuery(alarm_id=alarm.id, latest=True, limit=LATEST))
    return last_change([event for _, event in events], now=await store.now())


# The owner's own settings


async def read_settings(session: Session) -> OwnerSettingsView:
    """Return the zone, date order, working days and calendar that count for this owner's alarms.

    >>> (await alarms.owner_settings()).timezone
    'UTC'

    `own` names those that the owner has set; the others are the server's.
    """
    return _shown(session.service, (await session.service.owner_settings.read(session.caller.owner)).own)


class ChangesSettings(Protocol):
    async def change_settings(self, request: SettingsRequest) -> OwnerSettingsView: ...


async def set_settings(
    verbs: ChangesSettings,
    *,
    timezone: str | None = None,
    date_order: str | None = None,
    working_days: str | None = None,
    calendar: str | None = None,
) -> OwnerSettingsView:
    """Set `timezone`, `date_order`, `working_days` or `calendar` for all of this owner's alarms to come.

    >>> (await alarms.set_owner_settings(working_days="sun-thu")).own
    ['working_days']

    An alarm that is set already keeps its own. "" takes back what the server has.
    """
    given = {"timezone": timezone, "date_order": date_order, "working_days": working_days, "calendar": calendar}
    return await verbs.change_settings(request_of(SettingsRequest, given))


async def change_settings(session: Session, request: SettingsRequest) -> OwnerSettingsView:
    """Change the owner's settings as a request asks.

    >>> (await alarms.change_settings(wakeful.SettingsRequest(working_days=None))).own
    []
    """
    own = await session.service.owner_settings.change(session.caller.owner, request)
    return _shown(session.service, own)


def _shown(service: Service, own: OwnerSettings) -> OwnerSettingsView:
    return shown(own, service.owner_settings.server, service.settings.calendars)

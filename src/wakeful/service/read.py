"""The verbs of whoever looks: what a time means, which alarms there are, what happened, what comes, and why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace as with_fields
from datetime import datetime
from functools import partial
from typing import Final, Literal, Protocol, TypeVar, get_args

from msgspec.structs import replace

from wakeful.errors import NotFound
from wakeful.model.alarm import (
    ALARM_STATUSES,
    FIRE_STATUSES,
    Alarm,
    AlarmStatus,
    Fire,
    FireStatus,
    Kind,
    is_fire_id,
    parse_fire_id,
)
from wakeful.rules.arguments import accepted
from wakeful.rules.wanted import moment_or_ago
from wakeful.runtime.cpu_time import in_thread
from wakeful.schedule import Understood, given_zone, may_be_rule, parse
from wakeful.service.answers import Details, Noted
from wakeful.service.core import Session
from wakeful.service.history import (
    History,
    HistoryEntry,
    HistoryStatus,
    Pending,
    copies_of,
    fires_of,
    offset,
    with_manual,
    without_copies,
)
from wakeful.service.holidays import calendar_meant
from wakeful.service.notes import due_notes, notes_on, with_assumed_zone
from wakeful.service.resolving import get_alarm, get_fire, is_id
from wakeful.service.why import LATELY, Why, explain, is_put_back
from wakeful.store import AlarmQuery, EventQuery, FireQuery, Matches, Stats
from wakeful.store.filters import ROWS_A_READ, ROWS_A_SEARCH

EVIDENCE: Final = 1_000_000  # characters of fires, and of events, that are read for one explanation
Cursor = tuple[datetime, str]
Query = TypeVar("Query", AlarmQuery, FireQuery)
Row = TypeVar("Row")


async def _as_many_as_asked(query: Query, read: Callable[[Query], Awaitable[Matches[Row]]]) -> Matches[Row]:
    """Rows up to the query's limit, however few of them one look finds; with `most` only what the first one does."""
    found: Matches[Row] = await read(query)
    while not query.most and found.further is not None and len(found) < query.limit:
        rest = replace(query, cursor=found.further, limit=query.limit - len(found))
        more: Matches[Row] = await read(rest)
        found = Matches([*found, *more], more.further)
    return found


async def read_now(session: Session) -> datetime:
    """Return this moment by the clock of the store, which decides what is due.

    >>> await alarms.now() < alarm.next_fire_at
    True
    """
    return await session.service.now()


async def parse_time(session: Session, when: str, *, timezone: str = "") -> Understood:
    """Return what a time means as of now, without setting an alarm. Raises InvalidSchedule if it is not understood.

    >>> (await alarms.parse("every weekday at 9am")).cron_expr
    '0 9 * * 1-5'
    """
    usual = await session.service.owner_settings.of(session.caller.owner)
    name = given_zone(timezone) if timezone else usual.timezone
    now = await session.service.now()

    def read() -> Understood:
        found = parse(
            when,
            timezone=name,
            now=now,
            default_time=session.service.defaults.bare_day,
            date_order=usual.date_order,
            working_days=usual.working_days,
            has_calendar=bool(session.service.settings.calendars),
        )
        return found if timezone else with_assumed_zone(found, when, usual)

    found = await in_thread(read) if may_be_rule(when) else read()  # what a rule costs is up to its writer
    if not found.skips_holidays:
        return found
    return with_fields(found, calendar=calendar_meant(usual, session.service.settings, "when"))


async def read_details(session: Session, id: str) -> Details:
    """Return an alarm, named as in `get`, and in `notes` what its owner should know besides, in words.

    >>> (await alarms.details(alarm.id)).notes
    ["No running worker serves 'inbox' yet: start one with `wakeful serve`."]

    Moved times, how often a series wakes and if its budget does not allow that, a target nobody serves. What only
    a request tells, such as an assumed zone, is in the answer to that request.
    """
    alarm = await get_alarm(session, id)
    return Details(alarm, await notes_on(session.service, alarm))


async def find_alarms(
    session: Session,
    *,
    status: AlarmStatus | Sequence[AlarmStatus] = (),
    kind: Kind | Literal[""] = "",
    target: str = "",
    label: str = "",
    conversation_id: str = "",
    root_id: str = "",
    key: str = "",
    text: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
    cursor: Alarm | Cursor | None = None,
    most: int = 0,
) -> Matches[Alarm]:
    """Return alarms, newest first; `cursor` is the last alarm of the previous page.

    >>> [found.id == alarm.id for found in await alarms.find(status="active", text="grant")]
    [True]

    `text`: part of the label, the message or the key. Copies that `fire` made are left out, since they are shown
    as fires of their alarms, but for those of a chain (`root_id`), which is cancelled with them.
    `most`: the most characters of rows on a page, but always at least one row. With it, a page may also end before
    everything was looked at, even with nothing on it: `further` then says where to continue.
    """
    is_chain = bool(root_id)
    if session.caller.wake is not None:
        root_id = session.caller.wake.root_id
    query = AlarmQuery(
        owner=session.caller.owner,
        statuses=accepted("status", status, ALARM_STATUSES),
        kind=next(iter(accepted("kind", kind, get_args(Kind))), ""),
        target=target,
        label=label,
        conversation_id=conversation_id,
        root_id=root_id,
        key=key,
        text=text,
        since=since,
        until=until,
        limit=limit,
        cursor=(cursor.created_at, cursor.id) if isinstance(cursor, Alarm) else cursor,
        most=most,
        look_at=ROWS_A_SEARCH if text else ROWS_A_READ,
    )

    async def read(query: AlarmQuery) -> Matches[Alarm]:
        page = await session.service.store.find(query)
        return page if is_chain else without_copies(page)

    return await _as_many_as_asked(query, read)


async def find_fires(
    session: Session,
    id: str = "",
    *,
    status: FireStatus | Sequence[FireStatus] = (),
    target: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
    cursor: Cursor | None = None,
    most: int = 0,
) -> Matches[Fire]:
    """Return what happened: the fires of one alarm, or of all alarms, latest first.

    >>> [fire.status for fire in await alarms.fires(wake.alarm.id)]
    ['delivered']

    The alarm may be named as in `get`; one that does not exist has no fires. Those that `fire` made are among
    them: their `alarm_id` is that of the copy. `most` as in `find`.
    """
    if (id and not is_id(id)) or session.caller.wake is not None:
        try:
            id = (await get_alarm(session, id)).id
        except NotFound:
            return Matches()
    query = FireQuery(
        owner=session.caller.owner,
        alarm_id=id,
        statuses=accepted("status", status, FIRE_STATUSES),
        target=target,
        since=since,
        until=until,
        limit=limit,
        cursor=cursor,
        most=most,
        look_at=ROWS_A_READ,
    )
    page = await _as_many_as_asked(query, session.service.store.fires)
    return await with_manual(session.service.store, id, query, page) if id else page


class Lists(Protocol):
    async def active(self, *, limit: int | None = None) -> Matches[Alarm]: ...


async def list_pending(verbs: Lists, *, limit: int | None = None) -> list[Pending]:
    """Return id, due time and offset (from creation to due) of every alarm that waits to fire, soonest first.

    >>> [entry.id == alarm.id for entry in await alarms.pending()]
    [True]
    """
    active = await verbs.active(limit=limit)
    return [Pending(alarm.id, alarm.next_fire_at, offset(alarm)) for alarm in active]


async def list_active(session: Session, *, limit: int | None = None, most: int = 0) -> Matches[Alarm]:
    """Return every alarm that waits to fire, soonest first.

    >>> [entry.id == alarm.id for entry in await alarms.active()]
    [True]
    """
    return await History(session.service.store, most=most).active(session.caller.owner, limit)


async def read_history(
    session: Session,
    *,
    status: HistoryStatus | Literal[""] = "",
    target: str = "",
    since: datetime | float | str | None = None,
    limit: int = 50,
    most: int = 0,
) -> Noted[HistoryEntry]:
    """Return past and upcoming fires, newest first: those due `since` a moment, or a length of time ago.

    >>> [entry.status for entry in await alarms.history(limit=2)]
    ['pending', 'delivered']

    `most`: the most characters of the answer, but always at least one entry; `further` is set if there may be more.
    `notes` of the answer says in words what is due and not delivered yet.
    """
    found = await History(session.service.store, most=most, budget=session.service.budget).entries(
        owner=session.caller.owner,
        status=status,
        target=target,
        since=None if since is None else moment_or_ago(since, "since", now=await session.service.now()),
        limit=limit,
    )
    return Noted(found, found.further, await due_notes(session.service, session.caller.owner))


async def list_failed(session: Session, *, limit: int = 20, most: int = 0) -> Matches[HistoryEntry]:
    """Return the latest fires that failed or were not reported in time.

    >>> await alarms.failed(limit=5)
    []
    """
    return await History(session.service.store, most=most).failed(owner=session.caller.owner, limit=limit)


async def read_stats(session: Session) -> Stats:
    """Return how many alarms and fires there are in each status.

    >>> (await alarms.stats()).pending
    1
    """
    return await session.service.store.stats(session.caller.owner)


async def read_agenda(
    session: Session, *, hours: float = 24, limit: int = 100, most: int = 0
) -> Noted[tuple[datetime, Alarm]]:
    """Return the next fires of all alarms, merged, soonest first, as (time, alarm) pairs.

    >>> [str(at) for at, alarm in await alarms.agenda(hours=24)]
    ['2030-01-01 09:00:00+00:00']

    `notes` of the answer says in words what is due and not delivered yet.
    """
    owner = session.caller.owner
    found = await History(session.service.store, most=most).agenda(owner=owner, hours=hours, limit=limit)
    return Noted(found, found.further, await due_notes(session.service, owner))


async def explain_alarm(session: Session, id: str) -> Why:
    """Explain why an alarm (or one of its fires) was late or did not fire, and when it will, in words and facts.

    >>> (await alarms.why(alarm.id)).summary
    'It fires at 2030-01-01T09:00:00Z, in 8 h. After that at 2030-01-02T09:00:00Z.'

    A caller without limits is the operator, who also sees how the target answered other owners' wakes and on
    which machines workers run.
    """
    store = session.service.store
    is_fire = is_fire_id(id)
    alarm = await get_alarm(session, parse_fire_id(id)[0] if is_fire else id)
    alarm_id = alarm.id
    latest = FireQuery(alarm_id=alarm_id, limit=10, most=EVIDENCE)
    fires = [await get_fire(session, id)] if is_fire else await store.fires(latest)
    copies = [] if is_fire else await copies_of(store, alarm)
    manual = await fires_of(store, copies[:10])
    now = await store.now()
    theirs = FireQuery(owner=alarm.owner_did, target=alarm.target, since=now - LATELY, limit=100)
    tell = partial(
        explain,
        alarm,
        fires,
        events=[event for _, event in await store.events(EventQuery(alarm_id=alarm_id, limit=100, most=EVIDENCE))],
        workers=await store.maintenance.workers(),
        state=(await store.maintenance.target_states()).get(alarm.target),
        lease=session.service.settings.lease,
        now=now,
        operator=not session.caller.limited,
        lately=await store.fires(theirs) if is_put_back(alarm, now) else (),
        manual=tuple((one, next((fire for fire in manual if fire.alarm_id == one.id), None)) for one in copies[:10]),
    )
    return await in_thread(tell) if alarm.kind == "cron" else tell()

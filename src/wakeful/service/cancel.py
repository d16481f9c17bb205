"""Cancel many alarms in one call: those that are named, or all that fit; or only say which it would be.

Which alarms those are (`Chosen`) is the same for what moves many (service/moving.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, time, timedelta
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from wakeful.errors import InvalidRequest, NotFound
from wakeful.model.alarm import PENDING, Alarm
from wakeful.model.requests import Moment
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.rules.lineage import cancelled_chain
from wakeful.rules.plan import following
from wakeful.rules.wanted import said_moment
from wakeful.runtime.cpu_time import in_thread
from wakeful.schedule import is_rule
from wakeful.service.answers import Changed
from wakeful.service.change import cancel_alarm, skip_fire, snooze_alarm, write_change
from wakeful.service.core import Session
from wakeful.service.resolving import PAGE, all_fires, get_alarm, is_id
from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.filters import ROWS_A_READ

NAMED_AT_ONCE: Final = 100
_END_OF_DAY: Final = time(23, 59, 59, 999_000)
_EARLIER: Final = 200  # series that are looked at for what they do later than at their next fire
_MS: Final = timedelta(milliseconds=1)


class Chosen(Struct, frozen=True, kw_only=True):
    """Which alarms: those named by `ids` (ids, keys or beginnings of ids), or all pending ones that fit the rest."""

    ids: tuple[str, ...] = ()
    text: str = ""
    conversation_id: str = ""
    target: str = ""
    label: str = ""
    due_from: datetime | None = None  # the active ones whose next fire is at this moment or later,
    due_to: datetime | None = None  # or at the latest then
    everything: bool = False  # where nothing is to be filtered

    def __post_init__(self) -> None:
        filters = any(value for name, value in asdict(self).items() if name != "ids")
        if bool(self.ids) == filters:
            what = "both ids and filters were given" if filters else "it is not said which"
            fix = "Give ids, or some of text, conversation_id, target, label, due_from and due_to."
            raise InvalidRequest(what, field="ids", fix=fix)
        if len(self.ids) > NAMED_AT_ONCE:
            raise InvalidRequest(f"{len(self.ids)} are too many", field="ids", fix=f"Give at most {NAMED_AT_ONCE}.")

    @property
    def has_range(self) -> bool:
        return self.due_from is not None or self.due_to is not None

    @property
    def filters(self) -> dict[str, Any]:
        """What a search of the store goes by."""
        found = {name: getattr(self, name) for name in ("text", "conversation_id", "target", "label")}
        return found | {"statuses": ("active",) if self.has_range else PENDING}

    def is_due_then(self, alarm: Alarm) -> bool:
        starts, ends = self.due_from, self.due_to
        return (starts is None or starts <= alarm.next_fire_at) and (ends is None or alarm.next_fire_at <= ends)

    def fits(self, alarm: Alarm) -> bool:
        """Whether the filters fit, as a search of the store judges."""
        if self.conversation_id not in ("", alarm.conversation_id) or self.target not in ("", alarm.target):
            return False
        text = self.text.casefold()
        told = (alarm.label, alarm.wake_message, alarm.idempotency_key)
        return self.label in ("", alarm.label) and any(text in one.casefold() for one in told)


class Cancelled(Struct, frozen=True, kw_only=True):
    """The alarms that were cancelled; with `dry_run`, those that would be. `in_flight`: whose attempt may arrive.

    `skipped`: the series among them. Where a time was named they go on after it.
    """

    alarms: list[Alarm]
    dry_run: bool = False
    in_flight: int = 0
    skipped: int = 0
    notes: list[str] = []


async def cancel_many(
    session: Session,
    ids: Sequence[str] = (),
    *,
    text: str = "",
    conversation_id: str = "",
    target: str = "",
    label: str = "",
    due_from: Moment | datetime | None = None,
    due_to: Moment | datetime | None = None,
    reason: str = "",
    dry_run: bool = False,
) -> Cancelled:
    """Cancel the alarms with these ids or keys, or every pending one that fits; with `dry_run` only say which.

    >>> [one.id == alarm.id for one in (await alarms.cancel_many(text="grant", dry_run=True)).alarms]
    [True]

    `text`: part of the label, the message or the key. One that is not found, and nothing is cancelled.
    `due_from`, `due_to`: only what fires then, as moments or phrases: "tomorrow" from its beginning, or to its end. A
    series is not cancelled for that: it leaves out what falls within, and goes on.
    """
    check_text("reason", reason, TEXT_LIMIT)
    filters = {"text": text, "conversation_id": conversation_id, "target": target, "label": label}
    chosen = await choose(session, ids, filters, due_from, due_to)
    if chosen.due_from is not None and chosen.due_to is None:
        fix = 'Give it too, such as "tomorrow": a series leaves out what fires until then.'
        raise InvalidRequest("it is missing beside due_from", field="due_to", fix=fix)
    waiting = await _with_waiting_wakes(session) if not chosen.ids and not chosen.has_range else ()
    return await cancel_chosen(session, chosen, waiting, reason=reason, dry_run=dry_run)


async def cancel_everything(session: Session) -> int:
    """Cancel every pending alarm and every alarm with a wake in the inbox; return how many.

    >>> await alarms.reset()
    1
    """
    pending = AlarmQuery(owner=session.caller.owner, statuses=PENDING, limit=PAGE)
    count = await _cancel_all(session, pending, reason="reset")
    return count + await _cancel_waiting(session, lambda _: True, reason="reset")


async def cancel_chain(session: Session, root_id: str) -> int:
    """Cancel an alarm and all alarms that were set because of its wakes; return how many.

    >>> next_alarm = await alarms.set("in 1 hour", "Check again", parent_fire=wake.fire.id)
    >>> await alarms.cancel_chain(wake.alarm.id)
    1

    The alarm may be named as in `get`. Wakes of the chain that somebody is working on set no more alarms.
    """
    store, owner = session.service.store, session.caller.owner
    if root_id and not is_id(root_id):
        with suppress(NotFound):  # said below, where a chain can be known by other alarms of it
            root_id = (await get_alarm(session, root_id)).id
    chain = AlarmQuery(owner=owner, root_id=root_id, statuses=PENDING, limit=PAGE)
    root = await store.get(root_id, owner=owner)
    # Without a name the query would find every alarm there is.
    members = [root] if root is not None else []
    if root_id and root is None:
        members = await store.find(replace(chain, statuses=(), limit=1))
    if not members:
        raise NotFound(f"there is no chain {root_id!r}", field="root_id", fix="Give the root_id of one of its alarms.")
    reason = "chain cancelled"
    # First, so that nothing is set behind what is cancelled here: no wake of it that somebody has sets any more.
    await write_change(
        session,
        members[0].id,
        lambda alarm, _fire, _, now: cancelled_chain(alarm, root_id, now=now, by=session.caller.name),
    )
    is_pending = root is not None and not root.finished
    if is_pending:
        await cancel_alarm(session, root_id, reason=reason)
    count = is_pending + await _cancel_all(session, chain, reason=reason)
    return count + await _cancel_waiting(session, lambda alarm: root_id in (alarm.id, alarm.root_id), reason=reason)


async def _cancel_all(session: Session, query: AlarmQuery, *, reason: str) -> int:
    count = 0
    while alarms := await session.service.store.find(query):
        for alarm in alarms:
            await cancel_alarm(session, alarm.id, reason=reason)
        count += len(alarms)
    return count


async def _cancel_waiting(session: Session, chosen: Callable[[Alarm], bool], *, reason: str) -> int:
    """Cancel alarms whose wake still waits in the inbox: their owner has not seen it yet."""
    count, owner = 0, session.caller.owner
    for id in await _with_waiting_wakes(session):
        alarm = await session.service.store.get(id, owner=owner)
        if alarm is not None and chosen(alarm):
            await cancel_alarm(session, id, reason=reason)
            count += 1
    return count


async def _with_waiting_wakes(session: Session) -> set[str]:
    waiting = FireQuery(owner=session.caller.owner, statuses=("waiting",))
    return {fire.alarm_id for fire in await all_fires(session, waiting)}


async def choose(
    session: Session,
    ids: Sequence[str],
    filters: dict[str, str],
    due_from: Moment | datetime | None,
    due_to: Moment | datetime | None,
    *,
    everything: bool = False,
) -> Chosen:
    """Which alarms a caller means. A day that is named alone is the whole of it, in the owner's zone."""
    for name, value in filters.items():
        check_text(name, value, TEXT_LIMIT)
    own = await session.service.owner_settings.of(session.caller.owner)
    now = await session.service.now()

    def read(value: Moment | datetime | None, field: str, bare_day: time) -> datetime | None:
        if value in (None, ""):
            return None
        order, zone = own.date_order, own.timezone
        return said_moment(value, field, timezone=zone, now=now, date_order=order, bare_day=bare_day)

    starts, ends = read(due_from, "due_from", time()), read(due_to, "due_to", _END_OF_DAY)
    if starts is not None and ends is not None and ends < starts:
        raise InvalidRequest(f"it is before {starts.isoformat()}", field="due_to", fix="Give a later moment.")
    return Chosen(ids=tuple(ids), due_from=starts, due_to=ends, everything=everything, **filters)


async def cancel_chosen(
    session: Session, chosen: Chosen, waiting: Collection[str], *, reason: str, dry_run: bool
) -> Cancelled:
    """`waiting`: the ids of alarms with a wake in the inbox that nobody has fetched."""
    # All are found before the first is cancelled: a name that fits nothing changes nothing.
    found = await chosen_alarms(session, chosen, waiting)
    notes = await _notes_on_earlier(session, chosen) if chosen.has_range else []
    series = sum(alarm.kind == "cron" for alarm in found) if chosen.has_range else 0
    if dry_run:
        return Cancelled(alarms=found, dry_run=True, skipped=series, notes=notes)
    done = [await _cancelled(session, alarm, chosen, reason) for alarm in found]
    in_flight = sum(one.in_flight for one in done)
    return Cancelled(alarms=[one.alarm for one in done], in_flight=in_flight, skipped=series, notes=notes)


async def _cancelled(session: Session, alarm: Alarm, chosen: Chosen, reason: str) -> Changed:
    """Cancel it; of a series, where a time was named, only what falls within: its next fire, or all to the end."""
    if alarm.kind == "once" or not chosen.has_range:
        return await cancel_alarm(session, alarm.id, reason=reason)
    ends, then = chosen.due_to or alarm.next_fire_at, await _after(alarm, alarm.next_fire_at)
    if then is None or then > ends:
        return await skip_fire(session, alarm.id, at=alarm.next_fire_at)
    if await _after(alarm, ends) is None:
        return await cancel_alarm(session, alarm.id, reason=reason)
    return await snooze_alarm(session, alarm.id, until=ends + _MS)


async def _notes_on_earlier(session: Session, chosen: Chosen) -> list[str]:
    """Series that fire within the range and also before it: their next fire is another one, and they are left alone."""
    if (starts := chosen.due_from) is None:
        return []
    found = await chosen_alarms(session, replace(chosen, due_from=None, due_to=starts - _MS), ())
    series = [alarm for alarm in found if alarm.kind == "cron"][:_EARLIER]
    ends = chosen.due_to
    hit = [alarm.id for alarm in series if (at := await _after(alarm, starts - _MS)) and (ends is None or at <= ends)]
    if not hit:
        return []
    what = f"{len(hit)} series fire then" if len(hit) > 1 else "1 series fires then"
    return [f"{what}, but also before that, and stays as it is: {', '.join(hit[:3])}."]


async def _after(alarm: Alarm, moment: datetime) -> datetime | None:
    work = partial(following, alarm, moment)
    return await in_thread(work) if is_rule(alarm.cron_expr) else work()


async def chosen_alarms(session: Session, chosen: Chosen, waiting: Collection[str]) -> list[Alarm]:
    return await _named(session, chosen.ids) if chosen.ids else await _that_fit(session, chosen, waiting)


async def _named(session: Session, ids: Sequence[str]) -> list[Alarm]:
    return list({alarm.id: alarm for alarm in [await get_alarm(session, id) for id in ids]}.values())


async def _that_fit(session: Session, chosen: Chosen, waiting: Collection[str]) -> list[Alarm]:
    store, owner = session.service.store, session.caller.owner
    filters = chosen.filters
    if session.caller.wake is not None:
        filters["root_id"] = session.caller.wake.root_id
    found: dict[str, Alarm] = {}
    cursor = None
    while True:
        asked = AlarmQuery(owner=owner, cursor=cursor, limit=PAGE, look_at=ROWS_A_READ, **filters)
        page = await store.find(asked)
        found |= {alarm.id: alarm for alarm in page if chosen.is_due_then(alarm)}
        if (cursor := page.further) is None:
            break
    # A one-shot whose wake nobody has fetched has fired, but not for its owner.
    for id in set(waiting) - set(found):
        alarm = await store.get(id, owner=owner)
        if alarm is not None and chosen.fits(alarm) and session.caller.reaches(alarm):
            found[id] = alarm
    return list(found.values())

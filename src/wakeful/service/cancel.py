"""Cancel many alarms in one call: those that are named, or all that fit; or only say which it would be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from wakeful.errors import InvalidRequest, NotFound
from wakeful.model.alarm import PENDING, Alarm
from wakeful.rules.create import TEXT_LIMIT, check_text
from wakeful.rules.lineage import cancelled_chain
from wakeful.service.change import cancel_alarm, write_change
from wakeful.service.core import Session
from wakeful.service.resolving import PAGE, all_fires, get_alarm, is_id
from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.filters import ROWS_A_READ

NAMED_AT_ONCE: Final = 100


class Chosen(Struct, frozen=True, kw_only=True):
    """Which alarms: those named by `ids` (ids, keys or beginnings of ids), or all pending ones that fit the rest."""

    ids: tuple[str, ...] = ()
    text: str = ""
    conversation_id: str = ""
    target: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        filters = any(value for name, value in asdict(self).items() if name != "ids")
        if bool(self.ids) == filters:
            what = "both ids and filters were given" if filters else "it is not said which"
            fix = "Give ids, or some of text, conversation_id, target and label."
            raise InvalidRequest(what, field="ids", fix=fix)
        if len(self.ids) > NAMED_AT_ONCE:
            raise InvalidRequest(f"{len(self.ids)} are too many", field="ids", fix=f"Give at most {NAMED_AT_ONCE}.")

    def fits(self, alarm: Alarm) -> bool:
        """Whether the filters fit, as a search of the store judges."""
        if self.conversation_id not in ("", alarm.conversation_id) or self.target not in ("", alarm.target):
            return False
        text = self.text.casefold()
        told = (alarm.label, alarm.wake_message, alarm.idempotency_key)
        return self.label in ("", alarm.label) and any(text in one.casefold() for one in told)


class Cancelled(Struct, frozen=True, kw_only=True):
    """The alarms that were cancelled; with `dry_run`, those that would be. `in_flight`: whose attempt may arrive."""

    alarms: list[Alarm]
    dry_run: bool = False
    in_flight: int = 0


async def cancel_many(
    session: Session,
    ids: Sequence[str] = (),
    *,
    text: str = "",
    conversation_id: str = "",
    target: str = "",
    label: str = "",
    reason: str = "",
    dry_run: bool = False,
) -> Cancelled:
    """Cancel the alarms with these ids or keys, or every pending one that fits; with `dry_run` only say which.

    >>> [one.id == alarm.id for one in (await alarms.cancel_many(text="grant", dry_run=True)).alarms]
    [True]

    `text`: part of the label, the message or the key. One that is not found, and nothing is cancelled.
    """
    said = {"text": text, "conversation_id": conversation_id, "target": target, "label": label, "reason": reason}
    for name, value in said.items():
        check_text(name, value, TEXT_LIMIT)
    chosen = Chosen(ids=tuple(ids), text=text, conversation_id=conversation_id, target=target, label=label)
    waiting = await _with_waiting_wakes(session) if not chosen.ids else ()
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


async def cancel_chosen(
    session: Session, chosen: Chosen, waiting: Collection[str], *, reason: str, dry_run: bool
) -> Cancelled:
    """`waiting`: the ids of alarms with a wake in the inbox that nobody has fetched."""
    # All are found before the first is cancelled: a name that fits nothing changes nothing.
    found = await _named(session, chosen.ids) if chosen.ids else await _that_fit(session, chosen, waiting)
    if dry_run:
        return Cancelled(alarms=found, dry_run=True)
    done = [await cancel_alarm(session, alarm.id, reason=reason) for alarm in found]
    return Cancelled(alarms=[one.alarm for one in done], in_flight=sum(one.in_flight for one in done))


async def _named(session: Session, ids: Sequence[str]) -> list[Alarm]:
    return list({alarm.id: alarm for alarm in [await get_alarm(session, id) for id in ids]}.values())


async def _that_fit(session: Session, chosen: Chosen, waiting: Collection[str]) -> list[Alarm]:
    store, owner = session.service.store, session.caller.owner
    filters: dict[str, Any] = {name: value for name, value in asdict(chosen).items() if name != "ids"}
    if session.caller.wake is not None:
        filters["root_id"] = session.caller.wake.root_id
    found: dict[str, Alarm] = {}
    cursor = None
    while True:
        asked = AlarmQuery(owner=owner, statuses=PENDING, cursor=cursor, limit=PAGE, look_at=ROWS_A_READ, **filters)
        page = await store.find(asked)
        found |= {alarm.id: alarm for alarm in page}
        if (cursor := page.further) is None:
            break
    # A one-shot whose wake nobody has fetched has fired, but not for its owner.
    for id in set(waiting) - set(found):
        alarm = await store.get(id, owner=owner)
        if alarm is not None and chosen.fits(alarm) and session.caller.reaches(alarm):
            found[id] = alarm
    return list(found.values())

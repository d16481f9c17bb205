"""Manual fires: "Fire now" stores a one-shot copy, and its fire is told as one of the alarm that it copies."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from wakeful.alarm import Alarm, Fire
from wakeful.store import AlarmQuery, FireQuery, Matches, Store

LOOKED_AT: Final = 500  # the newest alarms of a chain, among which an alarm's copies are looked for


async def copies_of(store: Store, alarm: Alarm) -> list[Alarm]:
    """The copies of an alarm by which it was fired, newest first."""
    root = alarm.root_id or alarm.id
    chain = await store.find(AlarmQuery(owner=alarm.owner_did, root_id=root, limit=LOOKED_AT))
    return [one for one in chain if one.policy.manual_of == alarm.id]


async def fires_of(store: Store, copies: list[Alarm]) -> list[Fire]:
    """What has become of these copies. One that was snoozed has two fires: the first, and the one to come."""
    keys = {(one.id, at) for one in copies for at in (one.fire_at, one.occurrence_at) if at is not None}
    return list((await store.fires_at([*keys])).values()) if keys else []


def without_copies(page: Matches[Alarm]) -> Matches[Alarm]:
    """The alarms of a page but for the copies, which are told as fires of their alarms."""
    return Matches((one for one in page if one.policy.manual_of is None), page.further)


async def with_manual(store: Store, id: str, query: FireQuery, page: Matches[Fire]) -> Matches[Fire]:
    """A page of an alarm's fires, with its manual fires among them: those whose `alarm_id` is another."""
    alarm = await store.get(id, owner=query.owner)
    if alarm is None:
        return page
    manual = [one for one in await fires_of(store, await copies_of(store, alarm)) if _fits(one, query)]
    if page.further is not None:  # what is earlier comes with the pages to follow
        manual = [one for one in manual if _place(one) >= page.further]
    if not manual:
        return page
    found = sorted([*page, *manual], key=_place, reverse=True)
    if len(found) <= query.limit:
        return Matches(found, page.further)
    return Matches(found[: query.limit], _place(found[query.limit - 1]))


def _place(fire: Fire) -> tuple[datetime, str]:
    return fire.scheduled_for, fire.alarm_id


def _fits(fire: Fire, query: FireQuery) -> bool:
    return (
        (not query.statuses or fire.status in query.statuses)
        and query.target in ("", fire.target)
        and (query.since is None or fire.scheduled_for >= query.since)
        and (query.until is None or fire.scheduled_for < query.until)
        and (query.cursor is None or _place(fire) < query.cursor)
    )

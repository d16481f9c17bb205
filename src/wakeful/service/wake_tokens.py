"""Who acts with the token of a wake: found in the alarm and the fire that it names; nothing is kept for it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from wakeful.alarm import Alarm, Fire, parse_fire_id, reports_under
from wakeful.alarm.lineage import CHAIN_CANCELLED
from wakeful.alarm.wake_token import begun_at, fire_named, is_wake_token_of, why_not_good
from wakeful.errors import Unauthorized
from wakeful.service.caller import WakeOrigin
from wakeful.store import EventQuery, ReportKeys, Store

_FIX: Final = "Use the token of a wake that came since, or a token of the owner."


async def wake_behind(store: Store, token: str, *, lasts: timedelta) -> tuple[str, WakeOrigin]:
    """Return the owner and the wake that a token speaks for, or raise Unauthorized."""
    fire_id, keys = fire_named(token), await store.access.report_keys()
    is_current = bool(fire_id) and is_wake_token_of(token, keys.current, fire_id)
    retired_at = None if is_current else _retired_at(keys, token, fire_id)
    if not is_current and retired_at is None:
        raise Unauthorized("this is not the token of a wake", field="Authorization", fix=_FIX)
    # Only now is anything looked up: who makes a token up learns nothing of what there is.
    key = alarm_id, occurrence = parse_fire_id(fire_id)
    alarm = await store.get(alarm_id)
    fire = (await store.fires_at([key])).get(key)
    now = await store.now()
    if alarm is None:
        raise _ended("the alarm of its wake is gone")
    if retired_at is not None and not reports_under(retired_at, fire, now=now):
        raise _ended("the key it was made with was replaced")
    if why := why_not_good(alarm, fire, occurrence, lasts=lasts, now=now):
        raise _ended(why)
    if why := await _why_chain_ended(store, alarm, fire):
        raise _ended(why)
    return alarm.owner_did, WakeOrigin(fire_id, alarm.root_id or alarm.id)


async def check_chain(store: Store, fire_id: str) -> None:
    """Raise Unauthorized where the chain of a wake was cancelled, or the alarm of that wake."""
    key = alarm_id, _ = parse_fire_id(fire_id)
    alarm = await store.get(alarm_id)
    if alarm is None or alarm.status == "cancelled":
        raise _ended("the alarm of its wake was cancelled")
    if why := await _why_chain_ended(store, alarm, (await store.fires_at([key])).get(key)):
        raise _ended(why)


async def _why_chain_ended(store: Store, alarm: Alarm, fire: Fire | None) -> str:
    """Return why a wake sets no more alarms in its chain; nothing if it does.

    Who cancels a chain also means the wakes of it that somebody is working on. Wakes that begin after that come from an
    alarm that its owner has set, replaced or retried since: these are not meant.
    """
    root_id = alarm.root_id or alarm.id
    root = await store.get(root_id) if alarm.root_id else None
    if root is not None and root.status == "cancelled":
        return "the alarm that its chain began with was cancelled"
    cancelled = await store.events(EventQuery(alarm_id=root_id, what=CHAIN_CANCELLED, latest=True, limit=1))
    return "its chain was cancelled" if cancelled and begun_at(alarm, fire) <= cancelled[0][1].at else ""


def _retired_at(keys: ReportKeys, token: str, fire_id: str) -> datetime | None:
    """When the earlier key was replaced that a token was made with; None if it was made with none of them."""
    made = (old.retired_at for old in keys.retired if fire_id and is_wake_token_of(token, old.key, fire_id))
    return next(made, None)


def _ended(why: str) -> Unauthorized:
    return Unauthorized(f"this token of a wake is not good any more: {why}", field="Authorization", fix=_FIX)

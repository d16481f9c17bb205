"""Which alarm or fire is meant. An alarm is named by its id, its key, or the beginning of its id if only one fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from wakeful.errors import Conflict, NotFound
from wakeful.model.alarm import Alarm, Fire, parse_fire_id
from wakeful.service.core import Session
from wakeful.store import FireQuery, Store

SHORTEST: Final = 4  # signs of an id that are enough, where only one alarm has them
PAGE: Final = 500
NAMED: Final = 5  # candidates that are shown
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_BEGINNING: Final = re.compile(r"[0-9a-f\-]{4,36}")


async def resolve(store: Store, text: str, *, owner: str, reaches: Callable[[Alarm], bool] = lambda _: True) -> Alarm:
    """The alarm that is meant; NotFound, or Conflict with the candidates. A whole id costs one read, as ever.

    `reaches`: which alarms of the owner may be found.
    """
    if is_id(text):
        alarm = await store.get(text, owner=owner)
        found = [alarm] if alarm is not None else []
    else:
        both = await store.named(owner, [text], between=_range(text.lower()), limit=NAMED + 1)
        found = list({alarm.id: alarm for alarm in both}.values())  # one may be found by its id and by its key
    found = [alarm for alarm in found if reaches(alarm)]
    if not found:
        raise NotFound(f"there is no alarm {text!r}", field="id")
    if len(found) > 1:
        named = ", ".join(f"{alarm.id} ({alarm.label or alarm.wake_message[:30]})" for alarm in found[:NAMED])
        more = " and more" if len(found) > NAMED else ""
        raise Conflict(f"{text!r} may be any of {named}{more}", field="id", fix="Give more of the id.")
    return found[0]


def is_id(text: str) -> bool:
    return len(text) == 36 and _ID.fullmatch(text) is not None


def _range(beginning: str) -> tuple[str, str] | None:
    """The first and the last id that begin so; None where no id does."""
    if len(beginning) < SHORTEST or not _BEGINNING.fullmatch(beginning):
        return None
    low = beginning + "00000000-0000-0000-0000-000000000000"[len(beginning) :]
    return (low, beginning + "ffffffff-ffff-ffff-ffff-ffffffffffff"[len(beginning) :]) if _ID.fullmatch(low) else None


async def get_alarm(session: Session, id: str) -> Alarm:
    """Return an alarm by its id, its key, or the beginning of its id if only one begins so, as in every verb.

    Raises NotFound if there is none, or it belongs to another owner.

    >>> (await alarms.get(alarm.id)).wake_message
    'Check the grant portal'
    """
    return await resolve(session.service.store, id, owner=session.caller.owner, reaches=session.caller.reaches)


async def fire_key(session: Session, fire_id: str) -> tuple[str, datetime]:
    """A fire's alarm and occurrence; its alarm may be named as `get` takes it."""
    alarm_id, occurrence = parse_fire_id(fire_id)
    return alarm_id if is_id(alarm_id) else (await get_alarm(session, alarm_id)).id, occurrence


async def get_fire(session: Session, fire_id: str) -> Fire:
    """Return one fire of an alarm, by the id that its wake carries.

    >>> (await alarms.fire_of(wake.fire.id)).status
    'delivered'
    """
    alarm_id, occurrence = await fire_key(session, fire_id)
    fire = (await session.service.store.fires_at([(alarm_id, occurrence)])).get((alarm_id, occurrence))
    if fire is None or session.caller.owner not in ("", fire.owner_did):
        raise NotFound(f"there is no fire {fire_id!r}", field="fire_id")
    if session.caller.wake is not None:
        await get_alarm(session, fire.alarm_id)  # found only where it is of the wake's chain
    return fire


async def all_fires(session: Session, query: FireQuery) -> list[Fire]:
    found: list[Fire] = []
    page = replace(query, limit=PAGE)
    while True:
        fires = await session.service.store.fires(page)
        found += fires
        if len(fires) < PAGE:
            return found
        page = replace(page, cursor=(fires[-1].scheduled_for, fires[-1].alarm_id))

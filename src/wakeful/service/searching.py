"""Lists for people, who rather hear soon that nothing was found yet than wait until everything was looked through.

`further` says where to go on, also where a page is not full or empty.
"""

from __future__ import annotations

from typing import Any, Final

from wakeful.alarm import ALARM_STATUSES, FIRE_STATUSES, Alarm, Fire
from wakeful.alarm.arguments import accepted
from wakeful.service.alarms import Alarms
from wakeful.service.history import History, HistoryEntry
from wakeful.service.manual_fires import without_copies
from wakeful.store import AlarmQuery, FireQuery, Matches

LOOKED_AT: Final = 20_000  # rows of an owner, by an index, whether they fit or not
READ: Final = 3_000  # of these where a text is looked for: each is read in full


async def alarms_like(alarms: Alarms, *, limit: int, most: int, **filters: Any) -> Matches[Alarm]:
    """As `Alarms.find`, among the next LOOKED_AT alarms."""
    filters["statuses"] = accepted("status", filters.pop("status", ()), ALARM_STATUSES)
    look_at = READ if filters.get("text") else LOOKED_AT
    query = AlarmQuery(owner=alarms.caller.owner, limit=limit, most=most, look_at=look_at, **filters)
    return without_copies(await alarms.service.store.find(query))


async def fires_like(alarms: Alarms, *, limit: int, most: int, **filters: Any) -> Matches[Fire]:
    """As `Alarms.fires`, among the next LOOKED_AT fires."""
    filters["statuses"] = accepted("status", filters.pop("status", ()), FIRE_STATUSES)
    query = FireQuery(owner=alarms.caller.owner, limit=limit, most=most, look_at=LOOKED_AT, **filters)
    return await alarms.service.store.fires(query)


async def latest_fires(alarms: Alarms, *, limit: int) -> Matches[HistoryEntry]:
    """What fired last, with the words of its alarm. `Alarms.history` tells the newest alarms among them."""
    return await History(alarms.service.store).latest(owner=alarms.caller.owner, limit=limit)

"""What a caller should know about an alarm besides its fields.

An assumed zone, moved times, how often a series wakes, a target nobody serves: said by every door, in `notes`, while
whoever set the alarm can still do something about it.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from wakeful.alarm import Alarm
from wakeful.alarm.budget import wake_notes
from wakeful.alarm.request import EditRequest
from wakeful.errors import InvalidSchedule, StoreUnavailable
from wakeful.schedule import parse, zone
from wakeful.schedule.remarks import remarks
from wakeful.schedule.zones import by_zone_rules
from wakeful.service.assumed_zone import ASSUMED, moment_depends_on_zone, series_depends_on_zone

if TYPE_CHECKING:
    from wakeful.service.verbs import Alarms

# Words that can be remarked on: weekdays, and dates that elsewhere are read the other way round.
_DOUBTED: Final = re.compile(
    r"\b(?:sun|mon|tue|wed|thu|fri|sat|[0-9]{1,2}(?:/[0-9]|[.\-][0-9]{1,2}[.\-]))", re.IGNORECASE
)
DUE_LOOKED_AT: Final = 100
_WEIGHT: Final = 1_000_000  # characters of rows that are read for it
_MS: Final = timedelta(milliseconds=1)
_CHANGE_WITHIN: Final = timedelta(hours=25)


async def notes_on(alarms: Alarms, alarm: Alarm, asked: EditRequest | None = None) -> list[str]:
    """The notes on an alarm as it is now. `asked`: the request that it has its time from, if that was just made."""
    if alarm.finished:
        return []
    date_order = alarms.service.defaults.date_order
    found = [*_assumed_zone(alarms, alarm, asked), *_remarks(alarm, asked, date_order)]
    if alarm.status != "active":
        return found
    if alarm.kind == "cron":
        found += wake_notes(alarm, alarms.service.budget.limits_of(alarm.owner_did))
    try:
        if not await alarms.service.targets.is_served(alarm.target):
            found.append(f"No running worker serves {alarm.target!r} yet: start one with `wakeful serve`.")
    except StoreUnavailable:  # what was done is done: it is told all the same
        pass
    return found


async def due_notes(alarms: Alarms, target: str = "") -> list[str]:
    """What is due for an owner and not delivered yet, of one target or of all; nothing where all is well."""
    store, now = alarms.service.store, await alarms.service.store.now()
    due = await store.agenda(owner=alarms.caller.owner, until=now + _MS, limit=DUE_LOOKED_AT, most=_WEIGHT)
    found: list[str] = []
    for name in sorted({alarm.target for alarm in due if target in ("", alarm.target)}):
        late = [alarm for alarm in due if alarm.target == name]
        what = f"{len(late)} alarms are" if len(late) > 1 else "1 alarm is"
        since = f"{what} due for {name!r}, the first since {late[0].next_fire_at.isoformat()}"
        if await alarms.service.targets.is_served(name):
            found.append(f"{since}, and about to be delivered.")
        else:
            found.append(f"{since}, but no running worker delivers there (`wakeful serve`).")
    return found


def _assumed_zone(alarms: Alarms, alarm: Alarm, asked: EditRequest | None) -> list[str]:
    usual = alarms.service.defaults
    if asked is None or asked.timezone or not (asked.when or asked.cron_expr) or alarm.timezone != usual.timezone:
        return []
    if alarm.kind == "cron":
        depends = series_depends_on_zone(alarm.cron_expr)
    else:
        depends = moment_depends_on_zone(asked.when or "", alarm.timezone, alarm.fire_at, alarm.updated_at, usual)
    return [ASSUMED.format(usual.timezone)] if depends else []


def _remarks(alarm: Alarm, asked: EditRequest | None, date_order: str) -> list[str]:
    """What the clocks of its zone do to its times, and which of two days or dates was meant."""
    if alarm.kind == "cron":
        return list(_remarks_of(alarm.cron_expr, alarm.timezone, alarm.updated_at.date()))
    if asked is None or not asked.when or not (_DOUBTED.search(asked.when) or _is_near_a_change(alarm)):
        return []
    try:
        return list(parse(asked.when, timezone=alarm.timezone, now=alarm.updated_at, date_order=date_order).remarks)
    except InvalidSchedule:  # a time of day that was joined to the alarm's own day
        return []


@by_zone_rules(maxsize=1024)
def _remarks_of(cron_expr: str, timezone: str, day: date) -> tuple[str, ...]:
    """What clock changes do to a rhythm within a year of a day: many alarms of a day have the same."""
    return remarks(cron_expr, timezone, datetime.combine(day, time(), UTC))


def _is_near_a_change(alarm: Alarm) -> bool:
    """Whether the clocks of its zone change about then; reading a phrase again for nothing would slow every create."""
    if alarm.fire_at is None:
        return False
    around = (alarm.fire_at - _CHANGE_WITHIN, alarm.fire_at + _CHANGE_WITHIN)
    before, after = (moment.astimezone(zone(alarm.timezone)).utcoffset() for moment in around)
    return before != after

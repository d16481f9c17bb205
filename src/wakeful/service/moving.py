"""Move many alarms in one call: by a length of time, or to another time zone; or only say which it would be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from wakeful.errors import InvalidRequest, WakefulError
from wakeful.model.alarm import Alarm
from wakeful.model.requests import EditRequest, Moment, Span
from wakeful.rules.wanted import span
from wakeful.schedule import given_zone, zone
from wakeful.service.answers import Changed
from wakeful.service.cancel import choose, chosen_alarms
from wakeful.service.change import edit_alarm, snooze_alarm
from wakeful.service.core import Session

REFUSALS_TOLD: Final = 10
_DAY: Final = timedelta(days=1)


class Moved(Struct, frozen=True, kw_only=True):
    """The alarms that were moved; with `dry_run`, those that would be. `in_flight`: whose attempt may still arrive.

    `notes`: which were not moved, and why.
    """

    alarms: list[Alarm]
    dry_run: bool = False
    in_flight: int = 0
    notes: list[str] = []


async def move_many(
    session: Session,
    ids: Sequence[str] = (),
    *,
    by: Span | timedelta | None = None,
    timezone: str = "",
    text: str = "",
    conversation_id: str = "",
    target: str = "",
    label: str = "",
    due_from: Moment | datetime | None = None,
    due_to: Moment | datetime | None = None,
    everything: bool = False,
    dry_run: bool = False,
) -> Moved:
    """Move the next fire of alarms `by` a length of time, or the alarms to another `timezone`.

    >>> [one.id == alarm.id for one in (await alarms.move_many(due_to="tomorrow", by="1d", dry_run=True)).alarms]
    [True]

    Which: those with these ids or keys, those that fit, or `everything` that is pending. `due_from` and `due_to` are
    moments or phrases: "tomorrow" is from its beginning, or to its end. Whole days keep the time of day, and of a
    series only the next fire moves. In another zone a series keeps its time of day, and what fires once its moment.
    """
    if (by is None) == (not timezone):
        raise InvalidRequest("give exactly one of by and timezone", field="by", fix='For example by: "1d".')
    length = None if by is None else span(by, "by")
    zone_name = given_zone(timezone) if timezone else ""
    filters = {"text": text, "conversation_id": conversation_id, "target": target, "label": label}
    chosen = await choose(session, ids, filters, due_from, due_to, everything=everything)
    found = await chosen_alarms(session, chosen, ())
    if length is not None and not chosen.ids:
        found = [alarm for alarm in found if alarm.status == "active"]
    if dry_run:
        return Moved(alarms=found, dry_run=True)
    moved, refused = [], []
    for alarm in found:
        try:
            moved.append(await _moved(session, alarm, length, zone_name))
        except WakefulError as error:
            if len(ids) == 1:
                raise
            refused.append(f"{alarm.id} was not moved: {error}")
    notes = refused[:REFUSALS_TOLD]
    notes += [f"{len(refused) - REFUSALS_TOLD} more were not moved."] * (len(refused) > REFUSALS_TOLD)
    return Moved(alarms=[one.alarm for one in moved], in_flight=sum(one.in_flight for one in moved), notes=notes)


async def _moved(session: Session, alarm: Alarm, by: timedelta | None, timezone: str) -> Changed:
    if by is None:
        return await edit_alarm(session, alarm.id, EditRequest(timezone=timezone))
    at = later(alarm, by)
    if alarm.kind == "cron":
        return await snooze_alarm(session, alarm.id, until=at)
    return await edit_alarm(session, alarm.id, EditRequest(fire_at=at.isoformat()), version=alarm.version)


def later(alarm: Alarm, by: timedelta) -> datetime:
    """When it fires that much later: whole days by the clocks of its zone, everything else as time passes."""
    if by % _DAY:
        return alarm.next_fire_at + by
    return (alarm.next_fire_at.astimezone(zone(alarm.timezone)) + by).astimezone(UTC)

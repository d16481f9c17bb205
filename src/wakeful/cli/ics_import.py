"""Take over the events of a calendar file: their alarms are set, updated or cancelled, each event at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidRequest, UnknownTarget
from wakeful.transfer.ics import KEYS

if TYPE_CHECKING:
    from wakeful.alarm import Alarm
    from wakeful.service import Alarms
    from wakeful.transfer.ics import FoundEvent

# What becomes of an event, in the order in which the answer counts it.
WOULD, SET, UPDATED, THERE = "would be set", "set", "updated", "there already"
CANCELLED, PAST, LEFT = "cancelled", "past", "left out"
STATES: Final = (WOULD, SET, UPDATED, THERE, CANCELLED, PAST, LEFT)
_PAGE: Final = 500


class ImportedEvent(Struct, frozen=True):
    found: FoundEvent
    state: str
    ids: tuple[str, ...] = ()  # of its alarms


def tried(event: FoundEvent) -> ImportedEvent:
    """What would become of an event, as far as the file says it."""
    if event.reason:
        return ImportedEvent(event, LEFT)
    if event.is_cancelled and not event.alarms:
        return ImportedEvent(event, CANCELLED)
    return ImportedEvent(event, WOULD if event.coming else PAST)


async def import_events(clock: Alarms, found: Sequence[FoundEvent]) -> list[ImportedEvent]:
    """Do it. An event that is refused is left out with the reason, and the others are taken over."""
    waiting = await _waiting(clock)
    done: list[ImportedEvent] = []
    for event in found:
        if event.reason:
            done.append(ImportedEvent(event, LEFT))
            continue
        try:
            done.append(await _take_over(clock, event, waiting.get(event.key, [])))
        except UnknownTarget:
            raise
        except (InvalidRequest, Conflict) as error:
            done.append(ImportedEvent(replace(event, reason=str(error).rstrip("."), alarms=()), LEFT))
    return done


async def _waiting(clock: Alarms) -> dict[str, list[Alarm]]:
    """The alarms of earlier imports that still wait, by what the keys of their event begin with."""
    found: dict[str, list[Alarm]] = {}
    last: Alarm | None = None
    while page := await clock.find(status=("active", "paused"), text=KEYS, limit=_PAGE, cursor=last):
        for alarm in page:
            if alarm.idempotency_key.startswith(KEYS):
                found.setdefault(alarm.idempotency_key.rpartition(":")[0], []).append(alarm)
        last = page[-1]
    return found


async def _take_over(clock: Alarms, event: FoundEvent, waiting: Sequence[Alarm]) -> ImportedEvent:
    """Make the alarms here what the event says: all of them at once, before those that it has no more are cancelled."""
    known = {alarm.idempotency_key: alarm for alarm in waiting}
    for one in event.coming:
        if one.key not in known:  # fired or cancelled here since: that stays so, unless the event has changed
            known |= {alarm.idempotency_key: alarm for alarm in await clock.find(key=one.key, limit=1)}
    changed = [one for one in event.coming if one.key not in known or _revision(known[one.key]) != one.revision]
    same = {one.key for one in event.alarms if one.key in known and _revision(known[one.key]) == one.revision}
    wanted = {one.key for one in changed} | same
    gone = [alarm for alarm in waiting if alarm.idempotency_key not in wanted]
    answers = (
        await clock.create_many([replace(one.request, on_conflict="replace") for one in changed]) if changed else []
    )
    for alarm in gone:
        await clock.cancel(alarm.id)
    ids = (*(answer.alarm.id for answer in answers), *(known[key].id for key in same))
    return ImportedEvent(event, _state(event, had=bool(known), has_changed=bool(changed), has_gone=bool(gone)), ids)


def _state(event: FoundEvent, *, had: bool, has_changed: bool, has_gone: bool) -> str:
    if has_changed:
        return UPDATED if had else SET
    if event.is_cancelled or (has_gone and not event.coming):
        return CANCELLED
    if has_gone:
        return UPDATED
    return THERE if had else PAST


def _revision(alarm: Alarm) -> str:
    """The revision of its event that an alarm was set from; it may have got another payload since."""
    payload = alarm.payload
    return str(payload.get("revision", "")) if isinstance(payload, dict) else ""

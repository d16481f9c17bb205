"""Take back an owner's last change to an alarm: a cancel, a skip, a pause or an edit. Pure.

With each of these changes the store keeps what the alarm was before, as an event that no interface shows
(`Change.former`), the newest of an alarm only. So a change can be taken back once, while it is the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidRequest
from wakeful.model.alarm import FORMER, STEPPED_OVER, TASKS, Alarm, AlarmStatus, Change, Event, Fire
from wakeful.model.requests import Wanted
from wakeful.moments import whole_ms
from wakeful.rules.edit import change_of, left_behind, resume, taken_back, update
from wakeful.rules.lineage import RENEWED
from wakeful.rules.plan import advance, following
from wakeful.rules.rezone import REZONED
from wakeful.rules.signalling import SIGNALLED

UNDONE: Final = "undone"
UNDO_WITHIN: Final = timedelta(hours=24)
FORMER_LIMIT: Final = 64 * 1024  # characters of former values that are kept
VERBS: Final[Mapping[str, str]] = {"cancelled": "cancel", "skipped": "skip", "paused": "pause", "updated": "edit"}
# After one of these a change is no longer the last one. Other events say what happened, and change nothing.
CHANGES: Final = frozenset(
    {*VERBS, "resumed", "snoozed", "replaced", "retried", UNDONE, SIGNALLED, RENEWED, REZONED},
)
# Fields of an alarm that an edit does not set by itself: they follow from its time and its fires.
BOOKKEEPING: Final = frozenset(
    {
        *("id", "owner_did", "user_id", "idempotency_key", "created_at"),
        *("next_fire_at", "status", "failure_count", "last_error", "claimed_at", "updated_at", "last_fired_at"),
        *("occurrence_at", "claim", "unsettled", "version", "awaiting", "fire_count", "failed_in_a_row"),
        *("paused_reason", "cancelled_at"),
    }
)


class Former(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an alarm was before a change. `values`: the fields that an edit changed, as JSON has them."""

    what: str
    status: AlarmStatus
    occurrence_at: datetime
    next_fire_at: datetime
    at: datetime  # of the change
    values: dict[str, Any] = {}
    moved: bool = False  # the edit gave it another time
    was_tried: bool = False  # the occurrence had been attempted, or was in a worker's hands
    is_too_long: bool = False  # its values were not kept

    @property
    def verb(self) -> str:
        return VERBS[self.what]


def with_former(before: Alarm, change: Change | None) -> Change | None:
    """The change with what the alarm was before, where it is of a kind that can be taken back."""
    if change is None or not change.edited or not change.events or before.created_via == TASKS:
        return change
    if (what := change.events[0].what) not in VERBS:
        return change
    after = change.after
    names = [name for name in Alarm.__struct_fields__ if name not in BOOKKEEPING] if what == "updated" else []
    former = Former(
        what=what,
        status=before.status,
        occurrence_at=before.occurrence_at,
        next_fire_at=before.next_fire_at,
        at=after.updated_at,
        values={name: getattr(before, name) for name in names if getattr(before, name) != getattr(after, name)},
        moved=after.claim != before.claim,
        was_tried=before.failure_count > 0 or before.claimed_at is not None,
    )
    text = msgspec.json.encode(former).decode()
    if len(text) > FORMER_LIMIT:
        text = msgspec.json.encode(replace(former, values={}, is_too_long=True)).decode()
    event = Event(at=after.updated_at, what=FORMER, alarm_id=before.id, owner_did=before.owner_did, reason=text)
    return replace(change, former=event)


def last_change(events: Sequence[Event], *, now: datetime) -> Former:
    """What the last change left, from an alarm's events, newest first. Conflict where it cannot be taken back."""
    since: list[Event] = []
    for event in events:
        if event.what == FORMER:
            break
        if event.what in CHANGES:
            since.append(event)
    else:
        raise _nothing(since)
    if since:
        raise _nothing(since)
    if now - event.at > UNDO_WITHIN:
        raise Conflict(
            f"its last change was at {event.at.isoformat()}, and only the last 24 hours can be taken back",
            field="id",
            fix="Change it by an edit, or set it anew.",
        )
    return msgspec.json.decode(event.reason, type=Former)


def _nothing(since: Sequence[Event]) -> Conflict:
    fix = "Only the last change of an alarm can be taken back, once: a cancel, skip, pause or edit."
    if not since:
        return Conflict("there is no change of it to take back", field="id", fix=fix)
    if since[0].what == UNDONE:
        return Conflict(f"its last change was taken back already, at {since[0].at.isoformat()}", field="id", fix=fix)
    named = f" ({since[0].reason})" if since[0].reason else ""
    return Conflict(f"it was {since[0].what}{named} at {since[0].at.isoformat()}", field="id", fix=fix)


def undo(
    alarm: Alarm, fire: Fire | None, former: Former, *, now: datetime, by: str = "", wanted: Wanted | None = None
) -> Change:
    """Take a change back. `fire`: of the skipped occurrence for a skip, else of the current one.

    `wanted`: a new time, for a cancelled or edited alarm whose own has passed.
    """
    now = whole_ms(now)
    if wanted is not None and former.what in ("skipped", "paused"):
        raise InvalidRequest(
            f"a {former.verb} is taken back without a new time", field="when", fix="Leave it out; edit it afterwards."
        )
    change = _UNDO[former.what](alarm, fire, former, now, by, wanted)
    return _as_undone(alarm, change, former, by)


def _as_undone(before: Alarm, change: Change, former: Former, by: str) -> Change:
    reason = f"the {former.verb} of {former.at.isoformat()}"
    return change_of(before, change.after, UNDONE, by, reason, *change.fires)


def _uncancelled(
    alarm: Alarm, fire: Fire | None, former: Former, now: datetime, by: str, wanted: Wanted | None
) -> Change:
    base = replace(alarm, status="paused" if former.status == "paused" else "active", cancelled_at=None)
    if wanted is not None:
        return update(base, fire, wanted, now=now, by=by)
    is_ahead = alarm.next_fire_at > now and (fire is None or fire.status in STEPPED_OVER)
    after = taken_back(base, now)
    if is_ahead:
        return change_of(alarm, after, UNDONE, by, "")
    if alarm.kind == "cron":
        after = advance(after, now)
    if alarm.kind == "once" or after.status == "fired":
        raise _needs_time(alarm)
    return change_of(alarm, after, UNDONE, by, "", *left_behind(base, fire, "cancelled", now))


def _unpaused(alarm: Alarm, fire: Fire | None, former: Former, now: datetime, by: str, _: Wanted | None) -> Change:
    change = resume(alarm, fire, now=now, by=by)
    if change is None:
        raise Conflict(f"the alarm is {alarm.status}", field="id", fix="There is nothing to take back.")
    return replace(change, after=replace(change.after, failed_in_a_row=alarm.failed_in_a_row))


def _unskipped(alarm: Alarm, fire: Fire | None, former: Former, now: datetime, by: str, _: Wanted | None) -> Change:
    is_over = former.was_tried or former.next_fire_at <= now or _has_gone_on(alarm, former)
    if is_over or fire is None or fire.status != "skipped":
        raise Conflict(
            f"the skipped fire of {former.occurrence_at.isoformat()} is over",
            field="id",
            fix="To have it after all, fire the alarm now.",
        )
    if alarm.status not in ("active", "fired") or alarm.claimed_at is not None:
        raise Conflict(f"the alarm is {'being delivered' if alarm.claimed_at else alarm.status}", field="id")
    times = {"occurrence_at": former.occurrence_at, "next_fire_at": former.next_fire_at}
    after = replace(taken_back(alarm, now), status="active", **times)
    said = f"{fire.result}; taken back" + (f" by {by}" if by else "")
    return change_of(alarm, after, UNDONE, by, "", replace(fire, result=said, updated_at=now))


def _has_gone_on(alarm: Alarm, former: Former) -> bool:
    """Whether a later occurrence has fired since, though the skipped one is ahead: the clock was set back."""
    upcoming = following(alarm, former.next_fire_at)
    return alarm.occurrence_at != (former.occurrence_at if upcoming is None else upcoming)


def _unedited(alarm: Alarm, fire: Fire | None, former: Former, now: datetime, by: str, wanted: Wanted | None) -> Change:
    if former.is_too_long:
        raise Conflict("its former values were too long to be kept", field="id", fix="Change it by an edit.")
    if alarm.finished:
        raise Conflict(f"the alarm has ended since: it is {alarm.status}", field="id", fix="Set a new one.")
    restored = replace(alarm, **former_values(former))
    if wanted is not None:
        return update(restored, fire, wanted, now=now, by=by)
    if not former.moved:
        after = replace(restored, version=alarm.version + 1, updated_at=now)
        return change_of(alarm, after, UNDONE, by, "")
    times = {"occurrence_at": former.occurrence_at, "next_fire_at": former.next_fire_at}
    after = replace(taken_back(restored, now), **times)
    if former.was_tried or former.next_fire_at <= now:
        if restored.kind == "once":
            raise _needs_time(restored)
        after = advance(after, now)
    if after.status == "fired":
        raise _needs_time(restored)
    return change_of(alarm, after, UNDONE, by, "", *left_behind(alarm, fire, "superseded", now))


_UNDO: Final[Mapping[str, Callable[[Alarm, Fire | None, Former, datetime, str, Wanted | None], Change]]] = {
    "cancelled": _uncancelled,
    "paused": _unpaused,
    "skipped": _unskipped,
    "updated": _unedited,
}


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(Alarm)


def former_values(former: Former) -> dict[str, Any]:
    """The fields that an edit changed, as they were."""
    return {name: msgspec.convert(value, type=_types()[name]) for name, value in former.values.items()}


def _needs_time(alarm: Alarm) -> InvalidRequest:
    what = "its time has passed" if alarm.kind == "once" else "its series has no fire left"
    return InvalidRequest(f"{what}, so it needs a new one", field="when", fix='Give when, such as "in 1 hour".')

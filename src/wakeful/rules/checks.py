"""Decide what a look at a check means for a wake: it is sent, or skipped as nothing has changed. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import Alarm, Change, Event, Fire, SeenValue
from wakeful.model.outcome import Completed, Delivered, Outcome, Waiting
from wakeful.moments import whole_ms
from wakeful.rules.settle import skip

CHECK_FAILED: Final = "check_failed"
Found = Literal["first", "changed", "unchanged", "failed"]


class CheckFailed(Exception):
    """Why there is nothing to compare, in words for the owner of an alarm."""


class CheckLook(Struct, frozen=True, kw_only=True):
    """What a look at an alarm's check found. `value`: a digest of it; `error`: why there is none."""

    name: str
    found: Found
    value: str = ""
    error: str = ""


def check_gate(alarm: Alarm, known: Collection[str]) -> None:
    """Refuse `only_if` with a check that the operator has not defined, and where there is nothing to compare with."""
    name = alarm.policy.only_if
    if name is None:
        return
    if name not in known:
        fix = f"Known are: {', '.join(sorted(known))}." if known else "The operator has defined none ([checks.NAME])."
        raise InvalidRequest(f"there is no check {name[:120]!r}", field="policy.only_if", fix=fix)
    if alarm.kind == "once":
        raise InvalidRequest(
            "an alarm that fires once looks only once, and has nothing to compare with",
            field="policy.only_if",
            fix='Give a series, such as "every hour", or leave it out.',
        )


def look_at(name: str, value: str, known: str | None) -> CheckLook:
    """Compare a value with the one that the last wake has told of."""
    found: Found = "first" if known is None else "unchanged" if known == value else "changed"
    return CheckLook(name=name, found=found, value=value)


def keeps_back(alarm: Alarm, fire: Fire | None, look: CheckLook) -> bool:
    """Whether the wake is skipped. Not one that is tried again, nor one that somebody's signal asked for."""
    is_retry = alarm.failure_count > 0 or (fire is not None and fire.status == "retrying")
    is_asked_for = alarm.kind == "once" or alarm.signal_of(alarm.occurrence_at) is not None
    return look.found == "unchanged" and not is_retry and not is_asked_for


def unchanged(alarm: Alarm, look: CheckLook, *, now: datetime) -> Change:
    """Skip the wake, and what else of its series is overdue: nothing has changed since the last one."""
    change = skip(alarm, "unchanged", now=now)
    said = f"the check {look.name!r} found nothing new"
    return replace(change, fires=tuple(replace(fire, result=said) for fire in change.fires))


def with_look(change: Change, look: CheckLook, outcome: Outcome, *, at: datetime) -> Change:
    """The settlement of a wake that was sent after a look: what it told of counts as seen once it has arrived.

    A look that failed is on record.
    """
    if look.error:
        alarm = change.after
        reason = f"the check {look.name!r} failed, so the wake was sent: {look.error}"
        event = Event(at=whole_ms(at), what=CHECK_FAILED, alarm_id=alarm.id, owner_did=alarm.owner_did, reason=reason)
        return replace(change, events=(*change.events, event))
    if not isinstance(outcome, Completed | Delivered | Waiting):
        return change  # whoever was to hear of it has not: it counts as changed the next time too
    return replace(change, seen=SeenValue(name=look.name, value=look.value))

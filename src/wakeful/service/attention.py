"""What needs somebody: failures nobody has answered, alarms and targets that stand still, nobody at work. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from wakeful.alarm import Alarm
from wakeful.service.history import HistoryEntry
from wakeful.service.why import is_alive
from wakeful.store import TargetState, Worker

LATELY: Final = timedelta(days=3)  # what failed longer ago than this was seen, or does not matter any more
Repair = Literal["retry", "resume", "resume_target", "serve", ""]


class Need(Struct, frozen=True, kw_only=True):
    """Something that waits for a person. `repair`: what would mend it, and `id` what that is done to."""

    what: str  # failed, timed_out, paused, target_paused, target_down, nobody
    title: str
    said: str
    at: datetime | None = None
    alarm_id: str = ""
    repair: Repair = ""
    id: str = ""


def needs(
    failed: Sequence[HistoryEntry],
    paused: Sequence[Alarm],
    served: Mapping[str, Sequence[Worker]],
    states: Mapping[str, TargetState],
    *,
    pending: int,
    now: datetime,
) -> list[Need]:
    """The most pressing first. Of one alarm only its latest failure is shown: those before have the same cause."""
    found = [*_nobody(served, pending, now), *_targets(states)]
    seen: set[str] = set()
    for fire in failed:
        if fire.alarm_id in seen or now - fire.scheduled_for > LATELY:
            continue
        seen.add(fire.alarm_id)
        found.append(_failure(fire))
    found += [_paused(alarm) for alarm in paused if alarm.paused_reason and alarm.failed_in_a_row]
    return found


def _nobody(served: Mapping[str, Sequence[Worker]], pending: int, now: datetime) -> list[Need]:
    workers = [worker for each in served.values() for worker in each]
    if any(is_alive(worker, now) for worker in workers):
        return []
    waiting = f"; {pending} alarms wait" if pending else ""
    said = f"no dispatcher is running on this database{waiting}"
    return [Need(what="nobody", title="Nothing fires", said=said, repair="serve")]


def _targets(states: Mapping[str, TargetState]) -> list[Need]:
    found: list[Need] = []
    for name, state in sorted(states.items()):
        if state.paused_at is not None:
            why = f": {state.paused_reason}" if state.paused_reason else ""
            said = f"paused by {state.paused_by or 'somebody'}{why}; its alarms wait"
            found.append(
                Need(what="target_paused", title=name, said=said, at=state.paused_at, repair="resume_target", id=name)
            )
        elif state.breaker_opened_at is not None:
            said = f"cannot be reached: {state.last_error or 'no answer'}; its alarms wait and keep their retries"
            found.append(Need(what="target_down", title=name, said=said, at=state.breaker_opened_at, id=name))
    return found


def _failure(fire: HistoryEntry) -> Need:
    said = fire.error or fire.result or fire.reason or "no reason was given"
    if fire.status == "timed_out":
        said = "it was delivered, and nobody reported how it went"
    return Need(
        what=fire.status,
        title=fire.label or fire.message,
        said=said,
        at=fire.scheduled_for,
        alarm_id=fire.alarm_id,
        repair="retry",
        id=fire.id,
    )


def _paused(alarm: Alarm) -> Need:
    return Need(
        what="paused",
        title=alarm.label or alarm.wake_message,
        said=alarm.paused_reason,
        at=alarm.updated_at,
        alarm_id=alarm.id,
        repair="resume",
        id=alarm.id,
    )

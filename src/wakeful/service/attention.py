"""What needs somebody: failures nobody has answered, alarms and targets that stand still, nobody at work. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from wakeful.model.alarm import Alarm, Fire
from wakeful.service.history import HistoryEntry
from wakeful.service.why import is_alive
from wakeful.store import TargetState, Worker

LATELY: Final = timedelta(days=3)  # what failed longer ago than this was seen, or does not matter any more
UNREAD_AFTER: Final = timedelta(hours=1)  # that a wake waits in the inbox before somebody is told
AHEAD: Final = timedelta(seconds=5)  # a worker seen so far in the future was seen by another clock
Repair = Literal["retry", "resume", "resume_target", "pause", "serve", "look", ""]


class Need(Struct, frozen=True, kw_only=True):
    """Something that waits for a person. `repair`: what would mend it, and `id` what that is done to."""

    what: str  # failed, timed_out, failing, unread, paused, target_paused, target_down, nobody, clock
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
    is_pending: bool,
    now: datetime,
    retrying: Sequence[Fire] = (),
    unread: Sequence[Fire] = (),
    known: Mapping[str, Alarm],
) -> list[Need]:
    """The most pressing first. Of one alarm only its latest failure is shown: those before have the same cause.

    `unread`: wakes that wait in the inbox for longer than UNREAD_AFTER. `known`: the alarms of these fires.
    """
    found = [*_nobody(served, is_pending, now), *_clock(served, now), *_targets(states)]
    seen: set[str] = set()
    for fire in failed:
        if fire.alarm_id in seen or now - fire.scheduled_for > LATELY or _is_over(known.get(fire.alarm_id)):
            continue
        seen.add(fire.alarm_id)
        found.append(_failure(fire))
    again = [fire for fire in retrying if fire.attempts and fire.alarm_id in known and fire.alarm_id not in seen]
    found += [_failing(fire, known[fire.alarm_id]) for fire in again]
    if unread:
        found.append(_unread(unread))
    found += [_paused(alarm) for alarm in paused if alarm.paused_reason and alarm.failed_in_a_row]
    return found


def _is_over(alarm: Alarm | None) -> bool:
    """Whether a series went well again since, or somebody resumed or changed it: they know of its failure."""
    return alarm is not None and alarm.kind == "cron" and alarm.failed_in_a_row == 0


def _nobody(served: Mapping[str, Sequence[Worker]], is_pending: bool, now: datetime) -> list[Need]:
    workers = [worker for each in served.values() for worker in each]
    if any(is_alive(worker, now) for worker in workers):
        return []
    waiting = "; what is set waits" if is_pending else ""
    said = f"no dispatcher is running on this database{waiting}"
    return [Need(what="nobody", title="Nothing fires", said=said, repair="serve")]


def _clock(served: Mapping[str, Sequence[Worker]], now: datetime) -> list[Need]:
    seen = max((worker.seen_at for each in served.values() for worker in each), default=now)
    if seen - now <= AHEAD:
        return []
    said = f"a dispatcher was seen {int((seen - now).total_seconds())} s in the future: the clock was set back"
    return [Need(what="clock", title="The clock jumped", said=said, at=seen, repair="look", id="/health")]


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


def _failing(fire: Fire, alarm: Alarm) -> Need:
    return Need(
        what="failing",
        title=alarm.label or alarm.wake_message,
        said=f"attempt {fire.attempts} failed, it is tried again: {fire.last_error or 'no reason was given'}",
        at=alarm.next_fire_at,
        alarm_id=alarm.id,
        repair="pause",
        id=alarm.id,
    )


def _unread(waiting: Sequence[Fire]) -> Need:
    count = len(waiting)
    return Need(
        what="unread",
        title=f"{count} {'wake waits' if count == 1 else 'wakes wait'} in the inbox",
        said="nobody took them: is their reader running?" if count > 1 else "nobody took it: is its reader running?",
        at=min(fire.scheduled_for for fire in waiting),
        repair="look",
        id="/fires?status=waiting",
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

"""Decide what a signal does to an alarm that waits for it. Pure.

`unless` cancels a one-shot, or moves it (`rearm`), and skips the next fire of a series; `or_when` fires it at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from wakeful.model.alarm import STEPPED_OVER, Alarm, Change, Event, Fire, HeardSignal
from wakeful.moments import whole_ms
from wakeful.rules.edit import cancel, change_of, left_behind, taken_back, without_next
from wakeful.rules.plan import at_occurrence, following, timetable
from wakeful.rules.signals import Signal, by_signal

SIGNALLED: Final = "signalled"
# `already_skipped`: the next occurrence after the signal was skipped before it. `too_early`: longer before the fire
# than `unless_since` allows. `too_late`: the wake has arrived. These three change nothing.
Effect = Literal["cancelled", "fired", "skipped", "moved", "already_skipped", "too_early", "too_late"]
_MS: Final = timedelta(milliseconds=1)


class SignalEffect(Struct, frozen=True, kw_only=True):
    """What a signal does to one alarm. `at`: the fire that is skipped or is not, or where the alarm is moved to."""

    effect: Effect
    at: datetime | None = None


def effect_of(alarm: Alarm, fire: Fire | None, signal: Signal, *, now: datetime) -> SignalEffect | None:
    """What a signal does to an alarm. None: it does not wait for it."""
    if alarm.status != "active":
        return None
    if alarm.policy.unless == signal.name:
        return _unless(alarm, fire, whole_ms(now))
    return SignalEffect(effect="fired") if alarm.policy.or_when == signal.name else None


def _unless(alarm: Alarm, fire: Fire | None, now: datetime) -> SignalEffect:
    policy = alarm.policy
    if policy.rearm is None and alarm.kind == "once" and not _is_too_early(alarm, alarm.occurrence_at, now):
        return SignalEffect(effect="cancelled")
    if fire is not None and fire.status not in ("retrying", *STEPPED_OVER):
        return SignalEffect(effect="too_late", at=alarm.occurrence_at)  # it arrived, and is not settled yet
    if policy.rearm is not None:
        return SignalEffect(effect="moved", at=whole_ms(now + timedelta(seconds=policy.rearm)))
    if (skipped := _skipped_before(alarm, now)) is not None:
        return SignalEffect(effect="already_skipped", at=skipped)
    effect: Effect = "too_early" if _is_too_early(alarm, alarm.occurrence_at, now) else "skipped"
    return SignalEffect(effect=effect, at=alarm.occurrence_at)


def _is_too_early(alarm: Alarm, occurrence: datetime, now: datetime) -> bool:
    since = alarm.policy.unless_since
    return since is not None and occurrence - now > timedelta(seconds=since)


def _skipped_before(alarm: Alarm, now: datetime) -> datetime | None:
    """The next occurrence of a series after a moment, where that was passed over already; else None.

    So a signal that comes twice skips one fire. A snooze stands in the place of what it put off: it is the next fire.
    """
    upcoming = following(alarm, now)
    if upcoming is None or upcoming >= alarm.occurrence_at:
        return None
    is_of_its_schedule = timetable(alarm).after(alarm.occurrence_at - _MS) == alarm.occurrence_at
    return upcoming if is_of_its_schedule else None


def signalled(
    alarm: Alarm,
    fire: Fire | None,
    signal: Signal,
    *,
    now: datetime,
    by: str = "",
    inbox: Sequence[Fire] = (),
    fired_at: Collection[datetime] = (),
) -> Change | None:
    """The change that a signal makes. None: nothing, as it does not wait for it, or is being delivered already.

    `fired_at`: the moments from now on that have a fire on record. There are some after a clock was set back.
    """
    now = whole_ms(now)
    done = effect_of(alarm, fire, signal, now=now)
    why = by_signal(signal.name)
    match done.effect if done is not None else None:
        case "cancelled":
            return cancel(alarm, fire, now=now, by=by, reason=why, inbox=inbox)
        case "moved":
            assert done is not None
            assert done.at is not None
            after = at_occurrence(taken_back(alarm, now), done.at)
            return change_of(alarm, after, SIGNALLED, by, why, *left_behind(alarm, fire, SIGNALLED, now))
        case "skipped":
            said = f"{why} came first"
            return without_next(alarm, fire, SIGNALLED, now=now, by=by, result=said, why=f", for {why}")
        case "fired" if alarm.claimed_at is None:
            at = now
            while at == alarm.last_fired_at or at in fired_at:  # a fire of its own, not one that was
                at += _MS
            return _at_once(alarm, signal, at, now=now, by=by)
        case _:
            return None


def _at_once(alarm: Alarm, signal: Signal, at: datetime, *, now: datetime, by: str) -> Change:
    """Make it due now. A fire that was put off or is retried comes now; else this is one more, and the series goes on.

    The retries that a fire has used up stay used up.
    """
    occurrence = min(alarm.occurrence_at, at)
    before = alarm.policy.heard
    resumes_at = before.resumes_at if before is not None else None
    if alarm.kind == "cron" and occurrence < alarm.occurrence_at:
        resumes_at = alarm.occurrence_at
    heard = HeardSignal(
        name=signal.name, occurrence_at=occurrence, payload_json=signal.payload_json, resumes_at=resumes_at
    )
    after = replace(
        alarm,
        occurrence_at=occurrence,
        next_fire_at=min(alarm.next_fire_at, at),
        policy=replace(alarm.policy, heard=heard),
        claim=alarm.claim + 1,
        version=alarm.version + 1,
        unsettled=0,
        updated_at=now,
    )
    event = Event(
        at=now,
        what=SIGNALLED,
        alarm_id=alarm.id,
        owner_did=alarm.owner_did,
        fire_id=after.fire_id,
        by=by,
        reason=by_signal(signal.name),
    )
    return Change(claim=alarm.claim, version=alarm.version, after=after, events=(event,), edited=True)

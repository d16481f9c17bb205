"""When an alarm comes next, and which of its instants passed without a fire.

Next occurrences come from the schedule alone, never from "now plus": a late delivery does not shift a series.
What keeps every instant accounted for: at any time the instants of a series up to `next_fire_at` are on record, all but
the one being worked on. A first attempt, a jittered one, a retry and a snooze all keep to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from wakeful.alarm.model import Alarm, Fire, Policy, SkipReason, fire_id
from wakeful.moments import whole_ms
from wakeful.retry import fraction
from wakeful.schedule import Schedule, schedule

_MS: Final = timedelta(milliseconds=1)
_TICK: Final = timedelta(microseconds=1)
_AS_GOOD_AS_OVER: Final = timedelta(seconds=1)  # an alarm is put back for at least this long, or it would go round
# A skipped run is counted exactly up to here; beyond it `count` says at least this many. Counting is work that others
# wait for: a series that was away for a year costs no more than this.
COUNT_LIMIT: Final = 1_000


def timetable(alarm: Alarm) -> Schedule:
    return schedule(alarm.cron_expr, alarm.timezone, anchor=alarm.policy.anchor)


def following(alarm: Alarm, moment: datetime) -> datetime | None:
    """The series' first occurrence strictly after a moment, within the bounds of its policy."""
    if alarm.kind == "once":
        return None
    policy = alarm.policy
    if policy.max_fires is not None and alarm.fire_count >= policy.max_fires:
        return None
    if policy.starts_at is not None:
        moment = max(moment, policy.starts_at - _TICK)
    found = timetable(alarm).after(moment)
    if found is None or (policy.ends_at is not None and found > policy.ends_at):
        return None
    return whole_ms(found)


def due_at(alarm: Alarm, occurrence: datetime) -> datetime:
    """The occurrence plus its jitter: a hash of the fire id, always below the gap to the occurrence after it."""
    policy: Policy = alarm.policy
    if policy.jitter <= 0:
        return occurrence
    room = timedelta(seconds=policy.jitter)
    after = following(alarm, occurrence)
    if after is not None:
        room = min(room, after - occurrence - _MS)
    return whole_ms(occurrence + room * fraction(fire_id(alarm.id, occurrence)))


def first_due(alarm: Alarm) -> datetime:
    """When the current occurrence was due, however often it was put back since."""
    return min(alarm.next_fire_at, due_at(alarm, alarm.occurrence_at))


def at_occurrence(alarm: Alarm, occurrence: datetime) -> Alarm:
    """The alarm waiting for an occurrence, its ladder at the bottom; a paused one waits on."""
    return replace(alarm, occurrence_at=occurrence, next_fire_at=due_at(alarm, occurrence), failure_count=0)


def advance(alarm: Alarm, past: datetime) -> Alarm:
    """The series moved on to its first occurrence after a moment; `fired` when it has none left."""
    upcoming = following(alarm, past)
    if upcoming is None:
        return replace(alarm, status="fired", failure_count=0)
    return at_occurrence(alarm, upcoming)


def skipped_run(
    alarm: Alarm, first: datetime | None, last: datetime, reason: SkipReason, *, now: datetime
) -> Fire | None:
    """One row for every instant of the series from `first` to `last`, both included, that is passed over."""
    if first is None or first > last:
        return None
    through, count = _run(alarm, first, last)
    return Fire(
        alarm_id=alarm.id,
        scheduled_for=first,
        owner_did=alarm.owner_did,
        target=alarm.target,
        status="skipped",
        reason=reason,
        through=whole_ms(through),
        count=count,
        updated_at=now,
    )


def _run(alarm: Alarm, first: datetime, last: datetime) -> tuple[datetime, int]:
    """The last instant of a run, and how many there are."""
    through, count = first, 1
    upcoming = following(alarm, first)
    if upcoming is None:
        return through, count
    # Asked of the schedule itself from here on: within a run the policy's bounds change nothing but the end.
    after, end = timetable(alarm).after, min(last, alarm.policy.ends_at or last)
    while upcoming is not None and upcoming <= end:
        if count >= COUNT_LIMIT:
            return last, count
        through, count = upcoming, count + 1
        upcoming = after(upcoming)
    return through, count


def undecided(alarm: Alarm) -> datetime | None:
    """The first instant after the current occurrence that is not on record yet: where the series goes on."""
    counted = replace(alarm, fire_count=alarm.fire_count + 1)  # the current one may be the last one allowed
    return following(counted, alarm.next_fire_at)


def put_back(alarm: Alarm, at: datetime, *, now: datetime) -> tuple[datetime, tuple[Fire, ...]]:
    """How far towards a moment an undelivered alarm may wait, and the instants of its series that this passes over.

    It comes up again before its series does: only what is over by then, or as good as over, goes on record as missed.
    """
    counted = replace(alarm, fire_count=alarm.fire_count + 1)
    upcoming = following(counted, max(alarm.next_fire_at, min(at, whole_ms(now + _AS_GOOD_AS_OVER))))
    if upcoming is not None:
        at = min(at, upcoming - _MS)
    at = max(alarm.next_fire_at, at)
    return at, passed_over(alarm, started=at, now=at)


def undone(alarm: Alarm, last: datetime, reason: SkipReason, *, now: datetime) -> tuple[Fire, ...]:
    """Rows for the current occurrence, never tried, and for what came after it up to `last` and is not on record."""
    after = following(alarm, alarm.occurrence_at)
    if after is None or after > alarm.next_fire_at:
        runs = [(alarm.occurrence_at, last)]
    else:  # it was put back, and what that passed over has its rows
        runs = [(alarm.occurrence_at, min(last, alarm.occurrence_at))]
        if (onwards := following(alarm, alarm.next_fire_at)) is not None:
            runs.append((onwards, last))
    rows = (skipped_run(alarm, first, through, reason, now=now) for first, through in runs)
    return tuple(row for row in rows if row is not None)


def coming(alarm: Alarm) -> Iterator[datetime]:
    """The fires ahead of an active alarm, the next one first, as they come if each goes well: no more than allowed."""
    moment: datetime | None = alarm.next_fire_at
    nominal = alarm.occurrence_at
    while moment is not None:
        yield moment
        alarm = replace(alarm, fire_count=alarm.fire_count + 1)
        moment = following(alarm, max(nominal, moment))


def passed_over(alarm: Alarm, *, started: datetime, now: datetime) -> tuple[Fire, ...]:
    """The instants after the current occurrence that came and went before it was settled.

    Those from before the attempt began were missed; those during it met a fire still under way.
    """
    first = undecided(alarm)
    if first is None or first > now:
        return ()
    missed = skipped_run(alarm, first, min(started, now), "missed", now=now)
    resumed = following(alarm, started) if missed else first
    overlapped = skipped_run(alarm, resumed, now, "overlap", now=now)
    return tuple(run for run in (missed, overlapped) if run is not None)


def missed_before(alarm: Alarm, now: datetime) -> int:
    """How many later instants are overdue as well, when this occurrence is delivered late."""
    run = skipped_run(alarm, undecided(alarm), now, "missed", now=now)
    return run.count if run else 0

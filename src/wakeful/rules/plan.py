"""Compute when an alarm fires next, and which of its occurrences passed without a fire.

Next occurrences come from the schedule alone, never from "now plus": a late delivery does not shift a series.
How every occurrence is accounted for: at any time all occurrences of a series up to `next_fire_at` are recorded, except
the one being worked on. A first attempt, a jittered one, a retry and a snooze all keep to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from wakeful.model.alarm import Alarm, Event, Fire, Policy, SkipReason, fire_id
from wakeful.moments import whole_ms
from wakeful.rules.backoff import fraction
from wakeful.schedule import Schedule, instant, is_interval, read_alike, rules_changed_at, schedule, split_zone, zone
from wakeful.schedule.days_off import USUAL_DAYS, MovedSchedule, calendar_named, calendar_problem

_MS: Final = timedelta(milliseconds=1)
_TICK: Final = timedelta(microseconds=1)
_AS_GOOD_AS_OVER: Final = timedelta(seconds=1)  # an alarm is put back for at least this long, or it would go round
# A skipped run is counted exactly up to here; beyond it `count` says at least this many. Counting is work that others
# wait for: a series that was away for a year costs no more than this.
COUNT_LIMIT: Final = 1_000


def timetable(alarm: Alarm) -> Schedule:
    """When a series is due: with what falls on a holiday on the day it is moved to, if it is."""
    return moved_from_holidays(alarm, said_schedule(alarm))


def said_schedule(alarm: Alarm) -> Schedule:
    """The schedule as it was said, whatever holidays do to it."""
    # A row of somebody else's SQL may have no anchor: such a series goes on from the occurrence it stands at.
    return schedule(alarm.cron_expr, alarm.timezone, anchor=alarm.policy.anchor or alarm.occurrence_at)


def following(alarm: Alarm, moment: datetime, *, fired: int = 0) -> datetime | None:
    """Return the first occurrence of the series strictly after a moment, within the bounds of its policy.

    `fired`: how many more fires than are recorded count against `max_fires`.
    """
    if alarm.kind == "once":
        return None
    policy = alarm.policy
    if policy.max_fires is not None and alarm.fire_count + fired >= policy.max_fires:
        return None
    if policy.starts_at is not None:
        moment = max(moment, policy.starts_at - _TICK)
    moment = _past_signal(alarm, moment)
    changed_at = rules_changed_at()
    if changed_at is not None and alarm.occurrence_at <= changed_at:
        # Planned before the rules of its zone changed: what clocks showed then is not fired a second time.
        moment = max(moment, alike(alarm, alarm.occurrence_at))
    found = timetable(alarm).after(moment)
    if found is None or (policy.ends_at is not None and found > policy.ends_at):
        return None
    return whole_ms(found)


def _past_signal(alarm: Alarm, moment: datetime) -> datetime:
    """A signal fires a series once more, which then goes on where it was: nothing before that comes again."""
    heard = alarm.policy.heard
    if heard is None or heard.resumes_at is None or alarm.occurrence_at >= heard.resumes_at:
        return moment
    return max(moment, heard.resumes_at - _TICK)


def alike(alarm: Alarm, moment: datetime) -> datetime:
    """Return when the clocks a series goes by show what they showed at a moment before the rules of its zone changed.

    Only times that are named are told apart by what clocks show; others count what passes.
    """
    if is_interval(alarm.cron_expr) or not getattr(timetable(alarm), "fixed", True):
        return moment
    return read_alike(moment, split_zone(alarm.cron_expr, alarm.timezone)[1])


def due_at(alarm: Alarm, occurrence: datetime) -> datetime:
    """Return the occurrence plus its jitter: a hash of the fire id, always less than the gap to the next occurrence."""
    policy: Policy = alarm.policy
    if policy.jitter <= 0:
        return occurrence
    room = timedelta(seconds=policy.jitter)
    after = following(alarm, occurrence)
    if after is not None:
        room = min(room, after - occurrence - _MS)
    return whole_ms(occurrence + room * fraction(fire_id(alarm.id, occurrence)))


def first_due(alarm: Alarm) -> datetime:
    """Return when the current occurrence was first due, however often it was put back since."""
    return min(alarm.next_fire_at, due_at(alarm, alarm.occurrence_at))


def at_occurrence(alarm: Alarm, occurrence: datetime) -> Alarm:
    """Return the alarm waiting for an occurrence with its retries reset; a paused alarm stays paused."""
    return replace(alarm, occurrence_at=occurrence, next_fire_at=due_at(alarm, occurrence), failure_count=0)


def advance(alarm: Alarm, past: datetime) -> Alarm:
    """Move the series to its first occurrence after a moment; `fired` if none is left."""
    return at_upcoming(alarm, following(alarm, past))


def at_upcoming(alarm: Alarm, upcoming: datetime | None) -> Alarm:
    """Return the series waiting for the occurrence that comes next; `fired` if none does."""
    if upcoming is None:
        return replace(alarm, status="fired", failure_count=0)
    return at_occurrence(alarm, upcoming)


def skipped_run(
    alarm: Alarm, first: datetime | None, last: datetime, reason: SkipReason, *, now: datetime
) -> Fire | None:
    """Return one row for all skipped occurrences of the series from `first` to `last`, both included."""
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
    """Return the last occurrence of a run, and how many there are."""
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
    """Return the first occurrence after the current one that is not recorded yet, where the series continues."""
    return following(alarm, alarm.next_fire_at, fired=1)  # the current one may be the last one allowed


def put_back(alarm: Alarm, at: datetime, *, now: datetime) -> tuple[datetime, tuple[Fire, ...]]:
    """Return until when an undelivered alarm may be put back, and the occurrences of its series that this skips.

    It is due again before its series is: only occurrences that have passed by then are recorded as missed.
    """
    upcoming = following(alarm, max(alarm.next_fire_at, min(at, whole_ms(now + _AS_GOOD_AS_OVER))), fired=1)
    if upcoming is not None:
        at = min(at, upcoming - _MS)
    at = max(alarm.next_fire_at, at)
    return at, passed_over(alarm, started=at, now=at)


def undone(alarm: Alarm, last: datetime, reason: SkipReason, *, now: datetime) -> tuple[Fire, ...]:
    """Return rows for the untried current occurrence and for later ones up to `last` that are not recorded yet."""
    after = following(
        alarm, alarm.occurrence_at, fired=1
    )  # None where nothing was to follow: then nothing is on record
    if after is None or after > alarm.next_fire_at:
        runs = [(alarm.occurrence_at, last)]
    else:  # it was put back, and what that passed over has its rows
        runs = [(alarm.occurrence_at, min(last, alarm.occurrence_at))]
        if (onwards := following(alarm, alarm.next_fire_at)) is not None:
            runs.append((onwards, last))
    rows = (skipped_run(alarm, first, through, reason, now=now) for first, through in runs)
    return tuple(row for row in rows if row is not None)


def coming(alarm: Alarm) -> Iterator[datetime]:
    """Return the coming fires of an active alarm, the next one first, assuming that each succeeds."""
    moment: datetime | None = alarm.next_fire_at
    nominal, passed = alarm.occurrence_at, 0
    while moment is not None and passed < COUNT_LIMIT:
        occurrence = nominal if moment == alarm.next_fire_at else moment
        if holiday_at(alarm, occurrence):
            passed += 1  # it is skipped with the rest of that day, and uses up none of `max_fires`
            moment = max(moment, end_of_day(alarm, occurrence))  # jitter may be past midnight
        else:
            passed = 0
            yield moment
            alarm = replace(alarm, fire_count=alarm.fire_count + 1)
        moment = following(alarm, max(nominal, moment))


def passed_over(alarm: Alarm, *, started: datetime, now: datetime) -> tuple[Fire, ...]:
    """Return the occurrences after the current one that passed before it was settled.

    Those before the attempt began were missed; those during it overlapped with it.
    """
    first = undecided(alarm)
    if first is None or first > now:
        return ()
    missed = skipped_run(alarm, first, min(started, now), "missed", now=now)
    resumed = following(alarm, started) if missed else first
    overlapped = skipped_run(alarm, resumed, now, "overlap", now=now)
    return tuple(run for run in (missed, overlapped) if run is not None)


def missed_before(alarm: Alarm, now: datetime) -> int:
    """Count the later occurrences that are also overdue when this one is delivered late."""
    run = skipped_run(alarm, undecided(alarm), now, "missed", now=now)
    return run.count if run else 0


# Decide what becomes of an occurrence on a holiday: it is skipped, or moved to another day. Pure.
#
# Skips are decided when a fire is due, since a calendar may change until then. Moves are decided when the series is
# planned: `timetable` in plan.py is the schedule with its days off moved, one to one (schedule/days_off.py). If a
# calendar cannot be read, the alarm fires as if it had none, and an event says so.

HOLIDAYS_UNKNOWN: Final = "holidays_unknown"  # what the event says of an alarm that fired though it keeps holidays


def keeps_holidays(alarm: Alarm) -> bool:
    """Return whether it has a calendar: only a series goes by one, a single moment was named on purpose."""
    return bool(alarm.policy.calendar) and alarm.kind == "cron"


def holiday_at(alarm: Alarm, moment: datetime) -> str:
    """Return the name of the holiday that a moment falls on in the alarm's zone; empty where it is none."""
    if not keeps_holidays(alarm):
        return ""
    days = calendar_named(alarm.policy.calendar)
    if days is None or days.problem:
        return ""
    return days.holiday(moment.astimezone(_zone(alarm)).date())


def holiday_problem(alarm: Alarm) -> str:
    """Return why the holidays that an alarm keeps are not known; empty where they are, or it keeps none."""
    return calendar_problem(alarm.policy.calendar) if keeps_holidays(alarm) else ""


def holidays_unknown(alarm: Alarm, now: datetime) -> tuple[Event, ...]:
    """Return what is on record of a fire that went out though nobody knows whether it was a holiday."""
    if not (problem := holiday_problem(alarm)):
        return ()
    reason = f"it fired, though {problem}"
    return (
        Event(
            at=now,
            what=HOLIDAYS_UNKNOWN,
            alarm_id=alarm.id,
            owner_did=alarm.owner_did,
            fire_id=alarm.fire_id,
            reason=reason,
        ),
    )


def moved_from_holidays(alarm: Alarm, plain: Schedule) -> Schedule:
    """Return the schedule of a series as its holidays move it; itself where they move nothing."""
    policy = alarm.policy
    if policy.on_holiday in (None, "skip") or not keeps_holidays(alarm):
        return plain
    days = calendar_named(policy.calendar)
    if days is None or days.problem:
        return plain
    return MovedSchedule(
        plain,
        days,
        _zone(alarm),
        backward=policy.on_holiday == "previous_working_day",
        working_days=policy.working_days or USUAL_DAYS,
        fired=alarm.occurrence_at,
    )


def end_of_day(alarm: Alarm, moment: datetime) -> datetime:
    """Return the last millisecond of a moment's day in the alarm's zone."""
    local = _zone(alarm)
    return instant(datetime.combine(moment.astimezone(local).date() + timedelta(days=1), time()), local) - _MS


def unfired(alarm: Alarm) -> Alarm:
    """Return the alarm as it was before its current occurrence, which may then be moved."""
    return replace(alarm, occurrence_at=alarm.occurrence_at - _MS)


def _zone(alarm: Alarm) -> ZoneInfo:
    return zone(split_zone(alarm.cron_expr, alarm.timezone)[1])

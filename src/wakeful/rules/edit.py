"""Decide an owner's changes to an alarm: cancel, pause, resume, snooze, skip, update, replace, fire now. Pure.

Every change of *when* an alarm fires also raises `claim`: a worker that holds it can no longer settle it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidRequest, InvalidSchedule, StaleVersion
from wakeful.model.alarm import STEPPED_OVER, Alarm, Change, Event, Fire, Policy, SkipReason
from wakeful.model.outcome import failed_result
from wakeful.model.requests import GivenTime, Timing, Wanted
from wakeful.moments import whole_ms
from wakeful.rules.attempts import no_longer_awaited, open_fire, retract
from wakeful.rules.create import bounded, check, check_policy, planned, timed, understand
from wakeful.rules.plan import advance, at_occurrence, following, skipped_run, undone
from wakeful.rules.signals import check_rearm
from wakeful.rules.wanted import ATTRIBUTES, EDITABLE
from wakeful.schedule import schedule, zone
from wakeful.schedule.times_of_day import at_time_of_day, time_of_day

_MS: Final = timedelta(milliseconds=1)
_MOMENT: Final = ("when", "fire_at", "delay", "cron_expr")
# What a copy says and where it goes is as in the alarm it is a copy of; its policy is its own.
_COPIED: Final = tuple(ATTRIBUTES[name] for name in EDITABLE if name != "policy")


def cancel(
    alarm: Alarm, fire: Fire | None, *, now: datetime, by: str = "", reason: str = "", inbox: Sequence[Fire] = ()
) -> Change | None:
    """Cancel it: no attempt starts any more, and its wakes in the inbox are removed. None if it has already ended.

    `inbox`: its wakes there. While one still waits to be fetched, the alarm has not ended for its owner.
    """
    now = whole_ms(now)
    gone = retract(inbox, "cancelled", now=now)
    if alarm.finished and not gone:
        return None
    after = replace(taken_back(alarm, now), status="cancelled", cancelled_at=now)
    was: SkipReason = "paused" if alarm.status == "paused" else "superseded"
    left = () if alarm.finished else left_behind(alarm, fire, was, now, closed="cancelled")
    return change_of(alarm, no_longer_awaited(after, gone), "cancelled", by, reason, *left, *gone)


def pause(alarm: Alarm, *, now: datetime, by: str = "", reason: str = "") -> Change | None:
    """Pause it until it is resumed. None if it is already paused."""
    _refuse_finished(alarm)
    if alarm.status == "paused":
        return None
    now = whole_ms(now)
    after = replace(taken_back(alarm, now), status="paused", paused_reason=reason)
    return change_of(alarm, after, "paused", by, reason)


def resume(alarm: Alarm, fire: Fire | None, *, now: datetime, by: str = "") -> Change | None:
    """Resume it. A one-shot whose time has passed fires at once; a series continues with its next occurrence.

    Occurrences that passed during the pause are recorded as skipped.
    """
    _refuse_finished(alarm)
    if alarm.status == "active":
        return None
    now = whole_ms(now)
    after = replace(taken_back(alarm, now), status="active", paused_reason="", failed_in_a_row=0)
    if alarm.kind == "once" or alarm.next_fire_at > now:
        return change_of(alarm, after, "resumed", by, "")
    return change_of(alarm, advance(after, now), "resumed", by, "", *left_behind(alarm, fire, "paused", now))


def snooze(alarm: Alarm, fire: Fire | None, wait: timedelta, *, now: datetime, by: str = "") -> Change:
    """Postpone the next fire.

    A series that would fire again by then continues with its first occurrence after that; with none left, it fires
    once more at that moment.
    """
    if wait <= timedelta(0):
        raise InvalidRequest("a snooze needs a length", field="for", fix='For example "1h".')
    if alarm.status != "active":
        raise Conflict(f"the alarm is {alarm.status}; only an active one can be snoozed", field="id")
    now = whole_ms(now)
    until = whole_ms(now + wait)
    if until <= alarm.next_fire_at:
        later = whole_ms(alarm.next_fire_at + wait)
        error = InvalidRequest(
            f"it counts from now, and the alarm waits until {alarm.next_fire_at.isoformat()} anyway, which is later",
            field="for",
            fix=f"To put that fire off by as much, snooze it until {later.isoformat()}.",
        )
        error.repair = {"for": None, "until": later.isoformat()}
        raise error
    upcoming = following(alarm, alarm.next_fire_at)
    run = skipped_run(alarm, upcoming, until - _MS, "superseded", now=now)
    resumes = following(alarm, until - _MS) if upcoming is not None and upcoming <= until else None
    after = at_occurrence(taken_back(alarm, now), resumes or until)
    after = after if resumes else replace(after, next_fire_at=until)
    rows = (*_slept(alarm, fire, until, now), *_some(run))
    return change_of(alarm, after, "snoozed", by, f"until {until.isoformat()}", *rows)


def skip_next(
    alarm: Alarm, fire: Fire | None, *, now: datetime, lease: timedelta, at: datetime | None = None, by: str = ""
) -> Change:
    """Pass over the next fire of a series, which continues with the occurrence after it.

    `at`: the occurrence that is meant, by its nominal or its due time (whole seconds are enough, as people are told
    them); another one is not skipped. As when a policy skips, it uses up none of `max_fires`. A fire that was tried
    already ends as `failed`, and counts like any other.
    """
    now = whole_ms(now)
    _check_skippable(alarm, fire, at=at, now=now, lease=lease)
    said = f"skipped on request by {by}" if by else "skipped on request"
    return without_next(alarm, fire, "requested", now=now, by=by, result=said)


def without_next(
    alarm: Alarm, fire: Fire | None, reason: SkipReason, *, now: datetime, by: str, result: str, why: str = ""
) -> Change:
    """Pass over the current occurrence of a series, whatever state it is in. `result`: of its fire, in words."""
    taken = taken_back(alarm, now)
    if fire is not None and fire.status == "retrying":
        taken = replace(taken, fire_count=alarm.fire_count + 1)
        rows = _closed(fire, reason, now)
    else:
        untried = _some(skipped_run(alarm, alarm.occurrence_at, alarm.occurrence_at, reason, now=now))
        rows = tuple(replace(row, result=result) for row in untried)
    # What else is overdue would have gone with the wake that is skipped: it is missed, as if that had been delivered.
    # While the last fire allowed waits, nothing else is due, and so nothing is on record of it yet.
    is_last = alarm.policy.max_fires is not None and alarm.fire_count + 1 >= alarm.policy.max_fires
    past, since = max(now, alarm.next_fire_at), alarm.occurrence_at if is_last else alarm.next_fire_at
    missed = skipped_run(taken, following(taken, since), past, "missed", now=now)
    after = advance(taken, past)
    what = f"the fire of {alarm.occurrence_at.isoformat()}{why}"
    return change_of(alarm, after, "skipped", by, what, *rows, *_some(missed))


def _check_skippable(alarm: Alarm, fire: Fire | None, *, at: datetime | None, now: datetime, lease: timedelta) -> None:
    """Refuse to skip what is not the next fire of an active series, or is on its way already."""
    _refuse_finished(alarm)
    if alarm.kind == "once":
        raise Conflict(
            "the alarm fires only once, so that nothing would be left of it",
            field="id",
            fix="Cancel it, or snooze it.",
        )
    if alarm.status != "active":
        raise Conflict(
            f"the alarm is {alarm.status}; only the next fire of an active one can be skipped",
            field="id",
            fix="Resume it first. What comes up while it is paused is skipped without asking.",
        )
    due = alarm.next_fire_at
    upcoming = alarm.occurrence_at.isoformat() + (f" (due at {due.isoformat()})" if due != alarm.occurrence_at else "")
    if at is not None and whole_ms(at) not in (alarm.occurrence_at, due, due.replace(microsecond=0)):
        gone = ", and that one has been or was skipped already" if at < alarm.occurrence_at else ""
        raise Conflict(
            f"the next fire is the one of {upcoming}, not of {at.isoformat()}{gone}",
            field="at",
            fix="Nothing was changed. Give the time of the next fire, if that is to be skipped.",
        )
    if alarm.is_leased(now, lease) or (fire is not None and fire.status not in ("retrying", *STEPPED_OVER)):
        raise Conflict(
            f"the fire of {upcoming} is being delivered right now and can no longer be skipped",
            field="id",
            fix="To skip the one after it, ask again once this one is delivered.",
        )


def update(
    alarm: Alarm,
    fire: Fire | None,
    wanted: Wanted,
    *,
    now: datetime,
    version: int | None = None,
    by: str = "",
    inbox: Sequence[Fire] = (),
) -> Change:
    """Change only the given fields. A new *when* starts the alarm again and removes its wakes from the inbox.

    A time of day alone keeps the days of a series; what would turn a series into a one-shot, or back, has to say so.
    """
    if version is not None and version != alarm.version:
        raise StaleVersion(
            f"the alarm is at version {alarm.version}, not {version}",
            field="version",
            fix="Read the alarm again, then repeat the edit.",
        )
    _refuse_finished(alarm)
    now = whole_ms(now)
    named = [name for name in GivenTime.__struct_fields__ if getattr(wanted.time, name) not in (None, "")]
    named += [name for name in EDITABLE if ATTRIBUTES[name] in wanted.fields]
    named += ["policy"] if wanted.policy else []
    after = replace(alarm, **wanted.fields, timezone=wanted.time.timezone or alarm.timezone)
    after = replace(after, policy=_merged(alarm.policy, wanted.policy)) if wanted.policy else after
    if alarm.kind == "once" and after.timezone != alarm.timezone:
        after = replace(after, wall_time="")  # it stays at its moment, which no clock of the new zone was asked about
    check(after)
    zone(after.timezone)
    if _moves(alarm, after, wanted.time):
        change = _emptied(_replan(alarm, fire, after, wanted, named, now=now, by=by), inbox)
        check_rearm(change.after)  # it may have become a series
        return change
    check_rearm(after)
    # The anchor is wakeful's own: an edited policy keeps it.
    after = replace(after, policy=replace(after.policy, anchor=alarm.policy.anchor), updated_at=now)
    return change_of(alarm, replace(after, version=alarm.version + 1), "updated", by, ", ".join(named))


def replace_with(
    alarm: Alarm, fire: Fire | None, new: Alarm, *, now: datetime, by: str = "", inbox: Sequence[Fire] = ()
) -> Change:
    """Replace an alarm's content with that of a new one, under the old id, for `on_conflict="replace"`."""
    now = whole_ms(now)
    kept = {name: getattr(alarm, name) for name in ("id", "created_at", "last_fired_at")}
    after = replace(new, **kept, version=alarm.version + 1, claim=alarm.claim + 1, updated_at=now)
    left = () if alarm.finished else left_behind(alarm, fire, "superseded", now)
    return _emptied(change_of(alarm, after, "replaced", by, "", *left), inbox)


def taken_over(alarm: Alarm, after: Alarm, *, now: datetime, by: str) -> Change | None:
    """Change the content or the paused state but not the times; overdue fires stay due. None if nothing differs."""
    if after == alarm:
        return None
    names = zip(Alarm.__struct_encode_fields__, Alarm.__struct_fields__, strict=True)
    changed = ", ".join(column for column, name in names if getattr(alarm, name) != getattr(after, name))
    if after.status != alarm.status:
        after = replace(taken_back(after, now), paused_reason="", failed_in_a_row=0)
        return change_of(alarm, after, "resumed" if after.status == "active" else "paused", by, changed)
    return change_of(alarm, replace(after, version=alarm.version + 1, updated_at=now), "updated", by, changed)


def fire_now(alarm: Alarm, *, id: str, now: datetime, by: str = "", via: str = "") -> Alarm:
    """Return a one-shot copy that is due now, and is a manual fire of the original, which is not changed."""
    now = whole_ms(now)
    return Alarm(
        id=id,
        owner_did=alarm.owner_did,
        user_id=alarm.user_id,
        kind="once",
        fire_at=now,
        timezone=alarm.timezone,
        next_fire_at=now,
        created_at=now,
        updated_at=now,
        occurrence_at=now,
        policy=Policy(
            backoff_base=alarm.policy.backoff_base,
            backoff_cap=alarm.policy.backoff_cap,
            exact_backoff=alarm.policy.exact_backoff,
            report_within=alarm.policy.report_within,
            on_silence=alarm.policy.on_silence,
            manual_of=alarm.policy.manual_of or alarm.id,
        ),
        created_by=by,
        created_via=via,
        root_id=alarm.root_id or alarm.id,
        **{name: getattr(alarm, name) for name in _COPIED},
    )


def _merged(policy: Policy, said: Mapping[str, Any]) -> Policy:
    """Return the policy with what an edit says of it. An end that somebody names, or takes out, is theirs."""
    after = replace(policy, **said)
    return after if after.ends_at == policy.ends_at else replace(after, renew_for=None)


def _moves(alarm: Alarm, after: Alarm, said: GivenTime) -> bool:
    """Return whether an edit changes when the alarm fires. The bounds and the zone of a one-shot do not."""
    return _names_a_moment(said) or (alarm.kind == "cron" and _bounds(alarm) != _bounds(after))


def _names_a_moment(said: GivenTime) -> bool:
    return any(getattr(said, name) not in (None, "") for name in _MOMENT)


def _bounds(alarm: Alarm) -> tuple[Any, ...]:
    policy = alarm.policy
    holidays = (policy.calendar, policy.on_holiday, policy.working_days)
    return alarm.timezone, policy.starts_at, policy.ends_at, policy.max_fires, policy.jitter, holidays


def _replan(
    alarm: Alarm, fire: Fire | None, after: Alarm, wanted: Wanted, named: Sequence[str], *, now: datetime, by: str
) -> Change:
    said = wanted.time
    anchor = alarm.policy.anchor if after.policy.starts_at == alarm.policy.starts_at else None
    field = "when" if said.when else "cron_expr" if said.cron_expr else "policy"
    if said != GivenTime():
        # A zone alone: the same expression, read in another zone.
        expression = said.cron_expr if _names_a_moment(said) else alarm.cron_expr
        said = replace(said, cron_expr=expression, timezone=after.timezone)
        at = time_of_day(said.when) if alarm.kind == "cron" and said.when and said.kind != "once" else None
        said_in_full = said if at is None else _on_its_days(alarm, said, at)
        timing = understand(said_in_full, now=now, date_order=wanted.date_order, bare_day=wanted.bare_day)
        _check_kind(alarm, said, timing)
        policy = bounded(after.policy, timing.bounds, wanted.policy, fired=alarm.fire_count)
        check_policy(policy)
        after = timed(replace(after, policy=policy), timing)
        anchor = None if at is None or anchor is None else _moved_anchor(alarm, anchor, at, timing.timezone)
    after = replace(after, policy=replace(after.policy, anchor=anchor, heard=None))
    after = planned(taken_back(after, now), now=now, field=field)
    return change_of(alarm, after, "updated", by, ", ".join(named), *left_behind(alarm, fire, "superseded", now))


def _moved_anchor(alarm: Alarm, anchor: datetime, at: time, timezone: str) -> datetime:
    """What a rule counts from at another time of day, so that "every 3 days" keeps its days: its first fire, moved."""
    first = schedule(alarm.cron_expr, alarm.timezone, anchor=anchor).after(anchor - _MS) or anchor
    day = first.astimezone(zone(alarm.timezone)).date()
    return datetime.combine(day, at, zone(timezone)).astimezone(UTC)


def _on_its_days(alarm: Alarm, said: GivenTime, at: time) -> GivenTime:
    """A time of day alone moves that of a series, which stays on its days; for a one-shot it is the next one."""
    moved = at_time_of_day(alarm.cron_expr, at)
    if moved is None:
        raise InvalidSchedule(
            f"{said.when!r} is a time of day, and {alarm.cron_expr!r} has none or more than one",
            field="when",
            fix='Give the whole rhythm, such as "every weekday at 10am".',
        )
    return replace(said, when="", cron_expr=moved)


def _check_kind(alarm: Alarm, said: GivenTime, timing: Timing) -> None:
    """Refuse what would turn a series into a one-shot, or back, unless that is said: by `kind`, or by the field."""
    if timing.kind == alarm.kind or said.kind or not said.when:
        return
    if alarm.kind == "cron":
        raise InvalidSchedule(
            f"{said.when!r} is one moment, and the alarm is a series ({alarm.cron_expr})",
            field="when",
            fix='To move its time of day, give that alone, such as "10am"; to put off only its next fire, snooze it; '
            'to have it fire once and never again, add the kind "once".',
        )
    raise InvalidSchedule(
        f"{said.when!r} is a series, and the alarm fires once",
        field="when",
        fix='To make it a series, add the kind "cron"; else give one moment.',
    )


def _emptied(change: Change, inbox: Sequence[Fire]) -> Change:
    """Remove the alarm's waiting wakes from the inbox, since its time was replaced."""
    gone = retract(inbox, "superseded", now=change.after.updated_at)
    return replace(change, after=no_longer_awaited(change.after, gone), fires=(*change.fires, *gone))


def left_behind(
    alarm: Alarm, fire: Fire | None, reason: SkipReason, now: datetime, *, closed: str = ""
) -> tuple[Fire, ...]:
    """Record what was due but not done when the owner moved the alarm."""
    if fire is not None and fire.status not in STEPPED_OVER:
        rows = _closed(fire, closed or reason, now)
    elif alarm.claimed_at is not None:
        # Under way just now: a row of its own, which the worker's word will correct.
        rows = _some(skipped_run(alarm, alarm.occurrence_at, alarm.occurrence_at, reason, now=now))
    else:
        return undone(alarm, now, reason, now=now)
    first = following(alarm, alarm.next_fire_at)
    return (*rows, *_some(skipped_run(alarm, first, now, reason, now=now)))


def _some(fire: Fire | None) -> tuple[Fire, ...]:
    return () if fire is None else (fire,)


def _slept(alarm: Alarm, fire: Fire | None, until: datetime, now: datetime) -> tuple[Fire, ...]:
    if fire is not None and fire.status not in ("retrying", *STEPPED_OVER):
        return ()  # a worker that lost it brought its end back: that stays
    known = fire if fire is not None and fire.status == "retrying" else open_fire(alarm, now)
    said = f"snoozed until {until.isoformat()}"
    # A failure that was reported meanwhile is not its end: the wake comes again, later than the retry would have.
    return (replace(known, status="snoozed", reason="", completed_at=None, result=said, updated_at=now),)


def _closed(fire: Fire | None, reason: str, now: datetime) -> tuple[Fire, ...]:
    """End a fire that was still being tried."""
    if fire is None or fire.status != "retrying":
        return ()
    said = failed_result(fire.last_error or reason, fire.attempts)
    return (replace(fire, status="failed", reason=reason, report_by=None, result=said, updated_at=now),)


def taken_back(alarm: Alarm, now: datetime) -> Alarm:
    return replace(
        alarm,
        claim=alarm.claim + 1,
        version=alarm.version + 1,
        claimed_at=None,
        unsettled=0,
        failure_count=0,
        updated_at=now,
    )


def _refuse_finished(alarm: Alarm) -> None:
    if alarm.finished:
        raise Conflict(f"the alarm is {alarm.status}", field="id", fix="Set a new one.")


def change_of(before: Alarm, after: Alarm, what: str, by: str, reason: str, *fires: Fire) -> Change:
    event = Event(at=after.updated_at, what=what, alarm_id=before.id, owner_did=before.owner_did, by=by, reason=reason)
    return Change(claim=before.claim, version=before.version, after=after, fires=fires, events=(event,), edited=True)

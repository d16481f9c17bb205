"""Decide what a target's report, or a missing report, does to a fire and its alarm. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidRequest, NotFound
from wakeful.model.alarm import ERROR_LIMIT, REPORT_WITHIN, RESULT_LIMIT, UNSUCCESSFUL, Alarm, Change, Event, Fire
from wakeful.model.outcome import SHORTEST_SNOOZE, Report, failed_result, retry_result
from wakeful.moments import whole_ms
from wakeful.rules.attempts import is_in_inbox, open_fire
from wakeful.rules.lineage import renewal, renewed
from wakeful.rules.plan import advance, following
from wakeful.rules.settle import (
    REPORTED,
    TIMEOUT,
    UNREPORTED,
    foreseen,
    is_foreseen,
    is_silent,
    ladder_wait,
    may_still_arrive,
    pause_if_hopeless,
)

_OPEN: Final = frozenset({"delivered", "waiting", "retrying", "timed_out", "failed"})
_MS: Final = timedelta(milliseconds=1)


def report(
    alarm: Alarm, fire: Fire | None, occurrence: datetime, said: Report, *, now: datetime, by: str = ""
) -> Change | None:
    """Apply a target's report on a fire. None if it is a repeated report: a report counts once."""
    now = whole_ms(now)
    if not said.renew:
        return _reported(alarm, fire, occurrence, said, now=now)
    after = renewed(alarm, now=now)
    change = _reported(after, fire, occurrence, said, now=now)
    if change is None:  # the outcome was known; that the series is to go on may be news
        noted = replace(after, version=alarm.version + 1, updated_at=now)
        change = Change(claim=alarm.claim, version=alarm.version, after=noted)
    return replace(change, events=(*change.events, renewal(after, now=now, by=by)), edited=True)


def _reported(alarm: Alarm, fire: Fire | None, occurrence: datetime, said: Report, *, now: datetime) -> Change | None:
    in_flight = alarm.claimed_at is not None and alarm.occurrence_at == occurrence
    if fire is None:
        if not in_flight:
            raise NotFound("this fire has not happened yet", field="fire_id")
        fire = replace(open_fire(alarm, now), started_at=alarm.claimed_at)
    if said.outcome == "failed" and may_still_arrive(fire):
        return replace(_change(alarm, replace(alarm, updated_at=now), _known_failed(fire, said, now)), cost=said.cost)
    if said.outcome == fire.status or (said.outcome == "failed" and is_foreseen(fire)):
        return None
    check_open(fire)
    return replace(_decided(alarm, fire, said, in_flight=in_flight, now=now), cost=said.cost)


def _decided(alarm: Alarm, fire: Fire, said: Report, *, in_flight: bool, now: datetime) -> Change:
    if said.outcome in ("working", "snooze") and not in_flight:
        alarm, fire = _heard_from(alarm, fire, now)
    match said.outcome:
        case "completed":
            return _completed(alarm, fire, said.text, in_flight=in_flight, now=now)
        case "failed":
            return _failed(alarm, fire, said.text or "reported as failed", in_flight=in_flight, now=now)
        case "working":
            return _working(alarm, fire, said, in_flight=in_flight, now=now)
        case _:
            return _snooze(alarm, fire, said, in_flight=in_flight, now=now)


def note_on_repeat(fire: Fire, said: Report) -> str:
    """Tell that a result is not kept since the fire was completed with another one before; nothing if it was not.

    `fire`: as it is after the report.
    """
    result = said.text[:RESULT_LIMIT]
    if said.outcome != "completed" or fire.status != "completed" or not result or result == fire.result:
        return ""
    return f"It was completed before, with the result {fire.result[:200]!r}: that stays, and this result is not kept."


def check_open(fire: Fire) -> None:
    """Refuse a report on a fire whose outcome is recorded."""
    if fire.status not in _OPEN or fire.completed_at is not None:
        raise Conflict(f"the fire is {fire.status}: it has ended, and its outcome is recorded", field="fire_id")


def check_reportable(fire: Fire) -> None:
    """Refuse a fire that cannot be reported as completed; one that was already is accepted."""
    if fire.status != "completed":
        check_open(fire)


def sweep(alarm: Alarm, fire: Fire, *, now: datetime) -> Change:
    """Handle a report that did not come in time: a wake from the inbox waits again, any other is sent again.

    With `on_silence: give_up`, and after the last try, the fire is `timed_out`.
    """
    now = whole_ms(now)
    assert fire.report_by is not None
    if is_in_inbox(fire) and not fire.reason:  # with one, its alarm was taken back: nobody is to be told again
        return _unreported(alarm, fire, now=now)
    error = f"no report by {_moment(fire.report_by)}"
    if fire.attempts > 1:
        error = f"delivered {fire.attempts} times without a report; the last one was due by {_moment(fire.report_by)}"
    if not is_in_inbox(fire) and _may_be_woken_again(alarm, fire, now):
        silent = replace(fire, reason=UNREPORTED, report_by=None, last_error=error, updated_at=now)
        if (again := _tried_again(alarm, fire, silent, now=now)) is not None:
            return again
    gone = replace(fire, status="timed_out", report_by=None, last_error=error, result=TIMEOUT, updated_at=now)
    after = replace(_no_longer_awaited(alarm, fire, now), last_error=error, failed_in_a_row=alarm.failed_in_a_row + 1)
    after, events = pause_if_hopeless(after, now=now) if alarm.kind == "cron" else (after, ())
    return replace(_change(alarm, after, gone), events=events)


def _may_be_woken_again(alarm: Alarm, fire: Fire, now: datetime) -> bool:
    """Whether the policy has a silent receiver woken again, and the fire is still the latest of its alarm."""
    if alarm.policy.on_silence != "again":
        return False
    if alarm.kind == "once":
        return alarm.occurrence_at == fire.scheduled_for
    after = following(replace(alarm, fire_count=0), fire.scheduled_for)  # its last fire allowed has no next one
    return after is None or now < after


def _heard_from(alarm: Alarm, fire: Fire, now: datetime) -> tuple[Alarm, Fire]:
    """A silent receiver speaks before it is woken again: as after the delivery, with nothing planned for the fire."""
    is_planned = alarm.status == "active" and alarm.occurrence_at == fire.scheduled_for
    if not is_silent(fire) or not is_planned:
        return alarm, fire
    after = replace(alarm, awaiting=fire.scheduled_for, fire_count=alarm.fire_count + 1, failure_count=0, last_error="")
    after = replace(after, status="fired") if alarm.kind == "once" else advance(after, alarm.next_fire_at)
    return after, replace(fire, status="delivered", reason="", report_by=now, result="", last_error="")


def _unreported(alarm: Alarm, fire: Fire, *, now: datetime) -> Change:
    """Handle a fetched wake without a report: it waits again as often as a failure is retried, then it has failed."""
    times = f"{fire.attempts} times" if fire.attempts != 1 else "once"
    error = f"handed out {times} without a report; the last report was due by {_moment(fire.report_by)}"
    counted = replace(fire, report_by=None, failures=fire.failures + 1, last_error=error, updated_at=now)
    if fire.failures < alarm.max_failures:
        return _change(alarm, replace(alarm, updated_at=now), replace(counted, status="waiting"))
    gone = replace(counted, status="failed", reason="unreported", result=failed_result(error, fire.attempts))
    return _given_up(alarm, gone, error, now=now)


def fetch(alarm: Alarm, fire: Fire, *, now: datetime) -> Change:
    """Give a waiting wake to its owner, leased until a report is due."""
    now = whole_ms(now)
    window = alarm.policy.report_within
    by = now + (timedelta(seconds=window) if window is not None else REPORT_WITHIN)
    given = replace(
        fire,
        status="delivered",
        started_at=fire.started_at or now,
        delivered_at=now,
        report_by=by,
        attempts=fire.attempts + 1,
        updated_at=now,
    )
    return _change(alarm, replace(alarm, updated_at=now), given)


def unfetch(alarm: Alarm, fire: Fire, *, now: datetime) -> Change:
    """Put a wake back into the inbox, as it was before it was fetched: its reader had gone."""
    now = whole_ms(now)
    return _change(alarm, replace(alarm, updated_at=now), replace(fire, updated_at=now))


def retry(alarm: Alarm, fire: Fire, *, now: datetime, by: str = "") -> Change:
    """Retry a failed or timed-out fire, starting with the shortest backoff."""
    now = whole_ms(now)
    if fire.status not in UNSUCCESSFUL:
        raise Conflict(f"the fire is {fire.status}; only failed and timed-out fires can be retried", field="fire_id")
    # Only by hand is an alarm that has failed taken up again.
    after = _reopened(replace(alarm, status="fired") if alarm.status == "failed" else alarm, fire, now, failures=0)
    if after is None:
        raise Conflict(
            f"the alarm is {alarm.status}, and its fire of {fire.scheduled_for.isoformat()} cannot be retried",
            field="fire_id",
            fix="Use fire: it sends a wake now and leaves the alarm as it is.",
        )
    opened = replace(fire, status="retrying", reason="", failures=0, completed_at=None, report_by=None, updated_at=now)
    event = Event(at=now, what="retried", alarm_id=alarm.id, owner_did=alarm.owner_did, fire_id=fire.id, by=by)
    return replace(_change(alarm, after, opened), events=(event,))


def _completed(alarm: Alarm, fire: Fire, result: str, *, in_flight: bool, now: datetime) -> Change:
    late = fire.status in UNSUCCESSFUL
    started = fire.started_at or fire.delivered_at or now
    done = replace(
        fire,
        status="completed",
        reason="late" if late else "",
        completed_at=now,
        report_by=None,
        duration_ms=max(0, (now - started) // _MS),
        result=result[:RESULT_LIMIT],
        last_error="",
        updated_at=now,
    )
    if late or in_flight:
        # Late: it corrects the record and moves nothing. In flight: the settlement will find it and move on.
        return _change(alarm, replace(alarm, updated_at=now), done)
    after = replace(_no_longer_awaited(alarm, fire, now), failed_in_a_row=0)
    if fire.status != "retrying":
        return _change(alarm, after if alarm.failure_count else replace(after, last_error=""), done)
    if alarm.status == "active" and alarm.occurrence_at == fire.scheduled_for:
        # The wake had arrived after all: the retry that was planned is not needed.
        after = replace(after, last_fired_at=now, fire_count=alarm.fire_count + 1, failure_count=0, last_error="")
        after = replace(after, status="fired") if alarm.kind == "once" else advance(after, alarm.next_fire_at)
    return _change(alarm, after, done)


def _failed(alarm: Alarm, fire: Fire, error: str, *, in_flight: bool, now: datetime) -> Change:
    error = error[:ERROR_LIMIT]
    gone = replace(
        fire,
        status="failed",
        reason=REPORTED,
        completed_at=now,
        report_by=None,
        result=failed_result(error, fire.attempts),
        last_error=error,
        updated_at=now,
    )
    if in_flight:
        return _change(alarm, replace(alarm, updated_at=now), foreseen(alarm, fire, error, now=now))
    if fire.status == "retrying":  # it is being tried again already; if that was for silence, it no longer is
        reason = "" if is_silent(fire) else fire.reason
        told = replace(fire, reason=reason, delivered_at=now, last_error=error, updated_at=now)
        return _change(alarm, replace(alarm, updated_at=now), told)  # who reports has it
    counted = fire.status == "timed_out"
    if not counted:
        reported = replace(gone, reason="", completed_at=None)
        if (again := _tried_again(alarm, fire, reported, now=now)) is not None:
            return again
    return _given_up(alarm, gone, error, now=now, counted=counted)


def _known_failed(fire: Fire, said: Report, now: datetime) -> Fire:
    """Add a reported failure to a fire that its owner's change has ended: its attempt's answer is then no news."""
    error = (said.text or "reported as failed")[:ERROR_LIMIT]
    return replace(
        fire, delivered_at=fire.delivered_at or now, completed_at=now, report_by=None, last_error=error, updated_at=now
    )


def _tried_again(alarm: Alarm, fire: Fire, told: Fire, *, now: datetime) -> Change | None:
    """Plan the next try at a fire that was delivered; None where its retries are used up or something comes first.

    `told`: the fire with what became of this try.
    """
    if fire.failures >= alarm.max_failures:
        return None
    failures = fire.failures + 1
    at = whole_ms(now + ladder_wait(alarm.policy, fire.failures, fire))
    after = _reopened(alarm, fire, at, failures=failures)
    if after is None:
        return None
    said = retry_result(told.last_error, failures, alarm.max_failures)
    again = replace(told, status="retrying", failures=failures, result=said)
    return _change(alarm, replace(after, last_error=told.last_error, updated_at=now), again)


def _given_up(alarm: Alarm, gone: Fire, error: str, *, now: datetime, counted: bool = False) -> Change:
    """End a fire that failed for good: a one-shot ends with it, a series continues unless its policy pauses it."""
    after = replace(
        _no_longer_awaited(alarm, gone, now),
        last_error=error,
        failed_in_a_row=alarm.failed_in_a_row + (not counted),
    )
    if alarm.kind == "once":
        return _change(alarm, replace(after, status="failed") if alarm.status == "fired" else after, gone)
    after, events = pause_if_hopeless(after, now=now)
    return replace(_change(alarm, after, gone), events=events)


def _working(alarm: Alarm, fire: Fire, said: Report, *, in_flight: bool, now: datetime) -> Change:
    """Handle `working`: the time for the report starts again, even if the fire had been given up.

    While the attempt is under way it is kept for the settlement, which never shortens it.
    """
    if fire.status == "failed":
        raise Conflict("the fire is failed: it has ended, and its outcome is recorded", field="fire_id")
    window = alarm.policy.report_within
    wait = said.wait or (timedelta(seconds=window) if window is not None else REPORT_WITHIN)
    on_it = replace(fire, updated_at=now, result=said.text[:RESULT_LIMIT] or fire.result)
    report_by = whole_ms(now + wait)
    if fire.report_by is not None:
        on_it = replace(on_it, report_by=max(fire.report_by, report_by))
    elif in_flight:
        on_it = replace(on_it, report_by=report_by)
    elif fire.status == "timed_out":
        on_it = replace(on_it, status="delivered", report_by=report_by, last_error="")
    return _change(alarm, replace(alarm, updated_at=now), on_it)


def _snooze(alarm: Alarm, fire: Fire, said: Report, *, in_flight: bool, now: datetime) -> Change:
    """Send the wake again later; if the series fires by then, that fire takes its place."""
    if said.wait is None or said.wait <= timedelta(0):
        raise InvalidRequest("a snooze needs a length", field="for", fix='For example "15m".')
    if in_flight:
        raise Conflict(
            "the attempt is still under way", field="fire_id", fix='Answer it with {"snooze": "15m"} instead.'
        )
    if fire.status in ("retrying", "failed"):
        raise Conflict(f"the fire is {fire.status}", field="fire_id", fix="Snooze the alarm, or retry the fire.")
    again = whole_ms(now + max(said.wait, SHORTEST_SNOOZE))
    if alarm.status == "fired":
        again = max(again, alarm.next_fire_at + _MS)  # the clock may have been set back: never an id that was there
    told = _no_longer_awaited(alarm, fire, now)
    after = _reopened(told, replace(fire, scheduled_for=again), again, failures=0)
    if after is None and alarm.kind == "cron" and alarm.status == "active":
        after = told
    if after is None:
        raise Conflict(f"the alarm is {alarm.status}", field="fire_id", fix="Set a new one.")
    slept = replace(fire, status="snoozed", report_by=None, result=f"snoozed until {again.isoformat()}", updated_at=now)
    return _change(alarm, after, slept)


def _reopened(alarm: Alarm, fire: Fire, at: datetime, *, failures: int) -> Alarm | None:
    """Return the alarm at that occurrence again, due at a moment, or None if something else comes first."""
    policy = alarm.policy
    if alarm.status == "fired" and alarm.kind == "cron":
        at = max(at, alarm.next_fire_at)  # what lies before is on record, also when the clock was set back
    if policy.expires is not None and at > fire.scheduled_for + timedelta(seconds=policy.expires):
        return None
    if policy.overlap == "skip" and alarm.awaiting not in (None, fire.scheduled_for):
        return None
    if not _free(alarm, at):
        return None
    return replace(
        alarm,
        status="active",
        occurrence_at=fire.scheduled_for,
        next_fire_at=at,
        failure_count=failures,
        unsettled=0,
        awaiting=None if alarm.awaiting == fire.scheduled_for else alarm.awaiting,
        fire_count=max(0, alarm.fire_count - 1),
    )


def _free(alarm: Alarm, at: datetime) -> bool:
    """Return whether the alarm can go back to an earlier fire until a moment without losing another."""
    if alarm.status == "active" and alarm.kind == "cron" and alarm.claimed_at is None:
        # What waits now must be what the schedule itself names again afterwards: no retry, no snooze, nothing overdue.
        return following(alarm, at) == alarm.occurrence_at
    return alarm.status == "fired"


def _moment(at: datetime | None) -> str:
    return at.isoformat() if at else "then"


def _no_longer_awaited(alarm: Alarm, fire: Fire, now: datetime) -> Alarm:
    awaiting = None if alarm.awaiting == fire.scheduled_for else alarm.awaiting
    return replace(alarm, awaiting=awaiting, updated_at=now)


def _change(before: Alarm, after: Alarm, fire: Fire) -> Change:
    return Change(
        claim=before.claim,
        version=before.version,
        after=replace(after, version=before.version + 1),
        fires=(fire,),
    )

"""Decide what follows a delivery attempt, and what is settled without one. Pure: values in, a Change out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.model.alarm import (
    ERROR_LIMIT,
    REPORT_WITHIN,
    RESULT_LIMIT,
    STEPPED_OVER,
    Alarm,
    Attempt,
    Change,
    Event,
    Fire,
    Policy,
    SkipReason,
)
from wakeful.model.outcome import (
    SHORTEST_SNOOZE,
    Completed,
    Delivered,
    Failed,
    Outcome,
    Snoozed,
    Try,
    Waiting,
    failed_result,
    retry_result,
)
from wakeful.moments import MS, whole_ms
from wakeful.rules.attempts import NOTED, attempt_number, logged, open_fire, taken_up
from wakeful.rules.backoff import backoff, spread
from wakeful.rules.lineage import announced
from wakeful.rules.plan import (
    advance,
    at_occurrence,
    at_upcoming,
    end_of_day,
    first_due,
    following,
    holiday_at,
    holidays_unknown,
    passed_over,
    put_back,
    said_schedule,
    timetable,
    undecided,
    undone,
    unfired,
)
from wakeful.rules.suspect import deaths, is_poison, unsettled_again

RETRY_AFTER_LIMIT: Final = 86_400.0
WORKER_DIED: Final = "worker died"
REPORTED: Final = "reported"
UNREPORTED: Final = "unreported"  # of a fire that is retried: it had arrived, and no report came
TIMEOUT: Final = "timeout_unknown"  # the result of a fire that nobody reported on
CLOCK_SET_BACK: Final = "clock set back"  # what the event of an alarm says
_MS: Final = timedelta(milliseconds=1)
# Reasons of a fire that an owner's change ended.
_BY_OWNER: Final = frozenset({"cancelled", "superseded", "paused", "requested", "signalled"})


def begin(alarm: Alarm, fire: Fire | None, *, now: datetime, refused: str = "") -> Change | None:
    """Return None if a claimed alarm should be delivered, else what to settle instead of delivering it.

    `refused`: why its owner may not use its target.
    """
    now = whole_ms(now)
    if fire is not None and (settled := _over_already(alarm, fire, now)) is not None:
        return settled
    if refused:
        end = _Ending(alarm, taken_up(alarm, fire, now), now, started=now)
        return end.failed(refused, "refused", past=end.past)
    if is_poison(alarm):
        return _poisoned(alarm, fire, now=now)
    return _on_holiday(alarm, fire, now) or _too_late(alarm, fire, now)


def _over_already(alarm: Alarm, fire: Fire, now: datetime) -> Change | None:
    """Settle a fire that was delivered or reported on, but whose worker died or lost its lease before settling."""
    if fire.status == "timed_out":  # it arrived, and no report came: that stands, and it is not sent again
        return _Ending(alarm, fire, now, started=now).silent()
    if (known := _known_end(fire)) is None:
        return None
    return _decide(_Ending(alarm, replace(fire, attempts=max(1, fire.attempts)), now, started=now), known)


def _too_late(alarm: Alarm, fire: Fire | None, now: datetime) -> Change | None:
    """Apply the policy to a delivery that is late or overlaps with one still under way."""
    policy = alarm.policy
    expired = policy.expires is not None and now > alarm.occurrence_at + timedelta(seconds=policy.expires)
    if alarm.failure_count > 0 or (fire is not None and fire.status == "retrying"):
        return _late_retry(alarm, fire, expired=expired, now=now)
    if policy.expires is not None and expired:
        return skip(alarm, "expired", now=now, tolerance=policy.expires)
    if policy.catch_up == "skip" and now > first_due(alarm) + timedelta(seconds=policy.grace):
        return skip(alarm, "missed", now=now, tolerance=policy.grace)
    if policy.overlap == "skip" and alarm.awaiting is not None and alarm.awaiting != alarm.occurrence_at:
        return skip(alarm, "overlap", now=now)
    return None


def _on_holiday(alarm: Alarm, fire: Fire | None, now: datetime) -> Change | None:
    """Skip what falls on a holiday, with what else is overdue on that day, or move it to the day it comes on instead.

    What was tried already goes on, and so does what its owner put on that day: a snooze is not an occurrence.
    """
    name = holiday_at(alarm, alarm.occurrence_at)
    if not name or alarm.failure_count > 0 or (fire is not None and fire.status not in STEPPED_OVER):
        return None
    before = alarm.occurrence_at - _MS
    if said_schedule(alarm).after(before) != alarm.occurrence_at:
        return None
    if timetable(unfired(alarm)).after(before) == alarm.occurrence_at:
        last = max(alarm.next_fire_at, min(now, end_of_day(alarm, alarm.occurrence_at)))
        runs = tuple(replace(run, result=name) for run in undone(alarm, last, "holiday", now=now))
        return _change(alarm, advance(_released(alarm, now), last), *runs)
    if alarm.policy.on_holiday == "previous_working_day":
        return None  # the calendar was not known on the day before: late is better than never
    return _change(alarm, advance(unfired(_released(alarm, now)), alarm.occurrence_at))


def is_too_late(alarm: Alarm, at: datetime) -> bool:
    """Return whether the policy would not have a first attempt at a moment any more."""
    policy = alarm.policy
    if policy.expires is not None and at > alarm.occurrence_at + timedelta(seconds=policy.expires):
        return True
    return policy.catch_up == "skip" and at > first_due(alarm) + timedelta(seconds=policy.grace)


def _late_retry(alarm: Alarm, fire: Fire | None, *, expired: bool, now: datetime) -> Change | None:
    """End a retry that comes too late: it must not delay the next occurrence of the series."""
    upcoming = undecided(alarm)
    if not expired and (upcoming is None or upcoming > now):
        return None
    reason = "expired" if expired else "superseded"
    end = _Ending(alarm, taken_up(alarm, fire, now), now, started=now)
    change = end.failed(end.fire.last_error or alarm.last_error or reason, reason, past=alarm.next_fire_at)
    return _timed_out(change) if end.fire.reason == UNREPORTED else change


def _timed_out(change: Change) -> Change:
    """The end of a fire that had arrived and was not reported on: silence is not a failed delivery."""
    silent = replace(change.fires[0], status="timed_out", reason="", result=TIMEOUT)
    after = replace(change.after, status="fired") if change.after.kind == "once" else change.after
    return replace(change, after=after, fires=(silent, *change.fires[1:]))


def _poisoned(alarm: Alarm, fire: Fire | None, *, now: datetime) -> Change:
    """Stop delivering an alarm that kills its workers. A series that does so twice in a row is paused."""
    error = f"{WORKER_DIED} {deaths(alarm)} times while this alone was tried again"
    end = _Ending(alarm, taken_up(alarm, fire, now), now, started=now)
    change = end.failed(error, WORKER_DIED, past=end.past)
    if not alarm.last_error.startswith(WORKER_DIED) or change.after.status != "active":
        return change
    after, events = _paused(change.after, by="poison rule", reason=error, now=now)
    return replace(change, after=after, events=events)


def skip(alarm: Alarm, reason: SkipReason, *, now: datetime, tolerance: float = 0.0) -> Change:
    """Skip the current occurrence and every other one that is overdue by more than the tolerance."""
    now = whole_ms(now)
    last = max(alarm.next_fire_at, now if not tolerance else whole_ms(now - timedelta(seconds=tolerance)) - _MS)
    runs = undone(alarm, last, reason, now=now)
    after = _released(alarm, now)
    if alarm.kind == "once":
        late = (now - first_due(alarm)).total_seconds()
        after = replace(after, status="failed", last_error=f"not delivered: {reason}, {late:.0f} s after it was due")
    else:
        after = advance(after, last)
    return _change(alarm, after, *runs)


def settle(alarm: Alarm, fire: Fire | None, outcome: Outcome, attempt: Try) -> Change:
    """Decide what follows one delivery attempt."""
    if fire is None and (change := settled_at_once(alarm, outcome, attempt)):
        return change
    return settle_at_length(alarm, fire, outcome, attempt)


def settle_at_length(alarm: Alarm, fire: Fire | None, outcome: Outcome, attempt: Try) -> Change:
    """Decide what follows one delivery attempt, whichever it was."""
    known = taken_up(alarm, fire, attempt.started)
    outcome = _outweighed(known, outcome)
    end = _Ending(alarm, logged(known, outcome, attempt), whole_ms(attempt.ended), attempt.started)
    change = _decide(end, outcome)
    if unknown := holidays_unknown(alarm, whole_ms(attempt.ended)):
        change = replace(change, events=(*change.events, *unknown))
    return replace(change, cost=outcome.cost) if isinstance(outcome, Completed) and outcome.cost else change


def _decide(end: _Ending, outcome: Outcome) -> Change:
    match outcome:
        case Completed(result):
            return end.completed(result)
        case Delivered():
            return end.delivered(outcome)
        case Waiting():
            return end.waiting()
        case Snoozed(wait):
            return end.snoozed(max(wait, SHORTEST_SNOOZE))
        case Failed():
            retry_at, why_not = end.next_try(outcome)
            if retry_at is not None:
                return end.retrying(outcome.error, retry_at)
            return end.failed(outcome.error, why_not, past=end.past)


def release(alarm: Alarm, *, now: datetime, wait: timedelta = timedelta(0)) -> Change:
    """Release a claimed alarm: it is due again at once or after a while, and the claim does not count against it.

    A suspect stays a suspect.
    """
    now = whole_ms(now)
    after = replace(_released(alarm, now), unsettled=unsettled_again(alarm))
    if not wait:
        return _change(alarm, after)
    at, runs = put_back(alarm, whole_ms(now + wait), now=now)
    return _change(alarm, replace(after, next_fire_at=at), *runs)


def clock_set_back(alarm: Alarm, by: timedelta, *, now: datetime) -> Change:
    """Release an alarm that was claimed just before it was due, and is not due for long by a clock set back since."""
    reason = f"by about {by.total_seconds():.1f} s, just before it was delivered: it is claimed again"
    event = Event(
        at=whole_ms(now),
        what=CLOCK_SET_BACK,
        alarm_id=alarm.id,
        owner_did=alarm.owner_did,
        fire_id=alarm.fire_id,
        reason=reason,
    )
    return replace(release(alarm, now=now), events=(event,))


def note(
    alarm: Alarm,
    fire: Fire | None,
    occurrence: datetime,
    outcome: Outcome,
    attempt: Try,
    *,
    arrived: datetime | None = None,
) -> Change:
    """Record the result of a worker that no longer holds the alarm. The alarm itself does not change.

    `arrived`: the wake's `delivered_at` as it was when the attempt began.
    """
    now = whole_ms(attempt.ended)
    known = fire or replace(open_fire(alarm, now), scheduled_for=occurrence, failures=0)
    if any(line.at == whole_ms(attempt.started) and line.ms == attempt.ms for line in known.log):
        return _change(alarm, alarm)  # it was settled after all, and only the answer got lost
    noted = logged(known, outcome, attempt, suffix=NOTED)
    is_open = known.status == "retrying" or (known.reason in _BY_OWNER and known.count == 1)
    if is_open and _is_news(known, arrived):
        noted = _come_back(alarm, noted, outcome, now=now)
    return _change(alarm, replace(alarm, version=alarm.version + 1, updated_at=now), noted)


def may_still_arrive(fire: Fire) -> bool:
    """Whether its owner's change ended a fire as failed: the answer of an attempt that was under way says more."""
    return fire.status == "failed" and fire.reason in _BY_OWNER and fire.completed_at is None


def _is_news(fire: Fire, arrived: datetime | None) -> bool:
    """Whether an attempt says more than is known: not after a report, nor where a later one arrived before it.

    Moments are not compared by order: the clock may have been set back meanwhile.
    """
    return fire.completed_at is None and fire.delivered_at in (None, arrived)


def _come_back(alarm: Alarm, fire: Fire, outcome: Outcome, *, now: datetime) -> Fire:
    """Add the result of the last attempt to a fire that is open, or that an owner's change has closed."""
    pending = not alarm.finished and alarm.occurrence_at == fire.scheduled_for
    match outcome:
        case Completed(result):
            return _completed(replace(fire, through=None), result, now=now)
        case Delivered(row=None):  # with a row nothing has arrived: it would have been written by the settlement
            return _delivered(alarm, replace(fire, through=None), outcome, now=now)
        case Failed(error):
            fire = replace(fire, last_error=error[:ERROR_LIMIT], through=None)
            return fire if pending else _ended(fire, fire.reason or "superseded")
        case _:
            gone = _ended(replace(fire, last_error="taken from its worker"), "superseded")
            return gone if fire.status == "retrying" and not pending else fire


def _ended(fire: Fire, reason: str) -> Fire:
    return replace(fire, status="failed", reason=reason, result=failed_result(fire.last_error, fire.attempts))


def _completed(fire: Fire, result: str, *, now: datetime) -> Fire:
    done = fire.completed_at or now
    return replace(
        fire,
        status="completed",
        reason="",
        delivered_at=fire.delivered_at or now,
        completed_at=done,
        report_by=None,
        duration_ms=max(0, (done - (fire.started_at or done)) // _MS),
        result=result[:RESULT_LIMIT],
        last_error="",
    )


def _delivered(alarm: Alarm, fire: Fire, outcome: Delivered, *, now: datetime) -> Fire:
    window = alarm.policy.report_within
    report_by = None
    if window is not None or outcome.awaits_report:
        report_by = whole_ms(now + (timedelta(seconds=window) if window is not None else REPORT_WITHIN))
        report_by = max(report_by, fire.report_by or report_by)  # its target may have asked for more already
    noted = fire.result if fire.report_by is not None else ""  # by a report that it is being worked on
    return replace(
        fire, status="delivered", reason="", delivered_at=now, report_by=report_by, last_error="", result=noted
    )


class _Ending(Struct, frozen=True):
    """A settlement being built: the possible outcomes of a fire."""

    alarm: Alarm
    fire: Fire
    now: datetime
    started: datetime

    @property
    def past(self) -> datetime:
        """The moment up to which this settlement decides, even if the clock was set back."""
        return max(self.now, self.alarm.next_fire_at)

    @property
    def _failed_at(self) -> datetime:
        """Return when the wait for a retry begins: at the report, if one came before the attempt ended."""
        reported = self.fire.completed_at if is_foreseen(self.fire) else None
        return max(reported, self.alarm.next_fire_at) if reported is not None else self.past

    def completed(self, result: str) -> Change:
        return self._succeeded(_completed(self.fire, result, now=self.now), awaiting=False)

    def delivered(self, outcome: Delivered) -> Change:
        fire = _delivered(self.alarm, self.fire, outcome, now=self.now)
        return replace(self._succeeded(fire, awaiting=fire.report_by is not None), row=outcome.row)

    def waiting(self) -> Change:
        fire = replace(self.fire, status="waiting", reason="", target=self.alarm.target, report_by=None, last_error="")
        return self._succeeded(fire, awaiting=True)

    def silent(self) -> Change:
        change = self._succeeded(self.fire, awaiting=False)
        kept = {name: getattr(self.alarm, name) for name in ("last_error", "failed_in_a_row")}
        return replace(change, after=replace(change.after, **kept))

    def snoozed(self, wait: timedelta) -> Change:
        """Send the wake again later, unless the next occurrence of the series comes first."""
        alarm, again = self.alarm, max(whole_ms(self.now + wait), self.past + _MS)
        slept = f"snoozed until {again.isoformat()}"
        fire = replace(self.fire, status="snoozed", reason="", report_by=None, result=slept)
        after = _released(alarm, self.now)
        # A snoozed fire uses up none of `max_fires`: the series is not at its last one yet.
        uncounted = replace(alarm, fire_count=alarm.fire_count - 1)
        runs = passed_over(uncounted, started=self.started, now=self.now)
        upcoming = following(alarm, self.past)
        if upcoming is not None and upcoming <= again:
            return _change(alarm, at_occurrence(after, upcoming), fire, *runs)
        return _change(alarm, replace(at_occurrence(after, again), next_fire_at=again), fire, *runs)

    def next_try(self, outcome: Failed) -> tuple[datetime | None, str]:
        """Return when the next attempt comes, or why there is none."""
        alarm, policy = self.alarm, self.alarm.policy
        if not outcome.retryable:
            return None, "refused"
        if alarm.failure_count >= alarm.max_failures:
            return None, "exhausted"
        wait = ladder_wait(policy, alarm.failure_count, self.fire)
        if outcome.retry_after is not None:
            wait = max(wait, timedelta(seconds=min(RETRY_AFTER_LIMIT, outcome.retry_after)))
        at = whole_ms(max(self._failed_at + wait, self.past))
        if policy.expires is not None and at > alarm.occurrence_at + timedelta(seconds=policy.expires):
            return None, "expired"
        upcoming = undecided(replace(alarm, next_fire_at=self.past))
        return (None, "superseded") if upcoming is not None and at >= upcoming else (at, "")

    def retrying(self, error: str, at: datetime) -> Change:
        alarm, error = self.alarm, error[:ERROR_LIMIT]
        failures = alarm.failure_count + 1
        fire = replace(
            self.fire,
            status="retrying",
            completed_at=None,
            report_by=None,
            failures=failures,
            last_error=error,
            reason=UNREPORTED if self.fire.reason == UNREPORTED else "",  # it had arrived before, and still has
            result=retry_result(error, failures, alarm.max_failures),
        )
        after = replace(_released(alarm, self.now), failure_count=failures, last_error=error, next_fire_at=at)
        return _change(alarm, after, fire, *passed_over(alarm, started=self.started, now=self.now))

    def failed(self, error: str, reason: str, *, past: datetime) -> Change:
        """End the fire as failed; a one-shot ends with it, a series continues after `past`."""
        alarm, error = self.alarm, error[:ERROR_LIMIT]
        fire = replace(
            self.fire,
            status="failed",
            reason=reason,
            report_by=None,
            failures=alarm.failure_count + 1,
            last_error=error,
            result=failed_result(error, self.fire.attempts),
        )
        after = replace(
            _released(alarm, self.now),
            failure_count=alarm.failure_count + 1,
            last_error=error,
            fire_count=alarm.fire_count + 1,
            failed_in_a_row=alarm.failed_in_a_row + 1,
        )
        if alarm.kind == "once":
            return _change(alarm, replace(after, status="failed"), fire)
        runs = passed_over(alarm, started=self.started, now=past)
        after, events = pause_if_hopeless(advance(after, past), now=self.now)
        change = _change(alarm, after, fire, *runs)
        return replace(change, events=(*change.events, *events))

    def _succeeded(self, fire: Fire, *, awaiting: bool) -> Change:
        alarm = self.alarm
        after = replace(
            alarm,
            status="fired" if alarm.kind == "once" else alarm.status,
            last_fired_at=self.now,
            failure_count=0,
            last_error="",
            fire_count=alarm.fire_count + 1,
            failed_in_a_row=alarm.failed_in_a_row if awaiting else 0,
            awaiting=alarm.occurrence_at if awaiting else _still_awaited(alarm),
            **_lease_over(alarm, self.now),
        )
        if alarm.kind == "once":
            return _change(alarm, after, fire)
        runs = passed_over(alarm, started=self.started, now=self.now)
        return _change(alarm, advance(after, self.past), fire, *runs)


def pause_if_hopeless(alarm: Alarm, *, now: datetime) -> tuple[Alarm, tuple[Event, ...]]:
    """Pause a series whose fires keep failing, if its policy says so, with the reason."""
    limit = alarm.policy.auto_pause_after
    if limit is None or alarm.failed_in_a_row < limit or alarm.status != "active":
        return alarm, ()
    reason = f"{alarm.failed_in_a_row} fires failed in a row: {alarm.last_error}"
    return _paused(alarm, by="policy auto_pause_after", reason=reason, now=now)


def _paused(alarm: Alarm, *, by: str, reason: str, now: datetime) -> tuple[Alarm, tuple[Event, ...]]:
    event = Event(at=now, what="paused", alarm_id=alarm.id, owner_did=alarm.owner_did, by=by, reason=reason)
    return replace(alarm, status="paused", paused_reason=reason), (event,)


def _still_awaited(alarm: Alarm) -> datetime | None:
    return None if alarm.awaiting == alarm.occurrence_at else alarm.awaiting


def _released(alarm: Alarm, now: datetime) -> Alarm:
    return replace(alarm, **_lease_over(alarm, now))


def _lease_over(alarm: Alarm, now: datetime) -> dict[str, Any]:
    """End the lease and raise its number: decisions made from the alarm as it was before no longer count."""
    return {"claim": alarm.claim + 1, "claimed_at": None, "unsettled": 0, "updated_at": now}


def ladder_wait(policy: Policy, failures: int, fire: Fire) -> timedelta:
    """How long to wait before a fire is tried again, after so many failures of it."""
    wait = backoff(failures, base=policy.backoff_base, cap=policy.backoff_cap)
    return wait if policy.exact_backoff else spread(wait, f"{fire.id}#{fire.attempts}")


def foreseen(alarm: Alarm, fire: Fire, error: str, *, now: datetime) -> Fire:
    """Show a failure that is reported while its attempt is under way as the settlement will decide it."""
    known = taken_up(alarm, fire, now)
    known = replace(known, attempts=known.attempts + 1)
    at, _ = _Ending(alarm, known, now, started=now).next_try(Failed(error))
    said = failed_result(error, known.attempts)
    if at is not None:
        said = retry_result(error, alarm.failure_count + 1, alarm.max_failures)
    return replace(
        fire,  # the attempt itself is counted when it is over
        status="failed" if at is None else "retrying",
        reason=REPORTED,
        delivered_at=now,  # who reports has it
        completed_at=now,
        report_by=None,
        result=said,
        last_error=error,
        updated_at=now,
    )


def is_foreseen(fire: Fire) -> bool:
    """Return whether a reporter was promised a retry and the attempt is not settled yet."""
    return fire.status == "retrying" and fire.reason == REPORTED


def is_silent(fire: Fire) -> bool:
    """Return whether a fire had arrived, nobody reported on it, and it is sent again."""
    return fire.status == "retrying" and fire.reason == UNREPORTED


def retry_at(alarm: Alarm, fire: Fire) -> datetime | None:
    """Return when a fire that is being retried is tried next, or None if it is not."""
    if fire.status != "retrying" or alarm.status != "active" or alarm.occurrence_at != fire.scheduled_for:
        return None
    if not is_foreseen(fire) or fire.completed_at is None:
        return alarm.next_fire_at
    tried = replace(fire, attempts=attempt_number(alarm, fire))
    return _Ending(alarm, tried, fire.completed_at, fire.completed_at).next_try(Failed(fire.last_error))[0]


def _known_end(fire: Fire) -> Outcome | None:
    """Return the known outcome of an open fire, from a report or from an attempt that came back late."""
    if fire.status == "completed":
        return Completed(fire.result)
    if fire.status == "delivered":
        return Delivered(awaits_report=fire.report_by is not None)
    return Failed(fire.last_error) if fire.status in ("failed", "retrying") and fire.reason == REPORTED else None


def _outweighed(fire: Fire, outcome: Outcome) -> Outcome:
    """Prefer a report that came during the attempt over its answer, and a delivery over a failure."""
    known = _known_end(fire)
    if known is None or (isinstance(known, Delivered) and not isinstance(outcome, Failed)):
        return outcome
    return known


def _change(before: Alarm, after: Alarm, *fires: Fire) -> Change:
    events = announced(before, after) if before.policy.renew_for is not None else ()
    return Change(claim=before.claim, version=before.version, after=after, fires=fires, events=events)


# Settle a first attempt that arrived and leaves nothing to wait for: the path of nearly every fire. Pure.
#
# settle.py decides the same for the general case; tests compare the two over every history of the property tests. This
# path takes a third of the time. It marks the change `at_once`, and the stores then write only the values that do not
# follow from the alarm's row (`FirstTry` in store/records.py): a few columns instead of forty.


def settled_at_once(alarm: Alarm, outcome: Outcome, attempt: Try) -> Change | None:
    """Return what follows the first attempt at a fire, or None if there is more to say of it."""
    if alarm.unsettled > 1 or alarm.failure_count or alarm.awaiting is not None:
        return None
    if (fire := _first(alarm, outcome, attempt)) is None:
        return None
    ended = fire.updated_at
    after = replace(
        alarm,
        status="fired" if alarm.kind == "once" else alarm.status,
        last_fired_at=ended,
        last_error="",
        fire_count=alarm.fire_count + 1,
        failed_in_a_row=0,
        claim=alarm.claim + 1,
        claimed_at=None,
        unsettled=0,
        updated_at=ended,
    )
    if alarm.kind == "cron":
        policy, upcoming = alarm.policy, undecided(alarm)
        if policy.renew_for is not None or policy.calendar or (upcoming is not None and upcoming <= ended):
            return None
        after = at_upcoming(after, upcoming)
    return Change(claim=alarm.claim, version=alarm.version, after=after, fires=(fire,), at_once=True)


def _first(alarm: Alarm, outcome: Outcome, attempt: Try) -> Fire | None:
    """The fire of a first attempt, unless its outcome leaves something to wait for, to count or to write."""
    started, ended = whole_ms(attempt.started), whole_ms(attempt.ended)
    match outcome:
        case Completed(result, cost=0.0):
            done, said = True, f"completed: {result[:200]}" if result else "completed"
        case Delivered(detail, awaits_report=False, row=None) if alarm.policy.report_within is None:
            done, said, result = False, f"delivered: {detail}" if detail else "delivered", ""
        case _:
            return None
    return Fire(
        alarm_id=alarm.id,
        scheduled_for=alarm.occurrence_at,
        owner_did=alarm.owner_did,
        target=alarm.target,
        status="completed" if done else "delivered",
        attempts=1,
        started_at=started,
        delivered_at=ended,
        completed_at=ended if done else None,
        duration_ms=max(0, (ended - started) // MS) if done else None,
        result=result[:RESULT_LIMIT],
        log=(Attempt(started, attempt.ms, said),),
        updated_at=ended,
    )

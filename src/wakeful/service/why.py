"""Explain why an alarm was late or did not fire, and when it will: in words, then the facts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.model.alarm import INBOX, SUSPECT, Alarm, Event, Fire
from wakeful.rules.budget import DEFERRED
from wakeful.rules.lineage import is_ending
from wakeful.rules.pace import HELD_BACK
from wakeful.rules.plan import coming, first_due, holiday_at
from wakeful.rules.settle import is_silent
from wakeful.rules.signals import by_signal
from wakeful.schedule.interval import span_words
from wakeful.store import TargetState, Worker

LATELY: Final = timedelta(hours=2)  # how far back an owner's fires are looked at for what holds an alarm up
SILENT_AFTER: Final = timedelta(seconds=30)  # a worker not seen for this long is not counted on
_SKIPPED: Final = {
    "missed": "no worker was there in time, and the alarm catches up on one fire only or on none",
    "overlap": "the fire before was still under way or its report still awaited",
    "expired": "it was later than the alarm's `expires` allows",
    "paused": "the alarm was paused",
    "superseded": "the alarm was given another time first",
    "cancelled": "the alarm was cancelled",
    "requested": "somebody asked for it",
    "budget": "a budget was used up",
    "unchanged": "the check that it waits for (`only_if`) found nothing new",
    "holiday": "it fell on a holiday",
    "signalled": "the signal that it waits for (`unless`) came first",
}
_FAILED: Final = {
    "exhausted": "its retries were used up",
    "refused": "it was refused for good",
    "superseded": "a retry would have come at or after the next occurrence, or the alarm was changed",
    "expired": "a retry would have come later than the alarm's `expires` allows",
    "cancelled": "the alarm was cancelled while it was being retried or waited in the inbox",
    "paused": "the alarm was paused while it was being retried",
    "requested": "its retries were skipped on request",
    "signalled": "the signal that it waits for (`unless`) came while it was being retried",
    "reported": "the target reported that the work failed",
    "unreported": "it was handed out as often as the alarm's `max_failures` allows, and nobody said how it went",
    "broken": "the whole alarm was set aside for it",
}


_HOLDING: Final = (HELD_BACK, DEFERRED)  # events that say why it waits
_STATUS: Final = re.compile(r"(?:HTTP|router returned) ([1-5][0-9]{2})\b")
_HOLDS: Final = re.compile("HTTP (5[0-9]{2}|429)")
_KINDS: Final = {  # how a target's error begins, and what of it is everyone's to know
    "no answer": "no answer in time",
    "the reply did not end": "no answer in time",
    "could not connect": "could not connect",
    "the connection": "the connection failed",
    "the host name": "its name could not be resolved",
    "TLS": "no secure connection",
    "the answer was not HTTP": "the answer was not HTTP",
    "the reply broke off": "the connection failed",
}


class Why(Struct, frozen=True, forbid_unknown_fields=True):
    """An explanation: one paragraph in words, the facts it rests on, and the moment it holds for."""

    summary: str
    facts: tuple[str, ...]
    now: datetime


def explain(
    alarm: Alarm,
    fires: Sequence[Fire],
    *,
    events: Sequence[Event],
    workers: Sequence[Worker],
    state: TargetState | None,
    lease: timedelta,
    now: datetime,
    operator: bool = False,
    lately: Sequence[Fire] = (),
    manual: Sequence[tuple[Alarm, Fire | None]] = (),
) -> Why:
    """Explain an alarm. Only the operator sees answers to other owners' wakes and where workers run.

    `lately`: the owner's own fires at the target, needed where the alarm was put back. `manual`: the copies by which
    it was fired by hand, newest first, with what became of them.
    """
    if state is not None and not operator:
        state = replace(state, last_error=kind_of(state.last_error))
    waits = is_put_back(alarm, now)
    standing = _put_back(alarm, lately, now) if waits else _standing(alarm, workers, state, lease, now)
    known = _held_back(alarm, events, now) or _cancelled_by_signal(alarm, events) or _sent_again(alarm, fires, now)
    summary = [known or standing]
    if alarm.status == "active" and is_ending(alarm):
        summary.append(f"It ends at {_at(alarm.policy.ends_at)} unless a report with renew comes before.")
    if fires:
        summary.append(_fire(fires[0]))
        if (signal := alarm.signal_of(fires[0].scheduled_for)) is not None:
            summary.append(f"It came for the signal {signal.name!r}.")
    summary += _manual(alarm, fires, manual)
    facts = [f"status {alarm.status}, target {alarm.target}, version {alarm.version}"]
    facts.append(f"created {_at(alarm.created_at)}" + (f" by {alarm.created_by}" if alarm.created_by else ""))
    facts += [f"{_at(event.at)} {event.what}{_by(event)}" for event in events]
    for fire in fires:
        facts.append(f"fire {fire.id}: {fire.status}" + (f" ({fire.reason})" if fire.reason else ""))
        facts += [f"  {_at(line.at)} attempt, {line.ms} ms: {line.said}" for line in fire.log]
    facts += [_manual_fact(copy, fire) for copy, fire in manual]
    facts += [f"{_name(worker, operator)} last seen {_at(worker.seen_at)}" for worker in _serving(alarm, workers)]
    return Why(" ".join(summary), tuple(facts), now)


def _held_back(alarm: Alarm, events: Sequence[Event], now: datetime) -> str:
    """Where it only waits since it came too often, or its budget is used up, and nothing happened to it since."""
    held = max((event for event in events if event.what in _HOLDING), key=lambda event: event.at, default=None)
    if alarm.status != "active" or alarm.next_fire_at <= now or held is None or alarm.updated_at > held.at:
        return ""
    why = f"it was {held.reason}" if held.what == HELD_BACK else held.reason.partition(": ")[2]
    return f"It waits until {_at(alarm.next_fire_at)}: {why}."


def _cancelled_by_signal(alarm: Alarm, events: Sequence[Event]) -> str:
    latest = max((event for event in events if event.what == "cancelled"), key=lambda event: event.at, default=None)
    if alarm.status != "cancelled" or latest is None or latest.reason != by_signal(alarm.policy.unless):
        return ""
    return f"{latest.reason.capitalize()} came at {_at(alarm.cancelled_at)} and cancelled it: it will not fire."


def _sent_again(alarm: Alarm, fires: Sequence[Fire], now: datetime) -> str:
    """Where its receiver took the wake and said no more."""
    fire = next((one for one in fires if one.scheduled_for == alarm.occurrence_at), None)
    if fire is None or not is_silent(fire) or alarm.status != "active" or alarm.next_fire_at <= now:
        return ""
    return (
        f"Its wake of {_at(alarm.occurrence_at)} arrived, but no report came ({alarm.last_error}); "
        f"it is sent again at {_at(alarm.next_fire_at)}."
    )


def _standing(
    alarm: Alarm, workers: Sequence[Worker], state: TargetState | None, lease: timedelta, now: datetime
) -> str:
    match alarm.status:
        case "paused":
            return f"It is paused{_because(alarm.paused_reason)} and fires again once it is resumed."
        case "cancelled":
            return f"It was cancelled at {_at(alarm.cancelled_at)}: it will not fire."
        case "failed":
            return f"It failed: {alarm.last_error}."
        case "fired":
            return f"It has fired, last at {_at(alarm.last_fired_at)}, and has no fire to come."
        case "active":
            return _active(alarm, workers, state, lease, now)


def _active(alarm: Alarm, workers: Sequence[Worker], state: TargetState | None, lease: timedelta, now: datetime) -> str:
    if alarm.next_fire_at > now:
        if alarm.failure_count:
            return (
                f"Its fire of {_at(alarm.occurrence_at)} failed {alarm.failure_count} times ({alarm.last_error}); "
                f"it is tried again at {_at(alarm.next_fire_at)}."
            )
        return _ahead(alarm, now)
    late = _span(now - alarm.next_fire_at)
    if alarm.is_leased(now, lease):
        return f"A worker took it at {_at(alarm.claimed_at)} and is delivering it now."
    if state is not None and state.paused_at is not None:
        return f"It has been due for {late}, but its target is paused{_because(state.paused_reason)}."
    serving = [worker for worker in _serving(alarm, workers) if is_alive(worker, now)]
    if not serving:
        return f"It has been due for {late}, but no running worker serves the target {alarm.target!r}."
    if state is not None and state.breaker_opened_at is not None:
        return (
            f"It has been due for {late}; the target has been failing since {_at(state.breaker_opened_at)} "
            f"({state.last_error}), and is tried with one wake at a time until it recovers."
        )
    if alarm.unsettled:
        how = "in a group" if alarm.unsettled < SUSPECT else "one at a time, since a group of it took a worker with it"
        return f"It has been due for {late}: {_silence(alarm, now)}; what was in its hands is tried again {how}."
    return f"It has been due for {late} and is about to be delivered: others of its target are ahead of it."


def _signals(alarm: Alarm) -> str:
    """Which signals it waits for."""
    unless, or_when = alarm.policy.unless, alarm.policy.or_when
    sooner = f", or as soon as the signal {or_when!r} comes" if or_when else ""
    if not unless:
        return sooner
    since, rearm = alarm.policy.unless_since, alarm.policy.rearm
    within = f", at most {span_words(since)} before it" if since is not None else ""
    then = f", which moves it to {span_words(rearm)} after that" if rearm is not None else ""
    return f"{sooner}, unless the signal {unless!r} comes first{within}{then}"


def _ahead(alarm: Alarm, now: datetime) -> str:
    if name := holiday_at(alarm, alarm.occurrence_at):
        return f"Its fire of {_at(alarm.next_fire_at)} falls on a holiday ({name}) and is skipped.{_then(alarm)}"
    return (
        f"It fires at {_at(alarm.next_fire_at)}, in {_span(alarm.next_fire_at - now)}{_signals(alarm)}.{_then(alarm)}"
    )


def is_put_back(alarm: Alarm, now: datetime) -> bool:
    """Whether it was due already, and waits untried until a worker looks at it again."""
    if alarm.status != "active" or alarm.failure_count or alarm.next_fire_at <= now:
        return False
    return first_due(alarm) < alarm.next_fire_at


def _put_back(alarm: Alarm, lately: Sequence[Fire], now: datetime) -> str:
    """In words of kind: the workers' memory of why is theirs, but what its owner's other wakes met is on record."""
    due = f"It has been due for {_span(now - first_due(alarm))}"
    again = f"is looked at again at {_at(alarm.next_fire_at)}"
    if (trouble := _trouble(lately)) is None:
        return f"{due}, could not be delivered just then, and {again}."
    kind, since = trouble
    answered = f"the target has answered this owner's wakes with {kind} since {_at(since)}"
    return f"{due}; {answered}. It waits for that to end and {again}."


def _trouble(lately: Sequence[Fire]) -> tuple[str, datetime] | None:
    """What a target last answered that makes an owner's wakes wait, and since when it has without a success between."""
    well = max((fire.delivered_at for fire in lately if fire.delivered_at is not None), default=None)
    answers = sorted(
        (line.at, kind)
        for fire in lately
        for line in fire.log
        if _HOLDS.fullmatch(kind := kind_of(line.said.removeprefix("failed: "))) and (well is None or line.at > well)
    )
    return (answers[-1][1], answers[0][0]) if answers else None


def _silence(alarm: Alarm, now: datetime) -> str:
    taken = f"the worker that took it at {_at(alarm.claimed_at)}" if alarm.claimed_at else "the worker that took it"
    if alarm.claimed_at is not None and alarm.claimed_at > now:
        return f"{taken} did so by a clock that has been set back since, and its hold counts for nothing"
    return f"{taken} fell silent"


def _manual(alarm: Alarm, fires: Sequence[Fire], manual: Sequence[tuple[Alarm, Fire | None]]) -> list[str]:
    """The latest manual fire, where the alarm has not fired since; and of a copy, whose manual fire it is."""
    told = [f"It is a manual fire of the alarm {alarm.policy.manual_of}."] if alarm.policy.manual_of else []
    if not manual or (fires and fires[0].scheduled_for >= manual[0][0].created_at):
        return told
    copy, fire = manual[0]
    by = f" by {copy.created_by}" if copy.created_by else ""
    became = fire.status if fire is not None else "not delivered yet" if copy.status == "active" else copy.status
    return [*told, f"It was fired by hand at {_at(copy.created_at)}{by}: {became}."]


def _manual_fact(copy: Alarm, fire: Fire | None) -> str:
    if fire is None:
        return f"manual fire {copy.fire_id}: alarm {copy.status}"
    return f"manual fire {fire.id}: {fire.status}" + (f" ({fire.reason})" if fire.reason else "")


def _fire(fire: Fire) -> str:
    when = _at(fire.scheduled_for)
    match fire.status:
        case "skipped":
            return f"The fire of {when}{_skipped(fire)}."
        case "failed":
            return f"The fire of {when} failed: {fire.last_error}; {_FAILED.get(fire.reason, fire.reason)}."
        case "timed_out":
            times = f" {fire.attempts} times" if fire.attempts > 1 else ""
            return f"The fire of {when} was delivered{times}, but its report did not come in time."
        case "waiting":
            told = f" It was {fire.last_error}." if fire.attempts and fire.last_error else ""
            return f"The wake of {when} waits in the inbox until its owner fetches it.{told}"
        case "retrying":
            how = "sent again, as no report came" if is_silent(fire) else "being retried"
            return f"The fire of {when} is {how}: {fire.last_error}."
        case "snoozed":
            return f"The fire of {when} was {fire.result or 'snoozed'}."
        case _:
            return f"The fire of {when} was {fire.status}{_lateness(fire)}."


def _skipped(fire: Fire) -> str:
    if fire.reason == "requested" and fire.result:
        return f" was {fire.result}"
    run = f" and {fire.count - 1} more through {_at(fire.through)}" if fire.count > 1 else ""
    why = fire.result if fire.reason == "signalled" else ""
    return f"{run} was skipped: {why or _SKIPPED.get(fire.reason, fire.reason)}{_because(_holiday(fire))}"


def _holiday(fire: Fire) -> str:
    return fire.result if fire.reason == "holiday" else ""


def _lateness(fire: Fire) -> str:
    if fire.started_at is None or fire.started_at - fire.scheduled_for < timedelta(seconds=1):
        return " on time"
    return f", first tried {_span(fire.started_at - fire.scheduled_for)} late"


def _then(alarm: Alarm) -> str:
    later = list(islice(coming(alarm), 3))
    if later[:1] == [alarm.next_fire_at]:
        later = later[1:]
    then = f" After that at {_at(later[0])}." if later else ""
    if alarm.kind == "once" or len(later) > 1:
        return then
    return f"{then} That is its last fire: {_ending(alarm)}."


def _ending(alarm: Alarm) -> str:
    """What keeps a series from going on."""
    policy, left = alarm.policy, len(list(islice(coming(alarm), 3)))
    if policy.max_fires is not None and alarm.fire_count + left >= policy.max_fires:
        return f"it ends after {policy.max_fires} fires" if policy.max_fires > 1 else "it ends after one fire"
    return f"it ends at {_at(policy.ends_at)}" if policy.ends_at else "its schedule has no other"


def _serving(alarm: Alarm, workers: Sequence[Worker]) -> list[Worker]:
    return [w for w in workers if alarm.target == INBOX or alarm.target in (*w.targets, *w.handlers)]


def is_alive(worker: Worker, now: datetime) -> bool:
    return worker.stopped_at is None and now - worker.seen_at < SILENT_AFTER


def kind_of(error: str) -> str:
    """Return the kind of a target's error in our own words: the original may quote a wake or name an address."""
    if found := _STATUS.match(error):
        return f"HTTP {found[1]}"
    return next((kind for begin, kind in _KINDS.items() if error.startswith(begin)), "it does not take wakes")


def _name(worker: Worker, operator: bool) -> str:
    place = f"worker {worker.host}:{worker.pid}" if operator else "a worker was"
    return place + (" (stopped)" if worker.stopped_at else "")


def _by(event: Event) -> str:
    return (f" by {event.by}" if event.by else "") + (f": {event.reason}" if event.reason else "")


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _at(moment: datetime | None) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else "an unknown time"


def _span(length: timedelta) -> str:
    seconds = round(length.total_seconds())
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {name}"
    return f"{seconds} s"

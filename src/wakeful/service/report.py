"""The verbs of targets and of whoever fetches from the inbox: how the work of a fire went.

A report may name only the alarm, as reports of the Alarm system do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from wakeful.errors import Conflict, NotFound
from wakeful.model.alarm import UNSUCCESSFUL, Alarm, Change, Fire, is_fire_id
from wakeful.model.outcome import Report
from wakeful.model.requests import ReportRequest
from wakeful.rules.report import note_on_repeat, report, retry
from wakeful.rules.settle import retry_at
from wakeful.rules.wanted import report as report_of
from wakeful.rules.wanted import span
from wakeful.service.answers import ChangedFire
from wakeful.service.change import write_change
from wakeful.service.core import Session
from wakeful.service.resolving import fire_key, get_alarm, get_fire, is_id
from wakeful.store import FireQuery, Store

log = logging.getLogger("wakeful.client")
MOST: Final = 500
NAMED: Final = 10  # in an error
_OPEN: Final = ("delivered", "waiting", "retrying")


async def report_fire(session: Session, fire_id: str, request: ReportRequest) -> ChangedFire:
    """Record a target's report on a fire, or, given an alarm's id, on its one fire that waits for a report.

    >>> from wakeful.model.requests import ReportRequest
    >>> (await alarms.report(wake.fire.id, ReportRequest(outcome="completed", result="3 grants"))).fire.status
    'completed'

    The answer is complete: the `fire`, its `alarm`, `retry_at` and `notes`. `completed`, `delivery_failed`,
    `working` and `snooze_fire` say the same with arguments, and return the fire.
    """
    return await _reported(session, fire_id, report_of(request))


async def report_completed(
    session: Session, fire_id: str, result: str = "", *, cost: float | None = None, renew: bool = False
) -> Fire:
    """Report that the work of a fire is done.

    >>> (await alarms.completed(wake.fire.id, "3 new grants")).result
    '3 new grants'

    `renew`: its series was set with the token of a wake, and goes on for as long again from now. The first result
    stays: where another one was reported before, the answer has that, and a warning is logged.
    """
    request = ReportRequest(outcome="completed", result=result, cost=cost, renew=renew)
    done = await report_fire(session, fire_id, request)
    log_repeated(done.fire, done.notes)
    return done.fire


def log_repeated(fire: Fire, notes: Sequence[str]) -> None:
    """What `completed` has to say besides the fire, which is all that it returns."""
    if notes:  # their texts are not for logs
        log.warning("%s was completed before with another result, which stays", fire.id)


async def report_failed(
    session: Session, fire_id: str, reason: str = "", *, cost: float | None = None, renew: bool = False
) -> Fire:
    """Report that the work of a fire failed; it is retried as the alarm allows.

    >>> (await alarms.delivery_failed(wake.fire.id, "HTTP 503")).status
    'retrying'
    """
    request = ReportRequest(outcome="failed", reason=reason, cost=cost, renew=renew)
    return (await report_fire(session, fire_id, request)).fire


async def report_working(
    session: Session, fire_id: str, note: str = "", *, cost: float | None = None, renew: bool = False
) -> Fire:
    """Report that the work of a fire is still going on; the time allowed for the report starts again.

    >>> (await alarms.working(wake.fire.id, "page 2 of 7")).status
    'delivered'
    """
    request = ReportRequest(outcome="working", result=note, cost=cost, renew=renew)
    return (await report_fire(session, fire_id, request)).fire


async def snooze_fire(session: Session, fire_id: str, wait: timedelta | float | str) -> Fire:
    """Report that this wake should come again after a while.

    >>> (await alarms.snooze_fire(wake.fire.id, "15m")).status
    'snoozed'
    """
    return (await _reported(session, fire_id, Report("snooze", wait=span(wait, "for")))).fire


async def _reported(session: Session, fire_id: str, said: Report) -> ChangedFire:
    if not is_fire_id(fire_id):
        is_whole = is_id(fire_id) and session.caller.wake is None
        named = fire_id if is_whole else (await get_alarm(session, fire_id)).id
        fire_id = await reported_on(session.service.store, named, owner=session.caller.owner)
    alarm_id, occurrence = await fire_key(session, fire_id)
    written = await write_change(
        session,
        alarm_id,
        lambda alarm, fire, _, now: report(alarm, fire, occurrence, said, now=now, by=session.caller.name),
        occurrence=occurrence,
    )
    fire = await get_fire(session, fire_id)
    notes = [*filter(None, [note_on_repeat(fire, said)])]
    return _changed_fire(fire, written.alarm, notes)


async def time_of_retry(session: Session, fire: Fire) -> datetime | None:
    """Return when a fire that is being retried is tried next, or None if it is not.

    >>> fire = await alarms.delivery_failed(wake.fire.id, "HTTP 503")
    >>> await alarms.retry_at(fire) > fire.scheduled_for
    True
    """
    return retry_at(await get_alarm(session, fire.alarm_id), fire) if fire.status == "retrying" else None


async def retry_fire(session: Session, fire_id: str) -> ChangedFire:
    """Retry a failed or timed-out fire, or, given an alarm's id or key, the latest of its fires that is one.

    >>> [failed] = await alarms.failed(limit=1)
    >>> (await alarms.retry(failed.id)).fire.status
    'retrying'

    It counts against `creates_per_minute` like a new alarm.
    """
    if not is_fire_id(fire_id):
        fire_id = await _latest_unsuccessful(session, fire_id)
    alarm_id, occurrence = await fire_key(session, fire_id)

    def decide(alarm: Alarm, fire: Fire | None, _: list[Fire], now: datetime) -> Change:
        if fire is None:
            raise NotFound(f"there is no fire {fire_id!r}", field="fire_id")
        return retry(alarm, fire, now=now, by=session.caller.name)

    if session.caller.limited:
        session.service.limits.admit_retry(session.caller.owner, now=await session.service.store.now())
    written = await write_change(session, alarm_id, decide, occurrence=occurrence)
    return _changed_fire(await get_fire(session, fire_id), written.alarm)


async def _latest_unsuccessful(session: Session, id: str) -> str:
    alarm = await get_alarm(session, id)
    found = await session.service.store.fires(FireQuery(alarm_id=alarm.id, statuses=UNSUCCESSFUL, limit=1))
    if not found:
        fix = "To send a wake now, use fire: it leaves the alarm as it is."
        raise Conflict(f"no fire of alarm {alarm.id} has failed", field="fire_id", fix=fix)
    return found[0].id


def _changed_fire(fire: Fire, alarm: Alarm, notes: Sequence[str] = ()) -> ChangedFire:
    again = retry_at(alarm, fire) if fire.status == "retrying" else None
    return ChangedFire(fire=fire, alarm=alarm, retry_at=again, notes=list(notes))


async def reported_on(store: Store, alarm_id: str, *, owner: str) -> str:
    """The id of the one fire of an alarm that awaits its report; of an alarm that fired once, that one fire."""
    alarm = await store.get(alarm_id, owner=owner)
    if alarm is None:
        raise NotFound(
            f"there is no alarm or fire {alarm_id!r}",
            field="fire_id",
            fix="Give the fire_id of the wake, or the alarm_id.",
        )
    found = await store.fires(FireQuery(alarm_id=alarm.id, statuses=_OPEN, limit=MOST))
    awaited = _awaited(alarm, found) or await _only(store, alarm)
    if len(awaited) == 1:
        return awaited[0]
    if not awaited:
        raise NotFound(
            f"no fire of alarm {alarm_id} is waiting for a report",
            field="fire_id",
            fix="Give the fire_id of the wake you mean.",
        )
    named = ", ".join(awaited[:NAMED]) + (f" and {len(awaited) - NAMED} more" if len(awaited) > NAMED else "")
    raise Conflict(
        f"{len(awaited)} fires of alarm {alarm_id} are waiting for a report: {named}",
        field="fire_id",
        fix="Give one of these.",
    )


def _awaited(alarm: Alarm, fires: list[Fire]) -> list[str]:
    """Ids, the latest first: what is being delivered just now, and what was and has no end yet."""
    ids = [fire.id for fire in fires if fire.report_by is not None or fire.status != "delivered"]
    under_way = alarm.claimed_at is not None and alarm.fire_id not in ids
    return [alarm.fire_id, *ids] if under_way else ids


async def _only(store: Store, alarm: Alarm) -> list[str]:
    """The fire of an alarm that has just one: said again, or said late, a report is still about that."""
    fires = await store.fires(FireQuery(alarm_id=alarm.id, limit=2))
    return [fire.id for fire in fires] if len(fires) == 1 else []

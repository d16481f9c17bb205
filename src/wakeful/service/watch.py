"""The verbs of whoever watches: which targets there are, how much is due and in flight, and what happened last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.errors import InvalidRequest
from wakeful.model.alarm import PENDING, Alarm, Fire
from wakeful.rules.budget import Allowance, BudgetUse, Charge, uses
from wakeful.service.core import Session
from wakeful.service.history import History
from wakeful.service.resolving import get_alarm
from wakeful.service.why import kind_of
from wakeful.store import AlarmQuery, FireQuery, TargetState, Worker
from wakeful.store.filters import ROWS_A_READ

if TYPE_CHECKING:
    from wakeful.service.live import LiveEvent


LOOKED_AT: Final = 1000  # active alarms and fires that an overview counts; it says when there are more
MOST_EVENTS: Final = 1000
BUDGETS_LOOKED_AT: Final = 500  # pending alarms whose limits are looked up at once
PAGE_SIZE: Final = 1_000_000  # characters of their rows that are read at a time


class TargetStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target that the caller may use, and how it is."""

    target: str
    state: str  # ok, paused, failing
    workers: int  # running ones that serve it
    since: datetime | None = None  # paused or failing
    by: str = ""  # who paused it
    reason: str = ""  # why it was paused, or what went wrong


async def read_targets(session: Session) -> list[TargetStatus]:
    """Return the targets that this caller may use, who serves them, and how they are, by name.

    >>> [(one.target, one.state) for one in await alarms.targets()]
    [('inbox', 'ok')]
    """
    served, states = await _targets_known(session)
    return [_status(name, workers, states.get(name)) for name, workers in sorted(served.items())]


async def read_overview(session: Session) -> Overview:
    """Return how much is due, in flight and next, and how each target did in the last hour.

    >>> (await alarms.overview()).ahead
    1
    """
    store, now = session.service.store, await session.service.now()
    alarms = await History(store).active(session.caller.owner, LOOKED_AT)
    fires = await store.fires(FireQuery(owner=session.caller.owner, since=now - RECENTLY, limit=LOOKED_AT))
    return overview(
        alarms,
        fires,
        *await _targets_known(session),
        more=len(alarms) >= LOOKED_AT or len(fires) >= LOOKED_AT,
        lease=session.service.settings.lease,
        now=now,
    )


async def read_budget(session: Session, id: str = "") -> list[BudgetUse]:
    """Return what is used of budgets in this hour and day, those that are used up first.

    >>> [(use.scope, use.period, use.wakes, use.wakes_allowed) for use in await alarms.budget(alarm.id)]
    [('rewake', 'hour', 0, 60), ('rewake', 'day', 0, 300)]

    With an alarm, named as in `get`: all limits on it. Else the caller's own limits, and those of the latest 500
    pending alarms and of their chains of which something was used.
    """
    store, limits, now = session.service.store, session.service.budget, await session.service.store.now()
    if id:
        met = limits.limits_on(await get_alarm(session, id))
        return uses(met, await store.access.spent(Charge(met, now)), now, always=met)
    own = limits.limits_on_owner(session.caller.owner) if session.caller.owner else ()
    met = (*own, *limits.limits_on_agents(session.caller.owner), *await _limits_on_pending(session))
    return uses(dict.fromkeys(met), await store.access.spent(Charge(met, now)), now, always=own)


async def _limits_on_pending(session: Session) -> list[Allowance]:
    found: dict[Allowance, None] = {}
    owner = session.caller.owner
    query = AlarmQuery(owner=owner, statuses=PENDING, limit=BUDGETS_LOOKED_AT, most=PAGE_SIZE, look_at=ROWS_A_READ)
    seen = 0
    while True:
        page = await session.service.store.find(query)
        found |= dict.fromkeys(one for alarm in page for one in session.service.budget.limits_on(alarm))
        seen += len(page)
        if page.further is None or seen >= BUDGETS_LOOKED_AT:
            return list(found)
        query = replace(query, cursor=page.further, limit=BUDGETS_LOOKED_AT - seen)


async def recent_events(session: Session, *whats: str, alarm_id: str = "", limit: int = 20) -> list[LiveEvent]:
    """Return the latest events, oldest first: what somebody would have been told who had listened.

    >>> [event.what for event in await alarms.recent_events("created", alarm_id=alarm.id)]
    ['created']
    """
    from wakeful.service.live import recent  # few commands need it, and it takes a while to import

    check_whats(*whats)
    if not 1 <= limit <= MOST_EVENTS:
        raise InvalidRequest(f"{limit} is not a number from 1 to {MOST_EVENTS}", field="limit")
    id = (await get_alarm(session, alarm_id)).id if alarm_id else ""

    def wanted(event: LiveEvent) -> bool:
        return (not id or event.alarm_id == id) and (not whats or event.what in whats)

    return await recent(session.service.store, session.caller.owner, limit=limit, wanted=wanted)


async def _targets_known(session: Session) -> tuple[dict[str, list[Worker]], dict[str, TargetState]]:
    """What this caller may know of targets: which there are, and the states of these.

    Only the operator sees how a target answered other owners' wakes.
    """
    is_operator = not session.caller.limited
    served = await session.service.targets.known_to(session.caller.owner, is_operator=is_operator)
    states = await session.service.targets.states()
    return served, {
        name: state if is_operator else _without_answers(state) for name, state in states.items() if name in served
    }


def check_whats(*whats: str) -> None:
    from wakeful.service.live import WHATS

    if unknown := set(whats).difference(WHATS):
        what, fix = f"{min(unknown)!r} is not the name of an event", f"Accepted are: {', '.join(WHATS)}."
        raise InvalidRequest(what, field="events", fix=fix)


def _without_answers(state: TargetState) -> TargetState:
    return replace(state, last_error=kind_of(state.last_error))


def _status(name: str, workers: list[Worker], state: TargetState | None) -> TargetStatus:
    status = TargetStatus(target=name, state="ok", workers=len(workers))
    if state is not None and state.paused_at is not None:
        by, reason = state.paused_by, state.paused_reason
        return replace(status, state="paused", since=state.paused_at, by=by, reason=reason)
    if state is not None and state.breaker_opened_at is not None:
        return replace(status, state="failing", since=state.breaker_opened_at, reason=state.last_error)
    return status


# What `top` shows: how much is due, in flight and next, how fast it goes, and how each target does. Pure


NEXT: Final = 8
RECENTLY: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)
_WENT_OUT: Final = frozenset({"delivered", "completed", "waiting"})
_WENT_WRONG: Final = frozenset({"failed", "timed_out"})


class TargetOverview(Struct, frozen=True, kw_only=True):
    target: str
    state: str  # ok, paused, failing, unserved
    workers: int
    due: int = 0
    in_flight: int = 0
    ahead: int = 0  # active, and not due yet
    fired: int = 0  # in the last hour
    failed: int = 0
    retrying: int = 0


class Overview(Struct, frozen=True, kw_only=True):
    now: datetime
    due: int
    in_flight: int
    ahead: int
    more: bool  # whether there are more active alarms than were looked at
    per_minute: float  # fires that went out in the last minute
    fired: int  # in the last hour, as are the next two
    failed: int
    retrying: int
    targets: list[TargetOverview]
    next: list[Alarm]


def overview(
    alarms: Sequence[Alarm],
    fires: Sequence[Fire],
    served: Mapping[str, Sequence[Worker]],
    states: Mapping[str, TargetState],
    *,
    more: bool,
    lease: timedelta,
    now: datetime,
) -> Overview:
    """From active alarms, soonest first, and the fires of the last hour."""
    flying = [alarm for alarm in alarms if alarm.is_leased(now, lease)]
    held = {alarm.id for alarm in flying}
    due = [alarm for alarm in alarms if alarm.next_fire_at <= now and alarm.id not in held]
    ahead = [alarm for alarm in alarms if alarm.next_fire_at > now and alarm.id not in held]
    out = [fire for fire in fires if fire.status in _WENT_OUT]
    wrong = [fire for fire in fires if fire.status in _WENT_WRONG]
    again = [fire for fire in fires if fire.status == "retrying"]
    counts = [_by_target(rows) for rows in (due, flying, ahead, out, wrong, again)]
    names = sorted({*served, *states, *(name for count in counts for name in count)})
    return Overview(
        now=now,
        due=len(due),
        in_flight=len(flying),
        ahead=len(ahead),
        more=more,
        per_minute=float(sum(1 for fire in out if fire.updated_at > now - _MINUTE)),
        fired=len(out),
        failed=len(wrong),
        retrying=len(again),
        targets=[
            _target(name, served.get(name, ()), states.get(name), [count[name] for count in counts]) for name in names
        ],
        next=ahead[:NEXT],
    )


def _by_target(rows: Sequence[Alarm] | Sequence[Fire]) -> Counter[str]:
    return Counter(row.target for row in rows)


def _target(name: str, workers: Sequence[Worker], state: TargetState | None, counts: Sequence[int]) -> TargetOverview:
    due, in_flight, ahead, fired, failed, retrying = counts
    return TargetOverview(
        target=name,
        state=_state(workers, state),
        workers=len(workers),
        due=due,
        in_flight=in_flight,
        ahead=ahead,
        fired=fired,
        failed=failed,
        retrying=retrying,
    )


def _state(workers: Sequence[Worker], state: TargetState | None) -> str:
    if state is not None and state.paused_at is not None:
        return "paused"
    if state is not None and state.breaker_opened_at is not None:
        return "failing"
    return "ok" if workers else "unserved"

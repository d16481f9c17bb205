"""What `top` shows: how much is due, in flight and next, how fast it goes, and how each target does. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from wakeful.alarm import Alarm, Fire
from wakeful.store import TargetState, Worker

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

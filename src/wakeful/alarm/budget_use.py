"""What is used of budgets in this hour and day, for whoever asks; and which alarms wait for theirs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final, cast, get_args

from msgspec import Struct

from wakeful.alarm.budget import MILLIONTHS, Allowance, Budget, BudgetCount, Period, Scope, known_count
from wakeful.alarm.model import Alarm

_SCOPES: Final = get_args(Scope)


class BudgetUse(Struct, frozen=True, kw_only=True):
    """What was used of one limit in the hour or day that is now. 0 allowed: not limited.

    `id`: of the owner (also for `agent`), of the alarm, or of the alarm that the chain began with. `until`: when the
    hour or day is over.
    """

    scope: Scope
    id: str
    period: Period
    wakes: int
    wakes_allowed: int
    cost: float
    cost_allowed: float
    used_up: bool
    until: datetime


def uses(
    allowances: Iterable[Allowance], counts: Iterable[BudgetCount], now: datetime, *, always: Collection[Allowance] = ()
) -> list[BudgetUse]:
    """What was used of these limits, those that are used up first.

    A limit of which nothing was used is left out, unless it is in `always`.
    """
    known = {count.key: count for count in counts}
    found: list[BudgetUse] = []
    for allowance in allowances:
        count = known_count(allowance, now, known)
        is_limited = bool(allowance.wakes or allowance.cost)
        if count.wakes or count.cost or (is_limited and allowance in always):
            found.append(_use(allowance, count))
    return sorted(found, key=lambda use: (not use.used_up, _SCOPES.index(use.scope), use.id, use.until))


def _use(allowance: Allowance, count: BudgetCount) -> BudgetUse:
    return BudgetUse(
        scope=allowance.scope,
        id=allowance.id,
        period=cast(Period, count.period),
        wakes=count.wakes,
        until=count.ends_at,
        wakes_allowed=allowance.wakes,
        cost=count.cost / MILLIONTHS,
        cost_allowed=allowance.cost,
        used_up=allowance.is_used_up(count),
    )


def may_wait_for_budget(alarm: Alarm) -> bool:
    """Return whether an alarm can be one that was put off until a budget is free: until an hour (of UTC) is over."""
    due = alarm.next_fire_at
    return alarm.status == "active" and alarm.occurrence_at < due and not (due.minute or due.second or due.microsecond)


def waiting_for_budget(
    alarms: Iterable[Alarm], budget: Budget, counts: Iterable[BudgetCount], now: datetime
) -> set[str]:
    """The ids of those that wait until a budget of theirs is free again."""
    known = {count.key: count for count in counts}
    found: set[str] = set()
    for alarm in alarms:
        for allowance in budget.limits_on(alarm):
            count = known_count(allowance, now, known)
            if count.ends_at == alarm.next_fire_at and allowance.is_used_up(count):
                found.add(alarm.id)
    return found

"""Asks the store, for wakes that meet a limit, whether they may be sent (alarm/budget.py), and tells who is over."""

from __future__ import annotations

import logging
from datetime import datetime

from wakeful.alarm import Alarm, Change, Fire
from wakeful.alarm.budget import DEFERRED, Allowance, Budget, Charge, attempt_of, over_budget
from wakeful.config import Settings
from wakeful.dispatcher import observability
from wakeful.metrics import Metrics
from wakeful.store import Store

log = logging.getLogger("wakeful.dispatcher")


class BudgetGuard:
    def __init__(self, store: Store, settings: Settings, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self.allowances = Budget(settings.budget).allowances  # the limits that a wake meets: nearly always none

    async def refused(
        self, alarm: Alarm, fire: Fire | None, met: tuple[Allowance, ...], *, now: datetime
    ) -> Change | None:
        """What is settled instead of sending a wake whose budget is used up; None: it is counted, and may be sent."""
        charge = Charge(met, now, attempt=attempt_of(alarm), again=alarm.is_suspect)
        [refusal] = await self._store.access.spend([charge])
        if refusal is None:
            return None
        change = over_budget(alarm, fire, refusal, now=now)
        action = DEFERRED if any(event.what == DEFERRED for event in change.events) else "skipped"
        self._metrics.over_budget(refusal.scope, action)
        if refusal.first:
            until = refusal.until.isoformat()
            log.warning("%s: %s until %s", refusal.words, action, until, extra=observability.fields(alarm))
        return change

"""Check an alarm with `only_if` just before its delivery; alarm/checks.py decides what the result means.

The check runs in the task of the delivery, before the budget is spent, and for no longer than its time limit. If it
fails, the wake is sent. The value that it saw is written in the transaction that settles the wake: if that wake is
lost, the next one is checked against the old value and not skipped.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Final

from wakeful.alarm import Alarm
from wakeful.alarm.checks import CheckFailed, CheckLook, look_at
from wakeful.clock import Clock
from wakeful.config import Settings
from wakeful.config.tables import CheckSettings
from wakeful.dispatcher import observability
from wakeful.errors import WakefulError
from wakeful.metrics import Metrics
from wakeful.store import Store
from wakeful.store.checks import MOST_ROWS

log = logging.getLogger("wakeful.dispatcher")

QUERIES_AT_ONCE: Final = 2  # of one process: people's lists share the database's readers with them


class WakeGate:
    def __init__(self, store: Store, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        self._store = store
        self._checks = settings.checks
        self._clock = clock
        self._metrics = metrics
        # Half a lease at most: what takes longer would be taken for a worker that stands still.
        self._longest = settings.lease.total_seconds() / 2
        self._longest_query = min(self._longest, settings.read_within.total_seconds())
        self._queries = asyncio.Semaphore(QUERIES_AT_ONCE)

    async def look(self, alarm: Alarm, name: str) -> CheckLook:
        """What the check finds. StoreUnavailable where it is not known what was seen before."""
        known = await self._store.checks.seen(alarm.id, name)
        try:
            look = look_at(name, _digest(await self._value(name)), known)
        except (CheckFailed, WakefulError) as error:
            # Of the database the operator's log tells more than the owner of an alarm may know.
            why = str(error) if isinstance(error, CheckFailed) else "it cannot be looked at"
            log.warning("the check %s failed: %s", name, error, extra=observability.fields(alarm))
            look = CheckLook(name=name, found="failed", error=why)
        self._metrics.checked(look.found)
        return look

    async def _value(self, name: str) -> str:
        check = self._checks.get(name)
        if check is None:
            raise CheckFailed("the operator has removed it")
        return await (self._queried(check) if check.sql else self._fetched(check))

    async def _fetched(self, check: CheckSettings) -> str:
        from wakeful.targets.http_check import looked  # only where one is looked at: its libraries take long to import

        allowed = check.allow_private
        return await looked(
            check.url,
            check.changed,
            headers=check.headers,
            timeout=min(check.within, self._longest),
            allow_private=allowed if isinstance(allowed, bool) else tuple(allowed),
            clock=self._clock,
        )

    async def _queried(self, check: CheckSettings) -> str:
        within = min(check.within, self._longest_query)
        try:
            async with asyncio.timeout(within), self._queries:
                rows = await self._store.checks.rows(check.sql, within=within)
        except TimeoutError:
            raise CheckFailed(f"no answer within {within:g} s") from None
        if len(rows) > MOST_ROWS:
            raise CheckFailed(f"its query has more than {MOST_ROWS} rows")
        return repr(rows)


def _digest(value: str) -> str:
    """Enough to tell whether it is the same, and no more than that is kept."""
    return hashlib.sha256(value.encode()).hexdigest()

"""Follow changes of time zone law: plan alarms again before they fire by the old rules.

The newest edition of the zone data that any process brought to the database counts for all of them. Each change is
written only if its alarm is as it was read. So it can be repeated and done by several processes at once, without a lock
or a leader. A second round follows when every process has seen the edition (docs/internals.md, Time zone law changes).
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.alarm import Alarm, Change, rezone
from wakeful.clock import Clock
from wakeful.dispatcher import observability
from wakeful.runtime.cpu_time import in_thread
from wakeful.runtime.metrics import Metrics
from wakeful.schedule import takes_long
from wakeful.schedule.holiday_calendars import refresh_calendars
from wakeful.schedule.zone_rules import ZoneRules, differing, edition, rules_here
from wakeful.schedule.zones import first_edition, forget_former, remember_former, rules_in_force, use_rules
from wakeful.store import Store
from wakeful.store.maintenance import Edition
from wakeful.store.zones import keep_edition, with_first_planned

log = logging.getLogger("wakeful.dispatcher")

SCAN_LIMIT: Final = 1000  # alarms, in one batch
# Until every process has read the new edition (`Service.now` does every 30 s): others may still plan by the old rules.
SPREADS_WITHIN: Final = timedelta(seconds=45)
# Clocks of two editions differ by a day at most: after that no moment reads like one before the change.
FORMER_MATTER: Final = timedelta(days=2)
_SHOWN: Final = 5


class _Round(Struct, frozen=True):
    """A pass over the alarms of the zones that changed, up to one of them."""

    edition: Edition
    names: frozenset[str]
    begun: datetime
    after: str = ""
    moved: int = 0


class ZonePlanning:
    def __init__(self, store: Store, clock: Clock, metrics: Metrics, *, tick: timedelta) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._every = tick.total_seconds()
        self._spreads_within = max(SPREADS_WITHIN, 5 * tick)
        self._read_from = 0.0
        self._round: _Round | None = None
        self._passed = ""  # the edition that this process has gone through all alarms for
        self._machine = ""  # the machine's edition, as this process reads its zones
        self._upgrade = ""  # another one that was seen there since
        self._former = ""  # the edition before, as it was remembered
        self._warned = ""  # the edition that was logged as newer than the machine's
        self._unread = ""  # why the machine's data could not be read, as it was logged

    async def step(self, *, anew: bool = False) -> bool:
        """Read whether rules have changed, or plan some alarms again; return whether alarms may be claimed."""
        if self._round is None and (anew or self._clock.monotonic() >= self._read_from):
            self._read_from = self._clock.monotonic() + self._every
            await self._try_to_read()
        if self._round is None:
            return True
        await self._batch(self._round)
        return False  # also after the last one: there may be a newer edition to go on with

    async def _try_to_read(self) -> None:
        try:
            await self._read_editions()
            self._unread = ""
        except OSError as error:  # no descriptor is left, or files are being replaced: it goes by what it knows
            if self._unread != (reason := str(error)):
                self._unread = reason
                log.warning("the time zone data cannot be read, trying again: %s", reason)

    async def _read_editions(self) -> None:
        refresh_calendars()  # they are a law of their own, and come to count as they are found
        here = max(self._machine_edition(), rules_in_force()[0])
        zones = self._store.maintenance
        kept = await with_first_planned(zones, await zones.editions())
        if not kept or (kept[0].planned_at is not None and kept[0].version < here):
            kept = await keep_edition(zones, here)
        await self._follow(kept[0], kept[1] if len(kept) > 1 else None)

    def _machine_edition(self) -> str:
        """The machine's, once it has been the same in two reads: while files are replaced it may say anything."""
        found = edition()
        if not self._machine:
            self._machine = first_edition(found)
        if found == self._machine:
            self._upgrade = ""
        elif found != self._upgrade:
            self._upgrade = found
        else:
            self._machine = found
            if found > rules_in_force()[0]:
                use_rules(found, rules_here(found).data)
        return self._machine

    async def _follow(self, current: Edition, former: Edition | None) -> None:
        """Go by the edition in force, and plan alarms again where that is not done."""
        self._warn_of_older_data(current.version)
        if current.version != (rules_in_force()[0] or self._machine):
            use_rules(current.version, (await self._rules(current.version)).data)
        now = await self._store.now()
        matters = current.planned_at is None or now < current.since + FORMER_MATTER
        if former is None or not matters:
            if self._former:
                forget_former()
                self._former = ""
            return
        if self._former != former.version:
            remember_former((await self._rules(former.version)).data, current.since)
            self._former = former.version
        if current.planned_at is None and (
            self._passed != current.version or now >= current.since + self._spreads_within
        ):
            await self._begin(current, former, now)

    def _warn_of_older_data(self, version: str) -> None:
        if version > self._machine and version != self._warned:
            self._warned = version
            log.warning(
                "the time zone data of this machine (%s) is older than that of the database (%s), which is used;"
                " update the machine's",
                self._machine,
                version,
            )

    async def _rules(self, version: str) -> ZoneRules:
        packed = await self._store.maintenance.zone_rules(version)
        return rules_here(version) if packed is None else ZoneRules.unpacked(version, packed)

    async def _begin(self, current: Edition, former: Edition, now: datetime) -> None:
        rules = await self._rules(former.version), await self._rules(current.version)
        names = await asyncio.to_thread(differing, *rules, current.since)
        if self._passed != current.version:
            named = ", ".join(sorted(names)[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            log.warning(
                "the time zone data is %s now, %s before: %s",
                current.version,
                former.version,
                f"{len(names)} zones have other rules ({named}), their alarms are planned again"
                if names
                else "no zone has other rules",
            )
        self._round = _Round(current, names, now)

    async def _batch(self, round: _Round) -> None:
        found: list[Alarm] = []
        further = ""
        if round.names:
            found, further = await self._store.alarms_in_zones(round.names, after=round.after, scan_limit=SCAN_LIMIT)
        now = await self._store.now()

        def decided() -> list[Change]:
            return [change for alarm in found if (change := self._rezoned(alarm, now, round)) is not None]

        is_costly = any(takes_long(alarm.cron_expr) for alarm in found)
        changes = await in_thread(decided) if is_costly else decided()
        answers = await self._store.settle(changes) if changes else []
        written = sum(answer.what == "applied" for answer in answers)
        self._metrics.rezoned(written)
        self._round = replace(round, after=further, moved=round.moved + written)
        if not further:
            await self._finish(self._round)

    def _rezoned(self, alarm: Alarm, now: datetime, round: _Round) -> Change | None:
        try:
            return rezone(alarm, now=now, version=round.edition.version)
        except Exception as error:  # a row this version cannot plan must not keep the others waiting
            observability.broke("it cannot be planned by the new rules of its time zone", alarm, error)
            return None

    async def _finish(self, round: _Round) -> None:
        version = round.edition.version
        if not round.names or round.begun >= round.edition.since + self._spreads_within:
            await self._store.maintenance.note_planned(version)
        if round.moved or self._passed != version:
            log.info("%d alarms were planned again by the time zone data %s", round.moved, version)
        self._passed, self._round, self._read_from = version, None, 0.0

"""Figures from a SQLite file, read beside the other long reads."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import apsw
import msgspec

from wakeful.clock import Clock
from wakeful.moments import MS, from_unix_ms, unix_ms
from wakeful.store.figures import DueOfOwner, FireSummary, OwnerUse, Step, StepCount, Storage, figure_sql
from wakeful.store.queries import Naming
from wakeful.store.rows import Row

Look = Callable[[Callable[[apsw.Connection], list[Row]], str], Awaitable[list[Row]]]


class SqliteFigures:
    def __init__(self, look: Look, *, naming: Naming, clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._sql = figure_sql("sqlite", naming)

    async def storage(self) -> Storage:
        def work(db: apsw.Connection) -> list[Row]:
            log = db.filename_wal
            size = os.path.getsize(log) if log and os.path.exists(log) else 0
            return [(*row, size) for row in db.execute(self._sql["storage"])]

        [(engine, size, log)] = await self._look(work, "")
        return Storage(engine, size, log)

    async def counts(self, owner: str, steps: Sequence[Step], *, most: int) -> list[StepCount]:
        rows = await self._rows("fires_by_step", owner, steps=_pairs(steps), owner=owner, most=most)
        return [StepCount(msgspec.json.decode(statuses), failed) for statuses, failed in rows]

    async def latest(self, owner: str, steps: Sequence[Step], *, each: int) -> list[FireSummary]:
        if owner:
            rows = await self._rows("latest_of_owner", owner, steps=_pairs(steps), owner=owner, each=each)
        else:
            rows = await self._rows("latest_of_all", "", steps=_pairs(steps), each=each)
        return [FireSummary(*row[:3], *map(_moment, row[3:7]), row[7]) for row in rows]  # type: ignore[call-arg]

    async def changed(self, steps: Sequence[Step], *, most: int) -> list[int]:
        return [count for (count,) in await self._rows("changed_by_step", "", steps=_pairs(steps), most=most)]

    async def due(self, *, lease: timedelta, most: int) -> list[DueOfOwner]:
        rows = await self._rows("due_by_owner", "", now=unix_ms(self._clock.now()), lease=lease // MS, most=most)
        return [DueOfOwner(target, owner, count, from_unix_ms(first)) for target, owner, count, first in rows]

    async def owners(self, *, after: str, limit: int, most: int, since: datetime) -> list[OwnerUse]:
        rows = await self._rows("owners", "", after=after, limit=limit, most=most, since=unix_ms(since))
        found = []
        for owner, held, failed in rows:
            alarms, active, size = msgspec.json.decode(held)
            found.append(OwnerUse(owner, alarms, active, size, failed))
        return found

    async def _rows(self, name: str, turn: str, **values: Any) -> list[Row]:
        return await self._look(lambda db: db.execute(self._sql[name], values).fetchall(), turn)


def _pairs(steps: Sequence[Step]) -> str:
    return msgspec.json.encode([(unix_ms(since), unix_ms(until)) for since, until in steps]).decode()


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else from_unix_ms(ms)

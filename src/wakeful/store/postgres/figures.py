"""Figures from PostgreSQL, read beside the other long reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from wakeful.store.figures import DueOfOwner, FireSummary, OwnerUse, Step, StepCount, Storage, figure_sql
from wakeful.store.pages import ReadTurns
from wakeful.store.queries import Naming

Look = Callable[..., Awaitable[list[Any]]]


class PostgresFigures:
    def __init__(self, look: Look, turns: ReadTurns, *, naming: Naming, moment: Callable[[], datetime | None]) -> None:
        self._look = look
        self._turns = turns
        self._moment = moment
        self._sql = figure_sql("postgres", naming)

    async def storage(self) -> Storage:
        [(engine, size)] = await self._rows("storage", "")
        return Storage(engine, size)

    async def counts(self, owner: str, steps: Sequence[Step], *, most: int) -> list[StepCount]:
        rows = await self._rows("fires_by_step", owner, *_columns(steps), owner, most)
        return [StepCount(msgspec.json.decode(statuses), failed) for statuses, failed in rows]

    async def latest(self, owner: str, steps: Sequence[Step], *, each: int) -> list[FireSummary]:
        if owner:
            rows = await self._rows("latest_of_owner", owner, *_columns(steps), owner, each)
        else:
            rows = await self._rows("latest_of_all", "", *_columns(steps), each)
        return [FireSummary(*row) for row in rows]

    async def changed(self, steps: Sequence[Step], *, most: int) -> list[int]:
        return [count for (count,) in await self._rows("changed_by_step", "", *_columns(steps), most)]

    async def due(self, *, lease: timedelta, most: int) -> list[DueOfOwner]:
        return [DueOfOwner(*row) for row in await self._rows("due_by_owner", "", self._moment(), lease, most)]

    async def owners(self, *, after: str, limit: int, most: int, since: datetime) -> list[OwnerUse]:
        return [OwnerUse(*row) for row in await self._rows("owners", "", after, limit, most, since)]

    async def _rows(self, name: str, turn: str, *args: Any) -> list[Any]:
        async with self._turns.turn(turn):
            return await self._look(self._sql[name], *args)


def _columns(steps: Sequence[Step]) -> tuple[list[datetime], list[datetime]]:
    return [since for since, _ in steps], [until for _, until in steps]

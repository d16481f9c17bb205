"""Counts of budgets in PostgreSQL: held from the look at them until they are written, so workers take turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from wakeful.alarm import Change
from wakeful.alarm.budget import BudgetCount, Charge, Key, Refusal, charged, costs
from wakeful.store.batching import Elbowroom, GroupCommit
from wakeful.store.budget import budget_sql
from wakeful.store.postgres.database import Database
from wakeful.store.postgres.writes import lock_wait
from wakeful.store.queries import Naming

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection


class PostgresBudget:
    def __init__(self, database: Database, room: Elbowroom, *, naming: Naming) -> None:
        self._database = database
        self._sql = budget_sql("postgres", naming)
        self._spending: GroupCommit[Charge, Refusal | None] = GroupCommit(self._spend, room=room)

    async def close(self) -> None:
        await self._spending.close()

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        return await self._spending.put(charges)

    async def _spend(self, items: Sequence[Charge], *, alone: bool) -> list[Refusal | None]:
        async def work(connection: Connection, again: bool) -> list[Refusal | None]:
            async with connection.transaction():
                keys = {key for charge in items for key in charge.keys}
                rows = await connection.fetch(self._sql["held_counts"], lock_wait(alone), *_columns(sorted(keys), 4))
                counts = [BudgetCount(**row) for row in rows]
                answers, changed = charged(items, {count.key: count for count in counts})
                await connection.fetch(self._sql["put_counts"], *_columns(map(astuple, changed), 7))
            return answers

        return await self._database.run(work)

    async def used(self, charge: Charge) -> list[BudgetCount]:
        rows = await self._database.fetch(self._sql["counts"], *_columns(charge.keys, 4))
        return [BudgetCount(**row) for row in rows]

    async def forget(self, before: datetime) -> int:
        return len(await self._database.fetch(self._sql["forget_counts"], before))

    async def add_costs(self, connection: Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        if added := [count for change in changes for count in costs(change)]:
            await connection.fetch(self._sql["add_costs"], *_columns(map(astuple, added), 7))


def _columns(rows: Iterable[tuple[Any, ...] | Key], width: int) -> list[list[Any]]:
    values = list(rows)
    return [[row[at] for row in values] for at in range(width)]

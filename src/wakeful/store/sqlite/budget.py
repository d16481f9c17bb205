"""Counts of budgets in a SQLite file: one writer, so what it reads in its transaction stands until it has written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw
import msgspec
from msgspec.structs import astuple

from wakeful.alarm import Change
from wakeful.alarm.budget import BudgetCount, Charge, Key, Refusal, charged, costs
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.store.budget import budget_sql
from wakeful.store.queries import Naming
from wakeful.store.rows import Row
from wakeful.store.sqlite.writer import Writer
from wakeful.store.sqlite.writes import write_rows

Read = Callable[[Callable[[apsw.Connection], list[Row]]], Awaitable[list[Row]]]


class SqliteBudget:
    def __init__(self, writer: Writer, read: Read, *, naming: Naming) -> None:
        self._writer = writer
        self._read = read
        self._sql = budget_sql("sqlite", naming)
        self._jointly = self._spend  # bound once: the writer joins what was handed to the same function

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        if not charges:
            return []
        answers: list[Refusal | None] = await self._writer.submit_joint(self._jointly, charges)
        return answers

    def _spend(self, db: apsw.Connection, calls: list[Sequence[Charge]]) -> list[list[Refusal | None]]:
        charges = [charge for call in calls for charge in call]
        with db:  # a savepoint: what fails has counted nothing
            answers, changed = charged(charges, self._known(db, "held_counts", charges))
            write_rows(db, self._sql["put_counts"], [_from_count(count) for count in changed])
        left = iter(answers)
        return [[next(left) for _ in call] for call in calls]

    def _known(self, db: apsw.Connection, name: str, charges: Iterable[Charge]) -> Mapping[Key, BudgetCount]:
        rows = db.execute(self._sql[name], {"keys": _keys(charges)}).fetchall()
        return {count.key: count for count in map(_to_count, rows)}

    async def used(self, charge: Charge) -> list[BudgetCount]:
        keys = _keys([charge])
        rows = await self._read(lambda db: db.execute(self._sql["counts"], {"keys": keys}).fetchall())
        return list(map(_to_count, rows))

    async def forget(self, before: datetime) -> int:
        def work(db: apsw.Connection) -> int:
            return len(db.execute(self._sql["forget_counts"], {"before": unix_ms(before)}).fetchall())

        return await self._writer.submit(work)

    def add_costs(self, db: apsw.Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        for change in changes:
            write_rows(db, self._sql["add_costs"], [_from_count(count) for count in costs(change)])


def _keys(charges: Iterable[Charge]) -> str:
    keys = {(scope, id, period, unix_ms(at)) for charge in charges for scope, id, period, at in charge.keys}
    return msgspec.json.encode(list(keys)).decode()


def _to_count(row: Row) -> BudgetCount:
    scope, id, period, starts_at, wakes, cost, told = row
    return BudgetCount(
        scope=scope, id=id, period=period, starts_at=from_unix_ms(starts_at), wakes=wakes, cost=cost, told=bool(told)
    )


def _from_count(count: BudgetCount) -> list[Any]:
    scope, id, period, starts_at, wakes, cost, told = astuple(count)
    return [scope, id, period, unix_ms(starts_at), wakes, cost, int(told)]

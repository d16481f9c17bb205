"""What was used of budgets, as a store keeps it. The decisions are in alarm/budget.py."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

from wakeful.alarm.budget import BudgetCount, Charge, Refusal
from wakeful.store.queries import Dialect, Naming, named

KEPT: Final = timedelta(days=2)  # counts of a day that is over are not asked for again
_SQL: Final = Path(__file__).with_name("sql")


class BudgetCounts(Protocol):
    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        """Count wakes that are about to be sent; for each None, or why it must not be.

        What was counted before is read and what is counted now is written in one transaction, alone with these counts:
        however many processes ask, no more wakes are let through than a limit allows. A call that fails, or whose
        answer is lost, may have counted wakes that are then not sent.
        """
        ...

    async def used(self, charge: Charge) -> list[BudgetCount]:
        """What was used so far of the limits that a wake would meet; those of which nothing was are left out."""
        ...

    async def forget(self, before: datetime) -> int:
        """Delete the counts of periods that began before a moment; how many."""
        ...


def budget_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    return named((_SQL / f"budget.{dialect}.sql").read_text(), naming)

"""What checks have seen, as a store keeps it; and an operator's queries. The decisions are in alarm/checks.py.

A value is written with the settlement of the wake that tells of it (`Change.seen`): a wake that is lost is not skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from wakeful.store.queries import Dialect, Naming, named

MOST_ROWS: Final = 1000  # of a query
_SQL: Final = Path(__file__).with_name("sql")


class CheckStore(Protocol):
    async def seen(self, alarm_id: str, name: str) -> str | None:
        """What an alarm's last wake told of a check; None before the first."""
        ...

    async def rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        """The rows of an operator's query, at most MOST_ROWS + 1, read only and within so many seconds.

        Whatever goes wrong is StoreUnavailable.
        """
        ...

    async def forget(self, *, limit: int) -> int:
        """Delete what was seen for alarms that there are no more; how many rows went."""
        ...


def check_sql(dialect: Dialect, naming: Naming) -> dict[str, str]:
    return named((_SQL / f"checks.{dialect}.sql").read_text(), naming)

"""What checks have seen, in PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from wakeful.alarm import Change
from wakeful.errors import StoreUnavailable
from wakeful.store.checks import MOST_ROWS, check_sql
from wakeful.store.postgres.database import Database
from wakeful.store.queries import Naming

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection


class PostgresChecks:
    def __init__(self, database: Database, *, naming: Naming) -> None:
        self._database = database
        self._sql = check_sql("postgres", naming)

    async def seen(self, alarm_id: str, name: str) -> str | None:
        rows = await self._database.fetch(self._sql["seen"], alarm_id, name)
        return str(rows[0][0]) if rows else None

    async def rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        async def work(connection: Connection, again: bool) -> list[tuple[Any, ...]]:
            transaction = connection.transaction(readonly=True)
            async with asyncio.timeout(within):
                await transaction.start()
                try:
                    rows = await connection.cursor(sql)
                    return [tuple(row) for row in await rows.fetch(MOST_ROWS + 1)]
                finally:
                    await transaction.rollback()  # set_config() changes a session only if its transaction commits

        try:
            return await self._database.run_looking(work)
        except TimeoutError:
            raise StoreUnavailable(f"the query took longer than {within:g} s") from None

    async def forget(self, *, limit: int) -> int:
        return len(await self._database.fetch(self._sql["forget_seen"], limit))

    async def keep(self, connection: Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        # In one order everywhere: settlements that share rows wait for each other instead of blocking each other.
        kept = sorted((one.after.id, one.seen.name, one.seen.value) for one in changes if one.seen is not None)
        if kept:
            await connection.fetch(self._sql["keep_seen"], *map(list, zip(*kept, strict=True)))

"""Deleting what was finished long ago from PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wakeful.store.postgres.database import Database


async def purged(database: Database, sql: Mapping[str, str], before: datetime, *, owner: str, limit: int) -> int:
    """How many rows went, at most `limit` of each kind."""
    gone = len(await database.fetch(sql["purge_fires"], before, limit, owner))
    gone += await _purged_alarms(database, sql["purge_alarms"], before, owner, limit)  # after the last of their fires
    for name in ("purge_events", "purge_tokens"):
        gone += len(await database.fetch(sql[name], before, limit, owner))
    return gone


async def _purged_alarms(database: Database, sql: str, before: datetime, owner: str, limit: int) -> int:
    """Of the oldest that ended, so many at a time. What still has fires is passed over: wakes that nobody fetched."""
    after: tuple[Any, Any] = (None, None)
    while True:
        [(gone, looked, *last)] = await database.fetch(sql, before, limit, owner, *after)
        if gone or looked < limit:
            return int(gone)
        after = (last[0], last[1])

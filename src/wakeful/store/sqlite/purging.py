"""Deleting what was finished long ago from a SQLite file: looked for by a reader, deleted a few rows at a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

import apsw

from wakeful.moments import unix_ms
from wakeful.store.rows import Row
from wakeful.store.sqlite.readers import Readers, narrowed
from wakeful.store.sqlite.writer import Work, Writer

AT_ONCE: Final = 200  # rows: whoever wants to write waits for no more than their deletion


class _Host(Protocol):
    """What these verbs need of the store they are part of."""

    _sql: Mapping[str, str]
    _lookers: Readers

    _writer: Writer


class SqlitePurging:
    async def count_old(self: _Host, before: datetime, *, owner: str = "") -> dict[str, int]:
        values = {"before": unix_ms(before), "owner": owner}
        [counts] = await self._lookers.read(partial(_fetched, self._sql["count_old"], values))
        return dict(zip(("alarms", "fires", "events", "tokens"), counts, strict=True))

    async def purge(self: _Host, before: datetime, *, owner: str = "", limit: int = 1000) -> int:
        gone = 0
        for what in ("fires", "alarms", "events", "tokens"):  # fires first: an alarm goes after the last of its fires
            values = {"before": unix_ms(before), "owner": owner, "limit": limit, "after": None, "after_id": ""}
            look = _alarms_without_fires if what == "alarms" else _found
            rowids = await self._lookers.read(partial(look, self._sql[f"old_{what}"], values))  # nobody waits for this
            for at in range(0, len(rowids), AT_ONCE):
                work = _purge(self._sql[f"purge_{what}"], rowids[at : at + AT_ONCE], unix_ms(before))
                gone += await self._writer.submit(work, lax=True)  # what a power cut brings back goes next time
        return gone


def _found(sql: str, values: dict[str, Any], db: apsw.Connection) -> list[int]:
    return [rowid for (rowid,) in _fetched(sql, values, db)]


def _alarms_without_fires(sql: str, values: dict[str, Any], db: apsw.Connection) -> list[int]:
    """Of the oldest that ended, so many at a time. What still has fires is passed over: wakes that nobody fetched."""
    while rows := _fetched(narrowed(sql, values), values, db):
        if free := [rowid for rowid, _, _, is_free in rows if is_free]:
            return free
        _, values["after"], values["after_id"], _ = rows[-1]
    return []


def _purge(sql: str, rowids: list[int], before: int) -> Work[int]:
    def work(db: apsw.Connection) -> int:
        db.execute(sql, {"rowids": str(rowids), "before": before})
        return db.changes()

    return work


def _fetched(sql: str, values: Mapping[str, Any], db: apsw.Connection) -> list[Row]:
    return db.execute(sql, values).fetchall()

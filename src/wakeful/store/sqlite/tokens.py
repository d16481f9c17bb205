"""The SQLite store's verbs for tokens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import apsw

from wakeful.alarm import Event
from wakeful.moments import unix_ms
from wakeful.store import Door, Token, door_of
from wakeful.store.keys import KEY_SIZE, ReportKeys, keys_of
from wakeful.store.rows import Row, from_event, from_token, to_token
from wakeful.store.sqlite.writer import Work
from wakeful.store.sqlite.writes import write_rows


class _Host(Protocol):
    """What these verbs need of the store they are part of."""

    _sql: Mapping[str, str]

    async def _write(self, work: Work[Any]) -> Any: ...

    async def _rows(self, name: str, **values: Any) -> list[Row]: ...


class SqliteTokens:
    async def report_keys(self: _Host) -> ReportKeys:
        if (keys := keys_of(await self._rows("report_keys"))) is not None:
            return keys

        def work(db: apsw.Connection) -> ReportKeys:
            return _made(db, self._sql)

        made: ReportKeys = await self._write(work)
        return made

    async def rotate_report_key(self: _Host, now: datetime, event: Event) -> ReportKeys:
        fresh = os.urandom(KEY_SIZE)

        def work(db: apsw.Connection) -> ReportKeys:
            keys = _made(db, self._sql).rotated(fresh, now)
            write_rows(db, self._sql["put_report_keys"], keys.rows())
            write_rows(db, self._sql["add_events"], [from_event(event)])
            return keys

        rotated: ReportKeys = await self._write(work)
        return rotated

    async def door(self: _Host) -> Door:
        rows = await self._rows("door")
        return door_of(rows[0][0]) if rows else "new"

    async def open_door(self: _Host, event: Event) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute(self._sql["open_door"])
            write_rows(db, self._sql["add_events"], [from_event(event)])

        await self._write(work)

    async def add_token(self: _Host, token: Token) -> bool:
        def work(db: apsw.Connection) -> bool:
            return write_rows(db, self._sql["add_token"], [from_token(token)]) == 1

        added: bool = await self._write(work)
        return added

    async def tokens(self: _Host) -> list[Token]:
        return [to_token(row) for row in await self._rows("tokens")]

    async def token(self: _Host, id: str) -> Token | None:
        rows = await self._rows("token", id=id)
        return to_token(rows[0]) if rows else None

    async def revoke_token(self: _Host, id: str, now: datetime) -> bool:
        def work(db: apsw.Connection) -> bool:
            db.execute(self._sql["revoke_token"], {"id": id, "now": unix_ms(now)})
            return db.changes() == 1

        found: bool = await self._write(work)
        return found

    async def touch_token(self: _Host, id: str, at: datetime) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute(self._sql["touch_token"], {"id": id, "at": unix_ms(at)})

        await self._write(work)


def _made(db: apsw.Connection, sql: Mapping[str, str]) -> ReportKeys:
    db.execute(sql["new_report_key"], (os.urandom(KEY_SIZE),))
    keys = keys_of(db.execute(sql["held_report_keys"]).fetchall())
    assert keys is not None
    return keys

"""Access and settings in a SQLite file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import asdict, astuple

from wakeful.model.alarm import Change, Event
from wakeful.model.owner_settings import SETTINGS_FIELDS, OwnerSettings
from wakeful.moments import from_unix_ms, unix_ms
from wakeful.rules.budget import BudgetCount, Charge, Key, Refusal, charged, costs
from wakeful.store.access import KEY_SIZE, MAX_CHECK_ROWS, AuthState, ReportKeys, Token, auth_state_of, keys_of
from wakeful.store.rows import Row, from_event, from_token, to_token
from wakeful.store.sqlite.readers import Readers, rows_of
from wakeful.store.sqlite.writer import Writer
from wakeful.store.sqlite.writes import write_rows


class SqliteAccess:
    def __init__(self, sql: Mapping[str, str], writer: Writer, readers: Readers, long_readers: Readers) -> None:
        self._sql = sql
        self._writer = writer
        self._readers = readers
        self._long_readers = long_readers
        self._spend_jointly = self._spend  # bound once: the writer joins what was handed to the same function

    async def report_keys(self) -> ReportKeys:
        if (keys := keys_of(await self._rows("report_keys"))) is not None:
            return keys
        return await self._writer.submit(partial(_made, self._sql))

    async def rotate_report_key(self, now: datetime, event: Event) -> ReportKeys:
        fresh = os.urandom(KEY_SIZE)

        def work(db: apsw.Connection) -> ReportKeys:
            keys = _made(self._sql, db).rotated(fresh, now)
            write_rows(db, self._sql["put_report_keys"], keys.rows())
            write_rows(db, self._sql["add_events"], [from_event(event)])
            return keys

        return await self._writer.submit(work)

    async def auth_state(self) -> AuthState:
        rows = await self._rows("auth_state")
        return auth_state_of(rows[0][0]) if rows else "new"

    async def open_auth(self, event: Event) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute(self._sql["open_auth"])
            write_rows(db, self._sql["add_events"], [from_event(event)])

        await self._writer.submit(work)

    async def add_token(self, token: Token) -> bool:
        def work(db: apsw.Connection) -> bool:
            return write_rows(db, self._sql["add_token"], [from_token(token)]) == 1

        return await self._writer.submit(work)

    async def tokens(self) -> list[Token]:
        return [to_token(row) for row in await self._rows("tokens")]

    async def token(self, id: str) -> Token | None:
        rows = await self._rows("token", id=id)
        return to_token(rows[0]) if rows else None

    async def update_token(
        self, id: str, *, revoked_at: datetime | None = None, last_used_at: datetime | None = None
    ) -> bool:
        values = {"id": id, "revoked_at": _ms(revoked_at), "last_used_at": _ms(last_used_at)}

        def work(db: apsw.Connection) -> bool:
            db.execute(self._sql["update_token"], values)
            return db.changes() == 1

        return await self._writer.submit(work)

    async def owner_settings(self, owner: str) -> OwnerSettings:
        rows = await self._rows("owner_settings", owner=owner)
        return OwnerSettings(**dict(zip(SETTINGS_FIELDS, rows[0], strict=True))) if rows else OwnerSettings()

    async def put_owner_settings(self, owner: str, settings: OwnerSettings) -> None:
        values = {"owner": owner, **asdict(settings)}
        await self._writer.submit(lambda db: db.execute(self._sql["put_owner_settings"], values))

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        if not charges:
            return []
        answers: list[Refusal | None] = await self._writer.submit_joint(self._spend_jointly, charges)
        return answers

    def _spend(self, db: apsw.Connection, calls: list[Sequence[Charge]]) -> list[list[Refusal | None]]:
        # There is one writer: what it reads in its transaction stands until it has written.
        charges = [charge for call in calls for charge in call]
        with db:  # a savepoint: what fails has counted nothing
            answers, changed = charged(charges, self._known(db, charges))
            write_rows(db, self._sql["put_counts"], [_from_count(count) for count in changed])
        left = iter(answers)
        return [[next(left) for _ in call] for call in calls]

    def _known(self, db: apsw.Connection, charges: Iterable[Charge]) -> Mapping[Key, BudgetCount]:
        rows = db.execute(self._sql["held_counts"], {"keys": _keys(charges)}).fetchall()
        return {count.key: count for count in map(_to_count, rows)}

    async def spent(self, charge: Charge) -> list[BudgetCount]:
        return list(map(_to_count, await self._rows("counts", keys=_keys([charge]))))

    def add_costs(self, db: apsw.Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        for change in changes:
            write_rows(db, self._sql["add_costs"], [_from_count(count) for count in costs(change)])

    async def check_value(self, alarm_id: str, name: str) -> str | None:
        rows = await self._rows("check_value", alarm_id=alarm_id, name=name)
        return str(rows[0][0]) if rows else None

    async def check_rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        return await self._long_readers.read(partial(read_only_rows, sql), within=within)

    def keep_seen(self, db: apsw.Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        kept = [(change.after.id, change.seen.name, change.seen.value) for change in changes if change.seen is not None]
        write_rows(db, self._sql["keep_seen"], kept)

    async def _rows(self, name: str, /, **values: Any) -> list[Row]:
        return await self._readers.read(partial(rows_of, self._sql[name], values))


def _made(sql: Mapping[str, str], db: apsw.Connection) -> ReportKeys:
    db.execute(sql["new_report_key"], (os.urandom(KEY_SIZE),))
    keys = keys_of(db.execute(sql["held_report_keys"]).fetchall())
    assert keys is not None
    return keys


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else unix_ms(moment)


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


_READS: Final = (
    apsw.SQLITE_SELECT,
    apsw.SQLITE_READ,
    apsw.SQLITE_FUNCTION,
    apsw.SQLITE_RECURSIVE,
)


def _only_reads(action: int, *_: str | None) -> int:
    """Allow a check to read: `pragma query_only = 0` would make its connection writable for all later reads."""
    return apsw.SQLITE_OK if action in _READS else apsw.SQLITE_DENY


class _OneStatement:
    """Refuses the second statement of a check."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        self._count += 1
        if self._count > 1:
            raise apsw.AuthError("the SQL of a check is one statement")
        return True


def read_only_rows(sql: str, db: apsw.Connection) -> list[tuple[Any, ...]]:
    """The rows of an operator's query, at most MAX_CHECK_ROWS + 1."""
    cursor = db.cursor()
    cursor.exec_trace = _OneStatement()
    db.authorizer = _only_reads
    try:
        return list(islice(cursor.execute(sql), MAX_CHECK_ROWS + 1))
    finally:
        db.authorizer = None
        cursor.close(force=True)

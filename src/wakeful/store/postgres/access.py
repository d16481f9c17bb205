"""Access and settings in PostgreSQL."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Change, Event
from wakeful.model.owner_settings import OwnerSettings
from wakeful.moments import whole_ms
from wakeful.rules.budget import BudgetCount, Charge, Key, Refusal, charged, costs
from wakeful.store.access import KEY_SIZE, MAX_CHECK_ROWS, AuthState, ReportKeys, Token, auth_state_of, keys_of
from wakeful.store.batching import Elbowroom, GroupCommit
from wakeful.store.postgres.database import LONG_LOCK_WAIT, Database, lock_wait
from wakeful.store.postgres.rows import event_columns, token_of, token_values

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection


class PostgresAccess:
    def __init__(self, sql: Mapping[str, str], database: Database, room: Elbowroom) -> None:
        self._sql = sql
        self._database = database
        self._spending: GroupCommit[Charge, Refusal | None] = GroupCommit(self._spend, room=room)

    async def close(self) -> None:
        await self._spending.close()

    async def report_keys(self) -> ReportKeys:
        keys = keys_of(await self._database.fetch(self._sql["report_keys"]))
        if keys is None:
            await self._database.fetch(self._sql["new_report_key"], LONG_LOCK_WAIT, secrets.token_bytes(KEY_SIZE))
            return await self.report_keys()
        return keys

    async def rotate_report_key(self, now: datetime, event: Event) -> ReportKeys:
        await self.report_keys()  # so that there is one to hold
        fresh = secrets.token_bytes(KEY_SIZE)

        async def work(connection: Connection, again: bool) -> ReportKeys:
            async with connection.transaction():
                await connection.fetch(self._sql["held_report_keys"], LONG_LOCK_WAIT)
                keys = keys_of(await connection.fetch(self._sql["report_keys"]))
                assert keys is not None
                if keys.current != fresh:  # else an earlier try was done and its answer lost
                    keys = keys.rotated(fresh, now)
                    columns = zip(*keys.rows(), strict=True)
                    await connection.fetch(self._sql["put_report_keys"], *map(list, columns), *event_columns([event]))
                return keys

        return await self._database.run(work)

    async def auth_state(self) -> AuthState:
        rows = await self._database.fetch(self._sql["auth_state"])
        return auth_state_of(bytes(rows[0][0])) if rows else "new"

    async def open_auth(self, event: Event) -> None:
        await self._database.fetch(self._sql["open_auth"], LONG_LOCK_WAIT, *event_columns([event]))

    async def add_token(self, token: Token) -> bool:
        await self._database.fetch(self._sql["add_token"], LONG_LOCK_WAIT, *token_values(token))
        # Read, not counted: the insert may be the second try of one whose answer was lost.
        kept = await self.token(token.id)
        return kept is not None and kept.hash == token.hash

    async def tokens(self) -> list[Token]:
        return [token_of(row) for row in await self._database.fetch(self._sql["tokens"])]

    async def token(self, id: str) -> Token | None:
        rows = await self._database.fetch(self._sql["token"], id)
        return token_of(rows[0]) if rows else None

    async def update_token(
        self, id: str, *, revoked_at: datetime | None = None, last_used_at: datetime | None = None
    ) -> bool:
        moments = [None if moment is None else whole_ms(moment) for moment in (revoked_at, last_used_at)]
        return bool(await self._database.fetch(self._sql["update_token"], LONG_LOCK_WAIT, id, *moments))

    async def owner_settings(self, owner: str) -> OwnerSettings:
        rows = await self._database.fetch(self._sql["owner_settings"], owner)
        return OwnerSettings(**dict(rows[0])) if rows else OwnerSettings()

    async def put_owner_settings(self, owner: str, settings: OwnerSettings) -> None:
        await self._database.fetch(self._sql["put_owner_settings"], owner, *astuple(settings))

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        return await self._spending.put(charges)

    async def _spend(self, items: Sequence[Charge], *, alone: bool) -> list[Refusal | None]:
        async def work(connection: Connection, again: bool) -> list[Refusal | None]:
            # The counts are held from when they are read until they are written, so workers take turns.
            async with connection.transaction():
                keys = {key for charge in items for key in charge.keys}
                rows = await connection.fetch(self._sql["held_counts"], lock_wait(alone), *_columns(sorted(keys), 4))
                counts = [BudgetCount(**row) for row in rows]
                answers, changed = charged(items, {count.key: count for count in counts})
                await connection.fetch(self._sql["put_counts"], *_columns(map(astuple, changed), 7))
            return answers

        return await self._database.run(work)

    async def spent(self, charge: Charge) -> list[BudgetCount]:
        rows = await self._database.fetch(self._sql["counts"], *_columns(charge.keys, 4))
        return [BudgetCount(**row) for row in rows]

    async def add_costs(self, connection: Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        if added := [count for change in changes for count in costs(change)]:
            await connection.fetch(self._sql["add_costs"], *_columns(map(astuple, added), 7))

    async def check_value(self, alarm_id: str, name: str) -> str | None:
        rows = await self._database.fetch(self._sql["check_value"], alarm_id, name)
        return str(rows[0][0]) if rows else None

    async def check_rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        async def work(connection: Connection, again: bool) -> list[tuple[Any, ...]]:
            transaction = connection.transaction(readonly=True)
            async with asyncio.timeout(within):
                await transaction.start()
                try:
                    rows = await connection.cursor(sql)
                    return [tuple(row) for row in await rows.fetch(MAX_CHECK_ROWS + 1)]
                finally:
                    await transaction.rollback()  # set_config() changes a session only if its transaction commits

        try:
            return await self._database.run_long(work)
        except TimeoutError:
            raise StoreUnavailable(f"the query took longer than {within:g} s") from None

    async def keep_seen(self, connection: Connection, changes: Iterable[Change]) -> None:
        """Inside a settlement's own transaction."""
        # In one order everywhere: settlements that share rows wait for each other instead of blocking each other.
        kept = sorted((one.after.id, one.seen.name, one.seen.value) for one in changes if one.seen is not None)
        if kept:
            await connection.fetch(self._sql["keep_seen"], *map(list, zip(*kept, strict=True)))


def _columns(rows: Iterable[tuple[Any, ...] | Key], width: int) -> list[list[Any]]:
    values = list(rows)
    return [[row[at] for row in values] for at in range(width)]

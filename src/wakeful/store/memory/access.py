"""Access and settings in a memory database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from wakeful.alarm import Change, Event
from wakeful.alarm.budget import BudgetCount, Charge, Refusal, charged, costs
from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.moments import whole_ms
from wakeful.store.access import KEY_SIZE, AuthState, ReportKeys, Token
from wakeful.store.memory.database import MemoryDatabase, storable
from wakeful.store.sqlite.access import read_only_rows

Open = Callable[[], MemoryDatabase]  # StoreUnavailable where the store is closed


class MemoryAccess:
    def __init__(self, open: Open) -> None:
        self._open = open

    async def report_keys(self) -> ReportKeys:
        database = self._open()
        if database.report_keys is None:
            database.report_keys = ReportKeys(database.random_bytes(KEY_SIZE))
        return database.report_keys

    async def rotate_report_key(self, now: datetime, event: Event) -> ReportKeys:
        database, keys, event = self._open(), await self.report_keys(), storable(event)
        database.report_keys = keys.rotated(database.random_bytes(KEY_SIZE), whole_ms(now))
        database.add_event(event)
        return database.report_keys

    async def auth_state(self) -> AuthState:
        return self._open().auth_state

    async def open_auth(self, event: Event) -> None:
        database, event = self._open(), storable(event)
        database.auth_state = "open"
        database.add_event(event)

    async def add_token(self, token: Token) -> bool:
        database = self._open()
        if token.id in database.tokens:
            return False
        database.tokens[token.id] = storable(token)
        database.auth_state = "closed"
        return True

    async def tokens(self) -> list[Token]:
        return sorted(self._open().tokens.values(), key=lambda token: (token.created_at, token.id))

    async def token(self, id: str) -> Token | None:
        return self._open().tokens.get(id)

    async def update_token(
        self, id: str, *, revoked_at: datetime | None = None, last_used_at: datetime | None = None
    ) -> bool:
        tokens = self._open().tokens
        if (token := tokens.get(id)) is None:
            return False
        if revoked_at is not None and token.revoked_at is None:
            token = replace(token, revoked_at=whole_ms(revoked_at))
        if last_used_at is not None:
            used = whole_ms(last_used_at)
            token = replace(token, last_used_at=max(used, token.last_used_at or used))
        tokens[id] = token
        return True

    async def owner_settings(self, owner: str) -> OwnerSettings:
        return self._open().owner_settings.get(owner, OwnerSettings())

    async def put_owner_settings(self, owner: str, settings: OwnerSettings) -> None:
        self._open().owner_settings[owner] = settings

    async def spend(self, charges: Sequence[Charge]) -> list[Refusal | None]:
        counts = self._open().budget
        known = {key: counts[key] for charge in charges for key in charge.keys if key in counts}
        answers, changed = charged(charges, known)
        counts.update((count.key, count) for count in changed)
        return answers

    async def spent(self, charge: Charge) -> list[BudgetCount]:
        counts = self._open().budget
        return [counts[key] for key in sorted(set(charge.keys)) if key in counts]

    async def check_value(self, alarm_id: str, name: str) -> str | None:
        return self._open().seen.get((alarm_id, name))

    async def check_rows(self, sql: str, *, within: float) -> list[tuple[Any, ...]]:
        return self._open().other_tables.read(partial(read_only_rows, sql), within=within)


def add_costs(database: MemoryDatabase, change: Change) -> None:
    for count in costs(change):
        known = database.budget.get(count.key)
        database.budget[count.key] = replace(known, cost=known.cost + count.cost) if known else count

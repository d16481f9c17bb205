"""Maintenance of a PostgreSQL database: workers, targets, inspection, purging, figures and zone data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import astuple

from wakeful.model.alarm import Event
from wakeful.store.maintenance import (
    BACKLOG_LIMIT,
    IMPOSSIBLE,
    Edition,
    FireSummary,
    Inspection,
    OwnerBacklog,
    OwnerUse,
    Step,
    StepCount,
    Storage,
    TargetState,
    Worker,
)
from wakeful.store.postgres.database import LONG_LOCK_WAIT, Database
from wakeful.store.postgres.migrate import Migrator
from wakeful.store.postgres.rows import event_columns, target_state_of, worker_of, worker_values
from wakeful.store.queries import Naming, migrations
from wakeful.store.records import CLOCK_AHEAD, ReadTurns

if TYPE_CHECKING:
    from wakeful.store.postgres.database import Connection

_TABLE_LOCK_WAIT: Final = "2s"  # for the whole table of alarms: whoever comes meanwhile waits behind us
_COUNT_WITHIN: Final = 3600.0  # seconds that counting through every row may take


class PostgresMaintenance:
    def __init__(
        self,
        sql: Mapping[str, str],
        database: Database,
        turns: ReadTurns,
        *,
        naming: Naming,
        moment: Callable[[], datetime | None],
    ) -> None:
        self._sql = sql
        self._database = database
        self._turns = turns
        self._naming = naming
        self._moment = moment
        self.has_edition = False
        self.keeping: asyncio.Task[None] | None = None

    async def use_default_target(self, name: str) -> str:
        async def work(connection: Connection, again: bool) -> str:
            async with connection.transaction():
                [(before, literal)] = await connection.fetch(self._sql["default_target"], name)
                if before != name:
                    await connection.execute(f"set local lock_timeout = '{_TABLE_LOCK_WAIT}'")
                    await connection.execute(f"{self._sql['set_default_target']} {literal}")
                return str(before)

        return await self._database.run(work)

    async def inspect(self, *, thorough: bool = False) -> Inspection:
        [(now,)] = await self._database.fetch(self._sql["now"], self._moment())
        async with self._database.connection() as connection:
            return await self._inspected(connection, ahead=now + CLOCK_AHEAD, thorough=thorough)

    async def _inspected(self, connection: Connection, *, ahead: datetime, thorough: bool) -> Inspection:
        [(engine, size)] = await connection.fetch(self._sql["storage"])
        ledger = await Migrator(self._naming).ledger(connection)
        impossible: dict[str, int] = {}
        if thorough and ledger.applied:
            [counts] = await connection.fetch(self._sql["impossible"], ahead, timeout=_COUNT_WITHIN)
            impossible = dict(zip(IMPOSSIBLE, counts, strict=True))
        return Inspection(
            engine=engine,
            size=size,
            schema=ledger.version,
            needed=ledger.needed,
            known=migrations("postgres", self._naming)[-1].version,
            broken=tuple(row[0] for row in await connection.fetch(self._sql["broken"])),
            impossible=impossible,
        )

    async def storage(self) -> Storage:
        [(engine, size)] = await self._long_rows("storage", "")
        return Storage(engine, size)

    async def beat(self, worker: Worker) -> None:
        await self._database.fetch(self._sql["beat"], self._moment(), LONG_LOCK_WAIT, *worker_values(worker))

    async def workers(self) -> list[Worker]:
        return [worker_of(row) for row in await self._database.fetch(self._sql["workers"])]

    async def target_states(self) -> dict[str, TargetState]:
        states = map(target_state_of, await self._database.fetch(self._sql["target_states"]))
        return {state.target: state for state in states}

    async def set_target_state(self, state: TargetState, *, event: Event | None = None) -> None:
        events = event_columns([event] if event is not None else [])
        await self._database.fetch(self._sql["set_target_state"], LONG_LOCK_WAIT, *events, *astuple(state))

    async def count_old(self, before: datetime, *, owner: str = "") -> dict[str, int]:
        [row] = await self._database.fetch(self._sql["count_old"], before, owner)
        return dict(row)

    async def purge(self, before: datetime, *, owner: str = "", limit: int = 1000) -> int:
        gone = len(await self._database.fetch(self._sql["purge_fires"], before, limit, owner))
        gone += await self._purge_alarms(before, owner, limit)  # after the last of their fires
        for name in ("purge_events", "purge_tokens"):
            gone += len(await self._database.fetch(self._sql[name], before, limit, owner))
        return gone

    async def _purge_alarms(self, before: datetime, owner: str, limit: int) -> int:
        """Of the oldest that ended, so many at a time. Those that still have fires stay: wakes that nobody fetched."""
        after: tuple[Any, Any] = (None, None)
        while True:
            [(gone, read, *last)] = await self._database.fetch(self._sql["purge_alarms"], before, limit, owner, *after)
            if gone or read < limit:
                return int(gone)
            after = (last[0], last[1])

    async def purge_counts(self, before: datetime, *, limit: int) -> int:
        gone = len(await self._database.fetch(self._sql["forget_counts"], before))
        return gone + len(await self._database.fetch(self._sql["forget_seen"], limit))

    async def backlog(self, *, lease: timedelta) -> dict[str, tuple[int, datetime]]:
        rows = await self._database.fetch(self._sql["backlog"], self._moment(), lease, BACKLOG_LIMIT)
        return {target: (count, since) for target, count, since in rows}

    async def backlog_by_owner(self, *, lease: timedelta, limit: int) -> list[OwnerBacklog]:
        rows = await self._long_rows("backlog_by_owner", "", self._moment(), lease, limit)
        return [OwnerBacklog(*row) for row in rows]

    async def fire_counts(self, owner: str, steps: Sequence[Step], *, limit: int) -> list[StepCount]:
        if not owner:
            return [StepCount(*row) for row in await self._long_rows("changed_by_step", "", *_columns(steps), limit)]
        rows = await self._long_rows("fires_by_step", owner, *_columns(steps), owner, limit)
        return [StepCount.of(msgspec.json.decode(statuses), failed) for statuses, failed in rows]

    async def latest_fires(self, owner: str, steps: Sequence[Step], *, each: int) -> list[FireSummary]:
        if owner:
            rows = await self._long_rows("latest_of_owner", owner, *_columns(steps), owner, each)
        else:
            rows = await self._long_rows("latest_of_all", "", *_columns(steps), each)
        return [FireSummary(*row) for row in rows]

    async def owner_use(self, *, after: str, limit: int, scan_limit: int, since: datetime) -> list[OwnerUse]:
        return [OwnerUse(*row) for row in await self._long_rows("owner_use", "", after, limit, scan_limit, since)]

    async def editions(self) -> list[Edition]:
        rows = await self._database.fetch(self._sql["editions"])
        self.has_edition = bool(rows)
        return [Edition(*row) for row in rows]

    async def zone_rules(self, version: str) -> bytes | None:
        rows = await self._database.fetch(self._sql["zone_rules"], version)
        return rows[0][0] if rows else None

    async def put_edition(self, version: str, data: bytes) -> None:
        await self._database.fetch(self._sql["put_edition"], self._moment(), version, data)
        await self._database.fetch(self._sql["forget_editions"])

    async def note_planned(self, version: str) -> None:
        await self._database.fetch(self._sql["note_planned"], self._moment(), version)

    async def _long_rows(self, name: str, owner: str, *args: Any) -> list[Any]:
        async with self._turns.turn(owner):
            return await self._database.long_read(self._sql[name], *args)


def _columns(steps: Sequence[Step]) -> tuple[list[datetime], list[datetime]]:
    return [since for since, _ in steps], [until for _, until in steps]

"""Maintenance of a SQLite file: workers, targets, inspection, purging, figures and zone data."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import apsw
import msgspec

from wakeful.clock import Clock
from wakeful.model.alarm import Event
from wakeful.moments import from_unix_ms, unix_ms
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
from wakeful.store.queries import Naming, migrations
from wakeful.store.records import CLOCK_AHEAD
from wakeful.store.rows import (
    Row,
    from_event,
    from_target_state,
    from_worker,
    length_ms,
    to_target_state,
    to_worker,
)
from wakeful.store.sqlite.readers import Readers, narrowed, rows_of
from wakeful.store.sqlite.schema import ledger_of, use_default_target
from wakeful.store.sqlite.writer import Work, Writer
from wakeful.store.sqlite.writes import write_rows

PURGED_AT_ONCE: Final = 200  # rows: whoever wants to write waits for no more than their deletion
LongRead = Callable[[Work[Any], str], Awaitable[Any]]  # in its owner's turn


class SqliteMaintenance:
    def __init__(
        self,
        sql: Mapping[str, str],
        writer: Writer,
        readers: Readers,
        long_readers: Readers,
        long_read: LongRead,
        *,
        naming: Naming,
        clock: Clock,
        read_within: float,
    ) -> None:
        self._sql = sql
        self._writer = writer
        self._readers = readers
        self._long_readers = long_readers
        self._long_read = long_read
        self._naming = naming
        self._clock = clock
        self._read_within = read_within
        self.has_edition = False
        self.keeping: asyncio.Task[None] | None = None

    async def use_default_target(self, name: str) -> str:
        return await self._writer.submit(lambda db: use_default_target(db, self._sql, name))

    async def inspect(self, *, thorough: bool = False) -> Inspection:
        ahead = unix_ms(self._clock.now() + CLOCK_AHEAD)
        work = partial(_inspected, self._sql, self._naming, ahead, thorough)
        return await self._long_readers.read(work, within=math.inf if thorough else self._read_within)

    async def storage(self) -> Storage:
        def work(db: apsw.Connection) -> list[Row]:
            log = db.filename_wal
            size = os.path.getsize(log) if log and os.path.exists(log) else 0
            return [(*row, size) for row in db.execute(self._sql["storage"])]

        [(engine, size, log)] = await self._long_read(work, "")
        return Storage(engine, size, log)

    async def beat(self, worker: Worker) -> None:
        def work(db: apsw.Connection) -> None:
            write_rows(db, self._sql["beat"], [from_worker(worker, seen_at=self._clock.now())])

        await self._writer.submit(work)

    async def workers(self) -> list[Worker]:
        return [to_worker(row) for row in await self._rows("workers")]

    async def target_states(self) -> dict[str, TargetState]:
        states = [to_target_state(row) for row in await self._rows("target_states")]
        return {state.target: state for state in states}

    async def set_target_state(self, state: TargetState, *, event: Event | None = None) -> None:
        row = from_target_state(state)
        events = [from_event(event)] if event is not None else []

        def work(db: apsw.Connection) -> None:
            write_rows(db, self._sql["set_target_state"], [row])
            write_rows(db, self._sql["add_events"], events)

        await self._writer.submit(work)

    async def count_old(self, before: datetime, *, owner: str = "") -> dict[str, int]:
        values = {"before": unix_ms(before), "owner": owner}
        [counts] = await self._long_readers.read(partial(rows_of, self._sql["count_old"], values))
        return dict(zip(("alarms", "fires", "events", "tokens"), counts, strict=True))

    async def purge(self, before: datetime, *, owner: str = "", limit: int = 1000) -> int:
        gone = 0
        for what in ("fires", "alarms", "events", "tokens"):  # fires first: an alarm goes after the last of its fires
            values = {"before": unix_ms(before), "owner": owner, "limit": limit, "after": None, "after_id": ""}
            read = _alarms_without_fires if what == "alarms" else _rowids
            rowids = await self._long_readers.read(partial(read, self._sql[f"old_{what}"], values))  # nobody waits
            for at in range(0, len(rowids), PURGED_AT_ONCE):
                work = _purge(self._sql[f"purge_{what}"], rowids[at : at + PURGED_AT_ONCE], unix_ms(before))
                gone += await self._writer.submit(work, lax=True)  # what a power cut brings back goes next time
        return gone

    async def purge_counts(self, before: datetime, *, limit: int) -> int:
        gone = 0
        for name, values in (("forget_counts", {"before": unix_ms(before)}), ("forget_seen", {"limit": limit})):
            gone += len(await self._writer.submit(partial(rows_of, self._sql[name], values)))
        return gone

    async def backlog(self, *, lease: timedelta) -> dict[str, tuple[int, datetime]]:
        values = {"now": unix_ms(self._clock.now()), "lease": length_ms(lease), "most": BACKLOG_LIMIT}
        rows = await self._rows("backlog", **values)
        return {target: (count, from_unix_ms(since)) for target, count, since in rows}

    async def backlog_by_owner(self, *, lease: timedelta, limit: int) -> list[OwnerBacklog]:
        values = {"now": unix_ms(self._clock.now()), "lease": length_ms(lease), "most": limit}
        rows = await self._long_rows("backlog_by_owner", "", **values)
        return [OwnerBacklog(target, owner, count, from_unix_ms(since)) for target, owner, count, since in rows]

    async def fire_counts(self, owner: str, steps: Sequence[Step], *, limit: int) -> list[StepCount]:
        if not owner:
            rows = await self._long_rows("changed_by_step", "", steps=_pairs(steps), most=limit)
            return [StepCount(count) for (count,) in rows]
        rows = await self._long_rows("fires_by_step", owner, steps=_pairs(steps), owner=owner, most=limit)
        return [StepCount.of(msgspec.json.decode(statuses), failed) for statuses, failed in rows]

    async def latest_fires(self, owner: str, steps: Sequence[Step], *, each: int) -> list[FireSummary]:
        if owner:
            rows = await self._long_rows("latest_of_owner", owner, steps=_pairs(steps), owner=owner, each=each)
        else:
            rows = await self._long_rows("latest_of_all", "", steps=_pairs(steps), each=each)
        return [FireSummary(*row[:3], *map(_moment, row[3:7]), row[7]) for row in rows]  # type: ignore[call-arg]

    async def owner_use(self, *, after: str, limit: int, scan_limit: int, since: datetime) -> list[OwnerUse]:
        rows = await self._long_rows("owner_use", "", after=after, limit=limit, most=scan_limit, since=unix_ms(since))
        found = []
        for owner, held, failed in rows:
            alarms, active, size = msgspec.json.decode(held)
            found.append(OwnerUse(owner, alarms, active, size, failed))
        return found

    async def editions(self) -> list[Edition]:
        rows = await self._rows("editions")
        self.has_edition = bool(rows)
        return [Edition(version, from_unix_ms(since), _moment(planned_at)) for version, since, planned_at in rows]

    async def zone_rules(self, version: str) -> bytes | None:
        rows = await self._rows("zone_rules", version=version)
        return rows[0][0] if rows else None

    async def put_edition(self, version: str, data: bytes) -> None:
        values = {"version": version, "data": data, "now": unix_ms(self._clock.now())}

        def work(db: apsw.Connection) -> None:
            db.execute(self._sql["put_edition"], values)
            db.execute(self._sql["forget_editions"])

        await self._writer.submit(work)

    async def note_planned(self, version: str) -> None:
        values = {"version": version, "now": unix_ms(self._clock.now())}
        await self._writer.submit(lambda db: db.execute(self._sql["note_planned"], values))

    async def _rows(self, name: str, /, **values: Any) -> list[Row]:
        return await self._readers.read(partial(rows_of, self._sql[name], values))

    async def _long_rows(self, name: str, turn: str, /, **values: Any) -> list[Row]:
        rows: list[Row] = await self._long_read(partial(rows_of, self._sql[name], values), turn)
        return rows


def _inspected(sql: Mapping[str, str], naming: Naming, ahead: int, thorough: bool, db: apsw.Connection) -> Inspection:
    [(engine, size)] = rows_of(sql["storage"], (), db)
    ledger, known = ledger_of(db, naming), migrations("sqlite", naming)[-1].version
    broken = _broken(db, sql["broken" if thorough else "broken_quickly"])
    impossible: dict[str, int] = {}
    if thorough and ledger.applied and not broken:  # the counts of a damaged file prove nothing
        [counts] = rows_of(sql["impossible"], {"ahead": ahead}, db)
        impossible = dict(zip(IMPOSSIBLE, counts, strict=True))
    return Inspection(
        engine=engine,
        size=size,
        schema=ledger.version,
        needed=ledger.needed,
        known=known,
        broken=broken,
        impossible=impossible,
    )


def _broken(db: apsw.Connection, sql: str) -> tuple[str, ...]:
    said: list[str] = []
    try:
        said.extend(problem for (problem,) in db.execute(sql))
    except apsw.CorruptError as error:  # worse than the check can describe; it may have told of something before
        said.append(str(error))
    return tuple(said)


def _rowids(sql: str, values: dict[str, Any], db: apsw.Connection) -> list[int]:
    return [rowid for (rowid,) in rows_of(sql, values, db)]


def _alarms_without_fires(sql: str, values: dict[str, Any], db: apsw.Connection) -> list[int]:
    """Of the oldest that ended, so many at a time. What still has fires is passed over: wakes that nobody fetched."""
    while rows := rows_of(narrowed(sql, values), values, db):
        if free := [rowid for rowid, _, _, is_free in rows if is_free]:
            return free
        _, values["after"], values["after_id"], _ = rows[-1]
    return []


def _purge(sql: str, rowids: list[int], before: int) -> Work[int]:
    def work(db: apsw.Connection) -> int:
        db.execute(sql, {"rowids": str(rowids), "before": before})
        return db.changes()

    return work


def _pairs(steps: Sequence[Step]) -> str:
    return msgspec.json.encode([(unix_ms(since), unix_ms(until)) for since, until in steps]).decode()


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else from_unix_ms(ms)

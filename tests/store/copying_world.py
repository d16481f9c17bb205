"""Databases to copy from and into, filled with everything that wakeful keeps."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
from msgspec.structs import asdict, replace

from wakeful.ids import Ids
from wakeful.model.alarm import Alarm, Attempt, Change, Event, Fire, Policy
from wakeful.moments import whole_ms
from wakeful.process.application import build_copy_end
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, EventQuery, FireQuery, Store, TargetState, Token, Worker
from wakeful.store.copying import CopyEnd, Seen, Watch
from wakeful.store.copying.backup import (
    BackupFrom,
    BackupMade,
    Missed,
    Restored,
    back_up_postgres,
    back_up_sqlite,
    restore,
)
from wakeful.store.queries import Naming

LEASE = timedelta(seconds=60)
LONG_AGO = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
_ids = Ids()


def unwatched(total: int) -> Seen:
    return lambda count: None


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Databases:
    """Settings for new databases of either kind."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        self.dsn = dsn
        self.schemas: list[str] = []

    def new(self, kind: str, name: str = "wakeful", **more: Any) -> Settings:
        if kind == "sqlite":
            return Settings(db=str(self.folder / f"{name}.db"), **more)
        self.schemas.append(f"c{os.urandom(6).hex()}")
        return Settings(db=self.dsn, schema=self.schemas[-1], **more)

    async def drop(self) -> None:
        if not self.schemas:
            return
        connection = await asyncpg.connect(self.dsn)
        await connection.execute("set lock_timeout = '5s'; set client_min_messages = warning")
        for schema in self.schemas:
            await connection.execute(f"drop schema if exists {schema} cascade")
        await connection.close()


@asynccontextmanager
async def end_of(settings: Settings, *, migrated: bool = True) -> AsyncIterator[CopyEnd]:
    end = build_copy_end(settings)
    try:
        if migrated:
            await end.store.migrate()
        yield end
    finally:
        await end.close()


def an_alarm(due: datetime, **given: Any) -> Alarm:
    made = whole_ms(due - timedelta(hours=1))
    fields = {"id": _ids.new(made), "owner_did": "ada", "user_id": "ada", "target": "desk", "wake_message": "wake up"}
    times = {"created_at": made, "updated_at": made, "fire_at": due, "next_fire_at": due, "occurrence_at": due}
    return Alarm(**{**fields, **times, **given})


def a_series(due: datetime, **given: Any) -> Alarm:
    return an_alarm(due, **{"kind": "cron", "cron_expr": "0 * * * *", "fire_at": None} | given)


def fired(alarm: Alarm, **given: Any) -> Change:
    at = alarm.next_fire_at
    fields: dict[str, Any] = {"status": "completed", "attempts": 1, "started_at": at, "completed_at": at}
    fields |= {"log": (Attempt(at, 12, "HTTP 200"),), "result": "ok \N{BELL}", "updated_at": at}
    fire = Fire(
        alarm_id=alarm.id, scheduled_for=alarm.occurrence_at, owner_did="ada", target="desk", **(fields | given)
    )
    after = replace(alarm, status="fired", claim=alarm.claim + 1, claimed_at=None, unsettled=0, fire_count=1)
    event = Event(at=at, what="cancelled", alarm_id=alarm.id, owner_did="ada", by="ada", reason="because")
    return Change(claim=alarm.claim, version=alarm.version, after=after, fires=(fire,), events=(event,))


async def fill(store: Store) -> dict[str, Alarm]:
    """Alarms of every kind, fires, events, tokens, keys, states; one alarm is leased, one has fired."""
    far = datetime(2099, 1, 1, tzinfo=UTC)
    policy = Policy(catch_up="skip", expires=3600.0, ends_at=far)
    alarms = {
        "done": an_alarm(LONG_AGO, target="desk"),
        "leased": an_alarm(LONG_AGO + timedelta(minutes=1), target="held"),
        "odd": an_alarm(
            far, payload_json='{"b": 1,  "a": "\\u0000é"}', label="ä\N{SNOWMAN}", idempotency_key="k", isolated=True
        ),
        "series": a_series(far, policy=policy, version=3, status="paused", paused_reason="later"),
    }
    await store.add(list(alarms.values()))
    [claimed] = (await store.claim({"desk": 1}, lease=LEASE)).alarms
    assert [answer.what for answer in await store.settle([fired(claimed)])] == ["applied"]
    [alarms["leased"]] = (await store.claim({"held": 1}, lease=LEASE)).alarms
    await store.access.add_token(Token(id="t1", owner_did="ada", hash=b"\x00\xff" * 16, created_at=LONG_AGO, label="x"))
    await store.maintenance.set_target_state(
        TargetState(target="desk", paused_at=LONG_AGO, paused_by="op", updated_at=LONG_AGO)
    )
    await store.access.report_keys()
    return alarms


RAISED = 1_000_000  # what a restore adds to the version of every alarm


async def content(store: Store, *, raised: int = 0) -> dict[str, Any]:
    """Everything a caller can see, but for leases and for what copying itself puts on record.

    `raised`: by how much versions are higher than they were.
    """
    alarms = await store.find(AlarmQuery(limit=100_000))
    events = await store.events(EventQuery(limit=1000))
    return {
        "alarms": {
            one.id: asdict(one) | {"claim": 0, "claimed_at": None, "unsettled": 0, "version": one.version - raised}
            for one in alarms
        },
        "fires": {one.id: one for one in await store.fires(FireQuery(limit=100_000))},
        "events": [(number, one) for number, one in events if one.what not in ("restored", "moved")],
        "tokens": await store.access.tokens(),
        "states": await store.maintenance.target_states(),
        "keys": asdict(await store.access.report_keys()),
        "door": await store.access.auth_state(),
    }


def a_worker(*, seen_at: datetime, pid: int = 0, host: str = "") -> Worker:
    name = host or socket.gethostname()
    return Worker(id="w", host=name, pid=pid or os.getpid(), version="1", started_at=seen_at, seen_at=seen_at)


async def back_up(end: CopyEnd, file: Path, *, prefix: str = "", watch: Watch = unwatched) -> BackupMade:
    what = BackupFrom(end.name, "1.2", await end.store.now())
    if end.file is not None:
        return await back_up_sqlite(end.file, Naming(prefix=prefix), str(file), what, watch)
    return await back_up_postgres(end.tables, str(file), what, watch)


async def bring_back(
    file: Path, end: CopyEnd, *, missed: Missed = "fire", replace: bool = False, prefix: str = ""
) -> Restored:
    now = datetime.now(UTC)
    naming = Naming(prefix=prefix)
    return await restore(str(file), end, naming, missed=missed, replace=replace, by="op", now=now, watch=unwatched)

"""The bare limit: the same tables and statements of the same shape, from a plain loop without wakeful."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import apsw
import asyncpg

from wakeful.clock import SystemClock
from wakeful.ids import Ids

HOUR_MS = 3_600_000
FAR_MS = 2_208_988_800_000  # 2040
LOG = '[{"at":"2026-11-15T00:00:00Z","ms":0,"said":"completed"}]'
COLUMNS = """
id, owner_did, user_id, kind, fire_at, next_fire_at, wake_message, payload, created_at, updated_at, target,
occurrence_at
"""

LITE_INSERT = f"""
insert into alarms ({COLUMNS})
values (?, 'local', 'local', 'once', ?, ?, 'wake up', '{{"n": 1}}', ?, ?, 'noop', ?)
"""
LITE_CLAIM = """
update alarms
   set claimed_at = ?1, claim = claim + 1, unsettled = unsettled + 1
 where id in (
    select id from alarms
     where status = 'active' and target = 'noop' and next_fire_at <= ?1
       and (claimed_at is null or claimed_at <= ?1 - 120000)
     order by next_fire_at
     limit ?2)
returning *
"""
LITE_SETTLE = """
update alarms
   set next_fire_at = ?, status = ?, failure_count = ?, last_error = ?, claimed_at = ?, updated_at = ?,
       last_fired_at = ?, occurrence_at = ?, claim = ?, unsettled = ?, version = ?, awaiting = ?, fire_count = ?,
       failed_in_a_row = ?, paused_reason = ?, cancelled_at = ?
 where id = ? and claim = ? and version = ?
"""
LITE_FIRE = """
insert into fires values (?, ?, ?, ?, 'completed', '', 1, 0, ?, ?, null, ?, 0, '', '', ?, null, 1, ?)
    on conflict (alarm_id, scheduled_for) do update
   set status = excluded.status, log = excluded.log, updated_at = excluded.updated_at
"""

PG_INSERT = f"""
insert into {{s}}.alarms ({COLUMNS})
select i::uuid, 'local', 'local', 'once', f, f, 'wake up', '{{{{"n": 1}}}}', now(), now(), 'noop', f
  from unnest($1::text[], $2::timestamptz[]) as r(i, f)
"""
PG_FILL = f"""
insert into {{s}}.alarms ({COLUMNS})
select i, 'local', 'local', 'once', f, f, 'wake up', '{{{{"n": 1}}}}', now(), now(), 'noop', f
  from (select {{start}} + g * interval '1 ms' as f,
               -- In the order they are made in, as wakeful's own ids are (UUIDv7): millisecond, count, chance.
               (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
                || lpad(to_hex(g % 4096), 3, '0') || '8' || substr(md5(random()::text), 1, 15))::uuid as i
          from generate_series(1, {{n}}) g) r
"""
PG_CLAIM = """
with due as (
    select id from {s}.alarms
     where status = 'active' and target = 'noop' and next_fire_at <= now()
       and (claimed_at is null or claimed_at <= now() - interval '2 min')
     order by next_fire_at
     limit $1
     for update skip locked)
update {s}.alarms a
   set claimed_at = now(), claim = claim + 1, unsettled = unsettled + 1
  from due
 where a.id = due.id
returning a.*
"""
PG_SETTLE = """
with r as (
    select *
      from unnest($1::uuid[], $2::int[], $3::int[], $4::timestamptz[], $5::text[], $6::int[], $7::text[],
                  $8::timestamptz[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::int[], $13::int[],
                  $14::int[], $15::timestamptz[], $16::int[], $17::int[], $18::text[], $19::timestamptz[])
           as r(id, held_claim, held_version, next_fire_at, status, failure_count, last_error, claimed_at, updated_at,
                last_fired_at, occurrence_at, claim, unsettled, version, awaiting, fire_count, failed_in_a_row,
                paused_reason, cancelled_at)),
done as (
    update {s}.alarms a
       set next_fire_at = r.next_fire_at, status = r.status, failure_count = r.failure_count,
           last_error = r.last_error, claimed_at = r.claimed_at, updated_at = r.updated_at,
           last_fired_at = r.last_fired_at, occurrence_at = r.occurrence_at, claim = r.claim,
           unsettled = r.unsettled, version = r.version, awaiting = r.awaiting, fire_count = r.fire_count,
           failed_in_a_row = r.failed_in_a_row, paused_reason = r.paused_reason, cancelled_at = r.cancelled_at
      from r
     where a.id = r.id and a.claim = r.held_claim and a.version = r.held_version
    returning a.id, a.owner_did, a.target, a.occurrence_at, a.updated_at)
insert into {s}.fires
select id, occurrence_at, owner_did, target, 'completed', '', 1, 0, updated_at, updated_at, null, updated_at, 0, '', '',
       $20::json, null, 1, updated_at
  from done
    on conflict (alarm_id, scheduled_for) do update
   set status = excluded.status, log = excluded.log, updated_at = excluded.updated_at
"""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _is_lite(place: dict[str, Any]) -> bool:
    return "schema" not in place


def _lite(place: dict[str, Any]) -> apsw.Connection:
    db = apsw.Connection(place["db"])
    db.execute("pragma journal_mode = wal; pragma synchronous = full")
    return db


def inserts(place: dict[str, Any], n: int, *, at_once: int) -> float:
    """Inserts per second, `at_once` rows to a transaction."""
    ids, clock = Ids(), SystemClock()
    names = [ids.new(clock.now()) for _ in range(n)]
    if not _is_lite(place):
        return asyncio.run(_pg_inserts(place, names, at_once))
    db = _lite(place)
    started = time.perf_counter()
    for first in range(0, n, at_once):
        db.execute("begin immediate")
        db.executemany(LITE_INSERT, ((name, *[FAR_MS] * 5) for name in names[first : first + at_once]))
        db.execute("commit")
    return n / (time.perf_counter() - started)


async def _pg_inserts(place: dict[str, Any], names: list[str], at_once: int) -> float:
    connection = await asyncpg.connect(place["db"])
    far = SystemClock().now().replace(year=2040)
    insert = await connection.prepare(PG_INSERT.format(s=place["schema"]))
    started = time.perf_counter()
    for first in range(0, len(names), at_once):
        some = names[first : first + at_once]
        await insert.fetch(some, [far] * len(some))
    seconds = time.perf_counter() - started
    await connection.close()
    return len(names) / seconds


@asynccontextmanager
async def bulks(place: dict[str, Any], n: int) -> AsyncIterator[dict[str, Callable[[], Awaitable[Any]]]]:
    """Calls that each insert so many rows of their own, by name."""
    ids, clock, far = Ids(), SystemClock(), SystemClock().now().replace(year=2040)
    at = [far + timedelta(milliseconds=place) for place in range(n)]

    def names() -> list[str]:
        return ids.many(clock.now(), n)

    if _is_lite(place):
        db = _lite(place)

        async def many() -> None:
            with db:
                db.executemany(LITE_INSERT, ((name, *[FAR_MS + n] * 5) for n, name in enumerate(names())))

        yield {"bare executemany": many}
        db.close()
        return
    connection = await asyncpg.connect(place["db"])
    insert = await connection.prepare(PG_INSERT.format(s=place["schema"]))
    columns = [name.strip() for name in COLUMNS.split(",")]

    async def unnest() -> None:
        await insert.fetch(names(), at)

    async def copy() -> None:
        same = ("wake up", '{"n": 1}')
        rows = [
            (name, "local", "local", "once", when, when, *same, far, far, "noop", when)
            for name, when in zip(names(), at, strict=True)
        ]
        await connection.copy_records_to_table("alarms", schema_name=place["schema"], columns=columns, records=rows)

    yield {"bare copy": copy, "bare unnest": unnest}
    await connection.close()


def fill(place: dict[str, Any], n: int, *, due: bool) -> None:
    """Rows that are due since an hour, or not before 2040."""
    if not _is_lite(place):
        start = "now() - interval '1 hour'" if due else "timestamptz '2040-01-01'"
        _pg_run(place, PG_FILL.format(s=place["schema"], n=n, start=start))
        return
    db, ids, clock = _lite(place), Ids(), SystemClock()
    start_ms = _now_ms() - HOUR_MS if due else FAR_MS
    now = clock.now()
    db.execute("begin immediate")
    due_at = range(start_ms, start_ms + n)
    db.executemany(LITE_INSERT, ((ids.new(now), at, at, start_ms, start_ms, at) for at in due_at))
    db.execute("commit")
    db.close()


def part(place: dict[str, Any]) -> None:
    """Each alarm that is not due yet belongs to an owner of its own."""
    if _is_lite(place):
        db = _lite(place)
        db.execute("update alarms set owner_did = printf('o%08d', rowid) where next_fire_at >= ?", (FAR_MS,))
        db.close()
    else:
        _pg_run(place, f"update {place['schema']}.alarms set owner_did = 'o' || id where next_fire_at >= '2040-01-01'")


def analyze(place: dict[str, Any]) -> None:
    if _is_lite(place):
        db = _lite(place)
        db.execute("pragma wal_checkpoint(truncate)")
        db.close()
    else:
        _pg_run(place, f"vacuum (analyze) {place['schema']}.alarms")
        _pg_run(place, "checkpoint")


def _pg_run(place: dict[str, Any], sql: str) -> None:
    """In a thread with a loop of its own: the caller may be inside one."""
    import threading

    async def run() -> None:
        connection = await asyncpg.connect(place["db"])
        await connection.execute(sql, timeout=600)
        await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    thread.join()


def drain(place: dict[str, Any], n: int, *, batch: int) -> float:
    """Claims and settlements per second."""
    return _lite_drain(place, n, batch) if _is_lite(place) else asyncio.run(_pg_drain(place, n, batch))


def _lite_drain(place: dict[str, Any], n: int, batch: int) -> float:
    db, done = _lite(place), 0
    started = time.perf_counter()
    while True:
        now = _now_ms()
        db.execute("begin immediate")
        rows: list[Any] = list(db.execute(LITE_CLAIM, (now, batch)))
        db.execute("commit")
        if not rows:
            break
        db.execute("begin immediate")
        db.executemany(LITE_SETTLE, (_settled(row, now) for row in rows))
        db.executemany(LITE_FIRE, ((row[0], row[22], row[1], row[21], now, now, now, LOG, now) for row in rows))
        db.execute("commit")
        done += len(rows)
    assert done == n, done
    return n / (time.perf_counter() - started)


def _settled(row: Any, now: int) -> tuple[Any, ...]:
    """The columns that wakeful's own settlement writes, for an alarm that has fired."""
    id, next_fire_at, occurrence_at, claim, version = row[0], row[8], row[22], row[23], row[25]
    after = (next_fire_at, "fired", 0, "", None, now, now, occurrence_at, claim + 1, 0, version, None, 1, 0, "", None)
    return (*after, id, claim, version)


def _settled_pg(row: Any, now: Any) -> tuple[Any, ...]:
    *after, id, claim, version = _settled(row, now)
    return (id, claim, version, *after)


async def _pg_drain(place: dict[str, Any], n: int, batch: int) -> float:
    connection = await asyncpg.connect(place["db"])
    claim = await connection.prepare(PG_CLAIM.format(s=place["schema"]))
    settle = await connection.prepare(PG_SETTLE.format(s=place["schema"]))
    done = 0
    started = time.perf_counter()
    while rows := await claim.fetch(batch):
        now = rows[0]["claimed_at"]
        await settle.fetch(*map(list, zip(*(_settled_pg(row, now) for row in rows), strict=True)), LOG)
        done += len(rows)
    seconds = time.perf_counter() - started
    await connection.close()
    assert done == n, done
    return n / seconds

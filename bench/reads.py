"""Every read that a door or a tick asks for, before a full shared database: half of it is one owner's.

Each is asked seven times; `over` says whether even the least took longer than it may. A purge is measured with nothing
to do, and with 1,000 rows of each kind.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import apsw
import asyncpg

from bench.full_database import fill_postgres, fill_sqlite
from bench.worlds import World
from wakeful.app import Wakeful, build
from wakeful.config import Settings
from wakeful.errors import StoreBusy
from wakeful.service.caller import Caller
from wakeful.service.figures import owners
from wakeful.service.limits import COUNTED_AT_ONCE
from wakeful.service.searching import alarms_like, fires_like
from wakeful.store import AlarmQuery, FireQuery
from wakeful.store.counts import COUNTED
from wakeful.store.looking import ROWS_A_READ

GOAL_MS: Final = 20.0
SEARCH_MS: Final = 100.0  # of a text, which has to be looked for in every row
SAMPLES: Final = 7
PAGE_SIZE: Final = 4_000_000  # characters, as the HTTP interface asks for
OLD: Final = timedelta(days=60)
Read = Callable[[], Awaitable[Any]]


def run(world: World, *, rows: int) -> Iterator[dict[str, Any]]:
    with world.fresh() as place:
        for told in asyncio.run(_measured(world.store, Settings(**place, port=0), rows)):
            yield {"bench": "reads", "store": world.store, "rows": rows} | told


async def _measured(kind: str, settings: Settings, rows: int) -> list[dict[str, Any]]:
    template, now = await fill(kind, settings, rows)
    found: list[dict[str, Any]] = []
    async with build(settings) as clock:
        for name, read in reads(clock, template, now).items():
            found.append(await _timed(name, read))
        old = now - OLD
        found.append(await _timed("purge nothing", lambda: clock.service.store.purge(old)))
        purges: list[float] = []
        for _ in range(SAMPLES):
            await _make_old(kind, settings, old - OLD)
            purges.append(await _took(lambda: clock.service.store.purge(old)))
        found.append(_told("purge 1,000 of each", purges))
    return found


async def fill(kind: str, settings: Settings, rows: int) -> tuple[str, datetime]:
    """The id of an alarm that is there, and the moment up to which it is filled."""
    async with build(settings) as clock:
        made = await clock.set("every day at 9am", "Look at the grant portal", label="grants")
        now = await clock.service.now()
    if kind == "sqlite":
        fill_sqlite(settings.db, made.id, now, alarms=rows, fires=rows, mixed=True)
    else:
        await fill_postgres(settings.db, settings.schema, made.id, now, alarms=rows, fires=rows, mixed=True)
    return made.id, now


def reads(clock: Wakeful, template: str, now: datetime) -> dict[str, Read]:
    """By name. The owner's have what is half of the database; the operator's have all of it."""
    store, owner, hour = clock.service.store, clock.caller.owner, timedelta(hours=1)
    operator = clock.service.of(Caller(owner="", via="python", limited=False))
    lease = clock.service.settings.lease
    counted: dict[str, Any] = {"owner": owner, "limit": COUNTED, "look_at": ROWS_A_READ}
    everyday: dict[str, Read] = {
        "stats": lambda: clock.stats(),
        "usage": lambda: store.usage(owner, look_at=COUNTED_AT_ONCE),
        "overview": lambda: clock.overview(),
        "agenda": lambda: clock.agenda(hours=24, limit=100),
        "pending, 500": lambda: clock.active(limit=500, most=PAGE_SIZE),
        "history, 50": lambda: clock.history(limit=50, most=PAGE_SIZE),
        "history, 500": lambda: clock.history(limit=500, most=PAGE_SIZE),
        "history, pending, 500": lambda: clock.history(limit=500, status="pending", most=PAGE_SIZE),
        "history, cancelled": lambda: clock.history(limit=50, status="cancelled", most=PAGE_SIZE),
        "history, one target, in pieces": lambda: clock.history(limit=50, target="nothing", most=PAGE_SIZE),
        "history, snoozed": lambda: clock.history(limit=50, status="snoozed", most=PAGE_SIZE),
        "failed": lambda: clock.failed(limit=100, most=PAGE_SIZE),
        "list": lambda: clock.find(limit=100, most=PAGE_SIZE),
        "list, active": lambda: clock.find(limit=100, status="active", most=PAGE_SIZE),
        "list, paused": lambda: clock.find(limit=100, status="paused", most=PAGE_SIZE),
        "list, a rare label": lambda: clock.find(limit=100, label="alarm 4", most=PAGE_SIZE),
        "list, no such label": lambda: clock.find(limit=100, label="nothing", most=PAGE_SIZE),
        "list, a conversation": lambda: clock.find(limit=100, conversation_id="conversation 77", most=PAGE_SIZE),
        "list, no such conversation": lambda: clock.find(limit=100, conversation_id="nothing", most=PAGE_SIZE),
        "list, no such target": lambda: clock.find(limit=100, target="nothing", most=PAGE_SIZE),
        "list, kind": lambda: clock.find(limit=100, kind="once", most=PAGE_SIZE),
        "list, a key": lambda: clock.find(limit=100, key="nothing", most=PAGE_SIZE),
        "list, since": lambda: clock.find(limit=100, since=now, most=PAGE_SIZE),
        "list, a text": lambda: clock.find(limit=100, text="nothing", most=PAGE_SIZE),
        "dashboard's list, a label": lambda: alarms_like(clock, limit=100, most=PAGE_SIZE, label="nothing"),
        "dashboard's list, a text": lambda: alarms_like(clock, limit=100, most=PAGE_SIZE, text="nothing"),
        "dashboard's fires, a target": lambda: fires_like(clock, limit=100, most=PAGE_SIZE, target="nothing"),
        "fires": lambda: clock.fires(limit=100, most=PAGE_SIZE),
        "fires, failed": lambda: clock.fires(limit=100, status="failed", most=PAGE_SIZE),
        "fires, no such target": lambda: clock.fires(limit=100, target="nothing", most=PAGE_SIZE),
        "fires, snoozed": lambda: clock.fires(limit=100, status="snoozed", most=PAGE_SIZE),
        "fires of an alarm": lambda: clock.fires(template, limit=100, most=PAGE_SIZE),
        "count, paused": lambda: store.count(AlarmQuery(statuses=("paused",), **counted)),
        "count, active": lambda: store.count(AlarmQuery(statuses=("active",), **counted)),
        "count, cancelled": lambda: store.count(AlarmQuery(statuses=("cancelled",), **counted)),
        "count, failed fires": lambda: store.count(FireQuery(statuses=("failed",), **counted)),
        "count, a label, in pieces": lambda: store.count(AlarmQuery(label="nothing", **counted)),
        "inbox": lambda: store.waiting(owner, limit=100, most=PAGE_SIZE),
        "why": lambda: clock.why(template),
        "events": lambda: clock.recent_events(limit=20),
        "events, one kind": lambda: clock.recent_events("fired", limit=20),
    }
    operators: dict[str, Read] = {
        "operator's stats": lambda: operator.stats(),
        "operator's list": lambda: operator.find(limit=100, most=PAGE_SIZE),
        "operator's list, active": lambda: operator.find(limit=100, status="active", most=PAGE_SIZE),
        "operator's list, paused": lambda: operator.find(limit=100, status="paused", most=PAGE_SIZE),
        "operator's list, since": lambda: operator.find(limit=100, since=now, most=PAGE_SIZE),
        "operator's list, no such label": lambda: operator.find(limit=100, label="nothing", most=PAGE_SIZE),
        "operator's list, a text": lambda: operator.find(limit=100, text="nothing", most=PAGE_SIZE),
        "operator's fires": lambda: operator.fires(limit=100, most=PAGE_SIZE),
        "operator's fires, failed": lambda: operator.fires(limit=100, status="failed", most=PAGE_SIZE),
        "operator's history, 50": lambda: operator.history(limit=50, most=PAGE_SIZE),
        "operator's history, 500": lambda: operator.history(limit=500, most=PAGE_SIZE),
        "operator's failed": lambda: operator.failed(limit=100, most=PAGE_SIZE),
        "operator's agenda": lambda: operator.agenda(hours=24, limit=100),
        "operator's events": lambda: operator.recent_events(limit=20),
    }
    targets = [f"target{number}" for number in range(20)]
    ticks: dict[str, Read] = {
        "tick: overdue": lambda: store.overdue(limit=100),
        "tick: next_due": lambda: store.next_due(targets),
        "tick: backlog": lambda: store.backlog(lease=lease),
        "tick: live changes": lambda: store.changes(owner="", since=now, after_event=0, limit=100),
        "tick: count_old": lambda: store.count_old(now - OLD),
        "figures: 50 owners": lambda: owners(clock.service, after="", limit=50, since=now - 24 * hour),
        "figures: due": lambda: store.figures.due(lease=lease, most=1000),
        "figures: counts": lambda: store.figures.counts(owner, [(now - hour, now)], most=1000),
        "figures: latest": lambda: store.figures.latest("", [(now - hour, now)], each=100),
    }
    return everyday | operators | ticks


async def _timed(name: str, read: Read) -> dict[str, Any]:
    try:
        return _told(name, [await _took(read) for _ in range(SAMPLES)])
    except StoreBusy as error:
        return {"read": name, "error": str(error), "over": True}


async def _took(read: Read) -> float:
    begun = time.perf_counter()
    await read()
    return 1000 * (time.perf_counter() - begun)


def _told(name: str, took: list[float]) -> dict[str, Any]:
    least = round(min(took), 2)
    goal = SEARCH_MS if name.endswith("a text") else GOAL_MS
    return {"read": name, "ms_least": least, "ms_median": round(statistics.median(took), 2), "over": least > goal}


async def _make_old(kind: str, settings: Settings, moment: datetime) -> None:
    """Let 1,000 alarms that ended, with all of their fires, be older than anything is kept."""
    ended = "select id from alarms where status = 'fired' order by id limit 1000"
    if kind == "sqlite":
        connection = apsw.Connection(settings.db)
        connection.set_busy_timeout(10_000)
        at = int(moment.timestamp() * 1000)
        done = "status = 'completed', report_by = null"
        connection.execute(f"update fires set updated_at = {at}, {done} where alarm_id in ({ended})")
        connection.execute(f"update alarms set updated_at = {at} where id in ({ended})")
        connection.execute(f"update events set at = {at} where seq in (select seq from events order by seq limit 1000)")
        connection.close()
        return
    server = await asyncpg.connect(settings.db, server_settings={"search_path": settings.schema})
    done = "status = 'completed', report_by = null"
    await server.execute(f"update fires set updated_at = $1, {done} where alarm_id in ({ended})", moment)
    await server.execute(f"update alarms set updated_at = $1 where id in ({ended})", moment)
    await server.execute(
        "update events set at = $1 where seq in (select seq from events order by seq limit 1000)", moment
    )
    await server.close()

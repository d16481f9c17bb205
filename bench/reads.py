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
from wakeful.errors import StoreBusy
from wakeful.process.application import LocalWakeful, build
from wakeful.service import Alarms
from wakeful.service.bulk import alarms_like, fires_like
from wakeful.service.caller import Caller
from wakeful.service.figures import owners
from wakeful.service.limits import COUNTED_AT_ONCE
from wakeful.settings import Settings
from wakeful.store import COUNTED, AlarmQuery, FireQuery
from wakeful.store.filters import ROWS_A_READ

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
    async with build(settings) as alarms:
        for name, read in reads(alarms, template, now).items():
            found.append(await _timed(name, read))
        old = now - OLD
        found.append(await _timed("purge nothing", lambda: alarms.service.store.maintenance.purge(old)))
        purges: list[float] = []
        for _ in range(SAMPLES):
            await _make_old(kind, settings, old - OLD)
            purges.append(await _took(lambda: alarms.service.store.maintenance.purge(old)))
        found.append(_told("purge 1,000 of each", purges))
    return found


async def fill(kind: str, settings: Settings, rows: int) -> tuple[str, datetime]:
    """The id of an alarm that is there, and the moment up to which it is filled."""
    async with build(settings) as alarms:
        made = await alarms.set("every day at 9am", "Look at the grant portal", label="grants")
        now = await alarms.service.now()
    if kind == "sqlite":
        fill_sqlite(settings.db, made.id, now, alarms=rows, fires=rows, mixed=True)
    else:
        await fill_postgres(settings.db, settings.schema, made.id, now, alarms=rows, fires=rows, mixed=True)
    return made.id, now


def reads(alarms: LocalWakeful, template: str, now: datetime) -> dict[str, Read]:
    """By name. The owner's have what is half of the database; the operator's have all of it."""
    store, owner, hour = alarms.service.store, alarms.caller.owner, timedelta(hours=1)
    operator = Alarms(alarms.service, Caller(owner="", via="python", limited=False))
    lease = alarms.service.settings.lease
    counted: dict[str, Any] = {"owner": owner, "limit": COUNTED, "look_at": ROWS_A_READ}
    everyday: dict[str, Read] = {
        "stats": lambda: alarms.stats(),
        "usage": lambda: store.usage(owner, look_at=COUNTED_AT_ONCE),
        "overview": lambda: alarms.overview(),
        "agenda": lambda: alarms.agenda(hours=24, limit=100),
        "pending, 500": lambda: alarms.active(limit=500, most=PAGE_SIZE),
        "history, 50": _history(alarms, 50),
        "history, 500": _history(alarms, 500),
        "history, pending, 500": _history(alarms, 500, status="pending"),
        "history, cancelled": _history(alarms, 50, status="cancelled"),
        "history, one target, in pieces": _history(alarms, 50, target="nothing"),
        "history, snoozed": _history(alarms, 50, status="snoozed"),
        "failed": lambda: alarms.failed(limit=100, most=PAGE_SIZE),
        "list": _list(alarms),
        "list, active": _list(alarms, status="active"),
        "list, paused": _list(alarms, status="paused"),
        "list, a rare label": _list(alarms, label="alarm 4"),
        "list, no such label": _list(alarms, label="nothing"),
        "list, a conversation": _list(alarms, conversation_id="conversation 77"),
        "list, no such conversation": _list(alarms, conversation_id="nothing"),
        "list, no such target": _list(alarms, target="nothing"),
        "list, kind": _list(alarms, kind="once"),
        "list, a key": _list(alarms, key="nothing"),
        "list, since": _list(alarms, since=now),
        "list, a text": _list(alarms, text="nothing"),
        "dashboard's list, a label": lambda: alarms_like(alarms, limit=100, most=PAGE_SIZE, label="nothing"),
        "dashboard's list, a text": lambda: alarms_like(alarms, limit=100, most=PAGE_SIZE, text="nothing"),
        "dashboard's fires, a target": lambda: fires_like(alarms, limit=100, most=PAGE_SIZE, target="nothing"),
        "fires": _fires(alarms),
        "fires, failed": _fires(alarms, status="failed"),
        "fires, no such target": _fires(alarms, target="nothing"),
        "fires, snoozed": _fires(alarms, status="snoozed"),
        "fires of an alarm": _fires(alarms, id=template),
        "count, paused": lambda: store.count(AlarmQuery(statuses=("paused",), **counted)),
        "count, active": lambda: store.count(AlarmQuery(statuses=("active",), **counted)),
        "count, cancelled": lambda: store.count(AlarmQuery(statuses=("cancelled",), **counted)),
        "count, failed fires": lambda: store.count(FireQuery(statuses=("failed",), **counted)),
        "count, a label, in pieces": lambda: store.count(AlarmQuery(label="nothing", **counted)),
        "inbox": lambda: store.waiting(owner, limit=100, most=PAGE_SIZE),
        "why": lambda: alarms.why(template),
        "events": lambda: alarms.recent_events(limit=20),
        "events, one kind": lambda: alarms.recent_events("fired", limit=20),
    }
    operators: dict[str, Read] = {
        "operator's stats": lambda: operator.stats(),
        "operator's list": _list(operator),
        "operator's list, active": _list(operator, status="active"),
        "operator's list, paused": _list(operator, status="paused"),
        "operator's list, since": _list(operator, since=now),
        "operator's list, no such label": _list(operator, label="nothing"),
        "operator's list, a text": _list(operator, text="nothing"),
        "operator's fires": _fires(operator),
        "operator's fires, failed": _fires(operator, status="failed"),
        "operator's history, 50": _history(operator, 50),
        "operator's history, 500": _history(operator, 500),
        "operator's failed": lambda: operator.failed(limit=100, most=PAGE_SIZE),
        "operator's agenda": lambda: operator.agenda(hours=24, limit=100),
        "operator's events": lambda: operator.recent_events(limit=20),
    }
    targets = [f"target{number}" for number in range(20)]
    ticks: dict[str, Read] = {
        "tick: overdue": lambda: store.overdue(limit=100),
        "tick: next_due": lambda: store.next_due(targets),
        "tick: backlog": lambda: store.maintenance.backlog(lease=lease),
        "tick: live changes": lambda: store.changes(owner="", since=now, after_event=0, limit=100),
        "tick: count_old": lambda: store.maintenance.count_old(now - OLD),
        "figures: 50 owners": lambda: owners(alarms.service, after="", limit=50, since=now - 24 * hour),
        "figures: due": lambda: store.maintenance.backlog_by_owner(lease=lease, limit=1000),
        "figures: counts": lambda: store.maintenance.fire_counts(owner, [(now - hour, now)], limit=1000),
        "figures: latest": lambda: store.maintenance.latest_fires("", [(now - hour, now)], each=100),
    }
    return everyday | operators | ticks


def _list(who: Alarms, **fits: Any) -> Read:
    return lambda: who.find(limit=100, most=PAGE_SIZE, **fits)


def _fires(who: Alarms, **fits: Any) -> Read:
    return lambda: who.fires(limit=100, most=PAGE_SIZE, **fits)


def _history(who: Alarms, limit: int, **fits: Any) -> Read:
    return lambda: who.history(limit=limit, most=PAGE_SIZE, **fits)


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

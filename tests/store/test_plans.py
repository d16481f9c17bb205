"""No read that a door or a tick asks for goes through a table: each finds its rows by an index, and few of them.

Each read is asked of a store that holds 100,000 alarms, fires and events, half of them one owner's. The statements are
noted as they are sent, and the database is asked how it answers them. What is looked for is mostly not there, so that a
read without a bound would go through everything.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import apsw
import asyncpg
import pytest
from bench.reads import fill, reads
from msgspec import Struct

from tests.dashboard.test_plans import _nodes, _noted_by_apsw, _noted_by_asyncpg, _rows, _steps
from wakeful.process.application import LocalWakeful, build
from wakeful.service.change import LATEST
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, EventQuery, FireQuery
from wakeful.store.filters import bounds
from wakeful.store.postgres.database import _SETTINGS
from wakeful.store.queries import Naming, queries

ROWS = 100_000
LOOKED_AT = 500
MOST_ROWS = 2_500  # several times as many as are looked at or told at once, and a small part of an owner's 50,000
MOST_STEPS = 50 * MOST_ROWS  # of SQLite's machine
TABLES = ("alarms", "fires", "events")
BOUNDED = (
    *("read.ROWS_A_READ", "read.ROWS_A_SEARCH", "history.ROWS_A_READ", "watch.LOOKED_AT"),
    *("bulk.LOOKED_AT", "bulk.READ"),
)

# What none of these reads asks for, and why it need not be looked at here.
WRITES = {
    *(
        "add",
        "claim",
        "claimed",
        "settle",
        "settle_at_once",
        "settle_edited",
        "put_fires",
        "put_first_fires",
        "put_settled_fires",
        "add_events",
        "renew",
        "renewed",
        "beat",
    ),
    *("set_target_state", "new_report_key", "put_report_keys", "open_auth", "add_token", "update_token"),
    *("put_counts", "held_counts", "add_costs", "keep_seen", "forget_counts", "forget_seen", "put_owner_settings"),
    *("put_edition", "forget_editions", "note_planned"),
    "set_default_target",
    *(
        "purge_fires",
        "purge_alarms",
        "purge_events",
        "purge_tokens",
        "notify",
        "claim_in_turn",
        "due",
        "suspect",
        "in_turn",
    ),
}
BY_KEY = {
    *("same_key", "same_id", "held_claim", "token", "auth_state", "report_keys", "held_report_keys", "claimed_unheard"),
    *("counts", "check_value", "owner_settings", "zone_rules"),
}
# What is planned once for many (store/postgres/database.py), and the indexes by which it finds its rows.
KEPT = {
    "add": set[str](),
    "same_id": {"alarms_pkey"},
    "same_key": {"alarms_idempotency_idx"},
    "claim": {"alarms_pkey", "alarms_due_idx"},
    "claim_in_turn": {"alarms_pkey", "alarms_due_idx", "alarms_turns_idx"},
    "claimed_unheard": {"alarms_pkey"},
    "settle": {"alarms_pkey", "fires_pkey"},
    "settle_at_once": {"alarms_pkey", "fires_pkey"},
    "held_claim": {"alarms_pkey"},
    "next_due": {"alarms_due_idx"},
    "renew": {"alarms_pkey"},
}
SMALL = {"tokens", "editions", "old_tokens", "target_states", "workers", "now", "tables", "default_target"}
ALL_OF_IT = {
    "count_old": "a person asked what a purge would delete: the old rows are counted, by their indexes",
    "storage": "the size of the whole",
    "events_by": "who revokes a token is told what it fetched: the events of a day, by their index",
    "broken": "`wakeful doctor` reads everything",
    "broken_quickly": "see broken",
    "impossible": "see broken",
}


class World(Struct, frozen=True):
    settings: Settings
    template: str
    now: datetime


@pytest.fixture(scope="module")
def full_sqlite(tmp_path_factory: pytest.TempPathFactory) -> World:
    settings = Settings(db=str(tmp_path_factory.mktemp("full") / "wakeful.db"))
    return World(settings, *asyncio.run(fill("sqlite", settings, ROWS)))


@pytest.fixture(scope="module")
def full_postgres(pg_dsn: str) -> Iterator[World]:
    settings = Settings(db=pg_dsn, schema=f"t_{uuid4().hex[:12]}")
    yield World(settings, *asyncio.run(fill("postgres", settings, ROWS)))

    async def drop() -> None:
        connection = await asyncpg.connect(pg_dsn)
        await connection.execute(f"drop schema {settings.schema} cascade")
        await connection.close()

    asyncio.run(drop())


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BOUNDED:
        monkeypatch.setattr(f"wakeful.service.{name}", LOOKED_AT)
    monkeypatch.setattr("bench.reads.ROWS_A_READ", LOOKED_AT)
    monkeypatch.setattr("bench.reads.COUNTED", LOOKED_AT)


class Asked(dict[str, str]):
    """The statements of a store, and which of them it has asked for."""

    def __init__(self, sql: dict[str, str], names: set[str]) -> None:
        super().__init__(sql)
        self._names = names

    def __getitem__(self, name: str) -> str:
        self._names.add(name)
        return super().__getitem__(name)


@asynccontextmanager
async def asking(world: World, names: set[str]) -> AsyncIterator[tuple[LocalWakeful, dict[str, Any]]]:
    """The reads, bounded so that a few hundred rows are many."""
    async with build(world.settings) as alarms:
        store: Any = alarms.service.store
        store._sql = store.access._sql = store.maintenance._sql = Asked(store._sql, names)
        owner, old = alarms.caller.owner, world.now - timedelta(days=60)
        bounded = {
            "stats": lambda: store.stats(owner, most=LOOKED_AT),
            "operator's stats": lambda: store.stats(most=LOOKED_AT),
            "usage": lambda: store.usage(owner, look_at=LOOKED_AT),
            "figures: 50 owners": lambda: store.maintenance.owner_use(
                after="", limit=5, scan_limit=LOOKED_AT, since=world.now
            ),
            "figures: fires that changed": lambda: store.maintenance.fire_counts(
                "", [(old, world.now)], limit=LOOKED_AT
            ),
            "figures: an owner's latest": lambda: store.maintenance.latest_fires(owner, [(old, world.now)], each=10),
            "purge": lambda: store.maintenance.purge(old),
            "an owner's purge": lambda: store.maintenance.purge(old, owner=owner),
            "named": lambda: store.named(owner, ["nothing"], between=(world.template, world.template), limit=2),
            "by keys": lambda: store.named(owner, [f"nothing {n}" for n in range(100)]),
            "alarms in zones": lambda: store.alarms_in_zones(["Asia/Tokyo"], after="", scan_limit=LOOKED_AT),
            "listening": lambda: store.listening(owner, "nothing", limit=10),
            "similar": lambda: _similar(alarms, world.template),
            "last event": lambda: store.events(
                EventQuery(alarm_id=world.template, what="chain_cancelled", latest=True, limit=1)
            ),
            "latest events": lambda: store.events(EventQuery(alarm_id=world.template, latest=True, limit=LATEST)),
            "fires at": lambda: store.fires_at([(world.template, world.now)] * 500),
        }
        yield alarms, reads(alarms, world.template, world.now) | bounded


async def _similar(alarms: LocalWakeful, id: str) -> None:
    store = alarms.service.store
    alarm = await store.get(id)
    assert alarm is not None
    await store.similar(alarm, among=100)


def _forget_former(alarms: LocalWakeful) -> str:
    """What each change writes that can be undone. It finds its rows among the events, so it is looked at as a read."""
    store: Any = alarms.service.store
    sql: str = store._sql["forget_former"]
    return sql


def is_read(sql: str) -> bool:
    return bool(re.match(r"(--.*\n)*(select|with)\b", sql)) and bool(re.search(r"\b(alarms|fires|events)\b", sql))


def is_counted_in_full(sql: str) -> bool:
    return bool(re.search(r"\bas tokens\b", sql))  # `count_old`


def _long_in_sqlite(db: apsw.Connection, sql: str, bindings: Any) -> Iterator[str]:
    plan = "\n".join(str(step[3]) for step in db.execute(f"explain query plan {sql}", bindings))
    # What is gone through in full is what the statement itself has made. In the order of an index, up to a limit, is
    # not in full: how many steps it takes is counted.
    if re.search(r"SCAN (alarms?|fires?|events?|one|due|next)\b(?! USING (COVERING )?INDEX)", plan):
        yield f"goes through a table\n{plan}"
    if not is_counted_in_full(sql) and (steps := _steps(db, sql, bindings)) >= MOST_STEPS:
        yield f"{steps} steps\n{plan}"


def _long_in_postgres(sql: str, plan: dict[str, Any]) -> Iterator[str]:
    most = MOST_ROWS * (1 if "served" not in sql else 5)  # so many for each of the targets, from the index alone
    for node in _nodes(plan):
        if node.get("Relation Name") in TABLES:
            if node["Node Type"] == "Seq Scan":
                yield f"goes through {node['Relation Name']}"
            if not is_counted_in_full(sql) and (rows := _rows(node)) > most:
                yield f"{node['Node Type']} of {rows} rows, {node.get('Index Name')}, {node.get('Filter')}"


class TestSqlite:
    async def test_every_read_goes_by_an_index_and_looks_at_few_rows(self, full_sqlite: World) -> None:
        names: set[str] = set()
        found: list[tuple[str, str, Any]] = []
        with _noted_by_apsw() as noted:
            async with asking(full_sqlite, names) as (alarms, asked):
                for name, read in asked.items():
                    noted.clear()
                    await read()
                    found += [(name, sql, bindings) for sql, bindings in noted if is_read(sql)]
                found.append(("forget former", _forget_former(alarms), {"alarm_id": full_sqlite.template}))
        db = apsw.Connection(full_sqlite.settings.db, statementcachesize=0)  # counters begin at 0 each time
        wrong = [f"{name}: {why}\n{sql}" for name, sql, bindings in found for why in _long_in_sqlite(db, sql, bindings)]
        db.close()
        assert not wrong, "\n\n".join(wrong)
        assert set(queries("sqlite", Naming())) - names == left_out("sqlite", names)


class TestPostgres:
    async def test_every_read_goes_by_an_index_and_looks_at_few_rows(
        self, full_postgres: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names: set[str] = set()
        found: list[tuple[str, str, Any]] = []
        noted = _noted_by_asyncpg(monkeypatch)
        async with asking(full_postgres, names) as (alarms, asked):
            for name, read in asked.items():
                noted.clear()
                await read()
                found += [(name, sql, args) for sql, args in noted if is_read(sql)]
            found.append(("forget former", _forget_former(alarms), ([full_postgres.template],)))
        monkeypatch.undo()
        settings = _SETTINGS | {"search_path": full_postgres.settings.schema}
        db = await asyncpg.connect(full_postgres.settings.db, server_settings=settings)
        wrong: list[str] = []
        for name, sql, args in found:
            [[told]] = await db.fetch(f"explain (analyze, timing off, format json) {sql}", *args)
            wrong += [f"{name}: {why}\n{sql}\n{args}" for why in _long_in_postgres(sql, json.loads(told)[0]["Plan"])]
        await db.close()
        assert not wrong, "\n\n".join(wrong)
        assert set(queries("postgres", Naming())) - names == left_out("postgres", names)

    async def test_plans_that_are_kept_go_by_an_index_whatever_they_will_be_asked(self, full_postgres: World) -> None:
        schema = full_postgres.settings.schema
        settings = _SETTINGS | {"plan_cache_mode": "force_generic_plan"}
        db = await asyncpg.connect(full_postgres.settings.db, server_settings=settings)
        sql = queries("postgres", Naming(schema=schema))
        wrong: list[str] = []
        for name in KEPT:
            statement = await db.prepare(sql[name])
            values = ", ".join(["null"] * len(statement.get_parameters()))
            [[told]] = await db.fetch(f"explain (format json) execute {statement.get_name()}({values})")
            nodes = [node for node in _nodes(json.loads(told)[0]["Plan"]) if node.get("Relation Name") in TABLES]
            by = {node.get("Index Name") for node in nodes if "Scan" in node["Node Type"]}
            if by - KEPT[name]:
                wrong.append(f"{name}: by {by}\n{told}")
        await db.close()
        assert not wrong, "\n\n".join(wrong)


def left_out(dialect: str, asked: set[str]) -> set[str]:
    """What was rightly not asked for."""
    known = {*WRITES, *BY_KEY, *SMALL, *ALL_OF_IT}
    return (known & set(queries(dialect, Naming()))) - asked  # type: ignore[arg-type]


def test_a_page_that_is_full_soon_looks_at_few_rows() -> None:
    assert list(bounds(AlarmQuery(limit=50, look_at=10_000))) == [200, 10_000]
    assert list(bounds(FireQuery(limit=500, look_at=10_000))) == [2_000, 10_000]
    assert list(bounds(FireQuery(limit=500, look_at=20))) == [20]

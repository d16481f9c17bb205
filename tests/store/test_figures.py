"""Figures never cost a pass over a table: every statement finds its rows by an index, and few of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from wakeful.store.postgres import PostgresStore
from wakeful.store.queries import Naming, queries
from wakeful.store.sqlite import SqliteStore

from .postgres_world import LEASE, World
from .sqlite_file_tools import other_program

FIRES = 20_000
NAMES = ["fires_by_step", "latest_of_owner", "latest_of_all", "changed_by_step", "backlog_by_owner", "owner_use"]
INDEXES = {
    "fires_by_step": ["fires_owner_idx", "fires_failed_idx"],
    "latest_of_owner": ["fires_owner_idx"],
    "latest_of_all": ["fires_updated_idx"],
    "changed_by_step": ["fires_updated_idx"],
    "backlog_by_owner": ["alarms_due_idx"],
    "owner_use": ["alarms_owner_idx", "fires_failed_idx"],
}


@pytest.mark.parametrize("name", NAMES)
async def test_sqlite_finds_figures_by_an_index(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "wakeful.db")
    store = SqliteStore(path)
    await store.migrate()
    await store.close()
    values = {"steps": "[[1, 2]]", "owner": "a", "after": "", "now": 1, "lease": 1}
    bounds = {"most": 1, "each": 1, "limit": 1, "since": 1}
    with other_program(path) as db:
        plan = db.execute(f"explain query plan {queries('sqlite', Naming())[name]}", values | bounds).fetchall()
    told = "\n".join(str(step[3]) for step in plan)
    for index in INDEXES[name]:
        assert re.search(rf"SEARCH \S+ USING (COVERING )?INDEX {index} \(", told), told
    # What is gone through in full is what the statement itself has made: the steps, the targets, what was let through.
    assert not re.search(r"SCAN (fires|alarms)\b", told), told


@pytest.fixture
async def busy(pg_dsn: str, pg_schema: str) -> AsyncIterator[World]:
    """20,000 fires in 20,000 seconds and as many due alarms, of one owner and of many."""
    world = World(pg_dsn, pg_schema)
    store: PostgresStore = world.store()
    await store.migrate()
    await world.sql(
        f"insert into {world.alarms} (id, user_id, kind, created_at, updated_at, occurrence_at, target, owner_did,"
        " next_fire_at) select gen_random_uuid(), 'x', 'once', now(), now(), now(), 't' || n % 3,"
        f" case when n % 2 = 0 then 'o' || n % 500 else 'much' end, now() - interval '1 day'"
        f" from generate_series(1, {FIRES}) as n"
    )
    await world.sql(
        f"insert into {world.schema}.fires (alarm_id, scheduled_for, owner_did, target, status, updated_at)"
        " select gen_random_uuid(), now() - n * interval '1 s', 'much', 't',"
        " case when n % 100 = 0 then 'failed' else 'completed' end, now() - n * interval '1 s'"
        f" from generate_series(1, {FIRES}) as n"
    )
    await world.sql(f"analyze {world.alarms}")
    await world.sql(f"analyze {world.schema}.fires")
    yield world
    await world.close()


@pytest.mark.parametrize("name", NAMES)
async def test_postgres_finds_figures_by_an_index_and_reads_little(busy: World, name: str) -> None:
    now = datetime.now(UTC)
    steps = [now - timedelta(hours=2), now - timedelta(hours=1)], [now - timedelta(hours=1), now]
    args: dict[str, tuple[Any, ...]] = {
        "fires_by_step": (*steps, "much", 50),
        "latest_of_owner": (*steps, "much", 50),
        "latest_of_all": (*steps, 50),
        "changed_by_step": (*steps, 50),
        "backlog_by_owner": (None, LEASE, 50),
        "owner_use": ("", 5, 50, now - timedelta(days=1)),
    }
    sql = queries("postgres", Naming(schema=busy.schema))[name]
    rows = await busy.sql(f"explain (analyze, buffers, costs off, timing off) {sql}", *args[name])
    plan = "\n".join(row[0] for row in rows)
    for index in INDEXES[name]:
        assert index in plan, plan
    assert "Seq Scan" not in plan, plan
    touched = re.search(r"Buffers: shared (?:hit=(\d+))?(?: ?read=(\d+))?", plan)
    assert touched is not None, plan
    assert sum(int(part or 0) for part in touched.groups()) < 1500, plan

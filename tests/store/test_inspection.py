"""What an inspection finds that no verb of the store can bring about."""

from __future__ import annotations

from pathlib import Path

import apsw
import asyncpg
import pytest

from wakeful.store import Store
from wakeful.store.postgres import PostgresStore
from wakeful.store.queries import Naming
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import a_fire, added, an_alarm, change, settled

ORPHANED = "fires without an alarm"


async def with_a_fire(store: Store, clock: ManualClock) -> None:
    alarm = an_alarm(clock)
    await added(store, alarm)
    assert await settled(store, change(alarm, a_fire(alarm))) == ["applied"]


async def test_a_fire_whose_alarm_is_gone_from_the_file_is_counted(tmp_path: Path, clock: ManualClock) -> None:
    store = SqliteStore(str(tmp_path / "a.db"), clock=clock)
    await store.migrate()
    await with_a_fire(store, clock)
    db = apsw.Connection(str(tmp_path / "a.db"))
    db.execute("delete from alarms")
    db.close()
    assert (await store.maintenance.inspect(thorough=True)).impossible[ORPHANED] == 1
    await store.close()


async def test_a_fire_whose_alarm_is_gone_from_postgres_is_counted(
    pg_dsn: str, pg_schema: str, clock: ManualClock
) -> None:
    store = PostgresStore(pg_dsn, naming=Naming(schema=pg_schema), clock=clock)
    await store.migrate()
    await with_a_fire(store, clock)
    db = await asyncpg.connect(pg_dsn)
    await db.execute(f"delete from {pg_schema}.alarms")
    await db.close()
    assert (await store.maintenance.inspect(thorough=True)).impossible[ORPHANED] == 1
    await store.close()


@pytest.mark.parametrize("thorough", [True, False])
async def test_a_damaged_file_is_told_in_sqlites_words(tmp_path: Path, clock: ManualClock, thorough: bool) -> None:
    path = tmp_path / "a.db"
    store = SqliteStore(str(path), clock=clock)
    await store.migrate()
    await added(store, *(an_alarm(clock, wake_message="x" * 3000) for _ in range(200)))
    await store.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 4096 * 8)
    store = SqliteStore(str(path), clock=clock)
    found = await store.maintenance.inspect(thorough=thorough)
    assert found.broken
    assert not found.sound
    await store.close()


async def test_an_index_that_postgres_does_not_trust_is_told(pg_dsn: str, pg_schema: str, clock: ManualClock) -> None:
    store = PostgresStore(pg_dsn, naming=Naming(schema=pg_schema), clock=clock)
    await store.migrate()
    db = await asyncpg.connect(pg_dsn)
    await db.execute(
        f"update pg_index set indisvalid = false where indexrelid = '{pg_schema}.alarms_owner_idx'::regclass"
    )
    await db.close()
    [problem] = (await store.maintenance.inspect()).broken
    assert "alarms_owner_idx is not valid" in problem
    await store.close()


async def test_looking_at_a_database_without_tables_makes_none(
    pg_dsn: str, pg_schema: str, tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    stores: list[Store] = [
        SqliteStore(str(path), clock=clock),
        PostgresStore(pg_dsn, naming=Naming(schema=pg_schema), clock=clock),
    ]
    for store in stores:
        assert [(await store.maintenance.inspect(thorough=True)).schema for _ in range(2)] == [0, 0]
        await store.close()
    assert path.stat().st_size == 0

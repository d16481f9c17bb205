"""The schema in somebody's database: migrations, plans, versions, pgbouncer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest
from msgspec.structs import replace

from wakeful.errors import InvalidConfig
from wakeful.model.alarm import Event
from wakeful.store import AlarmQuery, Claim, EventQuery, FireQuery, Settled, TargetState, Turn, Worker
from wakeful.store.postgres import NO_ID, PostgresStore
from wakeful.store.postgres.migrate import Migrator
from wakeful.store.queries import Naming, migrations, queries

from .postgres_world import LEASE, World, completed, new_alarm

STEPS = [step.name for step in migrations("postgres", Naming())]
VERSIONS = sorted(str(step.version) for step in migrations("postgres", Naming()))


@pytest.fixture
async def world(pg_dsn: str, pg_schema: str) -> AsyncIterator[World]:
    world = World(pg_dsn, pg_schema)
    yield world
    await world.close()


@pytest.fixture
async def store(world: World) -> PostgresStore:
    store = world.store()
    await store.migrate()
    return store


@pytest.fixture
async def backlog(world: World, store: PostgresStore) -> World:
    """50,000 alarms due on one target, a few on another."""
    await store.add([new_alarm(target="quiet") for _ in range(5)])
    await world.sql(
        f"insert into {world.alarms} (id, owner_did, user_id, kind, next_fire_at, created_at, updated_at,"
        " occurrence_at, target) select gen_random_uuid(), 'did:x', 'x', 'once',"
        " now() - interval '1 hour' + n * interval '1 ms', now(), now(), now(), 'loud'"
        " from generate_series(1, 50000) as n"
    )
    await world.sql(f"analyze {world.alarms}")
    return world


EARLY = timedelta(milliseconds=40)
_CLAIM = (None, LEASE, ["quiet", "other"], [10, 64], True, uuid4(), uuid4(), [EARLY] * 2)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("claim", _CLAIM),
        ("claim_in_turn", (*_CLAIM, [5, 0], [2, 0], ["", ""], 128)),
        ("next_due", (["quiet", "other", "loud"],)),
    ],
)
async def test_looking_for_due_alarms_reads_the_due_index_and_little_of_it(
    backlog: World, name: str, args: tuple[object, ...]
) -> None:
    sql = queries("postgres", Naming(schema=backlog.schema))[name]
    rows = await backlog.sql(f"explain (analyze, buffers, costs off, timing off) {sql}", *args)
    plan = "\n".join(row[0] for row in rows)
    assert "alarms_due_idx" in plan, plan
    assert "Seq Scan" not in plan, plan
    touched = sum(int(part.split("=")[1]) for part in rows[0:12][0][0].split() if part.startswith(("hit=", "read=")))
    assert touched < 300, plan


@pytest.mark.parametrize("analyzed", [False, True])
async def test_owners_in_turn_are_found_by_their_index(world: World, store: PostgresStore, analyzed: bool) -> None:
    """A flood of one owner, and many who wait; with statistics or without."""
    much = "'did:much', now() - interval '1 hour' + n * interval '1 ms'"
    for count, what in ((30000, much), (5000, "'o' || n, now() + interval '1 hour'"), (5, "'z' || n, now()")):
        await world.sql(
            f"insert into {world.alarms} (id, user_id, kind, created_at, updated_at, occurrence_at, target, owner_did,"
            f" next_fire_at) select gen_random_uuid(), 'x', 'once', now(), now(), now(), 't', {what}"
            f" from generate_series(1, {count}) as n"
        )
    if analyzed:
        await world.sql(f"analyze {world.alarms}")
    sql = queries("postgres", Naming(schema=world.schema))["claim_in_turn"]
    for after in ("", "o3", "o9999"):
        args = (None, LEASE, ["t"], [10], True, uuid4(), uuid4(), [EARLY], [5], [2], [after], 128)
        rows = await world.sql(f"explain (analyze, buffers, costs off, timing off) {sql}", *args)
        plan = "\n".join(row[0] for row in rows)
        assert plan.count("alarms_turns_idx") == 3, plan
        assert "Seq Scan" not in plan, plan
        assert _buffers(plan) < 2500, plan


@pytest.mark.parametrize("analyzed", [False, True])
async def test_who_waits_for_a_signal_is_found_by_its_name(world: World, store: PostgresStore, analyzed: bool) -> None:
    for policy in ("'{\"unless\": \"' || n || '\"}'", "'{\"or_when\": \"' || n || '\"}'", "null"):
        await world.sql(
            f"insert into {world.alarms} (id, user_id, kind, created_at, updated_at, occurrence_at, target, owner_did,"
            f" next_fire_at, policy) select gen_random_uuid(), 'x', 'once', now(), now(), now(), 't', 'ada', now(),"
            f" ({policy})::json from generate_series(1, 10000) as n"
        )
    if analyzed:
        await world.sql(f"analyze {world.alarms}")
    sql = queries("postgres", Naming(schema=world.schema))["listening"]
    rows = await world.sql(f"explain (analyze, buffers, costs off, timing off) {sql}", "ada", "7", NO_ID, 500)
    plan = "\n".join(row[0] for row in rows)
    assert "alarms_unless_idx" in plan, plan
    assert "alarms_or_when_idx" in plan, plan
    assert "Seq Scan" not in plan, plan
    assert _buffers(plan.partition("Planning:")[0]) < 50, plan


def _buffers(plan: str) -> int:
    """The most blocks that a part of the plan looked at."""
    lines = [line for line in plan.splitlines() if "Buffers:" in line]
    return max(sum(int(part.split("=")[1]) for part in line.split() if part[:4] in ("hit=", "read")) for line in lines)


async def test_claims_are_oldest_first_in_a_backlog(backlog: World, store: PostgresStore) -> None:
    claimed = (await store.claim({"loud": 64, "quiet": 64}, lease=LEASE)).alarms
    loud = [alarm.next_fire_at for alarm in claimed if alarm.target == "loud"]
    assert len(loud) == 64
    assert len(claimed) == 69
    assert loud == sorted(loud)
    oldest = await backlog.sql(f"select next_fire_at from {backlog.alarms} where target = 'loud' order by 1 limit 64")
    assert loud == [row[0] for row in oldest]


async def test_behind_pgbouncer_nothing_is_left_in_a_session(world: World) -> None:
    store = world.store(pgbouncer=True, pool_size=4)
    await store.migrate()
    await use_every_verb(store)
    pool = store._database._pool
    assert pool is not None
    connections = [await pool.acquire() for _ in range(4)]
    for connection in connections:
        assert await connection.fetchval("select count(*) from pg_prepared_statements") == 0
        assert await connection.fetchval("select count(*) from pg_listening_channels()") == 0
        assert [row[0] for row in await connection.fetch("select name from pg_settings where source = 'session'")] == []
        held = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        assert await connection.fetchval(held) == 0
        await pool.release(connection)


@pytest.mark.parametrize("version", [16, 18])
async def test_every_verb_works_on(version: int, request: pytest.FixtureRequest) -> None:
    dsn = request.getfixturevalue("pg16_dsn" if version == 16 else "pg_dsn")
    world = World(dsn, f"smoke_{version}")
    try:
        store = world.store()
        assert await store.migrate() == STEPS
        assert await store.migrate() == []
        await use_every_verb(store)
    finally:
        await world.close()
        await world.sql(f"drop schema smoke_{version} cascade")


async def use_every_verb(store: PostgresStore) -> None:
    """Each statement at least once; what they mean is the conformance suite's business."""
    await store.add([new_alarm(), new_alarm(idempotency_key="k"), new_alarm(idempotency_key="k")])
    now = await store.now()
    assert await store.access.report_keys() == await store.access.report_keys()
    due = await store.next_due(["t", "u"])
    assert due is not None
    assert due <= now
    first, second = (await store.claim({"t": 10}, lease=LEASE, turns={"t": Turn(5)})).alarms
    assert (await store.claim({"t": 10}, lease=LEASE)).alarms == []
    assert await store.renew([Claim(first.id, 1), Claim(second.id, 7), Claim("nobody", 1)]) == [
        Claim(second.id, 7),
        Claim("nobody", 1),
    ]
    event = Event(at=now, what="paused", alarm_id=first.id, owner_did="did:x")
    assert (
        await store.settle([replace(completed(first), events=(event,)), replace(completed(second), edited=True)])
        == [Settled("applied")] * 2
    )
    assert [found.id for found in await store.find(AlarmQuery(owner="did:x", statuses=("fired",), text="", limit=1))]
    assert await store.get("not-a-uuid") is None
    [fire] = await store.fires(FireQuery(alarm_id=first.id))
    assert await store.fires_at([(first.id, fire.scheduled_for), ("x", now)]) == {(first.id, fire.scheduled_for): fire}
    assert await store.overdue(limit=9) == []
    assert await store.waiting("did:x", limit=9) == []
    assert await store.agenda(owner="", until=now, limit=9) == []
    assert (await store.stats("did:x")).completed == 2
    assert [seen for _, seen in await store.events(EventQuery(alarm_id=first.id))] == [event]
    await store.maintenance.beat(
        Worker(id="w", host="h", pid=1, version="0", started_at=now, seen_at=now, targets=("t",))
    )
    assert [worker.targets for worker in await store.maintenance.workers()] == [("t",)]
    state = TargetState(target="t", paused_at=now, updated_at=now)
    await store.maintenance.set_target_state(state, event=Event(at=now, what="target paused"))
    assert await store.maintenance.target_states() == {"t": state}
    assert await store.maintenance.purge(now + timedelta(days=1)) == 6


MIGRATE = """
import asyncio, sys
from wakeful.store.postgres import PostgresStore
from wakeful.store.queries import Naming

async def main():
    store = PostgresStore(sys.argv[1], naming=Naming(schema=sys.argv[2]))
    print(*await store.migrate())
    await store.close()

asyncio.run(main())
"""


async def test_several_processes_may_migrate_at_once(world: World) -> None:
    async def migrate() -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", MIGRATE, world.dsn, world.schema), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert process.returncode == 0
        return said.decode().strip()

    said = await asyncio.gather(*(migrate() for _ in range(4)))
    assert sorted(" ".join(said).split()) == STEPS


async def test_migrations_at_the_same_moment_take_turns(world: World) -> None:
    stores = [world.store(pool_size=4) for _ in range(6)]
    await asyncio.gather(*(store.now() for store in stores))  # connected: they start together
    applied = await asyncio.gather(*(store.migrate() for store in stores))
    assert sorted(name for names in applied for name in names) == STEPS


async def ledger(world: World, table: str = "wakeful_migrations") -> list[tuple[str, str]]:
    """Which steps were applied. Which versions may open the tables is written there too: see test_newer_schema.py."""
    said = f"select service, version::text from {world.schema}.{table} where service not like 'wakeful-oldest%'"
    rows = await world.sql(f"{said} order by 1, 2")
    return [tuple(row) for row in rows]


async def test_two_prefixes_in_one_schema_do_not_see_each_other(world: World) -> None:
    one = world.store(naming=Naming(schema=world.schema, prefix="one_"))
    two = world.store(naming=Naming(schema=world.schema, prefix="two_"))
    assert await one.migrate() == await two.migrate() == STEPS
    await one.add([new_alarm()])
    assert (await one.stats()).total == 1
    assert (await two.stats()).total == 0
    assert await ledger(world, "one_wakeful_migrations") == [("wakeful:one_", version) for version in VERSIONS]


@pytest.mark.parametrize("kind", ["integer", "text"])
async def test_a_shared_ledger_is_used_where_there_is_one(world: World, kind: str) -> None:
    await world.sql(f"create schema {world.schema}")
    await world.sql(f"create table {world.schema}.migrations (service text, version {kind}, applied_at timestamptz)")
    await world.sql(f"insert into {world.schema}.migrations values ('gated', '7', now())")
    store = world.store()
    assert await store.migrate() == STEPS
    assert await store.migrate() == []
    assert await ledger(world, "migrations") == [("gated", "7"), *(("wakeful", version) for version in VERSIONS)]


@pytest.mark.parametrize("kind", ["integer", "text"])
async def test_a_shared_ledger_with_one_row_for_a_service_keeps_the_newest_step(world: World, kind: str) -> None:
    await world.sql(f"create schema {world.schema}")
    columns = f"service text primary key, version {kind}, applied_at text"
    await world.sql(f"create table {world.schema}.migrations ({columns})")
    await world.sql(f"insert into {world.schema}.migrations values ('gated', 4, 'x'), ('timed', 1, 'x')")
    store = world.store()
    assert await store.migrate() == STEPS
    assert await store.migrate() == []
    newest = max(VERSIONS, key=int)
    assert await ledger(world, "migrations") == [("gated", "4"), ("timed", "1"), ("wakeful", newest)]
    migrator, connection = Migrator(Naming(schema=world.schema)), await asyncpg.connect(world.dsn)
    try:
        await migrator.refuse_to_open(connection)
        await migrator.refuse_to_open(connection)
        assert await migrator.is_closed(connection)
        with pytest.raises(InvalidConfig, match="closed"):
            await store.migrate()
        await migrator.lift_refusal(connection)
        await migrator.lift_refusal(connection)
    finally:
        await connection.close()
    assert await store.migrate() == []
    assert await ledger(world, "migrations") == [("gated", "4"), ("timed", "1"), ("wakeful", newest)]


@pytest.mark.parametrize(
    "columns",
    [
        "service text, version integer primary key, applied_at text",
        "service text, version integer, applied_at text, unique (service, applied_at)",
        "service text, version smallint, applied_at text",
        "service text, version integer, applied_at bigint",
        "service varchar(4), version integer, applied_at text",
    ],
    ids=["version", "moment", "small", "number", "short"],
)
async def test_a_shared_ledger_that_cannot_take_our_lines_is_left_alone(world: World, columns: str) -> None:
    await world.sql(f"create schema {world.schema}")
    await world.sql(f"create table {world.schema}.migrations ({columns})")
    assert await world.store().migrate() == STEPS
    assert await world.store().migrate() == []
    assert await ledger(world, "migrations") == []
    assert await ledger(world) == [("wakeful", version) for version in VERSIONS]


async def test_a_shared_ledger_that_refuses_our_line_stops_us_and_nothing_is_left(world: World) -> None:
    await world.sql(f"create schema {world.schema}")
    columns = "service text, version integer, applied_at text, check (service <> 'wakeful' or version < 3)"
    await world.sql(f"create table {world.schema}.migrations ({columns})")
    with pytest.raises(InvalidConfig, match="does not take wakeful's lines"):
        await world.store().migrate()
    tables = await world.sql("select relname from pg_class where relnamespace = $1::regnamespace", world.schema)
    assert [row[0] for row in tables] == ["migrations"]
    assert await ledger(world, "migrations") == []


async def test_a_table_named_migrations_with_other_columns_is_left_alone(world: World) -> None:
    await world.sql(f"create schema {world.schema}")
    await world.sql(f"create table {world.schema}.migrations (id integer)")
    assert await world.store().migrate() == STEPS
    assert await ledger(world) == [("wakeful", version) for version in VERSIONS]


@pytest.mark.parametrize("table", ["alarms", "events"])
async def test_somebody_elses_table_of_our_name_stops_us_and_nothing_is_written(world: World, table: str) -> None:
    await world.sql(f"create schema {world.schema}")
    await world.sql(f"create table {world.schema}.{table} (id integer)")
    with pytest.raises(InvalidConfig, match="schema"):
        await world.store().migrate()
    tables = await world.sql("select relname from pg_class where relnamespace = $1::regnamespace", world.schema)
    assert [row[0] for row in tables] == [table]


async def test_a_newer_schema_is_refused(world: World, store: PostgresStore) -> None:
    await world.sql(f"insert into {world.schema}.wakeful_migrations values ('wakeful', 99, now())")
    await world.sql(f"insert into {world.schema}.wakeful_migrations values ('wakeful-oldest', 99, now())")
    with pytest.raises(InvalidConfig, match="or a later one"):
        await store.migrate()


async def test_a_role_that_may_not_create_schemas_can_use_one_that_is_there(own_world: World) -> None:
    role = f"{own_world.schema}_r"
    await own_world.sql(f"create role {role} login")
    await own_world.sql(f"create schema {role} authorization {role}")
    try:
        store = own_world.store(dsn=own_world.dsn_as(role), naming=Naming(schema=role))
        assert await store.migrate() == STEPS
        await store.close()
    finally:
        await own_world.sql(f"drop owned by {role}")
        await own_world.sql(f"drop role {role}")


async def test_a_server_that_does_not_sync_is_warned_about(
    store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    class Careless:
        async def fetchval(self, sql: str, setting: str) -> str:
            return "off" if setting == "fsync" else "on"

    await store.migrate()
    assert caplog.text == ""
    await Migrator(Naming())._warn_about_durability(Careless())  # type: ignore[arg-type]
    assert "fsync = off" in caplog.text
    assert "full_page_writes" not in caplog.text


async def test_a_database_that_has_tokens_is_closed_by_the_upgrade(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = migrations("postgres", Naming(schema=world.schema))[:4]
    monkeypatch.setattr("wakeful.store.postgres.migrate.migrations", lambda *_: older)
    await world.store().migrate()
    await world.sql(
        f"insert into {world.schema}.tokens (id, owner_did, hash, created_at, revoked_at)"
        " values ('a1', 'ada', '\\x00', now(), now())"
    )
    monkeypatch.undo()
    store = world.store()
    await store.migrate()
    assert await store.access.auth_state() == "closed"

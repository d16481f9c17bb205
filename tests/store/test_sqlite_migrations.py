"""Migrations in a file that may be somebody else's as well, and that several processes may start on at once."""

from __future__ import annotations

import ast
import asyncio
import sys
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from wakeful.errors import InvalidConfig, StoreUnavailable
from wakeful.store import Store
from wakeful.store.queries import CONTRACT, Naming, migrations
from wakeful.store.sqlite import SqliteStore
from wakeful.store.sqlite.schema import is_closed, lift_refusal, refuse_to_open
from wakeful.testing import ManualClock
from wakeful.testing.conformance.making import added, an_alarm, claimed

from .sqlite_file_tools import ask, migrated

STEPS = [step.name for step in migrations("sqlite", Naming())]
VERSIONS = [step.version for step in migrations("sqlite", Naming())]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "wakeful.db")


class TestMigrations:
    async def test_processes_that_start_at_once_apply_each_step_once(self, path: str) -> None:
        program = (
            "import asyncio, sys; from wakeful.store.sqlite import SqliteStore;"
            "store = SqliteStore(sys.argv[1]); print('ready', flush=True); sys.stdin.readline();"
            "print(asyncio.run(store.migrate()))"
        )
        pipe = asyncio.subprocess.PIPE
        processes = [
            await asyncio.create_subprocess_exec(sys.executable, "-c", program, path, stdin=pipe, stdout=pipe)
            for _ in range(4)
        ]
        for process in processes:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        answers = await asyncio.gather(*(process.communicate(b"\n") for process in processes))
        told = [answer.decode().strip() for answer, _ in answers]
        assert [process.returncode for process in processes] == [0, 0, 0, 0]
        assert sorted(name for names in told for name in ast.literal_eval(names)) == STEPS
        assert ask(path, "select count(*) from wakeful_migrations where service = 'wakeful'") == [(len(STEPS),)]

    async def test_a_shared_ledger_is_used_where_there_is_one(self, path: str, clock: ManualClock) -> None:
        ask(
            path,
            "create table migrations (service text not null, version integer not null, applied_at text not null,"
            " primary key (service, version)); insert into migrations values ('timed', 1, 'x'), ('timed', 99, 'x')",
        )
        await migrated(path, clock=clock)
        assert ask(path, "select * from migrations where service = 'wakeful'") == [
            ("wakeful", version, "2030-01-01T00:00:00Z") for version in VERSIONS
        ]
        assert ask(path, "select count(*) from sqlite_master where name like '%wakeful_migrations'") == [(0,)]
        assert await migrated(path) == []

    @pytest.mark.parametrize("version", ["integer", "text"])
    async def test_a_shared_ledger_with_one_row_for_a_service_keeps_the_newest_step(
        self, path: str, clock: ManualClock, version: str
    ) -> None:
        table = f"create table migrations (service text primary key, version {version}, applied_at text)"
        ask(path, f"{table}; insert into migrations values ('gated', 4, 'x'), ('timed', 1, 'x')")
        assert await migrated(path, clock=clock) == STEPS
        assert await migrated(path, clock=clock) == []
        rows = ask(path, "select service, cast(version as integer) from migrations order by service")
        assert rows == [("gated", 4), ("timed", 1), ("wakeful", VERSIONS[-1]), ("wakeful-oldest", CONTRACT)]
        assert ask(path, "select count(*) from sqlite_master where name like '%wakeful_migrations'") == [(0,)]

    async def test_a_database_with_one_row_for_a_service_is_closed_and_opened_again(
        self, path: str, clock: ManualClock
    ) -> None:
        ask(path, "create table migrations (service text primary key, version integer, applied_at text)")
        await migrated(path, clock=clock)
        db = apsw.Connection(path)
        refuse_to_open(db, Naming(), clock.now())
        refuse_to_open(db, Naming(), clock.now())
        assert is_closed(db, Naming())
        with pytest.raises(InvalidConfig, match="closed"):
            await migrated(path, clock=clock)
        lift_refusal(db, Naming())
        lift_refusal(db, Naming())
        db.close()
        assert await migrated(path, clock=clock) == []
        rows = ask(path, "select service, version from migrations order by service")
        assert rows == [("wakeful", VERSIONS[-1]), ("wakeful-oldest", CONTRACT)]

    @pytest.mark.parametrize(
        "table",
        [
            "create table migrations (service text, version integer primary key, applied_at text)",
            "create table migrations (service text, version integer, applied_at text, unique (service, applied_at))",
            "create table migrations (service text, version integer, applied_at text);"
            " create unique index one on migrations (service) where version > 3",
            "create table migrations (service text, version integer, applied_at text);"
            " create unique index one on migrations (lower(service), version)",
        ],
        ids=["version", "moment", "part", "expression"],
    )
    async def test_a_shared_ledger_whose_key_is_in_our_way_is_left_alone(self, path: str, table: str) -> None:
        ask(path, table)
        assert await migrated(path) == STEPS
        assert await migrated(path) == []
        assert ask(path, "select count(*) from migrations") == [(0,)]
        steps = ask(path, "select version from wakeful_migrations where service = 'wakeful' order by version")
        assert steps == [(version,) for version in VERSIONS]

    async def test_a_shared_ledger_that_refuses_our_line_stops_us_and_nothing_is_left(self, path: str) -> None:
        ask(
            path,
            "create table migrations (service text, version integer, applied_at text,"
            " check (service <> 'wakeful' or version < 3))",
        )
        before = ask(path, "select * from sqlite_master")
        with pytest.raises(InvalidConfig, match="does not take wakeful's lines"):
            await migrated(path)
        assert ask(path, "select * from sqlite_master") == before
        assert ask(path, "select count(*) from migrations") == [(0,)]

    async def test_a_ledger_of_another_shape_is_left_alone(self, path: str) -> None:
        ask(path, "create table migrations (version text primary key, applied_at text)")
        await migrated(path)
        assert ask(path, "select count(*) from migrations") == [(0,)]
        assert ask(path, "select service, version from wakeful_migrations order by service, version") == [
            *(("wakeful", version) for version in VERSIONS),
            ("wakeful-oldest", CONTRACT),
        ]

    async def test_our_own_ledger_counts_also_when_a_shared_one_comes_later(self, path: str) -> None:
        await migrated(path)
        ask(path, "create table migrations (service text, version integer, applied_at text)")
        assert await migrated(path) == []

    @pytest.mark.parametrize("table", ["alarms", "fires", "events"])
    async def test_somebody_elses_table_stops_us_before_we_write(self, path: str, table: str) -> None:
        ask(path, f"create table {table} (id integer primary key, what text)")
        before = ask(path, "select * from sqlite_master")
        with pytest.raises(InvalidConfig, match="prefix"):
            await migrated(path)
        assert ask(path, "select * from sqlite_master") == before

    async def test_with_a_prefix_we_live_beside_it(self, path: str, clock: ManualClock) -> None:
        ask(path, "create table alarms (id integer primary key)")
        stores = [SqliteStore(path, naming=Naming(prefix=prefix), clock=clock) for prefix in ("wk_", "other_")]
        for store in stores:
            assert await store.migrate() != []
            await added(store, an_alarm(clock))
            assert len(await claimed(store)) == 1
        for store in stores:
            assert await store.migrate() == []
            assert (await store.stats()).total == 1
            await store.close()
        services = ask(path, "select distinct service from wk_wakeful_migrations order by service")
        assert services == [("wakeful-oldest:wk_",), ("wakeful:wk_",)]

    async def test_tables_of_a_newer_wakeful_are_left_alone(self, path: str) -> None:
        await migrated(path)
        ask(path, "insert into wakeful_migrations values ('wakeful', 1000, 'later'), ('wakeful-oldest', 1000, 'later')")
        with pytest.raises(InvalidConfig, match="newer wakeful"):
            await migrated(path)

    async def test_a_step_that_fails_leaves_nothing_behind(self, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        steps = migrations("sqlite", Naming())
        broken = replace(steps[0], sql=steps[0].sql + "; create table x (y nonsense) strict;")
        monkeypatch.setattr("wakeful.store.sqlite.migrations", lambda *_: [broken])
        with pytest.raises(StoreUnavailable):
            await migrated(path)
        assert ask(path, "select * from sqlite_master") == []
        monkeypatch.undo()
        assert await migrated(path) == STEPS

    async def test_a_database_that_has_tokens_is_closed_by_the_upgrade(
        self, path: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        older = migrations("sqlite", Naming())[:4]
        monkeypatch.setattr("wakeful.store.sqlite.migrations", lambda *_: older)
        await migrated(path)
        ask(path, "insert into tokens (id, owner_did, hash, created_at, revoked_at) values ('a1', 'ada', x'00', 1, 2)")
        monkeypatch.undo()
        store: Store = SqliteStore(path, clock=clock)
        await store.migrate()
        assert await store.access.auth_state() == "closed"
        await store.close()

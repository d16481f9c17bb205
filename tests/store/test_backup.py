"""A backup of either store holds everything, restores into either, and fires nothing that was settled before it."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import apsw
import pytest
from msgspec.structs import replace

from wakeful.errors import Conflict, InvalidRequest, StaleVersion, StoreUnavailable, WakefulError
from wakeful.model.alarm import Attempt, Policy
from wakeful.process.application import build
from wakeful.rules.settle import begin
from wakeful.schedule.zone_rules import edition
from wakeful.settings import Settings
from wakeful.store import AlarmQuery, EventQuery, FireQuery
from wakeful.store.copying import LEFT_OUT, TABLES, Seen, copying_sql
from wakeful.store.queries import OURS, Naming, migrations
from wakeful.store.sqlite.schema import bring_up_to_date

from .copying_world import (
    LEASE,
    LONG_AGO,
    RAISED,
    Databases,
    a_series,
    a_worker,
    an_alarm,
    back_up,
    bring_back,
    content,
    end_of,
    files_in,
    fill,
    fired,
)
from .sqlite_file_tools import other_program

STORES = ["sqlite", "postgres"]
pairs = pytest.mark.parametrize(("source", "target"), [(one, other) for one in STORES for other in STORES])
each = pytest.mark.parametrize("kind", STORES)
HOUR = timedelta(hours=1)


@pytest.fixture
async def databases(tmp_path: Path, pg_dsn: str) -> AsyncIterator[Databases]:
    made = Databases(tmp_path, pg_dsn)
    yield made
    await made.drop()


@pairs
async def test_everything_comes_back_and_leases_are_over(
    databases: Databases, tmp_path: Path, source: str, target: str
) -> None:
    file = tmp_path / "backup.db"
    async with end_of(databases.new(source)) as end:
        alarms = await fill(end.store)
        before = await content(end.store)
        made = await back_up(end, file)
    assert (made.rows["alarms"], made.rows["fires"], made.rows["tokens"]) == (4, 1, 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [name for name in files_in(tmp_path) if name.startswith("backup")] == ["backup.db"]
    async with end_of(databases.new(target, "new"), migrated=False) as end:
        restored = await bring_back(file, end)
        assert await content(end.store, raised=RAISED) == before
        assert restored.rows["alarms"] == 4
        assert (restored.due, restored.since) == (1, 0)
        leased = await end.store.get(alarms["leased"].id)
        assert leased is not None
        assert (leased.claimed_at, leased.unsettled) == (None, 0)
        assert leased.claim > alarms["leased"].claim
        [claimed] = (await end.store.claim({"held": 9, "desk": 9}, lease=LEASE)).alarms
        assert claimed.fire_id == alarms["leased"].fire_id
        [told] = [one for _, one in await end.store.events(EventQuery(limit=1000)) if one.what == "restored"]
        assert told.by == "op"
        assert "1 alarms fell due since" not in told.reason
        assert "0 alarms fell due since: fire" in told.reason


@pytest.mark.parametrize("target", ["sqlite", "postgres"])
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_backup_without_an_edition_of_the_zone_data_gets_that_of_who_restores_it(
    databases: Databases, tmp_path: Path, target: str, is_there: bool
) -> None:
    file = tmp_path / "backup.db"
    async with end_of(databases.new("sqlite")) as end:
        await fill(end.store)
        await back_up(end, file)
    with closing(apsw.Connection(str(file))) as db:
        db.execute("delete from zone_rules")  # as it was before editions were kept
    async with end_of(databases.new(target, "new"), migrated=is_there) as end:
        await bring_back(file, end)
        [kept] = await end.store.maintenance.editions()
        assert (kept.version, kept.planned_at is None) == (edition(), False)


@each
async def test_numbers_of_events_go_on_after_those_that_were_restored(
    databases: Databases, tmp_path: Path, kind: str
) -> None:
    async with end_of(databases.new("sqlite")) as end:
        await fill(end.store)
        await back_up(end, tmp_path / "b.db")
        last = (await end.store.events(EventQuery(limit=1000)))[-1][0]
    async with end_of(databases.new(kind, "new")) as end:
        await bring_back(tmp_path / "b.db", end)
        assert [number for number, _ in await end.store.events(EventQuery(limit=1000))] == list(range(1, last + 2))


@each
async def test_a_worker_of_before_cannot_settle_what_was_restored(
    databases: Databases, tmp_path: Path, kind: str
) -> None:
    """It claimed after the backup, in the database that was given up, and comes back into the restored one."""
    async with end_of(databases.new(kind)) as end:
        await end.store.add([an_alarm(LONG_AGO)])
        await back_up(end, tmp_path / "b.db")
        [claimed] = (await end.store.claim({"desk": 1}, lease=LEASE)).alarms
        await bring_back(tmp_path / "b.db", end, replace=True)
        [taken] = (await end.store.claim({"desk": 1}, lease=LEASE)).alarms
        assert taken.fire_id == claimed.fire_id
        assert [answer.what for answer in await end.store.settle([fired(claimed)])] == ["lost"]
        assert [answer.what for answer in await end.store.settle([fired(taken)])] == ["applied"]


@each
async def test_what_was_read_before_a_restore_changes_nothing_after_it(
    databases: Databases, tmp_path: Path, kind: str
) -> None:
    """A version from the database that was given up (an ETag) is not one of the restored alarm, changed or not."""
    settings = databases.new(kind)
    async with build(settings) as alarms:
        alarm = await alarms.set("tomorrow at 9am", "as it was")
    async with end_of(settings) as end:
        await back_up(end, tmp_path / "b.db")
    async with build(settings) as alarms:
        changed = await alarms.update(alarm.id, wake_message="as it is")
    async with end_of(settings) as end:
        await bring_back(tmp_path / "b.db", end, replace=True)
    async with build(settings) as alarms:
        for version in (alarm.version, changed.alarm.version):
            with pytest.raises(StaleVersion):
                await alarms.update(alarm.id, wake_message="by somebody who read it before", version=version)
        restored = await alarms.get(alarm.id)
        assert restored.wake_message == "as it was"
        again = await alarms.update(alarm.id, wake_message="now", version=restored.version)
        assert again.alarm.version == restored.version + 1 < 10**9


@each
async def test_a_backup_under_writes_is_of_one_moment(databases: Databases, tmp_path: Path, kind: str) -> None:
    """Between any two steps of it another process sets an alarm and settles one."""
    settings, steps = databases.new(kind), 0

    def watch(total: int) -> Seen:
        def seen(count: int) -> None:
            nonlocal steps
            steps += 1
            beside = Thread(target=lambda: asyncio.run(_set_and_settle(settings)))
            beside.start()
            beside.join()

        return seen

    async with end_of(settings) as end:
        await end.store.add([an_alarm(LONG_AGO, payload_json=f'"{"x" * 6000}"') for _ in range(800)])
        await _set_and_settle(settings)
        made = await back_up(end, tmp_path / "b.db", watch=watch)
        now = await end.store.stats()
    assert steps > 2
    assert (now.total, now.completed) == (801 + steps, 1 + steps)
    async with end_of(Settings(db=str(tmp_path / "b.db"))) as end:
        alarms = await end.store.find(AlarmQuery(limit=100_000))
        assert len(alarms) == made.rows["alarms"] == 801
        done = [alarm.id for alarm in alarms if alarm.status == "fired"]
        assert done == [fire.alarm_id for fire in await end.store.fires(FireQuery(limit=100_000))]
        assert len(done) == 1


async def _set_and_settle(settings: Settings) -> None:
    async with end_of(settings) as end:
        await end.store.add([an_alarm(LONG_AGO)])
        [claimed] = (await end.store.claim({"desk": 1}, lease=LEASE)).alarms
        assert [answer.what for answer in await end.store.settle([fired(claimed)])] == ["applied"]


@pairs
async def test_what_is_due_by_now_is_passed_over_where_that_is_asked(
    databases: Databases, tmp_path: Path, source: str, target: str
) -> None:
    policy = Policy(catch_up="skip", grace=60.0)
    alarms = {
        "once": an_alarm(LONG_AGO),
        "series": a_series(LONG_AGO),
        "patient": a_series(LONG_AGO, policy=policy),
        "retried": an_alarm(LONG_AGO, failure_count=1, last_error="HTTP 500"),
        "later": an_alarm(datetime(2099, 1, 1, tzinfo=UTC)),
    }
    retried = alarms["retried"]
    change = fired(retried, status="retrying", log=(Attempt(LONG_AGO, 5, "HTTP 500"),), completed_at=None)
    async with end_of(databases.new(source)) as end:
        await end.store.add(list(alarms.values()))
        assert (await end.store.settle([replace(change, after=retried)]))[0].what == "applied"
        await back_up(end, tmp_path / "b.db")
    settings = databases.new(target, "new")
    async with end_of(settings) as end:
        restored = await bring_back(tmp_path / "b.db", end, missed="skip")
        assert (restored.due, restored.skipped) == (4, 4)
        after = {alarm.id: alarm for alarm in await end.store.find(AlarmQuery())}
        now = datetime.now(UTC)
        assert after[alarms["once"].id].status == "failed"
        assert after[alarms["once"].id].last_error.startswith("not delivered: missed")
        assert after[alarms["series"].id].status == "active"
        assert now - HOUR < after[alarms["series"].id].next_fire_at
        fires = {fire.alarm_id: fire for fire in await end.store.fires(FireQuery(limit=100))}
        assert (fires[alarms["series"].id].status, fires[alarms["series"].id].reason) == ("skipped", "missed")
        assert fires[alarms["series"].id].scheduled_for == LONG_AGO
        assert [line.said for line in fires[retried.id].log] == ["HTTP 500"]
        assert fires[retried.id].status == "skipped"
        due = (await end.store.claim({"desk": 9}, lease=LEASE)).alarms
        assert due == []
    async with end_of(settings) as end:  # and it can be opened again
        assert (await end.store.stats()).total == 5


async def test_what_is_due_fires_by_its_own_policy_under_its_id_unless_asked_otherwise(
    databases: Databases, tmp_path: Path
) -> None:
    once, patient = an_alarm(LONG_AGO), a_series(LONG_AGO, policy=Policy(catch_up="skip", grace=60.0))
    async with end_of(databases.new("sqlite")) as end:
        await end.store.add([once, patient])
        await back_up(end, tmp_path / "b.db")
    async with end_of(databases.new("sqlite", "new"), migrated=False) as end:
        restored = await bring_back(tmp_path / "b.db", end)
        assert (restored.due, restored.skipped) == (2, 0)
        claimed = {one.id: one for one in (await end.store.claim({"desk": 9}, lease=LEASE)).alarms}
        assert claimed[once.id].fire_id == once.fire_id
        assert begin(claimed[once.id], None, now=datetime.now(UTC)) is None
        assert begin(claimed[patient.id], None, now=datetime.now(UTC)) is not None


@each
async def test_a_database_in_use_is_not_restored_into(databases: Databases, tmp_path: Path, kind: str) -> None:
    async with end_of(databases.new("sqlite", "old")) as end:
        await fill(end.store)
        await back_up(end, tmp_path / "b.db")
    async with end_of(databases.new(kind)) as end:
        kept = an_alarm(LONG_AGO)
        await end.store.add([kept])
        with pytest.raises(Conflict, match=r"is not empty \(alarms: 1\)"):
            await bring_back(tmp_path / "b.db", end)
        await end.store.maintenance.beat(a_worker(seen_at=datetime.now(UTC)))
        with pytest.raises(Conflict, match=f"process {os.getpid()} on"):
            await bring_back(tmp_path / "b.db", end, replace=True)
        assert [one.id for one in await end.store.find(AlarmQuery())] == [kept.id]
        await end.store.maintenance.beat(
            a_worker(seen_at=datetime.now(UTC), pid=2**22 + 1)
        )  # dead, on this very machine
        await bring_back(tmp_path / "b.db", end, replace=True)
        assert await end.store.get(kept.id) is None
        assert (await end.store.stats()).total == 4
        assert await end.store.maintenance.workers() == []


@each
async def test_what_is_not_a_whole_backup_changes_nothing(databases: Databases, tmp_path: Path, kind: str) -> None:
    async with end_of(databases.new("sqlite", "old")) as end:
        await end.store.add([an_alarm(LONG_AGO, payload_json=f'"{"x" * 3000}"') for _ in range(50)])
        await back_up(end, tmp_path / "b.db")
    data = bytearray((tmp_path / "b.db").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 9000] = b"\xff" * 9000
    (tmp_path / "damaged.db").write_bytes(data)
    (tmp_path / "text.db").write_text("hello\n" * 500)
    with other_program(str(tmp_path / "other.db")) as db:
        db.execute("create table x (y)")
    async with end_of(databases.new(kind)) as end:
        kept = an_alarm(LONG_AGO)
        await end.store.add([kept])
        refusals: list[type[WakefulError]] = []
        for name in ("damaged", "text", "other", "missing"):
            with pytest.raises(WakefulError) as caught:
                await bring_back(tmp_path / f"{name}.db", end, replace=True)
            refusals.append(caught.type)
        assert refusals[1:] == [InvalidRequest] * 3
        assert issubclass(refusals[0], StoreUnavailable)
        assert [one.id for one in await end.store.find(AlarmQuery())] == [kept.id]


async def test_a_backup_that_fails_leaves_the_one_before(databases: Databases, tmp_path: Path) -> None:
    async with end_of(databases.new("sqlite")) as end:
        await end.store.add([an_alarm(LONG_AGO)])
        await back_up(end, tmp_path / "b.db")
        before = (tmp_path / "b.db").read_bytes()
        with other_program(str(tmp_path / "wakeful.db")) as db:
            db.execute("alter table tokens rename to gone")
        with pytest.raises(WakefulError):
            await back_up(end, tmp_path / "b.db")
    assert (tmp_path / "b.db").read_bytes() == before
    assert files_in(tmp_path) == ["b.db", "wakeful.db"]


async def test_a_file_that_is_not_there_becomes_the_whole_backup(databases: Databases, tmp_path: Path) -> None:
    """With the tables of the program that shares it; the log of the file that is gone is not read into it."""
    settings = databases.new("sqlite")
    async with end_of(settings) as end:
        await fill(end.store)
        with other_program(settings.db) as db:
            db.execute("create table messages (id text); insert into messages values ('m1')")
        await back_up(end, tmp_path / "b.db")
        await end.store.add([an_alarm(LONG_AGO)])
        shutil.copy(f"{settings.db}-wal", tmp_path / "wal")
    (tmp_path / "wakeful.db").unlink()
    shutil.move(tmp_path / "wal", f"{settings.db}-wal")
    async with end_of(settings, migrated=False) as end:
        await bring_back(tmp_path / "b.db", end)
    async with end_of(settings) as end:
        assert (await end.store.stats()).total == 4
        with other_program(settings.db) as db:
            assert db.execute("select id from messages").get == "m1"
            assert not db.table_exists(None, "wakeful_backup")
    assert files_in(tmp_path) == ["b.db", "wakeful.db"]


async def test_a_backup_of_an_older_version_gets_todays_tables(databases: Databases, tmp_path: Path) -> None:
    with other_program(str(tmp_path / "old.db")) as db:
        bring_up_to_date(db, Naming(), migrations("sqlite", Naming())[:4], LONG_AGO)
        db.execute(
            "insert into tokens (id, owner_did, hash, created_at) values ('t', 'ada', x'00', 0);"
            "insert into alarms (owner_did, user_id, kind, next_fire_at) values ('ada', 'ada', 'once', 1000)"
        )
    async with end_of(databases.new("postgres")) as end:
        restored = await bring_back(tmp_path / "old.db", end)
        assert (await end.store.stats()).total == 1
        assert await end.store.access.auth_state() == "closed"
        assert (restored.due, restored.since) == (1, 0)


async def test_tables_under_a_prefix_are_found_whatever_they_are_called_here(
    databases: Databases, tmp_path: Path
) -> None:
    async with end_of(databases.new("sqlite", prefix="w_")) as end:
        await fill(end.store)
        before = await content(end.store)
        await back_up(end, tmp_path / "b.db", prefix="w_")
    for number, prefix in enumerate(("", "w_", "z_")):
        async with end_of(databases.new("sqlite", f"n{number}", prefix=prefix), migrated=False) as end:
            await bring_back(tmp_path / "b.db", end, prefix=prefix)
            assert await content(end.store, raised=RAISED) == before


def test_every_table_of_ours_is_copied_or_left_out_for_a_reason() -> None:
    assert {table.name for table in TABLES} | set(LEFT_OUT) == set(OURS)


def test_both_dialects_name_the_same_statements_in_the_same_order() -> None:
    lite, postgres = (list(copying_sql(dialect, Naming())) for dialect in ("sqlite", "postgres"))
    # COPY writes rows there; a backup file is always SQLite's; and only a counter apart from its table needs telling.
    only_lite = {"put", "last_change", "describe_backup", "backup", "forget_backup"}
    assert [name for name in lite if name not in only_lite] == [name for name in postgres if name != "go_on_numbering"]

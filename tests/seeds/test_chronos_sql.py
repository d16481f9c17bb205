"""`alarms` written in SQL with the columns of Chronos's page and no others: the row is the timer, whoever wrote it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import apsw
import pytest
from msgspec.structs import replace

import wakeful
from tests.acting import acting
from tests.seeds.chronos_world import DID, USER
from tests.seeds.conftest import Gateway, clock, gateway
from wakeful.model.alarm import Alarm
from wakeful.moments import unix_ms
from wakeful.process.application import open_local
from wakeful.store.queries import Naming, migrations, queries
from wakeful.store.sqlite.schema import use_default_target
from wakeful.testing import store_of

__all__ = ["clock", "gateway"]

# What Chronos's CreateAlarm writes: the columns of the page, and none that wakeful added.
INSERT = (
    "insert into alarms (owner_did, user_id, label, kind, fire_at, cron_expr, timezone, next_fire_at, conversation_id,"
    " wake_message, payload, idempotency_key, max_failures) values ('{did}', '{user}', 'brief', '{kind}', {fire_at},"
    " '{cron}', 'UTC', {next}, 'conv', 'Summarise', '{{\"page\": 3}}', '{key}', 2)"
    " on conflict (owner_did, idempotency_key) where idempotency_key <> '' do nothing returning id"
)


@pytest.fixture
async def here(gateway: Gateway) -> Gateway:
    await gateway.start()
    return gateway


def moment(here: Gateway, at: datetime) -> str:
    """As the page's TIMESTAMPTZ; SQLite's table is strict, and its moments are whole milliseconds."""
    return f"'{at.isoformat()}'" if here.is_postgres else str(unix_ms(at))


async def insert(here: Gateway, at: datetime, *, cron: str = "", key: str = "") -> list[str]:
    when = moment(here, at)
    kind, fire_at = ("cron", "null") if cron else ("once", when)
    statement = INSERT.format(did=DID, user=USER, kind=kind, fire_at=fire_at, cron=cron, next=when, key=key)
    return [str(row[0]) for row in await here.sql(statement)]


async def read(here: Gateway, id: str) -> Alarm:
    return await acting(here.wakeful.service, DID).get(id)


async def test_a_row_in_sql_is_an_alarm_like_any_other(here: Gateway) -> None:
    at = here.clock.now() + timedelta(minutes=1)
    [id] = await insert(here, at, key="k")
    alarm = await read(here, id)
    assert (alarm.next_fire_at, alarm.occurrence_at, alarm.fire_at, alarm.target) == (at, at, at, "inbox")
    assert (alarm.claim, alarm.unsettled, alarm.version, alarm.policy) == (0, 0, 1, wakeful.Policy())
    assert (alarm.status, alarm.payload_json, alarm.max_failures) == ("active", '{"page": 3}', 2)
    assert UUID(id).version == 7
    assert alarm.created_at == alarm.updated_at
    assert alarm.created_at.microsecond % 1000 == 0
    assert await insert(here, at, key="k") == [], "the page's dedup"
    assert [found.id for found in await acting(here.wakeful.service, DID).find()] == [id]


async def test_a_row_that_names_no_target_goes_to_the_default_one(here: Gateway) -> None:
    store, at = store_of(here.wakeful), here.clock.now() + timedelta(minutes=1)
    [before] = await insert(here, at)
    for name, was in (("it's", "inbox"), ("router", "it's"), ("router", "router")):
        assert await store.maintenance.use_default_target(name) == was
        [id] = await insert(here, at)
        assert (await read(here, id)).target == name
    assert (await read(here, before)).target == "inbox", "what was there stays as it is"


def test_a_file_that_others_have_open_gets_another_default_target_and_stays_sound(tmp_path: Path) -> None:
    path = str(tmp_path / "wakeful.db")
    with wakeful.open_sync(path):
        pass
    ours, theirs = apsw.Connection(path), apsw.Connection(path)
    assert theirs.execute("select count(*) from alarms").get == 0
    statements = queries("sqlite", Naming())
    columns = theirs.execute("select json_group_array(name) from pragma_table_info('alarms')").get
    ours.execute("begin immediate")
    assert use_default_target(ours, statements, "router") == "inbox"
    ours.execute("commit")
    insert = "insert into alarms (owner_did, user_id, kind, next_fire_at) values ('o', 'o', 'once', 7) returning target"
    assert [db.execute(insert).get for db in (theirs, ours)] == ["router", "router"]
    assert theirs.execute("select json_group_array(name) from pragma_table_info('alarms')").get == columns
    assert ours.execute("pragma integrity_check").get == "ok"
    with pytest.raises(apsw.SQLError, match="may not be modified"):
        ours.execute("update sqlite_master set sql = ''")


async def test_it_fires_and_a_series_goes_on(here: Gateway) -> None:
    at = here.clock.now() + timedelta(minutes=1)
    [once], [daily], [often], [third] = (
        await insert(here, at),
        await insert(here, at, cron="@daily"),
        await insert(here, at, cron="@every 90s"),
        await insert(here, at, cron="RRULE:FREQ=DAILY;INTERVAL=3"),
    )
    await here.pass_time(60)
    fires = await acting(here.wakeful.service, DID).fires()
    assert {fire.id for fire in fires} == {f"{id}@{unix_ms(at)}" for id in (once, daily, often, third)}
    assert {fire.status for fire in fires} == {"waiting"}
    assert (await read(here, once)).status == "fired"
    assert (await read(here, daily)).next_fire_at.hour == 0
    assert (await read(here, often)).next_fire_at == at + timedelta(seconds=90)
    assert (await read(here, third)).next_fire_at == at + timedelta(days=3)


async def test_a_moment_between_two_milliseconds_fires_no_earlier(here: Gateway) -> None:
    if not here.is_postgres:
        with pytest.raises(apsw.ConstraintError, match="TEXT value in INTEGER"):
            await here.sql(
                INSERT.format(did=DID, user=USER, kind="once", fire_at="null", cron="", key="", next="'soon'")
            )
        return
    at = here.clock.now() + timedelta(seconds=60, microseconds=1)
    [id] = await insert(here, at)
    alarm = await read(here, id)
    assert alarm.next_fire_at == alarm.fire_at == alarm.occurrence_at == at + timedelta(microseconds=999)


async def test_what_wakeful_writes_is_left_as_it_is(here: Gateway) -> None:
    made = await here.wakeful.for_owner(DID).set("@every 90s", "x", policy={"jitter": "20s"})
    assert await read(here, made.id) == made
    assert made.next_fire_at != made.occurrence_at


def test_a_file_of_before_gets_the_defaults_and_keeps_its_rows_while_others_have_it_open(tmp_path: Path) -> None:
    path = str(tmp_path / "old.db")
    old = apsw.Connection(path)
    steps = migrations("sqlite", Naming(prefix="wk_"))
    for step in steps[:2]:
        old.execute(step.sql)
    columns = old.execute("select group_concat(name) from pragma_table_info('wk_alarms')").fetchone()
    names = "id, owner_did, user_id, kind, next_fire_at, created_at, updated_at, occurrence_at"
    old.execute(f"insert into wk_alarms ({names}) values ('a', 'o', 'o', 'once', 1, 1, 1, 1)")
    reader = apsw.Connection(path)
    assert reader.execute("select count(*) from wk_alarms").fetchone() == (1,)
    new = apsw.Connection(path)
    new.execute("begin immediate")
    new.execute(next(step.sql for step in steps if step.name.endswith("sql-defaults")))
    new.execute("commit")
    insert = "insert into wk_alarms (owner_did, user_id, kind, next_fire_at) values ('o', 'o', 'once', 7)"
    for db in (new, reader, old):  # those who had it open read the schema again
        db.execute(insert)
    assert new.execute("select occurrence_at from wk_alarms order by occurrence_at").fetchall() == [
        (1,),
        (7,),
        (7,),
        (7,),
    ]
    assert old.execute("select group_concat(name) from pragma_table_info('wk_alarms')").fetchone() == columns
    assert new.execute("pragma integrity_check").fetchall() == [("ok",)]
    with pytest.raises(apsw.SQLError, match="may not be modified"):  # the door in the schema is shut again
        new.execute("update sqlite_master set sql = ''")


@pytest.fixture
def worker(gateway: Gateway, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
        args = [sys.executable, "-m", "wakeful.cli", "worker", "--db", gateway.db]
        started.append(subprocess.Popen(args, cwd=tmp_path, env=environ, stderr=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


async def test_a_real_worker_fires_what_another_program_inserts(
    gateway: Gateway, worker: Callable[[], subprocess.Popen[bytes]]
) -> None:
    async with open_local(gateway.db) as alarms:
        process = worker()
        now = await store_of(alarms).now()
        ids = [(await insert(gateway, now + timedelta(milliseconds=each)))[0] for each in (-5, 1500)]
        while len(fires := await acting(alarms.service, DID).fires()) < 2:
            assert process.poll() is None
        assert {fire.alarm_id: fire.status for fire in fires} == dict.fromkeys(ids, "waiting")
        assert all(fire.updated_at >= fire.scheduled_for for fire in fires)


async def test_a_claim_writes_now_by_the_databases_clock_into_claimed_at_and_nothing_else(gateway: Gateway) -> None:
    async with open_local(gateway.db) as alarms:
        now = await store_of(alarms).now()
        [id] = await insert(gateway, now - timedelta(minutes=5))
        before = await store_of(alarms).get(id)
        assert before is not None
        earliest = await store_of(alarms).now()
        claimed = await store_of(alarms).claim({"inbox": 5}, lease=timedelta(minutes=2))
        latest = await store_of(alarms).now()
        [alarm] = claimed.alarms
        [(written,)] = await gateway.sql(f"select claimed_at from alarms where id = '{id}'")
        assert written == (claimed.now if gateway.is_postgres else unix_ms(claimed.now))
        assert earliest - timedelta(milliseconds=1) <= claimed.now <= latest + timedelta(milliseconds=1)
        leased = {"claimed_at": claimed.now, "claim": 1, "unsettled": 1}
        assert alarm == replace(before, **leased) == await store_of(alarms).get(id)

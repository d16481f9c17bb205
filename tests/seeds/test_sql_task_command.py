"""`wakeful db scheduled-tasks`: what it refuses to connect, what it says beforehand, and how to be rid of it again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests import commands
from wakeful.cli.tasks import _outcomes
from wakeful.errors import InvalidConfig
from wakeful.process.application import open_local
from wakeful.process.server import work
from wakeful.rules.task import Task
from wakeful.rules.wake import Wake
from wakeful.settings import Settings
from wakeful.store import EventQuery
from wakeful.testing import store_of

from .conftest import Gateway

COLUMNS = """owner text, chat_jid text, prompt text, cron text, next_run text, status text, created_at text"""


async def command(
    gateway: Gateway, *args: str, code: int = 0, environ: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_") and name != "TZ"}
    done = await asyncio.to_thread(
        commands.run, ["db", "scheduled-tasks", "--db", gateway.db, *args], env=kept | dict(environ)
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


async def everything(gateway: Gateway) -> list[tuple[Any, ...]]:
    """Every table and trigger of the database, and all rows of the two that are the gateway's."""
    what = "select name from sqlite_master order by name"
    if gateway.is_postgres:
        what = """select relname::text from pg_class where relnamespace = 'public'::regnamespace
            union all select tgname::text from pg_trigger order by 1"""
    rows = await gateway.sql("select * from scheduled_tasks order by id")
    return [*await gateway.sql(what), *rows, *await gateway.sql("select * from messages")]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            f"id text primary key, {COLUMNS}, shard integer not null",
            "the column shard of scheduled_tasks is NOT NULL",
        ),
        (f"id text primary key, {COLUMNS.replace('cron text', 'cron text not null')}", "the column cron of"),
        (f"id integer primary key, {COLUMNS}", "the column id of scheduled_tasks is of type"),
        (f"id {{bytes}} primary key, {COLUMNS}", "the column id of scheduled_tasks is of type"),
    ],
)
async def test_a_table_that_could_not_take_a_task_is_refused_with_the_column(
    gateway: Gateway, columns: str, said: str
) -> None:
    columns = columns.format(bytes="bytea" if gateway.is_postgres else "blob")
    await gateway.sql(f"create table scheduled_tasks ({columns})")
    before = await everything(gateway)
    with pytest.raises(InvalidConfig, match=said) as refused:
        await gateway.connect()
    assert refused.value.field == "table"
    assert refused.value.fix
    await gateway.start()
    assert await store_of(gateway.wakeful).tasks.table() == ""
    await gateway.stop()
    _, told = await command(gateway, "--dry-run", code=2)
    assert said in told
    assert set(before) <= set(await everything(gateway))


async def run(gateway: Gateway, statements: str) -> None:
    for statement in statements.split(";"):
        await gateway.sql(statement)


async def relations(gateway: Gateway) -> list[tuple[Any, ...]]:
    """Everything in the gateway's schema, by name."""
    if gateway.is_postgres:
        return await gateway.sql("select relname::text from pg_class where relnamespace = 'public'::regnamespace")
    return await gateway.sql("select type, name, sql from sqlite_master order by name")


async def test_a_gateway_whose_migrations_are_keyed_by_service_is_connected_and_served(gateway: Gateway) -> None:
    await gateway.sql("create table migrations (service text primary key, version integer, applied_at text)")
    await gateway.sql("insert into migrations values ('gated', 4, 'x'), ('timed', 1, 'x')")
    before = await relations(gateway)
    _, said = await command(gateway, "--dry-run")
    assert "scheduled_tasks would be made" in said
    assert sorted(await relations(gateway)) == sorted(before)
    await command(gateway)
    await command(gateway)
    assert await gateway.sql("select service, count(*) from migrations group by service order by service") == [
        ("gated", 1),
        ("timed", 1),
        ("wakeful", 1),
        ("wakeful-oldest", 1),
    ]
    await gateway.start()
    await gateway.add("t1", next_run=gateway.at(1))
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do t1"]


MESSAGES_THAT_TAKE_NONE = [
    (
        "id {number} primary key, chat_jid text, sender text, content text, timestamp text",
        "column id of messages is of type",
    ),
    (
        "id text primary key, chat_jid text, sender text, content text, timestamp text, verb text not null,"
        " parts integer not null, at timestamp not null",
        "columns verb, parts, at of messages are NOT NULL",
    ),
    ("id text primary key, chat_jid text, sender text, content text, timestamp {number}", "column timestamp of"),
]


@pytest.mark.parametrize(("columns", "said"), MESSAGES_THAT_TAKE_NONE, ids=["number", "needed", "moment"])
async def test_messages_that_could_take_no_row_are_refused_with_a_fix_that_works(
    gateway: Gateway, tmp_path: Path, columns: str, said: str
) -> None:
    number = "bigint generated by default as identity" if gateway.is_postgres else "integer"
    number = "bigint" if gateway.is_postgres and said.startswith("column timestamp") else number
    await run(gateway, f"drop table messages; create table messages ({columns.format(number=number)})")
    before = await relations(gateway)
    _, beforehand = await command(gateway, "--dry-run", code=2)
    _, told = await command(gateway, code=2)
    assert beforehand == told
    assert said in told
    assert sorted(await relations(gateway)) == sorted(before)
    assert await gateway.sql("select * from messages") == []
    # As it is printed.
    for statements in re.findall("`(.*)`", told):
        await run(gateway, statements)
    config = tmp_path / "wakeful.toml"
    config.write_text(told[told.index("targets.messages = ") :])
    await command(gateway, environ={"WAKEFUL_CONFIG": str(config)})
    await gateway.start(targets=tomllib.loads(config.read_text())["targets"])
    await gateway.add("t1", next_run=gateway.at(1))
    await gateway.add("t2", next_run=gateway.at(2))
    await gateway.pass_time(1)
    await gateway.pass_time(1)
    rows = await gateway.sql("select chat_jid, sender, content from messages")
    assert sorted(rows) == [("1@g.us", "scheduler", "do t1"), ("1@g.us", "scheduler", "do t2")]


async def test_a_unique_index_beside_an_integer_key_does_not_hide_that_no_text_fits(gateway: Gateway) -> None:
    number = "bigint" if gateway.is_postgres else "integer"
    await run(
        gateway,
        f"drop table messages; create table messages (id {number} primary key,"
        " chat_jid text, sender text, content text, timestamp text)",
    )
    await gateway.sql("create unique index mi on messages (id)")
    _, told = await command(gateway, "--dry-run", code=2)
    assert "column id of messages is of type" in told


async def test_what_a_value_alone_is_refused_for_stops_no_connection(gateway: Gateway) -> None:
    """A check, a reference or a trigger may refuse one message and take the next: that is told when it happens."""
    await run(
        gateway,
        "drop table messages; create table messages (id text primary key,"
        " chat_jid text check (chat_jid like '%@g.us'), sender text, content text, timestamp text)",
    )
    await command(gateway, "--dry-run")
    await command(gateway)
    assert await gateway.sql("select * from messages") == []


@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
async def test_a_dry_run_leaves_the_file_as_it_is_to_the_byte(gateway: Gateway) -> None:
    """Also its journal mode, which wakeful changes when it is connected."""
    file = await asyncio.to_thread(Path(gateway.db).read_bytes)
    await command(gateway, "--dry-run")
    assert await asyncio.to_thread(Path(gateway.db).read_bytes) == file


@pytest.mark.parametrize("gateway", ["postgres"], indirect=True)
@pytest.mark.parametrize(("type", "fits"), [("varchar(20)", False), ("varchar(27)", True), ("uuid", False)])
async def test_on_postgres_an_id_must_have_room_for_the_tools_ids(gateway: Gateway, type: str, fits: bool) -> None:
    await gateway.sql(f"create table scheduled_tasks (id {type} primary key, {COLUMNS})")
    if fits:
        await gateway.connect()
        return
    with pytest.raises(InvalidConfig, match="id of scheduled_tasks"):
        await gateway.connect()


async def test_columns_with_a_default_of_their_own_are_nobodys_business(gateway: Gateway) -> None:
    await gateway.sql(f"""create table scheduled_tasks (id text primary key, {COLUMNS},
        shard integer not null default 1,
        context_mode text not null)""")
    assert await gateway.connect() is False


async def test_a_dry_run_says_what_would_happen_and_writes_nothing(gateway: Gateway) -> None:
    await gateway.sql(f"create table scheduled_tasks (id text primary key, {COLUMNS})")
    await gateway.add("a-due", next_run="2020-01-01T00:00:00Z", created_at="1")
    await gateway.add("b-later", next_run="2130-01-01T08:00:00+01:00", created_at="2")
    await gateway.add("c-paused", next_run="2130-01-01T00:00:00Z", status="paused", created_at="3")
    await gateway.add("d-done", status="completed", created_at="4")
    await gateway.add("e-wrong", cron="61 * * * *", created_at="5")
    before = await everything(gateway)
    lines, said = await command(gateway, "--dry-run")
    assert (
        "nothing was written: scheduled_tasks would be taken over with its 5 rows; tasks would go to messages" in said
    )
    told = json.loads((await command(gateway, "--dry-run", "--json"))[0])
    assert await everything(gateway) == before
    assert [line.split("\t")[:3] for line in reversed(lines.splitlines())] == [
        ["a-due", "fire", "2020-01-01T00:00:00Z"],
        ["b-later", "fire", "2130-01-01T07:00:00Z"],
        ["c-paused", "wait", "2130-01-01T00:00:00Z"],
        ["d-done", "be left alone", ""],
        ["e-wrong", "be refused", ""],
    ]
    assert "e-wrong\tbe refused\t\tcron: minute: 61 is out of range" in lines
    assert told["made"] is False
    assert [task["would"] for task in told["tasks"]] == ["be refused", "be left alone", "wait", "fire", "fire"]


def test_a_dry_run_knows_who_may_write_to_whom() -> None:
    settings = Settings(chats={"ada": ["ada@*"]})
    tasks = [
        Task(id=chat, owner="ada", chat_jid=chat, prompt="hi", cron="0 9 * * *", status="active")
        for chat in ("ada@home", "eve@home")
    ]
    outcomes = _outcomes(tasks, settings, datetime(2030, 1, 1, tzinfo=UTC))
    assert [(one["id"], one["would"]) for one in outcomes] == [("ada@home", "fire"), ("eve@home", "be refused")]


async def test_a_dry_run_where_there_is_no_table_makes_none(gateway: Gateway) -> None:
    _, said = await command(gateway, "--dry-run")
    assert "scheduled_tasks would be made" in said
    if gateway.is_postgres:
        assert await gateway.sql("select to_regclass('scheduled_tasks')::text") == [(None,)]
    else:
        assert await gateway.sql("select name from sqlite_master where type = 'table'") == [("messages",)]


async def test_a_disconnected_table_keeps_its_rows_and_nothing_fires(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(10))
    await gateway.add("t2", cron="0 * * * *")
    await gateway.pass_time()
    await gateway.add("t3", next_run=gateway.at(5))  # queued, and not planned yet
    rows = await gateway.sql("select * from scheduled_tasks order by id")
    stdout, _ = await command(gateway, "--disconnect")
    assert stdout == "disconnected\tscheduled_tasks\ncancelled\t2 alarms\n"
    await gateway.pass_time(7200)
    await gateway.add("t4", next_run=gateway.at(-1))
    await gateway.pass_time(10)
    assert await gateway.messages() == []
    assert await gateway.sql("select * from scheduled_tasks where id < 't4' order by id") == rows
    assert {alarm.status for alarm in await gateway.alarms()} == {"cancelled"}
    reasons = {event.reason for _, event in await store_of(gateway.wakeful).events(EventQuery(limit=1000))}
    assert reasons == {"table scheduled_tasks disconnected"}
    for table in ("task_tables", "task_changes", "task_links"):
        assert await gateway.sql(f"select count(*) from {table}") == [(0,)]
    stdout, _ = await command(gateway, "--disconnect")
    assert stdout == "disconnected\tnothing: no table was connected\ncancelled\t0 alarms\n"
    await gateway.connect()  # and back again
    await gateway.pass_time(1)
    assert sorted(await gateway.messages()) == ["do t1", "do t2", "do t3", "do t4"]


async def test_the_two_options_do_not_go_together(gateway: Gateway) -> None:
    _, said = await command(gateway, "--disconnect", "--dry-run", code=2)
    assert "disconnect" in said


@pytest.mark.parametrize(
    ("environ", "warns"),
    [
        ({"TZ": "Europe/Prague"}, True),
        ({"TZ": "Europe/Prague", "WAKEFUL_TIMEZONE": "Europe/Prague"}, False),
        ({"TZ": "Europe/Prague", "WAKEFUL_TIMEZONE": "UTC"}, False),
        ({"TZ": ":UTC"}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
async def test_a_zone_that_only_timed_would_have_read_is_told_of(
    gateway: Gateway, environ: dict[str, str], warns: bool
) -> None:
    _, said = await command(gateway, "--dry-run", environ=environ)
    told = "TZ is Europe/Prague, but the setting timezone is not set: cron is read in UTC. Set WAKEFUL_TIMEZONE="
    assert (told in said) is warns


async def test_a_worker_beside_a_table_that_nobody_watches_says_so(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    await gateway.sql(f"create table scheduled_tasks (id text primary key, {COLUMNS})")
    assert await started(gateway, caplog) == [
        "the table scheduled_tasks of this database is not connected: its tasks do not run. "
        "To connect it: `wakeful db scheduled-tasks`"
    ]
    await gateway.connect()
    assert await started(gateway, caplog) == []


async def test_a_table_of_that_name_that_holds_something_else_is_left_unsaid(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    assert await started(gateway, caplog) == []
    await gateway.sql("create table scheduled_tasks (id text primary key, colour text)")
    assert await started(gateway, caplog) == []


async def started(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> list[str]:
    """A worker from its start to its end, and what it said of tasks."""
    caplog.clear()
    async with open_local(gateway.db) as alarms:
        await work(alarms, ready=alarms.dispatcher.stop)
    return [record.message for record in caplog.records if "scheduled_tasks" in record.message]


async def test_a_handler_that_a_program_serves_may_take_the_tasks(gateway: Gateway) -> None:
    async with open_local(gateway.db, clock=gateway.clock, tasks_target="desk") as alarms:
        heard: list[str] = []

        @alarms.handler("desk")
        async def desk(wake: Wake) -> None:
            heard.append(wake.message)

        _, said = await command(gateway, code=2, environ={"WAKEFUL_TASKS_TARGET": "desk"})
        assert "tasks_target" in said
        await alarms.dispatcher._upkeep.beat(now=gateway.clock.now())
        await command(gateway, environ={"WAKEFUL_TASKS_TARGET": "desk"})
        await gateway.add("t1", next_run=gateway.at(0))
        await alarms.run_due()
        assert heard == ["do t1"]

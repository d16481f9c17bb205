"""The page for those who come from timed: what it says beyond timed's own page is true as well."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from datetime import timedelta
from pathlib import Path

import apsw
import asyncpg
import pytest

from wakeful.errors import InvalidConfig
from wakeful.process.application import open_local
from wakeful.testing import store_of

from .conftest import MESSAGES, Gateway

PAGE = (Path(__file__).parents[2] / "docs" / "seeds" / "timed.md").read_text()
HOUR = 3600


DAY = 24 * HOUR
WEEK = {  # the expressions of timed's page, and one with seconds: when each runs in a week that begins on a Tuesday
    "0 9 * * 1-5": [day * DAY + 9 * HOUR for day in (0, 1, 2, 3, 6)],
    "0 0 * * *": [day * DAY for day in range(1, 8)],
    "*/30 * * * *": [half * HOUR // 2 for half in range(1, 7 * 48 + 1)],
    "15 0 9 * * 6": [4 * DAY + 9 * HOUR + 15],
}


@pytest.mark.parametrize("cron", WEEK)
async def test_an_expression_runs_when_timed_s_page_says(gateway: Gateway, cron: str) -> None:
    await gateway.connect()
    await gateway.add("t", cron=cron)
    await gateway.pass_time()
    begin, ran = gateway.clock.now(), []
    assert begin.strftime("%a %H:%M:%S") == "Tue 00:00:00"
    while (next_run := (await gateway.task("t"))[1]) is not None and next_run <= begin + timedelta(weeks=1):
        await gateway.pass_time((next_run - gateway.clock.now()).total_seconds())
        ran.append((next_run - begin).total_seconds())
    assert ran == WEEK[cron]
    assert await gateway.messages() == ["do t"] * len(ran)


async def test_the_target_on_the_page_gives_messages_other_senders_and_columns(gateway: Gateway) -> None:
    [block] = [one for one in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "verb" in one]
    await gateway.sql("alter table messages add column verb text not null default ''")
    await gateway.connect()
    await gateway.add("a", next_run=gateway.at(1))
    await gateway.add("b", next_run=gateway.at(2), context_mode="isolated")
    async with open_local(gateway.db, clock=gateway.clock, **tomllib.loads(block)) as alarms:
        await gateway.clock.advance(2)
        await alarms.run_due()
    assert sorted(await gateway.sql("select sender, content, verb from messages")) == [
        ("timed", "do a", "message"),
        ("timed-isolated:b", "do b", "message"),
    ]


async def test_a_foreign_table_of_our_name_needs_a_prefix_and_then_all_works(gateway: Gateway) -> None:
    await gateway.sql("create table alarms (mine text)")
    with pytest.raises(InvalidConfig, match="alarms"):
        await gateway.connect()
    async with open_local(gateway.db, clock=gateway.clock, prefix="wk_") as alarms:
        await store_of(alarms).tasks.connect("scheduled_tasks")
    async with open_local(gateway.db, clock=gateway.clock, prefix="wk_") as alarms:
        await gateway.add("t", cron="0 * * * *")
        await alarms.run_due()
        await gateway.clock.advance(HOUR)
        await alarms.run_due()
    assert await gateway.messages() == ["do t"]
    assert await gateway.sql("select count(*) from alarms") == [(0,)]


@pytest.mark.parametrize(
    "spelling", ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00"]
)
async def test_next_run_is_the_moment_of_the_run_however_a_datetime_is_spelled(gateway: Gateway, spelling: str) -> None:
    await gateway.connect()
    due = gateway.clock.now() + timedelta(minutes=1)
    await gateway.add("t", next_run=due.strftime(spelling))
    await gateway.add("after", cron="*/5 * * * *", next_run=due.strftime(spelling))
    await gateway.pass_time(59.999)
    assert await gateway.messages() == []
    assert [(await gateway.alarms(task))[0].next_fire_at for task in ("t", "after")] == [due, due]
    await gateway.pass_time(0.001)
    assert sorted(await gateway.messages()) == ["do after", "do t"]
    assert await gateway.task("t") == ("done", None)
    assert await gateway.task("after") == ("active", due + timedelta(minutes=4))


async def test_a_snoozed_alarm_s_row_shows_the_new_time(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t", next_run=gateway.at(60), owner="local")
    await gateway.pass_time()
    [alarm] = await gateway.alarms("t")
    await gateway.wakeful.snooze(alarm.id, HOUR)
    status, next_run = await gateway.task("t")
    assert (status, next_run) == ("active", (await gateway.wakeful.get(alarm.id)).next_fire_at)
    await gateway.pass_time(HOUR)
    assert await gateway.messages() == ["do t"]
    assert await gateway.task("t") == ("done", None)


async def test_a_skipped_run_s_row_shows_the_one_after_it(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t", cron="0 9 * * *", next_run=None, owner="local")
    await gateway.pass_time()
    [alarm] = await gateway.alarms("t")
    await gateway.wakeful.skip(alarm.id, at=alarm.next_fire_at)
    assert await gateway.task("t") == ("active", alarm.next_fire_at + timedelta(days=1))
    await gateway.pass_time(24 * HOUR)
    assert await gateway.messages() == []
    await gateway.pass_time(24 * HOUR)
    assert await gateway.messages() == ["do t"]


async def test_a_message_that_is_refused_for_good_ends_in_error(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.sql("create unique index one_chat on messages (chat_jid)")
    await gateway.sql("insert into messages values ('m', '1@g.us', 'ana', 'first', '2020-01-01T00:00:00Z')")
    await gateway.add("t", next_run=gateway.at(1))
    for _ in range(6):
        assert (await gateway.task("t"))[0] == "active"
        await gateway.pass_time(20 * 60)
    assert await gateway.messages() == ["first"]
    assert await gateway.task("t") == ("error", None)
    [alarm] = await gateway.alarms("t")
    assert "messages" in alarm.last_error
    await gateway.sql("drop index one_chat")
    await gateway.sql(f"update scheduled_tasks set status = 'active', next_run = '{gateway.at(1)}'")
    await gateway.pass_time(1)
    assert await gateway.messages() == ["first", "do t"]


def test_the_command_says_which_tasks_do_not_run(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    db = apsw.Connection(str(tmp_path / "messages.db"))
    db.execute(MESSAGES).fetchall()
    command = [sys.executable, "-m", "wakeful.cli", "db", "scheduled-tasks", "--db", "messages.db"]

    def connect() -> str:
        return subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=True).stdout

    assert "made\tyes" in connect()
    db.execute(
        "insert into scheduled_tasks (id, prompt, cron) values ('main-mem-0', 'x', '61 * * * *'), ('tea', 'x', null)"
    )
    worker = [sys.executable, "-m", "wakeful.cli", "worker", "--db", "messages.db"]
    with subprocess.Popen(worker, cwd=tmp_path, env=kept, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        while said.count("does not run") < 2:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.terminate()
    assert "WARNING wakeful.dispatcher: task main-mem-0 does not run: cron: " in said
    [shown] = re.findall(r"^in error  (.*)$", PAGE, re.MULTILINE)
    assert f"in error\t{shown}\n" in connect()


ON_POSTGRES = pytest.mark.parametrize("gateway", ["postgres"], indirect=True)


@ON_POSTGRES
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "text"])
async def test_on_postgres_moments_may_be_of_any_of_these_types(gateway: Gateway, kind: str) -> None:
    await gateway.sql(f"""
        create table scheduled_tasks (id text primary key, owner text, chat_jid text, prompt text, cron text,
            next_run {kind}, status text, created_at {kind})""")
    await gateway.connect()
    await gateway.add("t", next_run=gateway.at(10), cron="0 * * * *", created_at=gateway.at(0))
    await gateway.pass_time(9)
    assert await gateway.messages() == []
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do t"]
    await gateway.pass_time(HOUR - 10)
    assert await gateway.messages() == ["do t"] * 2


@ON_POSTGRES
async def test_on_postgres_another_role_needs_the_right_to_note_its_changes(gateway: Gateway) -> None:
    await gateway.connect()
    connection = await asyncpg.connect(gateway.db)
    role = f"r_{await connection.fetchval('select current_database()')}"
    insert = "insert into scheduled_tasks (id, chat_jid, prompt, cron) values ('t', '1@g.us', 'hello', '0 * * * *')"
    try:
        await connection.execute(f"create role {role}; grant all on scheduled_tasks to {role}; set role {role}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="task_changes"):
            await connection.execute(insert)
        await connection.execute(f"reset role; grant insert on task_changes to {role}; set role {role}")
        await connection.execute(insert)
        await gateway.pass_time()
        assert len(await gateway.alarms("t")) == 1
        await connection.execute("delete from scheduled_tasks")
        await connection.execute(f"reset role; grant select on task_links to {role}; set role {role}")
        await connection.execute(insert)
        await connection.execute("truncate scheduled_tasks")
        await gateway.pass_time(HOUR)
        assert await gateway.messages() == []
    finally:
        await connection.execute(f"reset role; drop owned by {role}; drop role {role}")
        await connection.close()

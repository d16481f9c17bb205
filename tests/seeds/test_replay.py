"""What the gateway's programs really send, against the SQL door: their tables and statements, Go's times and words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

import apsw
import pytest

from .conftest import Gateway
from .replay_world import (
    ADVANCE,
    BY_NEXT_RUN,
    DELETE,
    DUE,
    LIST,
    LOG,
    LOGS,
    PICK_UP,
    RUN_LOGS,
    STATUS,
    STORE,
    STRANDED,
    TAKE,
    TASKS_V1,
    TASKS_V2,
    Program,
    nanoseconds,
)

HOUR = 3600


@pytest.fixture
async def program(gateway: Gateway) -> AsyncIterator[Program]:
    """A gateway that ran for a while without wakeful."""
    program = Program(gateway)
    await program.make_tables()
    yield program
    program.close()


async def own_objects(gateway: Gateway) -> list[tuple[str, ...]]:
    """Tables, indexes and keys of the gateway, as the database describes them."""
    names = "('messages', 'scheduled_tasks', 'task_run_logs', 'migrations')"
    if not gateway.is_postgres:
        found = await gateway.sql(
            f"select name, sql from sqlite_master where tbl_name in {names} and type <> 'trigger' order by name"
        )
        return [tuple(row) for row in found]
    columns = f"select table_name, column_name, data_type from information_schema.columns where table_name in {names}"
    keys = "select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint"
    indexes = f"select tablename::text, indexname::text, indexdef from pg_indexes where tablename in {names}"
    rows = [row for query in (columns, keys, indexes) for row in await gateway.sql(query)]
    return sorted(row for row in rows if row[0] in names)


async def test_its_own_tables_are_taken_over_and_stay_as_they_are(gateway: Gateway, program: Program) -> None:
    before = await own_objects(gateway)
    assert len(before) > 6
    assert await gateway.connect() is False
    assert await own_objects(gateway) == before
    for statement in (TASKS_V1, BY_NEXT_RUN, RUN_LOGS):  # each program makes them again when it starts
        await program(statement)
    assert await own_objects(gateway) == before


async def test_the_shared_ledger_keeps_its_lines_and_gets_ours(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    lines = await program("select service, version from migrations order by service, version")
    assert lines.pop()[0] == "wakeful-oldest"
    assert lines[:3] == [("store", 1), ("timed", 1), ("timed", 2)]
    assert [service for service, _ in lines[3:]] == ["wakeful"] * (len(lines) - 3)
    assert [version for _, version in lines[3:]] == list(range(1, len(lines) - 2))
    for (applied_at,) in await program("select applied_at from migrations"):
        assert datetime.fromisoformat(applied_at).tzinfo is not None
    assert len(lines) > 3


async def test_a_table_of_the_first_version_works_and_grows_while_it_is_connected(gateway: Gateway) -> None:
    program = Program(gateway)
    await program(TASKS_V1)
    await gateway.connect()
    start = ("old", "main", "1@g.us", "do old", None, program.go(5), "active", program.go(0))
    await program("insert into scheduled_tasks values (?, ?, ?, ?, ?, ?, ?, ?)", *start)
    await gateway.pass_time(5)
    assert await gateway.sql("select sender, content from messages") == [("scheduler", "do old")]
    await program(TASKS_V2)
    gateway.sql_tasks._checked_at = None  # ten seconds later
    await program.schedule("new", None, program.go(5), mode="isolated")
    await gateway.pass_time(5)
    assert (await gateway.sql("select sender from messages order by timestamp"))[1] == ("scheduler-isolated:new",)
    program.close()


@pytest.mark.parametrize("offset", [0, 2, -5.5, 13.75])
async def test_a_moment_with_any_offset_is_that_moment(gateway: Gateway, program: Program, offset: float) -> None:
    await gateway.connect()
    await program.schedule("t", None, program.go(60, offset), created=program.go(0, offset))
    await gateway.pass_time(59)
    assert await program.task("t") == ("active", program.go(1, offset))  # our reading of it leaves its spelling alone
    assert await gateway.messages() == []
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do t"]
    assert await program.task("t") == ("done", None)


async def test_what_we_write_back_the_gateway_compares_as_text(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    await program.schedule("main/sub-mem-0", "*/30 * * * *", program.go(1, 2), owner="main/sub")
    await program.schedule("main-mem-1", "90000", program.go(1, -3))
    await gateway.pass_time(1)
    assert await program.task("main/sub-mem-0") == ("active", program.go(1799))
    assert await program.task("main-mem-1") == ("active", program.go(90))
    assert await program(DUE, program.go(89)) == []
    assert await program(DUE, program.go(90)) == [("main-mem-1", "1@g.us", "do main-mem-1", "90000")]
    await gateway.pass_time(90)
    assert sorted(await gateway.messages()) == ["do main-mem-1"] * 2 + ["do main/sub-mem-0"]


async def test_the_tools_of_the_gateway_pause_resume_and_cancel(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    for number, id in enumerate(("task-1-aaaaaaaa", "task-2-bbbbbbbb")):
        await program.schedule(id, "0 * * * *", program.go(HOUR), created=program.go(number))
    assert await program(LIST, "main") == [("task-2-bbbbbbbb",), ("task-1-aaaaaaaa",)]
    await gateway.pass_time()
    await program(STATUS, "paused", "task-1-aaaaaaaa")
    await program(DELETE, "task-2-bbbbbbbb")
    await gateway.pass_time(3 * HOUR)
    assert await gateway.messages() == []
    await program(STATUS, "active", "task-1-aaaaaaaa")
    await gateway.pass_time()
    assert await gateway.messages() == ["do task-1-aaaaaaaa"]  # one, however many it missed
    assert await program.task("task-1-aaaaaaaa") == ("active", program.go(HOUR))


async def test_a_scheduler_that_still_takes_tasks_itself_is_not_doubled(gateway: Gateway, program: Program) -> None:
    """`firing` and `completed` are the words of the older scheduler: whatever it takes is its own."""
    await gateway.connect()
    await program.schedule("once", None, program.go(5))
    await program.schedule("often", "0 * * * *", program.go(5))
    await gateway.pass_time()
    await gateway.clock.advance(5)
    await program(TAKE, program.go(0))
    assert sorted(await program("select id from scheduled_tasks where status = 'firing'")) == [("often",), ("once",)]
    await gateway.pass_time(1)
    assert await gateway.messages() == []
    await program(ADVANCE, None, "completed", "once")
    await program(ADVANCE, program.go(HOUR), "active", "often")
    await gateway.pass_time(HOUR - 1)
    assert await gateway.messages() == []
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do often"]
    assert await program.task("once") == ("completed", None)


async def test_what_it_left_stranded_runs_once(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    await program.schedule("t", "0 * * * *", program.go(-2 * HOUR), status="firing")
    await gateway.pass_time(60)
    assert await gateway.messages() == []
    await program(STRANDED)
    await gateway.pass_time()
    assert await gateway.messages() == ["do t"]
    assert await program.task("t") == ("active", program.go(HOUR - 60))


async def test_run_logs_stay_with_their_task_and_go_with_it(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    for id in ("kept", "gone"):
        await program.schedule(id, "0 * * * *", program.go(1))
        await program(LOG, id, program.go(0), 12, "success", None)
        await program(LOG, id, program.go(0), 7, "error", "no such group")
    await gateway.pass_time(1)
    assert await program(LOGS, "gone") == [("error", "no such group"), ("success", None)]
    await program(DELETE, "gone")
    assert await program("select distinct task_id from task_run_logs") == [("kept",)]
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        await program(LOG, "gone", program.go(0), 1, "success", None)
    await gateway.pass_time(HOUR)
    assert sorted(await gateway.messages()) == ["do gone", "do kept", "do kept"]


async def test_messages_come_in_the_order_in_which_the_gateway_reads(gateway: Gateway, program: Program) -> None:
    """Its cursor is the text of the last timestamp it saw; its own rows have nanoseconds."""
    await gateway.connect()
    seen, cursor = [], ""
    for number in range(6):
        await gateway.clock.advance(0.5)
        now = gateway.clock.now()
        own = (f"wa-{number}", "1@g.us", "ana@wa", "Ana", f"said {number}", nanoseconds(now, 999))
        await program.schedule(f"t{number}", None, program.go(-1), jid="2@g.us" if number % 2 else "1@g.us")
        await gateway.pass_time(0.001)
        for _ in range(2):  # the same message again is ignored
            await program(STORE, *own)
        found = await program(PICK_UP, "1@g.us", "2@g.us", cursor, "bot")
        seen += [content for _, _, content, _ in found]
        cursor = found[-1][3]
    assert seen == [text for number in range(6) for text in (f"said {number}", f"do t{number}")]
    assert await program(PICK_UP, "1@g.us", "2@g.us", cursor, "bot") == []


async def test_a_message_says_what_the_gateway_s_own_scheduler_would(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    await program.schedule("t", None, program.go(1))
    await gateway.pass_time(1)
    columns = "chat_jid, sender, content, is_from_me, is_bot_message, topic, routed_to, verb, sender_name, reply_to_id"
    assert await program(f"select {columns} from messages") == [
        ("1@g.us", "scheduler", "do t", 0, 0, "", "", "", None, None)
    ]


async def test_later_columns_of_messages_and_tasks_change_nothing(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    await program.schedule("t", "0 * * * *", program.go(HOUR))
    await gateway.pass_time()
    for statement in (
        "alter table messages add column attachments text not null default ''",
        "alter table messages add column status text not null default 'sent'",
        "alter table scheduled_tasks add column last_run text",
        "create index idx_tasks_owner on scheduled_tasks (owner, status)",
    ):
        await program(statement)
    await gateway.pass_time(HOUR)
    assert await program("select content, attachments, status from messages") == [("do t", "", "sent")]
    await program("update scheduled_tasks set last_run = ?", program.go(0))
    await gateway.pass_time(HOUR)
    assert await gateway.messages() == ["do t"] * 2


REBUILT = """
create table tasks_new (
    id text primary key, owner text not null, chat_jid text not null, prompt text not null, cron text, next_run text,
    status text not null default 'active', created_at text not null, context_mode text not null default 'group',
    priority integer not null default 0)
"""
COPY = (
    "insert into tasks_new (id, owner, chat_jid, prompt, cron, next_run, status, created_at, context_mode) "
    "select id, owner, chat_jid, prompt, cron, next_run, status, created_at, context_mode from scheduled_tasks"
)


async def rebuild(gateway: Gateway, program: Program) -> None:
    """The way a migration changes a table: a new one, the rows, the old one away, the name."""
    steps = [REBUILT, COPY, "drop table scheduled_tasks", "alter table tasks_new rename to scheduled_tasks"]
    if gateway.is_postgres:
        key = "alter table task_run_logs {} constraint task_run_logs_task_id_fkey"
        back = " foreign key (task_id) references scheduled_tasks (id) on delete cascade"
        steps = [key.format("drop"), *steps, key.format("add") + back]
    else:
        steps = ["pragma foreign_keys = off", "begin", *steps, BY_NEXT_RUN, "commit", "pragma foreign_keys = on"]
    for step in steps:
        await program(step)


async def test_the_table_may_be_rebuilt_while_it_is_connected(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    for id in ("a", "b"):
        await program.schedule(id, "0 * * * *", program.go(HOUR))
        await program(LOG, id, program.go(0), 12, "success", None)
    await gateway.pass_time()
    alarms = {alarm.label: alarm.id for alarm in await gateway.alarms()}
    await rebuild(gateway, program)
    await program("update scheduled_tasks set prompt = 'changed unwatched' where id = 'a'")
    await program(DELETE, "b")
    gateway.sql_tasks._checked_at = None  # ten seconds later
    await gateway.pass_time(HOUR)
    assert await gateway.messages() == ["changed unwatched"]
    assert {alarm.label: alarm.id for alarm in await gateway.alarms(statuses=("active",))} == {"a": alarms["a"]}
    assert await program("select distinct task_id from task_run_logs") == [("a",)]
    await program(STATUS, "paused", "a")  # and it is watched again
    await gateway.pass_time(HOUR)
    assert len(await gateway.messages()) == 1
    if not gateway.is_postgres:
        assert apsw.Connection(gateway.db).execute("pragma foreign_key_check").fetchall() == []


async def test_downtime_costs_one_late_run_and_no_back_fill(gateway: Gateway, program: Program) -> None:
    await gateway.connect()
    await program.schedule("t", "*/30 * * * *", program.go(1800))
    await program.schedule("i", "600000", program.go(600))
    await gateway.pass_time()
    await gateway.stop()
    await gateway.clock.advance(10 * HOUR + 60)
    await gateway.start()
    await gateway.pass_time()
    assert sorted(await gateway.messages()) == ["do i", "do t"]
    assert await program.task("t") == ("active", program.go(1800 - 60))
    assert await program.task("i") == ("active", program.go(600 - 60))  # the rhythm it had, not from now

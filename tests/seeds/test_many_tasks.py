"""Thousands of rows at once: planned together, the first said before the last is planned, other programs let in."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from wakeful.dispatcher.sql_tasks import AT_ONCE
from wakeful.process.application import open_local
from wakeful.rules.task import TaskNews
from wakeful.store.sql_tasks import SHARE, SqlTasks
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import store_of

from .conftest import Gateway
from .test_sql_task_processes import until

MANY = 30


async def add_many(gateway: Gateway, many: int, *, at: str, cron: str = "null") -> None:
    """In one statement, as a program does that fills its table."""
    values = "'t' || i, 'main', '1@g.us', 'do t' || i, 'active'"
    numbers = f"with recursive s(i) as (select 1 union all select i + 1 from s where i < {many})"
    columns = "(id, owner, chat_jid, prompt, status, next_run, cron)"
    moment = f"'{at}'::timestamptz" if gateway.is_postgres else f"'{at}'"
    rows = f"select {values}, {moment}, {cron} from s"
    await gateway.sql(
        f"insert into scheduled_tasks {columns} {numbers} {rows}"
        if gateway.is_postgres
        else f"{numbers} insert into scheduled_tasks {columns} {rows}"
    )


@pytest.mark.parametrize("gateway", ["postgres"], indirect=True)
async def test_on_postgres_many_rows_are_planned_by_a_few_statements(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New, changed, ended, broken and deleted ones: none of them alone."""
    await gateway.connect()

    async def alone(*given: object) -> None:
        raise AssertionError("planned alone")

    monkeypatch.setattr(SqlTasks, "_plan", alone)
    await add_many(gateway, MANY, at=gateway.at(100))
    await gateway.pass_time()
    assert len(await gateway.alarms(statuses=("active",))) == MANY
    await gateway.sql("update scheduled_tasks set prompt = 'other' where id in ('t1', 't2')")
    await gateway.sql("update scheduled_tasks set cron = '*/5 * * * *', next_run = null where id in ('t3', 't4')")
    await gateway.sql("update scheduled_tasks set status = 'completed' where id in ('t5', 't6')")
    await gateway.sql("update scheduled_tasks set cron = '61 * * * *' where id in ('t7', 't8')")
    await gateway.sql("delete from scheduled_tasks where id in ('t9', 't10')")
    await gateway.pass_time()
    assert await gateway.sql("select count(*) from task_changes") == [(0,)]
    assert {alarm.wake_message for alarm in await gateway.alarms("t1")} == {"other"}
    assert (await gateway.task("t3"))[1] is not None
    rows = await gateway.sql("select distinct status, error from scheduled_tasks where id in ('t7', 't8')")
    assert rows == [("error", "cron: minute: 61 is out of range.")]
    assert await gateway.sql("select count(*) from task_links where task_id in ('t9', 't10')") == [(0,)]
    assert len(await gateway.alarms(statuses=("active",))) == MANY - 6
    monkeypatch.undo()
    await gateway.pass_time(100)
    said = await gateway.messages()
    assert sorted(set(said)) == sorted({"other", *(f"do t{n}" for n in range(11, MANY + 1))})
    assert len(said) == MANY - 8


@pytest.mark.parametrize("gateway", ["postgres"], indirect=True)
async def test_a_row_that_its_table_refuses_to_change_keeps_no_other_from_being_planned(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.sql("alter table scheduled_tasks add check (id <> 't2' or next_run is null)")
    await gateway.sql(
        "insert into scheduled_tasks (id, chat_jid, prompt, cron) "
        "select 't' || i, '1@g.us', 'do t' || i, '* * * * *' from generate_series(1, 3) as s(i)"
    )
    await gateway.pass_time()
    assert len(await gateway.alarms(statuses=("active",))) == 3
    notes = await store_of(gateway.wakeful).tasks.notes()
    assert list(notes) == ["t2"]
    assert notes["t2"].startswith("the row could not be written: ")


@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
async def test_planning_holds_the_file_for_a_share_of_a_transaction_at_a_time(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the stopwatch finds half a share gone: two plans, and others have their turn."""
    await gateway.connect()
    store = store_of(gateway.wakeful)
    assert isinstance(store, SqliteStore)
    await add_many(gateway, MANY, at=gateway.at(100))
    passed = count()
    monkeypatch.setattr("wakeful.store.sql_tasks.stopwatch", lambda: next(passed) * SHARE / 2)
    before = store._writer.commits
    await gateway.pass_time()
    assert len(await gateway.alarms(statuses=("active",))) == MANY
    assert store._writer.commits - before >= MANY / 2


async def test_the_first_rows_are_said_before_the_last_are_planned(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker starts on a table of many due rows, and finds no second page of them until it has said something."""
    await gateway.connect()
    await gateway.stop()
    await add_many(gateway, AT_ONCE + 10, at="2020-01-01T00:00:00Z")
    async with open_local(gateway.db) as alarms:
        tasks, is_over = store_of(alarms).tasks, asyncio.Event()
        real = tasks.news

        async def news(*, limit: int, after: int = 0) -> list[TaskNews]:
            if after:
                await is_over.wait()
            return await real(limit=limit, after=after)

        async def said(many: int) -> bool:
            return await gateway.sql("select count(*) >= " + str(many) + " from messages") in ([(1,)], [(True,)])

        monkeypatch.setattr(tasks, "news", news)
        async with alarms.running():
            try:
                await until(lambda: said(1), "the first is said")
            finally:
                is_over.set()
            await until(lambda: said(AT_ONCE + 10), "all are said")
    assert len(set(await gateway.messages())) == AT_ONCE + 10

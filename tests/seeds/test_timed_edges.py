"""The SQL door where programs cross: two workers, an edit and a fire, a table that changes under our hands."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from wakeful.errors import InvalidRequest
from wakeful.process.application import open_local
from wakeful.rules.task import Task
from wakeful.testing import store_of

from .conftest import Gateway


async def test_two_workers_plan_each_task_once(gateway: Gateway) -> None:
    await gateway.connect()
    for n in range(60):
        await gateway.add(f"t{n}", next_run=gateway.at(10))
    async with open_local(gateway.db, clock=gateway.clock) as other:
        await asyncio.gather(gateway.wakeful.run_due(), other.run_due())
        assert len(await gateway.alarms()) == 60
        await gateway.clock.advance(10)
        await asyncio.gather(gateway.wakeful.run_due(), other.run_due())
    assert sorted(await gateway.messages()) == sorted(f"do t{n}" for n in range(60))
    assert await gateway.sql("select count(*) from scheduled_tasks where status = 'done'") == [(60,)]


async def test_a_change_that_changes_nothing_leaves_all_as_it_was(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="@daily")
    await gateway.add("t2", cron="never")
    await gateway.pass_time()
    before = await gateway.alarms(), await store_of(gateway.wakeful).tasks.notes()
    await gateway.sql("update scheduled_tasks set prompt = prompt")
    await gateway.pass_time(1)
    assert (await gateway.alarms(), await store_of(gateway.wakeful).tasks.notes()) == before


async def test_an_edit_that_crosses_a_fire_does_not_bring_it_back(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(1))
    tasks = store_of(gateway.wakeful).tasks
    [read] = await tasks.find(id="t1")
    await gateway.pass_time(1)
    assert await tasks.update(replace(read, prompt="newer"), was=read) is False
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do t1"]
    [read] = await tasks.find(id="t1")
    assert await tasks.update(replace(read, prompt="newer"), was=read) is True


async def test_a_task_without_a_chat_goes_nowhere_and_says_so(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(0), chat_jid=None)
    await gateway.pass_time(1)
    assert await gateway.sql("select status, error from scheduled_tasks") == [("error", "chat_jid: it is empty")]
    assert await gateway.messages() == []


async def test_a_column_that_is_added_later_counts_for_what_was_planned_before(gateway: Gateway) -> None:
    await gateway.sql("""create table scheduled_tasks (id text primary key, owner text, chat_jid text, prompt text,
        cron text, next_run text, status text, created_at text)""")
    await gateway.connect()
    await gateway.add("t0", next_run=gateway.at(100))
    await gateway.pass_time()
    isolated = Task(id="t2", chat_jid="1@g.us", prompt="x", status="active", context_mode="isolated")
    with pytest.raises(InvalidRequest, match="context_mode"):
        await store_of(gateway.wakeful).tasks.insert(isolated)
    await gateway.sql("alter table scheduled_tasks add column context_mode text default 'group'")
    await gateway.add("t1", next_run=gateway.at(100), context_mode="isolated")
    await gateway.pass_time()  # planned by a process that does not know the column yet
    gateway.sql_tasks._checked_at = None  # ten seconds later
    await gateway.pass_time(100)
    assert sorted(await gateway.sql("select sender from messages")) == [("scheduler",), ("scheduler-isolated:t1",)]


async def test_what_hangs_on_a_task_goes_with_it(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.sql("create table runs (task_id text references scheduled_tasks (id) on delete cascade)")
    await gateway.add("t1", cron="@daily")
    await gateway.sql("insert into runs values ('t1')")
    assert await store_of(gateway.wakeful).tasks.delete("t1", owner="main") is True
    assert await gateway.sql("select * from runs") == []
    assert await store_of(gateway.wakeful).tasks.delete("t1", owner="main") is False


async def test_nothing_of_ours_is_left_in_the_queue(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.add("t2", next_run=gateway.at(60))
    for _ in range(3):
        await gateway.pass_time(3600)
    assert await gateway.sql("select count(*) from task_changes") == [(0,)]
    assert len(await gateway.alarms()) == 2

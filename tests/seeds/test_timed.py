"""The SQL door: what another program writes into `scheduled_tasks` happens, and the table says what happened."""

from __future__ import annotations

from datetime import timedelta

import pytest

from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Delivered, Try
from wakeful.rules.settle import settle
from wakeful.store import Settled
from wakeful.testing import store_of

from .conftest import Gateway

MINUTE = 60


async def test_a_due_task_becomes_one_message(gateway: Gateway) -> None:
    assert await gateway.connect() is True
    await gateway.add("t1", next_run=gateway.at(30), prompt="Good 'morning'")
    await gateway.pass_time(29)
    assert await gateway.messages() == []
    assert await gateway.task("t1") == ("active", gateway.clock.now() + timedelta(seconds=1))
    await gateway.pass_time(1)
    [row] = await gateway.sql("select id, chat_jid, sender, content, timestamp from messages")
    [alarm] = await gateway.alarms("t1")
    assert row[0].startswith(f"{alarm.id}@")
    assert row[1:4] == ("1@g.us", "scheduler", "Good 'morning'")
    assert row[4].endswith("Z")
    assert row[4].startswith(gateway.at(0)[:-1])
    assert await gateway.task("t1") == ("done", None)
    await gateway.pass_time(3600)
    assert len(await gateway.messages()) == 1


async def test_a_cron_task_moves_on_and_stays_active(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="*/30 * * * *", next_run=gateway.at(10))
    await gateway.pass_time(10)
    assert await gateway.messages() == ["do t1"]
    half_past = gateway.clock.now() + timedelta(seconds=30 * MINUTE - 10)
    assert await gateway.task("t1") == ("active", half_past)
    await gateway.pass_time(30 * MINUTE - 10)
    assert await gateway.messages() == ["do t1"] * 2


@pytest.mark.parametrize("cron", ["0 9 * * 1-5", "0 0 * * *", "*/30 * * * *", "15 0 9 * * *", "@daily"])
async def test_a_cron_without_next_run_gets_one(gateway: Gateway, cron: str) -> None:
    await gateway.connect()
    await gateway.add("t1", cron=cron)
    await gateway.pass_time()
    status, next_run = await gateway.task("t1")
    assert status == "active"
    [alarm] = await gateway.alarms("t1")
    assert next_run == alarm.next_fire_at > gateway.clock.now()


async def test_digits_are_an_interval_in_milliseconds_that_keeps_its_rhythm(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="90000", next_run=gateway.at(10))
    first = gateway.clock.now() + timedelta(seconds=10)
    await gateway.pass_time(40)  # thirty seconds late
    assert await gateway.task("t1") == ("active", first + timedelta(seconds=90))
    await gateway.add("t2", cron="250")
    await gateway.pass_time()
    _, soon = await gateway.task("t2")
    assert soon == gateway.clock.now() + timedelta(seconds=1)


async def test_an_isolated_task_has_a_sender_of_its_own(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("main/a-1", next_run=gateway.at(1), context_mode="isolated")
    await gateway.pass_time(1)
    assert await gateway.sql("select sender from messages") == [("scheduler-isolated:main/a-1",)]


async def test_a_paused_task_waits_and_then_fires_once_for_all_it_missed(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.pass_time()
    await gateway.sql("update scheduled_tasks set status = 'paused' where id = 't1'")
    await gateway.pass_time(5 * 3600 + 120)
    assert await gateway.messages() == []
    assert [alarm.status for alarm in await gateway.alarms("t1")] == ["paused"]
    await gateway.sql("update scheduled_tasks set status = 'active' where id = 't1'")
    await gateway.pass_time()
    assert await gateway.messages() == ["do t1"]
    assert await gateway.task("t1") == ("active", gateway.clock.now() + timedelta(seconds=3600 - 120))


async def test_a_new_prompt_is_said_next_time_and_moves_nothing(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.pass_time()
    before = await gateway.task("t1")
    await gateway.sql("update scheduled_tasks set prompt = 'newer', chat_jid = '2@g.us' where id = 't1'")
    await gateway.pass_time()
    assert await gateway.task("t1") == before
    await gateway.pass_time(3600)
    assert await gateway.sql("select content, chat_jid from messages") == [("newer", "2@g.us")]
    assert len(await gateway.alarms("t1")) == 1


async def test_a_new_cron_counts_from_now(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 9 * * *")
    await gateway.pass_time()
    await gateway.sql("update scheduled_tasks set cron = '*/5 * * * *' where id = 't1'")
    await gateway.pass_time(1)
    assert await gateway.task("t1") == ("active", gateway.clock.now() + timedelta(seconds=5 * MINUTE - 1))


async def test_a_new_next_run_is_taken_at_its_word(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 9 * * *")
    await gateway.pass_time()
    await gateway.sql(f"update scheduled_tasks set next_run = '{gateway.at(90)}' where id = 't1'")
    await gateway.pass_time(89)
    assert await gateway.messages() == []
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do t1"]
    status, next_run = await gateway.task("t1")
    assert status == "active"
    assert next_run is not None
    assert next_run.hour == 9


async def test_the_same_moment_again_is_another_fire(gateway: Gateway) -> None:
    await gateway.connect()
    moment = gateway.at(1)
    await gateway.add("t1", next_run=moment)
    await gateway.pass_time(1)
    await gateway.sql(f"update scheduled_tasks set status = 'active', next_run = '{moment}' where id = 't1'")
    await gateway.pass_time()
    assert await gateway.messages() == ["do t1"] * 2
    assert (await gateway.task("t1"))[0] == "done"


async def test_a_deleted_task_fires_no_more(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.pass_time()
    await gateway.sql("delete from scheduled_tasks where id = 't1'")
    await gateway.pass_time(2 * 3600)
    assert await gateway.messages() == []
    assert [alarm.status for alarm in await gateway.alarms("t1")] == ["cancelled"]
    await gateway.add("t1", next_run=gateway.at(1))  # the id is free again
    await gateway.pass_time(1)
    assert await gateway.messages() == ["do t1"]


async def test_a_renamed_task_goes_on_under_its_new_id(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("old", next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.sql("update scheduled_tasks set id = 'new' where id = 'old'")
    await gateway.pass_time(10)
    assert await gateway.messages() == ["do old"]
    assert await gateway.task("new") == ("done", None)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "0"}, "cron"),
        ({"cron": "whenever"}, "cron"),
        ({"prompt": "", "cron": "@daily"}, "prompt"),
    ],
)
async def test_what_makes_no_sense_becomes_an_error_with_its_reason_and_never_fires(
    gateway: Gateway, columns: dict[str, str], said: str
) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(-5), **columns)
    for _ in range(3):
        await gateway.pass_time(MINUTE)
    [(status, error)] = await gateway.sql("select status, error from scheduled_tasks")
    assert status == "error"
    assert error.startswith(f"{said}: ")
    assert await store_of(gateway.wakeful).tasks.notes() == {"t1": error}
    assert await gateway.messages() == []
    await gateway.sql("update scheduled_tasks set cron = '@daily', prompt = 'well', status = 'active', next_run = null")
    await gateway.pass_time()
    assert await gateway.sql("select status, error from scheduled_tasks") == [("active", None)]


async def test_a_one_shot_without_next_run_is_never_due(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1")
    await gateway.pass_time(MINUTE)
    assert await gateway.task("t1") == ("active", None)
    assert await gateway.alarms() == []
    assert "next_run" in (await store_of(gateway.wakeful).tasks.notes())["t1"]


@pytest.mark.parametrize("status", ["done", "error", "completed", "anything"])
async def test_whoever_ends_a_task_ends_its_alarm(gateway: Gateway, status: str) -> None:
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(10))
    await gateway.pass_time()
    await gateway.sql(f"update scheduled_tasks set status = '{status}'")
    await gateway.pass_time(MINUTE)
    assert await gateway.messages() == []
    assert (await gateway.task("t1"))[0] == status


async def test_an_existing_table_is_taken_over_with_its_rows_paused_ones_too(gateway: Gateway) -> None:
    kind = "timestamptz" if gateway.is_postgres else "text"
    await gateway.sql(f"""
        create table scheduled_tasks (id text primary key, owner text not null, chat_jid text not null,
            prompt text not null, cron text, next_run {kind}, status text not null default 'active',
            created_at {kind} not null, extra integer default 7)""")
    for id, status in (("a", "active"), ("p", "paused"), ("d", "done")):
        await gateway.add(id, status=status, next_run=gateway.at(10), created_at=gateway.at(-90))
    assert await gateway.connect() is False
    await gateway.pass_time(10)
    assert await gateway.messages() == ["do a"]
    assert sorted(await gateway.sql("select id, status, extra from scheduled_tasks")) == [
        ("a", "done", 7),
        ("d", "done", 7),
        ("p", "paused", 7),
    ]
    await gateway.sql("update scheduled_tasks set status = 'active' where id = 'p'")
    await gateway.pass_time()
    assert await gateway.messages() == ["do a", "do p"]


async def test_connecting_again_changes_nothing(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.pass_time(90)
    before = await gateway.alarms("t1")
    assert await gateway.connect() is False
    await gateway.pass_time()
    assert await gateway.alarms("t1") == before


async def test_a_restart_forgets_nothing(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.pass_time()
    await gateway.stop()
    await gateway.sql("update scheduled_tasks set prompt = 'while you were out'")
    await gateway.start()
    await gateway.pass_time(3600)
    assert await gateway.messages() == ["while you were out"]


async def test_the_table_may_be_altered_and_made_anew(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.pass_time()
    await gateway.sql("alter table scheduled_tasks add column colour text default 'red'")
    await gateway.sql("create index by_owner on scheduled_tasks (owner, status)")
    await gateway.sql("update scheduled_tasks set prompt = 'still here'")
    for statement in (
        "create table other as select * from scheduled_tasks",
        "drop table scheduled_tasks",
        "alter table other rename to scheduled_tasks",
    ):
        await gateway.sql(statement)
    await gateway.sql("update scheduled_tasks set prompt = 'unseen'")  # nobody watches the new table yet
    gateway.sql_tasks._checked_at = None  # ten seconds later
    await gateway.pass_time(3600)
    assert await gateway.messages() == ["unseen"]
    assert (await gateway.task("t1"))[1] == gateway.clock.now() + timedelta(hours=1)
    await gateway.sql("update scheduled_tasks set status = 'paused'")
    await gateway.pass_time(3600)
    assert len(await gateway.messages()) == 1


async def test_what_the_owner_does_to_the_alarm_shows_in_the_row(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *", owner="local")
    await gateway.pass_time()
    [alarm] = await gateway.alarms("t1")
    await gateway.wakeful.pause(alarm.id)
    assert (await gateway.task("t1"))[0] == "paused"
    await gateway.wakeful.resume(alarm.id)
    assert (await gateway.task("t1"))[0] == "active"
    await gateway.wakeful.cancel(alarm.id)
    assert await gateway.task("t1") == ("done", None)
    await gateway.sql("update scheduled_tasks set status = 'active'")
    await gateway.pass_time()
    await gateway.pass_time(3600)
    assert await gateway.messages() == ["do t1"]


async def test_an_owner_has_only_its_own_tasks(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("t1", cron="@daily", owner="main")
    await gateway.add("t2", cron="@daily", owner=None)
    await gateway.pass_time()
    assert {alarm.label: alarm.owner_did for alarm in await gateway.alarms()} == {"t1": "main", "t2": "local"}
    await gateway.sql("update scheduled_tasks set owner = 'main/sub' where id = 't1'")
    await gateway.pass_time()
    assert [alarm.owner_did for alarm in await gateway.alarms("t1", statuses=("active",))] == ["main/sub"]


async def test_a_row_that_changes_during_a_delivery_is_not_overwritten(gateway: Gateway) -> None:
    """The settlement follows the row it knew; what was written since is news, and is planned."""
    await gateway.connect()
    await gateway.add("t1", cron="0 * * * *")
    await gateway.pass_time()
    await gateway.clock.advance(3600)
    store, now = store_of(gateway.wakeful), gateway.clock.now()
    [alarm] = (await store.claim({"messages": 1}, lease=timedelta(minutes=2))).alarms
    await gateway.sql("update scheduled_tasks set status = 'paused' where id = 't1'")
    assert await store.settle([settle(alarm, None, Delivered(), Try(now, now))]) == [Settled("applied")]
    assert await gateway.task("t1") == ("paused", now)
    await gateway.pass_time(7200)
    assert await gateway.task("t1") == ("paused", now + timedelta(hours=1))
    assert await gateway.messages() == []


async def test_messages_that_the_table_refuses_leave_the_task_visible(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.sql("create unique index one_chat on messages (chat_jid)")
    await gateway.add("t1", next_run=gateway.at(1))
    await gateway.add("t2", next_run=gateway.at(2))
    await gateway.pass_time(2)
    assert await gateway.messages() == ["do t1"]
    status, next_run = await gateway.task("t2")
    assert status == "active"
    assert next_run is not None
    assert next_run > gateway.clock.now()  # the retry
    [alarm] = await gateway.alarms("t2")
    assert "messages" in alarm.last_error


async def test_a_table_that_refuses_our_words_still_works(gateway: Gateway) -> None:
    await gateway.sql("""create table scheduled_tasks (id text primary key, owner text, chat_jid text, prompt text,
        cron text, next_run text, status text check (status in ('active', 'paused', 'completed')), created_at text)""")
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(1))
    await gateway.pass_time(1)
    await gateway.pass_time(MINUTE)
    assert await gateway.messages() == ["do t1"]
    assert (await gateway.task("t1"))[0] == "active"
    assert "could not be written" in (await store_of(gateway.wakeful).tasks.notes())["t1"]


@pytest.mark.parametrize(
    "statement", ["create view scheduled_tasks as select 1 as id", "create table scheduled_tasks (id text)"]
)
async def test_what_is_no_table_of_tasks_is_refused(gateway: Gateway, statement: str) -> None:
    await gateway.sql(statement)
    with pytest.raises(InvalidConfig, match="scheduled_tasks"):
        await gateway.connect()

"""Rows of `scheduled_tasks` that nobody can make sense of: each says so itself, and nothing else waits for it."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from wakeful.dispatcher.sql_tasks import AT_ONCE
from wakeful.rules.task import TaskNews, TaskPlan
from wakeful.testing import ManualClock, store_of

from .conftest import MESSAGES, Gateway


async def neighbour_goes_on(gateway: Gateway, id: str = "fine") -> None:
    """A task written after the bad one is planned, said, and its row brought up to date; and so is the next."""
    await gateway.add(id, next_run=gateway.at(5))
    await gateway.pass_time(5)
    assert f"do {id}" in await gateway.messages()
    assert await gateway.task(id) == ("done", None)


@pytest.mark.parametrize(
    ("columns", "column"),
    [
        ({"cron": "9" * 5000}, "cron"),
        ({"cron": "9" * 400}, "cron"),
        ({"cron": "0" * 5000}, "cron"),
        ({"next_run": "9999-12-31T23:59:59-12:00"}, "next_run"),
        ({"next_run": "0001-01-01T00:00:00+12:00"}, "next_run"),
        ({"next_run": "9999-12-31T23:59:59Z"}, "next_run"),
        ({"cron": "@daily", "next_run": "9999-12-31T23:59:59-12:00"}, "next_run"),
    ],
    ids=[
        "5000 digits",
        "400 digits",
        "no interval",
        "year 10000",
        "year 0",
        "the last second",
        "daily from year 10000",
    ],
)
async def test_a_time_out_of_reach_is_an_error_of_its_row(
    gateway: Gateway, columns: dict[str, str], column: str
) -> None:
    if gateway.is_postgres:  # text, as SQLite has it: a timestamp would not take these
        await gateway.sql("""create table scheduled_tasks (id text primary key, owner text, chat_jid text, prompt text,
            cron text, next_run text, status text, created_at text, error text)""")
    await gateway.connect()
    await gateway.add("bad", **columns)
    await gateway.pass_time()
    [(status, error)] = await gateway.sql("select status, error from scheduled_tasks where id = 'bad'")
    assert status == "error"
    assert error.startswith(f"{column}: ")
    assert len(error) < 200
    await neighbour_goes_on(gateway)


BYTES = "cast(x'fffe41' as text)"


@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
@pytest.mark.parametrize("column", ["prompt", "chat_jid", "owner", "cron", "next_run", "status", "context_mode"])
@pytest.mark.parametrize("value", [BYTES, "x'fffe41'"], ids=["text", "blob"])
async def test_a_row_that_is_no_text_says_so_and_stops_nobody(gateway: Gateway, column: str, value: str) -> None:
    await gateway.connect()
    await gateway.add("bad", next_run=gateway.at(5))
    await gateway.add("before", next_run=gateway.at(5))
    await gateway.sql(f"update scheduled_tasks set {column} = {value} where id = 'bad'")
    await gateway.pass_time()
    [(status, error)] = await gateway.sql("select status, error from scheduled_tasks where id = 'bad'")
    assert (status, error) == ("error", f"{column}: it is not text, or not in UTF-8")
    await gateway.pass_time(5)
    assert await gateway.messages() == ["do before"]
    await neighbour_goes_on(gateway)
    assert {task.id for task in await store_of(gateway.wakeful).tasks.find()} == {"bad", "before", "fine"}


@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
async def test_a_row_spoilt_after_it_was_planned_says_nothing_and_stops_nobody(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("bad", next_run=gateway.at(5))
    await gateway.add("beside", next_run=gateway.at(5))
    await gateway.pass_time()
    await gateway.sql(f"update scheduled_tasks set prompt = {BYTES} where id = 'bad'")
    await gateway.sql("delete from task_changes")  # and nobody was told of it
    await gateway.pass_time(5)
    assert await gateway.messages() == ["do beside"]
    assert (await gateway.task("bad"))[0] == "error"
    await neighbour_goes_on(gateway)


@pytest.mark.parametrize("gateway", ["sqlite"], indirect=True)
@pytest.mark.parametrize("id", [BYTES, "x'fffe41'", "x'41'"], ids=["bytes", "blob", "blob of text"])
async def test_an_id_that_is_no_text_is_an_error_of_its_row(gateway: Gateway, id: str) -> None:
    await gateway.connect()
    await gateway.sql(
        f"insert into scheduled_tasks (id, owner, chat_jid, prompt, status, next_run) "
        f"values ({id}, 'main', '1@g.us', 'x', 'active', '{gateway.at(1)}')"
    )
    await gateway.pass_time()
    assert await gateway.sql("select status, error from scheduled_tasks") == [("error", "id: it is not text")]
    assert await gateway.sql("select count(*) from task_changes") == [(0,)]
    await neighbour_goes_on(gateway)


async def test_a_file_in_utf_16_is_read_in_its_own_encoding(tmp_path: Path, clock: ManualClock) -> None:
    gateway = Gateway(str(tmp_path / "wide.db"), clock)
    await gateway.sql(f"pragma encoding = 'UTF-16le'; {MESSAGES}")
    await gateway.connect()
    await gateway.add("t1", next_run=gateway.at(1), prompt="Grüße, 世界")
    await gateway.pass_time(1)
    assert await gateway.sql("pragma encoding") == [("UTF-16le",)]
    assert await gateway.messages() == ["Grüße, 世界"]
    await gateway.stop()


async def test_more_rows_than_fit_a_round_that_break_us_keep_nobody_waiting(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours, met by one kind of row: it must become that row's error, not the end of the door."""
    await gateway.connect()
    planner = type(gateway.sql_tasks._planner)
    real = planner.plan

    def plan(self: object, news: TaskNews, **given: object) -> TaskPlan:
        if news.task_id.startswith("bad"):
            raise ZeroDivisionError
        return real(self, news, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(planner, "plan", plan)
    for n in range(AT_ONCE + 1):
        await gateway.add(f"bad{n}", next_run=gateway.at(1))
    await neighbour_goes_on(gateway)
    rows = await gateway.sql("select distinct status, error from scheduled_tasks where id like 'bad%'")
    assert rows == [("error", "it cannot be planned: ZeroDivisionError")]


@pytest.mark.parametrize("gateway", ["postgres"], indirect=True)
async def test_a_row_that_another_program_holds_keeps_no_other_from_being_planned(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.add("held", next_run=gateway.at(5))
    await gateway.add("other", next_run=gateway.at(5))
    other = await asyncpg.connect(gateway.db)
    try:
        async with other.transaction():
            await other.execute("select 1 from scheduled_tasks where id = 'held' for update")
            await gateway.pass_time(5)
            assert await gateway.messages() == ["do other"]
    finally:
        await other.close()
    await gateway.pass_time(1)
    assert sorted(await gateway.messages()) == ["do held", "do other"]

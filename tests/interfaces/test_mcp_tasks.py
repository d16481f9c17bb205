"""The task tools as operators turn them on: over HTTP and stdio, tokens and limits, and what a client is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import jsonschema  # type: ignore[import-untyped]  # has no stubs of its own
import pytest
from mcp import Client

from tests.interfaces.mcp_world import MODES, door
from tests.interfaces.test_mcp_http import visiting
from tests.interfaces.test_mcp_stdio import connected
from tests.interfaces.world import serving
from tests.seeds.task_tools_world import BRIEF, the_whole_round, tools
from wakeful.http.security.auth import mint
from wakeful.mcp import TASK_TOOLS, TOOLS
from wakeful.process.application import LocalWakeful, build
from wakeful.settings import Settings
from wakeful.testing import store_of

DOCS = Path(__file__).parents[2] / "docs"
NEEDED: dict[str, dict[str, Any]] = {name: {"taskId": "?"} for name in TASK_TOOLS} | {
    "schedule_task": BRIEF,
    "list_tasks": {},
    "update_task": {"taskId": "?", "prompt": "x"},
}
MESSAGES = "create table messages (id text primary key, chat_jid text, sender text, content text, timestamp text)"


async def connect(db: Path, table: str = "scheduled_tasks") -> str:
    """What `wakeful db scheduled-tasks` does in a gateway's database."""
    apsw.Connection(str(db)).execute(MESSAGES)
    async with build(Settings(db=str(db))) as alarms:
        await store_of(alarms).tasks.connect(table)
    return str(db)


@pytest.fixture
async def alarms(tmp_path: Path) -> AsyncIterator[LocalWakeful]:
    db = await connect(tmp_path / "w.db")
    async with build(Settings(db=db, quota_active=2, creates_per_minute=4)) as alarms:
        yield alarms


@pytest.mark.parametrize("mode", MODES)
async def test_every_task_tool_does_its_work_over_http(tmp_path: Path, mode: str) -> None:
    async with serving(await connect(tmp_path / "w.db"), mcp_tasks=True) as visit:
        async with visiting(visit, mode) as agent:
            await the_whole_round(agent)
            id = (await agent("schedule_task", targetJid="1@g.us", prompt="now", cron="2020-01-31T09:00:00Z"))["taskId"]
            while (await agent("get_task", taskId=id))["task"]["Status"] != "done":
                pass
    db = apsw.Connection(str(tmp_path / "w.db"))
    assert db.execute("select chat_jid, sender, content from messages").fetchall() == [("1@g.us", "scheduler", "now")]


async def test_over_http_the_token_says_whose_the_task_is(tmp_path: Path) -> None:
    async with serving(await connect(tmp_path / "w.db"), mcp_tasks=True) as visit:
        tokens = {}
        for owner in ("ana", "eve"):
            tokens[owner], kept = mint(owner, ["write"], now=await visit.alarms.service.now())
            await store_of(visit.alarms).access.add_token(kept)
        async with visiting(visit, "auto", tokens["ana"]) as ana:
            id = (await ana("schedule_task", **BRIEF))["taskId"]
        async with visiting(visit, "auto", tokens["eve"]) as eve:
            assert (await eve("list_tasks"))["tasks"] == []
            await eve.refused("cancel_task", taskId=id)
        [task] = await store_of(visit.alarms).tasks.find()
        assert (task.id, task.owner) == (id, "ana")


@pytest.mark.parametrize("mode", MODES)
async def test_every_task_tool_does_its_work_on_stdio(tmp_path: Path, mode: str) -> None:
    await connect(tmp_path / "wakeful.db")
    async with connected(tmp_path, "--dispatch", mode=mode, WAKEFUL_MCP_TASKS="true") as agent:
        await the_whole_round(agent)


async def test_they_are_off_unless_turned_on(alarms: LocalWakeful) -> None:
    async with Client(door(alarms)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLS)
        assert "schedule_task" not in (client.instructions or "")
        result = await client.call_tool("schedule_task", BRIEF)
        assert "There is no tool 'schedule_task'" in result.content[0].text  # type: ignore[union-attr]
    assert await store_of(alarms).tasks.find() == []


@pytest.mark.parametrize("tool", sorted(TASK_TOOLS))
async def test_without_a_table_each_says_how_to_connect_one(tmp_path: Path, tool: str) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms, tools(alarms) as agent:
        text = await agent.refused(tool, **NEEDED[tool])
        assert "no table of tasks is connected" in text
        assert "`wakeful db scheduled-tasks`" in text
        await agent.as_taught(text)


async def test_a_table_without_a_place_for_the_words_is_told_as_such(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")
    apsw.Connection(db).execute(
        "create table scheduled_tasks (id text primary key, owner text, chat_jid text, "
        "prompt text check (prompt <> 'no'), cron text, next_run text, status text, created_at text)"
    )
    async with build(Settings(db=await connect(Path(db)))) as alarms, tools(alarms) as agent:
        assert "does not take it" in await agent.refused("schedule_task", **BRIEF | {"prompt": "no"})
        assert (await agent("list_tasks"))["tasks"] == []
        assert (await agent("schedule_task", **BRIEF))["taskId"]


@pytest.mark.parametrize("tool", sorted(TASK_TOOLS))
async def test_a_token_for_reading_changes_nothing(alarms: LocalWakeful, tool: str) -> None:
    async with tools(alarms, scopes=frozenset({"read"}), local=False) as agent:
        result = await agent.client.call_tool(tool, NEEDED[tool])
        text = result.content[0].text  # type: ignore[union-attr]
    assert ("this request needs write" in text) == (TASK_TOOLS[tool].scope == "write")
    assert await store_of(alarms).tasks.find() == []


async def test_nobody_is_everybody(alarms: LocalWakeful) -> None:
    async with tools(alarms, "") as agent:
        assert "does not name an owner" in await agent.refused("list_tasks")


# Limits


async def test_an_owner_with_a_token_has_as_many_tasks_as_alarms(alarms: LocalWakeful) -> None:
    async with tools(alarms, local=False) as ana:
        id = (await ana("schedule_task", **BRIEF))["taskId"]
        await alarms.run_due()
        await ana("alarm_set", when="in 1 hour", wake_message="x")
        text = await ana.refused("schedule_task", **BRIEF | {"prompt": "another"})
        assert "2 are allowed" in text
        assert [task["ID"] for task in (await ana.as_taught(text))["tasks"]] == [id]
        assert (await ana("schedule_task", **BRIEF))["taskId"] == id  # what is there already counts once
    async with tools(alarms) as local:
        await local("schedule_task", **BRIEF | {"prompt": "another"})


async def test_tasks_that_no_worker_has_seen_yet_count_too(alarms: LocalWakeful) -> None:
    async with tools(alarms, local=False) as ana:
        for prompt in ("one", "two"):
            await ana("schedule_task", **BRIEF | {"prompt": prompt})
        assert "2 are allowed" in await ana.refused("schedule_task", **BRIEF)


async def test_what_runs_again_counts_as_set_anew(alarms: LocalWakeful) -> None:
    async with tools(alarms, local=False) as ana:
        id = (await ana("schedule_task", targetJid="1@g.us", prompt="once", cron="2020-01-31T09:00:00Z"))["taskId"]
        await alarms.run_due()
        alarms.service.limits._counts.clear()  # as after a minute
        for number in range(2):
            await ana("schedule_task", **BRIEF | {"prompt": str(number)})
        assert "2 are allowed" in await ana.refused("update_task", taskId=id, cron="0 9 * * *")
        [task] = await store_of(alarms).tasks.find(id=id)
        assert (task.status, task.cron) == ("done", None)


async def test_an_owner_with_a_token_schedules_so_many_a_minute(alarms: LocalWakeful) -> None:
    async with tools(alarms, local=False) as ana:
        for number in range(4):
            id = (await ana("schedule_task", **BRIEF | {"prompt": str(number)}))["taskId"]
            await ana("cancel_task", taskId=id)
            alarms.service.limits._counts.clear()
        assert "4 alarms a minute" in await ana.refused("schedule_task", **BRIEF)


@pytest.mark.parametrize("cron", ["10000", "*/10 * * * * *", "@every 5s"])
async def test_an_owner_with_a_token_is_kept_from_running_too_often(alarms: LocalWakeful, cron: str) -> None:
    async with tools(alarms, local=False) as ana:
        assert "cron: " in (text := await ana.refused("schedule_task", **BRIEF | {"cron": cron}))
        assert "more often than every 60 s" in text
        id = (await ana("schedule_task", **BRIEF))["taskId"]
        text = await ana.refused("update_task", taskId=id, cron=cron)
        assert "more often than every 60 s" in text
        await ana.as_taught(text)
    async with tools(alarms) as local:
        assert (await local("schedule_task", **BRIEF | {"cron": cron}))["taskId"]


# What a client is told


async def test_tools_say_what_they_take_and_do(alarms: LocalWakeful) -> None:
    async with tools(alarms) as agent:
        listed = (await agent.client.list_tools()).tools
        said = agent.client.instructions or ""
    assert [tool.name for tool in listed] == [*TOOLS, *TASK_TOOLS]
    assert len(said) < 2000
    assert all(name in said for name in TASK_TOOLS)
    for tool in listed[len(TOOLS) :]:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        assert {"summary", "now"} <= set(tool.output_schema["required"])
        assert all("description" in shape for shape in tool.input_schema["properties"].values())
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint == (tool.name in ("get_task", "list_tasks"))
        assert tool.annotations.destructive_hint == (tool.name in ("update_task", "cancel_task"))
        jsonschema.validate(NEEDED[tool.name], tool.input_schema)
    sizes = [len(json.dumps(tool.input_schema)) + len(tool.description or "") for tool in listed[len(TOOLS) :]]
    assert sum(sizes) < 4 * 950, f"{sum(sizes) // 4} tokens before an agent has done anything"


@pytest.mark.parametrize("tool", sorted(TASK_TOOLS))
def test_every_tool_and_argument_is_documented(tool: str) -> None:
    section = (DOCS / "mcp.md").read_text().partition(f"### `{tool}`")[2].partition("\n##")[0]
    assert section
    names = TASK_TOOLS[tool].tool().input_schema["properties"]
    assert [name for name in names if f"`{name}`" not in section] == []


async def test_what_breaks_tells_nothing_and_is_logged(
    alarms: LocalWakeful, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(alarms.service.tasks, "list", broken)
    async with tools(alarms) as agent:
        result = await agent.client.call_tool("list_tasks", {})
    assert result.is_error
    assert "secret" not in result.content[0].text  # type: ignore[union-attr]
    assert "secret" in caplog.text

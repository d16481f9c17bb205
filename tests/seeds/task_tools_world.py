"""An agent with the task tools, at a gateway's database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from msgspec.structs import replace

from tests.interfaces.mcp_world import ALL, Agent
from wakeful.http.security.auth import Principal
from wakeful.mcp import server
from wakeful.process.application import LocalWakeful

CHAT = "123@g.us"
BRIEF = {"targetJid": CHAT, "prompt": "Morning brief", "cron": "0 9 * * 1-5"}
GO_NAMES = {"ID", "Owner", "ChatJID", "Prompt", "Cron", "NextRun", "Status", "Created", "ContextMode"}


@asynccontextmanager
async def tools(
    alarms: LocalWakeful, owner: str = "ana", scopes: frozenset[str] = ALL, *, local: bool = True
) -> AsyncIterator[Agent]:
    async def principal(_: Any) -> Principal:
        return Principal(owner, scopes, local=local)

    settings = replace(alarms.settings, mcp_tasks=True)
    async with Client(server(alarms.service, settings, principal)) as client:
        yield Agent(client)


async def the_whole_round(agent: Agent) -> None:
    """Every task tool once, in the order an agent uses them. Nothing of it falls due."""
    made = await agent("schedule_task", **BRIEF)
    assert "at 09:00 on Monday through Friday" in made["summary"]
    id = made["taskId"]
    assert (await agent("schedule_task", **BRIEF))["taskId"] == id
    [listed] = (await agent("list_tasks"))["tasks"]
    assert set(listed) == GO_NAMES
    assert (await agent("update_task", taskId=id, cron="2030-01-31T09:00:00+01:00"))["ok"] is True
    task = (await agent("get_task", taskId=id))["task"]
    assert (task["Cron"], task["NextRun"], task["Status"]) == ("", "2030-01-31T08:00:00Z", "active")
    assert (await agent("pause_task", taskId=id))["ok"] is True
    assert (await agent("list_tasks", status="active"))["tasks"] == []
    assert (await agent("resume_task", taskId=id))["ok"] is True
    assert (await agent("cancel_task", taskId=id))["ok"] is True
    assert (await agent("list_tasks"))["tasks"] == []

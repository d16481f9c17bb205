"""The official client as an agent, every answer of which is checked, and the door it knocks at."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # has no stubs of its own
from mcp import Client
from mcp.server.lowlevel import Server

from wakeful.http.security.auth import Principal
from wakeful.mcp import server
from wakeful.mcp.agent_views import BUDGET
from wakeful.process.application import LocalWakeful

MODES = ("auto", "legacy")
ALL = frozenset({"read", "write"})
SET = {"when": "in 1 hour", "wake_message": "x"}


class Agent:
    """A client, its answers checked: each has `now`, a summary, its declared shape, a text copy, and a bounded size."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.checked(tool, await self.client.call_tool(tool, arguments))

    async def checked(self, tool: str, result: Any) -> dict[str, Any]:
        text = result.content[0].text  # all our contents are texts
        assert not result.is_error, text
        found: dict[str, Any] = result.structured_content
        assert json.loads(text) == found
        assert len(text.encode()) <= BUDGET, len(text.encode())
        shapes = {one.name: one.output_schema for one in (await self.client.list_tools()).tools}
        jsonschema.validate(found, shapes[tool] or {})
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", found["now"])
        assert found["summary"]
        return found

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        text: str = result.content[0].text  # type: ignore[union-attr]
        assert result.is_error, text
        assert "Nothing was changed." in text
        assert re.search(r"It is \d{4}-\d\d-\d\dT[\d:.]+Z now\.", text)
        return text

    async def as_taught(self, text: str) -> dict[str, Any]:
        """Make the call an error recommends."""
        tool, arguments = taught(text)
        return await self(tool, **arguments)


def taught(text: str) -> tuple[str, dict[str, Any]]:
    """The call an error recommends."""
    found = re.search(r"(?:To check|Your call [\w ]+): (\w+) (\{.*\})$", text)
    assert found is not None, text
    return found[1], json.loads(found[2])


def door(
    alarms: LocalWakeful, owner: str = "local", scopes: frozenset[str] = ALL, *, local: bool = True
) -> Server[Any]:
    async def principal(_: Any) -> Principal:
        return Principal(owner, scopes, local=local)

    return server(alarms.service, alarms.settings, principal)


async def woken(alarms: LocalWakeful, agent: Agent, **more: Any) -> dict[str, Any]:
    """A wake the agent has taken from its inbox."""
    await alarms.set(delay=0.001, wake_message="work", **more)
    while not await alarms.run_due():
        pass
    [wake] = (await agent("alarm_inbox", wait=10))["wakes"]
    assert isinstance(wake, dict)
    return wake


async def the_whole_round(agent: Agent) -> None:
    """Every tool once, in the order an agent uses them."""
    made = await agent("alarm_set", when="tomorrow at 9am", wake_message="Check", key="k", payload={"page": 3})
    assert "at 09:00, Europe/Berlin" in made["summary"]
    assert made["alarm"]["payload"] == {"page": 3}
    id = made["alarm"]["id"]
    same = {"when": "tomorrow at 9am", "wake_message": "Check", "key": "k", "payload": {"page": 3}}
    assert (await agent("alarm_set", **same))["deduped"]
    assert "differs in when" in await agent.refused("alarm_set", **same | {"when": "in 1 hour"})
    assert [alarm["id"] for alarm in (await agent("alarm_list", text="CHECK"))["alarms"]] == [id]
    assert "It fires at" in (await agent("alarm_get", id=id))["why"]
    changed = await agent("alarm_update", id=id, when="every weekday at 9am", kind="cron", timezone="Asia/Tokyo")
    assert changed["alarm"]["when"] == "at 09:00 on Monday through Friday, Asia/Tokyo"
    paused = await agent("alarm_update", id=id, action="pause", reason="holiday")
    assert (paused["alarm"]["status"], paused["alarm"]["paused_reason"]) == ("paused", "holiday")
    assert (await agent("alarm_update", id=id, action="resume"))["alarm"]["status"] == "active"
    skipped = await agent("alarm_update", id=id, action="skip", at=changed["alarm"]["next_fire_at"])
    assert skipped["alarm"]["next_fire_at"] > changed["alarm"]["next_fire_at"]
    again = await agent.refused("alarm_update", id=id, action="skip", at=changed["alarm"]["next_fire_at"])
    assert "was skipped already" in again
    snoozed = await agent("alarm_update", id=id, action="snooze", **{"for": "100d"})
    assert snoozed["alarm"]["next_fire_at"] > changed["alarm"]["next_fire_at"]
    assert (await agent("alarm_cancel", id=id))["alarm"]["status"] == "cancelled"
    assert (await agent("alarm_inbox"))["wakes"] == []

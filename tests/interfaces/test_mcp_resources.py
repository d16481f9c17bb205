"""Alarms as resources, and the prompts: what clients show besides tools, over the official client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.interfaces.mcp_world import Agent, door, taught, woken
from wakeful.process.application import LocalWakeful, build
from wakeful.settings import Settings


@pytest.fixture
async def alarms(tmp_path: Path) -> AsyncIterator[LocalWakeful]:
    async with build(Settings(db=str(tmp_path / "w.db"), timezone="Europe/Berlin")) as alarms:
        yield alarms


async def text_of(client: Client, uri: str) -> str:
    [content] = (await client.read_resource(uri)).contents
    return content.text  # type: ignore[union-attr]  # all of ours are texts


async def test_an_alarm_is_read_whole_by_its_id_or_key(alarms: LocalWakeful) -> None:
    payload = {"text": "й" * 60_000}
    alarm = await alarms.set("in 1 hour", "x" * 30_000, payload=payload, key="Grant portal/1")
    async with Client(door(alarms)) as client:
        for name in (alarm.id, "Grant%20portal%2F1"):
            assert json.loads(await text_of(client, f"alarm://{name}/payload")) == payload
            assert await text_of(client, f"alarm://{name}/message") == alarm.wake_message
            assert json.loads(await text_of(client, f"alarm://{name}"))["alarm"]["id"] == alarm.id
        coming = json.loads(await text_of(client, "alarm://agenda"))["agenda"]
        assert [entry["alarm_id"] for entry in coming] == [alarm.id]
        wake = await woken(alarms, Agent(client))
        await alarms.completed(wake["fire_id"], "3 grants")
        assert await text_of(client, f"alarm://{wake['fire_id']}/result") == "3 grants"
        assert json.loads(await text_of(client, "alarm://history"))["history"]
        listed = [resource.uri for resource in (await client.list_resources()).resources]
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
    assert [str(uri) for uri in listed] == ["alarm://agenda", "alarm://history"]
    docs = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
    assert [uri for uri in (*map(str, listed), *templates) if f"`{uri}`" not in docs] == []


@pytest.mark.parametrize(
    "uri", ["alarm://nobody", "alarm://nobody/payload", "alarm://ID/everything", "https://elsewhere"]
)
async def test_what_is_not_there_is_an_error_of_the_protocol(alarms: LocalWakeful, uri: str) -> None:
    alarm = await alarms.set("in 1 hour", "x")
    async with Client(door(alarms)) as client:
        with pytest.raises(MCPError):
            await client.read_resource(uri.replace("ID", alarm.id))


async def test_another_owner_reads_nothing(alarms: LocalWakeful) -> None:
    alarm = await alarms.set("in 1 hour", "mine", key="k")
    async with Client(door(alarms, "mallory")) as client:
        for uri in (f"alarm://{alarm.id}/message", "alarm://k/message"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        assert json.loads(await text_of(client, "alarm://agenda"))["agenda"] == []
    async with Client(door(alarms, "")) as client:
        with pytest.raises(MCPError, match="does not name an owner"):
            await client.read_resource("alarm://agenda")


async def test_a_prompt_says_what_was_given_and_names_calls_that_work(alarms: LocalWakeful) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
    async with Client(door(alarms)) as client:
        for prompt in (await client.list_prompts()).prompts:
            assert f"`{prompt.name}`" in docs
            assert all(f"`{argument.name}`" in docs for argument in prompt.arguments or ())
        plan = await client.get_prompt("plan_my_week", {"about": "the grant", "timezone": "Asia/Tokyo"})
        said = plan.messages[0].content.text  # type: ignore[union-attr]
        assert "It is about: the grant." in said
        assert "Asia/Tokyo" in said
        missed = (await client.get_prompt("what_did_i_miss", {})).messages[0].content.text  # type: ignore[union-attr]
        agent = Agent(client)
        for line in (said, missed):
            for call in line.split("Call ")[1:]:
                tool, arguments = taught(f"To check: {call[: call.index('}') + 1]}")
                await agent(tool, **arguments)
        for name, given in (("plan_my_year", {}), ("plan_my_week", {"budget": "1"})):
            with pytest.raises(MCPError):
                await client.get_prompt(name, given)


async def test_the_tools_name_the_zone_and_the_targets_of_their_caller(alarms: LocalWakeful) -> None:
    alarms.declare("ops")
    async with Client(door(alarms)) as client:
        [tool] = [one for one in (await client.list_tools()).tools if one.name == "alarm_set"]
        said = tool.input_schema["properties"]
        assert "Default: Europe/Berlin." in said["timezone"]["description"]
        assert "`inbox`, `ops`" in said["target"]["description"]

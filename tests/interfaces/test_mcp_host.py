"""What the host of an agent says of it: where its wakes go, which conversation it is, and its time zone."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.interfaces.mcp_world import MODES, SET, Agent
from tests.interfaces.test_mcp_stdio import WAKEFUL, environ
from tests.interfaces.world import Visitor, serving
from wakeful.http.security.auth import mint
from wakeful.testing import store_of

TARGETS = {"researcher": {"kind": "inbox"}, "anas": {"kind": "inbox", "owners": ["ana"]}}


@asynccontextmanager
async def connected(visit: Visitor, mode: str, query: str = "", **headers: str) -> Any:
    async with AsyncExitStack() as stack:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=said, timeout=30))
        transport = streamable_http_client(f"{visit.url}/mcp{query}", http_client=http)
        yield Agent(await stack.enter_async_context(Client(transport, mode=mode)))


async def where(agent: Agent, **said: Any) -> tuple[str, str, str]:
    made = (await agent("alarm_set", **SET, **said))["alarm"]
    return made["target"], made.get("conversation_id", ""), made["timezone"]


async def where_with_meta(agent: Agent, meta: Any, **said: Any) -> tuple[str, str, str]:
    result = await agent.client.call_tool("alarm_set", SET | said, meta=meta)
    made = (result.structured_content or {})["alarm"]
    return made["target"], made.get("conversation_id", ""), made["timezone"]


@pytest.mark.parametrize("mode", MODES)
async def test_the_call_counts_before_its_meta_before_headers_before_the_query(tmp_path: Path, mode: str) -> None:
    query = "?target=researcher&conversation_id=of-query&timezone=Asia/Tokyo"
    async with serving(str(tmp_path / "w.db"), targets=TARGETS) as visit:
        async with connected(visit, mode, query) as agent:
            assert await where(agent) == ("researcher", "of-query", "Asia/Tokyo")
            assert await where(agent, target="", conversation_id="") == ("researcher", "of-query", "Asia/Tokyo")
        async with connected(visit, mode, query, wakeful_conversation="of-header", wakeful_target="inbox") as agent:
            assert await where(agent) == ("inbox", "of-header", "Asia/Tokyo")
            meta = {"wakeful-conversation": "of-meta", "wakeful-timezone": "Europe/Berlin"}
            assert await where_with_meta(agent, meta) == ("inbox", "of-meta", "Europe/Berlin")
            own = {"conversation_id": "of-call", "timezone": "Europe/Paris"}
            assert await where_with_meta(agent, meta, **own) == ("inbox", "of-call", "Europe/Paris")
        async with connected(visit, mode) as agent:
            assert await where(agent) == ("inbox", "", "UTC")


async def test_several_alarms_go_where_the_host_says_unless_one_names_another_place(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), targets=TARGETS) as visit:
        async with connected(visit, "auto", "?target=researcher&conversation_id=s-1") as agent:
            made = await agent("alarm_set", alarms=[SET, SET | {"conversation_id": "s-2"}])
            alarms = [await visit.alarms.get(id) for id in made["ids"]]
            assert [(one.target, one.conversation_id) for one in alarms] == [
                ("researcher", "s-1"),
                ("researcher", "s-2"),
            ]


async def test_the_zone_of_a_phrase_counts_before_that_of_the_host(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db")) as visit:
        async with connected(visit, "auto", "?timezone=Asia/Tokyo") as agent:
            made = await agent("alarm_set", when="tomorrow at 9am Berlin time", wake_message="x")
            assert made["alarm"]["timezone"] == "Europe/Berlin"
            made = await agent("alarm_set", when="tomorrow at 9am", wake_message="x")
            assert made["alarm"]["timezone"] == "Asia/Tokyo"
            assert not any("No timezone" in note for note in made.get("notes", ()))


async def test_an_inbox_is_read_for_the_agent_that_the_host_names(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), targets=TARGETS) as visit:
        async with connected(visit, "auto", "?target=researcher&conversation_id=s-1") as agent:
            await agent("alarm_set", when="in 1 second", wake_message="mine")
            await agent("alarm_set", when="in 1 second", wake_message="of another", conversation_id="s-2")
            [wake] = (await agent("alarm_inbox", wait=30))["wakes"]
            assert (wake["message"], wake["conversation_id"]) == ("mine", "s-1")
            [wake] = (await agent("alarm_inbox", wait=30, conversation_id=""))["wakes"]
            assert wake["message"] == "of another"
            assert (await agent("alarm_inbox", target="inbox"))["wakes"] == []
        async with connected(visit, "auto", "?target=nowhere") as agent:
            assert (await agent("alarm_inbox"))["wakes"] == []
            assert "there is no target 'nowhere'" in await agent.refused("alarm_set", **SET)


async def test_other_tools_take_nothing_from_the_host(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), targets=TARGETS) as visit:
        async with connected(visit, "auto") as agent:
            await agent("alarm_set", **SET, key="k", timezone="Europe/Berlin")
        async with connected(visit, "auto", "?target=researcher&conversation_id=s-1&timezone=Asia/Tokyo") as agent:
            assert len((await agent("alarm_list"))["alarms"]) == 1
            changed = (await agent("alarm_update", id="k", label="l"))["alarm"]
            assert (changed["target"], changed["timezone"]) == ("inbox", "Europe/Berlin")


async def test_a_host_names_targets_as_its_owner_may(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), targets=TARGETS) as visit:
        now = await visit.alarms.service.now()
        answers = {}
        for owner in ("ana", "ben"):
            token, kept = mint(owner, ["write"], now=now)
            await store_of(visit.alarms).access.add_token(kept)
            async with connected(visit, "auto", "?target=anas", authorization=f"Bearer {token}") as agent:
                answers[owner] = await agent.client.call_tool("alarm_set", SET)
        assert (answers["ana"].structured_content or {})["alarm"]["target"] == "anas"
        assert "there is no target 'anas'" in answers["ben"].content[0].text


@pytest.mark.parametrize("mode", MODES)
async def test_the_list_of_tools_says_what_counts_for_this_host(tmp_path: Path, mode: str) -> None:
    async with serving(str(tmp_path / "w.db"), targets=TARGETS) as visit:
        async with connected(visit, mode, "?target=researcher", wakeful_timezone="Asia/Tokyo") as agent:
            [tool] = [one for one in (await agent.client.list_tools()).tools if one.name == "alarm_set"]
            assert "Default: `researcher`." in tool.input_schema["properties"]["target"]["description"]
            assert "Default: Asia/Tokyo." in tool.input_schema["properties"]["timezone"]["description"]


@pytest.mark.parametrize("by", ["flags", "variables"])
async def test_on_stdio_flags_or_variables_say_it(tmp_path: Path, by: str) -> None:
    said = {"target": "researcher", "conversation": "s-1", "timezone": "Asia/Tokyo"}
    flags = [part for name, value in said.items() for part in (f"--{name}", value)] if by == "flags" else []
    variables = {} if by == "flags" else {f"WAKEFUL_MCP_{name.upper()}": value for name, value in said.items()}
    (tmp_path / "wakeful.toml").write_text('[targets.researcher]\nkind = "inbox"\n')
    command = StdioServerParameters(
        command=sys.executable, args=[*WAKEFUL, *flags], env=environ(**variables), cwd=tmp_path
    )
    async with Client(command) as client:
        agent = Agent(client)
        assert await where(agent) == ("researcher", "s-1", "Asia/Tokyo")
        meta = {"wakeful-conversation": "of-meta"}
        assert await where_with_meta(agent, meta) == ("researcher", "of-meta", "Asia/Tokyo")

"""`/mcp` of a real server: the official client, tokens, strangers, and what is logged."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.acting import acting
from tests.interfaces.mcp_world import MODES, SET, Agent, the_whole_round
from tests.interfaces.world import Visitor, serving
from wakeful.cli import main
from wakeful.http.security.auth import mint
from wakeful.mcp.catalogue import listed
from wakeful.testing import store_of


@asynccontextmanager
async def visiting(visit: Visitor, mode: str, token: str = "") -> AsyncIterator[Agent]:
    async with AsyncExitStack() as stack:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=30))
        transport = streamable_http_client(visit.url + "/mcp", http_client=http)
        yield Agent(await stack.enter_async_context(Client(transport, mode=mode)))


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_does_its_work_over_http(tmp_path: Path, mode: str) -> None:
    async with serving(str(tmp_path / "w.db"), timezone="Europe/Berlin") as visit:
        async with visiting(visit, mode) as agent:
            await the_whole_round(agent)
            await agent("alarm_set", when="in 1 second", wake_message="soon")
            [wake] = (await agent("alarm_inbox", wait=60))["wakes"]
            done = await agent("alarm_report", fire_id=wake["fire_id"], outcome="completed")
            assert done["fire"]["status"] == "completed"


async def test_over_http_the_token_says_who_asks(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db")) as visit:
        store, now = store_of(visit.alarms), await visit.alarms.service.now()
        tokens = {}
        for owner in ("ana", "ben"):
            tokens[owner], kept = mint(owner, ["write"], now=now)
            await store.access.add_token(kept)
        await visit.alarms.set("in 1 hour", "of nobody in particular")
        async with visiting(visit, "auto", tokens["ana"]) as ana:
            id = (await ana("alarm_set", **SET))["alarm"]["id"]
            assert [alarm["id"] for alarm in (await ana("alarm_list"))["alarms"]] == [id]
        async with visiting(visit, "auto", tokens["ben"]) as ben:
            assert (await ben("alarm_list"))["alarms"] == []
            await ben.refused("alarm_cancel", id=id)
        assert (await acting(visit.alarms.service, "ana").get(id)).created_via == "mcp"
        for headers in ({}, {"authorization": "Bearer wk_nonsense"}):
            assert (await visit("POST", "/mcp", {}, headers=headers)).status == 401


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_lists_no_tools(visit: Visitor, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    listings: list[Any] = []

    def counted(*entries: Any, **described: Any) -> Any:
        listings.append(described)
        return listed(*entries, **described)

    async with visiting(visit, mode) as agent:
        await agent("alarm_list")  # the client itself lists them once
        monkeypatch.setattr("wakeful.mcp.listed", counted)
        assert not (await agent.client.call_tool("alarm_set", SET)).is_error
        assert listings == []


async def test_schemas_are_built_once(visit: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    build = msgspec.json.schema
    built: list[Any] = []

    def counted(kind: Any) -> Any:
        built.append(kind)
        return build(kind)

    monkeypatch.setattr(msgspec.json, "schema", counted)
    lists: list[Any] = []
    for owner in ("ana", "ben", "ana"):
        token = (await visit.token(owner))["authorization"].partition(" ")[2]
        async with visiting(visit, "auto", token) as agent:
            if not lists:
                await agent("alarm_update", id="me", timezone="Asia/Tokyo")
            lists.append((await agent.client.list_tools()).tools)
    assert len(built) == len(set(built)), "each at most once"
    assert lists[0] == lists[2]
    zones = [one[0].input_schema["properties"]["timezone"]["description"] for one in lists]
    assert ["Asia/Tokyo" in zone for zone in zones] == [True, False, True], "nobody reads another's"


HELLO = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
JSON = {"accept": "application/json, text/event-stream"}


async def test_the_route_answers_without_redirect_and_refuses_strangers(visit: Visitor) -> None:
    answer = await visit("POST", "/mcp", HELLO, headers=JSON, allow_redirects=False)
    assert (answer.status, answer.json["result"]) == (200, {})
    assert (await visit("POST", "/mcp", HELLO, headers=JSON | {"host": "evil.example"})).told[0] == 421
    assert (await visit("POST", "/mcp", HELLO, headers=JSON | {"origin": "https://evil.example"})).told[0] == 403
    assert (await visit("GET", "/mcp")).told[0] == 405
    assert (await visit("POST", "/mcp", b"{" + b" " * 300_000, headers=JSON)).status == 413
    assert (await visit("POST", "/mcp", b"{", headers=JSON)).status == 400


@pytest.mark.parametrize("mode", MODES)
async def test_what_agents_say_is_not_logged(visit: Visitor, caplog: pytest.LogCaptureFixture, mode: str) -> None:
    caplog.set_level(logging.DEBUG)
    async with visiting(visit, mode) as agent:
        await agent("alarm_set", when="in 1 hour", wake_message="canary", payload={"token": "canary"}, key="canary")
        await agent.refused("alarm_set", when="canary", wake_message="canary")
        await agent.refused("alarm_set", wake_message=["canary"])
        await agent.client.call_tool("canary", {})
        await agent("alarm_list", text="canary")
    for body in (b'{"canary": ', b'{"jsonrpc": "2.0", "id": "canary", "method": "canary"}', b'["canary"]'):
        await visit("POST", "/mcp", body, headers=JSON)
    ours = [line for line in caplog.records if not line.name.startswith(("asyncio", "httpx", "httpcore", "mcp.client"))]
    assert [line.getMessage() for line in ours if "canary" in line.getMessage()] == []


async def test_without_the_package_there_is_no_such_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.python.client.find_spec", lambda _: None)
    async with serving(str(tmp_path / "w.db")) as visit:
        assert (await visit("POST", "/mcp", HELLO, headers=JSON)).told[0] == 404
        assert (await visit("GET", "/healthz")).status == 200


def test_without_the_package_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("wakeful.python.client.find_spec", lambda _: None)
    with pytest.raises(SystemExit) as end:
        main(["mcp"])
    assert end.value.code == 2
    assert 'pip install "wakeful[mcp]"' in capsys.readouterr().err

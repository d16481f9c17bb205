"""Every operation, tool, page, socket and stream, tried with the token of a wake: it reaches its own chain alone.

As in test_owner_matrix, the attempts are made from what the server says of itself. Two tokens are tried: one of another
owner's wake, and one of the same owner's, but of another chain.
"""

from __future__ import annotations

from typing import Any

import aiohttp
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from tests.dashboard.world import Person
from wakeful.rules.wake import Wake
from wakeful.store import AlarmQuery, FireQuery
from wakeful.testing import store_of

from .owner_world import NEEDED_BY_TOOL, World, attempts, calls, pages, world

__all__ = ["world"]

# What the token of a wake opens. Whatever else there is, or will be, is refused.
OPERATIONS = {
    ("post", "/v1/alarms"),
    ("get", "/v1/alarms"),
    ("post", "/v1/alarms/batch"),
    ("post", "/v1/alarms/cancel"),
    ("get", "/v1/alarms/{id}"),
    ("delete", "/v1/alarms/{id}"),
    ("get", "/v1/alarms/{id}/fires"),
    ("get", "/v1/alarms/{id}/why"),
    ("get", "/v1/fires/{fire_id}"),
    ("get", "/v1/fires/{fire_id}/why"),
    ("post", "/v1/fires/{fire_id}/report"),
    ("post", "/v1/preview"),
    ("get", "/v1/settings"),
}
TOOLS = {"alarm_set", "alarm_list", "alarm_get", "alarm_cancel", "alarm_report"}


async def state(world: World, wake: Wake) -> Any:
    """All that is ada's but what the wake has set: that is in its own chain, and may change."""
    store = store_of(world.visit.alarms)
    alarms = await store.find(AlarmQuery(owner="ada", limit=500))
    fires = await store.fires(FireQuery(owner="ada", limit=500))
    mine = {alarm.id for alarm in alarms if wake.alarm_id in (alarm.id, alarm.root_id)}
    return (
        [alarm for alarm in alarms if alarm.id not in mine],
        [fire for fire in fires if fire.alarm_id not in mine],
        [replace(token, last_used_at=None) for token in await store.access.tokens()],
        await store.tasks.find(),
    )


@pytest.fixture(params=["eve", "ada"])
async def wake(request: pytest.FixtureRequest, world: World) -> Wake:
    """A wake of another owner; and one of the same, of another chain."""
    return await world.visit.fired(request.param)


def bearer(wake: Wake) -> dict[str, str]:
    return {"authorization": f"Bearer {wake.token}"}


async def test_no_operation_reaches_beyond_the_chain_of_a_wake(world: World, wake: Wake) -> None:
    before, document = await state(world, wake), (await world.visit("GET", "/openapi.json")).json
    opened, reached = set(), set()
    for attempt in attempts(document, world.adas):
        answer = await attempt.made(world.visit, bearer(wake))
        what = (attempt.method, attempt.place, attempt.body, answer.status, answer.text)
        assert str(answer.status) in attempt.entry["responses"], what
        world.check(answer.text, what, given=answer.status >= 300)
        if attempt.entry.get("security") == []:
            continue
        if (attempt.method, attempt.path) in OPERATIONS:
            opened.add((attempt.method, attempt.path))
            assert answer.status != 403, what
            if "{" in attempt.path:
                assert answer.status == 404, what
            elif answer.status < 300:
                reached.add((attempt.method, attempt.path))
        else:
            assert answer.status == 403, what
            assert "the token of a wake can set alarms" in answer.text, what
    assert opened == OPERATIONS
    said = {(method, path) for path, methods in document["paths"].items() for method in methods}
    said = {(method, path) for method, path in said if "wake" in document["paths"][path][method].get("description", "")}
    assert said == OPERATIONS
    assert reached == {operation for operation in OPERATIONS if "{" not in operation[1]}
    assert await state(world, wake) == before


async def test_no_tool_reaches_beyond_the_chain_of_a_wake(world: World, wake: Wake) -> None:
    before = await state(world, wake)
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(world.visit.url + "/mcp", http_client=http)) as eve:
            tools = (await eve.list_tools()).tools
    async with httpx2.AsyncClient(headers=bearer(wake), timeout=30) as http:
        async with Client(streamable_http_client(world.visit.url + "/mcp", http_client=http)) as woken:
            assert {tool.name for tool in (await woken.list_tools()).tools} == TOOLS
            for tool in tools:
                needed = {"required": [*tool.input_schema.get("required", ()), *NEEDED_BY_TOOL.get(tool.name, ())]}
                for arguments in calls(tool.input_schema | needed, world.adas):
                    result = await woken.call_tool(tool.name, arguments)
                    text: str = result.content[0].text  # type: ignore[union-attr]  # all our contents are texts
                    world.check(text, (tool.name, arguments, text), given=bool(result.is_error))
                    if tool.name not in TOOLS:
                        assert result.is_error, (tool.name, arguments, text)
                        assert "the token of a wake can set alarms" in text
                    elif {"id", "fire_id"} & set(tool.input_schema.get("required", ())):
                        assert "there is no" in text, (tool.name, arguments, text)
            for uri in ("alarm://agenda", f"alarm://{world.pending.id}"):
                with pytest.raises(MCPError):
                    await woken.read_resource(uri)
    assert await state(world, wake) == before


async def test_no_page_opens_with_the_token_of_a_wake(world: World, wake: Wake) -> None:
    before, person = await state(world, wake), Person(world.visit, wake.token)
    for _, place in pages(world, "GET"):
        answer = await person.get(place)
        assert answer.status == 403, (place, answer.text)
        world.check(answer.text, place, given=True)
    for _, place in pages(world, "POST"):
        answer = await person.post(place, world.adas, csrf="")
        assert answer.status == 403, (place, answer.text)
    signing_in = await Person(world.visit).post("/login", {"token": wake.token}, csrf="")
    assert (signing_in.status, "set-cookie" in signing_in.headers) == (403, False)
    assert "the token of a wake can set alarms" in signing_in.text
    assert await state(world, wake) == before


async def test_no_socket_stream_or_metric_opens_with_the_token_of_a_wake(world: World, wake: Wake) -> None:
    for path in ("/v1/events", "/metrics", "/v1/ws"):
        answer = await world.visit("GET", path, headers=bearer(wake))
        assert answer.status in (403, 426), (path, answer.text)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await world.visit._session.ws_connect(world.visit.url + "/v1/ws", headers=bearer(wake))
    assert refused.value.status == 403

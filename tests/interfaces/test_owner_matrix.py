"""Every operation, tool, socket call and stream, tried with another owner's token: nothing read, nothing changed.

The attempts are made from what the server says of itself: its document, its list of tools, its list of methods. What is
new there is tried as well, or the test fails and says what it needs to know.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.acting import acting
from wakeful.service.why import kind_of
from wakeful.store import EventQuery, TargetState, Worker
from wakeful.testing import store_of

from .owner_world import NEEDED_BY_TOOL, SECRET, World, attempts, calls, world

__all__ = ["world"]

NOT_FOUND = re.compile("there is no|task not found")
SIGNALS = "/v1/signals/{name}"  # anyone may name a signal: of ada's alarms, none hears eve's


# HTTP


async def test_no_operation_reads_or_changes_what_is_another_owners(world: World) -> None:
    before, document = await world.state(), (await world.visit("GET", "/openapi.json")).json
    reached: dict[tuple[str, str], set[int]] = {}
    for attempt in attempts(document, world.adas):
        answer = await attempt.made(world.visit, world.eve)
        what = (attempt.method, attempt.place, attempt.body, answer.status, answer.text)
        assert str(answer.status) in attempt.entry["responses"], what
        world.check(answer.text, what, given=answer.status >= 300)
        assert attempt.entry.get("security") == [] or answer.status not in (401, 403), what  # it is eve's own token
        if "{" in attempt.path and attempt.path != SIGNALS:
            assert answer.status in (400, 404), what
        reached.setdefault((attempt.method, attempt.path), set()).add(answer.status)
    idle = [operation for operation, statuses in reached.items() if statuses == {400}]
    assert idle == [], "say in GOOD, BODIES or QUERIES how to call these"
    assert len(reached) == sum(len(methods) for methods in document["paths"].values())
    assert await world.state() == before


async def test_no_operation_lets_anyone_in_with_a_revoked_token_or_none(world: World) -> None:
    before, document = await world.state(), (await world.visit("GET", "/openapi.json")).json
    for headers in (world.revoked, {}, {"authorization": "Bearer wk_0123456789abcdef_" + "x" * 43}):
        for attempt in attempts(document, world.adas):
            answer = await attempt.made(world.visit, headers)
            assert str(answer.status) in attempt.entry["responses"], (attempt.method, attempt.place, answer.text)
            world.check(answer.text, (attempt.place, answer.text), given=answer.status >= 300)
            if attempt.entry.get("security") != []:
                assert answer.status == 401, (attempt.method, attempt.place, answer.text)
    assert await world.state() == before


async def test_an_address_of_a_calendar_feed_shows_nothing_of_another_owners(world: World) -> None:
    before = await world.state()
    for owner in ("eve", "eve%", "a", "ad_"):
        token = (await world.visit.token(owner, "calendar"))["authorization"].removeprefix("Bearer ")
        answer = await world.visit("GET", f"/v1/calendar.ics?token={token}")
        assert answer.status == 200
        world.check(answer.text.replace("\r\n ", ""), owner, given=False)
    assert await world.state() == before


# MCP


async def test_no_tool_reads_or_changes_what_is_another_owners(world: World) -> None:
    before = await world.state()
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(world.visit.url + "/mcp", http_client=http)) as eve:
            for tool in (await eve.list_tools()).tools:
                schema = tool.input_schema
                reached = False
                needed = {"required": [*schema.get("required", ()), *NEEDED_BY_TOOL.get(tool.name, ())]}
                for arguments in calls(schema | needed, world.adas):
                    result = await eve.call_tool(tool.name, arguments)
                    text: str = result.content[0].text  # type: ignore[union-attr]  # all our contents are texts
                    world.check(text, (tool.name, arguments, text), given=bool(result.is_error))
                    reached = reached or not result.is_error or NOT_FOUND.search(text) is not None
                    if {"id", "fire_id", "taskId"} & set(schema.get("required", ())):
                        assert result.is_error, (tool.name, arguments, text)
                assert reached, f"say in GOOD how to call {tool.name}"
    assert await world.state() == before


# Sockets and streams


async def test_no_socket_call_tells_what_is_another_owners(world: World) -> None:
    before = await world.state()
    variants = [{}, *({name: value} for name, value in world.adas.items())]
    async with world.visit._session.ws_connect(world.visit.url + "/v1/ws", headers=world.eve) as socket:

        async def call(method: str, params: dict[str, str]) -> dict[str, Any]:
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            found: dict[str, Any] = await socket.receive_json(timeout=30)
            return found

        methods = (await call("no such method", {}))["error"]["data"]["methods"]
        for method in methods:
            codes = set()
            for params in variants:
                answer = await call(method, params)
                world.check(json.dumps(answer), (method, params, answer), given="error" in answer)
                codes.add(answer.get("error", {}).get("code"))
            assert codes - {-32602}, f"no params fit {method}: add some to World.adas"
            assert -32603 not in codes
    assert await world.state() == before


async def test_no_stream_and_no_subscription_tells_what_another_owner_does(world: World) -> None:
    visit, service = world.visit, world.visit.alarms.service
    async with visit._session.get(visit.url + "/v1/events", headers=world.eve) as stream:
        await stream.content.readline()
        async with visit._session.ws_connect(visit.url + "/v1/ws", headers=world.eve) as socket:
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "subscribe"})
            await socket.receive_json(timeout=30)
            await acting(service, "ada", by="ada").pause(world.pending.id, reason=SECRET)
            await visit.fired("ada")
            mine = (
                await visit("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour"}, headers=world.eve)
            ).json
            told = await socket.receive_json(timeout=30)
            assert (told["params"]["what"], told["params"]["alarm_id"]) == ("created", mine["id"])
        while not (line := (await stream.content.readline()).decode()).startswith("data: "):
            assert line, "the stream ended"
        assert json.loads(line.removeprefix("data: "))["alarm_id"] == mine["id"]


# What is everyone's, and what is not


async def test_no_owner_hears_what_a_shared_target_said_to_another_nor_where_it_is(world: World) -> None:
    """ada's wake broke a target, which quotes it; eve's alarm waits for the same target."""
    visit, store, now = world.visit, store_of(world.visit.alarms), await world.visit.alarms.service.now()
    await store.maintenance.beat(
        Worker(id="w", host="inner-host", pid=987654, version="0", started_at=now, seen_at=now, targets=("shared",))
    )
    await store.maintenance.set_target_state(
        TargetState(target="shared", breaker_opened_at=now, last_error=f"HTTP 500: {SECRET}", updated_at=now)
    )
    eves = await visit.alarms.for_owner("eve").set(delay=0.001, wake_message="mine", target="shared")
    async with asyncio.timeout(30):
        while (await visit.alarms.service.now()) <= eves.next_fire_at:
            pass
    answers = [(await visit("GET", f"/v1/alarms/{eves.id}/why", headers=world.eve)).text]
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(visit.url + "/mcp", http_client=http)) as eve:
            for more in ({}, {"part": "facts"}):
                result = await eve.call_tool("alarm_get", {"id": eves.id} | more)
                answers.append(result.content[0].text)  # type: ignore[union-attr]  # all our contents are texts
    assert "HTTP 500" in answers[0]
    assert "HTTP 500" in answers[1]
    for text in answers:
        assert not re.search(f"{SECRET}|inner-host|987654", text), text
    operators = await acting(visit.alarms.service, "eve", limited=False).why(eves.id)
    assert SECRET in operators.summary
    assert "inner-host:987654" in " ".join(operators.facts)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (f"HTTP 503: {SECRET}", "HTTP 503"),
        (f"router returned 502: {SECRET}", "HTTP 502"),
        ("no answer within 30 s", "no answer in time"),
        ("TLS: the certificate is not valid for 'inner-host'", "no secure connection"),
        (f"the row was not inserted: {SECRET}", "it does not take wakes"),
        ("", "it does not take wakes"),
    ],
)
def test_owners_hear_of_what_kind_a_targets_trouble_is(said: str, kind: str) -> None:
    assert kind_of(said) == kind


async def test_what_is_done_with_a_token_is_on_record_under_its_id(world: World) -> None:
    """Several tokens speak for one owner: which of them did it is known, through every door."""
    visit = world.visit
    id = world.eve["authorization"].split("_")[1]
    body = {"wake_message": "mine", "when": "in 1 hour", "idempotency_key": "mine"}
    made = (await visit("POST", "/v1/alarms", body, headers=world.eve)).json
    place = f"/v1/alarms/{made['id']}"
    await visit("POST", "/v1/alarms", body | {"wake_message": "x", "on_conflict": "replace"}, headers=world.eve)
    await visit("PATCH", place, {"label": "x"}, headers=world.eve)
    await visit("POST", f"{place}/pause", {}, headers=world.eve)
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(visit.url + "/mcp", http_client=http)) as eve:
            await eve.call_tool("alarm_update", {"id": made["id"], "action": "resume"})
            await eve.call_tool("alarm_cancel", {"id": made["id"]})
    events = [event for _, event in await store_of(visit.alarms).events(EventQuery(alarm_id=made["id"]))]
    assert [event.what for event in events] == ["replaced", "updated", "paused", "resumed", "cancelled"]
    assert {event.by for event in events} == {f"eve (token {id})"}
    assert made["created_by"] == "eve"

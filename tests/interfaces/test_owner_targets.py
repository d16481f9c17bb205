"""Every operation and tool that takes a target, tried with one that is not for its owner: nothing is sent there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.acting import Draft, keep
from wakeful.model.alarm import Alarm
from wakeful.store import AlarmQuery
from wakeful.testing import store_of

from .owner_world import GOOD, PRIVATE, World, bodies, world

__all__ = ["world"]

# Where a target only chooses among the caller's own: nothing is sent to it.
CHOOSES = ("/v1/alarms/cancel", "/v1/alarms/move", "alarm_cancel", "alarm_inbox")


async def test_no_operation_sends_anything_to_a_target_that_is_not_for_its_owner(world: World) -> None:
    document = (await world.visit("GET", "/openapi.json")).json
    mine = await eves_alarm(world)
    tried = 0
    for path, methods in document["paths"].items():
        for method, entry in () if path in CHOOSES else methods.items():
            for body in bodies(method, path, entry, document, {}):
                for aimed in aimed_at_private(entry, document, body):
                    place = path.format(**world.adas | {"id": mine.id, "alarm_id": mine.id})
                    answer = await world.visit(method.upper(), place, aimed, headers=world.eve)
                    [problem] = [one["problem"] for one in answer.json.get("results", [{"problem": answer.json}])]
                    assert (problem["code"], problem["field"]) == ("unknown_target", "target"), (place, aimed, problem)
                    assert PRIVATE not in problem["fix"]
                    tried += 1
    assert tried >= 3  # setting, setting many and editing
    nowhere = {"wake_message": "mine", "when": "in 1 hour", "target": "nowhere"}
    assert PRIVATE not in (await world.visit("POST", "/v1/alarms", nowhere, headers=world.eve)).text
    for path in ("/v1/targets", "/v1/overview"):
        assert PRIVATE not in (await world.visit("GET", path, headers=world.eve)).text
    assert await at_private(world) == []
    ada = await world.visit.token("ada")
    answer = await world.visit("POST", "/v1/alarms", nowhere | {"target": PRIVATE}, headers=ada)
    assert answer.status == 201, answer.text
    known = (await world.visit("GET", "/v1/targets", headers=ada)).json["targets"]
    assert PRIVATE in [one["target"] for one in known]


def aimed_at_private(entry: dict[str, Any], document: dict[str, Any], body: Any) -> Iterator[Any]:
    """A good body with that target, where it takes one: itself, or each alarm in it."""
    if "requestBody" not in entry:
        return
    name = entry["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    if "target" in document["components"]["schemas"][name]["properties"]:
        yield body | {"target": PRIVATE}
    elif "alarms" in body:
        yield {"alarms": [alarm | {"target": PRIVATE} for alarm in body["alarms"]]}


async def test_no_tool_sends_anything_to_a_target_that_is_not_for_its_owner(world: World) -> None:
    mine, tried = await eves_alarm(world), 0
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(world.visit.url + "/mcp", http_client=http)) as eve:
            for tool in (await eve.list_tools()).tools:
                schema = tool.input_schema
                if "target" not in schema["properties"] or tool.annotations.read_only_hint:  # type: ignore[union-attr]
                    continue
                if tool.name in CHOOSES:
                    continue
                known = GOOD | {"id": mine.id, "fire_id": mine.fire_id, "outcome": "hand_over"}
                arguments = {
                    name: known[name]
                    for name in ("wake_message", "when", "id", "fire_id", "outcome")
                    if name in schema["properties"]
                }
                result = await eve.call_tool(tool.name, arguments | {"target": PRIVATE})
                text: str = result.content[0].text  # type: ignore[union-attr]  # all our contents are texts
                assert result.is_error, (tool.name, text)
                assert f"there is no target '{PRIVATE}'" in text
                assert text.count(PRIVATE) == 1, text
                tried += 1
    assert tried
    assert await at_private(world) == []


async def eves_alarm(world: World) -> Alarm:
    return (
        await keep(world.visit.alarms.service, Draft(owner_did="eve", wake_message="mine", when="in 2 hours"))
    ).alarm


async def at_private(world: World) -> list[Alarm]:
    return await store_of(world.visit.alarms).find(AlarmQuery(owner="eve", target=PRIVATE))

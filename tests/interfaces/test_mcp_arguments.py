"""The schemas of the tools, as clients of several kinds read them, and arguments in each client's own way."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # has no stubs of its own
import pytest
from mcp import Client

from tests.interfaces.mcp_world import SET, Agent, door, woken
from wakeful.mcp import TASK_TOOLS, TOOLS
from wakeful.process.application import LocalWakeful, build
from wakeful.settings import Settings

EVERY = {**TOOLS, **TASK_TOOLS}


@pytest.fixture
async def alarms(tmp_path: Any) -> Any:
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms:
        yield alarms


def closed(shape: Any) -> Any:
    """A schema in OpenAI's strict mode: no object has other fields than it names, and all of these are required."""
    if isinstance(shape, list):
        return [closed(one) for one in shape]
    if not isinstance(shape, dict):
        return shape
    if shape.get("type") == "object":
        assert not shape.get("additionalProperties"), "an object with any fields cannot be converted"
        shape = {**shape, "additionalProperties": False}
    shape = {name: closed(value) for name, value in shape.items()}
    if isinstance(shape.get("properties"), dict):
        shape["required"] = list(shape["properties"])
    return shape


def objects(shape: Any) -> Iterator[dict[str, Any]]:
    inner = shape.values() if isinstance(shape, dict) else shape if isinstance(shape, list) else ()
    if isinstance(shape, dict) and "object" in _types(shape):
        yield shape
    for one in inner:
        yield from objects(one)


def _types(shape: dict[str, Any]) -> list[Any]:
    named = shape.get("type")
    return named if isinstance(named, list) else [named]


@pytest.mark.parametrize("tool", sorted(EVERY))
def test_a_schema_is_converted_for_the_strict_mode_of_openai(tool: str) -> None:
    shape = closed(copy.deepcopy(EVERY[tool].tool().input_schema))
    assert all(one["additionalProperties"] is False for one in objects(shape))
    nothing = dict.fromkeys(shape["properties"])
    required = EVERY[tool].tool().input_schema.get("required", [])
    jsonschema.validate(nothing | dict.fromkeys(required, "x") | _one_of(shape, required), shape)


def _one_of(shape: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: shape["properties"][name]["enum"][0] for name in names if "enum" in shape["properties"][name]}


@pytest.mark.parametrize("tool", sorted(EVERY))
def test_what_need_not_be_given_is_nullable(tool: str) -> None:
    shape = EVERY[tool].tool().input_schema
    for name, field in shape["properties"].items():
        is_optional = name not in shape.get("required", ())
        assert field.get("nullable", False) == is_optional, name
        jsonschema.validate(None if is_optional else field.get("enum", ["x"])[0], field)


def test_the_schemas_of_all_tools_are_short() -> None:
    shapes = [entry.tool().input_schema for entry in TOOLS.values()]
    size = sum(len(json.dumps(shape, separators=(",", ":"), ensure_ascii=False)) for shape in shapes)
    assert size <= 4 * 3000, f"{size // 4} tokens before an agent has done anything"


async def test_what_strict_mode_sends_is_done(alarms: LocalWakeful) -> None:
    async with Client(door(alarms)) as client:
        agent = Agent(client)
        shape = closed(copy.deepcopy(TOOLS["alarm_set"].tool().input_schema))
        policy = dict.fromkeys(shape["properties"]["policy"]["properties"]) | {"max_fires": 1}
        said = dict.fromkeys(shape["properties"]) | SET | {"payload": '{"page": 3}', "policy": policy, "key": "k"}
        jsonschema.validate(said, shape)
        made = (await agent("alarm_set", **said))["alarm"]
        assert (made["payload"], made["policy"]) == ({"page": 3}, {"max_fires": 1})
        wake = await woken(alarms, agent)
        assert (await agent("alarm_inbox", done=json.dumps({wake["fire_id"]: "done"})))["wakes"] == []
        assert (await alarms.fire_of(wake["fire_id"])).result == "done"


async def test_json_and_numbers_in_texts_are_what_they_say(alarms: LocalWakeful) -> None:
    async with Client(door(alarms)) as client:
        agent = Agent(client)
        text = {"payload": '{"a": "[1]"}', "max_failures": "3", "policy": '{"max_fires": "2", "unless": "5"}'}
        made = (await agent("alarm_set", **SET, **text, key="k"))["alarm"]
        assert (made["payload"], made["max_failures"]) == ({"a": "[1]"}, 3)
        assert made["policy"] == {"max_fires": 2, "unless": "5"}
        several = json.dumps([SET | {"key": "7"}, SET | {"key": "8", "max_failures": "1"}])
        made = await agent("alarm_set", alarms=several)
        assert [(await alarms.get(id)).idempotency_key for id in made["ids"]] == ["7", "8"]
        await agent("alarm_set", alarms=[json.dumps(SET | {"key": "9"})])
        assert len((await agent("alarm_list", limit="2"))["alarms"]) == 2
        assert (await agent("alarm_cancel", ids='["7", "8"]', dry_run="true"))["would_cancel"] == 2
        assert (await agent("alarm_cancel", ids='["7", "8"]'))["cancelled"] == 2
        assert (await agent("alarm_cancel", ids="9"))["cancelled"] == 1


async def test_a_text_that_says_nothing_of_the_kind_is_refused(alarms: LocalWakeful) -> None:
    async with Client(door(alarms)) as client:
        agent = Agent(client)
        assert 'Give an object, such as {"page": 3}' in await agent.refused("alarm_set", **SET, payload="page 3")
        for more in ({"payload": "[1]"}, {"max_failures": "three"}, {"max_failures": "true"}, {"policy": "[" * 5000}):
            assert next(iter(more)) in await agent.refused("alarm_set", **SET, **more)

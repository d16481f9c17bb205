"""`wakeful.agents.tools`: functions for a model, bound to one conversation by their host."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import wakeful


def named(tools: list[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {tool.__name__: tool for tool in tools}


async def test_what_a_model_sets_belongs_to_the_conversation_and_target_of_its_host(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "w.db") as alarms:
        alarms.declare("researcher")
        tools = named(wakeful.agents.tools(alarms, conversation_id="s-1", target="researcher"))
        said = await tools["alarm_set"]("tomorrow at 9am", "Check the portal", key="portal")
        assert said.startswith("Set: portal, next at ")
        assert "UTC" in said  # a note says which zone counted
        await alarms.set("in 1 hour", "of another conversation", conversation_id="s-2")
        [alarm] = await alarms.find(conversation_id="s-1")
        assert (alarm.target, alarm.wake_message) == ("researcher", "Check the portal")
        assert (await tools["alarm_list"]()).count("\n") == 0
        assert (await tools["alarm_list"]()).endswith(": Check the portal")


async def test_a_model_moves_and_cancels_its_alarms(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "w.db") as alarms:
        tools = named(wakeful.agents.tools(alarms, conversation_id="s-1"))
        await tools["alarm_set"]("in 1 hour", "Check the portal", key="portal")
        assert (await tools["alarm_move"]("portal", "2040-01-01T00:00:00Z")).startswith(
            "Moved: portal, next at 2040-01-01"
        )
        assert await tools["alarm_cancel"]("portal") == "Cancelled: portal."
        assert await tools["alarm_list"]() == "There is no alarm."


async def test_what_is_refused_is_an_answer_that_says_what_to_do(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "w.db") as alarms:
        tools = named(wakeful.agents.tools(alarms))
        assert 'Try "in 30m"' in await tools["alarm_set"]("30m", "x")
        assert (await tools["alarm_move"]("nowhere", "in 1 hour")).startswith("Nothing was changed: ")
        assert (await tools["alarm_cancel"]("nowhere")).startswith("Nothing was cancelled: ")
        assert await alarms.find() == []


async def test_an_alarm_set_in_the_turn_of_a_wake_is_in_its_chain(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "w.db") as alarms:
        first = await alarms.set(delay=0.01, wake_message="begin")
        async with alarms.running():
            [(_, fire)] = await alarms.inbox(wait=60)
        tools = named(wakeful.agents.tools(alarms, parent_fire=fire.id))
        await tools["alarm_set"]("in 1 hour", "go on")
        [second] = await alarms.find(status="active")
    assert (second.parent_fire, second.root_id) == (fire.id, first.id)


def test_the_functions_of_open_sync_are_plain_and_read_the_same(tmp_path: Path) -> None:
    with wakeful.open_sync(tmp_path / "w.db") as alarms:
        tools = wakeful.agents.tools(alarms, conversation_id="s-1")
        for tool in tools:
            assert not inspect.iscoroutinefunction(tool)
            assert get_type_hints(tool)["return"] is str
            assert all(f"{name}: " in (tool.__doc__ or "") for name in inspect.signature(tool).parameters)
        assert named(tools)["alarm_set"]("in 1 hour", "x", key="k").startswith("Set: k")
        assert alarms.get("k").conversation_id == "s-1"

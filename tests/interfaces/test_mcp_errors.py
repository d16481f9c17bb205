"""An error of a tool says which field was wrong, that nothing was changed, and names a call that works."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.interfaces.mcp_world import SET, Agent, door, taught, woken
from wakeful.errors import InvalidRequest
from wakeful.mcp import TOOLS, _read
from wakeful.mcp.schemas import SetArguments
from wakeful.process.application import LocalWakeful, build
from wakeful.settings import Settings


@pytest.fixture
async def alarms(tmp_path: Path) -> AsyncIterator[LocalWakeful]:
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms:
        yield alarms


LOOKING = ("alarm_list", "alarm_agenda", "alarm_history", "alarm_get")
WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("alarm_set", {"when": "in 1 hour"}, "wake_message", "It takes: when*, wake_message*, key"),
    ("alarm_set", SET | {"time": "9am"}, "time", "It takes"),
    ("alarm_set", SET | {"when": "yesterday"}, "when", "past"),
    ("alarm_set", SET | {"when": "soonish"}, "when", "not"),
    ("alarm_set", SET | {"when": 5}, "when", "Expected `str`"),
    ("alarm_set", SET | {"when": "every week", "key": "k"}, "when", '"when":"every monday at 9am"'),
    ("alarm_set", SET | {"when": "every week"}, "when", '{"when":"every monday at 9am","wake_message":"x"}'),
    ("alarm_set", SET | {"when": "every 3rd friday"}, "when", "To check: alarm_list"),  # it has two meanings
    ("alarm_set", SET | {"when": "every week", "wake_message": "x" * 3000}, "when", "To check: alarm_list"),
    ("alarm_update", {"id": "ID", "when": "monthly", "kind": "cron"}, "when", '"when":"every 1st of the month at 9am"'),
    ("alarm_update", {"id": "ID", "when": "soonish"}, "when", "To check: alarm_get"),
    ("alarm_set", SET | {"timezone": "Mars/Base"}, "timezone", "Mars/Base"),
    ("alarm_set", SET | {"target": "https://evil.example"}, "target", "Known names: inbox"),
    ("alarm_set", SET | {"payload": "text"}, "payload", "Expected `object`"),
    ("alarm_set", SET | {"wake_message": "a\x00b"}, "wake_message", "NUL"),
    ("alarm_set", SET | {"wake_message": "x" * 40_000}, "wake_message", "32768"),
    ("alarm_set", SET | {"policy": {"max_fires": 0}}, "policy.max_fires", ">= 1"),
    ("alarm_set", SET | {"policy": {"report_within": "soon"}}, "policy.report_within", "soon"),
    ("alarm_set", SET | {"on_conflict": "merge"}, "on_conflict", "Accepted: error, replace, return"),
    ("alarm_set", SET | {"parent_fire": "x@1"}, "parent_fire", "there is no fire"),
    ("alarm_set", SET | {"payload": {"a": [json.loads("[" * 110 + "]" * 110)]}}, "arguments", "Nest it less deeply"),
    ("alarm_list", {"status": "done"}, "status", "Accepted: active, all"),
    ("alarm_list", {"limit": 51}, "limit", "<= 50"),
    ("alarm_list", {"cursor": "?"}, "cursor", "next_cursor"),
    ("alarm_list", {"cursor": "9" * 30 + ".x"}, "cursor", "next_cursor"),
    ("alarm_list", {"text": "a\x00b"}, "text", "NUL"),
    ("alarm_get", {"id": "a\x00b"}, "id", "NUL"),
    ("alarm_cancel", {"id": "ID", "reason": "a\x00b"}, "reason", "NUL"),
    ("alarm_get", {}, "id", "It takes: id*"),
    ("alarm_get", {"id": "nope"}, "id", "there is no alarm"),
    ("alarm_get", {"id": "nope@1"}, "id", "there is no alarm"),
    ("alarm_get", {"id": "nope@now"}, "id", "there is no alarm"),
    ("alarm_get", {"id": "ID", "part": "everything"}, "part", "Accepted: facts"),
    ("alarm_get", {"id": "ID", "part": "result"}, "id", "fire_id"),
    ("alarm_update", {"id": "nope", "when": "in 1 hour"}, "id", "there is no alarm"),
    ("alarm_update", {"id": "ID"}, "action", "nothing to change"),
    ("alarm_update", {"id": "ID", "action": "stop"}, "action", "Accepted: append"),
    ("alarm_update", {"id": "ID", "action": "snooze"}, "for", "such as"),
    ("alarm_update", {"id": "ID", "action": "skip"}, "id", "Cancel it, or snooze it"),
    ("alarm_update", {"id": "ID", "action": "skip", "for": "1h"}, "for", "skip takes: at"),
    ("alarm_update", {"id": "ID", "action": "skip", "at": "soonish"}, "at", "tomorrow at 9am"),
    ("alarm_update", {"id": "ID", "action": "pause", "when": "in 1 hour"}, "when", "pause takes: reason"),
    ("alarm_update", {"id": "ID", "when": "in 1 hour", "version": 7}, "version", "not 7"),
    ("alarm_update", {"id": "ENDED", "when": "in 1 hour"}, "id", "cancelled"),
    ("alarm_cancel", {"id": 7}, "id", "Expected `str`"),
    ("alarm_cancel", {"id": "nope"}, "id", "there is no alarm"),
    ("alarm_report", {"fire_id": "FIRE", "outcome": "done"}, "outcome", "Accepted: completed, failed, hand_over"),
    ("alarm_report", {"fire_id": "FIRE", "outcome": "snooze"}, "for", "15m"),
    ("alarm_report", {"fire_id": "ID", "outcome": "completed"}, "fire_id", "of your wake"),
    ("alarm_report", {"fire_id": "nope@1", "outcome": "completed"}, "fire_id", "there is no fire"),
    ("alarm_inbox", {"wait": 61}, "wait", "<= 60"),
    ("alarm_inbox", {"limit": 6}, "limit", "<= 5"),
]


@pytest.mark.parametrize(("tool", "arguments", "field", "says"), WRONG)
async def test_an_error_names_the_field_and_a_call_that_works(
    alarms: LocalWakeful, tool: str, arguments: dict[str, Any], field: str, says: str
) -> None:
    async with Client(door(alarms)) as client:
        agent = Agent(client)
        wake = await woken(alarms, agent)
        ended = (await alarms.set("in 1 hour", "ended")).id
        await alarms.cancel(ended)
        await alarms.set(delay=0.001, wake_message="waiting")  # so that waiting for the inbox ends
        while not await alarms.run_due():
            pass
        names = {"ID": (await alarms.set("in 1 hour", "x")).id, "FIRE": wake["fire_id"], "ENDED": ended}
        arguments = {name: names.get(str(value), value) for name, value in arguments.items()}
        before = [(alarm.id, alarm.version) for alarm in await alarms.find()]
        text = await agent.refused(tool, **arguments)
        assert text.startswith(f"{tool}: {field}: "), text
        assert says in text
        assert [(alarm.id, alarm.version) for alarm in await alarms.find()] == before
        hinted, again = taught(text)
        assert await agent.as_taught(text)
        if hinted in LOOKING:
            assert [(alarm.id, alarm.version) for alarm in await alarms.find()] == before
        if hinted not in LOOKING or hinted == tool:
            assert hinted == tool, "a hint that does something repeats what was asked for"
            differing = {name for name in {*arguments, *again} if arguments.get(name) != again.get(name)}
            assert len(differing) <= 1 or again == {"status": "all"}
            assert all(name in arguments for name in differing), "nothing is added that was not asked for"


@pytest.mark.parametrize("tool", TOOLS)
async def test_no_hint_makes_up_an_outcome_or_a_change(alarms: LocalWakeful, tool: str) -> None:
    """Whatever is wrong with a call: what is recommended names nothing that the caller did not say."""
    async with Client(door(alarms)) as client:
        agent = Agent(client)
        wake = await woken(alarms, agent)
        series = (await alarms.set("every weekday at 9am", "x")).id
        told = {"id": series, "fire_id": wake["fire_id"]}
        properties = next(one for one in (await client.list_tools()).tools if one.name == tool).input_schema[
            "properties"
        ]
        own = {name: told[name] for name in told if name in properties}
        for name in properties:
            wrong = own | {name: ["of no kind that is taken"]}
            hinted, again = taught(await agent.refused(tool, **wrong))
            assert hinted in (*LOOKING, tool)
            if hinted == tool and hinted not in LOOKING:
                assert again.items() <= wrong.items()
            else:
                assert {*again.values()} <= {*own.values(), "all"}
            await agent(hinted, **again)


async def test_a_number_that_json_does_not_have_is_refused_by_its_argument(alarms: LocalWakeful) -> None:
    """Some programs write NaN all the same, and what reads our requests takes it; the official client makes it null."""
    arguments = SET | {"payload": {"celsius": float("nan")}}
    with pytest.raises(InvalidRequest, match="payload: it holds nan, which JSON does not have"):
        _read(arguments, SetArguments)

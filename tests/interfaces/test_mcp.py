"""The tools, driven by the official client: in memory and over HTTP, in this protocol and the one before."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # has no stubs of its own
import pytest
from mcp import Client

from tests.interfaces.mcp_world import MODES, SET, Agent, door, the_whole_round, woken
from wakeful.mcp import TASK_TOOLS, TOOLS
from wakeful.mcp.agent_views import cut
from wakeful.mcp.schemas import as_meant, schema
from wakeful.process.application import LocalWakeful, build
from wakeful.settings import Settings
from wakeful.testing import store_of

DOCS = Path(__file__).parents[2] / "docs"
LOOKING = ("alarm_list", "alarm_agenda", "alarm_history", "alarm_get")
NEEDED: dict[str, dict[str, Any]] = {
    "alarm_set": {"when": "in 1 hour", "wake_message": "x"},
    "alarm_list": {},
    "alarm_agenda": {},
    "alarm_history": {},
    "alarm_get": {"id": "?"},
    "alarm_update": {"id": "?", "action": "pause"},
    "alarm_cancel": {"id": "?"},
    "alarm_signal": {"name": "reply"},
    "alarm_report": {"fire_id": "?", "outcome": "completed"},
    "alarm_inbox": {},
}


@pytest.fixture
async def alarms(tmp_path: Path) -> AsyncIterator[LocalWakeful]:
    async with build(Settings(db=str(tmp_path / "w.db"), timezone="Europe/Berlin")) as alarms:
        yield alarms


@pytest.fixture(params=MODES)
async def agent(alarms: LocalWakeful, request: pytest.FixtureRequest) -> AsyncIterator[Agent]:
    met: asyncio.Future[Agent] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def meeting() -> None:  # in a task of its own: a client must end in the task it began in
        async with Client(door(alarms), mode=request.param) as client:
            met.set_result(Agent(client))
            await over.wait()

    running = asyncio.create_task(meeting())
    await asyncio.wait((met, running), return_when=asyncio.FIRST_COMPLETED)
    yield met.result()
    over.set()
    await running


async def test_every_tool_does_its_work(agent: Agent) -> None:
    await the_whole_round(agent)


async def test_an_agent_takes_its_wake_and_reports(alarms: LocalWakeful, agent: Agent) -> None:
    wake = await woken(alarms, agent, payload={"page": 3}, label="portal")
    assert (wake["message"], wake["payload"], wake["label"]) == ("work", {"page": 3}, "portal")
    working = await agent("alarm_report", fire_id=wake["fire_id"], outcome="working", result="half")
    assert working["fire"]["report_by"] >= wake["report_by"]
    done = await agent("alarm_report", fire_id=wake["fire_id"], outcome="completed", result="3 grants")
    assert (done["fire"]["status"], done["fire"]["result"]) == ("completed", "3 grants")
    assert (await agent("alarm_report", fire_id=wake["fire_id"], outcome="completed"))["fire"]["result"] == "3 grants"
    seen = await agent("alarm_get", id=wake["alarm_id"])
    assert [fire["status"] for fire in seen["fires"]] == ["completed"]


async def test_a_snoozed_wake_comes_again_and_a_failed_one_is_retried(alarms: LocalWakeful, agent: Agent) -> None:
    wake = await woken(alarms, agent)
    assert (await agent("alarm_report", fire_id=wake["fire_id"], outcome="snooze", **{"for": "1h"}))["alarm"][
        "status"
    ] == "active"
    wake = await woken(alarms, agent)
    failed = await agent("alarm_report", fire_id=wake["fire_id"], outcome="failed", reason="HTTP 503")
    assert (failed["fire"]["status"], failed["alarm"]["last_error"]) == ("retrying", "HTTP 503")


async def test_the_key_of_an_ended_alarm_is_not_taken_for_a_new_one(agent: Agent) -> None:
    id = (await agent("alarm_set", when="in 1 hour", wake_message="x", key="k"))["alarm"]["id"]
    await agent("alarm_cancel", id=id)
    told = await agent("alarm_set", when="in 1 hour", wake_message="x", key="k")
    assert (told["deduped"], told["alarm"]["status"]) == (True, "cancelled")
    assert "had this key and is cancelled: nothing was set. Nothing will fire" in told["notes"][0]
    assert told["summary"].startswith("Nothing was set")
    anew = await agent("alarm_set", when="in 1 hour", wake_message="x", key="k", on_conflict="replace")
    assert (anew["alarm"]["id"], anew["alarm"]["status"]) == (id, "active")


async def test_of_many_an_ended_alarm_is_told_and_the_others_are_set(agent: Agent) -> None:
    old = {"when": "in 1 hour", "wake_message": "x", "key": "old"}
    id = (await agent("alarm_set", **old))["alarm"]["id"]
    await agent("alarm_cancel", id=id)
    made = await agent("alarm_set", alarms=[old, {**old, "key": "new"}])
    assert made["summary"].startswith("Set 1 of 2 alarms; 1 existed already. 1 of those has ended: give on_conflict")
    assert [one["status"] for one in made["alarms"]] == ["cancelled", "active"]


async def test_a_similar_alarm_and_a_missing_worker_are_named(agent: Agent) -> None:
    first = await agent("alarm_set", when="0 9 * * *", wake_message="x")
    assert any("No running worker serves 'inbox' yet" in note for note in first["notes"])
    second = await agent("alarm_set", when="0 9 * * *", wake_message="x")
    assert second["similar"] == first["alarm"]["id"]


async def test_a_wake_may_set_the_next_one(alarms: LocalWakeful, agent: Agent) -> None:
    wake = await woken(alarms, agent)
    made = await agent("alarm_set", when="in 1 hour", wake_message="next", parent_fire=wake["fire_id"])
    alarm = await alarms.get(made["alarm"]["id"])
    assert (alarm.parent_fire, alarm.root_id, alarm.generation) == (wake["fire_id"], wake["alarm_id"], 1)


async def test_an_unknown_tool_is_answered_with_the_known_ones(agent: Agent) -> None:
    result = await agent.client.call_tool("wake_me_up", {})
    assert result.is_error
    assert all(name in result.content[0].text for name in TOOLS)  # type: ignore[union-attr]


async def test_what_breaks_tells_nothing_and_is_logged(
    alarms: LocalWakeful, agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(store_of(alarms), "find", broken)
    result = await agent.client.call_tool("alarm_list", {})
    assert result.is_error
    assert "secret" not in result.content[0].text  # type: ignore[union-attr]
    assert "secret" in caplog.text


# Sizes


async def test_a_thousand_alarms_come_in_pages_that_miss_none(alarms: LocalWakeful) -> None:
    made = [(await alarms.set("in 1 hour", f"{n} " + "й\n" * 3000, label="l" * 900)).id for n in range(1000)]
    seen: list[str] = []
    async with Client(door(alarms)) as client:
        agent, cursor = Agent(client), ""
        while cursor or not seen:
            page = await agent("alarm_list", limit=50, cursor=cursor)
            seen += [alarm["id"] for alarm in page["alarms"]]
            cursor = page.get("next_cursor", "")
    assert sorted(seen) == sorted(made)


@pytest.mark.parametrize("sign", ["x", "й", "\n", '"', "\U0001f600", "\x1f"])
async def test_the_longest_texts_stay_within_bounds_and_can_be_read_in_pieces(alarms: LocalWakeful, sign: str) -> None:
    size = len(sign.encode())
    message, name = sign * (32 * 1024 // size) + "", sign.replace("\n", "n").replace("\x1f", "c") * (1000 // size)
    payload = {"a": sign * (10_000 // size)}
    more = {"label": name, "conversation_id": name, "key": name}
    async with Client(door(alarms)) as client:
        agent = Agent(client)
        asked: dict[str, Any] = {"wake_message": "." + message[1:], "payload": payload} | more
        made = await agent("alarm_set", when="0 9 * * *", **asked)
        id = made["alarm"]["id"]
        assert any("wake_message is cut" in note for note in made["notes"])
        await agent("alarm_get", id=id)
        for _ in range(5):
            await alarms.set(delay=0.001, **asked | {"key": ""})
        fired = 0
        while fired < 5:
            fired += await alarms.run_due()
        wakes = (await agent("alarm_inbox"))["wakes"]
        assert len(wakes) == 5
        for wake in wakes:
            await agent("alarm_report", fire_id=wake["fire_id"], outcome="completed", result=message)
        await agent("alarm_get", id=wakes[0]["alarm_id"])
        assert await read(agent, id, "wake_message") == "." + message[1:]
        assert json.loads(await read(agent, id, "payload")) == payload
        assert message.startswith(await read(agent, wakes[0]["fire_id"], "result"))


async def read(agent: Agent, id: str, part: str) -> str:
    text, offset = "", 0
    while offset or not text:
        piece = await agent("alarm_get", id=id, part=part, offset=offset)
        text, offset = text + piece["text"], piece.get("next_offset", 0)
    return text


@pytest.mark.parametrize("text", ["", "short", "x" * 500, "й" * 500, "\x01" * 500])
def test_what_is_cut_fits_and_what_fits_is_not_cut(text: str) -> None:
    kept = cut(text, 100)
    assert len(json.dumps(kept, ensure_ascii=False).encode()) <= 100
    assert (kept == text) == (len(text) < 90)


# Owners


async def test_another_owner_finds_and_changes_nothing(alarms: LocalWakeful) -> None:
    async with Client(door(alarms)) as client:
        wake = await woken(alarms, Agent(client))
        pending = (await alarms.set("in 1 hour", "mine")).id
    async with Client(door(alarms, "mallory")) as client:
        mallory = Agent(client)
        assert (await mallory("alarm_list", status="all"))["alarms"] == []
        assert (await mallory("alarm_inbox"))["wakes"] == []
        for id in (pending, wake["alarm_id"]):
            told = {await mallory.refused("alarm_get", id=one) for one in (id, "00000000-0000-7000-8000-000000000000")}
            assert len({re.sub(r"'[^']*'|\d{4}-\d\d-\d\dT[\d:.]+Z", "", text) for text in told}) == 1
            await mallory.refused("alarm_update", id=id, when="in 2 hours")
            await mallory.refused("alarm_update", id=id, action="pause")
            await mallory.refused("alarm_cancel", id=id)
            await mallory.refused("alarm_cancel", ids=[id])
            for action in ("fire", "retry", "snooze"):
                more = {"for": "9h"} if action == "snooze" else {}
                await mallory.refused("alarm_update", id=id, action=action, **more)
        assert (await mallory("alarm_cancel", text="m"))["summary"].startswith("0 alarms")
        assert (await mallory("alarm_agenda"))["agenda"] == (await mallory("alarm_history"))["history"] == []
        await mallory.refused("alarm_inbox", done={wake["fire_id"]: "done"})
        assert "no" in await mallory.refused("alarm_get", id=wake["fire_id"])
        await mallory.refused("alarm_report", fire_id=wake["fire_id"], outcome="completed")
        await mallory.refused("alarm_set", when="in 1 hour", wake_message="x", parent_fire=wake["fire_id"])
    assert (await alarms.get(pending)).version == 1


@pytest.mark.parametrize("tool", sorted(TOOLS))
async def test_a_token_for_reading_changes_nothing(alarms: LocalWakeful, tool: str) -> None:
    async with Client(door(alarms, scopes=frozenset({"read"}), local=False)) as client:
        result = await client.call_tool(tool, NEEDED[tool])
        text = result.content[0].text  # type: ignore[union-attr]
    assert ("this request needs write" in text) == (TOOLS[tool].scope == "write")


async def test_nobody_is_everybody(alarms: LocalWakeful) -> None:
    async with Client(door(alarms, "")) as client:
        assert "does not name an owner" in await Agent(client).refused("alarm_list")


async def test_an_owner_with_a_token_is_limited(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"), quota_active=1)) as alarms:
        async with Client(door(alarms, "ana", local=False)) as client:
            agent = Agent(client)
            assert "fires more often" in await agent.refused("alarm_set", when="every 10 seconds", wake_message="x")
            id = (await agent("alarm_set", **SET))["alarm"]["id"]
            text = await agent.refused("alarm_set", **SET)
            assert "1 are allowed" in text
            assert (await agent.as_taught(text))["alarms"][0]["id"] == id
            often = {"when": "every 10 seconds", "kind": "cron"}
            assert "fires more often" in await agent.refused("alarm_update", id=id, **often)


# What a client is told


async def test_tools_say_what_they_take_and_do(agent: Agent) -> None:
    listed = (await agent.client.list_tools()).tools
    assert [tool.name for tool in listed] == list(TOOLS)
    for tool in listed:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        assert tool.output_schema["additionalProperties"] is False
        assert {"summary", "now"} <= set(tool.output_schema["required"])
        assert all("type" in shape or "anyOf" in shape for shape in tool.input_schema["properties"].values())
        assert all("description" in shape for shape in tool.input_schema["properties"].values())
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint == (tool.name in LOOKING)
        assert tool.annotations.destructive_hint == (tool.name in ("alarm_update", "alarm_cancel", "alarm_signal"))
        jsonschema.validate(NEEDED[tool.name], tool.input_schema)


async def test_instructions_fit_and_name_what_matters(agent: Agent) -> None:
    said = agent.client.instructions or ""
    assert len(said) < 2000
    for word in ("remind", "follow up", "rate limit", "key", "alarm_report", "timezone", "alarm_inbox"):
        assert word in said


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_every_tool_and_argument_is_documented(tool: str) -> None:
    section = (DOCS / "mcp.md").read_text().partition(f"### `{tool}`")[2].partition("\n##")[0]
    assert section
    names = TOOLS[tool].tool().input_schema["properties"]
    assert [name for name in names if f"`{name}`" not in section] == []


def test_the_documentation_counts_the_tools() -> None:
    text = (DOCS / "mcp.md").read_text()
    numbers = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
    ]
    assert f"alarms with {numbers[len(TOOLS)]} tools" in text
    assert f"[{numbers[len(TASK_TOOLS)].title()} more](#the-task-tools)" in text
    assert f"{numbers[len(TASK_TOOLS)].title()} more tools write rows" in text
    assert sorted(re.findall(r"^\| `(\w+)` \|.*\| (?:read|write) \|", text, re.MULTILINE)) == sorted(
        [*TOOLS, *TASK_TOOLS]
    )


async def test_several_with_a_key_whose_alarm_has_ended_are_set_and_it_is_said(
    alarms: LocalWakeful, agent: Agent
) -> None:
    items = [SET | {"key": key, "wake_message": key} for key in ("a", "b")]
    await agent("alarm_set", **items[0])
    await agent("alarm_cancel", id="a")
    several = [SET | {"wake_message": "every day", "when": "every day at 9am"}, *items]
    told = await agent("alarm_set", alarms=several)
    assert "is cancelled: nothing was set" in told["notes"][0]
    assert [alarm.status for alarm in [await alarms.get(id) for id in told["ids"]]] == ["active", "cancelled", "active"]


def nulls(tool: str, **given: Any) -> dict[str, Any]:
    """A call as some clients make it: with null for each argument that nobody named."""
    return dict.fromkeys(schema({**TOOLS, **TASK_TOOLS}[tool].takes)["properties"]) | given


async def test_null_for_an_argument_is_as_if_it_was_not_given(alarms: LocalWakeful, agent: Agent) -> None:
    policy = dict.fromkeys(schema(TOOLS["alarm_set"].takes)["properties"]["policy"]["properties"])
    made = await agent("alarm_set", **nulls("alarm_set", **SET, key="k", policy=policy | {"max_fires": 1}))
    assert made["alarm"]["policy"] == {"max_fires": 1}
    one = nulls("alarm_set", wake_message="y")
    many = await agent("alarm_set", **nulls("alarm_set", when="in 2 hours", target="inbox", alarms=[one, one]))
    assert [alarm["wake_message"] for alarm in many["alarms"]] == ["y", "y"]
    for tool in ("alarm_list", "alarm_agenda", "alarm_history", "alarm_inbox"):
        assert await agent(tool, **nulls(tool))
    assert (await agent("alarm_get", **nulls("alarm_get", id="k")))["alarm"]["key"] == "k"
    changed = await agent("alarm_update", **nulls("alarm_update", id="k", label="l", payload={"a": None}))
    assert (changed["alarm"]["label"], changed["alarm"]["payload"]) == ("l", {"a": None})
    moved = await agent("alarm_update", **nulls("alarm_update", id="k", timezone="Asia/Tokyo"))
    assert moved["alarm"]["label"] == "l"
    assert (await agent("alarm_signal", **nulls("alarm_signal", name="s")))["alarms"] == []
    assert (await agent("alarm_cancel", **nulls("alarm_cancel", id="k")))["alarm"]["status"] == "cancelled"
    wake = await woken(alarms, agent)
    said = nulls("alarm_report", fire_id=wake["fire_id"], outcome="completed")
    assert (await agent("alarm_report", **said))["fire"]["status"] == "completed"


@pytest.mark.parametrize("tool", sorted({**TOOLS, **TASK_TOOLS}))
def test_every_argument_of_every_tool_may_be_null(tool: str) -> None:
    assert as_meant(nulls(tool), {**TOOLS, **TASK_TOOLS}[tool].takes) == {}


async def test_an_edit_clears_a_field_with_an_empty_value_and_a_policy_with_null(agent: Agent) -> None:
    given = {"label": "l", "conversation_id": "c", "payload": {"a": 1}, "policy": {"max_fires": 3, "unless": "s"}}
    await agent("alarm_set", **SET, key="k", **given)
    kept = (await agent("alarm_update", id="k", label=None, payload=None, policy=None, wake_message="z"))["alarm"]
    assert {name: kept[name] for name in given} == given
    empty: dict[str, Any] = {"label": "", "conversation_id": "", "payload": {}, "policy": {"max_fires": None}}
    cleared = (await agent("alarm_update", id="k", **empty))["alarm"]
    assert {name: cleared.get(name) for name in given} == {
        "label": None,
        "conversation_id": None,
        "payload": None,
        "policy": {"unless": "s"},
    }


async def test_a_manual_fire_is_in_the_history_of_its_alarm(alarms: LocalWakeful, agent: Agent) -> None:
    made = await agent("alarm_set", **SET, key="k")
    copy = await agent("alarm_update", id="k", action="fire")
    assert [one["id"] for one in (await agent("alarm_list"))["alarms"]] == [made["alarm"]["id"]]
    await alarms.run_due()
    told = {one["id"].partition("@")[0]: one.get("manual", False) for one in (await agent("alarm_history"))["history"]}
    assert told == {made["alarm"]["id"]: False, copy["alarm"]["id"]: True}
    shown = await agent("alarm_get", id="k")
    assert "It was fired by hand" in shown["why"]
    assert [fire["manual"] for fire in shown["fires"]] == [True]


async def test_null_for_what_is_needed_or_not_known_is_refused(agent: Agent) -> None:
    assert "missing required field `id`" in await agent.refused("alarm_get", id=None)
    assert "missing required field `when`" in await agent.refused("alarm_set", **SET | {"when": None})
    assert "colour" in await agent.refused("alarm_list", colour=None)
    assert "nothing to change" in await agent.refused("alarm_update", **nulls("alarm_update", id="k"))


async def test_all_of_tomorrow_is_moved_or_left_out(agent: Agent) -> None:
    await agent("alarm_set", when="tomorrow at 9am", wake_message="x", key="once")
    range_ = {"due_from": "tomorrow", "due_to": "tomorrow"}
    would = await agent("alarm_update", id="all", action="move", by="1d", **range_, dry_run=True)
    assert (would["would_move"], would["summary"]) == (1, "1 alarm would be moved; nothing was.")
    moved = await agent("alarm_update", id="all", action="move", by="1d", **range_)
    assert (moved["moved"], len(moved["alarms"])) == (1, 1)
    assert (await agent("alarm_cancel", **range_))["summary"] == "0 alarms cancelled."
    again = await agent("alarm_update", id="once", action="move", by="2h")
    assert again["alarm"]["next_fire_local"].partition("T")[2].startswith("11:00")
    zoned = await agent("alarm_update", id="all", timezone="Asia/Tokyo")
    assert (zoned["moved"], (await agent("alarm_get", id="once"))["alarm"]["timezone"]) == (1, "Asia/Tokyo")
    daily = await agent("alarm_set", when="every day at 9am", wake_message="y", key="daily")
    left_out = await agent("alarm_cancel", due_to=daily["alarm"]["next_fire_at"])
    assert (left_out["skipped"], left_out["alarms"][0]["status"]) == (1, "active")
    assert "all alarms can only be moved" in await agent.refused("alarm_update", id="all", label="l")
    assert "exactly one of by and timezone" in await agent.refused("alarm_update", id="all", action="move")
    assert "does not go with action" in await agent.refused("alarm_update", id="once", label="l", dry_run=True)

"""Waiting for a wake over MCP: what a client that gave up would have got goes to the next call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.interfaces.mcp_world import MODES, Agent
from tests.interfaces.test_mcp_http import JSON, visiting
from tests.interfaces.world import Visitor, serving

WAKES = 8


async def gives_up(agent: Agent, **arguments: Any) -> None:
    """Call as a client that waits a second does."""
    with pytest.raises(MCPError, match="timed out"):
        await agent.client.call_tool("alarm_inbox", {"wait": 50, **arguments}, read_timeout_seconds=1)


async def waiting(visit: Visitor, count: int, owner: str = "local") -> None:
    """Wait until so many calls wait at the inbox; for less than those wait that nobody ends.

    A call that waits looks at the inbox now and then, and is not in the list for that moment.
    """
    seen = 0
    async with asyncio.timeout(30):
        while seen < 10:
            is_so = len(visit.alarms.service.inbox_signal._waiting.get(owner, ())) == count
            seen = seen + 1 if is_so else 0
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_with_a_short_timeout_gets_every_wake(tmp_path: Path, mode: str) -> None:
    async with serving(str(tmp_path / "w.db")) as visit, visiting(visit, mode) as agent:
        async with asyncio.TaskGroup() as group:
            for _ in range(WAKES):
                group.create_task(gives_up(agent, limit=1))
        await waiting(visit, 0)
        for number in range(WAKES):
            await visit.alarms.set(delay=0.001, wake_message=f"{number}")
        got: list[str] = []
        async with asyncio.timeout(60):
            while len(got) < WAKES:
                found = await agent("alarm_inbox", wait=4, limit=1)
                assert [wake["attempt"] for wake in found["wakes"]] == [1] * len(found["wakes"])
                got += [wake["message"] for wake in found["wakes"]]
        assert sorted(got) == [str(number) for number in range(WAKES)]


@pytest.mark.parametrize("mode", MODES)
async def test_who_leaves_is_forgotten_and_who_stays_is_not(tmp_path: Path, mode: str) -> None:
    async with serving(str(tmp_path / "w.db")) as visit, visiting(visit, mode) as agent:
        await gives_up(agent)
        await waiting(visit, 0)
        async with asyncio.TaskGroup() as group:
            stayed = group.create_task(agent("alarm_inbox", wait=50))
            await waiting(visit, 1)
            await gives_up(agent)
            await waiting(visit, 1)
            await visit.alarms.set(delay=0.001, wake_message="for who stays")
        assert [wake["message"] for wake in stayed.result()["wakes"]] == ["for who stays"]
        empty = await agent("alarm_inbox")
        fire_id, until = stayed.result()["wakes"][0]["fire_id"], stayed.result()["wakes"][0]["report_by"]
        [note] = empty["notes"]
        assert note.startswith("1 wake is with a reader who took it before, until ")
        assert until[:19] in note
        assert fire_id in note
        assert empty["summary"] == f"0 wakes. {note}"


async def test_who_stops_waiting_over_http_leaves_the_wake_to_the_next(visit: Visitor) -> None:
    left = asyncio.create_task(visit("POST", "/v1/inbox?wait=50"))
    await waiting(visit, 1)
    left.cancel()  # closes its connection
    await waiting(visit, 0)
    await visit.set(when=None, delay_seconds=0.001)
    [wake] = (await visit("POST", "/v1/inbox?wait=50")).json["wakes"]
    assert wake["attempt"] == 1


def cancels(number: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


async def test_only_who_made_a_call_cancels_it(visit: Visitor) -> None:
    ana, eve = await visit.token("ana"), await visit.token("eve")
    call = {"name": "alarm_inbox", "arguments": {"wait": 50}}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
    asking = asyncio.create_task(visit("POST", "/mcp", body, headers=JSON | ana))
    await waiting(visit, 1, "ana")
    for who, number in ((eve, 7), (ana, 8), (ana, None), (ana, [7]), (ana, {"a": 7})):
        assert (await visit("POST", "/mcp", cancels(number), headers=JSON | who)).status in (202, 400)
    await visit.alarms.for_owner("ana").set(delay=0.001, wake_message="hers")
    wakes = (await asking).json["result"]["structuredContent"]["wakes"]
    assert [wake["message"] for wake in wakes] == ["hers"]


async def test_a_call_that_was_cancelled_is_answered(visit: Visitor) -> None:
    """A client that closes nothing waits for it, and so may another one that numbers its calls the same."""
    ana = await visit.token("ana")
    call = {"name": "alarm_inbox", "arguments": {"wait": 50}}
    body = {"jsonrpc": "2.0", "id": "7", "method": "tools/call", "params": call}
    asking = [asyncio.create_task(visit("POST", "/mcp", body, headers=JSON | ana)) for _ in range(2)]
    await waiting(visit, 2, "ana")
    assert (await visit("POST", "/mcp", cancels(7), headers=JSON | ana)).status == 202
    for answer in await asyncio.gather(*asking):
        assert answer.json["result"]["isError"]
        assert "no wake was taken" in answer.json["result"]["content"][0]["text"]


async def test_what_is_not_waiting_is_not_cancelled(visit: Visitor) -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "alarm_list", "arguments": {}}}
    assert (await visit("POST", "/mcp", cancels(7), headers=JSON)).status == 202
    assert not (await visit("POST", "/mcp", body, headers=JSON)).json["result"].get("isError")

"""`wakeful mcp --channel` as Claude Code starts it: each wake of the inbox comes as a notification."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.mcp_world import MODES, the_whole_round
from tests.interfaces.test_mcp_stdio import HELLO, WAKEFUL, connected, environ
from wakeful.http.security.auth import mint
from wakeful.mcp import channel
from wakeful.process.application import LocalWakeful, build
from wakeful.settings import Settings
from wakeful.testing import store_of

PATIENCE = 60.0


class ClaudeCode:
    """The part of a client that starts the server, shows channel events to its model, and calls tools for it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            message = json.loads(line)
            if message.get("method") == "notifications/claude/channel":
                self._events.put_nowait(message["params"])
            else:
                self._answers.put_nowait(message)

    async def begin(self) -> dict[str, Any]:
        await self._say(HELLO)
        answer = await self._answer()
        await self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        await self._say({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        found: dict[str, Any] = (await self._answer())["structuredContent"]
        return found

    async def event(self) -> dict[str, Any]:
        return await asyncio.wait_for(self._events.get(), PATIENCE)

    async def done(self, event: dict[str, Any]) -> str:
        fire_id = event["meta"]["fire_id"]
        answer = await self.call("alarm_report", fire_id=fire_id, outcome="completed", result="done")
        status: str = answer["fire"]["status"]
        return status

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading

    async def _say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def _answer(self) -> dict[str, Any]:
        answer = await asyncio.wait_for(self._answers.get(), PATIENCE)
        result: dict[str, Any] = answer["result"]
        return result


@asynccontextmanager
async def claude_code(directory: Path, *args: str, **variables: str) -> AsyncIterator[ClaudeCode]:
    pipe = asyncio.subprocess.PIPE
    with (directory / "log").open("a") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *WAKEFUL, "--channel", "--dispatch", *args, stdin=pipe, stdout=pipe, stderr=log,
            cwd=directory, env=environ(**variables),
        )  # fmt: skip
    client = ClaudeCode(process)
    try:
        yield client
    finally:
        await client.kill()


@pytest.fixture
async def alarms(tmp_path: Path) -> AsyncIterator[LocalWakeful]:
    async with build(Settings(db=str(tmp_path / "wakeful.db"))) as here:
        yield here


async def waiting(alarms: LocalWakeful, *messages: str, **more: Any) -> None:
    """Wakes that wait in the inbox."""
    for message in messages:
        await alarms.set(delay=0.001, wake_message=message, **more)
    while len(await alarms.fires(status="waiting")) < len(messages):
        await alarms.run_due()


async def test_a_wake_comes_as_a_notification_and_is_reported_by_the_tool(tmp_path: Path) -> None:
    async with claude_code(tmp_path) as claude:
        said = await claude.begin()
        assert said["capabilities"]["experimental"] == {"claude/channel": {}}
        assert "alarm_report" in said["instructions"].partition("<channel")[2]
        alarm = (await claude.call("alarm_set", when="in 1 second", wake_message="Check the portal"))["alarm"]
        event = await claude.event()
        assert "Check the portal" in event["content"]
        assert event["meta"]["alarm_id"] == alarm["id"]
        assert await claude.done(event) == "completed"


async def test_a_wake_that_is_not_reported_comes_again(tmp_path: Path, alarms: LocalWakeful) -> None:
    await waiting(alarms, "again", policy={"report_within": 1})
    async with claude_code(tmp_path) as claude:
        await claude.begin()
        first, second = await claude.event(), await claude.event()
        assert first["meta"] == second["meta"]
        assert await claude.done(second) == "completed"


async def test_a_killed_process_loses_no_wake(tmp_path: Path, alarms: LocalWakeful) -> None:
    await waiting(alarms, "one", "two", policy={"report_within": 1})
    async with claude_code(tmp_path) as claude:
        await claude.begin()
        lost = {(await claude.event())["meta"]["fire_id"]}
        await claude.kill()
    async with claude_code(tmp_path) as claude:
        await claude.begin()
        found: set[str] = set()
        while len(found) < 2:
            event = await claude.event()
            assert await claude.done(event) == "completed"
            found.add(event["meta"]["fire_id"])
        assert lost < found


async def test_a_backlog_comes_in_small_parts(tmp_path: Path, alarms: LocalWakeful) -> None:
    await waiting(alarms, *map(str, range(channel.AT_ONCE + 2)))
    async with claude_code(tmp_path) as claude:
        await claude.begin()
        sent = [await claude.event() for _ in range(channel.AT_ONCE)]
        assert len(await alarms.fires(status="waiting")) == 2
        assert await claude.done(sent[0]) == "completed"
        assert await claude.event() not in sent
        assert len(await alarms.fires(status="waiting")) == 1


async def test_it_sends_the_wakes_of_its_conversation_alone(tmp_path: Path, alarms: LocalWakeful) -> None:
    await waiting(alarms, "theirs", conversation_id="s-2")
    await alarms.set(delay=0.001, wake_message="ours", conversation_id="s-1")
    async with claude_code(tmp_path, "--conversation", "s-1") as claude:
        await claude.begin()
        event = await claude.event()
        assert "ours" in event["content"]
        assert await claude.done(event) == "completed"
        assert len(await alarms.fires(status="waiting")) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_knows_no_channels_has_the_tools(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, "--channel", "--dispatch", mode=mode) as agent:
        await the_whole_round(agent)
        id = (await agent("alarm_set", when="in 1 second", wake_message="soon"))["alarm"]["id"]
        fires: list[Any] = []
        while not fires:
            if mode == "legacy":  # it was sent the wake, and did not understand
                fires = [
                    fire for fire in (await agent("alarm_get", id=id)).get("fires", []) if fire["status"] == "delivered"
                ]
            else:
                fires = (await agent("alarm_inbox", wait=4))["wakes"]
        done = await agent("alarm_report", fire_id=fires[0]["fire_id"], outcome="completed", result="done")
        assert done["fire"]["status"] == "completed"


async def test_a_target_that_is_no_inbox_is_refused_at_the_start(tmp_path: Path) -> None:
    async with claude_code(tmp_path, "--target", "chat") as claude:
        assert await asyncio.wait_for(claude.process.wait(), PATIENCE) == 2
    assert "a channel needs an inbox, and 'chat' is none" in (tmp_path / "log").read_text()


async def test_a_token_that_only_reads_is_refused_at_the_start(tmp_path: Path, alarms: LocalWakeful) -> None:
    token, kept = mint("ana", ["read"], now=await alarms.service.now())
    await store_of(alarms).access.add_token(kept)
    async with claude_code(tmp_path, WAKEFUL_TOKEN=token) as claude:
        assert await asyncio.wait_for(claude.process.wait(), PATIENCE) == 5
    assert "this request needs write" in (tmp_path / "log").read_text()

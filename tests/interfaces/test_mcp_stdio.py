"""`wakeful mcp` as a client starts it: a real process that speaks on stdin and stdout, and ends when they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from mcp import Client, StdioServerParameters

from tests.acting import acting
from tests.interfaces.mcp_world import MODES, Agent, the_whole_round
from wakeful.http.security.auth import mint
from wakeful.process.application import build
from wakeful.settings import Settings
from wakeful.testing import store_of

WAKEFUL = ["-m", "wakeful.cli", "mcp"]
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


# The command itself, and beside it code that prints and starts programs while calls are answered.
NOISY = """
import logging, subprocess, sys
from wakeful.cli import main
from wakeful.service import Alarms
quiet = Alarms.create
async def noisy(self, *args, **more):
    print("printed", flush=True)
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    logging.getLogger("wakeful.noise").warning("logged")
    return await quiet(self, *args, **more)
Alarms.create = noisy
main()
"""


def environ(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    return kept | {"WAKEFUL_TIMEZONE": "Europe/Berlin"} | more


@asynccontextmanager
async def connected(directory: Path, *args: str, mode: str = "auto", **variables: str) -> AsyncIterator[Agent]:
    command = StdioServerParameters(
        command=sys.executable, args=[*WAKEFUL, *args], env=environ(**variables), cwd=directory
    )
    async with Client(command, mode=mode) as client:
        yield Agent(client)


@pytest.mark.parametrize("mode", MODES)
async def test_every_tool_does_its_work_on_stdio(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, "--dispatch", mode=mode) as agent:
        await the_whole_round(agent)
        await agent("alarm_set", when="in 1 second", wake_message="soon")
        [wake] = (await agent("alarm_inbox", wait=60))["wakes"]
        done = await agent("alarm_report", fire_id=wake["fire_id"], outcome="completed", result="done")
        assert done["fire"]["status"] == "completed"


async def test_it_is_bound_to_the_owner_it_was_started_for(tmp_path: Path) -> None:
    async with connected(tmp_path, "--owner", "ana") as ana:
        id = (await ana("alarm_set", when="in 1 hour", wake_message="x"))["alarm"]["id"]
    async with connected(tmp_path) as local:
        assert (await local("alarm_list"))["alarms"] == []
        await local.refused("alarm_get", id=id)


async def test_a_token_names_the_owner_and_a_revoked_one_nobody(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "wakeful.db"))) as alarms:
        now = await alarms.service.now()
        token, kept = mint("ana", ["write"], now=now)
        await store_of(alarms).access.add_token(kept)
        async with connected(tmp_path, WAKEFUL_TOKEN=token) as ana:
            id = (await ana("alarm_set", when="in 1 hour", wake_message="x"))["alarm"]["id"]
            assert (await acting(alarms.service, "ana").get(id)).owner_did == "ana"
            await store_of(alarms).access.add_token(
                mint("ben", ["write"], now=now)[1]
            )  # one is left: tokens are still needed
            await store_of(alarms).access.update_token(kept.id, revoked_at=await alarms.service.now())
            while not (answer := await ana.client.call_tool("alarm_list", {})).is_error:
                pass  # until what was looked up is no longer believed
            assert "was revoked" in answer.content[0].text  # type: ignore[union-attr]


async def test_the_token_of_a_wake_is_bound_to_its_chain(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "wakeful.db"))) as alarms:
        theirs = await alarms.set("in 1 hour", "x")
        await alarms.set(delay=0.001, wake_message="begin")
        while not (taken := await alarms.inbox()):
            await alarms.run_due()
        async with connected(tmp_path, WAKEFUL_TOKEN=taken[0].token) as woken:
            id = (await woken("alarm_set", when="in 1 hour", wake_message="x"))["alarm"]["id"]
            assert (await alarms.get(id)).parent_fire == taken[0].fire.id
            await woken.refused("alarm_get", id=theirs.id)
            await woken.refused("alarm_update", id=id, label="x")


def test_a_token_that_is_not_known_stops_the_start(tmp_path: Path) -> None:
    run: dict[str, Any] = {"cwd": tmp_path, "capture_output": True, "text": True}
    for owner in ("ana", "ben"):
        new = [sys.executable, "-m", "wakeful.cli", "token", "new", "--owner", owner]
        subprocess.run(new, env=environ(), check=True, **run)
    stranger = "wk_0123456789abcdef_" + "x" * 43
    done = subprocess.run([sys.executable, *WAKEFUL], env=environ(WAKEFUL_TOKEN=stranger), **run)
    assert (done.returncode, done.stdout) == (5, "")
    assert "not known here" in done.stderr


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with (tmp_path / "log").open("w") as log:
        started = subprocess.Popen(
            [sys.executable, *WAKEFUL, "--dispatch", "--log-level", "debug"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=tmp_path,
            env=environ(),
        )
        yield started
        started.kill()
        started.communicate()


def say(pipe: IO[str] | None, message: dict[str, Any]) -> None:
    assert pipe is not None
    print(json.dumps(message), file=pipe, flush=True)


def test_stdout_holds_answers_only_and_the_end_of_stdin_ends_it(process: subprocess.Popen[str], tmp_path: Path) -> None:
    assert process.stdout is not None
    say(process.stdin, HELLO)
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "wakeful"
    say(process.stdin, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    say(process.stdin, CALL | {"params": {"name": "alarm_list", "arguments": {}}})
    assert json.loads(process.stdout.readline())["result"]["structuredContent"]["alarms"] == []
    rest, _ = process.communicate(timeout=60)
    assert rest == ""
    assert process.returncode == 0
    assert (tmp_path / "log").read_text()


@pytest.mark.parametrize("format", ["json", "text"])
def test_the_log_goes_to_stderr_in_the_format_that_was_set(tmp_path: Path, format: str) -> None:
    """Also what a library prints, and what programs that it starts print: stdout is the client's alone."""
    command = [sys.executable, "-c", NOISY, "mcp", "--dispatch", "--log-level", "debug"]
    asks = [HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    asks.append(CALL | {"params": {"name": "alarm_set", "arguments": {"when": "in 1 hour", "wake_message": "x"}}})
    done = subprocess.run(
        command,
        input="".join(json.dumps(ask) + "\n" for ask in asks),
        env=environ(WAKEFUL_LOG_FORMAT=format),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=True,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert {"printed", "from a child"} <= set(done.stderr.splitlines())
    lines = [line for line in done.stderr.splitlines() if line not in ("printed", "from a child")]
    lines = [line for line in lines if not line.startswith("note: making a new database")]
    assert lines
    if format == "json":
        assert {json.loads(line)["logger"] for line in lines} >= {"wakeful.mcp", "wakeful.noise"}
    else:
        assert all(" wakeful." in line for line in lines)


def test_sigterm_ends_it_while_the_client_is_still_there(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    say(process.stdin, HELLO)
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0

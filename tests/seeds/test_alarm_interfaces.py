"""Alarm's WebSocket calls over a real socket, and its results where the command line and HTTP show them."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import wakeful
from tests.interfaces.mcp_world import Agent
from tests.interfaces.world import Visitor, serving
from tests.remote.world import command
from tests.seeds.alarm_world import STORES, Desk, Place, a_place
from wakeful.cli import main
from wakeful.model.keywords import PolicyKeywords
from wakeful.process.application import open_local
from wakeful.testing import ManualClock

KEYS = ("total", "pending", "fired", "completed", "failed", "cancelled", "timeout_unknown", "avg_duration_ms")


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return a_place(request, tmp_path)


class Caller:
    """Calls Alarm's methods over one socket."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self._ws = ws

    async def __call__(self, method: str, **params: Any) -> Any:
        await self._ws.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        answer = await self.heard()
        assert "error" not in answer, answer
        return answer["result"]

    async def heard(self) -> Any:
        return await self._ws.receive_json(timeout=60)


@pytest.fixture
async def visit(place: Place) -> AsyncIterator[Visitor]:
    async with serving(**place) as visit:
        yield visit


@pytest.fixture
def desk(visit: Visitor) -> Desk:
    return Desk(visit.alarms)


@pytest.fixture
async def call(visit: Visitor) -> AsyncIterator[Caller]:
    async with visit._session.ws_connect(f"{visit.url}/v1/ws") as ws:
        yield Caller(ws)


async def test_list_tells_id_moment_and_the_way_from_creation_soonest_first(visit: Visitor, call: Caller) -> None:
    late = await visit.alarms.set("in 2 hours", "late")
    at = int(late.next_fire_at.timestamp()) - 1800
    soon = await visit.alarms.set(at, "soon")
    told = [(one["id"], one["set_at"], one["time_offset"]) for one in await call("list")]
    assert told == [
        (soon.id, at, math.ceil((soon.next_fire_at - soon.created_at).total_seconds())),
        (late.id, math.ceil(late.next_fire_at.timestamp()), 7200),
    ]
    assert {type(value) for one in told for value in one[1:]} == {int}, "whole seconds, as on the page"
    assert await call("count") == 2


async def test_every_number_that_the_page_has_as_an_integer_is_one(visit: Visitor, desk: Desk, call: Caller) -> None:
    alarm = await visit.alarms.set(
        delay=0.01, wake_message="a", target="good", policy={"backoff_base": 5, "grace": 0.5}
    )
    await desk.settled(1)
    stats, [entry] = await call("stats"), await call("history", status="completed")
    shown = await call("get", id=alarm.id)
    assert stats.pop("more") is False
    numbers = dict(stats.items()) | {
        "duration_ms": entry["duration_ms"],
        "attempts": entry["attempts"],
        "max_retries": shown["max_failures"],
        "backoff_base": shown["policy"]["backoff_base"],
        "fire": shown["fires"][0]["duration_ms"],
    }
    assert {name: value for name, value in numbers.items() if type(value) is not int} == {}
    assert shown["policy"]["grace"] == 0.5, "what is no whole number of seconds stays as it is"


async def test_the_outcome_stands_in_what_get_history_and_failed_tell(visit: Visitor, desk: Desk, call: Caller) -> None:
    retried = await visit.alarms.set(delay=0.01, wake_message="a", target="bad", max_failures=3, created_by="1")
    failed = await visit.alarms.set(delay=0.01, wake_message="b", target="bad", max_failures=0, created_via="web")
    done = await visit.alarms.set(delay=0.01, wake_message="c", target="good")
    await desk.settled(3)
    [fire] = (await call("get", id=retried.id))["fires"]
    assert fire["result"] == "RETRY: ConnectionError: HTTP 503 (attempt 1/3)"
    shown = await call("get", id=failed.id)
    assert (shown["id"], shown["status"], shown["target"], shown["created_via"]) == (failed.id, "failed", "bad", "web")
    assert shown["fires"][0]["result"] == "FAILED: ConnectionError: HTTP 503 (after 1 attempts)"
    [entry] = await call("history", status="fired", process="bad", since=retried.created_at.timestamp(), limit=10)
    assert (entry["result"], entry["created_by"]) == (fire["result"], "1")
    assert [entry["result"] for entry in await call("failed", limit=5)] == [shown["fires"][0]["result"]]
    [entry] = await call("history", status="completed")
    assert (entry["result"], entry["duration_ms"] >= 0) == ("ok", True)
    assert (await call("get", id=done.id))["fires"][0]["result"] == "ok"


async def test_get_tells_the_latest_five_fires_of_a_series(place: Place) -> None:
    time = ManualClock()
    async with open_local(**place, clock=time) as alarms:
        Desk(alarms)
        alarm = await alarms.set("every hour", "tick", target="good")
        for _ in range(6):
            await time.advance(timedelta(hours=1))
            await alarms.run_due()
        sixth = alarm.next_fire_at + timedelta(hours=5)
    async with serving(**place) as visit, visit._session.ws_connect(f"{visit.url}/v1/ws") as ws:
        told = [
            datetime.fromisoformat(fire["scheduled_for"]) for fire in (await Caller(ws)("get", id=alarm.id))["fires"]
        ]
        assert told == [sixth - timedelta(hours=number) for number in range(5)]


async def test_stats_has_every_key_of_alarm(visit: Visitor, desk: Desk, call: Caller) -> None:
    await visit.alarms.set(delay=0.01, wake_message="done", target="good")
    await visit.alarms.set("in 1 hour", "waits")
    await desk.settled(1)
    stats = await call("stats")
    assert set(KEYS) <= set(stats)
    assert (stats["total"], stats["pending"], stats["completed"], stats["cancelled"]) == (2, 1, 1, 0)


async def test_a_running_server_sweeps_by_itself_and_tells_it(visit: Visitor, desk: Desk, call: Caller) -> None:
    await call("subscribe", events=["timed_out"])
    policy: PolicyKeywords = {"report_within": 0.1, "on_silence": "give_up"}  # as Alarm does
    alarm = await visit.alarms.set(delay=0.01, wake_message="go", target="later", policy=policy)
    told = await call.heard()
    assert (told["method"], told["params"]["fire_id"]) == ("event", alarm.fire_id)
    assert [entry["result"] for entry in await call("failed")] == ["timeout_unknown"]
    assert (await call("stats"))["timeout_unknown"] == 1
    assert len(desk.wakes) == 1


async def test_a_running_server_wakes_again_before_silence_is_a_timeout(
    visit: Visitor, desk: Desk, call: Caller
) -> None:
    await call("subscribe", events=["timed_out"])
    policy: PolicyKeywords = {"report_within": 0.1, "backoff_base": 0.1}
    alarm = await visit.alarms.set(delay=0.01, wake_message="go", target="later", max_failures=1, policy=policy)
    told = await call.heard()
    assert told["params"]["fire_id"] == alarm.fire_id
    assert [wake.fire_id for wake in desk.wakes] == [alarm.fire_id, alarm.fire_id]
    assert [entry["result"] for entry in await call("failed")] == ["timeout_unknown"]


def test_the_command_line_and_its_json_show_the_result(tmp_path: Path) -> None:
    db = str(tmp_path / "alarm.db")
    with wakeful.open_sync(db) as alarms:
        alarms.handler("bad")(_raises)
        for retries in (0, 2):
            alarms.set(delay=0.01, wake_message="go", target="bad", max_failures=retries, created_by="1")
        while sum(fire.status in ("failed", "retrying") for fire in alarms.fires()) < 2:
            alarms.run_due()
    told = {"RETRY: ValueError: no milk (attempt 1/2)", "FAILED: ValueError: no milk (after 1 attempts)"}
    lines = _asked("history", "--status", "fired", "--db", db) + _asked("failed", "--db", db)
    assert {line.split("\t")[-1] for line in lines} == told
    shown = json.loads("".join(_asked("history", "--db", db, "--json")))["history"]
    assert {entry["result"] for entry in shown if "result" in entry} == told
    assert {entry["created_by"] for entry in shown} == {"1"}


def _raises(wake: wakeful.Wake) -> None:
    raise ValueError("no milk")


def _asked(*args: str) -> list[str]:
    result = CliRunner().invoke(main, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


async def test_a_second_result_is_not_kept_and_every_interface_says_so(
    visit: Visitor, place: Place, tmp_path: Path
) -> None:
    wake = await visit.fired()
    path = f"/v1/fires/{wake.fire_id}/report"
    for result in ("sent", "sent"):
        answer = (await visit("POST", path, {"outcome": "completed", "result": result})).json
        assert (answer["result"], answer.get("notes")) == ("sent", None)
    answer = (await visit("POST", path, {"outcome": "completed", "result": "not sent"})).json
    assert answer["result"] == "sent"
    assert answer["notes"] == [
        "It was completed before, with the result 'sent': that stays, and this result is not kept."
    ]
    async with httpx2.AsyncClient(timeout=30) as http:
        async with Client(streamable_http_client(visit.url + "/mcp", http_client=http)) as client:
            said = {"fire_id": wake.fire_id, "outcome": "completed", "result": "not sent"}
            told = await Agent(client)("alarm_report", **said)
    assert told["notes"] == answer["notes"]
    assert told["summary"].startswith("Not noted: the fire is completed. It was completed before")
    environ = {"WAKEFUL_DB": str(place["db"]), "WAKEFUL_SCHEMA": place.get("schema", "")}
    code, _, stderr = await asyncio.to_thread(command, ["done", wake.fire_id, "not sent"], tmp_path, **environ)
    assert code == 0
    assert f"note: {answer['notes'][0]}" in stderr

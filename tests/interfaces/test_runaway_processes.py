"""Runaways against a real `wakeful serve` with the limits it comes with: each is stopped, on record, and said once.

In the short form snoozes, and agents outside of chains, have a lower limit: they take their time to get there.

The agent is outside: a webhook's receiver, a reader of the inbox, a client of MCP. Time is the machine's, so a test may
see the end of an hour: then there are two hours, each of which has its limit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from mcp import Client

from tests.databases import database_of
from tests.interfaces.mcp_world import Agent
from tests.remote.world import serving_process, until

CHAIN, REWAKES, AGENTS = 120, 60, 300  # an hour, by default
TOO_MANY = 400  # wakes: where nothing stops the agent, the test does
SOON = 0.02  # seconds
Wake = dict[str, Any]


class Runaway:
    """A served database, and what an agent does at each wake that reaches its webhook."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.url = ""
        self.wakes: list[Wake] = []
        self.at_each: Callable[[Wake], Awaitable[None]] | None = None

    async def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        async with self._session.request(method, f"{self.url}/v1{path}", params=query, json=body) as response:
            told = await response.json(content_type=None)
            assert response.status < 300, told
            return told

    async def set(self, **fields: Any) -> str:
        made = await self.ask("POST", "/alarms", {"wake_message": "look", "delay_seconds": SOON} | fields)
        return str(made["id"])

    async def receive(self, request: web.Request) -> web.Response:
        wake = await request.json()
        self.wakes.append(wake)
        if self.at_each is not None and len(self.wakes) < TOO_MANY:
            await self.at_each(wake)
        return web.Response()

    # What must be true of whoever was stopped

    async def history(self, reason: str, **query: Any) -> list[Any]:
        found = (await self.ask("GET", "/history", limit=500, **query))["history"]
        return [entry for entry in found if entry.get("reason") == reason]

    async def used_up(self, scope: str) -> list[Any]:
        found = (await self.ask("GET", "/budget"))["budget"]
        return [use for use in found if use["scope"] == scope and use.get("used_up")]

    async def stopped(self, scope: str) -> Any:
        """What is told of the limit that was met, once it was and something had to wait or was skipped for it."""

        async def look() -> Any:
            return await self.used_up(scope) if await self.history("budget") else None

        [use] = await until(look)
        return use

    async def check_told_once(self) -> None:
        """For each hour in which the limit was met."""
        events = (await self.ask("GET", "/events/recent", events="budget_reached", limit=1000))["events"]
        ends = [event["reason"].rpartition(" ")[2] for event in events]
        assert 1 <= len(ends) == len(set(ends)) <= 2, events

    async def check_limit(self, wakes: int, limit: int) -> None:
        hours = Counter(fire["scheduled_for"][:13] for fire in await self._sent())
        assert wakes == limit if len(hours) == 1 else wakes <= limit * len(hours)

    async def _sent(self) -> list[Any]:
        fires: list[Any] = (await self.ask("GET", "/fires", limit=500))["fires"]
        return [fire for fire in fires if fire["status"] != "skipped"]


@pytest.fixture
def budget() -> str:
    """What the settings say of budgets: nothing, so the limits are those that it comes with."""
    return ""


@pytest.fixture(params=["sqlite", "postgres"])
async def runaway(request: pytest.FixtureRequest, tmp_path: Path, budget: str) -> AsyncIterator[Runaway]:
    place = database_of(request, tmp_path)
    async with aiohttp.ClientSession() as session, webhook(Runaway(session)) as (runaway, hook):
        settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in place.items()) + budget
        target = f'[targets.hook]\nkind = "webhook"\nurl = "{hook}"\nallow_private = true\n'
        (tmp_path / "wakeful.toml").write_text(settings + target)
        with serving_process(tmp_path) as server:
            runaway.url = server.url
            yield runaway
            runaway.at_each = None
            await runaway.ask("DELETE", "/alarms", all="true")


@asynccontextmanager
async def webhook(runaway: Runaway) -> AsyncIterator[tuple[Runaway, str]]:
    app = web.Application()
    app.router.add_post("/", runaway.receive)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield runaway, f"http://{host}:{port}/"
    finally:
        await runner.cleanup()


async def test_a_webhook_that_sets_an_alarm_at_each_wake_is_stopped(runaway: Runaway) -> None:
    async def again(wake: Wake) -> None:
        await runaway.set(target="hook", parent_fire=wake["fire_id"])

    runaway.at_each = again
    root = await runaway.set(target="hook")
    use = await runaway.stopped("chain")
    assert (use["id"], use["wakes"], use["wakes_allowed"]) == (root, CHAIN, CHAIN)
    await runaway.check_limit(len(runaway.wakes) - 1, CHAIN)  # the first was set by a person
    [waiting] = await runaway.history("budget")
    assert (waiting["status"], waiting["scheduled_for"]) == ("pending", use["until"])
    why = (await runaway.ask("GET", f"/alarms/{waiting['id']}/why"))["summary"]
    assert f"the budget of the chain that began with alarm {root} is used up: 120 wakes in one hour" in why
    await runaway.check_told_once()


async def test_an_agent_that_sets_alarms_out_of_its_wakes_over_mcp_is_stopped(runaway: Runaway) -> None:
    root = await runaway.set()
    wakes = 0
    async with Client(f"{runaway.url}/mcp") as client:
        agent = Agent(client)
        done: dict[str, str] = {}
        is_stopped = False
        while wakes < TOO_MANY and not is_stopped:
            found: Any = (await client.call_tool("alarm_inbox", {"wait": 0.2, "done": done})).structured_content
            is_stopped = not found["wakes"] and bool(await runaway.used_up("chain"))
            done = {wake["fire_id"]: "looked" for wake in found["wakes"]}
            for fire_id in done:
                wakes += 1
                again = {"when": "in 0.02 s", "wake_message": "again", "parent_fire": fire_id}
                assert not (await client.call_tool("alarm_set", again)).is_error
        use = await runaway.stopped("chain")
        waiting = (await runaway.history("budget"))[0]
        assert f"alarm {root} is used up" in (await agent("alarm_get", id=waiting["id"]))["why"]
        told = (await agent("alarm_history", status="pending", limit=5))["history"]
        assert [line["reason"] for line in told] == ["budget"]
    assert (use["id"], use["wakes"]) == (root, CHAIN)
    await runaway.check_told_once()


@pytest.mark.parametrize(
    ("budget", "limit"),
    [("[budget]\nagent_wakes_per_hour = 20\n", 20), pytest.param("", AGENTS, marks=pytest.mark.long)],
    ids=["short", "as it comes"],
)
async def test_an_agent_that_does_not_say_which_wake_made_it_is_stopped_too(runaway: Runaway, limit: int) -> None:
    wakes = 0
    async with Client(f"{runaway.url}/mcp") as client:
        agent = Agent(client)
        again = {"when": "in 0.02 s", "wake_message": "look"}
        await agent("alarm_set", **again)
        done: dict[str, str] = {}
        is_stopped = False
        while wakes < TOO_MANY and not is_stopped:
            found: Any = (await client.call_tool("alarm_inbox", {"wait": 0.2, "done": done})).structured_content
            is_stopped = not found["wakes"] and bool(await runaway.used_up("agent"))
            done = {wake["fire_id"]: "looked" for wake in found["wakes"]}
            for _ in done:
                wakes += 1
                assert not (
                    await client.call_tool("alarm_set", {"when": "in 0.02 s", "wake_message": "again"})
                ).is_error
        use = await runaway.stopped("agent")
        assert (use["id"], use["wakes"], use["wakes_allowed"]) == ("local", limit, limit)
        await runaway.check_limit(wakes, limit)
        [waiting] = await runaway.history("budget")
        why = (await agent("alarm_get", id=waiting["id"]))["why"]
        assert f"the budget of all that agents set for its owner is used up: {limit} wakes in one hour" in why
    await runaway.check_told_once()


@pytest.mark.parametrize(
    ("budget", "limit"),
    [("[budget]\nrewakes_per_hour = 4\n", 4), pytest.param("", REWAKES, marks=pytest.mark.long)],
    ids=["short", "as it comes"],
)
async def test_an_agent_that_snoozes_all_the_time_is_stopped(runaway: Runaway, limit: int) -> None:
    alarm = await runaway.set()
    handed = 0
    while handed < TOO_MANY and not await runaway.used_up("rewake"):
        for wake in (await runaway.ask("POST", "/inbox", wait=0.2))["wakes"]:
            handed += 1
            await runaway.ask("POST", f"/fires/{wake['fire_id']}/report", {"outcome": "snooze", "for": 0.3})
    use = await runaway.stopped("rewake")
    assert (use["id"], use["wakes"], use["wakes_allowed"]) == (alarm, limit, limit)
    [waiting] = await runaway.history("budget")
    assert (waiting["id"], waiting["status"], waiting["scheduled_for"]) == (alarm, "pending", use["until"])
    why = (await runaway.ask("GET", f"/alarms/{alarm}/why"))["summary"]
    assert f"the budget of this alarm is used up: {limit} snoozed or repeated wakes in one hour" in why
    await runaway.check_told_once()


async def test_series_that_set_series_are_stopped_and_every_skip_is_on_record(runaway: Runaway) -> None:
    async def one_more(wake: Wake) -> None:
        when = {"cron_expr": "@every 1s", "delay_seconds": None}
        await runaway.set(target="hook", parent_fire=wake["fire_id"], **when)

    runaway.at_each = one_more
    root = await runaway.set(target="hook")
    use = await runaway.stopped("chain")
    runaway.at_each = None
    assert (use["id"], use["wakes"]) == (root, CHAIN)
    skipped = await runaway.history("budget", status="skipped")
    fire_id = skipped[0]["id"]
    assert "was skipped: a budget was used up" in (await runaway.ask("GET", f"/fires/{fire_id}/why"))["summary"]
    await runaway.ask("DELETE", "/alarms", root_id=root)
    series = (await runaway.ask("GET", "/alarms", root_id=root, limit=500))["alarms"]
    assert len(series) <= len(runaway.wakes)
    await runaway.check_told_once()
    for one in series[-10:]:  # the oldest: each second until it was cancelled has a wake or a skip
        fires = (await runaway.ask("GET", f"/alarms/{one['id']}/fires", limit=500))["fires"]
        assert {fire["reason"] for fire in fires if fire["status"] == "skipped"} <= {"budget", "missed", "overlap"}
        ends = [datetime.fromisoformat(fire.get("through", fire["scheduled_for"])) for fire in fires]
        begins = [datetime.fromisoformat(fire["scheduled_for"]) for fire in fires]
        seconds = (max(ends) - min(begins)).total_seconds()
        assert sum(fire.get("count", 1) for fire in fires) == round(seconds) + 1

"""A small agent without a model: it sets its own alarm over MCP, is woken by a webhook, and reports back.

    wakeful serve --config examples/agent/wakeful.toml     # in one terminal
    python examples/agent/agent.py                         # in another

Replace `work` with whatever your agent does when it is woken.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import aiohttp
import httpx2
from aiohttp import web
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from wakeful.clock import SystemClock
from wakeful.targets.signing import BadSignature, verify

SERVER = os.environ.get("WAKEFUL_URL", "http://127.0.0.1:4747")
TOKEN = os.environ.get("WAKEFUL_TOKEN", "")  # none is needed on loopback until one was made
PORT = int(os.environ.get("AGENT_PORT", "8787"))
SECRET = os.environ.get("AGENT_SECRET", "a secret of this example")  # the `secret` of the target in wakeful.toml
PATIENCE = 45  # seconds until a wake that was promised in two counts as lost


class Agent:
    def __init__(self) -> None:
        self.reported: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._seen: set[str] = set()
        self._working: set[asyncio.Task[None]] = set()

    async def woken(self, request: web.Request) -> web.Response:
        """A wake came in: check that it is from wakeful, answer at once, and do the work afterwards."""
        body = await request.read()
        try:
            fire_id = verify(SECRET, request.headers, body, now=SystemClock().now())
        except BadSignature as error:
            return web.Response(status=401, text=str(error))
        if fire_id not in self._seen:  # a wake comes at least once: the same id is the same wake
            self._seen.add(fire_id)
            task = asyncio.create_task(self._handle(await request.json()))
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        return web.Response(status=202)

    async def _handle(self, wake: dict[str, Any]) -> None:
        print(f"woken: {wake['message']} {wake['payload']}", flush=True)
        try:
            said = {"outcome": "completed", "result": await work(wake)}
        except Exception as error:  # whatever it is: wakeful tries again later
            said = {"outcome": "failed", "reason": str(error)}
        headers = {"authorization": f"Bearer {wake['report']['token']}"}
        async with aiohttp.ClientSession() as session:
            async with session.post(wake["report"]["url"], json=said, headers=headers) as answer:
                answer.raise_for_status()
                self.reported.put_nowait(await answer.json())


async def work(wake: dict[str, Any]) -> str:
    """What the agent is woken for."""
    return f"looked at page {wake['payload']['page']}: 3 new grants"


async def main() -> None:
    agent = Agent()
    app = web.Application()
    app.router.add_post("/wake", agent.woken)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", PORT).start()
    try:
        async with asyncio.timeout(PATIENCE):
            await live(agent)
    finally:
        await runner.cleanup()


async def live(agent: Agent) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client(f"{SERVER}/mcp", http_client=http)) as wakeful:
            made = await call(
                wakeful,
                "alarm_set",
                when="in 2 seconds",
                wake_message="Check the grant portal",
                payload={"page": 3},
                target="researcher",
                key="grant-portal",
                on_conflict="replace",
            )
            print(f"set: {made['summary']}", flush=True)
            fire = await agent.reported.get()
            print(f"reported: {fire['status']}, {fire['result']}", flush=True)
            seen = await call(wakeful, "alarm_get", id=made["alarm"]["id"])
            print(f"why: {seen['why']}", flush=True)


async def call(wakeful: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await wakeful.call_tool(tool, arguments)
    if result.is_error:  # the text says what was wrong and what works: a model would read it and try again
        sys.exit(result.content[0].text)  # type: ignore[union-attr]  # wakeful answers with texts
    found: dict[str, Any] = result.structured_content
    return found


if __name__ == "__main__":
    asyncio.run(main())

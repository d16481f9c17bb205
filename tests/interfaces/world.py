"""A real server on a loopback port, in the test's own event loop, and a client that speaks to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp

from tests.loop_guard import LoopGuard, SlowCallback
from wakeful.clock import Clock
from wakeful.dispatcher import ServedTarget
from wakeful.http.security.auth import mint
from wakeful.model.outcome import Delivered, Outcome
from wakeful.process.application import LocalWakeful, build
from wakeful.process.server import serve
from wakeful.rules.wake import Wake
from wakeful.settings import Settings
from wakeful.testing import store_of, targets_of


class Answer:
    def __init__(self, status: int, headers: dict[str, str], text: str) -> None:
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def told(self) -> tuple[int, str, str]:
        """Status, code and field of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self.text
        assert self.json["status"] == self.status
        return self.status, self.json["code"], self.json.get("field", "")


class Agent:
    """A target that hands its wakes to the test, and is expected to report."""

    def __init__(self) -> None:
        self.wakes: asyncio.Queue[Wake] = asyncio.Queue()

    async def deliver(self, wake: Wake) -> Outcome:
        self.wakes.put_nowait(wake)
        return Delivered(awaits_report=True)

    async def close(self) -> None: ...


class Visitor:
    def __init__(
        self, alarms: LocalWakeful, url: str, session: aiohttp.ClientSession, running: asyncio.Task[None]
    ) -> None:
        self.alarms = alarms
        self.url = url
        self.running = running
        self.agent = Agent()
        self._session = session
        targets_of(alarms)["agent"] = ServedTarget(self.agent, 8)

    async def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        if body is not None:
            more["data"] = body if isinstance(body, bytes) else json.dumps(body).encode()
            more["headers"] = {"content-type": "application/json"} | more.get("headers", {})
        async with self._session.request(method, self.url + path, **more) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, headers, await response.text())

    async def token(self, owner: str, *scopes: str) -> dict[str, str]:
        """The header of a new token: may read and write unless said."""
        text, token = mint(owner, scopes or ("read", "write"), now=await self.alarms.service.now())
        assert await store_of(self.alarms).access.add_token(token)
        return {"authorization": f"Bearer {text}"}

    async def set(self, **body: Any) -> dict[str, Any]:
        answer = await self("POST", "/v1/alarms", {"wake_message": "hello", "when": "in 1 hour"} | body)
        assert answer.status == 201, answer.text
        found: dict[str, Any] = answer.json
        return found

    async def fired(self, owner: str = "local") -> Wake:
        """A wake whose fire is on record and awaits its report."""
        await self.alarms.for_owner(owner).set(delay=0.01, wake_message="work", target="agent")
        async with asyncio.timeout(60):
            wake = await self.agent.wakes.get()
            await self.alarms.dispatcher._all_down()  # the settlement is written
        return wake


@asynccontextmanager
async def serving(db: str, **settings: Any) -> AsyncIterator[Visitor]:
    """A server with these settings; `clock`, for one that does not go by the machine's."""
    clock: Clock | None = settings.pop("clock", None)
    given: dict[str, Any] = {"port": 0, "stop_within": timedelta(seconds=2)} | settings
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with build(Settings(db=db, **given), clock=clock) as served:
        running = asyncio.create_task(serve(served, ready=ready.set_result))
        done, _ = await asyncio.wait((ready, running), return_when=asyncio.FIRST_COMPLETED)
        if running in done:
            await running
        try:
            with LoopGuard().watching() as guard:
                async with aiohttp.ClientSession() as session:
                    yield Visitor(served, ready.result(), session, running)
        finally:
            running.cancel()
            await asyncio.wait((running,))
            assert running.cancelled() or running.exception() is None
        if guard.slow:
            raise SlowCallback("\n".join(guard.slow))

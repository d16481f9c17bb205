"""Agents that a target wakes where they live: no line is written for it but the target's settings."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp
from aiohttp import web

import wakeful
from tests.platforms.trial import Trial
from tests.ports import free_port
from tests.remote.world import command, serving_process, until
from wakeful import Fire
from wakeful.clock import SystemClock
from wakeful.targets.signing import key, sign

MODELS: Final = Path(__file__).parent / "models"
TARGET: Final = '[targets.researcher]\nkind = "{kind}"\nallow_private = ["127.0.0.1/32"]\n{settings}\n'
SECRET: Final = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
SESSION: Final = "sess_1"
SILENT: Final = ("--report-within", "1s", "--backoff-base", "1s", "--exact-backoff", "--max-failures", "20")


class Waker:
    """A `wakeful serve` whose target `researcher` is the platform."""

    def __init__(self, folder: Path, url: str, alarms: wakeful.Wakeful) -> None:
        self.url = url
        self._folder, self._alarms = folder, alarms

    async def woken(self, message: str, conversation: str, *options: str) -> Fire:
        """Set an alarm in a process of its own, and wait for the end of its fire."""
        asked = ["--json", "at", "in 1 second", message, "--to", "researcher", "--conversation", conversation]
        options = options or ("--max-failures", "0")
        status, said, complained = command([*asked, *options], self._folder, WAKEFUL_URL=self.url)
        assert status == 0, complained
        id: str = json.loads(said)["id"]
        [fire] = await until(lambda: self._alarms.fires(id, status=("completed", "failed", "timed_out")))
        return fire


@asynccontextmanager
async def waking(trial: Trial, kind: str, **settings: str) -> AsyncIterator[Waker]:
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())
    (trial.folder / "wakeful.toml").write_text(TARGET.format(kind=kind, settings=lines))
    port = str(free_port())  # the platform is told this address
    with serving_process(trial.folder, "--db", str(trial.folder / "w.db"), port=port) as server:
        async with wakeful.open(server.url) as alarms:
            yield Waker(trial.folder, server.url, alarms)


async def asked(url: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    """The JSON that a URL answers; None where nobody does."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.request("GET" if body is None else "POST", url, json=body, headers=headers) as answer,
        ):
            return await answer.json(content_type=None)
    except aiohttp.ClientError:
        return None


def ended(fire: Fire, status: str, text: str) -> None:
    assert (fire.status, fire.result if status == "completed" else fire.last_error) == (status, text), fire


async def langgraph_server(trial: Trial) -> None:
    """A thread goes on, an interrupt is resumed, a failure is reported, and a run is not started a second time."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    name = shutil.copy(MODELS / "langgraph-server.py", trial.folder)
    with trial.running(Path(name).name, str(port)):
        await until(lambda: asked(f"{url}/ok"))
        async with waking(trial, "langgraph", url=url, assistant_id="agent") as waker:
            thread = str(uuid4())
            await asked(f"{url}/threads", {"thread_id": thread})
            hello = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hello"}]}}
            first = await asked(f"{url}/threads/{thread}/runs/wait", hello)
            assert first["messages"][-1]["content"] == "turn 1: hello", first

            ended(await waker.woken("check the portal", thread), "completed", "turn 2: check the portal")
            asking = await waker.woken("ask", thread)
            assert "wait for input" in asking.result, asking
            resume = json.dumps({"langgraph": {"resume": {"page": "page 7"}}})
            resumed = await waker.woken("the answer", thread, "--payload", resume)
            ended(resumed, "completed", "turn 3: page 7")
            failed = await waker.woken("fail", thread)
            ended(failed, "failed", "the run ended with error: ValueError: no such page")
            slow = await waker.woken("slow", other := str(uuid4()), *SILENT)
            ended(slow, "completed", "turn 1: slow")
            assert slow.attempts > 1, slow
            assert len(await asked(f"{url}/threads/{other}/runs")) == 1


async def a2a(trial: Trial) -> None:
    """A context goes on, a failure is reported, and a task is not begun a second time."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    card = f"{url}/.well-known/agent-card.json"
    shutil.copy(MODELS / "a2a.py", trial.folder / "counting.py")  # not by the name of the package
    with trial.running("counting.py", str(port)):
        await until(lambda: asked(card))
        async with waking(trial, "a2a", card=card) as waker:
            message = {"messageId": "m-1", "role": "ROLE_USER", "contextId": "c-1", "parts": [{"text": "hello"}]}
            request = {"jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": {"message": message}}
            first = await asked(f"{url}/", request, {"A2A-Version": "1.0"})
            assert first["result"]["task"]["artifacts"][0]["parts"] == [{"text": "turn 1: hello"}], first

            woken = await waker.woken("check the portal", "c-1", "--payload", '{"page": 3}')
            ended(woken, "completed", "turn 2: check the portal")
            ended(await waker.woken("fail", "c-1"), "failed", "the task was failed: no such page")
            slow = await waker.woken("slow", "c-2", *SILENT)
            ended(slow, "completed", "turn 1: slow")
            assert slow.attempts > 1, slow


async def openai_session(trial: Trial) -> None:
    """A stand-in checks the documented request and sends the project's webhook: OpenAI's own API is not called."""
    turns, webhook = {"earlier": "hello"}, ""

    async def event(request: web.Request) -> web.Response:
        assert request.path == f"/v1/agents/sessions/{SESSION}/events"
        assert request.headers["authorization"] == "Bearer sk-planted"
        assert request.headers["openai-beta"] == "agents=v1"
        body = await request.json()
        [message] = body["events"][0]["input"]
        text = message["content"][0].pop("text")
        content = [{"type": "input_text"}]
        sent = {"type": "message", "role": "user", "content": content}
        assert body == {"events": [{"type": "agent.session.input.message", "input": [sent]}]}
        turns[request.headers["idempotency-key"]] = text.splitlines()[0]
        return web.Response(status=202)

    async def told(type: str) -> int:
        """Send a webhook; how many fires it was a report on."""
        said = {"id": f"evt_{type}", "object": "event", "type": f"agent.session.{type}", "data": {"id": SESSION}}
        body, at = json.dumps(said).encode(), int(SystemClock().now().timestamp())
        signed = sign([key(SECRET)], said["id"], at, body)  # type: ignore[arg-type]
        headers = {"webhook-id": f"evt_{type}", "webhook-timestamp": str(at), "webhook-signature": signed}
        async with aiohttp.ClientSession() as session, session.post(webhook, data=body, headers=headers) as answer:
            return int((await answer.json())["reported"])

    async def session_ends() -> bool:
        return len(turns) > 1 and await told("in_progress") == 1 and await told("idle") == 1

    runner = web.AppRunner(app := web.Application())
    app.router.add_post("/{path:.*}", event)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port := free_port()).start()
    try:
        settings = {"url": f"http://127.0.0.1:{port}/v1", "api_key": "sk-planted", "webhook_secret": SECRET}
        async with waking(trial, "openai_session", **settings) as waker:
            webhook = f"{waker.url}/v1/callbacks/openai_session"
            ending = asyncio.create_task(until(session_ends))
            ended(await waker.woken("check the portal", SESSION), "completed", "The session is idle again.")
            await ending
            assert list(turns.values()) == ["hello", "check the portal"], turns
    finally:
        await runner.cleanup()

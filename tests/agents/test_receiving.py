"""`wakeful.agents.receiver`: webhooks are checked, answered at once, worked on in the background and reported."""

from __future__ import annotations

import asyncio
import base64
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import standardwebhooks
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import wakeful
from tests.interfaces.world import Visitor, serving
from tests.ports import free_port
from tests.remote.world import environment, serving_process, until
from wakeful.agents.receiving import BODY_LIMIT
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.testing.targets import a_wake

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
OLD = "whsec_" + base64.b64encode(b"the secret before it....").decode()
OnWake = Callable[[wakeful.Wake], Awaitable[object] | object]


class Recorded:
    """The application, and the requests that it got: to send one again. Its answers pass a gate."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            message = await receive()  # what wakeful sends is one message
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.requests.append((headers, message["body"]))
            await self._app(scope, _first(message, receive), self._gated(send))
        else:
            await self._app(scope, receive, send)

    def _gated(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            await self.gate.wait()
            await send(message)

        return sending


def _first(message: Message, receive: Receive) -> Receive:
    waiting = [message]

    async def receiving() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiving


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        running = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/wake"
        finally:
            server.should_exit = True
            await running


class Woken:
    """A receiver in this process, and the server whose target `researcher` it is."""

    def __init__(self, recorded: Recorded, url: str, visitor: Visitor) -> None:
        self.requests = recorded.requests
        self.gate = recorded.gate
        self.visitor = visitor
        self.url = url
        self.alarms = visitor.alarms

    async def set(self, message: str = "x", **more: Any) -> wakeful.Alarm:
        return await self.alarms.set(delay=0.01, wake_message=message, target="researcher", **more)

    async def ended(self, alarm: wakeful.Alarm, status: wakeful.FireStatus = "completed") -> wakeful.Fire:
        return (await until(lambda: self.alarms.fires(alarm.id, status=status)))[0]


@asynccontextmanager
async def woken(tmp_path: Path, on_wake: OnWake, secret: str | list[str] = SECRET, **more: Any) -> AsyncIterator[Woken]:
    recorded = Recorded(wakeful.agents.receiver(secret, on_wake, **more))
    target = {"kind": "webhook", "secret": SECRET, "reports": True, "allow_private": True}
    async with listening(recorded) as url:
        async with serving(db=str(tmp_path / "w.db"), targets={"researcher": {**target, "url": url}}) as visitor:
            try:
                yield Woken(recorded, url, visitor)
            finally:
                recorded.gate.set()


async def post(url: str, body: bytes | BytesIO, headers: dict[str, str], method: str = "POST") -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        async with session.request(method, url, data=body, headers=headers) as answer:
            return answer.status, await answer.text()


def signed(body: bytes, *secrets: str, at: datetime | None = None, id: str = "msg_1") -> dict[str, str]:
    """Signed by the reference implementation."""
    at = at or datetime.now(UTC)
    signatures = [standardwebhooks.Webhook(secret).sign(id, at, body.decode()) for secret in secrets]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def not_called(wake: wakeful.Wake) -> None:
    pytest.fail("it was called")


async def test_a_wake_is_answered_at_once_worked_on_and_reported(tmp_path: Path) -> None:
    seen: list[wakeful.Wake] = []

    async def on_wake(wake: wakeful.Wake) -> str:
        seen.append(wake)
        return f"read page {wake.payload['page']}"

    async with woken(tmp_path, on_wake) as here:
        alarm = await here.set("Check the portal", payload={"page": 3}, conversation_id="s-1", label="l")
        fire = await here.ended(alarm)
    [wake] = seen
    assert (fire.result, fire.attempts) == ("read page 3", 1)
    assert (wake.fire_id, wake.message, wake.conversation_id, wake.attempt) == (fire.id, "Check the portal", "s-1", 1)
    assert wake.prompt.startswith("Check the portal\n\n[Wake]\n")
    assert (wake.number, wake.max_fires, wake.label) == (1, 1, "l")
    assert wake.token.startswith("wk_wake_")


async def test_a_failure_is_reported_and_the_wake_that_comes_again_is_worked_on_again(tmp_path: Path) -> None:
    calls: list[str] = []

    def on_wake(wake: wakeful.Wake) -> str:
        calls.append(wake.fire_id)
        if len(calls) == 1:
            raise ValueError("no such page")
        return "now it is there"

    async with woken(tmp_path, on_wake) as here:
        alarm = await here.set(max_failures=0)
        failed = await here.ended(alarm, "failed")
        assert failed.last_error == "ValueError: no such page"
        await here.alarms.retry(failed.id)
        assert (await here.ended(alarm)).result == "now it is there"
    assert calls == [failed.id, failed.id]


async def test_a_snooze_puts_the_wake_off_also_before_its_202_is_on_record(tmp_path: Path) -> None:
    async def on_wake(wake: wakeful.Wake) -> None:
        raise wakeful.Snooze("15m")

    async with woken(tmp_path, on_wake) as here:
        here.gate.clear()
        alarm = await here.set()

        async def refused() -> bool:
            return '/report",status="409"' in (await here.visitor("GET", "/metrics")).text

        assert await until(refused)  # the attempt is still under way
        here.gate.set()
        assert (await here.ended(alarm, "snoozed")).attempts == 1


async def test_a_wake_that_comes_twice_is_worked_on_once(tmp_path: Path) -> None:
    calls: list[str] = []
    go_on = asyncio.Event()

    async def on_wake(wake: wakeful.Wake) -> str:
        calls.append(wake.fire_id)
        await go_on.wait()
        return "done"

    async with woken(tmp_path, on_wake) as here:
        alarm = await here.set()
        await here.ended(alarm, "delivered")
        [(headers, body)] = here.requests
        assert await post(here.url, body, headers) == (202, "")  # while it is worked on
        go_on.set()
        await here.ended(alarm)
        assert await post(here.url, body, headers) == (202, "")  # when it is done
        other = await here.set("another")
        await here.ended(other)
    assert len(calls) == 2
    assert calls[0] != calls[1]


async def test_what_is_not_signed_rightly_or_too_old_is_refused_and_not_worked_on(tmp_path: Path) -> None:
    body = a_wake("x").body
    now = datetime.now(UTC)
    refused: dict[str, list[dict[str, str]]] = {
        "no signature matches": [
            signed(body, OLD),
            signed(b"{}", SECRET),
            signed(body, SECRET) | {"webhook-id": "other"},
        ],
        "webhook-timestamp is too far from now": [
            signed(body, SECRET, at=now - timedelta(seconds=330)),
            signed(body, SECRET, at=now + timedelta(seconds=330)),
        ],
        "webhook-id or webhook-timestamp is missing or malformed": [{}],
    }
    async with listening(wakeful.agents.receiver(SECRET, not_called)) as url:
        for why, requests in refused.items():
            for headers in requests:
                assert await post(url, body, headers) == (401, f"{why}\n")


async def test_while_a_secret_is_changed_both_count(tmp_path: Path) -> None:
    async with woken(tmp_path, lambda wake: "read", [OLD, SECRET]) as here:
        await here.ended(await here.set())  # the target signs with the new one
        _, body = here.requests[0]
        assert await post(here.url, body, signed(body, OLD)) == (202, "")
    async with listening(wakeful.agents.receiver(OLD, lambda wake: "read")) as url:
        assert (await post(url, body, signed(body, SECRET, OLD)))[0] == 202  # signed with both


async def test_what_is_not_a_wake_is_answered_with_what_is_wrong() -> None:
    async with listening(wakeful.agents.receiver(SECRET, not_called)) as url:
        for body, why in {
            b"no": "truncated",
            b"[]": "Expected `object`, got `array`",
            b"{}": "scheduled_for is missing",
            a_wake("x").body.replace(b'"message"', b'"massage"'): "message is missing",
            a_wake("x").body.replace(b'"isolated":false', b'"isolated":7'): "Expected `bool`",
        }.items():
            status, said = await post(url, body, signed(body, SECRET))
            assert (status, said[:20]) == (400, "this is not a wake: ")
            assert why in said
        assert await post(url, b"", {}, "GET") == (405, "a wake is a POST\n")
        assert (await post(url, BytesIO(b"x" * (BODY_LIMIT + 1)), {}))[0] == 413


async def test_the_time_for_the_report_is_extended_while_it_is_worked_on(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def on_wake(wake: wakeful.Wake) -> None:
        await go_on.wait()

    async with woken(tmp_path, on_wake) as here:
        alarm = await here.set(policy={"report_within": 3})
        first = await here.ended(alarm, "delivered")

        async def twice_renewed() -> bool:
            later = (await here.alarms.fire_of(first.id)).report_by
            assert later is not None
            assert first.report_by is not None
            return later > first.report_by + timedelta(seconds=3)  # more than one report can do

        assert await until(twice_renewed)
        go_on.set()
        assert (await here.ended(alarm)).attempts == 1
    assert len(here.requests) == 1


async def test_no_more_run_at_once_than_is_said_and_what_finds_no_place_is_sent_again(tmp_path: Path) -> None:
    lock, running, most, hold = threading.Lock(), 0, 0, threading.Event()

    def on_wake(wake: wakeful.Wake) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        hold.wait(60)
        with lock:
            running -= 1

    async with woken(tmp_path, on_wake, concurrency=2, waiting=1) as here:
        made = [await here.set(str(number)) for number in range(4)]

        async def refused() -> list[wakeful.Fire]:
            return await here.alarms.fires(status="retrying")

        [fire] = await until(refused)
        assert fire.last_error == "HTTP 503: as many wakes as may wait are waiting"
        hold.set()
        for alarm in made:
            if alarm.id != fire.alarm_id:
                await here.ended(alarm)
    assert most == 2


async def test_mounted_in_an_application_it_ends_with_that(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def on_wake(wake: wakeful.Wake) -> str:
        begun.set()
        await go_on.wait()
        return "finished"

    wakes = wakeful.agents.receiver(SECRET, on_wake)
    app = Starlette(routes=[Mount("/wake", wakes)], lifespan=wakes.lifespan)
    target = {"kind": "webhook", "secret": SECRET, "reports": True, "allow_private": True}
    async with wakeful.open(tmp_path / "w.db") as alarms:
        async with listening(app) as url:
            async with serving(
                db=str(tmp_path / "w.db"), targets={"researcher": {**target, "url": f"{url}/"}}
            ) as visitor:
                alarm = await visitor.alarms.set(delay=0.01, wake_message="x", target="researcher")
                async with asyncio.timeout(60):
                    await begun.wait()
                closing = asyncio.create_task(wakes.close())
                await asyncio.sleep(0)
                assert (await post(f"{url}/", b"", {}))[0] == 503
                go_on.set()
                await closing
                [fire] = await alarms.fires(alarm.id)
    assert (fire.status, fire.result) == ("completed", "finished")


PROGRAM = """
import asyncio, pathlib, sys
import uvicorn, wakeful

gate = pathlib.Path(sys.argv[2])

async def on_wake(wake):
    print(wake.fire_id, wake.attempt, flush=True)
    while not gate.exists():
        await asyncio.sleep(0.01)
    return f"did {wake.message}"

uvicorn.run(wakeful.agents.receiver(sys.argv[3], on_wake), port=int(sys.argv[1]), log_level="error")
"""


def program(port: int, gate: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(port), str(gate), SECRET]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True)


async def line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return (await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 60)).split()


async def test_a_wake_whose_receiver_is_killed_is_sent_again_and_sigterm_lets_it_finish(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "wakeful.toml").write_text(
        f'[targets.researcher]\nkind = "webhook"\nurl = "http://127.0.0.1:{port}/"\nsecret = "{SECRET}"\n'
        "reports = true\nallow_private = true\n"
    )
    (tmp_path / "wakeful.toml").chmod(0o600)
    with serving_process(tmp_path, "--db", str(tmp_path / "w.db")) as server:
        async with wakeful.open(server.url) as alarms:
            first = program(port, tmp_path / "never")
            policy: wakeful.PolicyKeywords = {"report_within": 2, "backoff_base": 1, "backoff_cap": 1}
            alarm = await alarms.set(delay=1, wake_message="x", target="researcher", policy=policy, max_failures=60)
            fire_id, attempt = await line(first)
            first.kill()  # it has answered 202, or is about to, and has not reported
            await asyncio.to_thread(first.communicate)
            second = program(port, tmp_path / "gate")
            try:
                again = await line(second)
                second.send_signal(signal.SIGTERM)
                (tmp_path / "gate").touch()
                await asyncio.to_thread(second.communicate, timeout=60)
            finally:
                second.kill()
                second.communicate()
            [fire] = await until(lambda: alarms.fires(alarm.id, status="completed"))
    assert again[0] == fire_id == fire.id
    assert int(again[1]) > int(attempt)
    assert fire.result == "did x"


def test_what_cannot_work_is_refused_when_it_is_made() -> None:
    for secret in ("", [], [SECRET, ""]):
        with pytest.raises(InvalidConfig, match="anyone could sign"):
            wakeful.agents.receiver(secret, print)
    with pytest.raises(InvalidConfig, match="not base64"):
        wakeful.agents.receiver("whsec_!", print)
    with pytest.raises(InvalidRequest, match="not a function"):
        wakeful.agents.receiver(SECRET, "on_wake")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="at least 1"):
        wakeful.agents.receiver(SECRET, print, waiting=0)

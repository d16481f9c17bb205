"""How much the HTTP door takes, and how long it waits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.world import Visitor, serving
from wakeful.clock import turn
from wakeful.http import endpoint
from wakeful.http.endpoint import operations_of
from wakeful.http.routes import alarms as http_alarms
from wakeful.http.routes.alarms import READ_AT_ONCE
from wakeful.http.security import connection
from wakeful.http.security.guard import DEPTH_LIMIT
from wakeful.model.alarm import Policy
from wakeful.rules import wanted as request
from wakeful.testing import store_of


@pytest.mark.parametrize(("depth", "status"), [(DEPTH_LIMIT - 1, 201), (DEPTH_LIMIT, 400), (5000, 400)])
async def test_a_body_may_be_nested_so_deep_and_no_deeper(visit: Visitor, depth: int, status: int) -> None:
    payload = "[" * depth + '"]]]]{{{{\\""' + "]" * depth
    body = f'{{"wake_message": "x", "when": "in 1 hour", "payload": {payload}}}'.encode()
    answer = await visit("POST", "/v1/alarms", body)
    assert answer.status == status
    if status == 400:
        assert answer.told == (400, "invalid_request", "body")


async def test_brackets_in_texts_are_no_depth(visit: Visitor) -> None:
    assert (await visit.set(wake_message="[{" * 1000))["status"] == "active"


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_WITHIN", 0.2)
    async with serving(str(tmp_path / "w.db"), did_auth=True) as visit:
        port, token = visit.alarms.settings.port, (await visit.token("ada"))["authorization"]
        taking = [operation for operation in operations_of(visit.alarms.asgi().routes) if operation.body is not None]
        for method, path in [*((one.method, one.path) for one in taking), ("POST", "/mcp")]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: {token}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{".encode())
            async with asyncio.timeout(30):
                answer = await reader.read()  # to the end: the connection is closed
            assert answer.startswith(b"HTTP/1.1 408"), path
            assert b'"body_too_slow"' in answer
            writer.close()
        assert len(taking) >= 9


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"])
async def test_headers_that_do_not_come_are_not_waited_for(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connection, "HEAD_WITHIN", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", visit.alarms.settings.port)
    writer.write(said)
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.close()


async def test_headers_without_end_are_refused(visit: Visitor) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", visit.alarms.settings.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 20_000)
    async with asyncio.timeout(30):
        assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()


async def test_a_store_that_does_not_answer_is_a_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_WITHIN", 0.2)

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    async with serving(str(tmp_path / "w.db")) as visit:
        monkeypatch.setattr(store_of(visit.alarms), "stats", never)
        assert (await visit("GET", "/v1/stats")).told == (503, "store_unavailable", "")


async def test_requests_on_one_connection_are_answered_in_their_order(visit: Visitor) -> None:
    port = visit.alarms.settings.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /healthz HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode() * 3)
    async with asyncio.timeout(30):
        for _ in range(3):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            assert b'"ok"' in await reader.readexactly(length)
    writer.close()


async def test_a_batch_of_a_thousand_refusals_lets_others_have_their_turn(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never more than a few are read between two turns of somebody else on the same loop."""
    read, most, decode = 0, 0, request.decode

    def counted(raw: Any, kind: Any) -> Any:
        nonlocal read
        read += 1
        return decode(raw, kind)

    async def somebody_else() -> None:
        nonlocal read, most
        while True:
            most, read = max(most, read), 0
            await turn()

    monkeypatch.setattr(http_alarms, "decode", counted)
    other = asyncio.create_task(somebody_else())
    bad = {"wake_message": "x", "when": "every frobnicate at 25:99"}
    answer = await visit("POST", "/v1/alarms/batch", {"alarms": [bad] * 1000})
    other.cancel()
    assert answer.json["refused"] == 1000
    assert 0 < most <= READ_AT_ONCE * 2


@pytest.mark.parametrize("name", ["backoff_base", "backoff_cap"])
async def test_nobody_asks_for_retries_without_a_pause_over_http_token_or_not(visit: Visitor, name: str) -> None:
    """Whoever owns the machine still may: in Python and on the command line."""
    policy = {"policy": {name: 0}}
    asked = {"wake_message": "x", "when": "in 1 hour"} | policy
    id = (await visit.set(policy={"backoff_base": "1s", "backoff_cap": "1s"}))["id"]
    for _ in range(2):
        assert (await visit("POST", "/v1/alarms", asked)).told == (400, "invalid_request", f"policy.{name}")
        many = (await visit("POST", "/v1/alarms/batch", {"alarms": [asked]})).json
        assert (many["created"], many["refused"]) == (0, 1)
        assert (await visit("PATCH", f"/v1/alarms/{id}", policy)).told == (400, "invalid_request", f"policy.{name}")
        visit._session.headers.update(await visit.token("local"))
    assert (await visit.alarms.set("in 1 hour", "x", policy={name: 0})).policy != Policy()  # type: ignore[arg-type]

"""What one owner may take of a process: requests within a minute, connections that stay open. Others do not feel it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.interfaces.world import Visitor, serving
from wakeful.errors import TooMany
from wakeful.http.security.limits import OWNERS, Rate
from wakeful.testing import store_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
Header = dict[str, str]


def admitted(rate: Rate, owner: str, now: datetime) -> int:
    """How many requests go through at once."""
    count = 0
    while True:
        try:
            rate.admit(owner, now)
        except TooMany:
            return count
        count += 1


def test_what_was_not_used_may_come_at_once_and_then_steadily() -> None:
    rate = Rate(60)
    assert admitted(rate, "ada", NOW) == 60
    assert admitted(rate, "eve", NOW) == 60
    with pytest.raises(TooMany) as refusal:
        rate.admit("ada", NOW)
    assert refusal.value.retry_after == pytest.approx(1)
    assert admitted(rate, "ada", NOW + 0.9 * SECOND) == 0
    assert admitted(rate, "ada", NOW + SECOND) == 1
    assert admitted(rate, "ada", NOW + 11 * SECOND) == 10
    assert admitted(rate, "ada", NOW + timedelta(days=1)) == 60


def test_a_clock_that_is_set_back_refuses_nobody_for_long() -> None:
    rate = Rate(60)
    assert admitted(rate, "ada", NOW) == 60
    assert admitted(rate, "ada", NOW - timedelta(hours=1)) == 0
    assert admitted(rate, "eve", NOW - timedelta(hours=1)) == 60
    assert admitted(rate, "ada", NOW - timedelta(hours=1)) == 0
    assert admitted(rate, "ada", NOW - timedelta(hours=1) + timedelta(minutes=1)) == 60


def test_it_does_not_remember_every_owner_there_ever_was() -> None:
    rate = Rate(1)
    for number in range(OWNERS + 100):
        rate.admit(str(number), NOW)
    assert len(rate._spent) == OWNERS
    assert admitted(rate, str(OWNERS + 99), NOW) == 0  # the latest are remembered


async def test_requests_beyond_the_rate_are_told_when_to_come_again(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), requests_per_minute=3) as visit:
        for _ in range(10):
            assert (await visit("GET", "/v1/stats")).status == 200  # while there is no token nobody is counted
        ada, again, eve = await visit.token("ada"), await visit.token("ada"), await visit.token("eve")
        async with asyncio.timeout(30):
            while (answer := await visit("GET", "/v1/stats")).status != 401:
                pass  # until the server has noticed that there are tokens
        for headers in (ada, again, ada):  # two tokens, one owner
            assert (await visit("GET", "/v1/stats", headers=headers)).status == 200
        for method, path in (("GET", "/v1/stats"), ("POST", "/v1/alarms"), ("POST", "/mcp"), ("GET", "/v1/nothing")):
            answer = await visit(method, path, headers=again)
            assert answer.told == (429, "too_many", "requests_per_minute")
            assert 1 <= int(answer.headers["retry-after"]) <= 20
        assert (await visit("GET", "/v1/stats", headers=eve)).status == 200
        assert (await visit("GET", "/healthz", headers=ada)).status == 200


async def test_every_call_on_a_socket_is_a_request_also_in_a_batch(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), requests_per_minute=4, did_auth=True) as visit:
        ada = await visit.token("ada")
        async with opened(visit, ada) as socket:  # the handshake is the first
            await socket.send_json([{"jsonrpc": "2.0", "method": "count", "id": number} for number in range(5)])
            answers = await socket.receive_json(timeout=30)
        assert [answer.get("result") for answer in answers] == [0, 0, 0, None, None]
        assert answers[4]["error"]["data"]["code"] == "too_many"
        assert answers[4]["error"]["data"]["field"] == "requests_per_minute"


@asynccontextmanager
async def opened(visit: Visitor, headers: Header) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with visit._session.ws_connect(f"{visit.url}/v1/ws", headers=headers) as socket:
        yield socket


@asynccontextmanager
async def streaming(visit: Visitor, headers: Header) -> AsyncIterator[aiohttp.ClientResponse]:
    async with visit._session.get(f"{visit.url}/v1/events", headers=headers) as response:
        assert response.status == 200
        await response.content.readline()
        yield response


async def refused(visit: Visitor, path: str, headers: Header) -> dict[str, Any]:
    """The problem a handshake or a stream is answered with."""
    handshake = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    handshake |= {"sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    more = handshake if path == "/v1/ws" else {}
    async with visit._session.get(f"{visit.url}{path}", headers=headers | more) as response:
        assert response.status == 429, response.status
        assert response.headers["content-type"] == "application/problem+json"
        found: dict[str, Any] = json.loads(await response.text())
        return found


@pytest.fixture
async def visit(tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(str(tmp_path / "w.db"), live_per_owner=2, did_auth=True) as visitor:
        yield visitor


async def test_an_owner_holds_so_many_sockets_and_streams_and_no_more(visit: Visitor) -> None:
    ada, again, eve = await visit.token("ada"), await visit.token("ada"), await visit.token("eve")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(opened(visit, ada))
        await stack.enter_async_context(streaming(visit, again))
        for path in ("/v1/ws", "/v1/events"):
            problem = await refused(visit, path, ada)
            assert (problem["code"], problem["field"]) == ("too_many", "live_per_owner")
            assert "Close one" in problem["fix"]
        await stack.enter_async_context(opened(visit, eve))
        assert (await visit("GET", "/v1/stats", headers=ada)).status == 200


@pytest.mark.parametrize("kind", [opened, streaming])
async def test_one_that_is_closed_makes_room(visit: Visitor, kind: Any) -> None:
    ada = await visit.token("ada")
    async with kind(visit, ada):
        async with kind(visit, ada):
            await refused(visit, "/v1/events", ada)
        async with asyncio.timeout(30):
            while (await visit("HEAD", "/v1/events", headers=ada)).status != 200:
                pass  # until the server has noticed


@pytest.mark.parametrize("kind", [opened, streaming])
async def test_a_revoked_token_leaves_no_place_taken(visit: Visitor, kind: Any) -> None:
    ada, again = await visit.token("ada"), await visit.token("ada")
    async with kind(visit, ada), kind(visit, ada):
        await refused(visit, "/v1/events", again)
        id = ada["authorization"].split("_")[1]
        await store_of(visit.alarms).access.update_token(id, revoked_at=await visit.alarms.service.now())
        async with asyncio.timeout(30):
            while (await visit("HEAD", "/v1/events", headers=again)).status != 200:
                pass


async def test_whoever_owns_the_machine_is_not_counted(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), live_per_owner=1) as visit:
        async with opened(visit, {}), opened(visit, {}), streaming(visit, {}):
            pass

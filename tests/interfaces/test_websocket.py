"""The WebSocket door: a real server, a real client."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.databases import database_of
from tests.interfaces.world import Visitor, serving
from wakeful.http.security.auth import mint
from wakeful.http.websocket import MESSAGE_LIMIT
from wakeful.model.alarm import Alarm
from wakeful.process.application import build
from wakeful.service.live import CHUNK, QUEUE, TOO_SLOW, WHATS, Live, LiveEvent
from wakeful.settings import Settings
from wakeful.testing import store_of

TICK = timedelta(milliseconds=50)


@pytest.fixture
async def visit(tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(str(tmp_path / "wakeful.db"), tick=TICK) as visitor:
        yield visitor


@pytest.fixture(params=["sqlite", "postgres"])
async def visit_each(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    place = database_of(request, tmp_path)
    async with serving(**place, tick=TICK) as visitor:
        yield visitor


class Socket:
    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self._number = 0

    async def say(self, message: Any) -> Any:
        """Send whatever it is; the answer."""
        await self.ws.send_str(message if isinstance(message, str) else json.dumps(message))
        return await self.heard()

    async def heard(self) -> Any:
        return await self.ws.receive_json(timeout=60)

    async def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        answer = await self.say({"jsonrpc": "2.0", "method": method, "params": params, "id": self._number})
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", self._number)
        assert "error" not in answer, answer
        return answer["result"]

    async def refusal(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.say({"jsonrpc": "2.0", "method": method, "params": params, "id": "x"})
        error: dict[str, Any] = answer["error"]
        return error

    async def events(self, count: int) -> list[dict[str, Any]]:
        found = [await self.heard() for _ in range(count)]
        assert all(told["method"] == "event" and "id" not in told for told in found)
        return [told["params"] for told in found]

    async def closed(self) -> tuple[int | None, str]:
        """The code and the words of the end, whatever comes before it."""
        while True:
            message = await self.ws.receive(timeout=30)
            if message.type == aiohttp.WSMsgType.CLOSE:
                return message.data, message.extra or ""
            assert message.type == aiohttp.WSMsgType.TEXT, message


@asynccontextmanager
async def socket(visit: Visitor, token: str = "", **headers: str) -> AsyncIterator[Socket]:
    given = headers | ({"authorization": f"Bearer {token}"} if token else {})
    # Its close is not waited for: a test may have left events unread.
    timeout = aiohttp.ClientWSTimeout(ws_close=0.1)
    async with visit._session.ws_connect(
        f"{visit.url}/v1/ws", headers=given, autoclose=False, timeout=timeout, max_msg_size=0
    ) as ws:
        yield Socket(ws)


async def a_token(visit: Visitor, owner: str, *scopes: str) -> str:
    text, token = mint(owner, scopes or ("read", "write"), now=datetime.now(UTC))
    assert await store_of(visit.alarms).access.add_token(token)
    return text


# Methods


async def test_the_methods_of_the_alarm_system(visit_each: Visitor) -> None:
    visit = visit_each
    wake = await visit.fired()
    late, soon = await visit.set(when="in 2 hours", label="late"), await visit.set(when="in 1 hour", payload={"a": 1})
    async with socket(visit) as ws:
        first, second = await ws.call("list")
        assert (first["id"], second["id"]) == (soon["id"], late["id"])
        assert first["set_at"] == math.ceil(datetime.fromisoformat(soon["next_fire_at"]).timestamp())
        assert 3500 < first["time_offset"] <= 3600
        assert (second["label"], first["payload"], first["status"]) == ("late", {"a": 1}, "active")
        assert [alarm["id"] for alarm in await ws.call("list", limit=1)] == [soon["id"]]
        assert await ws.call("count") == 2
        assert [entry["id"] for entry in await ws.call("history")] == [soon["id"], late["id"], wake.fire_id]
        assert [entry["id"] for entry in await ws.call("history", status="fired", limit=1)] == [wake.fire_id]
        for word in ("process", "target"):
            assert [entry["id"] for entry in await ws.call("history", **{word: "agent"})] == [wake.fire_id]
        assert await ws.call("history", since=4_000_000_000) == []
        assert await ws.call("history", since="2099-01-01T00:00:00Z") == []
        stats = await ws.call("stats")
        assert (stats["total"], stats["pending"], stats["fired"], stats["timeout_unknown"]) == (3, 2, 1, 0)
        assert "avg_duration_ms" in stats
        assert await ws.call("failed") == []
        for _ in range(6):  # the first attempt and its retries
            await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "failed", "reason": "no milk"})
        shown = await ws.call("get", id=soon["id"])
        assert (shown["id"], shown["wake_message"]) == (soon["id"], "hello")
        often = await visit.set(when="every 5 minutes")
        assert (await ws.call("get", id=often["id"]))["notes"] == often["notes"] == ["It wakes 288 times a day."]


async def test_what_failed_is_listed(visit: Visitor) -> None:
    await visit.alarms.set(delay=0.01, wake_message="work", target="agent", max_failures=0)
    wake = await asyncio.wait_for(visit.agent.wakes.get(), 30)
    await visit.alarms.dispatcher._all_down()
    await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "failed", "reason": "no milk"})
    async with socket(visit) as ws:
        [entry] = await ws.call("failed", limit=5)
        assert (entry["id"], entry["status"], entry["error"]) == (wake.fire_id, "failed", "no milk")


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("list", {"limit": 0}, "limit"),
        ("list", {"limit": 501}, "limit"),
        ("list", {"owner": "eve"}, "owner"),
        ("count", {"owner": "eve"}, "owner"),
        ("history", {"status": "asleep"}, "status"),
        ("history", {"since": "soon"}, "since"),
        ("history", {"process": "a", "target": "b"}, "process"),
        ("stats", {"x": 1}, "x"),
        ("failed", {"limit": "many"}, "limit"),
        ("get", {}, "id"),
        ("get", {"id": 7}, "id"),
        ("subscribe", {"events": ["exploded"]}, "events"),
        ("subscribe", {"owner": "eve"}, "owner"),
        ("unsubscribe", {"x": 1}, "x"),
    ],
)
async def test_wrong_parameters_are_named(visit: Visitor, method: str, params: dict[str, Any], field: str) -> None:
    async with socket(visit) as ws:
        error = await ws.refusal(method, **params)
        assert (error["code"], error["data"]["code"], error["data"]["field"]) == (-32602, "invalid_request", field)


async def test_an_unknown_alarm_is_a_problem_as_http_tells_it(visit: Visitor) -> None:
    async with socket(visit) as ws:
        for method, name in (("get", "id"), ("subscribe", "alarm_id")):
            error = await ws.refusal(method, **{name: "nobody"})
            assert (error["code"], error["data"]["status"], error["data"]["code"]) == (-32000, 404, "not_found")


# JSON-RPC


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", -32700),
        ("", -32700),
        ("nonsense", -32700),
        ('"\\ud800"', -32700),
        ("[" * 5000, -32700),
        ("[]", -32600),
        ("7", -32600),
        ('"list"', -32600),
        ("{}", -32600),
        ('{"jsonrpc": "1.0", "method": "count", "id": 1}', -32600),
        ('{"jsonrpc": "2.0", "id": 1}', -32600),
        ('{"jsonrpc": "2.0", "method": 5, "id": 1}', -32600),
        ('{"jsonrpc": "2.0", "method": "count", "id": true}', -32600),
        ('{"jsonrpc": "2.0", "method": "count", "id": {}}', -32600),
        ('{"jsonrpc": "2.0", "method": "count", "params": 7, "id": 1}', -32600),
        ('{"jsonrpc": "2.0", "method": "count", "params": [7], "id": 1}', -32602),
        ('{"jsonrpc": "2.0", "method": "drop", "id": 1}', -32601),
    ],
)
async def test_what_is_no_request_is_refused_by_its_code(visit: Visitor, message: str, code: int) -> None:
    async with socket(visit) as ws:
        answer = await ws.say(message)
        assert answer["error"]["code"] == code
        assert answer["id"] == (1 if '"id": 1' in message else None)
        assert await ws.call("count") == 0  # and the socket goes on


async def test_a_batch_is_answered_in_one_message(visit: Visitor) -> None:
    def count(**more: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "method": "count"} | more

    async with socket(visit) as ws:
        answers = await ws.say([count(id="a"), count(), 7, count(id=None), count(method="drop", id=2)])
        told = [(answer["id"], answer.get("result"), answer.get("error", {}).get("code")) for answer in answers]
        assert told == [("a", 0, None), (None, None, -32600), (None, 0, None), (2, None, -32601)]
        assert len(await ws.say([count(id=number) for number in range(20)])) == 20
        assert (await ws.say([count(id=number) for number in range(21)]))["error"]["code"] == -32600
        await ws.ws.send_str(json.dumps([count(), count(method="drop")]))  # nothing wanted, nothing said
        await ws.ws.send_bytes(json.dumps(count(id="in bytes")).encode())
        assert (await ws.heard())["id"] == "in bytes"


async def test_a_message_that_is_too_long_ends_the_socket(visit: Visitor) -> None:
    async with socket(visit) as ws:
        await ws.ws.send_str(" " * (MESSAGE_LIMIT + 1))
        assert (await ws.closed())[0] == 1009


# Events


async def test_events_come_to_who_subscribed(visit_each: Visitor) -> None:
    visit = visit_each
    async with socket(visit) as ws:
        answer = await ws.call("subscribe")
        assert answer["events"] == list(WHATS)
        wake = await visit.fired()
        created, fired, delivered = await ws.events(3)
        assert [event["what"] for event in (created, fired, delivered)] == ["created", "fired", "delivered"]
        assert created["alarm_id"] == delivered["alarm_id"] == wake.alarm_id
        assert (fired["fire_id"], fired["owner"], fired["target"]) == (wake.fire_id, "local", "agent")
        assert len({event["id"] for event in (created, fired, delivered)}) == 3
        await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "completed"})
        [completed] = await ws.events(1)
        assert (completed["what"], completed["status"]) == ("completed", "completed")


async def test_a_subscription_can_be_narrowed_changed_and_ended(visit: Visitor) -> None:
    one, other = await visit.set(), await visit.set()
    async with socket(visit) as ws:
        assert await ws.call("unsubscribe") is False
        await ws.call("subscribe", events=["paused"], alarm_id=other["id"])
        for alarm in (one, other):
            await visit("POST", f"/v1/alarms/{alarm['id']}/pause", {})
        [paused] = await ws.events(1)
        assert (paused["what"], paused["alarm_id"]) == ("paused", other["id"])
        await ws.call("subscribe", events=["cancelled"])  # in place of the first
        for alarm in (one, other):
            await visit("DELETE", f"/v1/alarms/{alarm['id']}")
        assert [event["what"] for event in await ws.events(2)] == ["cancelled", "cancelled"]
        assert await ws.call("unsubscribe") is True
        await visit.set()
        assert await ws.call("count") == 1  # an answer, and no event before it


async def test_who_comes_back_goes_on_after_the_last_event_seen(visit: Visitor) -> None:
    async with socket(visit) as ws:
        await ws.call("subscribe")
        await visit.set()
        [seen] = await ws.events(1)
    missed = await visit.set()
    async with socket(visit) as ws:
        assert (await ws.call("subscribe", after=seen["id"]))["resumed"]
        assert [event["alarm_id"] for event in await ws.events(1)] == [missed["id"]]
        assert not (await ws.call("subscribe", after="elsewhere-1"))["resumed"]


async def test_what_another_process_does_is_told(tmp_path: Path) -> None:
    db = str(tmp_path / "wakeful.db")
    async with serving(db, tick=TICK) as visit, build(Settings(db=db)) as there, socket(visit) as ws:
        await ws.call("subscribe", events=["created", "cancelled"])
        alarm = await there.set("in 1 hour", "from elsewhere")
        await there.cancel(alarm.id)
        assert [(event["what"], event["alarm_id"]) for event in await ws.events(2)] == [
            ("created", alarm.id),
            ("cancelled", alarm.id),
        ]


# Who may


async def test_another_owner_sees_nothing_of_it(visit_each: Visitor) -> None:
    visit = visit_each
    ada, eve = await a_token(visit, "ada", "read"), await a_token(visit, "eve")
    async with socket(visit, ada) as hers, socket(visit, eve) as other:
        for ws in (hers, other):
            await ws.call("subscribe")
        wake = await visit.fired(owner="ada")
        alarm: Alarm = await visit.alarms.for_owner("ada").set("in 1 hour", "hers")
        assert {event["owner"] for event in await hers.events(4)} == {"ada"}
        assert [alarm["id"] for alarm in await hers.call("list")] == [alarm.id]
        mine = await visit.alarms.for_owner("eve").set("in 1 hour", "mine")
        assert [event["alarm_id"] for event in await other.events(1)] == [mine.id]
        assert [alarm["id"] for alarm in await other.call("list")] == [mine.id]
        assert await other.call("count") == 1
        assert [entry["id"] for entry in await other.call("history")] == [mine.id]
        assert (await other.call("stats"))["total"] == 1
        for id in (alarm.id, wake.alarm_id):
            assert (await other.refusal("get", id=id))["data"]["status"] == 404
            assert (await other.refusal("subscribe", alarm_id=id))["data"]["status"] == 404


async def test_without_a_token_that_is_good_nobody_comes_in(visit: Visitor) -> None:
    token = await a_token(visit, "ada")
    for wrong in ("", token[:-1], "wk_0000000000000000_" + "x" * 43):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            async with socket(visit, wrong):
                pass
        assert refusal.value.status == 401


async def test_a_page_of_another_origin_may_not_connect(visit: Visitor) -> None:
    for headers, status in (
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 421),
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            async with socket(visit, **headers):
                pass
        assert refusal.value.status == status
    async with socket(visit, origin=visit.url) as ws:
        assert await ws.call("count") == 0


async def test_a_plain_request_is_told_to_upgrade(visit: Visitor) -> None:
    answer = await visit("GET", "/v1/ws")
    assert answer.told == (426, "upgrade_required", "Upgrade")
    assert answer.headers["upgrade"] == "websocket"


async def test_a_revoked_token_ends_its_socket(visit: Visitor) -> None:
    token, other = await a_token(visit, "ada"), await a_token(visit, "ada")
    async with socket(visit, token) as ws, socket(visit, other) as stays:
        await ws.call("subscribe")
        await store_of(visit.alarms).access.update_token(token.split("_")[1], revoked_at=datetime.now(UTC))
        code, reason = await ws.closed()
        assert (code, reason) == (4401, "the token is no longer good")
        assert await stays.call("count") == 0


async def test_the_first_token_ends_the_sockets_that_had_none(visit: Visitor) -> None:
    async with socket(visit) as ws:
        await a_token(visit, "ada")
        assert (await ws.closed())[0] == 4401


async def test_who_does_not_read_is_let_go_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Live] = []

    class Kept(Live):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, patience=0.2)
            made.append(self)

    monkeypatch.setattr("wakeful.service.live.Live", Kept)
    async with serving(str(tmp_path / "wakeful.db"), tick=TICK) as visit, socket(visit) as ws:
        [live] = made
        await ws.call("subscribe")
        [subscription] = live._subscribers
        connection = ws.ws._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.pause_reading()
        # Large enough that no buffer of the kernel's holds them all.
        large = LiveEvent(seq=0, at=datetime.now(UTC), what="paused", alarm_id="x", owner="local", reason="x" * 30_000)
        async with asyncio.timeout(30):
            while not subscription.dropped.is_set():
                await live._tell([large] * CHUNK)
                assert subscription.waiting <= QUEUE
        assert live.subscribers == 0
        connection.transport.resume_reading()
        assert await ws.closed() == (4408, TOO_SLOW)
        assert subscription.waiting == 0


async def test_the_server_stops_though_sockets_are_open(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "wakeful.db"), tick=TICK) as visit, socket(visit) as ws:
        await ws.call("subscribe")
        visit.running.cancel()
        assert (await ws.closed())[0] == 1012
        await asyncio.wait_for(asyncio.wait((visit.running,)), 30)

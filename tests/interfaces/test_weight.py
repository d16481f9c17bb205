"""Answers have a weight: a page ends, a batch ends, and whoever does not read gets no more."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.test_owner_limits import opened
from tests.interfaces.world import Visitor, serving
from wakeful.errors import TooMany
from wakeful.http.operations import PAGE_SIZE
from wakeful.http.security.guard import OUTGOING, PIECE, Answer
from wakeful.http.security.limits import Outgoing
from wakeful.http.websocket import ANSWER_LIMIT

HEAVY = {"payload": "x" * 60_000}


async def set_heavy(visit: Visitor, count: int, owner: str = "ada") -> None:
    for _ in range(count):
        await visit.alarms.for_owner(owner).set("in 1 hour", "x", payload=HEAVY["payload"])


async def test_a_page_ends_at_its_weight_and_the_cursor_goes_on(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), owner="ada") as visit:
        await set_heavy(visit, 80)
        seen: list[str] = []
        cursor, sizes = "", []
        while True:
            answer = await visit("GET", f"/v1/alarms?limit=500&cursor={cursor}")
            assert answer.status == 200, answer.text
            sizes.append(len(answer.text))
            seen += [alarm["id"] for alarm in answer.json["alarms"]]
            if not (cursor := answer.json.get("next_cursor", "")):
                break
        assert len(set(seen)) == len(seen) == 80
        assert len(sizes) == 2
        assert max(sizes) < PAGE_SIZE + 200_000


async def test_a_batch_on_a_socket_ends_at_its_weight_and_says_so(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), owner="ada") as visit:
        await set_heavy(visit, 30)
        async with opened(visit, {}) as ws:
            batch = [{"jsonrpc": "2.0", "method": "list", "id": number} for number in range(20)]
            await ws.send_json(batch)
            text = await ws.receive_str(timeout=30)
            assert len(text) < ANSWER_LIMIT + 100_000
            await ws.send_json([*batch, {"jsonrpc": "2.0", "method": "count", "id": "last"}][-1:])
            assert (await ws.receive_json(timeout=30))[0]["result"] == 30
        answers = json.loads(text)
        assert [len(answer["result"]) for answer in answers if "result" in answer] == [30, 30]
        problem = answers[2]["error"]["data"]
        assert (problem["code"], problem["field"]) == ("too_many", "limit")
        assert "smaller limit" in problem["fix"]


def test_what_is_not_read_is_held_against_its_owner_only() -> None:
    outgoing = Outgoing(100)
    with outgoing.held("eve", 1000):  # one goes always
        with pytest.raises(TooMany) as refusal:
            outgoing.check("eve")
        assert (refusal.value.field, refusal.value.retry_after) == ("unread_per_owner", 1.0)
        outgoing.check("ada")
        with outgoing.held("ada", 60), outgoing.held("ada", 40), pytest.raises(TooMany), outgoing.held("ada", 1):
            pass
    outgoing.check("eve")
    assert not outgoing._held


async def test_a_long_answer_counts_until_it_was_taken() -> None:
    outgoing, halfway, taken, sent = Outgoing(10), asyncio.Event(), asyncio.Event(), []

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == 3:
            halfway.set()
            await taken.wait()

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", OUTGOING: lambda size: outgoing.held("eve", size)}
    body = b"x" * (3 * PIECE + 1)
    sending = asyncio.create_task(Answer(body, 200, {})(scope, receive, send))
    await halfway.wait()
    with pytest.raises(TooMany):
        outgoing.check("eve")
    taken.set()
    await sending
    outgoing.check("eve")
    assert b"".join(message.get("body", b"") for message in sent) == body
    assert [message.get("more_body") for message in sent[1:]] == [True] * 4 + [False]


async def test_clients_that_do_not_read_are_refused_more_and_others_are_answered(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), did_auth=True, unread_per_owner=5_000_000) as visit:
        await set_heavy(visit, 70, "eve")
        eve, ada = await visit.token("eve"), await visit.token("ada")
        host, port = "127.0.0.1", int(visit.url.rpartition(":")[2])
        head = f"GET /v1/alarms?limit=500 HTTP/1.1\r\nhost: {host}\r\nauthorization: {eve['authorization']}\r\n\r\n"
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # else the kernel reads for it
        line.setblocking(False)
        await asyncio.get_running_loop().sock_connect(line, (host, port))
        reader, writer = await asyncio.open_connection(sock=line, limit=1024)
        writer.write(head.encode())
        assert await reader.readexactly(12) == b"HTTP/1.1 200"  # and no more than that
        answer = await visit("GET", "/v1/alarms?limit=500", headers=eve)
        assert answer.told == (429, "too_many", "unread_per_owner")
        assert (await visit("GET", "/v1/alarms?limit=1", headers=eve)).status == 200  # a short one
        assert (await visit("GET", "/v1/stats", headers=ada)).status == 200
        writer.transport.abort()
        async with asyncio.timeout(30):
            while (await visit("GET", "/v1/alarms?limit=500", headers=eve)).status != 200:
                pass

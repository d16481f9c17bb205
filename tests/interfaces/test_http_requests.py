"""Requests byte by byte: what is not plain HTTP/1.1 is refused, and answers come in the order of the requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.interfaces.world import Visitor
from wakeful.http.security.connection import HEAD_LIMIT

HOST = b"Host: localhost\r\n"
ASKS = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
BODY = b'{"wake_message": "x", "when": "in 1 hour"}'
POST = b"POST /v1/alarms HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
CREATES = POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
META = {"protocolVersion": "2026-07-28", "clientCapabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
CHUNK = b"%x\r\n%s\r\n" % (len(BODY), BODY)


class Line:
    """A connection on which every byte is ours."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            if len(pieces) > 1:
                await asyncio.sleep(0.05)  # a segment of its own

    async def answer(self, *, to_head: bool = False) -> tuple[int, bytes]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        body = b"" if to_head else await self._reader.readexactly(length)
        return int(head.split()[1]), head + body

    async def status(self) -> int:
        return (await self.answer())[0]

    def end(self) -> None:
        self._writer.write_eof()

    async def is_closed(self) -> bool:
        try:
            return await self._reader.read() == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def connected(visit: Visitor) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection("127.0.0.1", visit.alarms.settings.port)
    try:
        async with asyncio.timeout(60):
            yield Line(reader, writer)
    finally:
        writer.close()


BAD = {
    "both lengths": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, the other way": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "a list of lengths": POST + b"Content-Length: 5, 6\r\n\r\nabcdef",
    "a length with a sign": POST + b"Content-Length: +5\r\n\r\nabcde",
    "a length below zero": POST + b"Content-Length: -5\r\n\r\nabcde",
    "a hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\nabcde",
    "a length with a space": POST + b"Content-Length: 5 5\r\n\r\nabcde",
    "a length without end": POST + b"Content-Length: 99999999999999999999999\r\n\r\nabcde",
    "an empty length": POST + b"Content-Length: \r\n\r\n",
    "an unknown coding": POST + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
    "another coding before chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "a coding that looks like chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding with a control character": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a coding in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n",
    "a chunk without a size": CHUNKED + b"zz\r\nx\r\n0\r\n\r\n",
    "a chunk size with a sign": CHUNKED + b"+5\r\nabcde\r\n0\r\n\r\n",
    "a chunk size in 0x": CHUNKED + b"0x5\r\nabcde\r\n0\r\n\r\n",
    "a chunk size without end": CHUNKED + b"f" * 40 + b"\r\n",
    "a chunk longer than its size": CHUNKED + b"2\r\nabcde\r\n0\r\n\r\n",
    "a chunk size ended by a bare LF": CHUNKED + b"5\nabcde\r\n0\r\n\r\n",
    "bare LFs": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    "a bare LF after a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
    "a bare CR in a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
    "a folded header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: y\r\n z\r\n\r\n",
    "a header folded at once": b"GET /healthz HTTP/1.1\r\n X: y\r\nHost: localhost\r\n\r\n",
    "a space before the colon": b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "a space in a name": b"GET /healthz HTTP/1.1\r\n" + HOST + b"X y: z\r\n\r\n",
    "a header without a name": b"GET /healthz HTTP/1.1\r\n" + HOST + b": z\r\n\r\n",
    "a header without a colon": b"GET /healthz HTTP/1.1\r\n" + HOST + b"xyz\r\n\r\n",
    "a NUL in a header": b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\n" + HOST + b"Host: elsewhere\r\n\r\n",
    "the same host twice": b"GET /healthz HTTP/1.1\r\n" + HOST * 2 + b"\r\n",
    "two hosts in HTTP/1.0": b"GET /healthz HTTP/1.0\r\n" + HOST * 2 + b"\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "another version": ASKS.replace(b"1.1", b"2.0"),
    "a version before 1.0": ASKS.replace(b"1.1", b"0.9"),
    "a version of another kind": ASKS.replace(b"HTTP/1.1", b"ICE/1.0"),
    "no version": b"GET /healthz\r\n" + HOST + b"\r\n",
    "the beginning of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another server's address": ASKS.replace(b"/healthz", b"http://elsewhere/healthz"),
    "no path": ASKS.replace(b"/healthz", b"*"),
    "a tunnel": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a space in the path": ASKS.replace(b"/healthz", b"/health z"),
    "bytes that are not ASCII in the path": ASKS.replace(b"/healthz", b"/h\xc3\xa4"),
    "a method with odd signs": ASKS.replace(b"GET", b"G(T"),
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("said", BAD.values(), ids=BAD)
async def test_what_is_not_plain_http_is_refused_and_the_connection_closed(visit: Visitor, said: bytes) -> None:
    async with connected(visit) as line:
        await line.say(said)
        status, text = await line.answer()
        assert (status, await line.is_closed()) == (400, True), text
        assert b"connection: close" in text
        assert b"server:" not in text
    assert (await visit("GET", "/v1/alarms")).json["alarms"] == []


async def test_requests_at_once_are_answered_in_their_order(visit: Visitor) -> None:
    asks = [
        ASKS,
        CREATES,
        b"GET /v1/nothing HTTP/1.1\r\n" + HOST + b"\r\n",
        CREATES,
        CHUNKED + CHUNK + b"0\r\n\r\n",
        ASKS,
    ]
    async with connected(visit) as line:
        await line.say(b"".join(asks) * 20)
        assert [await line.status() for _ in range(120)] == [200, 201, 404, 201, 201, 200] * 20
    assert len((await visit("GET", "/v1/alarms?limit=200")).json["alarms"]) == 60


@pytest.mark.parametrize("size", [1, 7, 64])
async def test_requests_in_pieces_are_the_same_requests(visit: Visitor, size: int) -> None:
    said = CREATES + ASKS + CHUNKED + CHUNK + b"0\r\n\r\n" + ASKS
    async with connected(visit) as line:
        for at in range(0, len(said), size):
            await line.say(said[at : at + size])
            await asyncio.sleep(0)
        assert [await line.status() for _ in range(4)] == [201, 200, 201, 200]


async def test_blank_lines_in_a_body_are_its_own(visit: Visitor) -> None:
    body = BODY.replace(b", ", b",\r\n\r\n\r\n\r\n")
    async with connected(visit) as line:
        await line.say((POST + b"Content-Length: %d\r\n\r\n" % len(body) + body + ASKS) * 3)
        assert [await line.status() for _ in range(6)] == [201, 200] * 3


@pytest.mark.parametrize("bad", [b"NO\x00SUCH", ASKS.replace(b"1.1", b"2.0"), CHUNKED + b"zz\r\n"])
async def test_a_bad_request_is_refused_after_the_answers_to_those_before_it(visit: Visitor, bad: bytes) -> None:
    async with connected(visit) as line:
        await line.say(CREATES + CREATES + bad + CREATES)
        assert [await line.status() for _ in range(3)] == [201, 201, 400]
        assert await line.is_closed()
    assert len((await visit("GET", "/v1/alarms")).json["alarms"]) == 2, "nothing behind it was taken"


async def test_a_bad_beginning_in_the_same_segment_as_a_body_waits_for_its_turn_too(visit: Visitor) -> None:
    head, _, body = CREATES.partition(b"\r\n\r\n")
    for bad in (b"NO\x00SUCH", CHUNKED + b"zz\r\n"):
        async with connected(visit) as line:
            await line.say(head + b"\r\n\r\n", body + bad)
            assert [await line.status() for _ in range(2)] == [201, 400]
            assert await line.is_closed()
        async with connected(visit) as line:
            await line.say(ASKS[:-1], ASKS[-1:] + bad)
            assert [await line.status() for _ in range(2)] == [200, 400]
            assert await line.is_closed()


async def test_what_stands_behind_a_body_is_not_a_header(visit: Visitor) -> None:
    token = (await visit.token("ada"))["authorization"].encode()
    async with connected(visit) as line:
        await line.say(CHUNKED + CHUNK + b"0\r\nAuthorization: " + token + b"\r\nHost: elsewhere\r\n\r\n" + ASKS)
        assert [await line.status() for _ in range(2)] == [401, 200]


@pytest.mark.parametrize("endless", [b"0\r\nx: ", b"5;", b"0\r\n" + b"x: y\r\n" * 2000])
async def test_chunks_without_end_that_hold_nothing_are_refused(visit: Visitor, endless: bytes) -> None:
    async with connected(visit) as line:
        await line.say(CHUNKED + endless, b"x" * HEAD_LIMIT, b"x" * HEAD_LIMIT)
        assert await line.status() == 400
        assert await line.is_closed()


async def test_a_head_has_a_length(visit: Visitor) -> None:
    fits = b"GET /healthz HTTP/1.1\r\n" + HOST + b"X-Long: " + b"x" * (HEAD_LIMIT - 200) + b"\r\n\r\n"
    async with connected(visit) as line:
        await line.say(fits + fits)
        assert [await line.status() for _ in range(2)] == [200, 200]
        await line.say(fits.replace(b"X-Long: ", b"X-Long: " + b"x" * 200))  # at once, with its end
        assert await line.status() == 400
    async with connected(visit) as line:
        await line.say(*[b"\r\n" * 2048] * 5)
        assert await line.status() == 400


async def test_who_waits_for_leave_to_send_a_body_gets_it(visit: Visitor) -> None:
    head, _, body = CREATES.partition(b"\r\n\r\n")
    async with connected(visit) as line:
        for _ in range(2):
            await line.say(head + b"\r\nExpect: 100-continue\r\n\r\n")
            assert (await line.answer(to_head=True))[0] == 100
            await line.say(body)
            assert await line.status() == 201


async def test_who_is_refused_before_the_body_is_not_told_to_send_it(visit: Visitor) -> None:
    async with connected(visit) as line:
        head = CREATES.partition(b"\r\n\r\n")[0].replace(b"application/json", b"text/plain")
        await line.say(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert await line.status() == 415


async def test_an_answer_before_the_end_of_a_body_leaves_the_connection_in_step(visit: Visitor) -> None:
    unread = b"POST /v1/nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n"
    async with connected(visit) as line:
        await line.say(unread + b"x" * 50)
        assert await line.status() == 404
        await line.say(b"x" * 50 + ASKS + ASKS)
        assert [await line.status() for _ in range(2)] == [200, 200]


async def test_a_method_nobody_knows_is_told_which_there_are(visit: Visitor) -> None:
    brew = CREATES.replace(b"POST", b"BREW-IT")
    async with connected(visit) as line:
        await line.say(brew + ASKS + brew + CREATES)
        assert [await line.status() for _ in range(4)] == [405, 200, 405, 201]
    async with connected(visit) as line:
        await line.say(b"P", ASKS)  # not a GET: the method is PGET
        assert await line.status() == 400


@pytest.mark.parametrize("asks", [CREATES, CHUNKED + CHUNK + b"0\r\n\r\n"])
async def test_another_protocol_that_is_offered_is_declined(visit: Visitor, asks: bytes) -> None:
    offers = asks.replace(b"\r\n", b"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n", 1)
    asks = ASKS.replace(b"\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n", 1)
    async with connected(visit) as line:
        await line.say(offers + ASKS + offers + asks + offers)
        assert [await line.status() for _ in range(5)] == [201, 200, 201, 200, 201]
        await line.say(*(offers[at : at + 40] for at in range(0, len(offers), 40)))
        assert await line.status() == 201


async def test_who_says_that_nothing_more_comes_is_not_waited_for(visit: Visitor) -> None:
    for said in (b"", ASKS[:20], CREATES[:-5]):
        async with connected(visit) as line:
            await line.say(said)
            line.end()
            assert await line.is_closed()
    assert (await visit("GET", "/v1/alarms")).json["alarms"] == []


async def test_http_1_0_is_answered_and_closed(visit: Visitor) -> None:
    async with connected(visit) as line:
        await line.say(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert await line.status() == 421  # no host is not ours
        assert await line.is_closed()
    async with connected(visit) as line:
        await line.say(ASKS.replace(b"1.1", b"1.0") + ASKS)
        status, text = await line.answer()
        assert (status, b"connection: close" in text, await line.is_closed()) == (200, True, True)


async def test_who_leaves_behind_a_second_request_is_noticed(visit: Visitor) -> None:
    """The first is a stream: it ends with the connection, whatever was asked behind it."""
    token = (await visit.token("ada"))["authorization"].encode()
    events = b"GET /v1/events HTTP/1.1\r\n" + HOST + b"Authorization: " + token + b"\r\n\r\n"
    ada, taken = visit.alarms.for_owner("ada"), visit.alarms.service.connections._taken
    for said in ([events + ASKS], [events + ASKS[:20] + b"\x00"], [events[:-1], events[-1:] + ASKS]):
        async with connected(visit) as line:
            await line.say(*said)
            assert (await line.answer(to_head=True))[0] == 200
            assert taken["ada"] == 1
        async with asyncio.timeout(60):
            while taken["ada"]:
                await ada.set("in 1 hour", "x")  # an event: who is away is noticed when something is sent


async def test_a_websocket_is_opened_after_the_answers_to_what_was_asked_before(visit: Visitor) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    live = b"GET /v1/ws HTTP/1.1\r\n" + HOST + upgrade
    async with connected(visit) as line:
        await line.say(CREATES + ASKS + live)
        assert [await line.status() for _ in range(2)] == [201, 200]
        assert (await line.answer(to_head=True))[0] == 101
    async with connected(visit) as line:  # in one piece with the end of another request: refused, in its turn
        await line.say(ASKS[:-1], ASKS[-1:] + live)
        assert [await line.status() for _ in range(2)] == [200, 400]


@pytest.mark.parametrize("blanks", [b" ", b"\t", b" \t  "])
async def test_blanks_around_the_value_of_a_header_are_not_part_of_it(visit: Visitor, blanks: bytes) -> None:
    token = (await visit.token("ada"))["authorization"].encode()
    named = [b"Host:localhost", b"Content-Type:application/json", b"Authorization:" + token]
    named += [b"Content-Length:%d" % len(BODY)]
    head = b"".join(line.replace(b":", b":" + blanks, 1) + blanks + b"\r\n" for line in named)
    async with connected(visit) as line:
        await line.say(b"POST /v1/alarms HTTP/1.1\r\n" + head + b"\r\n" + BODY)
        assert await line.status() == 201


async def test_blanks_behind_a_name_of_mcp_are_not_part_of_it(visit: Visitor) -> None:
    call: dict[str, object] = {"name": "alarm_list", "arguments": {}}
    call["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in META.items()}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    head = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    head += b"MCP-Protocol-Version: 2026-07-28 \r\nMcp-Method: tools/call\t\r\nMcp-Name: alarm_list \r\n"
    async with connected(visit) as line:
        await line.say(b"POST /mcp HTTP/1.1\r\n" + HOST + head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        status, text = await line.answer()
    assert (status, b"newest first" in text) == (200, True), text

"""Live events as a stream over HTTP: a real server, a real client."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.databases import database_of
from tests.interfaces.world import Visitor, serving
from wakeful.http import sse
from wakeful.http.security.auth import mint
from wakeful.process.application import build
from wakeful.service.live import CHUNK, QUEUE, TOO_SLOW, Live, LiveEvent
from wakeful.settings import Settings
from wakeful.testing import store_of

TICK = timedelta(milliseconds=50)


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    place = database_of(request, tmp_path)
    async with serving(**place, tick=TICK) as visitor:
        yield visitor


class Reader:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def block(self) -> dict[str, str]:
        """The fields of the next block; a comment is the field with no name."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(30):
            while line := (await self.response.content.readline()).decode().rstrip("\n"):
                name, _, value = line.partition(": ")
                fields[name] = value
        return fields

    async def event(self) -> tuple[str, Any, str]:
        """What it is called, what it says, and its id."""
        while "event" not in (block := await self.block()):
            assert block, "the stream ended"
        return block["event"], json.loads(block["data"]), block["id"]


@asynccontextmanager
async def stream(visit: Visitor, query: str = "", token: str = "", last: str = "") -> AsyncIterator[Reader]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if last:
        headers["last-event-id"] = last
    async with visit._session.get(f"{visit.url}/v1/events{query}", headers=headers) as response:
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        reader = Reader(response)
        assert await reader.block() == {"retry": "2000"}
        yield reader


async def test_events_come_as_they_happen(visit: Visitor) -> None:
    async with stream(visit) as reader:
        wake = await visit.fired()
        found = [await reader.event() for _ in range(3)]
        assert [name for name, _, _ in found] == ["created", "fired", "delivered"]
        for name, said, _ in found:
            assert (said["what"], said["alarm_id"], said["owner"]) == (name, wake.alarm_id, "local")
        assert [said["seq"] for _, said, _ in found] == [1, 2, 3]
        assert len({id for _, _, id in found}) == 3


async def test_they_can_be_narrowed(visit: Visitor) -> None:
    one, other = await visit.set(), await visit.set()
    async with stream(visit, f"?events=paused,cancelled&alarm_id={other['id']}") as reader:
        for alarm in (one, other):
            await visit("POST", f"/v1/alarms/{alarm['id']}/pause", {})
            await visit("POST", f"/v1/alarms/{alarm['id']}/resume", {})
            await visit("DELETE", f"/v1/alarms/{alarm['id']}")
        found = [await reader.event() for _ in range(2)]
        assert [(name, said["alarm_id"]) for name, said, _ in found] == [
            ("paused", other["id"]),
            ("cancelled", other["id"]),
        ]


async def test_what_does_not_fit_is_refused(visit: Visitor) -> None:
    assert (await visit("GET", "/v1/events?events=exploded")).told == (400, "invalid_request", "events")
    assert (await visit("GET", "/v1/events?owner=eve")).told == (400, "invalid_request", "owner")
    assert (await visit("GET", "/v1/events?alarm_id=nobody")).told == (404, "not_found", "id")
    assert (await visit("POST", "/v1/events", {})).status == 405
    assert (await visit("GET", "/v1/events", headers={"origin": "https://evil.example"})).status == 403
    assert (await visit("HEAD", "/v1/events")).status == 200


async def test_the_last_event_seen_is_where_it_goes_on(visit: Visitor) -> None:
    async with stream(visit) as reader:
        await visit.set()
        _, _, last = await reader.event()
    missed = await visit.set()
    async with stream(visit, last=last) as reader:
        name, said, _ = await reader.event()
        assert (name, said["alarm_id"]) == ("created", missed["id"])


async def test_what_is_not_remembered_is_a_reset(visit: Visitor) -> None:
    async with stream(visit, last="elsewhere-7") as reader:
        name, said, id = await reader.event()
        assert name == "reset"
        assert said["reason"]
    async with stream(visit, last=id) as reader:  # from there it can be resumed
        alarm = await visit.set()
        name, said, _ = await reader.event()
        assert (name, said["alarm_id"]) == ("created", alarm["id"])


async def test_silence_is_filled_with_comments(visit: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.http.sse.HEARTBEAT", 0.05)
    async with stream(visit) as reader:
        assert await reader.block() == {"": "still here"}
        assert await reader.block() == {"": "still here"}


async def test_another_owner_sees_nothing_of_it(visit: Visitor) -> None:
    tokens = {}
    for owner in ("ada", "eve"):
        tokens[owner], token = mint(owner, ("read",), now=datetime.now(UTC))
        await store_of(visit.alarms).access.add_token(token)
    assert (await visit("GET", "/v1/events")).status == 401
    async with stream(visit, token=tokens["eve"]) as reader:
        hers = await visit.alarms.for_owner("ada").set("in 1 hour", "hers")
        mine = await visit.alarms.for_owner("eve").set("in 1 hour", "mine")
        name, said, _ = await reader.event()
        assert (name, said["alarm_id"], said["owner"]) == ("created", mine.id, "eve")
        headers = {"authorization": f"Bearer {tokens['eve']}"}
        assert (await visit("GET", f"/v1/events?alarm_id={hers.id}", headers=headers)).status == 404


async def test_a_revoked_token_ends_its_stream(visit: Visitor) -> None:
    text, token = mint("ada", ("read",), now=datetime.now(UTC))
    await store_of(visit.alarms).access.add_token(token)
    async with stream(visit, token=text) as reader:
        await store_of(visit.alarms).access.update_token(token.id, revoked_at=datetime.now(UTC))
        assert await reader.block() == {}
        assert reader.response.content.at_eof()


async def test_the_server_stops_though_somebody_reads(visit: Visitor) -> None:
    async with stream(visit) as reader:
        visit.running.cancel()
        assert await reader.block() == {}
        assert reader.response.content.at_eof()
        await asyncio.wait_for(asyncio.wait((visit.running,)), 30)


async def test_what_another_process_dispatches_is_told(tmp_path: Path) -> None:
    db = str(tmp_path / "wakeful.db")
    async with serving(db, tick=TICK) as visit, build(Settings(db=db)) as there, stream(visit) as reader:

        @there.handler("desk")
        async def desk(wake: Any) -> str:
            return "done"

        await there.set(delay=0.01, wake_message="x", target="desk")
        working = asyncio.create_task(there.run())
        found = [(await reader.event())[0] for _ in range(3)]
        assert found == ["created", "fired", "completed"]
        working.cancel()
        await asyncio.wait((working,))


class Kept(Live):
    """The one that the server made, and without much patience."""

    made: Live

    def __init__(self, *given: Any) -> None:
        super().__init__(*given, patience=0.2)
        Kept.made = self


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.service.live.Live", Kept)


def large() -> LiveEvent:
    """So large that no buffer holds many."""
    return LiveEvent(seq=0, at=datetime.now(UTC), what="paused", alarm_id="x", owner="local", reason="x" * 30_000)


async def not_read_until_dropped(reader: Reader) -> None:
    """Leave off reading until the server has had enough of it."""
    connection = reader.response.connection
    assert connection is not None
    assert connection.transport is not None
    live = Kept.made
    [subscription] = live._subscribers
    connection.transport.pause_reading()
    async with asyncio.timeout(30):
        while not subscription.dropped.is_set():
            await live._tell([large()] * CHUNK)
            assert subscription.waiting <= QUEUE
    assert subscription.waiting == 0
    assert live.subscribers == 0


async def test_who_does_not_keep_up_is_told_so_and_may_come_back(tmp_path: Path, few: None) -> None:
    async with serving(str(tmp_path / "wakeful.db"), tick=TICK) as visit:
        async with stream(visit) as reader:
            await not_read_until_dropped(reader)
            transport = reader.response.connection.transport  # type: ignore[union-attr]  # it is there still
            transport.resume_reading()  # type: ignore[union-attr]
            seen, count = "", 0
            async with asyncio.timeout(30):
                while (block := await reader.block()).get("event") != "dropped":
                    seen, count = block["id"], json.loads(block["data"])["seq"]
            assert TOO_SLOW in json.loads(block["data"])["reason"]
            assert "id" not in block  # it goes on after what it saw
            assert await reader.block() == {}
            assert reader.response.content.at_eof()
        async with stream(visit, last=seen) as reader:
            _, said, _ = await reader.event()
            assert said["seq"] == count + 1


async def test_who_does_not_even_read_the_last_word_is_hung_up_on(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sse, "LAST_WORD_WITHIN", 0.1)
    async with serving(str(tmp_path / "wakeful.db"), tick=TICK, live_total=1) as visit, stream(visit) as reader:
        await not_read_until_dropped(reader)
        # Its seat is free again, with all that was kept for it, though it never read.
        async with asyncio.timeout(30):
            while (await visit("HEAD", "/v1/events")).status != 200:
                pass
        reader.response.connection.transport.resume_reading()  # type: ignore[union-attr]
        with pytest.raises(aiohttp.ClientError):
            await reader.response.content.read()
    assert "without completing" not in caplog.text


@asynccontextmanager
async def silent(visit: Visitor) -> AsyncIterator[asyncio.StreamReader]:
    """A stream nobody reads, and for which the kernel keeps next to nothing."""
    host, port = visit.url.removeprefix("http://").split(":")
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.setblocking(False)
    await asyncio.get_running_loop().sock_connect(line, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=line, limit=1024)
    writer.write(f"GET /v1/events HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
    await reader.readuntil(b"retry: 2000\n\n")
    try:
        yield reader
    finally:
        writer.transport.abort()


async def test_of_fifty_who_do_not_read_all_are_hung_up_on(
    few: None, visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "LAST_WORD_WITHIN", 0.1)
    live, seats = Kept.made, visit.alarms.service.connections
    async with AsyncExitStack() as stack, stream(visit) as one_who_reads:
        lines = [await stack.enter_async_context(silent(visit)) for _ in range(50)]
        assert (live.subscribers, seats._taken.total()) == (51, 51)
        async with asyncio.timeout(60):
            while live.subscribers > 1:
                await live._tell([large()] * CHUNK)
                for _ in range(CHUNK):
                    await one_who_reads.event()
            while seats._taken.total() > 1:  # with it goes all that was kept for them
                await visit("GET", "/healthz")
        for line in lines:
            with suppress(ConnectionError):
                assert not (await line.read()).endswith(b"0\r\n\r\n")  # it broke off
        await visit.set()
        assert (await one_who_reads.event())[0] == "created"  # who reads stays


async def test_an_event_is_put_into_words_once_however_many_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    frame = sse.frame

    def counted(id: str, event: LiveEvent) -> bytes:
        said.append(id)
        return frame(id, event)

    monkeypatch.setattr(sse, "frame", counted)
    async with serving(str(tmp_path / "wakeful.db"), tick=TICK) as visit, AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(stream(visit)) for _ in range(20)]
        alarm = await visit.set()
        found = [await reader.event() for reader in readers]
        assert {told["alarm_id"] for _, told, _ in found} == {alarm["id"]}
        assert said == [found[0][2]]


async def test_a_server_holds_so_many_streams_and_says_so(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "wakeful.db"), tick=TICK, live_total=2) as visit:
        async with stream(visit), stream(visit):
            refused = await asyncio.wait_for(visit("GET", "/v1/events"), 30)
            assert refused.told == (429, "too_many", "live_total")
            assert int(refused.headers["retry-after"]) >= 1
            assert "live_total" in refused.json["detail"]
        async with asyncio.timeout(30):  # the server hears a moment later that they left
            while (await visit("HEAD", "/v1/events")).status != 200:
                pass

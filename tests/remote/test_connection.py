"""What is asked again and what is not, whom a token is sent to, and what comes of answers that are not wakeful's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import wakeful
from tests.interfaces.world import serving
from tests.remote.world import serving_process, until
from wakeful.errors import Forbidden, InvalidConfig, StoreUnavailable, TooMany, Unauthorized, WakefulError
from wakeful.process.application import open_server
from wakeful.python.program import Wakeful
from wakeful.remote import RemoteWakeful, server_address
from wakeful.remote.connection import TRIES, ServerConnection
from wakeful.service.views import DOORS
from wakeful.testing import ManualClock

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
ALARM = {
    "id": "01a1dfc1-8d22-7000-87c1-99265ea41940",
    "owner_did": "eve",
    "next_fire_at": "2090-01-01T00:00:00Z",
    "created_at": "2026-01-01T00:00:00Z",
    "new": {"unknown": 1},
    "policy": {"unknown": 1, "jitter": 5},
    "now": "2026-01-01T00:00:00Z",
}


class HurriedClock(ManualClock):
    """Sleeps for no time, and remembers for how long it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Stranger:
    """A server on loopback that answers as it is told to, and remembers what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[web.Request] = []
        self._answers = list(answers)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return await answer(request)


def says(status: int, body: Any = None, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body if body is not None else ALARM, status=status, headers=headers)

    return answer


def refuses(status: int, code: str, **headers: str) -> Answer:
    told = {"code": code, "detail": "f: it broke. Mend it.", "field": "f", "fix": "Mend it.", "status": status}
    return says(status, told, **headers)


async def hangs_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@asynccontextmanager
async def asked(stranger: Stranger) -> AsyncIterator[tuple[Wakeful, HurriedClock]]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", stranger.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    time = HurriedClock()
    alarms = RemoteWakeful(server_address(f"http://127.0.0.1:{port}/base/", "wk_secret"), clock=time)
    try:
        yield alarms, time
    finally:
        await alarms.close()
        await runner.cleanup()


def read(alarms: Wakeful) -> Awaitable[Any]:
    return alarms.get("x")


def named(alarms: Wakeful) -> Awaitable[Any]:
    return alarms.set("in 1 hour", "x", key="k")


def reported(alarms: Wakeful) -> Awaitable[Any]:
    return alarms.working("x@1")


def cancelled(alarms: Wakeful) -> Awaitable[Any]:
    return alarms.cancel("x")


def unnamed(alarms: Wakeful) -> Awaitable[Any]:
    return alarms.set("in 1 hour", "x")


def paused(alarms: Wakeful) -> Awaitable[Any]:
    return alarms.pause("x")


def fetched(alarms: Wakeful) -> Awaitable[Any]:
    return alarms.inbox()


SAFE = [read, named, cancelled]
UNSAFE = [unnamed, paused, fetched]
AWAY = [hangs_up, says(502, {}), refuses(503, "store_unavailable")]


@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("verb", SAFE)
async def test_what_does_the_same_twice_is_asked_again(verb: Callable[[Wakeful], Awaitable[Any]], away: Answer) -> None:
    stranger = Stranger(away, away, says(200))
    async with asked(stranger) as (alarms, _):
        await verb(alarms)
        assert len(stranger.asked) == 3


@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("verb", UNSAFE)
async def test_what_may_have_been_done_is_not_asked_again(
    verb: Callable[[Wakeful], Awaitable[Any]], away: Answer
) -> None:
    stranger = Stranger(away)
    async with asked(stranger) as (alarms, _):
        with pytest.raises(StoreUnavailable):
            await verb(alarms)
        assert len(stranger.asked) == 1


async def test_a_report_is_asked_again_and_a_snooze_is_not() -> None:
    stranger = Stranger(hangs_up)
    async with asked(stranger) as (alarms, _):
        with pytest.raises(StoreUnavailable, match="nobody knows"):
            await reported(alarms)
        assert len(stranger.asked) == TRIES
        with pytest.raises(StoreUnavailable):
            await alarms.snooze_fire("x@1", "15m")
        assert len(stranger.asked) == TRIES + 1


async def test_a_limit_is_waited_for_where_that_helps_and_is_short() -> None:
    stranger = Stranger(refuses(429, "too_many", **{"Retry-After": "3"}), says(201))
    async with asked(stranger) as (alarms, time):
        await unnamed(alarms)  # it was not taken: nothing is done twice
        assert time.slept == [3.0]
    for answer, after in ((refuses(429, "too_many", **{"Retry-After": "60"}), 60.0), (refuses(429, "too_many"), None)):
        stranger = Stranger(answer)
        async with asked(stranger) as (alarms, time):
            with pytest.raises(TooMany) as refused:
                await read(alarms)
            assert (refused.value.retry_after, time.slept, len(stranger.asked)) == (after, [], 1)


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (refuses(401, "unauthorized"), Unauthorized, 5),
        (refuses(403, "foreign_origin"), Forbidden, 5),
        (refuses(413, "body_too_large"), wakeful.InvalidRequest, 2),
        (refuses(500, "error"), WakefulError, 1),
        (says(404, {"no": "problem"}), InvalidConfig, 2),
        (says(302, {}, Location="http://127.0.0.1:1/"), InvalidConfig, 2),
        (says(200, []), InvalidConfig, 2),
    ],
)
async def test_what_is_answered_is_the_error_it_amounts_to(answer: Answer, kind: type[WakefulError], code: int) -> None:
    stranger = Stranger(answer)
    async with asked(stranger) as (alarms, _):
        with pytest.raises(kind) as refused:
            await read(alarms)
    assert type(refused.value) is kind
    assert DOORS[refused.value.code][1] == code
    assert len(stranger.asked) == 1  # and a redirect is not followed: the token is for this server
    assert "wk_secret" not in str(refused.value)


async def test_the_token_goes_into_the_header_and_what_is_new_is_left_out() -> None:
    stranger = Stranger(says(200))
    async with asked(stranger) as (alarms, _):
        alarm = await alarms.get("x")
    [request] = stranger.asked
    assert (request.path, request.headers["Authorization"]) == ("/base/v1/alarms/x", "Bearer wk_secret")
    assert (alarm.owner_did, alarm.policy) == ("eve", wakeful.Policy(jitter=5, on_silence="again"))
    assert "wk_secret" not in repr(
        ServerConnection(server_address("http://[::1]:1", "wk_secret"), ManualClock()).address
    )


@pytest.mark.parametrize("url", ["http://192.0.2.1:4747", "http://wakeful.example", "HTTP://wakeful.example"])
def test_a_token_is_not_sent_unencrypted(url: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        server_address(url, "wk_secret")
    assert refused.value.field == "url"
    assert "unencrypted" in str(refused.value)
    assert "wk_secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["https://wakeful.example/a", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "http://127.9.9.9"],
)
def test_where_a_token_may_go(url: str) -> None:
    assert server_address(url + "/", "wk_secret").url == url


@pytest.mark.parametrize(
    "url", ["https://", "https://a b", "https://ada:pw@h", "https://h?x=1", "https://h:99999", "https://ü"]
)
def test_what_is_not_an_address(url: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        server_address(url, "")
    assert refused.value.field == "url"


def test_the_library_opens_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(wakeful.open("https://wakeful.example", token="wk_x"), RemoteWakeful)
    monkeypatch.setenv("WAKEFUL_URL", "https://wakeful.example")
    monkeypatch.setenv("WAKEFUL_TOKEN", "wk_y")
    opened = wakeful.open()
    assert isinstance(opened, RemoteWakeful)
    assert opened._connection.address.token == "wk_y"
    with pytest.raises(InvalidConfig, match="its own settings") as refused:
        wakeful.open("https://wakeful.example", owner="eve")
    assert refused.value.field == "owner"
    monkeypatch.delenv("WAKEFUL_URL")
    with pytest.raises(InvalidConfig, match="for a server"):
        wakeful.open("here.db", token="wk_x")


EVENT = b'id: %s\nevent: paused\ndata: {"seq":%d,"at":"2026-01-01T00:00:00Z","what":"paused","alarm_id":"a"}\n\n'


async def test_events_go_on_where_they_were_and_say_where_some_were_missed() -> None:
    def tells(*chunks: bytes) -> Answer:
        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            return response

        return answer

    reset = b'id: c-1\nevent: reset\ndata: {"reason":"read again"}\n\n'
    dropped = b'event: dropped\ndata: {"reason":"too slow"}\n\n'
    stranger = Stranger(
        tells(b"retry: 2000\n\n", EVENT % (b"a-1", 1), dropped),
        hangs_up,
        tells(b": still here\n\n", EVENT % (b"a-2", 2)),
        tells(reset, EVENT % (b"c-2", 1)),
    )
    async with asked(stranger) as (alarms, _):
        seen = []
        async for event in alarms.events("paused", alarm_id="a"):
            seen.append((event.what, event.seq, event.reason))
            if len(seen) == 4:
                break
    assert seen == [("paused", 1, ""), ("paused", 2, ""), ("reset", 0, "read again"), ("paused", 1, "")]
    assert [request.headers.get("Last-Event-ID") for request in stranger.asked] == [None, "a-1", "a-1", "a-2"]
    assert dict(stranger.asked[0].query) == {"events": "paused", "alarm_id": "a"}


async def test_an_event_that_is_refused_ends_it() -> None:
    async with asked(Stranger(refuses(401, "unauthorized"))) as (alarms, _):
        with pytest.raises(Unauthorized):
            await anext(alarms.events())


async def test_events_of_a_server_and_of_a_database_are_the_same(tmp_path: Path) -> None:
    async with (
        serving(str(tmp_path / "w.db"), tick=timedelta(milliseconds=50)) as house,
        open_server(house.url, "") as alarms,
    ):
        streams = [alarms.events("paused"), house.alarms.events("paused")]
        nexts = [asyncio.ensure_future(anext(stream)) for stream in streams]

        async def is_told() -> bool:
            alarm = await alarms.set("in 1 hour", "x")
            await alarms.pause(alarm.id, reason="lunch")
            done, _ = await asyncio.wait(nexts, timeout=0.2)
            return len(done) == 2

        await until(is_told)
        told = [one.result() for one in nexts]
        assert [(event.what, event.reason, event.owner) for event in told] == [("paused", "lunch", "local")] * 2


def test_the_same_without_async(tmp_path: Path) -> None:
    with serving_process(tmp_path) as serving, wakeful.open_sync(serving.url, token="") as alarms:
        alarm = alarms.set("in 1 hour", "x", key="k")
        assert alarms.get(alarm.id).wake_message == "x"
        assert [one.id for one in alarms.find()] == [alarm.id]
        assert alarms.update(alarm.id, label="l").alarm.label == "l"
        with pytest.raises(wakeful.NotFound):
            alarms.get("nobody")


WAKE = {
    "fire_id": f"{ALARM['id']}@1767225600000",
    "alarm_id": ALARM["id"],
    "message": "x",
    "payload": {},
    "scheduled_for": "2026-01-01T00:00:00Z",
    "created_at": "2026-01-01T00:00:00Z",
    "isolated": False,
    "report": {"url": "", "token": ""},
    "attempt": 1,
    "late_ms": 0,
    "missed": 0,
} | dict.fromkeys(("owner_did", "user_id", "conversation_id", "label", "created_by", "created_via"), "")
FIRE = {
    "alarm_id": ALARM["id"],
    "scheduled_for": "2026-01-01T00:00:00Z",
    "owner_did": "eve",
    "target": "ops",
    "status": "completed",
    "updated_at": "2026-01-01T00:00:00Z",
}


async def test_a_handler_s_report_is_said_until_it_is_heard() -> None:
    lost = [hangs_up] * (TRIES + 2)
    stranger = Stranger(says(200, {"wakes": [WAKE]}), *lost, says(200, FIRE), says(200, {"wakes": []}))
    async with asked(stranger) as (alarms, _):
        alarms.handler("ops")(lambda wake: "done")
        assert await alarms.run_due() == 1
    paths = [request.path.rpartition("/")[2] for request in stranger.asked]
    assert paths == ["inbox", *["report"] * (TRIES + 3), "inbox"]

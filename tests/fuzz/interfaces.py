"""The interfaces as callers reach them, in one process: HTTP, its JSON and queries, WebSocket, MCP, proofs of a key."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from wakeful.errors import WakefulError
from wakeful.http import did
from wakeful.http.answers import BATCH_LIMIT
from wakeful.http.endpoint import operations_of
from wakeful.http.operations import Operation
from wakeful.http.security.auth import mint
from wakeful.http.security.guard import BODY_LIMIT
from wakeful.http.websocket import INTERNAL_ERROR
from wakeful.mcp import TASK_TOOLS, TOOLS
from wakeful.model.requests import CreateRequest
from wakeful.process.application import open_local
from wakeful.python.client import LocalWakeful
from wakeful.rules.create import PAYLOAD_LIMIT
from wakeful.testing import ManualClock, store_of

from .harness import Broke, Parse, Parser
from .inputs import (
    CREATE,
    any_text,
    fields,
    moments,
    mostly,
    near,
    numbers,
    objects,
    phrases,
    some_json,
    spans,
    texts,
    written,
)

KNOWN: Final = 4  # alarms and fires there are to ask for
HEADERS: Final = {
    "host": "127.0.0.1",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
WIDE: Final[dict[str, Any]] = (
    dict.fromkeys(("creates_per_minute", "requests_per_minute", "quota_active"), 10**6)
    | dict.fromkeys(("did_owners_per_address", "did_owners_per_hour"), 10**6)
    | {"cpu_per_minute": timedelta(days=1000)}
)


class House:
    """A clock with alarms and fires in it, its interfaces, and a caller that speaks ASGI."""

    def __init__(self, alarms: LocalWakeful) -> None:
        self.alarms = alarms
        self.app = alarms.asgi()
        self.ids: list[str] = []
        self.fires: list[str] = []
        self.token = ""

    async def furnish(self) -> None:
        for when in ("in 1 hour", "every day at 9am", "@every 90m", "2099-01-01T00:00:00Z"):
            self.ids.append((await self.alarms.set(when, "hello")).id)
        for _ in range(KNOWN):
            await self.alarms.set(delay=0.001, wake_message="now")
        time = self.alarms.service.clock
        assert isinstance(time, ManualClock)
        await time.advance(1)
        await self.alarms.run_due()
        self.fires += [fire.id for _, fire in await self.alarms.inbox()]

    def filled(self, said: bytes) -> bytes:
        """With the ids that there are in place of `ID0`, `FIRE0` and so on: they are not known before."""
        for name, values in ((b"ID", self.ids), (b"FIRE", self.fires)):
            for at, value in enumerate(values):
                said = said.replace(b"%s%d" % (name, at), value.encode())
        return said

    async def admit(self, owner: str) -> None:
        self.token, token = mint(owner, ["admin"], now=await self.alarms.service.now())
        assert await store_of(self.alarms).access.add_token(token)

    def scope(self, kind: str, path: str, query: str = "", method: str = "GET") -> dict[str, Any]:
        headers = HEADERS | ({"authorization": f"Bearer {self.token}"} if self.token else {})
        return {
            "type": kind,
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http" if kind == "http" else "ws",
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 7777),
            "subprotocols": [],
            "state": {},
        }

    async def ask(self, method: str, path: str, query: str = "", body: bytes = b"") -> tuple[int, bytes]:
        parts = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []
        gone = asyncio.Event()

        async def receive() -> Any:
            if parts:
                return parts.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(self.scope("http", path, query, method), receive, send)
        said = b"".join(message.get("body", b"") for message in sent[1:])
        if (status := sent[0]["status"]) >= 500:
            raise Broke(f"{status}: {said.decode(errors='replace')}")
        if status >= 400:
            raise WakefulError(f"{status}")
        return status, said

    async def talk(self, message: str | bytes) -> list[Any]:
        """Say it on a WebSocket; what came back before the answer to a question everyone may ask."""
        key = "bytes" if isinstance(message, bytes) else "text"
        end = json.dumps({"jsonrpc": "2.0", "method": "count", "id": "the end"})
        coming = [{"type": "websocket.connect"}, {"type": "websocket.receive", key: message}]
        coming += [{"type": "websocket.receive", "text": end}]
        heard: list[Any] = []
        over = asyncio.Event()

        async def receive() -> Any:
            if coming:
                return coming.pop(0)
            await over.wait()
            return {"type": "websocket.disconnect", "code": 1000}

        async def send(message: Any) -> None:
            heard.append(json.loads(message["text"]) if message["type"] == "websocket.send" else message)
            last = heard[-1]
            if isinstance(last, dict) and (last.get("id") == "the end" or last.get("type") == "websocket.close"):
                over.set()

        await self.app(self.scope("websocket", "/v1/ws"), receive, send)
        return heard


@asynccontextmanager
async def house(*, guarded: bool = True, **settings: Any) -> AsyncIterator[House]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_local(f"{folder}/w.db", owner="ada", clock=ManualClock(), **(WIDE | settings)) as alarms:
            made = House(alarms)
            await made.furnish()
            if guarded:
                await made.admit("ada")
            yield made


def _path(template: str, at: int, home: House, odd: str) -> str:
    known: dict[str, Sequence[str]] = {"{id}": home.ids, "{fire_id}": home.fires, "{name}": (), "{token_id}": ()}
    strange = quote(odd.encode("utf-8", "replace"), safe="")
    for name, values in known.items():
        template = template.replace(name, values[at] if at < len(values) else strange)
    return template


Request = tuple[
    str, str, int, str, dict[str, Any], bytes
]  # method, path, which of those there are, or this; query, body


@asynccontextmanager
async def _http() -> AsyncIterator[Parse]:
    async with house() as home:

        async def parse(said: Request) -> None:
            method, path, at, odd, query, body = said
            asked = "&".join(f"{name}={quote(str(value).encode('utf-8', 'replace'))}" for name, value in query.items())
            await home.ask(method, _path(path, at, home, odd), asked, body)

        yield parse


@asynccontextmanager
async def _large() -> AsyncIterator[Parse]:
    async with house() as home:

        async def parse(said: tuple[str, bytes]) -> None:
            path, _, query = said[0].partition("?")
            _, answer = await home.ask("POST", path, query, said[1])
            if id := json.loads(answer).get("id"):
                for what in ("", "/why"):
                    await home.ask("GET", f"/v1/alarms/{id}{what}")
                await home.ask("PATCH", f"/v1/alarms/{id}", "", said[1])
            for list in ("/v1/alarms", "/v1/agenda"):
                await home.ask("GET", list, "limit=500")

        yield parse


@asynccontextmanager
async def _proofs() -> AsyncIterator[Parse]:
    async with house(guarded=False, did_auth=True) as home:

        async def parse(said: tuple[str, bytes]) -> None:
            await home.ask("POST", f"/v1/auth/{said[0]}", body=said[1])

        yield parse


@asynccontextmanager
async def _sockets() -> AsyncIterator[Parse]:
    async with house(guarded=False) as home:

        async def parse(said: str | bytes) -> None:
            for answer in await home.talk(home.filled(said) if isinstance(said, bytes) else said):
                for one in answer if isinstance(answer, list) else [answer]:
                    _check_rpc(one)

        yield parse


@asynccontextmanager
async def _agents() -> AsyncIterator[Parse]:
    async with house(mcp_tasks=True) as home:

        async def parse(said: bytes) -> None:
            _, answer = await home.ask("POST", "/mcp", body=home.filled(said))
            if answer:
                _check_rpc(json.loads(answer))

        yield parse


def _check_rpc(answer: Any) -> None:
    if (
        isinstance(answer, dict)
        and isinstance(error := answer.get("error"), Mapping)
        and error.get("code") == INTERNAL_ERROR
    ):
        raise Broke(json.dumps(error))
    if isinstance(answer, dict) and (answer.get("error") or _is_error(answer.get("result"))):
        raise WakefulError("refused")


def _is_error(result: Any) -> bool:
    return isinstance(result, dict) and bool(result.get("isError"))


def operations() -> list[Operation]:
    """All of the HTTP door but what waits, streams, or has a parser of its own here."""
    routes = open_local(":memory:", owner="ada").asgi().routes
    return [one for one in operations_of(routes) if not one.waits and one.path not in ("/v1/events", "/openapi.json")]


@st.composite
def _requests(draw: DrawFn, served: list[Operation]) -> Request:
    operation = draw(st.sampled_from(served))
    named = {one.name: one for one in operation.query}
    query = draw(objects(tuple(named), _query)) if named else {}
    if operation.body is None:
        body = b"" if draw(st.integers(0, 5)) else draw(st.binary(max_size=20))
    else:
        body = draw(written(_body(operation)))
    return operation.method, operation.path, draw(st.integers(0, KNOWN)), draw(any_text), query, body


@st.composite
def _large_bodies(draw: DrawFn) -> tuple[str, bytes]:
    """A batch of as many alarms as may be, or one alarm with the largest payload."""
    if draw(st.booleans()):
        kinds = draw(st.lists(mostly(_heavy, CREATE), min_size=1, max_size=3))
        number = BATCH_LIMIT
        while len(said := _json({"alarms": [kinds[at % len(kinds)] for at in range(number)]})) > BODY_LIMIT:
            number = number * 9 // 10
        return draw(st.sampled_from(("/v1/alarms/batch", "/v1/alarms/batch?all_or_none=true"))), said
    piece = draw(
        st.sampled_from(
            (b"1", b'""', b"{}", b"[]", b"1e9", b'"\\u0001"', '"\u202e"'.encode(), b'"' + b"x" * 999 + b'"')
        )
    )
    deep = draw(st.sampled_from((0, 1, 50, 97)))
    many = (PAYLOAD_LIMIT - 2 * deep - 2) // (len(piece) + 1)
    payload = b"[" * deep + b"[" + b",".join([piece] * many) + b"]" + b"]" * deep
    if draw(st.booleans()):
        payload = _json({f"{draw(any_text)[:40]}{number}": None for number in range(PAYLOAD_LIMIT // 60)})
    return "/v1/alarms", b'{"wake_message": "hello", "when": "every day at 9am", "payload": ' + payload + b"}"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()  # half a character has an escape there


_RARE: Final = (
    "RRULE:FREQ=YEARLY;BYYEARDAY=366;BYDAY=MO",
    "FREQ=MINUTELY;INTERVAL=99991;BYHOUR=1;BYMINUTE=1;BYYEARDAY=366;BYDAY=MO",
    "DTSTART:19000101T000000Z RRULE:FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=1;COUNT=5000",
    "every blue moon but the second after tea, or the day before " + "very " * 30,
    "0 0 29 2 1",
)
_heavy = st.fixed_dictionaries({"wake_message": st.just("m"), "when": mostly(st.sampled_from(_RARE), phrases)})
_cursors = texts("MTc2NzIyNTYwMDAwMCAwMTkwMDAwMC0wMDAwLTcwMDAtODAwMC0wMDAwMDAwMDAwMDA", "", "a.b")
_query: Final[dict[str, SearchStrategy[Any]]] = {
    "cursor": _cursors,
    "limit": numbers,
    "since": moments,
    "until": moments,
    "before": moments,
    "q": any_text,
}


def _body(operation: Operation) -> SearchStrategy[Any]:
    if operation.path.endswith("/batch"):
        return (
            st.fixed_dictionaries({"alarms": st.lists(CREATE, max_size=5)}) | st.lists(CREATE, max_size=5) | some_json
        )
    kind = operation.body
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return some_json
    if kind is CreateRequest:
        return CREATE
    needed = tuple(one.encode_name for one in msgspec.structs.fields(kind) if one.required)
    return objects(fields(kind), always=needed)


_methods = ("list", "count", "history", "stats", "failed", "get", "subscribe", "unsubscribe", "event", "")
_taking = {"list": ("limit",), "history": ("status", "limit", "process", "target", "since"), "failed": ("limit",)}
_taking |= {"get": ("id",), "subscribe": ("events", "alarm_id", "after")}
_params = ("limit", "status", "process", "target", "since", "id", "events", "alarm_id", "after")


def _call(method: SearchStrategy[Any], params: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "method": method, "params": params},
        optional={"id": mostly(st.integers(), some_json)},
    )


_events = st.lists(st.one_of(st.sampled_from(("created", "fired", "fire.delivered")), any_text), max_size=3)
_known_params: Final[dict[str, SearchStrategy[Any]]] = {
    "limit": mostly(st.integers(1, 500), numbers),
    "events": _events,
}


@st.composite
def _calls(draw: DrawFn) -> Any:
    method = draw(mostly(st.sampled_from(_methods), near(_methods), of=8))
    params = objects(_taking.get(method, _params), _known_params)
    return draw(_call(st.just(method), mostly(params, st.one_of(objects(_params), some_json), of=6)))


_ws = _calls()
MESSAGES: Final = st.one_of(
    written(_ws), written(_ws), written(st.lists(_ws, max_size=22)), written(some_json), st.just(b"x" * 70_000)
)
_tools = {**TOOLS, **TASK_TOOLS}


@st.composite
def _mcp(draw: DrawFn) -> Any:
    if not draw(st.integers(0, 7)):
        method = draw(near(("initialize", "ping", "tools/list", "tools/call", "resources/read", "prompts/list")))
        return {
            "jsonrpc": draw(st.sampled_from(("2.0", "1.0", 2))),
            "id": draw(some_json),
            "method": method,
            "params": draw(some_json),
        }
    name = draw(st.sampled_from(tuple(_tools)))
    kind = _tools[name].takes
    needed = tuple(one.encode_name for one in msgspec.structs.fields(kind) if one.required)
    given = draw(objects(fields(kind), {"cursor": _cursors, "schedule": phrases, "delay": spans}, always=needed))
    if "wait" in given:
        given["wait"] = 0.01  # nobody has the time
    params = {"name": name, "arguments": given}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@st.composite
def _dids(draw: DrawFn) -> tuple[str, bytes]:
    key = draw(st.one_of(st.just("ab" * 32), near(("ab" * 32, "00" * 32, "0x" + "cd" * 32))))
    did_text = draw(
        st.one_of(st.just(f"did:matrix:ada:{key[:16]}"), near((f"did:matrix:ada:{key[:16]}", "did:key:z6Mk")))
    )
    said = {"did": did_text, "public_key": key, "nonce": draw(_cursors), "signature": draw(near(("ef" * 64,)))}
    which = draw(st.sampled_from(("challenge", "verify")))
    kind = did.ChallengeBody if which == "challenge" else did.VerifyBody
    return which, draw(written(st.just({name: said[name] for name in fields(kind)})))


def interfaces() -> Iterator[Parser]:
    served = operations()
    yield Parser("HTTP requests", _requests(served), _http)
    yield Parser("large HTTP requests", _large_bodies(), _large, by_callback=True)
    yield Parser(
        "WebSocket messages", st.one_of(MESSAGES, MESSAGES.map(lambda said: said.decode(errors="replace"))), _sockets
    )
    yield Parser("MCP messages", written(_mcp()), _agents)
    yield Parser("DID proofs", _dids(), _proofs)

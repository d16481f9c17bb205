"""Every operation, tool, socket call and stream, tried with another owner's token: nothing read, nothing changed.

The attempts are made from what the server says of itself: its document, its list of tools, its list of methods. What is
new there is tried as well, or the test fails and says what it needs to know.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct
from starlette.routing import Route

from tests.acting import Draft, acting, keep
from tests.dashboard.world import Person
from tests.databases import database_of
from wakeful.alarm import Alarm, users_of
from wakeful.alarm.owner_settings import OwnerSettings
from wakeful.alarm.request import PolicyRequest
from wakeful.dashboard.actions import ON_ALARM
from wakeful.dashboard.choosing import ALARM_FILTERS as LIST_FILTERS
from wakeful.dashboard.page import Dashboard
from wakeful.dispatcher import ServedTarget
from wakeful.moments import cursor_text
from wakeful.service.bulk import ON_ALARMS, ON_FIRES
from wakeful.service.why import kind_of
from wakeful.store import AlarmQuery, FireQuery, TargetState, Worker
from wakeful.testing import store_of, targets_of

from .world import Agent, Answer, Visitor, serving

SECRET = "ada-knows"
NOT_FOUND = re.compile("there is no|task not found")
PRIVATE = "adas-gateway"  # a table that only ada may have rows in
SIGNALS = "/v1/signals/{name}"  # anyone may name a signal: of ada's alarms, none hears eve's
NAMED = "grants"  # what ada calls it; eve may call hers the same
# What makes a call good enough to reach somebody's alarm, by the name of the field.
GOOD: dict[str, Any] = {
    "wake_message": "mine",
    "when": "in 1 hour",
    "for": "1h",
    "outcome": "completed",
    "label": "taken",
    "did": "did:matrix:ada:0123456789abcdef",
    "prompt": "mine",
    "targetJid": "eve@g.us",
    "cron": "0 9 * * *",
}
# Bodies that take a choice of fields, or more than texts.
BODIES: dict[tuple[str, str], Any] = {
    ("post", "/v1/alarms/batch"): {"alarms": [{"wake_message": "mine", "when": "in 1 hour", "idempotency_key": "k"}]},
    ("patch", "/v1/alarms/{id}"): {"label": "taken"},
    ("post", "/v1/alarms/{id}/snooze"): {"for": "1h"},
    ("patch", "/v1/settings"): {"timezone": "Asia/Tokyo"},
    ("post", "/v1/auth/verify"): {
        "did": GOOD["did"],
        "public_key": "0123456789abcdef" * 4,
        "nonce": "AAAA",
        "signature": "00" * 64,
    },
}
LOOKED_AFTER = ("/alarms", "/alarms/{id}", "/fires", "/bulk/{what}")  # pages where an operator may name an owner
APART = ("/live", "/login", "/logout")  # pages that show nothing, or go on for ever
MANY = {"alarms": ON_ALARMS, "fires": ON_FIRES}  # what can be done to many at once
# What a page must be asked with: a span, or what is to be done to many.
PAGE_QUERIES = {"/timeline/coming": ("since=2000-01-01T00:00:00Z&until=2199-01-01T00:00:00Z",)} | {
    f"/bulk/{what}": tuple(f"verb={verb}" for verb in verbs) for what, verbs in MANY.items()
}
# What a tool needs though no schema can say so: one alarm, or a list of several.
NEEDED_BY_TOOL = {"alarm_set": ("when", "wake_message")}
# Where a target only chooses among the caller's own: nothing is sent to it.
CHOOSES = ("/v1/alarms/cancel", "alarm_cancel", "alarm_inbox")
QUERIES = {("delete", "/v1/alarms"): "all=true", ("get", "/v1/inbox"): "wait=0.01"}


class World(Struct):
    """ada, who has an alarm that waits, one that fired, and a task; and eve, who has a token that may do everything."""

    visit: Visitor
    eve: dict[str, str]
    revoked: dict[str, str]
    pending: Alarm
    fired: str
    task: str
    link: str  # the id of the token in the address of ada's calendar feed

    @property
    def adas(self) -> dict[str, str]:
        """What is ada's, by the names it may be asked for."""
        id, fire_id = self.pending.id, self.fired
        names = {"id": id, "alarm_id": id, "root_id": id, "fire_id": fire_id, "parent_fire": fire_id}
        texts = {"q": SECRET[:6], "text": SECRET[:6], "label": NAMED, "conversation_id": NAMED, "name": NAMED}
        keys = {"idempotency_key": "k", "key": "k", "target": "agent", "process": "agent"}
        return (
            names
            | texts
            | keys
            | {"token_id": self.link}
            | {"taskId": self.task, "cursor": cursor_text(self.pending.created_at + timedelta(days=1), id)}
        )

    async def state(self) -> Any:
        """All that is ada's, as the operator sees it."""
        store = store_of(self.visit.clock)
        return (
            await store.find(AlarmQuery(owner="ada", limit=500)),
            await store.fires(FireQuery(owner="ada", limit=500)),
            await store.events(owner="ada", limit=500),
            [token for token in await store.tokens() if token.owner_did == "ada"],
            [task for task in await store.tasks.find() if task.owner == "ada"],
            await store.owner_settings.get("ada"),
        )

    def check(self, text: str, what: Any, *, given: bool) -> None:
        """Nothing of ada's is in an answer. `given`: a refusal may repeat the id that was asked for."""
        assert SECRET not in text, what
        if not given:
            for id in (self.pending.id, self.fired.partition("@")[0], self.task):
                assert id not in text, what


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    place = database_of(request, tmp_path)
    async with serving(**place, did_auth=True, mcp_tasks=True, tick=timedelta(milliseconds=50)) as visit:
        service = visit.clock.service
        users = users_of(visit.clock.settings, PRIVATE, "table", ["ada"])
        targets_of(visit.clock)[PRIVATE] = ServedTarget(Agent(), 8, users=users)
        await store_of(visit.clock).tasks.connect("scheduled_tasks")
        task = (await service.tasks.schedule(owner="ada", chat_jid="ada@g.us", prompt=SECRET, cron="0 9 * * *")).task
        named = {"label": NAMED, "conversation_id": NAMED, "idempotency_key": "k"}
        policy = PolicyRequest(unless=NAMED, or_when="other")
        draft = Draft(
            owner_did="ada", wake_message=SECRET, payload=f'"{SECRET}"', when="in 1 hour", policy=policy, **named
        )
        pending = (await keep(service, draft)).alarm
        await acting(service, "ada", by="ada").pause(pending.id, reason=SECRET)
        pending = await acting(service, "ada", by="ada").resume(pending.id)
        fired = (await visit.fired("ada")).fire_id
        async with asyncio.timeout(20):
            while not await store_of(visit.clock).find(AlarmQuery(owner="ada", label=task.id)):
                pass  # until a dispatcher has seen the task
        await store_of(visit.clock).owner_settings.put("ada", OwnerSettings(timezone="Asia/Tokyo", calendar=SECRET))
        await visit.token("ada")
        revoked = await visit.token("eve")
        id = revoked["authorization"].split("_")[1]
        await store_of(visit.clock).revoke_token(id, await service.now())
        link = (await visit.token("ada", "calendar"))["authorization"].split("_")[1]
        yield World(visit, await visit.token("eve", "admin"), revoked, pending, fired, task.id, link)


# HTTP


class Attempt(Struct):
    method: str
    path: str
    place: str
    body: Any
    entry: dict[str, Any]

    async def made(self, visit: Visitor, headers: dict[str, str]) -> Answer:
        """The answer; of a stream that does not end, only how it begins."""
        if not self.is_stream:
            return await visit(self.method.upper(), self.place, self.body, headers=headers)
        async with visit._session.get(visit.url + self.place, headers=headers) as response:
            text = "" if response.status == 200 else await response.text()
            return Answer(response.status, dict(response.headers), text)

    @property
    def is_stream(self) -> bool:
        return "text/event-stream" in self.entry["responses"].get("200", {}).get("content", {})


def attempts(document: dict[str, Any], adas: dict[str, str]) -> Iterator[Attempt]:
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            for query in queries(method, path, entry, adas):
                for body in bodies(method, path, entry, document, adas):
                    yield Attempt(method, path, path.format(**adas) + query, body, entry)


def queries(method: str, path: str, entry: dict[str, Any], adas: dict[str, str]) -> Iterator[str]:
    usual = QUERIES.get((method, path), "")
    yield f"?{usual}" if usual else ""
    for parameter in entry.get("parameters", []):
        if parameter["in"] == "query" and parameter["name"] in adas:
            yield f"?{parameter['name']}={adas[parameter['name']]}"


def bodies(
    method: str, path: str, entry: dict[str, Any], document: dict[str, Any], adas: dict[str, str]
) -> Iterator[Any]:
    if "requestBody" not in entry:
        yield None
        return
    name = entry["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    shape = document["components"]["schemas"][name]
    required = {field: GOOD[field] for field in shape.get("required", ()) if field in GOOD}
    usual = BODIES.get((method, path), required | ({"when": GOOD["when"]} if "when" in shape["properties"] else {}))
    yield usual
    for field in shape["properties"]:
        if field in adas and field not in usual:
            yield usual | {field: adas[field]}
    if "on_conflict" in shape["properties"]:
        yield usual | {"idempotency_key": "k", "on_conflict": "replace"}


async def test_no_operation_reads_or_changes_what_is_another_owners(world: World) -> None:
    before, document = await world.state(), (await world.visit("GET", "/openapi.json")).json
    reached: dict[tuple[str, str], set[int]] = {}
    for attempt in attempts(document, world.adas):
        answer = await attempt.made(world.visit, world.eve)
        what = (attempt.method, attempt.place, attempt.body, answer.status, answer.text)
        assert str(answer.status) in attempt.entry["responses"], what
        world.check(answer.text, what, given=answer.status >= 300)
        assert attempt.entry.get("security") == [] or answer.status not in (401, 403), what  # it is eve's own token
        if "{" in attempt.path and attempt.path != SIGNALS:
            assert answer.status in (400, 404), what
        reached.setdefault((attempt.method, attempt.path), set()).add(answer.status)
    idle = [operation for operation, statuses in reached.items() if statuses == {400}]
    assert idle == [], "say in GOOD, BODIES or QUERIES how to call these"
    assert len(reached) == sum(len(methods) for methods in document["paths"].values())
    assert await world.state() == before


async def test_no_operation_lets_anyone_in_with_a_revoked_token_or_none(world: World) -> None:
    before, document = await world.state(), (await world.visit("GET", "/openapi.json")).json
    for headers in (world.revoked, {}, {"authorization": "Bearer wk_0123456789abcdef_" + "x" * 43}):
        for attempt in attempts(document, world.adas):
            answer = await attempt.made(world.visit, headers)
            assert str(answer.status) in attempt.entry["responses"], (attempt.method, attempt.place, answer.text)
            world.check(answer.text, (attempt.place, answer.text), given=answer.status >= 300)
            if attempt.entry.get("security") != []:
                assert answer.status == 401, (attempt.method, attempt.place, answer.text)
    assert await world.state() == before


async def test_an_address_of_a_calendar_feed_shows_nothing_of_another_owners(world: World) -> None:
    before = await world.state()
    for owner in ("eve", "eve%", "a", "ad_"):
        token = (await world.visit.token(owner, "calendar"))["authorization"].removeprefix("Bearer ")
        answer = await world.visit("GET", f"/v1/calendar.ics?token={token}")
        assert answer.status == 200
        world.check(answer.text.replace("\r\n ", ""), owner, given=False)
    assert await world.state() == before


# MCP


def calls(schema: dict[str, Any], adas: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Arguments for a tool: the plainest, then each field that could name what is ada's, and each choice there is."""
    known = adas | GOOD
    strange = [name for name in schema.get("required", ()) if name not in known]
    assert not strange, f"say in GOOD how to give {strange}"
    usual = {name: GOOD.get(name, adas.get(name)) for name in schema.get("required", ())}
    yield usual
    for name, shape in schema["properties"].items():
        if name in known and name not in usual:
            yield usual | {name: adas.get(name, GOOD.get(name))}
        for choice in shape.get("enum", ()):
            chosen = usual | {name: choice}
            yield chosen
            yield chosen | {"for": "1h"} if "for" in schema["properties"] else chosen
            yield chosen | {"key": "k"} if "key" in schema["properties"] else chosen


async def test_no_tool_reads_or_changes_what_is_another_owners(world: World) -> None:
    before = await world.state()
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(world.visit.url + "/mcp", http_client=http)) as eve:
            for tool in (await eve.list_tools()).tools:
                schema = tool.input_schema
                reached = False
                needed = {"required": [*schema.get("required", ()), *NEEDED_BY_TOOL.get(tool.name, ())]}
                for arguments in calls(schema | needed, world.adas):
                    result = await eve.call_tool(tool.name, arguments)
                    text: str = result.content[0].text  # type: ignore[union-attr]  # all our contents are texts
                    world.check(text, (tool.name, arguments, text), given=bool(result.is_error))
                    reached = reached or not result.is_error or NOT_FOUND.search(text) is not None
                    if {"id", "fire_id", "taskId"} & set(schema.get("required", ())):
                        assert result.is_error, (tool.name, arguments, text)
                assert reached, f"say in GOOD how to call {tool.name}"
    assert await world.state() == before


# Pages


def pages(world: World, method: str) -> Iterator[tuple[str, str]]:
    """Every page and every form there is, with what is ada's in its path, its query and its fields."""
    verbs = [*ON_ALARM, "fire", "edit", "retry", "done"]
    names = [*LIST_FILTERS, "cursor", "back"]
    adas = world.adas
    for route in world.visit.clock.asgi().routes:
        name = getattr(getattr(route, "endpoint", None), "__qualname__", "")
        if not isinstance(route, Route) or not name.startswith(Dashboard.__name__):
            continue
        if method not in (route.methods or ()) or route.path in APART:
            continue
        id = adas["fire_id"] if route.path.startswith("/fires/") else adas["id"]
        if "{what}" in route.path:
            places = [route.path.format(what=what) for what in MANY]
        else:
            found = verbs if "{verb}" in route.path else [""]
            places = [route.path.format(id=id, verb=verb) for verb in found]
        for place in places:
            if method == "POST":
                yield route.path, place
            else:
                yield from ((route.path, f"{place}?{query}") for query in page_queries(place, names, adas))


def page_queries(place: str, names: Sequence[str], adas: dict[str, str]) -> Iterator[str]:
    """What a page cannot do without, and with it each filter there may be."""
    for usual in PAGE_QUERIES.get(place, ("",)):
        yield usual
        yield from (f"{usual}&{name}={quote(adas.get(name, ''))}" for name in names if f"{name}=" not in usual)


async def test_no_page_shows_or_changes_what_is_another_owners(world: World) -> None:
    before, visit = await world.state(), world.visit
    eve = Person(visit, world.eve["authorization"].removeprefix("Bearer "))
    tried = set()
    for path, place in pages(world, "GET"):
        answer = await eve.get(place)
        tried.add(path)
        assert answer.status in ((404,) if "{id}" in path else (200,)), (place, answer.text)
        world.check(answer.text, (place, answer.text), given=answer.status == 404 or "cursor=" in place)
    for path, place in pages(world, "POST"):
        for verb in MANY[place.rpartition("/")[2]] if "{what}" in path else ("pause", "cancel"):
            fields = GOOD | world.adas | {"verb": verb, "version": "1", "target": "inbox", "count": "1"}
            fields |= {"id": world.fired} if place == "/bulk/fires" else {}
            fields |= {"owner": "eve", "scope": "read", "typed": world.adas["id"]}  # of a token
            answer = await eve.post(place, fields | {"idempotency_key": f"{place} {verb}"})
            tried.add(path)
            assert answer.status in ((400, 404) if "{id}" in path else (200, 303)), (place, answer.status, answer.text)
            world.check(answer.text, (place, answer.text), given=True)
            if "{what}" in path:  # the one that was marked; then all that a filter fits
                assert "1 could not be: there is no" in answer.text, answer.text
                found = await eve.post(place, {"verb": verb, "label": NAMED} if "alarms" in place else {"verb": verb})
                assert found.status == 200, found.text  # eve's own, as far as there are any
                world.check(found.text, (place, found.text), given=False)
    assert len(tried) >= 23
    assert await world.state() == before


async def test_no_page_opens_with_a_revoked_token_or_none(world: World) -> None:
    before, visit = await world.state(), world.visit
    revoked = Person(visit, world.revoked["authorization"].removeprefix("Bearer "))
    for who in (revoked, Person(visit), Person(visit, "wk_0123456789abcdef_" + "x" * 43)):
        for _, place in pages(world, "GET"):
            answer = await who.get(place)
            assert (answer.status, answer.headers["location"]) == (303, "/login"), place
        for _, place in pages(world, "POST"):
            answer = await who.post(place, GOOD | world.adas, csrf="")
            assert (answer.status, answer.headers["location"]) == (303, "/login"), place
    assert await world.state() == before


async def test_only_an_operator_looks_after_another_owners_alarms(world: World) -> None:
    """With `owner` in the address, where that is a filter; anywhere else it says nothing, and shows nothing."""
    before, visit = await world.state(), world.visit
    plain = (await visit.token("eve"))["authorization"].removeprefix("Bearer ")
    eve, operator = Person(visit, plain), Person(visit, world.eve["authorization"].removeprefix("Bearer "))
    shown = set()
    for path, place in pages(world, "GET"):
        if "owner=" in place:
            continue
        asked = f"{place}{'&' if '?' in place else '?'}owner=ada"
        refused = await eve.get(asked)
        world.check(refused.text, asked, given=True)
        assert refused.status == 403 or path not in LOOKED_AFTER, (asked, refused.text)
        answer = await operator.get(asked)
        if path in LOOKED_AFTER:
            assert answer.status in (200, 404 if "{id}" in path else 200), (asked, answer.text)
            signs = (SECRET, NAMED, world.pending.id, world.fired)
            shown |= {path} if any(sign in answer.text and sign not in asked for sign in signs) else set()
        else:
            world.check(answer.text, asked, given=answer.status == 404 or "cursor=" in asked)
    assert shown == set(LOOKED_AFTER)
    for path, place in pages(world, "POST"):
        for person in (eve, operator) if path not in LOOKED_AFTER else (eve,):
            fields = GOOD | world.adas | {"verb": "cancel", "target": "inbox", "count": "1", "owner": "ada"}
            answer = await person.post(f"{place}?owner=ada", fields | {"idempotency_key": f"{place} of ada"})
            world.check(answer.text, (place, answer.text), given=True)
            assert answer.status == 403 or path not in LOOKED_AFTER, (place, answer.text)
    assert await world.state() == before
    place, mine = "/bulk/alarms", {"verb": "pause", "id": world.pending.id}
    assert "1 could not be: there is no" in (await operator.post(place, mine)).text
    done = (await operator.post(place, mine | {"owner": "ada"})).text
    assert "<b>1 alarms</b> paused" in done
    [event] = [event for _, event in await store_of(visit.clock).events(alarm_id=world.pending.id, limit=100)][-1:]
    assert (event.what, event.by) == ("paused", f"eve (token {world.eve['authorization'].split('_')[1]})")


async def test_no_open_page_hears_what_another_owner_does(world: World) -> None:
    visit, service = world.visit, world.visit.clock.service
    eve = Person(visit, world.eve["authorization"].removeprefix("Bearer "))
    async with visit._session.get(visit.url + "/live", headers=eve.headers) as stream:
        while await stream.content.readline() != b"event: hello\n":
            pass
        await acting(service, "ada", by="ada").pause(world.pending.id, reason=SECRET)
        await visit("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour"}, headers=world.eve)
        while not (line := (await stream.content.readline()).decode()).startswith('data: ["'):
            assert line, "the stream ended"
        assert json.loads(line.removeprefix("data: ")) == ["created"]
    plain = Person(visit, (await visit.token("eve"))["authorization"].removeprefix("Bearer "))
    assert (await plain.get("/live?owner=ada")).status == 403
    async with visit._session.get(visit.url + "/live?owner=ada", headers=eve.headers) as stream:
        while await stream.content.readline() != b"event: hello\n":
            pass
        await acting(service, "ada", by="ada").resume(world.pending.id)
        while not (line := (await stream.content.readline()).decode()).startswith('data: ["'):
            assert line, "the stream ended"
        assert json.loads(line.removeprefix("data: ")) == ["resumed"]


# Targets


async def test_no_operation_sends_anything_to_a_target_that_is_not_for_its_owner(world: World) -> None:
    document = (await world.visit("GET", "/openapi.json")).json
    mine = await eves_alarm(world)
    tried = 0
    for path, methods in document["paths"].items():
        for method, entry in () if path in CHOOSES else methods.items():
            for body in bodies(method, path, entry, document, {}):
                for aimed in aimed_at_private(entry, document, body):
                    place = path.format(**world.adas | {"id": mine.id, "alarm_id": mine.id})
                    answer = await world.visit(method.upper(), place, aimed, headers=world.eve)
                    [problem] = [one["problem"] for one in answer.json.get("results", [{"problem": answer.json}])]
                    assert (problem["code"], problem["field"]) == ("unknown_target", "target"), (place, aimed, problem)
                    assert PRIVATE not in problem["fix"]
                    tried += 1
    assert tried >= 3  # setting, setting many and editing
    nowhere = {"wake_message": "mine", "when": "in 1 hour", "target": "nowhere"}
    assert PRIVATE not in (await world.visit("POST", "/v1/alarms", nowhere, headers=world.eve)).text
    for path in ("/v1/targets", "/v1/overview"):
        assert PRIVATE not in (await world.visit("GET", path, headers=world.eve)).text
    assert await at_private(world) == []
    ada = await world.visit.token("ada")
    answer = await world.visit("POST", "/v1/alarms", nowhere | {"target": PRIVATE}, headers=ada)
    assert answer.status == 201, answer.text
    known = (await world.visit("GET", "/v1/targets", headers=ada)).json["targets"]
    assert PRIVATE in [one["target"] for one in known]


def aimed_at_private(entry: dict[str, Any], document: dict[str, Any], body: Any) -> Iterator[Any]:
    """A good body with that target, where it takes one: itself, or each alarm in it."""
    if "requestBody" not in entry:
        return
    name = entry["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    if "target" in document["components"]["schemas"][name]["properties"]:
        yield body | {"target": PRIVATE}
    elif "alarms" in body:
        yield {"alarms": [alarm | {"target": PRIVATE} for alarm in body["alarms"]]}


async def test_no_tool_sends_anything_to_a_target_that_is_not_for_its_owner(world: World) -> None:
    mine, tried = await eves_alarm(world), 0
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(world.visit.url + "/mcp", http_client=http)) as eve:
            for tool in (await eve.list_tools()).tools:
                schema = tool.input_schema
                if "target" not in schema["properties"] or tool.annotations.read_only_hint:  # type: ignore[union-attr]
                    continue
                if tool.name in CHOOSES:
                    continue
                known = GOOD | {"id": mine.id}
                arguments = {
                    name: known[name] for name in ("wake_message", "when", "id") if name in schema["properties"]
                }
                result = await eve.call_tool(tool.name, arguments | {"target": PRIVATE})
                text: str = result.content[0].text  # type: ignore[union-attr]  # all our contents are texts
                assert result.is_error, (tool.name, text)
                assert f"there is no target '{PRIVATE}'" in text
                assert text.count(PRIVATE) == 1, text
                tried += 1
    assert tried
    assert await at_private(world) == []


async def eves_alarm(world: World) -> Alarm:
    return (await keep(world.visit.clock.service, Draft(owner_did="eve", wake_message="mine", when="in 2 hours"))).alarm


async def at_private(world: World) -> list[Alarm]:
    return await store_of(world.visit.clock).find(AlarmQuery(owner="eve", target=PRIVATE))


# Sockets and streams


async def test_no_socket_call_tells_what_is_another_owners(world: World) -> None:
    before = await world.state()
    variants = [{}, *({name: value} for name, value in world.adas.items())]
    async with world.visit._session.ws_connect(world.visit.url + "/v1/ws", headers=world.eve) as socket:

        async def call(method: str, params: dict[str, str]) -> dict[str, Any]:
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            found: dict[str, Any] = await socket.receive_json(timeout=10)
            return found

        methods = (await call("no such method", {}))["error"]["data"]["methods"]
        for method in methods:
            codes = set()
            for params in variants:
                answer = await call(method, params)
                world.check(json.dumps(answer), (method, params, answer), given="error" in answer)
                codes.add(answer.get("error", {}).get("code"))
            assert codes - {-32602}, f"no params fit {method}: add some to World.adas"
            assert -32603 not in codes
    assert await world.state() == before


async def test_no_stream_and_no_subscription_tells_what_another_owner_does(world: World) -> None:
    visit, service = world.visit, world.visit.clock.service
    async with visit._session.get(visit.url + "/v1/events", headers=world.eve) as stream:
        await stream.content.readline()
        async with visit._session.ws_connect(visit.url + "/v1/ws", headers=world.eve) as socket:
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "subscribe"})
            await socket.receive_json(timeout=10)
            await acting(service, "ada", by="ada").pause(world.pending.id, reason=SECRET)
            await visit.fired("ada")
            mine = (
                await visit("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour"}, headers=world.eve)
            ).json
            told = await socket.receive_json(timeout=10)
            assert (told["params"]["what"], told["params"]["alarm_id"]) == ("created", mine["id"])
        while not (line := (await stream.content.readline()).decode()).startswith("data: "):
            assert line, "the stream ended"
        assert json.loads(line.removeprefix("data: "))["alarm_id"] == mine["id"]


# What is everyone's, and what is not


async def test_no_owner_hears_what_a_shared_target_said_to_another_nor_where_it_is(world: World) -> None:
    """ada's wake broke a target, which quotes it; eve's alarm waits for the same target."""
    visit, store, now = world.visit, store_of(world.visit.clock), await world.visit.clock.service.now()
    await store.beat(
        Worker(id="w", host="inner-host", pid=987654, version="0", started_at=now, seen_at=now, targets=("shared",))
    )
    await store.set_target_state(
        TargetState(target="shared", breaker_opened_at=now, last_error=f"HTTP 500: {SECRET}", updated_at=now)
    )
    eves = await visit.clock.for_owner("eve").set(delay=0.001, wake_message="mine", target="shared")
    async with asyncio.timeout(10):
        while (await visit.clock.service.now()) <= eves.next_fire_at:
            pass
    answers = [(await visit("GET", f"/v1/alarms/{eves.id}/why", headers=world.eve)).text]
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(visit.url + "/mcp", http_client=http)) as eve:
            for more in ({}, {"part": "facts"}):
                result = await eve.call_tool("alarm_get", {"id": eves.id} | more)
                answers.append(result.content[0].text)  # type: ignore[union-attr]  # all our contents are texts
    assert "HTTP 500" in answers[0]
    assert "HTTP 500" in answers[1]
    for text in answers:
        assert not re.search(f"{SECRET}|inner-host|987654", text), text
    operators = await acting(visit.clock.service, "eve", limited=False).why(eves.id)
    assert SECRET in operators.summary
    assert "inner-host:987654" in " ".join(operators.facts)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (f"HTTP 503: {SECRET}", "HTTP 503"),
        (f"router returned 502: {SECRET}", "HTTP 502"),
        ("no answer within 30 s", "no answer in time"),
        ("TLS: the certificate is not valid for 'inner-host'", "no secure connection"),
        (f"the row was not inserted: {SECRET}", "it does not take wakes"),
        ("", "it does not take wakes"),
    ],
)
def test_owners_hear_of_what_kind_a_targets_trouble_is(said: str, kind: str) -> None:
    assert kind_of(said) == kind


async def test_what_is_done_with_a_token_is_on_record_under_its_id(world: World) -> None:
    """Several tokens speak for one owner: which of them did it is known, through every door."""
    visit = world.visit
    id = world.eve["authorization"].split("_")[1]
    body = {"wake_message": "mine", "when": "in 1 hour", "idempotency_key": "mine"}
    made = (await visit("POST", "/v1/alarms", body, headers=world.eve)).json
    place = f"/v1/alarms/{made['id']}"
    await visit("POST", "/v1/alarms", body | {"wake_message": "x", "on_conflict": "replace"}, headers=world.eve)
    await visit("PATCH", place, {"label": "x"}, headers=world.eve)
    await visit("POST", f"{place}/pause", {}, headers=world.eve)
    async with httpx2.AsyncClient(headers=world.eve, timeout=30) as http:
        async with Client(streamable_http_client(visit.url + "/mcp", http_client=http)) as eve:
            await eve.call_tool("alarm_update", {"id": made["id"], "action": "resume"})
            await eve.call_tool("alarm_cancel", {"id": made["id"]})
    events = [event for _, event in await store_of(visit.clock).events(alarm_id=made["id"])]
    assert [event.what for event in events] == ["replaced", "updated", "paused", "resumed", "cancelled"]
    assert {event.by for event in events} == {f"eve (token {id})"}
    assert made["created_by"] == "eve"

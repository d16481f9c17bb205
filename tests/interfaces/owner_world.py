"""Two owners on one server, and every call that one could try on what is the other's.

The attempts are made from what the server says of itself: its document, its list of tools, its pages. What is new there
is tried as well, or the test fails and says what it needs to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec import Struct
from starlette.routing import Route

from tests.acting import Draft, acting, keep
from tests.databases import database_of
from wakeful.dashboard.alarm import RAW
from wakeful.dashboard.bulk import ON_ALARM
from wakeful.dashboard.lists import ALARM_FILTERS as LIST_FILTERS
from wakeful.dashboard.page import Dashboard
from wakeful.dispatcher import ServedTarget
from wakeful.model.alarm import Alarm
from wakeful.model.owner_settings import OwnerSettings
from wakeful.model.requests import PolicyRequest
from wakeful.moments import cursor_text
from wakeful.service.bulk import ON_ALARMS, ON_FIRES
from wakeful.settings.values import users_of
from wakeful.store import AlarmQuery, EventQuery, FireQuery
from wakeful.testing import store_of, targets_of

from .world import Agent, Answer, Visitor, serving

SECRET = "ada-knows"
PRIVATE = "adas-gateway"  # a table that only ada may have rows in
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
    ("post", "/v1/alarms/move"): {"by": "1d"},
    ("post", "/v1/alarms/{id}/append"): {"payload": [1]},
    ("post", "/v1/alarms/{id}/snooze"): {"for": "1h"},
    ("patch", "/v1/settings"): {"timezone": "Asia/Tokyo"},
    ("post", "/v1/auth/verify"): {
        "did": GOOD["did"],
        "public_key": "0123456789abcdef" * 4,
        "nonce": "AAAA",
        "signature": "00" * 64,
    },
}
APART = ("/live", "/login", "/logout")  # pages that show nothing, or go on for ever
MANY = {"alarms": ON_ALARMS, "fires": ON_FIRES}  # what can be done to many at once
# What stands for `{what}` in the address of a page.
WHATS = {"/bulk/{what}": tuple(MANY), "/alarms/{id}/raw/{what}": tuple(RAW)}
# What a page must be asked with: a span, or what is to be done to many.
PAGE_QUERIES = {"/timeline/coming": ("since=2000-01-01T00:00:00Z&until=2199-01-01T00:00:00Z",)} | {
    f"/bulk/{what}": tuple(f"verb={verb}" for verb in verbs) for what, verbs in MANY.items()
}
# What a tool needs though no schema can say so: one alarm, or a list of several.
NEEDED_BY_TOOL = {"alarm_set": ("when", "wake_message")}
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
        names |= {"like": id, "fire": fire_id}  # in the address of a page
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
        store = store_of(self.visit.alarms)
        return (
            await store.find(AlarmQuery(owner="ada", limit=500)),
            await store.fires(FireQuery(owner="ada", limit=500)),
            await store.events(EventQuery(owner="ada", limit=500)),
            [token for token in await store.access.tokens() if token.owner_did == "ada"],
            [task for task in await store.tasks.find() if task.owner == "ada"],
            await store.access.owner_settings("ada"),
        )

    def check(self, text: str, what: Any, *, given: bool) -> None:
        """Nothing of ada's is in an answer. `given`: a refusal may repeat the id that was asked for."""
        assert SECRET not in text, what
        if not given:
            for id in (self.pending.id, self.fired.partition("@")[0], self.task):
                assert id not in text, what


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with two_owners(**database_of(request, tmp_path)) as world:
        yield world


@asynccontextmanager
async def two_owners(**settings: Any) -> AsyncIterator[World]:
    """A server with these settings, and two owners at it."""
    async with serving(**settings, did_auth=True, mcp_tasks=True, tick=timedelta(milliseconds=50)) as visit:
        service = visit.alarms.service
        users = users_of(visit.alarms.settings, PRIVATE, "table", ["ada"])
        targets_of(visit.alarms)[PRIVATE] = ServedTarget(Agent(), 8, users=users)
        await store_of(visit.alarms).tasks.connect("scheduled_tasks")
        task = (await service.tasks.schedule(owner="ada", chat_jid="ada@g.us", prompt=SECRET, cron="0 9 * * *")).task
        named = {"label": NAMED, "conversation_id": NAMED, "idempotency_key": "k"}
        policy = PolicyRequest(unless=NAMED, or_when="other")
        draft = Draft(
            owner_did="ada", wake_message="old", payload=f'"{SECRET}"', when="in 1 hour", policy=policy, **named
        )
        pending = (await keep(service, draft)).alarm
        await acting(service, "ada", by="ada").pause(pending.id, reason=SECRET)
        await acting(service, "ada", by="ada").resume(pending.id)
        # The last change is one that `undo` could take back.
        pending = (await acting(service, "ada", by="ada").update(pending.id, wake_message=SECRET)).alarm
        fired = (await visit.fired("ada")).fire_id
        async with asyncio.timeout(60):
            while not await store_of(visit.alarms).find(AlarmQuery(owner="ada", label=task.id)):
                pass  # until a dispatcher has seen the task
        await store_of(visit.alarms).access.put_owner_settings(
            "ada", OwnerSettings(timezone="Asia/Tokyo", calendar=SECRET)
        )
        await visit.token("ada")
        revoked = await visit.token("eve")
        id = revoked["authorization"].split("_")[1]
        await store_of(visit.alarms).access.update_token(id, revoked_at=await service.now())
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


# Pages


def pages(world: World, method: str) -> Iterator[tuple[str, str]]:
    """Every page and every form there is, with what is ada's in its path, its query and its fields."""
    verbs = [*ON_ALARM, "fire", "edit", "retry", "done"]
    names = [*LIST_FILTERS, "cursor", "back", "fire", "like"]
    adas = world.adas
    for route in world.visit.alarms.asgi().routes:
        name = getattr(getattr(route, "endpoint", None), "__qualname__", "")
        if not isinstance(route, Route) or not name.startswith(Dashboard.__name__):
            continue
        if method not in (route.methods or ()) or route.path in APART:
            continue
        id = adas["fire_id"] if route.path.startswith("/fires/") else adas["id"]
        if "{what}" in route.path:
            assert route.path in WHATS, f"say in WHATS what there is of {route.path}"
            places = [route.path.format(id=id, what=what) for what in WHATS[route.path]]
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

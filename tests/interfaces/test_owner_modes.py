"""The settings that change who is let in: another owner's alarms stay out of reach with each of them.

Beside test_owner_matrix.py, which tries every way of asking with the usual settings.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.world import Person
from wakeful.store import AlarmQuery, FireQuery
from wakeful.testing import store_of

from .owner_world import SECRET, World, attempts, two_owners
from .test_did import Agent
from .world import serving

MODES: dict[str, dict[str, Any]] = {
    "envelope": {"chronos_envelope": True},
    "public_url": {"public_url": "https://wake.example"},
}
AGENT = "x-chronos-agent"


@pytest.fixture(params=MODES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with two_owners(db=str(tmp_path / "wakeful.db"), **MODES[request.param]) as world:
        yield world


def as_agent(headers: dict[str, str]) -> dict[str, str]:
    """As clients of Chronos send it: the token in a header of its own, beside one for the way there."""
    return {"authorization": "Bearer transport", AGENT: headers["authorization"].removeprefix("Bearer ")}


async def test_no_operation_reads_or_changes_what_is_another_owners(world: World) -> None:
    before, document = await world.state(), (await world.visit("GET", "/openapi.json")).json
    for headers in (world.eve, as_agent(world.eve)):
        for attempt in attempts(document, world.adas):
            answer = await attempt.made(world.visit, headers)
            world.check(answer.text, (attempt.method, attempt.place, answer.text), given=answer.status >= 300)
    assert await world.state() == before


async def test_no_operation_lets_anyone_in_with_a_revoked_token_or_none(world: World) -> None:
    before, document = await world.state(), (await world.visit("GET", "/openapi.json")).json
    did = {"authorization": "Bearer transport", AGENT: "did:matrix:ada:0123456789abcdef"}
    for headers in (world.revoked, as_agent(world.revoked), {}, did, {AGENT: "ada"}):
        for attempt in attempts(document, world.adas):
            if attempt.entry.get("security") != []:
                answer = await attempt.made(world.visit, headers)
                assert answer.status == 401, (attempt.method, attempt.place, headers, answer.text)
    assert await world.state() == before


async def test_two_keys_that_were_proved_are_two_owners_at_every_operation(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "wakeful.db"), did_auth=True) as visit:
        headers = []
        for agent in (Agent(), Agent("0e984725-c51c-4bf4-9960-e1c80e27aba0")):
            asked = (await visit("POST", "/v1/auth/challenge", {"did": agent.did})).json
            proof = {"did": agent.did, "public_key": agent.public_key, "nonce": asked["nonce"]}
            proof["signature"] = agent.sign(asked["message"])
            token = (await visit("POST", "/v1/auth/verify", proof)).json["token"]
            headers.append({"authorization": f"Bearer {token}"})
        adas, eves = headers
        body = {"wake_message": SECRET, "when": "in 1 hour", "idempotency_key": "k", "payload": {"word": SECRET}}
        made = (await visit("POST", "/v1/alarms", body, headers=adas)).json
        [alarm] = await store_of(visit.alarms).find(AlarmQuery(owner=made["owner_did"], limit=9))
        world = World(visit, eves, {}, alarm, alarm.fire_id, "task-none", "none")
        names = {**world.adas, "taskId": "none"}
        for attempt in attempts((await visit("GET", "/openapi.json")).json, names):
            answer = await attempt.made(visit, eves)
            assert SECRET not in answer.text, (attempt.method, attempt.place, answer.text)
        assert await store_of(visit.alarms).get(alarm.id) == alarm


@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # one of apprise's plugins
async def test_a_table_and_peoples_phones_are_the_operators_until_they_are_shared(tmp_path: Path) -> None:
    db = tmp_path / "wakeful.db"
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("create table messages (id text primary key, chat_jid, sender, content, timestamp)")
        connection.execute("create table shared (id text primary key, chat_jid, sender, content, timestamp)")
        connection.commit()
    targets: dict[str, dict[str, Any]] = {
        "gateway": {"kind": "table", "table": "messages"},
        "phone": {"kind": "notify", "urls": ["json://127.0.0.1:9"], "schemes": ["json"]},
        "shared": {"kind": "table", "table": "shared", "owners": ["eve"]},
    }
    async with serving(str(db), targets=targets, chats={"eve": ["eve@g.us"]}) as visit:
        eve = await visit.token("eve", "admin")
        mine = (await visit("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour"}, headers=eve)).json["id"]
        for target in ("gateway", "phone"):
            for method, path in (("POST", "/v1/alarms"), ("PATCH", f"/v1/alarms/{mine}")):
                body = {"target": target} | ({"wake_message": "x", "when": "now"} if method == "POST" else {})
                answer = await visit(method, path, body, headers=eve)
                assert answer.json["code"] == "unknown_target", answer.text
        said = {"when": "now", "target": "shared", "wake_message": "'); drop table shared; --"}
        for chat, status in (("ada@g.us", 400), ("eve@g.us", 201)):
            answer = await visit("POST", "/v1/alarms", said | {"conversation_id": chat}, headers=eve)
            assert answer.status == status, answer.text
        async with asyncio.timeout(60):
            while not await store_of(visit.alarms).fires(FireQuery(owner="eve", statuses=("completed", "delivered"))):
                await visit.alarms.service.clock.sleep(0.02)
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute("select count(*) from messages").fetchone() == (0,)
        assert connection.execute("select chat_jid, content from shared").fetchall() == [
            ("eve@g.us", said["wake_message"])
        ]


async def test_a_page_of_a_server_behind_a_proxy_needs_a_token_also_from_this_machine(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "wakeful.db"), public_url="https://wake.example") as visit:
        await visit.alarms.set("in 1 hour", SECRET)
        for path in ("/", "/alarms", "/live", "/now/next"):
            answer = await Person(visit).get(path)
            assert (answer.status, answer.headers["location"]) == (303, "/login"), path
        for path in ("/v1/alarms", "/metrics", "/v1/calendar.ics", "/mcp"):
            assert (await visit("GET", path)).status == 401, path

"""A client written for Chronos, spoken to in its own envelope."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acting import acting
from tests.databases import database_of
from tests.interfaces.test_did import Agent
from tests.interfaces.world import Visitor, serving
from wakeful.http.did import Challenge
from wakeful.testing import ManualClock

BODY = {"kind": "once", "delay_seconds": 3600, "wake_message": "Summarise", "payload": {"b": 1, "a": [1.0]}}


@pytest.fixture
async def visit(tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(str(tmp_path / "wakeful.db"), chronos_envelope=True, did_auth=True) as visit:
        yield visit


async def agent_header(visit: Visitor, agent: Agent) -> dict[str, str]:
    """Challenge, signature, token: the round a Chronos client makes."""
    transport = {"authorization": "Bearer transport-token"}
    told = (await visit("POST", "/v1/agent/auth/challenge", {"did": agent.did}, headers=transport)).json
    assert told["ok"] is True
    said = agent.answer(Challenge(**told["data"]))
    answer = {name: getattr(said, name) for name in ("did", "public_key", "nonce", "signature")}
    verified = (await visit("POST", "/v1/agent/auth/verify", answer, headers=transport)).json["data"]
    assert (verified["owner_user_id"], verified["expires_in"]) == (agent.did.split(":")[2], 86400)
    return transport | {"x-chronos-agent": verified["token"]}


async def test_the_whole_round_of_a_chronos_client(visit: Visitor) -> None:
    agent = Agent()
    headers = await agent_header(visit, agent)
    made = await visit("POST", "/v1/alarms", BODY | {"idempotency_key": "k"}, headers=headers)
    assert (made.status, made.json["ok"], set(made.json["data"])) == (200, True, {"id", "next_fire_at", "status"})
    again = await visit("POST", "/v1/alarms", BODY | {"idempotency_key": "k"}, headers=headers)
    assert (again.status, again.json) == (200, {"ok": True, "data": made.json["data"] | {"deduped": True}})
    id = made.json["data"]["id"]
    listed = (await visit("GET", "/v1/alarms?limit=10", headers=headers)).json["data"]
    assert (listed["count"], [alarm["id"] for alarm in listed["alarms"]]) == (1, [id])
    got = await visit("GET", f"/v1/alarms/{id}", headers=headers)
    assert (got.json["data"]["wake_message"], got.json["data"]["max_failures"]) == ("Summarise", 5)
    assert '"payload":{"b": 1, "a": [1.0]}' in got.text, "verbatim"
    gone = await visit("DELETE", f"/v1/alarms/{id}", headers=headers)
    assert (gone.status, gone.json["data"]["status"]) == (200, "cancelled")
    assert (await acting(visit.alarms.service, agent.did).get(id)).owner_did == agent.did


@pytest.fixture(params=["sqlite", "postgres"])
async def either(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path), chronos_envelope=True, clock=ManualClock()) as visit:
        yield visit


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_taken_key_answers_with_the_alarm_there_is_whatever_else_is_said(
    either: Visitor, cancelled: bool
) -> None:
    soon = (either.alarms.service.clock.now() + timedelta(minutes=1)).isoformat()
    once = {"kind": "once", "fire_at": soon, "wake_message": "Summarise", "idempotency_key": "k"}
    made = (await either("POST", "/v1/alarms", once)).json["data"]
    if cancelled:
        await either("DELETE", f"/v1/alarms/{made['id']}")
        made = {"id": made["id"], "status": "cancelled"}
    others: list[dict[str, Any]] = [
        {},
        {"wake_message": "Another", "payload": {"page": 4}},
        {"fire_at": "2001-01-01T00:00:00Z"},  # computed by its client, and passed before the request was repeated
        {"fire_at": None, "kind": "cron", "cron_expr": "no such cron"},
        {"wake_message": "", "max_failures": 7},
        {"idempotency_key": " k "},
    ]
    for other in others:
        again = await either("POST", "/v1/alarms", once | other)
        assert (again.status, again.json) == (200, {"ok": True, "data": made | {"deduped": True}}), other
    [alarm] = await either.alarms.find()
    assert (alarm.wake_message, alarm.max_failures) == ("Summarise", 5)
    refused = await either("POST", "/v1/alarms", once | {"wake_message": "Another", "on_conflict": "error"})
    assert (refused.status, refused.json["error"]["code"]) == (409, "conflict"), "who asks for it is told"


async def test_without_the_envelope_only_who_accepts_it_gets_the_alarm_there_is(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "wakeful.db")) as visit:
        made = await visit.set(idempotency_key="k")
        passed = {"kind": "once", "fire_at": "2001-01-01T00:00:00Z", "wake_message": "x", "idempotency_key": "k"}
        assert (await visit("POST", "/v1/alarms", passed)).status == 400
        again = await visit("POST", "/v1/alarms", passed | {"on_conflict": "return"})
        assert (again.status, again.json["id"], again.json["deduped"]) == (200, made["id"], True)
        free = passed | {"on_conflict": "return", "idempotency_key": "free"}
        assert (await visit("POST", "/v1/alarms", free)).json["code"] == "invalid_schedule"


async def test_errors_come_in_the_envelope_with_chronos_s_codes(visit: Visitor) -> None:
    headers = await agent_header(visit, Agent())
    for given, path, status, code in (
        ({"headers": headers}, "/v1/alarms/01900000-0000-7000-8000-000000000000", 404, "not_found"),
        ({"headers": headers}, "/v1/alarms?limit=-1", 400, "invalid_request"),
        ({}, "/v1/alarms", 401, "unauthorized"),
        ({"headers": {"x-chronos-agent": "nonsense"}}, "/v1/alarms", 401, "unauthorized"),
    ):
        answer = await visit("GET", path, **given)
        assert (answer.status, answer.json["ok"], answer.json["error"]["code"]) == (status, False, code)
        assert answer.json["error"]["message"]
        assert answer.headers["content-type"] == "application/json"
    refused = await visit("POST", "/v1/alarms", {"kind": "once"}, headers=headers)
    assert (refused.status, refused.json["error"]["code"]) == (400, "invalid_request")


async def test_the_header_names_nobody_it_holds_a_token(visit: Visitor) -> None:
    mine, theirs = Agent(), Agent("0e984725-c51c-4bf4-9960-e1c80e27aba0")
    headers, others = await agent_header(visit, mine), await agent_header(visit, theirs)
    id = (await visit("POST", "/v1/alarms", BODY, headers=headers)).json["data"]["id"]
    assert (await visit("GET", f"/v1/alarms/{id}", headers=others)).status == 404
    named = {"x-chronos-agent": mine.did}
    assert (await visit("GET", f"/v1/alarms/{id}", headers=named)).status == 401
    # Where a transport token is one of ours, the agent's still decides.
    assert (await visit("GET", f"/v1/alarms/{id}", headers=others | await visit.token(mine.did))).status == 404


async def test_other_routes_and_other_servers_answer_as_ever(visit: Visitor, tmp_path: Path) -> None:
    headers = await visit.token("local")
    assert "ok" not in (await visit("GET", "/v1/stats", headers=headers)).json
    many = await visit("POST", "/v1/alarms/batch", {"alarms": [BODY]}, headers=headers)
    assert (many.status, many.json["created"]) == (200, 1)
    assert (await visit("GET", "/healthz")).json["status"] == "ok"
    async with serving(str(tmp_path / "plain.db")) as plain:
        assert "ok" not in await plain.set()
        assert (await plain("POST", "/v1/agent/auth/challenge", {"did": "x"})).status == 404

"""Every operation of the document, every socket call and every stream, tried with another owner's token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from wakeful.alarm import Draft
from wakeful.doors.auth import mint
from wakeful.store import AlarmQuery, FireQuery

from .world import Visitor, serving

SECRET = "ada-knows"
# What makes a call good enough to reach somebody's alarm; everything else gets an empty body.
BODIES: dict[tuple[str, str], Any] = {
    ("post", "/v1/alarms"): {
        "wake_message": "mine",
        "when": "in 1 hour",
        "idempotency_key": "k",
        "on_conflict": "replace",
    },
    ("post", "/v1/alarms/batch"): {"alarms": [{"wake_message": "mine", "when": "in 1 hour", "idempotency_key": "k"}]},
    ("patch", "/v1/alarms/{id}"): {"label": "taken"},
    ("post", "/v1/alarms/{id}/snooze"): {"for": "1h"},
    ("post", "/v1/fires/{fire_id}/report"): {"outcome": "completed", "result": "taken"},
    ("post", "/v1/preview"): {"when": "in 1 hour"},
}
QUERIES = {("delete", "/v1/alarms"): "?all=true", ("get", "/v1/inbox"): "?wait=0.01"}


async def everything(visit: Visitor) -> Any:
    """All that is ada's, as the operator sees it."""
    store = visit.clock._store
    alarms = await store.find(AlarmQuery(owner="ada", limit=500))
    return alarms, await store.fires(FireQuery(owner="ada", limit=500))


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "w.db")


async def prepared(db: str) -> dict[str, dict[str, str]]:
    tokens: dict[str, dict[str, str]] = {}
    async with serving(db) as visit:
        for owner, scopes in (("ada", ["read", "write"]), ("eve", ["read", "write", "admin"])):
            text, token = mint(owner, scopes, now=await visit.clock._store.now())
            await visit.clock._store.add_token(token)
            tokens[owner] = {"authorization": f"Bearer {text}"}
    return tokens


async def test_no_operation_reads_or_changes_what_is_another_owners(db: str) -> None:
    tokens = await prepared(db)
    async with serving(db) as visit:
        draft = Draft(owner_did="ada", wake_message=SECRET, label=SECRET, when="in 1 hour", idempotency_key="k")
        pending = (await visit.clock.service.set(draft)).alarm
        wake = await visit.fired("ada")
        names = {"id": pending.id, "fire_id": wake.fire_id}
        before = await everything(visit)
        document = (await visit("GET", "/openapi.json")).json
        tried = 0
        for path, operations in document["paths"].items():
            for method in operations:
                if method in ("parameters", "summary"):
                    continue
                body = BODIES.get((method, path), {} if method in ("post", "patch") else None)
                place = path.format(**names) + QUERIES.get((method, path), "")
                answer = await visit(method.upper(), place, body, headers=tokens["eve"])
                assert answer.status < 500, (method, path, answer.text)
                assert SECRET not in answer.text, (method, path)
                if answer.status < 300:
                    assert pending.id not in answer.text, (method, path)
                    assert wake.alarm_id not in answer.text, (method, path)
                tried += 1
        assert tried >= 25
        assert await everything(visit) == before


async def test_no_socket_call_tells_what_is_another_owners(db: str) -> None:
    tokens = await prepared(db)
    async with serving(db) as visit:
        draft = Draft(owner_did="ada", wake_message=SECRET, label=SECRET, when="in 1 hour")
        pending = (await visit.clock.service.set(draft)).alarm
        await visit.fired("ada")
        before = await everything(visit)
        async with visit._session.ws_connect(visit.url + "/v1/ws", headers=tokens["eve"]) as socket:
            for method in ("list", "count", "history", "stats", "failed", "get"):
                params = {"id": pending.id} if method == "get" else {}
                await socket.send_str(
                    msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).decode()
                )
                answer = await socket.receive_str()
                assert SECRET not in answer, method
                assert pending.id not in answer.replace(f"'{pending.id}'", ""), method
        assert await everything(visit) == before

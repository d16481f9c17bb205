"""Texts as they come: NUL is refused wherever a text can be given, and every other sign survives, at every door."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.databases import database_of
from tests.interfaces.world import Visitor, serving

NUL = "a\0b"
# Controls, separators, a byte order mark, noncharacters, ends of planes, marks that join and turn, what SQL can read.
SIGNS = (
    "\x01\x1b\x7f\x85\xa0\u2028\u2029\ufeff\ufffe\uffff\ue000\U0001ffff\U0010ffff e\u0301 \u202e \u200d "
    "\U0001f469\u200d\U0001f467 ß \ufdfd \\ \" ' % _ ; --"
)
TEXT = f"x{SIGNS}x"  # what is at the ends of a label is trimmed


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    place = database_of(request, tmp_path)
    async with serving(**place) as visitor:
        yield visitor


def texts(shape: dict[str, Any], document: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where in a body of this shape a text can stand."""
    if "$ref" in shape:
        shape = document["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
    for one in (shape, *shape.get("anyOf", ())):
        if one.get("type") == "string" or (not one.get("type") and not one.keys() & {"anyOf", "properties", "$ref"}):
            yield at
            break
    for one in shape.get("anyOf", ()):
        if "$ref" in one:
            yield from texts(one, document, at)
    for name, inner in shape.get("properties", {}).items():
        yield from texts(inner, document, (*at, name))


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...], dict[str, Any]]]:
    """Every place for a text, in every body there is, with a NUL in it."""
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            if "requestBody" in entry:
                shape = entry["requestBody"]["content"]["application/json"]["schema"]
                for at in texts(shape, document):
                    body: Any = NUL
                    for name in reversed(at):
                        body = {name: body}
                    yield method.upper(), path, at, body


async def test_a_nul_is_refused_wherever_a_text_can_stand(visit: Visitor) -> None:
    wake, alarm = await visit.fired(), await visit.set()
    document = (await visit("GET", "/openapi.json")).json
    good = {"/v1/alarms": {"wake_message": "x", "when": "in 1 hour"}, "/v1/preview": {"when": "in 1 hour"}}
    good |= {"/v1/fires/{fire_id}/report": {"outcome": "completed"}}
    tried = 0
    for method, path, at, body in bodies(document):
        usual = good.get(path, {}) if at[0] not in ("fire_at", "cron_expr") else {"wake_message": "x"}
        if path == "/v1/alarms/move" and at != ("timezone",):  # by a length of time, or to a zone
            usual = {"by": "1d"}
        answer = await visit(method, path.format(id=alarm["id"], fire_id=wake.fire_id, name="x"), usual | body)
        missing = 404 if at == ("parent_fire",) else 400  # a fire of that name is not there
        assert answer.status == missing, (method, path, body, answer.text)
        assert answer.json["field"] == ".".join(at), (path, body, answer.text)
        tried += 1
    assert tried > 40
    assert (await visit("GET", f"/v1/alarms/{alarm['id']}")).json["version"] == 1


async def test_a_nul_in_a_query_is_refused(visit: Visitor) -> None:
    tried = 0
    for path, methods in (await visit("GET", "/openapi.json")).json["paths"].items():
        for method, entry in methods.items():
            for parameter in entry.get("parameters", []):
                if parameter["in"] != "query":
                    continue
                place = path.format(id="x", fire_id="x")
                answer = await visit(method.upper(), f"{place}?{parameter['name']}=a%00b")
                assert answer.told == (400, "invalid_request", parameter["name"])
                tried += 1
    assert tried > 25


async def test_every_other_sign_survives_at_every_door(visit: Visitor) -> None:
    given = {"wake_message": TEXT, "label": TEXT, "conversation_id": TEXT, "idempotency_key": TEXT}
    made = await visit.set(**given, payload={TEXT: [TEXT]})
    place = f"/v1/alarms/{made['id']}"
    async with Client(visit.url + "/mcp") as agent:
        told = (await agent.call_tool("alarm_get", {"id": made["id"]})).structured_content["alarm"]
        assert (told["wake_message"], told["label"], told["payload"]) == (TEXT, TEXT, {TEXT: [TEXT]})
        found = await agent.call_tool("alarm_list", {"text": SIGNS})
        assert [one["id"] for one in found.structured_content["alarms"]] == [made["id"]]
    async with visit._session.ws_connect(visit.url + "/v1/ws") as socket:
        await socket.send_json({"jsonrpc": "2.0", "id": TEXT, "method": "get", "params": {"id": made["id"]}})
        answer = await socket.receive_json(timeout=30)
        assert (answer["id"], answer["result"]["wake_message"]) == (TEXT, TEXT)
    for name in ("label", "conversation_id", "q"):
        found_by = await visit("GET", "/v1/alarms", params={name: TEXT})
        assert [one["id"] for one in found_by.json["alarms"]] == [made["id"]]
    assert (await visit("POST", f"{place}/pause", {"reason": TEXT})).json["paused_reason"] == TEXT
    shown = (await visit("GET", place)).json
    assert {name: shown[name] for name in given} == given
    assert json.loads((await visit("GET", place)).text)["payload"] == {TEXT: [TEXT]}
    wake = await visit.fired()
    report = {"outcome": "completed", "result": TEXT}
    assert (await visit("POST", f"/v1/fires/{wake.fire_id}/report", report)).json["result"] == TEXT
    assert (await visit("GET", f"/v1/fires/{wake.fire_id}")).json["result"] == TEXT

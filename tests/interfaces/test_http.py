"""What the HTTP door does when it is asked properly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.types import Message

import wakeful
from tests.databases import database_of
from tests.interfaces.world import Visitor, serving
from wakeful.model.alarm import Event
from wakeful.process.application import build
from wakeful.rules.wake import report_token
from wakeful.settings import Settings
from wakeful.testing import store_of


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    place = database_of(request, tmp_path)
    async with serving(**place) as visitor:
        yield visitor


async def test_a_new_alarm_is_answered_with_its_place_and_the_time(visit: Visitor) -> None:
    answer = await visit("POST", "/v1/alarms", {"wake_message": "hello", "when": "in 1 hour", "label": "tea"})
    assert answer.status == 201
    assert answer.headers["location"] == f"/v1/alarms/{answer.json['id']}"
    assert answer.json["label"] == "tea"
    assert answer.json["owner_did"] == "local"
    assert answer.json["created_via"] == "http"
    assert datetime.fromisoformat(answer.json["now"]) < datetime.fromisoformat(answer.json["next_fire_at"])
    again = await visit("GET", answer.headers["location"])
    assert again.status == 200
    assert again.json | {"now": ""} == answer.json | {"now": ""}


async def test_every_way_of_saying_when_is_understood(visit: Visitor) -> None:
    assert (await visit.set(when=None, kind="once", delay_seconds=90))["kind"] == "once"
    assert (await visit.set(when=None, kind="once", fire_at="2099-01-01T00:00:00+02:00"))["next_fire_at"] == (
        "2098-12-31T22:00:00Z"
    )
    assert (await visit.set(when=None, fire_at=4070908800))["next_fire_at"] == "2099-01-01T00:00:00Z"
    alarm = await visit.set(when=None, kind="cron", cron_expr="0 9 * * 1-5", timezone="Europe/Berlin")
    assert (alarm["cron_expr"], alarm["timezone"]) == ("0 9 * * 1-5", "Europe/Berlin")


async def test_a_payload_comes_back_byte_for_byte(visit: Visitor) -> None:
    payload = '{"z": 1, "a": [1.0,  2e3], "é": "\\u00e9", "z": 2}'
    body = f'{{"wake_message": "x", "when": "in 1 hour", "payload": {payload}}}'.encode()
    answer = await visit("POST", "/v1/alarms", body)
    assert payload in answer.text
    assert payload in (await visit("GET", answer.headers["location"])).text


async def test_any_unicode_survives(visit: Visitor) -> None:
    alarm = await visit.set(wake_message="naïve ✓ 日本語 🎉 \u202e", label="\u0007 bell")
    assert (await visit("GET", f"/v1/alarms/{alarm['id']}")).json["wake_message"] == "naïve ✓ 日本語 🎉 \u202e"


async def test_the_same_key_is_the_same_alarm(visit: Visitor) -> None:
    alarm = await visit.set(idempotency_key="k")
    body = {"wake_message": "other", "when": "in 2 hours", "idempotency_key": "k"}
    again = await visit("POST", "/v1/alarms", body | {"on_conflict": "return"})
    assert (again.status, again.json["id"], again.json["deduped"]) == (200, alarm["id"], True)
    assert again.json["wake_message"] == "hello"
    other = await visit("POST", "/v1/alarms", body)
    assert other.told == (409, "conflict", "idempotency_key")
    assert f"alarm {alarm['id']} already has the key 'k', and differs in when, wake_message" in other.json["detail"]
    assert 'on_conflict: "replace"' in other.json["fix"]
    replaced = await visit("POST", "/v1/alarms", body | {"on_conflict": "replace"})
    assert (replaced.status, replaced.json["id"], replaced.json["wake_message"]) == (200, alarm["id"], "other")
    refused = await visit("POST", "/v1/alarms", body | {"on_conflict": "error"})
    assert refused.told == (409, "conflict", "idempotency_key")


async def test_alarms_are_listed_in_pages_newest_first(visit: Visitor) -> None:
    ids = [(await visit.set(label=f"n{number}"))["id"] for number in range(5)]
    seen, cursor = [], ""
    while True:
        page = (await visit("GET", f"/v1/alarms?limit=2{cursor}")).json
        seen += [alarm["id"] for alarm in page["alarms"]]
        if "next_cursor" not in page:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == ids[::-1]
    assert len((await visit("GET", "/v1/alarms?limit=5")).json["alarms"]) == 5


async def test_filters_choose_alarms(visit: Visitor) -> None:
    first = await visit.set(label="Milk", conversation_id="c1")
    second = await visit.set(when="every day at 9am", wake_message="brief")
    await visit("DELETE", f"/v1/alarms/{first['id']}")

    async def found(query: str) -> list[str]:
        return [alarm["id"] for alarm in (await visit("GET", f"/v1/alarms?{query}")).json["alarms"]]

    assert await found("status=cancelled") == [first["id"]]
    assert await found("status=active,cancelled") == [second["id"], first["id"]]
    assert await found("kind=cron") == [second["id"]]
    assert await found("label=Milk") == [first["id"]]
    assert await found("conversation_id=c1") == [first["id"]]
    assert await found("q=BRIE") == [second["id"]]
    assert await found("target=inbox&since=2020-01-01T00:00:00Z") == [second["id"], first["id"]]
    assert await found("until=2020-01-01T00:00:00+02:00") == []
    assert await found("since=4070908800") == []


async def test_cancelling_is_idempotent(visit: Visitor) -> None:
    alarm = await visit.set()
    for _ in range(2):
        answer = await visit("DELETE", f"/v1/alarms/{alarm['id']}")
        assert (answer.status, answer.json["status"], answer.json["in_flight"]) == (200, "cancelled", False)


async def test_reset_cancels_what_is_pending_and_counts_it(visit: Visitor) -> None:
    for _ in range(3):
        await visit.set()
    assert (await visit("DELETE", "/v1/alarms")).told == (400, "invalid_request", "all")
    assert (await visit("DELETE", "/v1/alarms?all=true")).json["cancelled"] == 3
    assert (await visit("GET", "/v1/stats")).json["cancelled"] == 3


async def test_fires_are_listed_and_shown(visit: Visitor) -> None:
    wake = await visit.fired()
    [fire] = (await visit("GET", "/v1/fires?status=delivered&target=agent")).json["fires"]
    assert fire["id"] == wake.fire_id
    assert (await visit("GET", f"/v1/alarms/{wake.alarm_id}/fires")).json["fires"] == [fire]
    shown = (await visit("GET", f"/v1/fires/{wake.fire_id}")).json
    assert shown | {"now": ""} == fire | {"now": ""}
    assert (await visit("GET", "/v1/fires?status=failed")).json["fires"] == []


async def test_fires_are_listed_in_pages_latest_first(visit: Visitor) -> None:
    wakes = [await visit.fired() for _ in range(3)]
    first = (await visit("GET", "/v1/fires?limit=2")).json
    rest = (await visit("GET", f"/v1/fires?limit=2&cursor={first['next_cursor']}")).json
    assert [fire["id"] for fire in first["fires"] + rest["fires"]] == [wake.fire_id for wake in wakes[::-1]]
    assert "next_cursor" not in rest


async def test_the_owner_reports_without_a_token(visit: Visitor) -> None:
    wake = await visit.fired()
    answer = await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "completed", "result": "done"})
    assert (answer.status, answer.json["status"], answer.json["result"]) == (200, "completed", "done")
    assert (await visit("GET", "/v1/stats")).json["completed"] == 1


async def test_a_reported_failure_is_answered_with_when_it_is_tried_again(visit: Visitor) -> None:
    wake = await visit.fired()
    answer = await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "failed", "reason": "no disk"})
    assert (answer.status, answer.json["status"]) == (200, "retrying")
    alarm = (await visit("GET", f"/v1/alarms/{wake.alarm_id}")).json
    assert answer.json["retry_at"] == alarm["next_fire_at"]


async def test_the_token_in_a_wake_reports_at_the_address_in_it_whoever_owns_the_alarm(
    visit: Visitor,
) -> None:
    wake = await visit.fired(owner="somebody")
    report = wake.content.report
    assert report.url == f"{visit.url}/v1/fires/{wake.fire_id}/report"
    path = report.url.removeprefix(visit.url)
    assert (await visit("POST", path, {"outcome": "completed"})).told == (404, "not_found", "id")
    headers = {"authorization": f"Bearer {report.token}"}
    answer = await visit("POST", path, {"outcome": "working", "result": "half"}, headers=headers)
    assert (answer.status, answer.json["status"]) == (200, "delivered")
    answer = await visit("POST", path, {"outcome": "snooze", "for": "15m"}, headers=headers)
    assert (answer.status, answer.json["status"]) == (200, "snoozed")


async def test_the_token_of_another_fire_reports_nothing(visit: Visitor) -> None:
    one, other = await visit.fired(), await visit.fired()
    secret = (await store_of(visit.alarms).access.report_keys()).current
    for token in (report_token(secret, other.fire_id), report_token(b"", one.fire_id), "", "é"):
        answer = await visit(
            "POST",
            f"/v1/fires/{one.fire_id}/report",
            {"outcome": "completed"},
            headers={"authorization": f"Bearer {token}"},
        )
        assert answer.told == (401, "unauthorized", "Authorization")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert (await visit("GET", f"/v1/fires/{one.fire_id}")).json["status"] == "delivered"


async def test_a_token_from_before_the_key_was_changed_still_reports(visit: Visitor) -> None:
    store, wake = store_of(visit.alarms), await visit.fired()
    now = await store.now()
    await store.access.rotate_report_key(now, Event(at=now, what="rotated"))
    later = await visit.fired()
    for one in (wake, later):
        said = {"authorization": f"Bearer {one.report_token}"}
        answer = await visit("POST", f"/v1/fires/{one.fire_id}/report", {"outcome": "completed"}, headers=said)
        assert (answer.status, answer.json["status"]) == (200, "completed")


async def test_health_names_the_version(visit: Visitor) -> None:
    answer = await visit("GET", "/healthz")
    assert (answer.status, answer.json) == (200, {"status": "ok", "version": wakeful.__version__})


async def test_health_says_503_when_the_store_is_gone(visit: Visitor) -> None:
    await store_of(visit.alarms).close()
    answer = await visit("GET", "/healthz")
    assert answer.told == (503, "store_unavailable", "")
    assert "retry-after" in answer.headers


async def test_it_works_under_the_path_it_is_mounted_at(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms:
        outer = Starlette()
        outer.mount("/clock", alarms.asgi())
        sent = await _asgi(outer, "POST", "/clock/v1/alarms", b'{"wake_message": "x", "when": "in 1 hour"}')
        assert sent[0]["status"] == 201
        place = dict(sent[0]["headers"])[b"location"].decode()
        assert place.startswith("/clock/v1/alarms/")
        assert (await _asgi(outer, "GET", place))[0]["status"] == 200


async def _asgi(app: Starlette, method: str, path: str, body: bytes = b"") -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers, "root_path": ""}
    await app(scope, receive, send)
    return sent


async def test_what_was_accepted_is_answered_while_stopping(visit: Visitor) -> None:
    body = b'{"wake_message": "last words", "when": "in 1 hour"}'
    port = visit.alarms.settings.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/alarms HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 100")  # it waits for the body now
    await reader.readline()
    visit.running.cancel()
    await _refuses_connections(port)
    writer.write(body)
    assert (await reader.readline()).startswith(b"HTTP/1.1 201")
    await reader.read()
    writer.close()
    await asyncio.wait((visit.running,))
    [alarm] = await visit.alarms.find()
    assert alarm.wake_message == "last words"


async def _refuses_connections(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.01)

"""What the HTTP door says to those who ask wrongly: a problem with code and field, and nothing written."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.interfaces.world import Visitor, serving
from wakeful.http.app import application
from wakeful.http.security.guard import BODY_LIMIT
from wakeful.process.application import build
from wakeful.settings import Settings
from wakeful.testing import store_of

GOOD = {"wake_message": "x", "when": "in 1 hour"}


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"when": "in 1 hour"}, "invalid_request", "wake_message"),
        (GOOD | {"wake_message": " "}, "invalid_request", "wake_message"),
        (GOOD | {"wake_message": 7}, "invalid_request", "wake_message"),
        (GOOD | {"wake_message": "a\0b"}, "invalid_request", "wake_message"),
        (GOOD | {"label": "a\0b"}, "invalid_request", "label"),
        (GOOD | {"payload": "a\0b"}, "invalid_request", "payload"),
        (GOOD | {"wake_message": "x" * 40_000}, "invalid_request", "wake_message"),
        (GOOD | {"payload": "x" * 140_000}, "invalid_request", "payload"),
        (GOOD | {"colour": "red"}, "invalid_request", "colour"),
        (GOOD | {"policy": {"colour": "red"}}, "invalid_request", "policy.colour"),
        (GOOD | {"policy": {"overlap": "maybe"}}, "invalid_request", "policy.overlap"),
        (GOOD | {"policy": {"grace": "soon"}}, "invalid_request", "policy.grace"),
        (GOOD | {"policy": {"max_fires": 10**30}}, "invalid_request", "policy.max_fires"),
        (GOOD | {"policy": {"starts_at": "0001-01-01T00:00:00+14:00"}}, "invalid_request", "policy.starts_at"),
        (
            {"wake_message": "x", "cron_expr": "0 9 * * *", "policy": {"starts_at": "0001-01-01T00:00:00Z"}},
            "invalid_request",
            "policy.starts_at",
        ),
        (GOOD | {"max_failures": -1}, "invalid_request", "max_failures"),
        (GOOD | {"max_failures": 10**40}, "invalid_request", "max_failures"),
        (GOOD | {"target": "nowhere"}, "unknown_target", "target"),
        (GOOD | {"when": "yesterday"}, "invalid_schedule", "when"),
        (GOOD | {"when": "in\0 1 hour"}, "invalid_schedule", "when"),
        (GOOD | {"fire_at": "2099-01-01T00:00:00Z"}, "invalid_schedule", "when"),
        ({"wake_message": "x"}, "invalid_schedule", "when"),
        ({"wake_message": "x", "fire_at": "2020-01-01T00:00:00Z"}, "invalid_schedule", "fire_at"),
        ({"wake_message": "x", "fire_at": "2099-01-01T00:00:00"}, "invalid_schedule", "fire_at"),
        ({"wake_message": "x", "fire_at": 1e300}, "invalid_schedule", "fire_at"),
        ({"wake_message": "x", "delay_seconds": -1}, "invalid_request", "delay_seconds"),
        ({"wake_message": "x", "delay_seconds": 1e300}, "invalid_request", "delay_seconds"),
        ({"wake_message": "x", "cron_expr": "0 25 * * *"}, "invalid_schedule", "cron_expr"),
        ({"wake_message": "x", "cron_expr": "* * * * *", "timezone": "Mars/Base"}, "invalid_schedule", "timezone"),
        ({"wake_message": "x", "kind": "once", "cron_expr": "* * * * *"}, "invalid_schedule", "kind"),
        ([], "invalid_request", "body"),
        (b"", "invalid_request", "body"),
        (b"{", "invalid_request", "body"),
        (b'{"wake_message": "\xff"}', "invalid_request", "body"),
        (b'{"wake_message": "x", "when": "in 1 hour", "payload": "\xff"}', "invalid_request", "payload"),
        (b'{"wake_message": "\\ud800", "when": "in 1 hour"}', "invalid_request", "body"),
        (b'{"wake_message": "x", "when": "in 1 hour", "payload": "\\ud800"}', "invalid_request", "body"),
        (b"[" * 100_000, "invalid_request", "body"),
        (b'{"wake_message":"x","payload":' + b"[" * 60_000 + b"]" * 60_000 + b"}", "invalid_request", "body"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict | bytes | list) else None,
)
async def test_a_bad_body_names_its_field(visit: Visitor, body: Any, code: str, field: str) -> None:
    answer = await visit("POST", "/v1/alarms", body)
    assert answer.told == (400, code, field), answer.text
    assert await visit.alarms.find() == []


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/alarms?limit=0", "limit"),
        ("/v1/alarms?limit=501", "limit"),
        ("/v1/alarms?limit=ten", "limit"),
        ("/v1/alarms?limit=%D9%A3", "limit"),
        ("/v1/alarms?limit=1&limit=2", "limit"),
        ("/v1/alarms?colour=red", "colour"),
        ("/v1/alarms?status=asleep", "status"),
        ("/v1/alarms?status=active,", "status"),
        ("/v1/alarms?kind=often", "kind"),
        ("/v1/alarms?since=yesterday", "since"),
        ("/v1/alarms?until=2026-01-01T00:00:00", "until"),
        ("/v1/alarms?q=a%00b", "q"),
        ("/v1/alarms?cursor=nonsense", "cursor"),
        ("/v1/alarms?cursor=%F0%9F%8E%89", "cursor"),
        ("/v1/alarms?cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTkgMDFhMWRmYmEtYjc2MS03MDAwLTg4NTYtZDVmMmI1MmU0OGY3", "cursor"),
        ("/v1/fires?status=active", "status"),
        ("/v1/fires?q=x", "q"),
        ("/v1/stats?x=1", "x"),
        ("/healthz?x=1", "x"),
    ],
)
async def test_a_bad_query_names_its_parameter(visit: Visitor, path: str, field: str) -> None:
    assert (await visit("GET", path)).told == (400, "invalid_request", field)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/alarms/nope",
        "/v1/alarms/%00",
        "/v1/alarms/01a1dfba-b761-7000-8856-d5f2b52e48f7",
        "/v1/alarms/01a1dfba-b761-7000-8856-d5f2b52e48f7/fires",
        "/v1/fires/nope",
        "/v1/fires/nope@1",
        "/v1/fires/%00@1",
        "/v1/fires/01a1dfba-b761-7000-8856-d5f2b52e48f7@99999999999999",
        "/v1/fires/01a1dfba-b761-7000-8856-d5f2b52e48f7@-1",
        "/v1/nothing",
        "/v1/alarms/",
        "/nothing",
    ],
)
async def test_what_is_not_there_is_a_404_problem(visit: Visitor, path: str) -> None:
    status, code, _ = (await visit("GET", path)).told
    assert (status, code) == (404, "not_found")


async def test_bad_ids_are_not_found_on_postgresql_either(pg_dsn: str, pg_migrated: str) -> None:
    async with serving(pg_dsn, schema=pg_migrated) as visit:
        for path in ("/v1/alarms/nope", "/v1/alarms/%00", "/v1/fires/nope@1", "/v1/fires/%00@1"):
            assert (await visit("GET", path)).status == 404
            assert (await visit("DELETE", path)).status in (404, 405)
            report = await visit("POST", f"{path}/report", {"outcome": "completed"})
            assert report.status == 404


async def test_a_wrong_method_is_told_the_right_ones(visit: Visitor) -> None:
    answer = await visit("PUT", "/v1/alarms")
    assert answer.told == (405, "method_not_allowed", "")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, POST"


async def test_only_json_is_taken(visit: Visitor) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = await visit("POST", "/v1/alarms", b"{}", headers={"content-type": media})
        assert answer.told == (415, "unsupported_media_type", "Content-Type")
    good = b'{"wake_message": "x", "when": "in 1 hour"}'
    answer = await visit("POST", "/v1/alarms", good, headers={"content-type": "Application/JSON; charset=utf-8"})
    assert answer.status == 201


@pytest.mark.parametrize(("size", "status"), [(BODY_LIMIT - 1, 201), (BODY_LIMIT, 201), (BODY_LIMIT + 1, 413)])
async def test_a_body_may_be_so_long_and_no_longer(visit: Visitor, size: int, status: int) -> None:
    body = b'{"wake_message": "x", "when": "in 1 hour"}'
    assert (await visit("POST", "/v1/alarms", body.ljust(size))).status == status


async def test_a_body_without_end_is_cut_off(visit: Visitor) -> None:
    port = visit.alarms.settings.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /v1/alarms HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n".encode())
    writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    sending = asyncio.create_task(_send_for_ever(writer, chunk))
    async with asyncio.timeout(30):
        assert b" 413 " in await reader.readline()
    sending.cancel()
    await asyncio.wait((sending,))
    writer.close()


async def _send_for_ever(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    try:
        while True:
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        return


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LocalHost:4747", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:4747", 200),
        ("clock.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:4747", 421),
        ("localhost:4747@evil.example", 421),
        ("127.0.0.1.nip.io", 421),
        ("", 421),
    ],
)
async def test_only_its_own_names_are_answered(tmp_path: Path, host: str, status: int) -> None:
    async with serving(str(tmp_path / "w.db"), public_url="https://clock.example/x") as visit:
        answer = await visit("GET", "/healthz", headers={"host": host})
        assert answer.status == status
        if status == 421:
            assert answer.told == (421, "misdirected", "Host")


async def test_pages_of_another_origin_are_refused(visit: Visitor) -> None:
    for origin in ("https://evil.example", "null", "http://localhost:1", "http://[bad", ""):
        answer = await visit("POST", "/v1/alarms", GOOD, headers={"origin": origin})
        assert answer.told == (403, "foreign_origin", "Origin")
    assert await visit.alarms.find() == []
    assert (await visit("POST", "/v1/alarms", GOOD, headers={"origin": visit.url})).status == 201


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "whatever"])
async def test_another_sites_page_is_refused_also_where_it_names_no_origin(visit: Visitor, site: str) -> None:
    alarm = await visit.set()
    for method, path in (
        ("GET", "/v1/alarms"),
        ("GET", f"/v1/alarms/{alarm['id']}"),
        ("GET", "/v1/events"),
        ("GET", "/metrics"),
        ("GET", "/mcp"),
        ("POST", f"/v1/alarms/{alarm['id']}/fire"),
        ("DELETE", "/v1/alarms?all=true"),
    ):
        answer = await visit(method, path, headers={"sec-fetch-site": site})
        assert answer.told == (403, "foreign_origin", "Sec-Fetch-Site"), (method, path)
    assert (await visit("GET", "/healthz", headers={"sec-fetch-site": site})).status == 200
    for own in ("same-origin", "none"):
        assert (await visit("GET", "/v1/alarms", headers={"sec-fetch-site": own})).status == 200
    ada = await visit.token("ada")  # no page can send that
    assert (await visit("GET", "/v1/alarms", headers=ada | {"sec-fetch-site": site})).status == 200


async def test_another_sites_page_is_refused_also_inside_an_application_of_ones_own(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"))) as alarms:
        app = application(alarms.service, store_of(alarms), alarms.settings)
        for site, status in (("cross-site", 403), ("none", 200)):
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as client:
                assert (await client.get("/v1/alarms", headers={"sec-fetch-site": site})).status_code == status


async def test_a_bad_report_changes_nothing(visit: Visitor) -> None:
    wake = await visit.fired()
    path = f"/v1/fires/{wake.fire_id}/report"
    for body, field in (
        ({"outcome": "great"}, "outcome"),
        ({}, "outcome"),
        ({"outcome": "completed", "result": "a\0b"}, "result"),
        ({"outcome": "failed", "reason": "a\0b"}, "reason"),
        ({"outcome": "snooze", "for": "soon"}, "for"),
        ({"outcome": "snooze"}, "for"),
    ):
        assert (await visit("POST", path, body)).told == (400, "invalid_request", field), body
    assert (await visit("GET", f"/v1/fires/{wake.fire_id}")).json["status"] == "delivered"


async def test_what_was_not_foreseen_tells_nothing_and_is_logged(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(**_: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(store_of(visit.alarms), "stats", broken)
    with caplog.at_level(logging.ERROR):
        answer = await visit("GET", "/v1/stats")
    assert answer.told == (500, "error", "")
    assert "hunter2" not in answer.text
    assert "Traceback" not in answer.text
    assert [record.name for record in caplog.records] == ["wakeful.http"]


async def test_a_store_that_is_gone_is_a_503_problem_and_no_false_yes(visit: Visitor) -> None:
    await store_of(visit.alarms).close()
    answer = await visit("POST", "/v1/alarms", GOOD)
    assert answer.told == (503, "store_unavailable", "")

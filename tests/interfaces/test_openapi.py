"""The document says what is served: every route and method, every status, and nothing that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.testclient import TestClient

from tests.interfaces.world import Visitor, serving
from wakeful.http.endpoint import operations_of
from wakeful.process.application import build
from wakeful.settings import Settings

# What OpenAPI has no words for, each with a page of its own.
ELSEWHERE = {
    ("GET", "/v1/ws"): "a WebSocket: docs/live.md",
    ("POST", "/mcp"): "JSON-RPC, described by the protocol itself: docs/mcp.md",
}


@pytest.fixture
def app(tmp_path: Path) -> Starlette:
    return build(Settings(db=str(tmp_path / "w.db"), did_auth=True)).asgi()


def served(routes: list[BaseRoute]) -> Iterator[tuple[str, str]]:
    for route in routes:
        if isinstance(route, WebSocketRoute):  # its handshake is a GET, and has a route of its own
            continue
        assert isinstance(route, Route), f"{route} is of a kind this test does not know"
        for method in (route.methods or set()) - {"HEAD"}:  # HEAD is GET without the body
            yield method, route.path


def described(app: Starlette) -> dict[str, Any]:
    answer = TestClient(app, base_url="http://localhost").get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = answer.json()
    return found


def test_every_route_and_method_is_in_the_document_or_named_here(app: Starlette, tmp_path: Path) -> None:
    """The dashboard's pages are for people: they are what is gone when it is turned off, and none is under /v1."""
    without = build(Settings(db=str(tmp_path / "w.db"), did_auth=True, dashboard=False)).asgi()
    shown = {(method.upper(), path) for path, methods in described(app)["paths"].items() for method in methods}
    assert shown | set(ELSEWHERE) == set(served(without.routes))
    pages = set(served(app.routes)) - set(served(without.routes))
    assert len(pages) > 20
    assert not [path for _, path in pages if path.startswith(("/v1", "/mcp"))]
    assert not shown & set(ELSEWHERE)


def test_the_document_has_every_status_parameter_and_body_of_an_operation(app: Starlette) -> None:
    operations = operations_of(app.routes)
    paths = described(app)["paths"]
    assert len(operations) == sum(len(methods) for methods in paths.values())
    for operation in operations:
        entry = paths[operation.path][operation.method.lower()]
        assert {int(status) for status in entry["responses"]} == set(operation.statuses)
        named = {(one["in"], one["name"]) for one in entry.get("parameters", []) if one["in"] != "path"}
        assert named == {("query", one.name) for one in operation.query} | {
            ("header", one.name) for one in operation.headers
        }
        assert ("requestBody" in entry) == (operation.body is not None)
        assert (entry.get("security") == []) == (operation.scope == "")
    ids = [entry["operationId"] for methods in paths.values() for entry in methods.values()]
    assert len(set(ids)) == len(ids)


def test_a_route_that_is_not_open_is_not_described(tmp_path: Path) -> None:
    app = build(Settings(db=str(tmp_path / "w.db"), did_auth=False)).asgi()
    assert not [path for path in described(app)["paths"] if path.startswith("/v1/auth/")]


def test_where_it_is_mounted_the_document_says_so(app: Starlette) -> None:
    outer = Starlette(routes=[Mount("/clock", app)])
    answer = TestClient(outer, base_url="http://localhost").get("/clock/openapi.json")
    assert answer.json()["servers"] == [{"url": "/clock"}]
    assert described(app)["servers"] == [{"url": "/"}]


async def test_it_is_open_to_everyone_and_takes_no_parameters(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), did_auth=True) as visit:
        assert (await visit("GET", "/v1/alarms")).status == 401
        answer = await visit("GET", "/openapi.json")
        assert (answer.status, answer.json["openapi"]) == (200, "3.1.0")
        assert (await visit("GET", "/openapi.json?x=1")).told == (400, "invalid_request", "x")


async def test_what_it_says_of_the_numbers_and_readiness_is_so(visit: Visitor) -> None:
    paths = (await visit("GET", "/openapi.json")).json["paths"]
    kinds = set(paths["/metrics"]["get"]["responses"]["200"]["content"])
    for accept in ("", "application/openmetrics-text; version=1.0.0"):
        answer = await visit("GET", "/metrics", headers={"accept": accept})
        assert answer.headers["content-type"].partition(";")[0] in kinds
        kinds -= {answer.headers["content-type"].partition(";")[0]}
    assert not kinds
    assert (await visit("GET", "/readyz?verbose=1")).told == (400, "invalid_request", "verbose")

"""Every route, asked with every method: what it has is answered, what it has not is a problem that says what it has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import BaseRoute, Match, Route

from tests.interfaces.world import Visitor, serving

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
TAKES = "/v1/inbox"  # a GET that takes something out: no HEAD
ENDLESS = ("/v1/events", "/live")  # a GET that does not end
PLACES = {
    "id": "01a1dfba-b761-7000-8856-d5f2b52e48f7",
    "fire_id": "01a1dfba-b761-7000-8856-d5f2b52e48f7@1",
    "token_id": "0123456789abcdef",
    "verb": "pause",
    "what": "alarms",
    "name": "app.js",
}


class Routes:
    def __init__(self, visit: Visitor, token: dict[str, str]) -> None:
        self.visit = visit
        self.token = token
        self.all: list[BaseRoute] = visit.alarms.asgi().routes
        self.paths = sorted({route.path for route in self.all if isinstance(route, Route)})

    def allowed(self, path: str) -> set[str]:
        """The methods of all routes that a path leads to: more than one may match it."""
        scope: dict[str, Any] = {"type": "http", "path": path, "method": "NONE"}
        here = [route for route in self.all if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE]
        return {method for route in here for method in route.methods or ()} - ({"HEAD"} if path == TAKES else set())


@pytest.fixture
async def routes(tmp_path: Path) -> AsyncIterator[Routes]:
    async with serving(str(tmp_path / "w.db"), did_auth=True) as visit:
        yield Routes(visit, await visit.token("ada", "admin"))


async def test_a_method_that_a_route_has_not_is_told_those_it_has(routes: Routes) -> None:
    tried = 0
    for pattern in routes.paths:
        path = pattern.format(**PLACES)
        allowed = routes.allowed(path)
        for method in set(METHODS) - allowed:
            answer = await routes.visit(method, path, headers=routes.token)
            assert answer.status == 405, (method, path)
            assert answer.headers["allow"] == ", ".join(sorted(allowed)), (method, path)
            if method != "HEAD":
                assert answer.told == (405, "method_not_allowed", "")
                assert answer.json["fix"] == f"Use one of: {', '.join(sorted(allowed))}."
            tried += 1
    assert tried > 5 * len(routes.paths)


async def test_head_is_get_without_the_body(routes: Routes) -> None:
    tried = 0
    for pattern in routes.paths:
        path = pattern.format(**PLACES)
        if "HEAD" not in routes.allowed(path):
            continue
        head = await routes.visit("HEAD", path, headers=routes.token)
        assert head.text == ""
        assert head.status < 500
        if pattern not in ENDLESS:
            get = await routes.visit("GET", path, headers=routes.token)
            assert (head.status, head.headers["content-type"]) == (get.status, get.headers["content-type"]), path
        tried += 1
    assert tried >= 15


async def test_no_page_of_another_origin_is_invited(routes: Routes) -> None:
    """A preflight is answered like any method a route has not: nothing that would let a browser go on."""
    asked = {"origin": routes.visit.url, "access-control-request-method": "DELETE"}
    for path in ("/v1/alarms", "/mcp", "/openapi.json"):
        answer = await routes.visit("OPTIONS", path, headers=routes.token | asked)
        assert answer.status == 405
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    strange = asked | {"origin": "https://evil.example"}
    assert (await routes.visit("OPTIONS", "/v1/alarms", headers=strange)).told == (403, "foreign_origin", "Origin")

"""The HTTP application: routes under `/v1`, JSON in and out, errors as RFC 9457 problems.

The operations are in the tables of `routes/` and of the other interfaces.
Without an `Auth`, every caller acts as the owner in the settings.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from wakeful import views
from wakeful.config import Settings
from wakeful.errors import InvalidConfig, WakefulError
from wakeful.http.context import Context
from wakeful.http.endpoint import operations_of, routed
from wakeful.http.openapi import document
from wakeful.http.operations import Operation, OperationRequest
from wakeful.http.routes import alarms, calendar, fires, look, settings
from wakeful.http.security.auth import SCOPES, Auth, AuthMiddleware, Principal
from wakeful.http.security.guard import Guard, refused
from wakeful.service import Service
from wakeful.store import Store

OPERATIONS: Final[tuple[Operation, ...]] = (
    *alarms.OPERATIONS,
    *fires.OPERATIONS,
    *look.OPERATIONS,
    *calendar.OPERATIONS,
    *settings.OPERATIONS,
)


def application(
    service: Service,
    store: Store,
    settings: Settings,
    *,
    auth: Auth | None = None,
    extra: Sequence[BaseRoute] = (),
) -> Starlette:
    """Return the API as an ASGI application, for `wakeful serve` or to mount in another application.

    `extra`: routes of other interfaces.
    """
    if not settings.owner:  # to the service that means the operator, who sees all
        raise InvalidConfig(
            "it is empty, and there is no token to name the owner", field="owner", fix="Name the owner of the alarms."
        )
    context = Context(service, store, settings)
    everyone = Principal(settings.owner, frozenset(SCOPES), local=True)
    routes: list[BaseRoute] = [*routed(context, OPERATIONS, everyone), *extra]
    routes += routed(ServedRoutes(routes), [_DESCRIBED])
    return with_middleware(routes, settings, auth=auth)


def with_middleware(routes: Sequence[BaseRoute], settings: Settings, *, auth: Auth | None = None) -> Starlette:
    """Wrap routes in the common middleware: host and origin checks, tokens, and errors as problem answers."""
    guards = [Middleware(Guard, settings=settings)]
    if auth is not None:
        guards.append(Middleware(AuthMiddleware, auth=auth))
    app = Starlette(
        routes=routes,
        middleware=guards,
        exception_handlers={404: _refused, 405: _wrong_method, WakefulError: _refused},
    )
    app.router.redirect_slashes = False
    return app


class ServedRoutes:
    """The routes of one application, which the OpenAPI document lists."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes = routes

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        return document(operations_of(self._routes))


async def openapi(served: ServedRoutes, call: OperationRequest) -> Response:
    at: str = call.request.scope.get("root_path", "")  # where this application is mounted in another
    document = await asyncio.to_thread(lambda: served.document)  # built once, in 60 ms: not in the event loop
    return Response(views.encode(document | {"servers": [{"url": at or "/"}]}), media_type="application/json")


_DESCRIBED: Final = Operation(
    method="GET",
    path="/openapi.json",
    run=openapi,
    says="This document",
    scope="",
    answers={200: dict[str, Any]},
)


def _refused(_: Request, error: Exception) -> Response:
    return refused(error)


def _wrong_method(request: Request, _: Exception) -> Response:
    """Answer 405 with the methods of every route at this path; the framework lists those of one route only."""
    routes: list[BaseRoute] = request.app.routes
    here = [route for route in routes if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE]
    allowed = {method for route in here for method in route.methods or ()}
    if any(not operation.safe for operation in operations_of(here)):
        allowed.discard("HEAD")
    return refused(HTTPException(405, headers={"allow": ", ".join(sorted(allowed))}))

"""The HTTP door: routes under `/v1`, JSON in and out, problems by RFC 9457.

What there is stands in the tables of `http_alarms`, `http_fires` and `http_look`. Where no `Auth` is given everyone who
gets this far is the one owner in the settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wakeful.config import Settings
from wakeful.doors import http_alarms, http_fires, http_look, wire
from wakeful.doors.auth import PRINCIPAL, SCOPES, Auth, AuthMiddleware, Principal, route_path
from wakeful.doors.guard import BODY_READ, Guard, Refusal, refused
from wakeful.doors.hall import Hall
from wakeful.doors.openapi import document
from wakeful.doors.table import Ask, Operation, read_query
from wakeful.errors import InvalidConfig, StoreUnavailable, Unauthorized, WakefulError
from wakeful.service import Service
from wakeful.store import Store

ANSWER_WITHIN: Final = 30.0
OPERATIONS: Final[tuple[Operation, ...]] = (
    *http_alarms.OPERATIONS,
    *http_fires.OPERATIONS,
    *http_look.OPERATIONS,
)


def application(
    service: Service,
    store: Store,
    settings: Settings,
    *,
    auth: Auth | None = None,
    extra: Sequence[BaseRoute] = (),
    lifespans: Sequence[Callable[[], AbstractAsyncContextManager[None]]] = (),
) -> Starlette:
    """The door as an ASGI application: served by `wakeful serve`, or mounted in an application of one's own.

    `extra` are routes of other doors, `lifespans` what must be open while they serve.
    """
    if not settings.owner:  # to the service that means the operator, who sees all
        raise InvalidConfig(
            "it is empty, and no token says who asks", field="owner", fix="Name whose alarms these are."
        )
    hall = Hall(service, store, settings)
    everyone = Principal(settings.owner, frozenset(SCOPES), local=True)
    routes = [
        Route(operation.path, Endpoint(hall, operation, everyone), methods=[operation.method])
        for operation in OPERATIONS
    ]
    guards = [Middleware(Guard, settings=settings)]
    if auth is not None:
        guards.append(Middleware(AuthMiddleware, auth=auth))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for one in lifespans:
                await stack.enter_async_context(one())
            yield

    app = Application(
        routes=[*routes, Route("/openapi.json", _described, methods=["GET"]), *extra],
        middleware=guards,
        exception_handlers={404: _refused, 405: _wrong_method, WakefulError: _refused},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


class Application(Starlette):
    """Starlette with a short way to routes whose path is fixed, and without its page for what was not foreseen.

    `Guard` answers for that, and for every error on purpose.
    """

    def build_middleware_stack(self) -> ASGIApp:
        whole = ExceptionMiddleware(self.router, handlers=self.exception_handlers)
        app: ASGIApp = ShortWay(whole, self.routes)
        for cls, args, kwargs in reversed(self.user_middleware):
            app = cls(app, *args, **kwargs)
        return app


class ShortWay:
    """Straight to the operation where method and path say it all; everything else goes through the router."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes = {
            (method, route.path): route
            for route in routes
            if isinstance(route, Route) and isinstance(route.endpoint, Endpoint) and "{" not in route.path
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get((scope["method"], route_path(scope))) if scope["type"] == "http" else None
        if route is None or scope["method"] == "HEAD":
            await self._app(scope, receive, send)
            return
        scope["route"], scope["endpoint"], scope["path_params"] = route, route.endpoint, {}
        await route.endpoint(scope, receive, send)


class Endpoint:
    """One operation as an ASGI application: who asks, what the query says, then the operation itself."""

    def __init__(self, hall: Hall, operation: Operation, everyone: Principal) -> None:
        self._hall = hall
        self._operation = operation
        self._everyone = everyone
        self._within = None if operation.waits else ANSWER_WITHIN
        self.__name__ = operation.run.__name__

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        operation = self._operation
        if request.method == "HEAD" and not operation.safe:
            raise HTTPException(405)
        ask = self._ask(request)
        try:
            async with asyncio.timeout(self._within):
                return await operation.run(self._hall, ask)
        except TimeoutError:
            if operation.body is not None and BODY_READ not in request.scope:
                late = f"the body was not here within {ANSWER_WITHIN:g} s"
                raise Refusal(408, "body_too_slow", late, field="body") from None
            raise StoreUnavailable(f"the database did not answer within {ANSWER_WITHIN:g} s") from None

    def _ask(self, request: Request) -> Ask:
        operation = self._operation
        principal: Principal | None = request.scope.get(PRINCIPAL, self._everyone)
        query = read_query(request, operation.query)
        if principal is None:  # open to everyone, or checked by the operation itself
            if operation.scope and not operation.own_token:
                raise Unauthorized("nobody is known to be asking", field="Authorization")
            return Ask(request, query, owner="", by="", guarded=True)
        if operation.scope:
            principal.need(operation.scope)
        return Ask(request, query, owner=principal.owner, by=principal.owner, guarded=not principal.local)


async def _described(request: Request) -> Response:
    read_query(request, ())
    return Response(_document(), media_type="application/json")


@functools.cache
def _document() -> bytes:
    return wire.encode(document(OPERATIONS))


def _refused(_: Request, error: Exception) -> Response:
    return refused(error)


def _wrong_method(request: Request, _: Exception) -> Response:
    """405, with the methods of every route at this path: the framework names those of one only."""
    routes: list[BaseRoute] = request.app.routes
    here = [route for route in routes if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE]
    allowed = {method for route in here for method in route.methods or ()}
    unsafe = {operation.path for operation in OPERATIONS if not operation.safe}
    if any(route.path in unsafe for route in here):
        allowed.discard("HEAD")
    return refused(HTTPException(405, headers={"allow": ", ".join(sorted(allowed))}))

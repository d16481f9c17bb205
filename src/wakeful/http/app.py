"""The HTTP application: routes under `/v1`, JSON in and out, errors as RFC 9457 problems; and its OpenAPI document."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from wakeful._version import __version__
from wakeful.errors import InvalidConfig, WakefulError
from wakeful.http.endpoint import Context, operations_of, routed
from wakeful.http.operations import Operation, OperationRequest, Parameter, TextParameter
from wakeful.http.routes import alarms, calendar, fires, look, settings
from wakeful.http.security.auth import SCOPES, Auth, AuthMiddleware, Principal
from wakeful.http.security.guard import Guard, refused
from wakeful.model.requests import CreateRequest
from wakeful.service import Service, views
from wakeful.service.views import Problem
from wakeful.settings import Settings
from wakeful.settings.kinds import named, target_kind
from wakeful.store import Store

_REF: Final = "#/components/schemas/{name}"
_PLACES: Final = re.compile(r"{(\w+)}")
_MODULE: Final = re.compile(r".*[._]")
_IDS: Final = {
    "id": "The id of an alarm.",
    "fire_id": "The id of a fire: <alarm id>@<unix milliseconds>.",
    "token_id": "The id of a token: the part between its first and its second underscore.",
    "name": "The name of a signal.",
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    types: list[Any] = [CreateRequest, Problem]
    for operation in operations:
        types += [one.tells if isinstance(one, TextParameter) else one for one in operation.answers.values()]
        types.append(operation.body)
    unique = [kind for kind in dict.fromkeys(types) if kind is not None]
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REF)
    refs = dict(zip(unique, schemas, strict=True))
    # What is in an item is judged item by item: a bad one is answered in its place.
    if "BatchBody" in components:
        components["BatchBody"]["properties"]["alarms"]["items"] = {"anyOf": [refs[CreateRequest], {}]}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wakeful",
            "version": __version__,
            "summary": "A durable alarm clock for AI agents and services",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "wk_…"}},
        },
    }


def _operation(operation: Operation, refs: dict[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": f"{_MODULE.sub('', operation.run.__module__)}_{operation.run.__name__}",
        "summary": operation.says,
        "parameters": _parameters(operation),
        "responses": {str(status): _response(operation, status, refs) for status in operation.statuses},
    }
    if not shown["parameters"]:
        del shown["parameters"]
    if operation.for_wakes:
        shown["description"] = "Also with the token of a wake, within its chain."
    if not operation.scope:
        shown["security"] = []  # open to everyone
    if operation.body is not None:
        shown["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"application/json": {"schema": refs[operation.body]}},
        }
    return shown


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    places = [
        {"name": name, "in": "path", "required": True, "description": _IDS[name], "schema": {"type": "string"}}
        for name in _PLACES.findall(operation.path)
    ]
    headers = [
        {
            "name": header.name,
            "in": "header",
            "description": header.says,
            "schema": {"type": "string", "pattern": header.pattern},
        }
        for header in operation.headers
    ]
    return [*places, *(_parameter(parameter) for parameter in operation.query), *headers]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {"name": parameter.name, "in": "query", "description": parameter.says, "schema": dict(parameter.schema)}


def _response(operation: Operation, status: int, refs: dict[Any, Any]) -> dict[str, Any]:
    phrase = HTTPStatus(status).phrase
    match operation.answers.get(status):
        case None:
            return {"description": phrase, "content": {"application/problem+json": {"schema": refs[Problem]}}}
        case TextParameter(media=media, says=says):
            return {"description": says, "content": {one: {"schema": {"type": "string"}} for one in media}}
        case kind:
            return {"description": phrase, "content": {"application/json": {"schema": refs[kind]}}}


OPERATIONS: Final[tuple[Operation, ...]] = (
    *alarms.OPERATIONS,
    *fires.OPERATIONS,
    *look.OPERATIONS,
    *calendar.OPERATIONS,
    *settings.OPERATIONS,
)


def operations_of_targets(settings: Settings) -> list[Operation]:
    """Return the operations with which the platforms of the configured targets say what became of a wake."""
    kinds = dict.fromkeys(str(target["kind"]) for target in settings.targets.values())
    places = dict.fromkeys(target_kind(kind).callbacks for kind in kinds)
    return [operation for place in places if place for operation in named(place, field="targets")]


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
    routes += routed(context, operations_of_targets(settings))
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

"""One operation as an ASGI application: its context, its caller, its query; then it calls the operation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from wakeful.clock import stopwatch
from wakeful.errors import StoreUnavailable, Unauthorized
from wakeful.http import answers as shape
from wakeful.http.operations import Operation, OperationRequest, read_query
from wakeful.http.security.auth import PRINCIPAL, Principal
from wakeful.http.security.guard import BODY_READ, Refusal, answer, read, refuse_pages
from wakeful.moments import cursor_text
from wakeful.service import Alarms, Caller, Changed, Service
from wakeful.settings import Settings
from wakeful.store import Store

_NONE: Final[Mapping[str, str]] = {}


class Context(Struct, frozen=True):
    service: Service
    store: Store
    settings: Settings

    def of(self, call: OperationRequest) -> Alarms:
        """Return the verbs for this caller."""
        return Alarms(self.service, call.caller)

    async def now(self) -> datetime:
        """What time it is, for an answer: every one says it."""
        return await self.service.now()

    async def changed(self, done: Changed) -> Response:
        """Return an answer about a changed alarm, and whether an attempt was under way."""
        more = {"in_flight": done.in_flight, "notes": done.notes or UNSET}
        return tagged(shape.ChangedAnswer.of(done.alarm, **more, now=await self.now()))


def tagged(shown: shape.AlarmAnswer, status: int = 200, headers: Mapping[str, str] = _NONE) -> Response:
    """An answer about one alarm, with its version in the header that `If-Match` takes back."""
    return answer(shown, status, {"etag": f'"{shown.version}"', **headers})


def further(cursor: tuple[datetime, str] | None) -> str | UnsetType:
    """`next_cursor` where there are more."""
    return UNSET if cursor is None else cursor_text(*cursor)


ANSWER_WITHIN: Final = 30.0
VIA: Final = "http"
T = TypeVar("T")


class Endpoint:
    """`context`: what the operation works with. `everyone`: the caller, if no middleware has found one."""

    def __init__(self, context: Any, operation: Operation, everyone: Principal | None = None) -> None:
        self.operation = operation
        self._context = context
        self._everyone = everyone
        self._within = None if operation.waits else ANSWER_WITHIN
        self.__name__ = operation.run.__name__

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self.operation
        if scope["method"] == "HEAD" and not operation.safe:
            raise HTTPException(405)
        bounded = operation.waits and operation.body is not None
        call = self._call(Request(scope, _body_in_time(scope, receive) if bounded else receive, send))
        try:
            async with asyncio.timeout(self._within):
                response = await operation.run(self._context, call)
        except TimeoutError:
            if operation.body is not None and BODY_READ not in scope:
                raise _too_slow() from None
            raise StoreUnavailable(f"the database did not answer within {ANSWER_WITHIN:g} s") from None
        await response(scope, receive, send)

    def _call(self, request: Request) -> OperationRequest:
        operation = self.operation
        principal: Principal | None = request.scope.get(PRINCIPAL, self._everyone)
        query = read_query(request, operation.query)
        if PRINCIPAL not in request.scope and operation.scope:
            refuse_pages(request.scope)
        if principal is None:  # open to everyone, or checked by the operation itself
            if operation.scope and not operation.own_token:
                raise Unauthorized("the caller is unknown", field="Authorization")
            return OperationRequest(request, query, Caller(owner="", via=VIA))
        if operation.scope:
            principal.need(operation.scope, for_wakes=operation.for_wakes)
        return OperationRequest(request, query, principal.caller(VIA))


def _body_in_time(scope: Scope, receive: Receive) -> Receive:
    """Receive a body within the time that an answer has, for an operation that may take longer once it has it."""
    ending = stopwatch() + ANSWER_WITHIN

    async def received() -> Message:
        async with asyncio.timeout(None if BODY_READ in scope else ending - stopwatch()):
            return await receive()

    return received


async def whole_body(request: Request) -> bytes:
    """Read the body of a request outside the operations, with the same time and size limits."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            return await read(request)
    except TimeoutError:
        raise _too_slow() from None


async def unless_gone(work: Coroutine[Any, Any, T], *leaving: Coroutine[Any, Any, object]) -> T:
    """Do this for a caller who waits for it. When one of `leaving` is over it is cancelled: ClientDisconnect."""
    working = asyncio.ensure_future(work)
    watching = [asyncio.ensure_future(one) for one in leaving]
    for one in watching:
        one.add_done_callback(lambda _: working.cancel())
    try:
        return await working
    except asyncio.CancelledError:
        if any(one.done() for one in watching):
            raise ClientDisconnect from None
        raise
    finally:
        for one in watching:
            one.cancel()


async def disconnected(request: Request) -> None:
    """Wait until the connection of a request is closed; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_slow() -> Refusal:
    return Refusal(408, "body_too_slow", f"the body did not arrive within {ANSWER_WITHIN:g} s", field="body")


def routed(context: Any, operations: Iterable[Operation], everyone: Principal | None = None) -> list[Route]:
    return [Route(one.path, Endpoint(context, one, everyone), methods=[one.method]) for one in operations]


def operations_of(routes: Iterable[BaseRoute]) -> list[Operation]:
    """Return the operations that these routes serve."""
    endpoints = [route.endpoint for route in routes if isinstance(route, Route)]
    return [endpoint.operation for endpoint in endpoints if isinstance(endpoint, Endpoint)]

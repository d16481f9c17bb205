"""The WebSocket, `/v1/ws`: JSON-RPC 2.0 to read alarms, and live events for subscribers.

A socket ends with a code that says why: 4401 its token is no longer good, 4408 it did not read what it had asked for,
1009 a message was too long, 1012 the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from wakeful import views
from wakeful.cpu_time import charged
from wakeful.errors import WakefulError
from wakeful.http.endpoint import routed
from wakeful.http.live.open_connections import End
from wakeful.http.live.rpc import (
    MESSAGE_LIMIT,
    AlarmMethods,
    Method,
    Nothing,
    RpcDispatcher,
    SubscribeParams,
    params_of,
)
from wakeful.http.live.sse import OPERATIONS, LiveContext, principal_of
from wakeful.http.security.auth import UNAUTHORIZED, Principal
from wakeful.http.security.guard import Guard, Refusal, refused
from wakeful.service import Alarms
from wakeful.service.live import WHATS, LiveEvent, Subscription

TOO_SLOW: Final = 4408
TOO_LONG: Final = 1009
FORBIDDEN: Final = 4403
MESSAGES_AT_ONCE: Final = 8  # events sent to one socket before others have their turn: each is a message of its own
CLOSE_WITHIN: Final = 5.0  # seconds for the last word to someone who may not be reading


def routes(followed: LiveContext) -> list[BaseRoute]:
    return [
        WebSocketRoute("/v1/ws", WebSocketDoor(followed)),
        Route("/v1/ws", _upgrade, methods=["GET"]),
        *routed(followed, OPERATIONS),
    ]


async def _upgrade(_: Request) -> Response:
    response = refused(
        Refusal(426, "upgrade_required", "this route speaks WebSocket only", field="Upgrade", fix="Use a WebSocket.")
    )
    response.headers["upgrade"] = "websocket"
    return response


class WebSocketDoor:
    """Accepts authorized connections, each with its own session."""

    def __init__(self, followed: LiveContext) -> None:
        self._live_context = followed
        self._guard = Guard(_nowhere, followed.context.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        websocket = WebSocket(scope, receive, send)
        with contextlib.ExitStack() as stack:
            try:
                # The handshake is a GET, and a page of a stranger can make a browser send one.
                self._guard.check(websocket)
                principal = principal_of(scope)
                stack.enter_context(self._live_context.seat(principal))
            except WakefulError as error:
                await _refuse(websocket, error)
                return
            end = stack.enter_context(self._live_context.open_connections.watched(principal))
            await websocket.accept()
            await Session(websocket, self._live_context, principal).run(end)


class Session:
    """One socket: its requests, one after the other, and the events of at most one subscription."""

    def __init__(self, websocket: WebSocket, followed: LiveContext, principal: Principal) -> None:
        self._websocket = websocket
        self._alarms = Alarms(followed.context.service, principal.caller("websocket"))
        self._live = followed.live
        self._auth = followed.auth
        self._principal = principal
        subscribing = {"subscribe": self._subscribe, "unsubscribe": self._unsubscribe}
        methods = AlarmMethods(self._alarms).methods() | subscribing
        self._dispatcher = RpcDispatcher({name: self._counted(method) for name, method in methods.items()})
        self._subscription = contextlib.AsyncExitStack()
        self._telling: asyncio.Task[None] | None = None
        self._asked: Subscription | None = None
        self._over: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

    async def run(self, end: asyncio.Future[End]) -> None:
        """Serve until either side closes. A server that stops closes its sockets itself."""
        end.add_done_callback(self._refused)
        serving = asyncio.create_task(self._serve())
        waited: list[asyncio.Future[Any]] = [serving, self._over]
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await self._stop_telling()
        if self._over.done():
            code, reason = self._over.result()
            await self._close(code, reason)

    def _counted(self, method: Method) -> Method:
        """Wrap a method so that each call counts as a request, even within a batch."""

        async def counted(given: dict[str, Any]) -> Any:
            self._auth.admit(self._principal)
            return await method(given)

        return counted

    async def _serve(self) -> None:
        """Answer requests until the client leaves."""
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                said = message.get("text") or message.get("bytes") or b""
                if len(said) > MESSAGE_LIMIT or (isinstance(said, str) and len(said.encode()) > MESSAGE_LIMIT):
                    self._end(TOO_LONG, f"a message has at most {MESSAGE_LIMIT} bytes")
                    return
                answer = await charged(self._dispatcher.answer(said))
                if answer is not None:
                    await self._websocket.send_text(answer.decode())
                self._start_telling()

    def _refused(self, end: asyncio.Future[End]) -> None:
        if not end.cancelled() and end.result() == "refused":
            self._end(UNAUTHORIZED, "the token is no longer good")

    async def _subscribe(self, given: dict[str, Any]) -> Any:
        params = params_of(given, SubscribeParams)
        params.check()
        owner = self._principal.owner
        if params.alarm_id:
            await self._alarms.get(params.alarm_id)
        await self._stop_telling()
        events = self._live.subscribed(owner, params.events, params.alarm_id, after=params.after)
        self._asked = await self._subscription.enter_async_context(events)
        return {
            "events": params.events or WHATS,
            "resumed": self._asked.resumed,
            "last": self._live.last_id,
        }

    async def _unsubscribe(self, given: dict[str, Any]) -> Any:
        params_of(given, Nothing)
        was = self._telling is not None or self._asked is not None
        await self._stop_telling()
        return was

    def _start_telling(self) -> None:
        """Start sending events after the answer is sent: no event may come before it."""
        if self._asked is not None:
            self._telling = asyncio.create_task(self._tell(self._asked))
            self._asked = None

    async def _stop_telling(self) -> None:
        self._asked = None
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
            self._telling = None
        await self._subscription.aclose()

    async def _tell(self, subscription: Subscription) -> None:
        sending = asyncio.create_task(self._send(subscription))
        dropped = asyncio.create_task(subscription.dropped.wait())
        try:
            await asyncio.wait((sending, dropped), return_when=asyncio.FIRST_COMPLETED)
            if dropped.done():
                self._end(TOO_SLOW, subscription.reason)
        finally:
            sending.cancel()
            dropped.cancel()
            await asyncio.gather(sending, dropped, return_exceptions=True)

    async def _send(self, subscription: Subscription) -> None:
        with contextlib.suppress(WebSocketDisconnect):  # the serving side hears of it too
            while True:
                for said in await subscription.take(notification, MESSAGES_AT_ONCE):
                    await self._websocket.send_text(said.decode())

    def _end(self, code: int, reason: str) -> None:
        if not self._over.done():
            self._over.set_result((code, reason))

    async def _close(self, code: int, reason: str) -> None:
        with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(CLOSE_WITHIN):
                await self._websocket.close(code, reason)


def notification(id: str, event: LiveEvent) -> bytes:
    """An event as a JSON-RPC message that wants no answer."""
    return views.encode({"jsonrpc": "2.0", "method": "event", "params": {"id": id} | msgspec.to_builtins(event)})


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None: ...


async def _refuse(websocket: WebSocket, error: WakefulError) -> None:
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(refused(error))
    else:
        await websocket.close(FORBIDDEN, error.message[:100])

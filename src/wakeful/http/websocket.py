"""The WebSocket, `/v1/ws`: JSON-RPC 2.0 to read alarms, and live events for subscribers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from wakeful.errors import InvalidRequest, TooMany, WakefulError
from wakeful.http.endpoint import routed
from wakeful.http.security.auth import UNAUTHORIZED, Principal
from wakeful.http.security.guard import Guard, Refusal, refused
from wakeful.http.sse import OPERATIONS, End, LiveContext, principal_of
from wakeful.model.alarm import Alarm
from wakeful.model.requests import Moment
from wakeful.moments import unix_ms
from wakeful.rules.wanted import decode
from wakeful.runtime.cpu_time import charged
from wakeful.service import Alarms, views
from wakeful.service.history import HistoryStatus, offset
from wakeful.service.live import WHATS, LiveEvent, Subscription
from wakeful.service.views import AlarmView, FireView
from wakeful.store import Matches

log = logging.getLogger("wakeful.rpc")

MESSAGE_LIMIT: Final = 64 * 1024
ANSWER_LIMIT: Final = 4_000_000  # bytes of results, for one message
BATCH_LIMIT: Final = 20
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
UNKNOWN_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REFUSED: Final = -32000  # wakeful said no; `data` is the problem, as HTTP would tell it
FIRES_SHOWN: Final = 5
_SECOND: Final = timedelta(seconds=1)

Limit = Annotated[int, Meta(ge=1, le=500)]
T = TypeVar("T")


class Nothing(Struct, frozen=True, forbid_unknown_fields=True): ...


class ListParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 100


class HistoryParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    status: str = ""
    limit: Limit = 50
    process: str = ""  # the Alarm system's word for target
    target: str = ""
    since: Moment | None = None


class FailedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    limit: Limit = 20


class GetParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: str


class SubscribeParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    events: tuple[str, ...] = ()
    alarm_id: str = ""
    after: str = ""

    def check(self) -> None:
        check_whats(self.events)


def check_whats(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in WHATS:
            raise InvalidRequest(
                f"{name[:100]!r} is not an event", field="events", fix=f"Accepted: {', '.join(WHATS)}."
            )


class AlarmWithFires(AlarmView, frozen=True, kw_only=True):
    """An alarm, what became of its latest fires, and what its owner should know besides."""

    fires: list[FireView]
    notes: list[str] | UnsetType = UNSET


class PendingAlarm(AlarmView, frozen=True, kw_only=True):
    """An alarm that waits: when it fires in unix seconds, and how many seconds that is after its creation.

    Whole seconds, as the Alarm system has them, and never before the moment; `next_fire_at` has the millisecond.
    """

    set_at: int
    time_offset: int


class Call(Struct, frozen=True):
    """One request. `id` is UNSET where no answer is wanted."""

    method: str
    params: dict[str, Any]
    id: str | int | float | UnsetType | None = UNSET


class Fault(Exception):
    """An error of JSON-RPC itself."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


Method = Callable[[dict[str, Any]], Awaitable[Any]]


class RpcDispatcher:
    """Decodes messages, calls methods and encodes answers."""

    def __init__(self, methods: dict[str, Method]) -> None:
        self._methods = methods

    async def answer(self, message: str | bytes) -> bytes | None:
        """Return what to send back, if anything."""
        try:
            requests = _read(message)
        except Fault as fault:
            return views.encode(_refusal(None, fault))
        if not isinstance(requests, list):
            answer = await self._one(requests)
            return None if answer is None else views.encode(answer)
        answers: list[msgspec.Raw] = []
        max_bytes = ANSWER_LIMIT
        for each in requests:
            if (answer := await self._one(each, max_bytes)) is not None:
                answers.append(msgspec.Raw(views.encode(answer)))
                max_bytes -= len(bytes(answers[-1]))
        return views.encode(answers) if answers else None

    async def _one(self, request: Any, max_bytes: int = ANSWER_LIMIT) -> dict[str, Any] | None:
        """Return the answer to one request, with at most this many bytes in its result."""
        try:
            call = _call(request)
        except Fault as fault:
            id = request.get("id") if isinstance(request, dict) else None
            return _refusal(id if _is_id(id) else None, fault)
        try:
            _check_size(max_bytes)
            result = msgspec.Raw(views.encode(await self._result(call)))
            _check_size(max_bytes - len(bytes(result)))
        except Fault as fault:
            return None if call.id is UNSET else _refusal(call.id, fault)
        return None if call.id is UNSET else {"jsonrpc": "2.0", "result": result, "id": call.id}

    async def _result(self, call: Call) -> Any:
        method = self._methods.get(call.method)
        if method is None:
            raise Fault(UNKNOWN_METHOD, f"there is no method {call.method[:100]!r}", {"methods": sorted(self._methods)})
        try:
            return await method(call.params)
        except InvalidRequest as error:
            raise Fault(INVALID_PARAMS, str(error), views.problem(error)) from None
        except WakefulError as error:
            raise Fault(REFUSED, str(error), views.problem(error)) from None
        except Exception:
            log.exception("%s raised an unexpected error", call.method)
            raise Fault(INTERNAL_ERROR, "an internal error; the server's log has the details") from None


def _check_size(left: int) -> None:
    if left < 0:
        error = _too_long()
        raise Fault(REFUSED, str(error), views.problem(error))


def _too_long() -> TooMany:
    return TooMany(
        f"the answer would be longer than {ANSWER_LIMIT} bytes, the most for one message",
        field="limit",
        fix="Ask with a smaller limit, or for less in one batch.",
    )


def _read(message: str | bytes) -> Any:
    try:
        decoded = msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Fault(PARSE_ERROR, f"it is not JSON ({error})") from None
    if isinstance(decoded, list) and not 1 <= len(decoded) <= BATCH_LIMIT:
        raise Fault(INVALID_REQUEST, f"a batch has 1 to {BATCH_LIMIT} requests, not {len(decoded)}")
    return decoded


def _call(request: Any) -> Call:
    if not isinstance(request, dict) or request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str):
        raise Fault(INVALID_REQUEST, 'a request is {"jsonrpc": "2.0", "method": "…", "params": {…}, "id": …}')
    id = request.get("id", UNSET)
    if id is not UNSET and not _is_id(id):
        raise Fault(INVALID_REQUEST, "an id must be a string, a number or null")
    params = request.get("params", {})
    if not isinstance(params, dict):
        raise Fault(
            INVALID_REQUEST if not isinstance(params, list) else INVALID_PARAMS,
            "params must be an object, with parameters by name",
        )
    return Call(request["method"], params, id)


def _is_id(id: Any) -> bool:
    return id is None or (isinstance(id, str | int | float) and not isinstance(id, bool))


def _refusal(id: Any, fault: Fault) -> dict[str, Any]:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "error": error, "id": id}


def params_of(arguments: dict[str, Any], kind: type[T]) -> T:
    """Decode the parameters into a type, or raise an error that names the field."""
    return decode(views.encode(arguments), kind)


class AlarmMethods:
    """The methods of the Alarm system's WebSocket, for one owner."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms

    def methods(self) -> dict[str, Method]:
        return {
            "list": self.list,
            "count": self.count,
            "history": self.history,
            "stats": self.stats,
            "failed": self.failed,
            "get": self.get,
        }

    async def list(self, arguments: dict[str, Any]) -> Any:
        """Pending alarms, soonest first."""
        params = params_of(arguments, ListParams)
        found = await self._alarms.active(limit=params.limit, most=ANSWER_LIMIT)
        return [_pending(alarm) for alarm in _whole(found, params.limit)]

    async def count(self, arguments: dict[str, Any]) -> Any:
        params_of(arguments, Nothing)
        return (await self._alarms.stats()).pending

    async def history(self, arguments: dict[str, Any]) -> Any:
        params = params_of(arguments, HistoryParams)
        if params.process and params.target not in ("", params.process):
            raise InvalidRequest("it means the same as target", field="process", fix="Give only one of the two.")
        found = await self._alarms.history(
            status=cast(HistoryStatus, params.status),  # refused there
            target=params.target or params.process,
            since=params.since,
            limit=params.limit,
            most=ANSWER_LIMIT,
        )
        return _whole(found, params.limit)

    async def stats(self, arguments: dict[str, Any]) -> Any:
        params_of(arguments, Nothing)
        return await self._alarms.stats()

    async def failed(self, arguments: dict[str, Any]) -> Any:
        params = params_of(arguments, FailedParams)
        return _whole(await self._alarms.failed(limit=params.limit, most=ANSWER_LIMIT), params.limit)

    async def get(self, arguments: dict[str, Any]) -> Any:
        """Return one alarm and its latest fires; their `result` is the outcome."""
        params = params_of(arguments, GetParams)
        found = await self._alarms.details(params.id)
        fires = await self._alarms.fires(found.alarm.id, limit=FIRES_SHOWN)
        shown = [FireView.of(fire) for fire in fires]
        return AlarmWithFires.of(found.alarm, fires=shown, notes=found.notes or UNSET)


def _whole(found: Matches[T], limit: int) -> Matches[T]:
    """Return what was found, or raise if it was cut: these answers are plain lists and cannot say that more follows."""
    if found.further is not None and len(found) < limit:
        raise _too_long()
    return found


def _pending(alarm: Alarm) -> PendingAlarm:
    at = -(-unix_ms(alarm.next_fire_at) // 1000)
    return PendingAlarm.of(alarm, set_at=at, time_offset=-(-offset(alarm) // _SECOND))


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
                self._guard.check(websocket.scope)
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

        async def counted(arguments: dict[str, Any]) -> Any:
            self._auth.admit(self._principal)
            return await method(arguments)

        return counted

    async def _serve(self) -> None:
        """Answer requests until the client leaves."""
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                text = message.get("text") or message.get("bytes") or b""
                if len(text) > MESSAGE_LIMIT or (isinstance(text, str) and len(text.encode()) > MESSAGE_LIMIT):
                    self._end(TOO_LONG, f"a message has at most {MESSAGE_LIMIT} bytes")
                    return
                answer = await charged(self._dispatcher.answer(text))
                if answer is not None:
                    await self._websocket.send_text(answer.decode())
                self._start_telling()

    def _refused(self, end: asyncio.Future[End]) -> None:
        if not end.cancelled() and end.result() == "refused":
            self._end(UNAUTHORIZED, "the token is no longer good")

    async def _subscribe(self, arguments: dict[str, Any]) -> Any:
        params = params_of(arguments, SubscribeParams)
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

    async def _unsubscribe(self, arguments: dict[str, Any]) -> Any:
        params_of(arguments, Nothing)
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
                for text in await subscription.take(notification, MESSAGES_AT_ONCE):
                    await self._websocket.send_text(text.decode())

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

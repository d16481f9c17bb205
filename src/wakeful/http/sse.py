"""Live events as a stream for browsers and curl (`text/event-stream`), and when long connections are closed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Literal

from msgspec import Struct
from starlette.types import Message, Receive, Scope, Send

from wakeful.clock import Clock
from wakeful.errors import StoreUnavailable, Unauthorized
from wakeful.http.endpoint import Context
from wakeful.http.operations import Header, Operation, OperationRequest, TextParameter, several, text
from wakeful.http.security.auth import PRINCIPAL, Auth, Principal
from wakeful.http.security.connection import hang_up
from wakeful.service import views
from wakeful.service.core import InboxSignal
from wakeful.service.live import WHATS, Live, LiveEvent, Subscription

log = logging.getLogger("wakeful.live")

CHECK_EVERY: Final = 0.25  # seconds between two checks whether the server stops
TOKENS_EVERY: Final = 4  # checks between two of the tokens

End = Literal["refused", "stopped"]


class OpenConnections:
    def __init__(self, auth: Auth, signal: InboxSignal, clock: Clock) -> None:
        self._auth = auth
        self._signal = signal
        self._clock = clock
        self._staying: defaultdict[Principal, set[asyncio.Future[End]]] = defaultdict(set)
        self._looking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watched(self, principal: Principal) -> Iterator[asyncio.Future[End]]:
        """Register a connection and the function to call when it must end."""
        end: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._staying[principal].add(end)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="wakeful open connections")
        try:
            yield end
        finally:
            self._staying[principal].discard(end)
            if not self._staying[principal]:
                del self._staying[principal]
            if not self._staying and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        checks = 0
        while not self._signal.stopped:
            await self._clock.sleep(CHECK_EVERY)
            checks += 1
            if checks % TOKENS_EVERY == 0:
                await self._look_at_tokens()
        for ends in self._staying.values():
            _end(ends, "stopped")
        self._looking = None

    async def _look_at_tokens(self) -> None:
        for principal in list(self._staying):
            try:
                alive = await self._auth.is_alive(principal)
            except StoreUnavailable:
                continue  # nothing is known to have changed
            except Exception:  # those who stay are looked after whatever becomes of one of them
                log.exception("a token could not be checked")
                continue
            if not alive and principal in self._staying:
                _end(self._staying[principal], "refused")


def _end(ends: set[asyncio.Future[End]], why: End) -> None:
    for end in ends:
        if not end.done():
            end.set_result(why)


HEARTBEAT: Final = 15.0  # seconds of silence before a comment says that we are still there
LAST_WORD_WITHIN: Final = 5.0  # seconds for it to reach someone who does not read; then we hang up
_QUERY: Final = (
    several("events", WHATS, "Only these."),
    text("alarm_id", "Only those of one alarm."),
)
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # else nginx keeps events back
]


def principal_of(scope: Scope) -> Principal:
    principal: Principal | None = scope.get(PRINCIPAL)
    if principal is None:
        raise Unauthorized("the caller is unknown", field="Authorization")
    principal.need("read")
    return principal


class LiveContext(Struct, frozen=True):
    """What all live connections share."""

    context: Context
    live: Live
    auth: Auth
    open_connections: OpenConnections

    def seat(self, principal: Principal) -> contextlib.AbstractContextManager[None]:
        """Reserve a place for one more connection; TooMany if the process or the owner has reached its limit."""
        return self.context.service.connections.seat(None if principal.local else principal.owner)


async def events(followed: LiveContext, call: OperationRequest) -> Stream:
    principal = principal_of(call.request.scope)
    if call["alarm_id"]:
        await followed.context.of(call).get(call["alarm_id"])
    return Stream(followed, principal, call)


class Stream:
    """The answer to `GET /v1/events`, as an ASGI application: it ends with its reader, its token or the server."""

    def __init__(self, followed: LiveContext, principal: Principal, call: OperationRequest) -> None:
        self._live_context = followed
        self._context = followed.context
        self._live = followed.live
        self._principal = principal
        self._call = call

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call, after = self._call, self._call.request.headers.get("last-event-id", "")
        wanted = self._live.subscribed(self._principal.owner, call["events"], call["alarm_id"], after=after)
        with (
            self._live_context.seat(self._principal),
            self._live_context.open_connections.watched(self._principal) as end,
        ):
            async with wanted as subscription:
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                if scope["method"] != "HEAD":
                    lost = after != "" and not subscription.resumed
                    await self._until_over(subscription, end, receive, send, lost=lost)
            try:
                async with asyncio.timeout(LAST_WORD_WITHIN):
                    if subscription.dropped.is_set():
                        await send(_body(_last_word(subscription.reason)))
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:
                # It does not even read that. What waits for it in buffers is not kept for ever.
                await hang_up(scope, receive)

    async def _until_over(
        self, subscription: Subscription, end: asyncio.Future[End], receive: Receive, send: Send, *, lost: bool
    ) -> None:
        telling = self._tell(subscription, send, lost=lost)
        ends: list[Coroutine[Any, Any, object]] = [telling, _left(receive), subscription.dropped.wait()]
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(over) for over in ends]
        try:
            done, _ = await asyncio.wait([*tasks, end], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _tell(self, subscription: Subscription, send: Send, *, lost: bool) -> None:
        await send(_body(b"retry: 2000\n\n"))
        if lost:
            why = {"reason": "what came after that event is not remembered here: read again what you show"}
            await send(_body(f"id: {self._live.last_id}\nevent: reset\ndata: ".encode() + views.encode(why) + b"\n\n"))
        while True:
            chunks = [b": still here\n\n"]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT):
                    chunks = await subscription.take(frame)
            await send(_body(b"".join(chunks)))


def frame(id: str, event: LiveEvent) -> bytes:
    return f"id: {id}\nevent: {event.what}\ndata: ".encode() + views.encode(event) + b"\n\n"


def _last_word(reason: str) -> bytes:
    # Without an id of its own: who comes back goes on after the last event it has seen.
    why = {"reason": f"{reason}: connect again with Last-Event-ID, and read faster or ask for fewer events"}
    return b"event: dropped\ndata: " + views.encode(why) + b"\n\n"


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(chunk: bytes) -> Message:
    return {"type": "http.response.body", "body": chunk, "more_body": True}


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/events",
        run=events,
        says="A continuous stream of live events; see docs/live.md",
        scope="read",
        query=_QUERY,
        headers=(
            Header(
                "Last-Event-ID",
                "The id of the last event that was seen; continue after it.",
                "^[0-9a-f]{8}-[0-9]{1,15}$",
            ),
        ),
        answers={
            200: TextParameter(("text/event-stream",), "Server-sent events; the data of each is a LiveEvent", LiveEvent)
        },
        refuses=(404,),
        waits=True,
    ),
)

"""Live events as a stream that a browser or curl can read: `text/event-stream`.

Who comes back with `Last-Event-ID` goes on from there, while this process remembers; else the first event is `reset`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from msgspec import Struct
from starlette.types import Message, Receive, Scope, Send

from wakeful.clock import Clock
from wakeful.doors import wire
from wakeful.doors.auth import PRINCIPAL, Auth, Principal
from wakeful.doors.hall import Hall
from wakeful.doors.limits import Seats
from wakeful.doors.table import Ask, Header, Operation, Text, several, text
from wakeful.errors import StoreUnavailable, Unauthorized
from wakeful.service.live import WHATS, Live, LiveEvent, Subscription

HEARTBEAT: Final = 15.0  # seconds of silence before a comment says that we are still there
CHECK_EVERY: Final = 1.0  # seconds between two looks at the token
_QUERY: Final = (
    several("events", WHATS, "Only these."),
    text("alarm_id", "Only those of one alarm."),
)
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # else nginx keeps events back
]


async def until_refused(auth: Auth, principal: Principal, clock: Clock) -> None:
    """Return when a principal would not be let in any more."""
    while True:
        await clock.sleep(CHECK_EVERY)
        try:
            if not await auth.is_alive(principal):
                return
        except StoreUnavailable:
            continue  # nothing is known to have changed


def principal_of(scope: Scope) -> Principal:
    principal: Principal | None = scope.get(PRINCIPAL)
    if principal is None:
        raise Unauthorized("nobody is known to be asking", field="Authorization")
    principal.need("read")
    return principal


class Gallery(Struct, frozen=True):
    """What those who follow along have in common."""

    hall: Hall
    live: Live
    auth: Auth
    seats: Seats

    def seat(self, principal: Principal) -> contextlib.AbstractContextManager[None]:
        """A place for one more who follows; TooMany where an owner with a token has them all."""
        return contextlib.nullcontext() if principal.local else self.seats.seat(principal.owner)


async def events(gallery: Gallery, ask: Ask) -> Stream:
    principal = principal_of(ask.request.scope)
    if ask["alarm_id"]:
        await gallery.hall.service.get(ask["alarm_id"], owner=principal.owner)
    return Stream(gallery, principal, ask)


class Stream:
    """The answer to `GET /v1/events`, as an ASGI application: it ends with its reader, its token or the server."""

    def __init__(self, gallery: Gallery, principal: Principal, ask: Ask) -> None:
        self._gallery = gallery
        self._hall = gallery.hall
        self._live = gallery.live
        self._principal = principal
        self._ask = ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ask, after = self._ask, self._ask.request.headers.get("last-event-id", "")
        wanted = self._live.subscribed(self._principal.owner, ask["events"], ask["alarm_id"], after=after)
        with self._gallery.seat(self._principal):
            async with wanted as subscription:
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                if scope["method"] != "HEAD":
                    lost = after != "" and not subscription.resumed
                    await self._until_over(subscription, receive, send, lost=lost)
        if not subscription.dropped.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _until_over(self, subscription: Subscription, receive: Receive, send: Send, *, lost: bool) -> None:
        clock = self._hall.service.clock
        ends = [
            self._tell(subscription, send, lost=lost),
            _left(receive),
            until_refused(self._gallery.auth, self._principal, clock),
            self._stopped(clock),
        ]
        tasks = [asyncio.ensure_future(end) for end in (*ends, subscription.dropped.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
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
            await send(_body(f"id: {self._live.last_id}\nevent: reset\ndata: ".encode() + wire.encode(why) + b"\n\n"))
        while True:
            event: LiveEvent | None = None
            try:
                async with asyncio.timeout(HEARTBEAT):
                    event = await subscription.next()
            except TimeoutError:
                await send(_body(b": still here\n\n"))
            if event is not None:
                await send(_body(self._frame(event)))

    def _frame(self, event: LiveEvent) -> bytes:
        head = f"id: {self._live.id_of(event.seq)}\nevent: {event.what}\ndata: "
        return head.encode() + wire.encode(event) + b"\n\n"

    async def _stopped(self, clock: Clock) -> None:
        """Return when the server stops: it waits for its answers to end, and this one would not."""
        while not self._hall.service.bell.stopped:
            await clock.sleep(CHECK_EVERY / 4)


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
        says="Live events as a stream that does not end; see docs/live.md",
        scope="read",
        query=_QUERY,
        headers=(
            Header(
                "Last-Event-ID",
                "The id of the last event that was seen: go on after it.",
                "^[0-9a-f]{8}-[0-9]{1,15}$",
            ),
        ),
        answers={200: Text(("text/event-stream",), "Server-sent events; the data of each is a LiveEvent", LiveEvent)},
        refuses=(404,),
        waits=True,
    ),
)

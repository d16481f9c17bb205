"""`/live`: a word for every change, so that an open page asks again for what it shows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from starlette.responses import Response, StreamingResponse

from wakeful.dashboard.page import Visit, refuse_other_sites
from wakeful.http.sse import HEARTBEAT, End
from wakeful.service import views
from wakeful.service.live import LiveEvent, Subscription

_TOGETHER: Final = 0.25  # seconds: what happens meanwhile is one word, however much it is


async def follow(visit: Visit) -> Response:
    refuse_other_sites(visit.request, "a page of another site may not follow what happens here")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    changes = _changes(visit.on_behalf(visit.query("owner")))
    first = await anext(changes)  # a refusal is answered as one, before a stream has begun
    return StreamingResponse(_from(first, changes), headers=headers, media_type="text/event-stream")


async def _from(first: bytes, changes: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    async with contextlib.aclosing(changes):
        yield first
        async for change in changes:
            yield change


async def _changes(visit: Visit) -> AsyncGenerator[bytes]:
    live, principal = visit.dashboard.live, visit.principal
    with live.seat(principal), live.open_connections.watched(principal) as end:
        async with live.live.subscribed(visit.owner or principal.owner, (), "", after="") as subscription:
            yield b"retry: 1000\nevent: hello\ndata: {}\n\n"
            while not end.done() and not subscription.dropped.is_set():
                yield await _next(subscription, end)
                await visit.context.service.clock.sleep(_TOGETHER)


async def _next(subscription: Subscription, end: asyncio.Future[End]) -> bytes:
    """What changed since the last word; a heartbeat where nothing did."""
    taking = asyncio.ensure_future(subscription.take(_named))
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT):
                await asyncio.wait((taking, end), return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            return b": still here\n\n"
        found = sorted(set(taking.result()))
        return b"event: changed\ndata: " + views.encode([name.decode() for name in found]) + b"\n\n"
    finally:
        taking.cancel()


def _named(_: str, event: LiveEvent) -> bytes:
    return event.what.encode()

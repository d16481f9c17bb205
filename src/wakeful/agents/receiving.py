"""Receive wakes as webhooks: an ASGI application that checks, answers at once, works in the background and reports.

What comes in is put into an inbox in memory, from which the same worker takes it as from a server's. Nothing is kept
beyond the process: a wake that was accepted and not reported is sent again by wakeful, with the same id.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Raw
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from wakeful.agents.serving import CONCURRENCY
from wakeful.clock import Clock, SystemClock
from wakeful.errors import Conflict, InvalidConfig, InvalidRequest, StoreUnavailable, TooMany, WakefulError
from wakeful.model.alarm import INBOX, Fire
from wakeful.model.requests import ReportRequest
from wakeful.remote.connection import ServerAddress, ServerConnection
from wakeful.remote.serving import InboxWorker
from wakeful.remote.wire import FetchedWake, fire_read, taken_of
from wakeful.service import TakenWake
from wakeful.targets.handler import Handler, HandlerFunction
from wakeful.targets.signing import BadSignature, key, verify

BODY_LIMIT: Final = 1024 * 1024  # a message, a payload and that of a signal, each at its limit, with every sign escaped
READ_WITHIN: Final = 30.0  # seconds
REMEMBERED: Final = 10_000  # ids of wakes that are done
FIRST_LEASE: Final = timedelta(seconds=3)  # until the first report of `working` tells how long it really is
UNTIL_RECORDED: Final = (0.1, 0.5, 2.0)  # seconds; a wake cannot be put off until the 202 for it is on record
RETRY_AFTER: Final = {"retry-after": "30"}


def receiver(
    secret: str | Sequence[str],
    on_wake: HandlerFunction,
    *,
    concurrency: int = CONCURRENCY,
    waiting: int = 100,
    timeout: float = 900,
) -> WakeReceiver:
    """Return an ASGI application that calls `on_wake`, async or plain, for every wake posted to it.

    >>> app = wakeful.agents.receiver("whsec_c2VjcmV0", on_wake)

    `secret`: that of the webhook target, or several while it is changed; the target needs `reports = true`. It answers
    202 at once and calls `on_wake` in the background, at most `concurrency` at a time, while `waiting` more may queue.
    It reports `working` while that runs, then what it returned or raised. A wake that comes twice is worked on once.
    """
    if not callable(on_wake):
        raise InvalidRequest("on_wake is not a function", field="on_wake", fix="Give one that takes a wake.")
    if min(concurrency, waiting) < 1:
        raise InvalidRequest("concurrency and waiting are at least 1", field="concurrency")
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or not all(key(text) for text in secrets):
        raise InvalidConfig("it is empty, so anyone could sign with it", field="secret")
    handler = Handler(on_wake, timeout=timeout, threads=concurrency)
    return WakeReceiver(secrets, handler, concurrency=concurrency, waiting=waiting, clock=SystemClock())


class WakeReceiver:
    """An ASGI application for POSTs, at any path. Where it is mounted in another, that one takes its `lifespan`."""

    def __init__(
        self, secrets: Sequence[str], handler: Handler, *, concurrency: int, waiting: int, clock: Clock
    ) -> None:
        self._secrets = secrets
        self._clock = clock
        self._received = _Received(clock, concurrency + waiting)
        self._worker = InboxWorker(self._received, clock)
        self._worker.add(INBOX, handler, concurrency)
        self._running: asyncio.Task[None] | None = None
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            with suppress(ClientDisconnect):
                await (await self._answer(Request(scope, receive)))(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """For the Starlette or FastAPI application that it is mounted in.

        >>> app = Starlette(routes=[Mount("/wake", wakes)], lifespan=wakes.lifespan)
        """
        try:
            yield
        finally:
            await self.close()

    async def close(self) -> None:
        """Accept no more, and give what is under way ten seconds to finish; wakeful sends the rest again."""
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))
        await self._worker.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        async with self.lifespan():
            assert (await receive())["type"] == "lifespan.startup"
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, request: Request) -> Response:
        if request.method != "POST":
            return PlainTextResponse("a wake is a POST\n", 405, {"allow": "POST"})
        if self._closed:
            return PlainTextResponse("this receiver is stopping\n", 503, RETRY_AFTER)
        try:
            body = await _body(request)
            verify(self._secrets, request.headers, body, now=self._clock.now())
            taken = _wake_in(body, request.headers)
        except TimeoutError:
            return PlainTextResponse(f"the body was not there within {READ_WITHIN:.0f} s\n", 408)
        except _TooLarge:
            return PlainTextResponse(f"a wake has at most {BODY_LIMIT} bytes\n", 413)
        except BadSignature as error:
            return PlainTextResponse(f"{error}\n", 401)
        except _NotAWake as error:
            return PlainTextResponse(f"this is not a wake: {error}\n", 400)
        return self._accepted(taken)

    def _accepted(self, taken: FetchedWake) -> Response:
        if not self._received.accept(taken):
            return PlainTextResponse("as many wakes as may wait are waiting\n", 503, RETRY_AFTER)
        if self._running is None:
            self._running = asyncio.create_task(self._worker.run(), name="wakeful receiver")
        return Response(status_code=202)


class _TooLarge(Exception):
    pass


class _NotAWake(ValueError):
    pass


async def _body(request: Request) -> bytes:
    body = bytearray()
    async with asyncio.timeout(READ_WITHIN):
        async for part in request.stream():
            body += part
            if len(body) > BODY_LIMIT:
                raise _TooLarge
    return bytes(body)


def _wake_in(body: bytes, headers: Mapping[str, str]) -> FetchedWake:
    """A wake as a server hands it out: the body, and what a webhook says in its headers."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Raw])
        scheduled = msgspec.json.decode(fields["scheduled_for"], type=datetime)
        late_ms = _number(headers.get("wakeful-late-ms"), 0)
        number, _, most = headers.get("wakeful-number", "").partition("/")
        said: dict[str, Any] = {
            "attempt": _number(headers.get("wakeful-attempt"), 1),
            "late_ms": late_ms,
            "missed": _number(headers.get("wakeful-missed"), 0),
            "number": _number(number, 1),
            "max_fires": _number(most, 0) or None,
            "report_by": scheduled + timedelta(milliseconds=late_ms) + FIRST_LEASE,
        }
        return taken_of(fields | {name: Raw(msgspec.json.encode(value)) for name, value in said.items()}, target=INBOX)
    except KeyError as error:
        raise _NotAWake(f"{error.args[0]} is missing") from None
    except (ValueError, TypeError, OverflowError) as error:  # what msgspec raises is a ValueError too
        raise _NotAWake(str(error)) from None


def _number(text: str | None, usual: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else usual


class _Received:
    """Wakes that came in, as an inbox: each is reported to the address and with the token that it brought."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._queue: asyncio.Queue[FetchedWake] = asyncio.Queue()
        self._under_way: dict[str, FetchedWake] = {}
        self._done: OrderedDict[str, None] = OrderedDict()

    def accept(self, taken: FetchedWake) -> bool:
        """Put it into the inbox, unless it is or was there already; whether it is in good hands."""
        fire_id = taken.fire.id
        if fire_id in self._under_way or fire_id in self._done:
            return True
        if len(self._under_way) >= self._most:
            return False
        self._under_way[fire_id] = taken
        self._queue.put_nowait(taken)
        return True

    async def inbox(self, *, limit: int = 10, wait: float = 0, target: str = INBOX) -> list[TakenWake]:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                return [await self._queue.get()]
        return []

    async def working(self, fire_id: str, note: str = "") -> Fire:
        return await self._report(fire_id, ReportRequest(outcome="working", result=note))

    async def completed(self, fire_id: str, result: str = "") -> Fire:
        return await self._ended(fire_id, ReportRequest(outcome="completed", result=result))

    async def delivery_failed(self, fire_id: str, reason: str = "") -> Fire:
        return await self._ended(fire_id, ReportRequest(outcome="failed", reason=reason))

    async def snooze_fire(self, fire_id: str, wait: timedelta | float | str) -> Fire:
        seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
        request = ReportRequest(outcome="snooze", wait=seconds)
        for pause in UNTIL_RECORDED:
            try:
                fire = await self._report(fire_id, request)
            except Conflict:
                await self._clock.sleep(pause)
            else:
                self._forget(fire_id, done=False)
                return fire
        return await self._ended(fire_id, request)

    async def _ended(self, fire_id: str, request: ReportRequest) -> Fire:
        """Report how it ended. A wake that failed or was put off comes again with the same id, and counts again."""
        try:
            fire = await self._report(fire_id, request)
        except (StoreUnavailable, TooMany):
            raise  # the worker says it again
        except WakefulError:
            self._forget(fire_id, done=request.outcome == "completed")
            raise
        self._forget(fire_id, done=request.outcome == "completed")
        return fire

    def _forget(self, fire_id: str, *, done: bool) -> None:
        self._under_way.pop(fire_id, None)
        if done:
            self._done[fire_id] = None
        if len(self._done) > REMEMBERED:
            self._done.popitem(last=False)

    async def _report(self, fire_id: str, request: ReportRequest) -> Fire:
        taken = self._under_way[fire_id]
        connection = ServerConnection(ServerAddress(taken.report_url, taken.report_token), self._clock)
        try:
            return fire_read(await connection.ask("POST", "", body=request, repeatable=request.outcome != "snooze"))
        finally:
            await connection.close()

"""Receivers of wakes for tests: a webhook receiver on loopback, which checks signatures, and a target that records."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

from wakeful.clock import Clock, SystemClock
from wakeful.model.outcome import Delivered, Outcome
from wakeful.rules.wake import Wake
from wakeful.targets.signing import BadSignature, verify

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Received(msgspec.Struct, frozen=True):
    """One request as it came in. `verified` is None where the receiver has no secret to check with."""

    headers: Mapping[str, str]
    body: bytes
    json: Any
    verified: bool | None
    path: str = "/"

    @property
    def fire_id(self) -> str:
        return self.headers.get("webhook-id", "")


class Receiver:
    """
    async with Receiver(secret="whsec_…") as receiver:
        receiver.answer(status=503, headers={"retry-after": "7"})   # the next one; then 200 again
        target = Webhook(url=receiver.url, secret="whsec_…", allow_private=True, clock=SystemClock())
        ...
        [wake] = await receiver.wait_for(1)
        assert wake.verified
    """

    def __init__(self, *, secret: str | Sequence[str] = "", clock: Clock | None = None) -> None:
        self.wakes: list[Received] = []
        self._secret = secret
        self._clock = clock or SystemClock()
        self._answers: deque[Answer] = deque()
        self._usual: Answer = answering()
        self._arrived = asyncio.Condition()
        self._closing = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._receive)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/wake"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def answer(self, status: int = 200, *, headers: Mapping[str, str] = {}, body: bytes | str = b"") -> None:
        """Answer the next request that has no answer yet like this."""
        self._answers.append(answering(status, headers=headers, body=body))

    def always(self, status: int = 200, *, headers: Mapping[str, str] = {}, body: bytes | str = b"") -> None:
        """Answer like this whenever nothing else is scripted."""
        self._usual = answering(status, headers=headers, body=body)

    def answer_with(self, answer: Answer) -> None:
        """Answer the next request by calling this."""
        self._answers.append(answer)

    def redirect(self, location: str, status: int = 302) -> None:
        self.answer(status, headers={"location": location})

    def hang(self) -> None:
        """Take the next request and never answer it."""
        self._answers.append(self._hang)

    def reset(self, *, after: bytes | None = None) -> None:
        """Cut the connection: before any answer, or after these bytes of a longer body."""
        self._answers.append(lambda request: _reset(request, after))

    def endless(self, *, chunk: bytes = b"x" * 65_536, pause: float = 0, content_type: str = "text/plain") -> None:
        """Answer 200 and go on writing for ever, with a pause between chunks (a drip) or without."""

        async def stream(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"content-type": content_type})
            await response.prepare(request)
            try:
                while not self._closing.is_set():
                    await response.write(chunk)
                    await SystemClock().sleep(pause)
            except ConnectionError:
                pass  # the sender has had enough
            return response

        self._answers.append(stream)

    def drip(self, *, pause: float = 0.05, content_type: str = "application/json") -> None:
        """Answer 200 and write one byte at a time, for ever."""
        self.endless(chunk=b" ", pause=pause, content_type=content_type)

    async def wait_for(self, count: int, *, timeout: float = 10) -> list[Received]:
        """The wakes received so far, as soon as there are that many."""
        async with asyncio.timeout(timeout), self._arrived:
            await self._arrived.wait_for(lambda: len(self.wakes) >= count)
        return list(self.wakes)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with self._arrived:
            self.wakes.append(self._received(request, body))
            answer = self._answers.popleft() if self._answers else self._usual
            self._arrived.notify_all()
        return await answer(request)

    def _received(self, request: web.Request, body: bytes) -> Received:
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            decoded = msgspec.json.decode(body)
        except msgspec.DecodeError:
            decoded = None
        return Received(headers, body, decoded, self._verified(headers, body), request.path)

    def _verified(self, headers: Mapping[str, str], body: bytes) -> bool | None:
        if not self._secret:
            return None
        try:
            verify(self._secret, headers, body, now=self._clock.now())
        except BadSignature:
            return False
        return True

    async def _hang(self, request: web.Request) -> web.StreamResponse:
        await self._closing.wait()
        return web.Response(status=503)


def answering(status: int = 200, *, headers: Mapping[str, str] = {}, body: bytes | str = b"") -> Answer:
    content = body.encode() if isinstance(body, str) else body

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers=headers, body=content)

    return answer


async def _reset(request: web.Request, after: bytes | None) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json", "content-length": "1000000"})
    if after is not None:
        await response.prepare(request)
        await response.write(after)
    if request.transport is not None:
        request.transport.abort()
    return response


Scripted = Outcome | Callable[[Wake], Outcome]


class RecordingTarget:
    """Keeps every wake. Answers the scripted outcomes in turn, then Delivered() for ever."""

    def __init__(self, *outcomes: Scripted) -> None:
        self.wakes: list[Wake] = []
        self.closed = False
        self._outcomes = deque(outcomes)

    @property
    def fire_ids(self) -> list[str]:
        return [wake.fire_id for wake in self.wakes]

    @property
    def messages(self) -> list[str]:
        return [wake.message for wake in self.wakes]

    def answer(self, *outcomes: Scripted) -> None:
        """Script what comes next, after what is scripted already."""
        self._outcomes.extend(outcomes)

    async def deliver(self, wake: Wake) -> Outcome:
        self.wakes.append(wake)
        scripted = self._outcomes.popleft() if self._outcomes else Delivered()
        return scripted(wake) if callable(scripted) else scripted

    async def close(self) -> None:
        self.closed = True

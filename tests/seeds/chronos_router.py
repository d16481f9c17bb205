"""A router as Chronos knew it, on loopback: it looks at every wake as the real one does, and notes every fault."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

TOKEN = "planted-wake-token"
# What Chronos sent. `payload` is any JSON; a conversation that is named is never empty.
WANTED: dict[str, type | tuple[type, ...]] = {"user_id": str, "message": str, "alarm_id": str, "origin": str}


class Router:
    """Answers 200, or as it was told; what is not a proper wake gets 4xx and is in `faults`."""

    def __init__(self) -> None:
        self.wakes: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.faults: list[str] = []
        self.statuses: deque[int] = deque()
        self.usual = 200
        self.before_answering: Callable[[dict[str, Any]], Awaitable[None]] | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._wake)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/internal/wake"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _wake(self, request: web.Request) -> web.Response:
        body = await request.read()
        fault = _fault(request, body)
        if fault is not None:
            self.faults.append(fault[1])
            return web.Response(status=fault[0], text=fault[1])
        wake = msgspec.json.decode(body)
        self.wakes.append(wake)
        self.bodies.append(body)
        if self.before_answering is not None:
            await self.before_answering(wake)
        status = self.statuses.popleft() if self.statuses else self.usual
        return web.Response(status=status, text="" if status in (204, 304) else f"said {status}")


def _fault(request: web.Request, body: bytes) -> tuple[int, str] | None:
    if request.path != "/internal/wake" or request.query_string:
        return 404, f"no such place: {request.path_qs}"
    if request.method != "POST":
        return 405, f"not a POST: {request.method}"
    if request.headers.get("authorization") != f"Bearer {TOKEN}":
        return 401, f"wrong bearer: {request.headers.get('authorization')}"
    if request.content_type != "application/json":
        return 415, f"not JSON: {request.content_type}"
    return _misfit(body)


def _misfit(body: bytes) -> tuple[int, str] | None:
    try:
        wake = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        return 400, f"cannot decode: {error}"
    wrong = [name for name, kind in WANTED.items() if not isinstance(wake.get(name), kind) or not wake[name]]
    if "payload" not in wake:
        wrong.append("payload")
    if "conversation_id" in wake and not wake["conversation_id"]:
        wrong.append("conversation_id")
    return (400, f"wrong: {', '.join(wrong)} in {wake}") if wrong else None

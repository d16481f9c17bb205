"""Checks before every HTTP request: host, origin, body size; and error answers.

A browser that was led here by a foreign page names that page in `Host` (DNS rebinding) or `Origin`, or says at least
that there is one in `Sec-Fetch-Site`; all are refused.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Mapping
from contextlib import nullcontext
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wakeful.errors import InvalidRequest, NotFound, TooMany, WakefulError
from wakeful.http.security.connection import hang_up
from wakeful.rules.wanted import decode
from wakeful.service import views
from wakeful.settings import Settings

log = logging.getLogger("wakeful.http")

BODY_LIMIT: Final = 256 * 1024
DRAIN_LIMIT: Final = (
    3 * BODY_LIMIT
)  # read on so far beyond a limit, so that the answer reaches a sender who is still sending
BODY_READ: Final = "wakeful.body_read"  # in a scope: the whole body is here
PIECE: Final = 64 * 1024  # bytes of a long answer that are sent at once
READ_ON_WITHIN: Final = 30.0  # seconds in which a reader takes a piece
OUTGOING: Final = "wakeful.outgoing"  # in a scope: holds bytes of an answer in its owner's name
DEPTH_LIMIT: Final = 100
# An unfinished one reaches to the end: else a body full of quotes is searched from each of them.
_STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NETLOC: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:/@\s\[\]]+))(?::\d{1,5})?")
T = TypeVar("T")


class Refusal(WakefulError):
    """An error that exists only in HTTP."""

    def __init__(self, status: int, code: str, message: str, *, field: str = "", fix: str = "") -> None:
        super().__init__(message, field=field, fix=fix)
        self.status = status
        self.code = code


class Guard:
    """Refuses foreign hosts and origins, and turns unexpected errors into a problem answer without details."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        public = urlsplit(settings.public_url)
        self._hosts = _LOOPBACK | {name.lower() for name in (settings.host, public.hostname) if name}
        self._public = public.netloc.lower()
        self._welcome: set[str] = set()  # hosts that were looked at before

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            self.check(scope)
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            pass  # nobody is left to answer to
        except WakefulError as error:
            await refused(error)(scope, receive, send)
        except Exception:
            log.exception("%s %s broke", scope["method"], ascii(scope["path"]))
            if begun:
                raise
            unforeseen = WakefulError("an internal error; the server's log has the details")
            await refused(unforeseen)(scope, receive, send)

    def check(self, scope: Scope) -> None:
        """Refuse a foreign host or origin."""
        host, origin = "", None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value.decode("latin-1").lower()
            elif name == b"origin":
                origin = value.decode("latin-1")
        if host not in self._welcome and not self._is_ours(host):
            raise Refusal(
                421,
                "misdirected",
                f"this server does not answer to {host[:200]!r}",
                field="Host",
                fix="Use localhost, or have the operator set public_url.",
            )
        if origin is not None and _netloc(origin) not in {host, self._public} - {""}:
            raise Refusal(403, "foreign_origin", "web pages of another origin may not call this server", field="Origin")

    def _is_ours(self, host: str) -> bool:
        named = _NETLOC.fullmatch(host)
        ours = named is not None and (named[1] or named[2]) in self._hosts
        if ours and len(self._welcome) < 100:
            self._welcome.add(host)
        return ours


def refuse_pages(scope: Scope) -> None:
    """Refuse requests that another site's page makes a browser send, if no token is needed.

    An image or a link has no `Origin`; browsers set `Sec-Fetch-Site`, which no page can change.
    """
    for name, value in scope["headers"]:
        if name == b"sec-fetch-site" and value not in (b"same-origin", b"none"):
            what = "web pages of another site may not call a server that needs no token"
            raise Refusal(403, "foreign_origin", what, field="Sec-Fetch-Site", fix="Create a token: wakeful token new.")


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def body(request: Request, kind: type[T], *, optional: bool = False) -> T:
    """Decode the JSON body into a type; if it is optional, an empty body is an empty object."""
    if optional and not (data := await read(request)):
        return decode(b"{}", kind)
    media = (header(request.scope, b"content-type") or "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Refusal(
            415,
            "unsupported_media_type",
            f"{media[:100]!r} is not accepted",
            field="Content-Type",
            fix="Send application/json.",
        )
    if not optional:
        data = await read(request)
    check_depth(data)
    return decode(data, kind)


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first header of a name, without building a mapping: every request pays for it."""
    for key, value in scope["headers"]:
        if key == name:
            found: str = value.decode("latin-1")
            return found
    return None


async def read(request: Request, *, limit: int = BODY_LIMIT) -> bytes:
    """Read the whole body, without keeping one that is too long."""
    kept, size, more = b"", 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size <= limit:
            kept = kept + chunk if kept else chunk
        elif size > limit + DRAIN_LIMIT:
            break
    if size > limit:
        raise Refusal(413, "body_too_large", f"at most {limit} bytes are accepted", field="body")
    request.scope[BODY_READ] = True
    return kept


def check_depth(data: bytes, field: str = "body") -> None:
    """Refuse JSON that is nested so deeply that another program could fail to read it."""
    if data.count(b"[") + data.count(b"{") <= DEPTH_LIMIT:
        return
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEPTH_LIMIT:
            raise InvalidRequest(f"it is nested more than {DEPTH_LIMIT} deep", field=field, fix="Nest it less deeply.")


class Answer(Response):
    """A response with few and simple headers, built faster than a general one."""

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str], media: str = "application/json") -> None:
        self.body, self.status_code, self.background = body, status, None
        self.raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        self.raw_headers += [(b"content-length", b"%d" % len(body)), (b"content-type", media.encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.body) <= PIECE or scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        # In pieces: each waits until the one before has gone, and until then the whole counts as its owner's.
        with scope[OUTGOING](len(self.body)) if OUTGOING in scope else nullcontext():
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                for at in range(0, len(self.body), PIECE):
                    await _within(send, bytes(self.body[at : at + PIECE]), more=True)
                await _within(send, b"", more=False)
            except TimeoutError:
                await hang_up(scope, receive)  # it does not read: what waits for it is not kept for ever


async def _within(send: Send, piece: bytes, *, more: bool) -> None:
    async with asyncio.timeout(READ_ON_WITHIN):
        await send({"type": "http.response.body", "body": piece, "more_body": more})


def answer(value: Struct, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer is a struct, the very one the OpenAPI document shows."""
    return Answer(views.encode(value), status, headers or {})


def problem(error: WakefulError) -> views.Problem:
    """Return an error as the body of an answer."""
    if not isinstance(error, Refusal):
        return views.problem(error)
    return views.problem(error, error.status, HTTPStatus(error.status).phrase)


def refused(error: Exception) -> Response:
    """Return an expected error as `application/problem+json`."""
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        error = _routing(error)
    assert isinstance(error, WakefulError)
    answered = problem(error)
    if answered.status == 401:
        headers["www-authenticate"] = "Bearer"
    if answered.status == 408:
        headers["connection"] = "close"
    if answered.status == 503:
        headers["retry-after"] = "1"
    if isinstance(error, TooMany) and error.retry_after is not None:
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
    return Response(views.encode(answered), answered.status, headers, "application/problem+json")


def _routing(error: HTTPException) -> WakefulError:
    if error.status_code == 404:
        return NotFound("there is no such route", fix="docs/reference/http.md lists all routes.")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("allow", "")
        return Refusal(405, "method_not_allowed", "this route does not take this method", fix=f"Use one of: {allowed}.")
    return Refusal(error.status_code, "refused", error.detail)

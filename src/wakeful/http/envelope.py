"""Answers in the format of Chronos, for its clients: `{"ok": true, "data": …}`, or an error.

Turned on by the setting `chronos_envelope`, for the routes Chronos has and for no others. The owner still comes from a
token and from nothing else: `X-Chronos-Agent` holds one, as Chronos's clients send it, beside whatever transport token
is in `Authorization`. No header can name an owner.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import Raw
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wakeful.http.security.auth import route_path
from wakeful.http.security.guard import PIECE
from wakeful.rules.create import user_of
from wakeful.service import views

AGENT: Final = b"x-chronos-agent"
_AUTH: Final = re.compile(r"/v1/agent/auth/(challenge|verify)")
_ROUTES: Final = re.compile(r"(GET|POST) /v1/alarms|(GET|DELETE) /v1/alarms/[^/]+")
_CODES: Final = {400: "invalid_request", 401: "unauthorized", 403: "unauthorized", 404: "not_found", 409: "conflict"}
_LATER: Final = frozenset({429, 503})


class Envelope:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = route_path(scope) if scope["type"] == "http" else ""
        if found := _AUTH.fullmatch(path):
            path = f"/v1/auth/{found[1]}"
            scope["path"] = scope.get("root_path", "") + path
            scope["raw_path"] = scope["path"].encode()
        elif not path or not _ROUTES.fullmatch(f"{scope['method']} {path}"):
            await self._app(scope, receive, send)
            return
        scope["headers"] = _with_token(scope["headers"])  # the same scope: who counts requests looks into it afterwards
        await self._app(scope, receive, _Sealed(scope, path, send))


def _with_token(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Put the agent's token into `Authorization` instead of the transport's."""
    token = next((value for name, value in headers if name == AGENT), None)
    if token is None:
        return headers
    rest = [(name, value) for name, value in headers if name not in (AGENT, b"authorization")]
    return [*rest, (b"authorization", b"Bearer " + token)]


class _Sealed:
    """Wraps one answer in its envelope, once it is complete."""

    def __init__(self, scope: Scope, path: str, send: Send) -> None:
        self._method = scope["method"]
        self._path = path
        self._send = send
        self._start: Message = {}
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        status: int = self._start["status"]
        body = views.encode(self._told(status))
        kept = [pair for pair in self._start["headers"] if pair[0].lower() not in (b"content-length", b"content-type")]
        headers = [*kept, (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        shown = HTTPStatus.OK if status == HTTPStatus.CREATED else status
        await self._send({"type": "http.response.start", "status": shown, "headers": headers})
        while len(body) > PIECE:  # as long answers go without an envelope
            await self._send({"type": "http.response.body", "body": body[:PIECE], "more_body": True})
            body = body[PIECE:]
        await self._send({"type": "http.response.body", "body": body})

    def _told(self, status: int) -> dict[str, Any]:
        if status < HTTPStatus.BAD_REQUEST:
            return {"ok": True, "data": self._data()}
        problem = msgspec.json.decode(self._body)
        code = _CODES.get(status, "internal" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else problem["code"])
        error = {"code": code, "message": problem["detail"]}
        return {"ok": False, "error": error | ({"retryable": True} if status in _LATER else {})}

    def _data(self) -> Any:
        """Return what Chronos answers on this route; other parts pass through byte for byte."""
        body: dict[str, Raw] = msgspec.json.decode(self._body, type=dict[str, Raw])
        if self._path == "/v1/alarms" and self._method == "POST":
            return {name: body[name] for name in ("id", "next_fire_at", "status", "deduped") if name in body}
        if self._path == "/v1/alarms":
            return body | {"count": len(msgspec.json.decode(body["alarms"], type=list[Raw]))}
        if "owner" in body and "token" in body:
            return body | {"owner_user_id": user_of(msgspec.json.decode(body["owner"]))}
        return body

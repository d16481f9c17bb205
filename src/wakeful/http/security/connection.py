"""One HTTP connection of uvicorn: limits of time and size, strict requests; and how many connections there may be."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import resource
from collections import Counter
from functools import partial
from typing import Any, Final

import httptools
from msgspec import Struct
from starlette.types import Receive, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from wakeful.errors import InvalidRequest
from wakeful.service import views
from wakeful.settings import Settings

log = logging.getLogger("wakeful.http")

BELONGS: Final = "wakeful.belongs"  # in a scope's state: takes the owner whose token a connection brought
MOST_FILES: Final = 65_536  # what a process asks for, where it may have as many
OWN_FILES: Final = 64  # the database, its log, standard streams, the listener


def raise_limit() -> int:
    """Raise the limit of file descriptors as far as allowed; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # then with what there is
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def room(settings: Settings, descriptors: int) -> int:
    """Return the most connections to accept: deliveries keep what they need, or half if there are few descriptors."""
    kept = min(settings.total_concurrency + OWN_FILES, descriptors // 2)
    return max(1, min(settings.connections, descriptors - kept))


class _Connected(Struct):
    address: str
    silent_since: float | None  # None: a request is complete and not answered yet
    owner: str = ""  # whose token it brought last; strangers count as one owner


class ConnectionLimiter:
    """Keeps count of the connections. Those that became WebSockets count until their transport is closed."""

    def __init__(self, limit: int, per_address: int) -> None:
        self._limit = limit
        self._per_address = per_address
        self._guests: dict[asyncio.Transport, _Connected] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def let_in(self, transport: asyncio.Transport, address: str, now: float) -> bool:
        """Count a new connection; False if it must be closed because there is no room even without idle ones."""
        near = _is_near(address)  # a proxy here speaks for everybody
        there = 0 if near else sum(guest.address == address for guest in self._guests.values())
        if there >= self._per_address and not self._made_room(address):
            log.warning("refusing connections from %s: it has %d open", address, there)
            return False
        if len(self._guests) >= self._limit and not self._made_room():
            log.warning("refusing a connection: %d are open, and all of them are busy", len(self._guests))
            return False
        self._guests[transport] = _Connected(address, now)
        return True

    def speaks(self, transport: asyncio.Transport) -> None:
        """Mark a connection as active: it is not closed to make room."""
        if (guest := self._guests.get(transport)) is not None:
            guest.silent_since = None

    def is_silent(self, transport: asyncio.Transport, now: float) -> None:
        """Mark a connection as idle: it owes a request, or the rest of one."""
        if (guest := self._guests.get(transport)) is not None:
            guest.silent_since = now

    def belongs(self, transport: asyncio.Transport, owner: str) -> None:
        if (guest := self._guests.get(transport)) is not None:
            guest.owner = owner

    def leaves(self, transport: asyncio.Transport) -> None:
        self._guests.pop(transport, None)

    def _made_room(self, address: str | None = None) -> bool:
        for transport in [one for one in self._guests if one.is_closing()]:
            del self._guests[transport]
        # Whoever has the most gives way first: else a flood of new ones would put out those who were silent before it.
        crowds = Counter(guest.owner for guest in self._guests.values())
        silent = [
            (-crowds[guest.owner], guest.silent_since, at, transport)
            for at, (transport, guest) in enumerate(self._guests.items())
            if guest.silent_since is not None and address in (None, guest.address)
        ]
        if silent:
            *_, transport = min(silent)
            del self._guests[transport]
            transport.abort()
            return True
        if address is None:
            return len(self._guests) < self._limit
        return sum(guest.address == address for guest in self._guests.values()) < self._per_address


def _is_near(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True  # a Unix socket, or nothing that has an address


HEAD_WITHIN: Final = 30.0  # seconds from connecting, or from the first byte, to the end of the headers
HEAD_LIMIT: Final = 16 * 1024  # bytes of a head, and between two pieces of a body
HANG_UP: Final = "wakeful.hang_up"  # in a scope's state: ends the connection, whatever was still to be sent
_HEAD_END: Final = b"\r\n\r\n"
_UNKNOWN_METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}(?= /)")
_STAND_IN: Final = b"PUT"  # a method the parser knows, and that has no rules of its own
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_NOT_HTTP: Final = InvalidRequest(
    "this is not a request of HTTP/1.1, or its head is too long",
    fix="Send one host, one length or chunks, a path, and at most 16 KiB of head.",
)


async def hang_up(scope: Scope, receive: Receive) -> None:
    """Close the connection of a request before its answer is complete. Does nothing in another program's server."""
    if (abort := scope.get("state", {}).get(HANG_UP)) is not None:
        abort()
        while (await receive())["type"] != "http.disconnect":
            pass


class Connection(HttpToolsProtocol):
    limiter: ConnectionLimiter | None = None  # of the server it belongs to
    _waiting_since: float | None = None
    _timer: asyncio.TimerHandle | None = None  # one for many requests: reset when it fires, not with each of them
    _has_begun: bool = False  # a part of the request that is being read was parsed
    _in_head: bool = True  # the head of a request is being read, or awaited; else its body
    _body_left: int = 0  # bytes of the body that are still to come; 0 also where its length is not known
    _unfinished: int = 0  # bytes since the last end of a head or piece of a body
    _unknown_method: str = ""  # of the request that is being read
    _is_declining: bool = False
    _running: RequestResponseCycle | None = None  # what is being answered, or was last
    _held_back: bytes = b""  # what came behind a request that is not answered yet
    _is_refused: bool = False  # nothing is read any more

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        self.app_state = {**self.app_state, HANG_UP: transport.abort}
        if self.limiter is not None:
            self.app_state[BELONGS] = partial(self.limiter.belongs, transport)
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if self.limiter is not None and not self.limiter.let_in(transport, address, self.loop.time()):
            transport.abort()
            return
        self._wait_for_head()

    @classmethod
    def among(cls, limiter: ConnectionLimiter) -> type[Connection]:
        """Return the connection class of one server, which counts its connections."""
        return type(cls.__name__, (cls,), {"limiter": limiter})

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self._is_answering():
            self._hold_back(data)
            return
        self._unset_keepalive_if_required()
        self._read(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self.limiter is not None:
            self.limiter.leaves(self.transport)
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True  # uvicorn tells the last request, which may not have had its turn
            self._running.message_event.set()

    def handle_websocket_upgrade(self) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade()

    # Reading: one request after the other, so that each is answered, or refused, in its turn

    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _hold_back(self, data: bytes) -> None:
        self._held_back += data
        self.flow.pause_reading()

    def _read(self, data: bytes) -> None:
        """Parse in pieces that end with a request, as far as that can be seen: the parser itself cannot be stopped."""
        start = 0
        while start < len(data) and not self._is_refused:
            if self._is_answering():
                self._hold_back(data[start:])
                break
            end = self._end(data, start)
            if self._parsed(data[start:end] if (start, end) != (0, len(data)) else data):
                return  # it is a WebSocket now
            start = end
        self._tell_limiter()

    def _end(self, data: bytes, start: int) -> int:
        """Where the next piece ends: with the body if its length is known, else with a head if there is another."""
        if self._body_left:
            return min(start + self._body_left, len(data))
        end = data.find(_HEAD_END, start) + len(_HEAD_END)
        return end if end >= len(_HEAD_END) and data.find(_HEAD_END, end) >= 0 else len(data)

    def _parsed(self, piece: bytes) -> bool:
        """Parse a piece; return whether the connection became a WebSocket by it."""
        is_first = not self._has_begun
        self._unfinished += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserInvalidMethodError:
            unknown = _UNKNOWN_METHOD.match(piece) if is_first else None
            if unknown is None or self._unknown_method:
                self._refuse()
                return False
            # The route says which methods it has, as for those that the parser knows.
            self._unknown_method, self._has_begun, self._unfinished = unknown[0].decode(), False, 0
            self.parser = httptools.HttpRequestParser(self)
            return self._parsed(_STAND_IN + piece[unknown.end() :])
        except httptools.HttpParserError:
            self._refuse()
        except httptools.HttpParserUpgrade as offered:
            return self._upgraded(piece[offered.args[0] :])
        if self._unfinished > HEAD_LIMIT:
            self._refuse()
        return False

    def _upgraded(self, rest: bytes) -> bool:
        if not self._should_upgrade():
            self._unsupported_upgrade_warning()
            return self._declined(rest)
        if self._running is not None and not self._running.response_complete:
            self._refuse()
            return False
        self.handle_websocket_upgrade()
        return True

    def _declined(self, rest: bytes) -> bool:
        """Go on without the protocol that was offered (Java's client offers one with every request).

        The parser takes what follows for that protocol, so another one reads the body, as if nothing had been offered.
        """
        framing = [name + b": " + value for name, value in self.headers if name in _FRAMING]
        if framing:
            self.cycle.more_body = True
            self.cycle.message_event.clear()
        self.parser, self._is_declining = httptools.HttpRequestParser(self), True
        self.parser.feed_data(b"\r\n".join([_STAND_IN + b" / HTTP/1.1", *framing, b"", b""]))
        self._is_declining = False
        return bool(rest) and self._parsed(rest)

    def on_message_begin(self) -> None:
        self._has_begun = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else it stands behind a body, where nobody checked it
            super().on_header(name, value.strip(b" \t"))  # blanks around a value are not part of it (RFC 9110, 5.5)

    def on_headers_complete(self) -> None:
        if not self._is_declining:  # else this is the head that was accepted before
            self._check_head()
            super().on_headers_complete()
        if self._unknown_method:
            self.scope["method"], self._unknown_method = self._unknown_method, ""
        self._in_head, self._unfinished = False, 0

    def _check_head(self) -> None:
        """Raise for what the parser lets pass. It has checked that a length is a number, and not beside a coding."""
        version = self.parser.get_http_version()
        headers = dict(self.headers)
        names = [name for name, _ in self.headers]
        hosts, codings = names.count(b"host"), names.count(b"transfer-encoding")
        if version not in ("1.1", "1.0") or not self.url.startswith(b"/"):
            raise ValueError("not a request for this server")
        if hosts != 1 and (hosts or version == "1.1"):
            raise ValueError("one host is needed")
        if codings and (codings > 1 or version == "1.0" or headers[b"transfer-encoding"].lower() != b"chunked"):
            raise ValueError("a coding that is not understood")
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_LIMIT:
            raise ValueError("too long")
        self._body_left = int(headers.get(b"content-length", 0))

    def on_body(self, body: bytes) -> None:
        self._unfinished = 0
        if self._body_left:
            self._body_left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_begun, self._in_head, self._unfinished = False, True, 0
        super().on_message_complete()

    # Answering

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or (not self.cycle.response_complete and not self._is_refused):
            return
        if self.limiter is not None and self._in_head:
            self.limiter.is_silent(self.transport, self.loop.time())
        if self._is_refused:
            self._refuse()
        elif self._held_back:
            self._unset_keepalive_if_required()
            data, self._held_back = self._held_back, b""
            self._read(data)

    def _refuse(self) -> None:
        """Answer 400 and close; not before the requests that came before it are answered."""
        self._is_refused = True
        running = self._running
        if not self._in_head and self.cycle is not running:
            self.pipeline.clear()  # its body is broken, and it has not had its turn
            self._in_head = True
        is_own = not self._in_head
        if is_own and self.cycle.response_started:
            self.transport.close()
        elif is_own or running is None or running.response_complete:
            self.send_400_response("")
        else:
            self.flow.pause_reading()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong as every other refusal does."""
        body = views.encode(views.problem(_NOT_HTTP, 400, "Bad Request"))
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    # Who says nothing

    def _tell_limiter(self) -> None:
        if self._in_head and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_head()
            return
        self._waiting_since = None
        if self.limiter is None:
            return
        if not self._in_head:
            # It owes us the rest: one that stops in the middle is as silent as one that never began.
            self.limiter.is_silent(self.transport, self.loop.time())
        else:
            self.limiter.speaks(self.transport)

    def _wait_for_head(self) -> None:
        if self._waiting_since is None:
            self._waiting_since = self.loop.time()
        if self._timer is None:
            self._timer = self.loop.call_at(self._waiting_since + HEAD_WITHIN, self._look)

    def _stop_waiting(self) -> None:
        self._waiting_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._waiting_since is None:
            return
        if self.loop.time() >= self._waiting_since + HEAD_WITHIN:
            self.transport.close()
        else:
            self._wait_for_head()

"""Send a wake by HTTP POST: one deadline for everything, no redirects, no more of a response than is needed.

The address is checked when the socket is made, after name resolution: whatever a name means at that moment counts.
Names, sockets, TLS and the pool of connections are aiohttp's. A request is one write to such a connection, and
httptools parses the response: aiohttp's own session would cost more than everything else in a delivery.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets as random
import socket
import ssl
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Failed
from wakeful.runtime.logs import trace_id
from wakeful.targets.calls import Deadlines, Threads
from wakeful.targets.sending.addresses import Allowed, check_url, networks, refusal
from wakeful.targets.sending.reading import Answering, BadAnswer, Reply
from wakeful.targets.text import one_line, without

log = logging.getLogger("wakeful.targets")

_QUOTED: Final = 300  # bytes of an unfriendly reply that are kept
_CONNECTIONS: Final = 3  # kept-alive ones that turn out dead, before a fresh failure counts
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
_UNTIL_ONE_IS_FREE: Final = 0.25  # seconds
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)  # post() has the one deadline
_tried: ContextVar[list[str | None]] = ContextVar(
    "tried"
)  # one entry per socket asked for: why it was refused, or None


class AddressRefused(OSError):
    """This address is not one that wakes may go to."""


class Sender:
    """One address to POST to, with its connections."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        allow_private: Allowed,
        headers: Mapping[str, str] = {},
        secrets: Sequence[str] = (),
        method: str = "POST",
    ) -> None:
        check_url(url)
        if not 0 < timeout <= 86_400:
            raise InvalidConfig(f"{timeout} is not from 0 to 86400 seconds", field="timeout")
        self._allowed = allow_private if isinstance(allow_private, bool) else tuple(allow_private)
        if not isinstance(self._allowed, bool):
            networks(self._allowed)
        self._url = url
        self._method = method
        self._headers = headers
        self._timeout = timeout
        self._secrets = tuple(sorted({*secrets, *_hidden_in(url)}, key=len, reverse=True))
        self._deadlines = Deadlines(timeout)
        self._way: _Way | None = None
        self._threads = Threads(2, "wakeful-names")

    async def post(
        self, headers: Mapping[str, str], body: bytes, *, skip_body_when_ok: bool = False, path: str = ""
    ) -> Reply:
        """Send it once; a kept-alive connection that turns out dead is replaced at once, not reported.

        `path`: what follows the address, quoted, for an address that is the base of several.
        """
        return await self._in_time(_Call(self._method, path, headers, body, skip_body_when_ok))

    async def get(self, path: str) -> Reply:
        return await self._in_time(_Call("GET", path, {}, b""))

    async def _in_time(self, call: _Call) -> Reply:
        reply = Reply()
        call = call._replace(headers={**call.headers, "traceparent": _traceparent()})
        tried: list[str | None] = []
        token = _tried.set(tried)
        running = self._deadlines.begin()
        try:
            for _ in range(_CONNECTIONS):
                reply = Reply()
                await self._post(reply, call)
                if reply.status or tried:
                    break
        except asyncio.CancelledError:
            if not running.is_only_late:
                raise
            what = "the reply did not end" if reply.status else "no answer"
            reply.trouble = f"{reply.trouble or what} within {self._timeout:g} s"
        finally:
            self._deadlines.end(running)
            _tried.reset(token)
        refusals = [reason for reason in tried if reason]
        if reply.status == 0 and refusals and len(refusals) == len(tried):
            # Where a target stands is the operator's to know: the log says it, the fire does not.
            log.warning("not sent: %s", refusals[0])
            reply.refused, reply.trouble = True, f"the target's address is {refusals[0].partition(' is ')[2]}"
        return reply

    async def reach(self) -> str:
        """Connect, send nothing, and return what is in the way; empty where nothing is."""
        way = self._way or self._opened()
        try:
            async with asyncio.timeout(self._timeout):
                (await way.connector.connect(way.to, [], _NO_TIMEOUT)).close()
        except TimeoutError:
            return f"no connection within {self._timeout:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return self._shown(_explained(error), ())
        return ""

    async def close(self) -> None:
        way, self._way = self._way, None
        if way is not None:
            await way.connector.close()
        self._deadlines.close()
        self._threads.close()

    def failure(
        self,
        reply: Reply,
        *,
        now: datetime,
        hide: Sequence[str] = (),
        who: str = "HTTP ",
        final: Collection[int] = (410,),
    ) -> Failed:
        """What a reply means that is not a yes. `final`: statuses after which the wake is not sent again."""
        if reply.status == 0:
            return Failed(self._shown(reply.trouble, hide), retryable=not reply.refused, unhealthy=not reply.refused)
        error = f"{who}{reply.status}"
        if 300 <= reply.status < 400:
            error += ": redirects are not followed"
            log.warning("%s%s", error, _whither(reply.headers.get("location", "")))
        elif quoted := reply.body[: 4 * _QUOTED].decode("utf-8", "replace").strip():
            # Secrets go before the cut: half a secret would not be recognised.
            error += f": {without(quoted, (*hide, *self._secrets))[:_QUOTED]}"
        return Failed(
            self._shown(error, hide),
            retryable=reply.status not in final,
            retry_after=_retry_after(reply.headers.get("retry-after", ""), now),
            unhealthy=reply.status >= 500 or reply.status == 429,
            answered=True,
        )

    async def _post(self, reply: Reply, call: _Call) -> None:
        """Send it. Wait while there is no file descriptor for a socket: the target is not to blame."""
        while await self._sent(reply, call) in _NO_DESCRIPTOR:
            reply.trouble = "no file descriptor became free"  # reported only if it stays so until the deadline
            await SystemClock().sleep(_UNTIL_ONE_IS_FREE)
            reply.trouble = ""

    async def _sent(self, reply: Reply, call: _Call) -> int | None:
        """The number of the system's error, where there was one."""
        try:
            way = self._way or self._opened()
            request = way.request(call)
            connection = await way.connector.connect(way.to, [], _NO_TIMEOUT)
            try:
                answering = cast(Answering, connection.protocol)
                await answering.exchange(request, reply, skip_body_when_ok=call.skip_body_when_ok)
            finally:
                connection.release()
        except (BadAnswer, aiohttp.ClientError, OSError, ValueError) as error:
            reply.trouble = _explained(error)
            reply.refused = isinstance(error, aiohttp.InvalidURL)  # that will not mend by itself
            return error.errno if isinstance(error, OSError) else None
        return None

    def _opened(self) -> _Way:
        own = {name: value for name, value in self._headers.items() if name.lower() != "traceparent"}
        headers = {"accept-encoding": "identity", "user-agent": user_agent(), **own}
        connector = _Connector(
            limit=0,  # how many at once is the dispatcher's business
            socket_factory=self._socket,
            resolver=_Resolver(self._threads),
        )
        self._way = _Way(connector, self._method, self._url, headers)
        return self._way

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, proto, _, address = info
        reason = refusal(address[0], self._allowed)
        _tried.get([]).append(reason)
        if reason is not None:
            raise AddressRefused(reason)
        return socket.socket(family, kind, proto)

    def _shown(self, text: str, hide: Sequence[str]) -> str:
        return one_line(without(text, (*hide, *self._secrets)), 2 * _QUOTED)


class _Call(NamedTuple):
    """One request to an address. `path` follows that of the address; whoever gives it has quoted what is in it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    skip_body_when_ok: bool = False


class _Way:
    """To one address, with all that is the same in every request there."""

    def __init__(self, connector: _Connector, method: str, url: str, headers: Mapping[str, str]) -> None:
        try:
            where = URL(url)
        except ValueError as error:
            raise aiohttp.InvalidURL(url) from error
        self.connector = connector
        self.to = aiohttp.ClientRequest(method, where, headers=headers)
        self.to.headers.pop("content-length", None)  # it differs
        self._base, self._rest = where.raw_path.rstrip("/"), f" HTTP/1.1\r\n{_lines(self.to.headers)}"
        self._head = f"{method} {where.raw_path_qs}{self._rest}"

    def request(self, call: _Call) -> bytes:
        """The bytes to send."""
        head = f"{call.method} {self._base}{call.path}{self._rest}" if call.path else self._head
        length = "" if call.method == "GET" else f"content-length: {len(call.body)}\r\n"
        return f"{head}{_lines(call.headers)}{length}\r\n".encode() + call.body


def _lines(headers: Mapping[str, str]) -> str:
    """Headers as they are sent. ValueError where one would break out of its line."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\r") != len(headers) or lines.count("\n") != len(headers) or "\0" in lines:
        raise ValueError("a header with a line break")
    return lines


class _Connector(aiohttp.TCPConnector):
    """Connections whose answers are bounded work. Leaky: the driver has no setting for it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(Answering, self._loop)  # type: ignore[assignment, arg-type]  # has all that is asked


class _Resolver(AbstractResolver):
    """Names are resolved in this target's own threads: a name server that hangs holds up nobody else."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        infos = await self._threads.run(
            socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=found,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found, _, proto, _, address in infos
        ]

    async def close(self) -> None:
        return None


def _traceparent() -> str:
    """A trace of this attempt's own (W3C), whose id stands in its log lines too: receivers' traces are found by it."""
    drawn = random.token_hex(24)
    trace_id.set(drawn[:32])  # a delivery is a task of its own: nobody else's lines are marked
    return f"00-{drawn[:32]}-{drawn[32:]}-01"


@cache
def user_agent() -> str:
    return f"wakeful/{version('wakeful')}"


def _hidden_in(url: str) -> list[str]:
    """The parts of a URL that can be credentials: the query, and long pieces of the path."""
    parts = urlsplit(url)
    values = [value for _, value in parse_qsl(parts.query)]
    return [parts.query, *values, *(piece for piece in parts.path.split("/") if len(piece) >= 16)]


def _explained(error: Exception) -> str:
    """An error in our words: those of aiohttp hold the URL."""
    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorError():
            return _not_connected(error)
        case BadAnswer():
            return str(error)
        case OSError():
            return f"the connection failed: {error.strerror or type(error).__name__}"
        case aiohttp.InvalidURL():
            return "the URL has no host to connect to"
        case _:
            return f"the request failed: {type(error).__name__}"


def _not_connected(error: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"TLS: {getattr(error.certificate_error, 'verify_message', 'the certificate is not valid')}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name could not be resolved"
    what = "TLS" if isinstance(error, aiohttp.ClientSSLError) else "could not connect"
    cause = error.os_error
    return f"{what}: {(cause.reason if isinstance(cause, ssl.SSLError) else cause.strerror) or 'failed'}"


def _whither(location: str) -> str:
    """Where a redirect wanted to go: no more than the origin, the rest can hold secrets."""
    try:
        parts = urlsplit(location)
        return f" (it points to {parts.scheme}://{parts.hostname})" if parts.scheme and parts.hostname else ""
    except ValueError:
        return ""


def _retry_after(text: str, now: datetime) -> float | None:
    """Seconds to wait, from seconds or an HTTP date; None when it says neither."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())

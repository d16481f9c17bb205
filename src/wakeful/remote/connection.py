"""One server: its address, requests with limits and repetition, its refusals as errors, and its live events.

A request that never left is sent again, and so is one that the server says it did not take (429). Where an answer got
lost, only what does the same twice as once is sent again: reading, cancelling, a create with a key, a report.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

import msgspec
from msgspec import Raw, Struct

from wakeful import errors
from wakeful.clock import Clock
from wakeful.errors import (
    Conflict,
    Forbidden,
    InvalidConfig,
    InvalidRequest,
    NotFound,
    OneProcess,
    StaleVersion,
    StoreUnavailable,
    TooMany,
    Unauthorized,
    WakefulError,
)
from wakeful.rules.backoff import backoff, spread
from wakeful.service.live import LiveEvent

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

log = logging.getLogger("wakeful.remote")

SCHEMES: Final = ("http://", "https://")
_EXAMPLE: Final = "Give an address such as https://wakeful.example:4747."
CONNECT_WITHIN: Final = 10.0
ANSWER_WITHIN: Final = 45.0  # a server gives up after 30 seconds, and says so
SILENCE: Final = 45.0  # of a stream of events: something comes every 15 seconds
TRIES: Final = 4
FIRST_WAIT: Final = 0.2
LONGEST_WAIT: Final = 10.0  # what a server asks us to wait for longer than this is said to the caller instead
AWAY: Final = (502, 503, 504)
CLIENT: Final = {"X-Wakeful-Client": "python"}

Answered = dict[str, Raw]  # the fields of an answer, each still as it came
RESET: Final = "reset"
FIRST_PAUSE: Final = 0.5  # after a stream of events ended
LONGEST_PAUSE: Final = 30.0
_BY_CODE: Final[dict[str, type[WakefulError]]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, WakefulError)
}
# What only HTTP knows has codes of its own: the status says what it amounts to.
_BY_STATUS: Final[dict[int, type[WakefulError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: StaleVersion,
    421: InvalidConfig,
    429: TooMany,
}


# Addresses


class ServerAddress(Struct, frozen=True):
    url: str
    token: str = ""

    def __repr__(self) -> str:
        return f"ServerAddress({self.url!r}{', with a token' if self.token else ''})"


def is_server(text: str) -> bool:
    return text.lower().startswith(SCHEMES)


def server_in(environ: Mapping[str, str]) -> str:
    """The server that the environment names; refused where it names a database as well."""
    url = environ.get("WAKEFUL_URL", "").strip()
    if url and environ.get("WAKEFUL_DB"):
        raise InvalidConfig(
            "WAKEFUL_URL names a server and WAKEFUL_DB a database",
            field="WAKEFUL_URL",
            fix="Unset one of them, or say --url or --db.",
        )
    return url


def server_address(url: str, token: str | None = None, *, environ: Mapping[str, str] | None = None) -> ServerAddress:
    """An address that may be spoken to. Without a token, that of WAKEFUL_TOKEN counts."""
    token = (os.environ if environ is None else environ).get("WAKEFUL_TOKEN", "") if token is None else token
    token = token.strip()
    parts = _split(url.strip())
    if parts.username is not None or parts.password is not None:
        raise InvalidConfig("an address does not hold a name or a password", field="url", fix="Give a token instead.")
    if parts.query or parts.fragment:
        raise InvalidConfig(f"{url!r} has more than a host and a path", field="url", fix=_EXAMPLE)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidConfig("this is not a token", field="token", fix="It is one word, wk_…; see `wakeful token new`.")
    if token and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise InvalidConfig(
            f"a token would be sent to {parts.hostname} unencrypted, where anyone on the way can read it",
            field="url",
            fix="Use https://, or reach the server through a tunnel on 127.0.0.1.",
        )
    return ServerAddress(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", token)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0  # reading the port checks it
    except ValueError:
        has_host = False
    if (
        not has_host
        or parts.scheme not in ("http", "https")
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        raise InvalidConfig(f"{url!r} is not the address of a server", field="url", fix=_EXAMPLE)
    return parts


def is_loopback(host: str) -> bool:
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# Requests


class ServerConnection:
    def __init__(self, address: ServerAddress, clock: Clock) -> None:
        self.address = address
        self._clock = clock
        self._session: ClientSession | None = None
        self._process = OneProcess()
        self._offset = timedelta(0)  # the server's clock less ours

    def now(self) -> datetime:
        """This moment by the server's clock, as its last answer told it."""
        return self._clock.now() + self._offset

    async def close(self) -> None:
        if self._session is not None and not self._process.is_forked:
            await self._session.close()
            self._session = None

    async def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        wait: float = 0.0,
    ) -> Answered:
        """The answer to a request. `repeatable`: whether it does the same twice as once; reading does.

        `wait`: how long the server may take on purpose.
        """
        repeatable = method == "GET" if repeatable is None else repeatable
        sent = None if body is None else msgspec.json.encode(body)
        for failures in range(TRIES):
            try:
                return await self._once(method, path + _query(query), sent, headers or {}, wait)
            except _Unanswered as missed:
                again = missed.never_left or repeatable
                if not again or failures == TRIES - 1 or missed.wait > LONGEST_WAIT:
                    raise missed.error from None
                ladder = spread(backoff(failures, base=FIRST_WAIT), f"{path}#{failures}").total_seconds()
                await self._clock.sleep(max(missed.wait, ladder))
        raise AssertionError(path)

    async def _once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], wait: float
    ) -> Answered:
        import aiohttp

        kind = {} if body is None else {"Content-Type": "application/json"}
        url, within = self._url(path), aiohttp.ClientTimeout(total=ANSWER_WITHIN + wait, connect=CONNECT_WITHIN)
        try:
            async with self._opened().request(
                method, url, data=body, headers={**kind, **headers}, timeout=within, allow_redirects=False
            ) as response:
                return self._read(response, await response.read())
        except aiohttp.ClientConnectorCertificateError as error:
            raise self._untrusted(error) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _Unanswered(self._unreachable(error), never_left=True) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _Unanswered(self._broken_off(error)) from None

    def _read(self, response: ClientResponse, body: bytes) -> Answered:
        if response.status < 300:
            try:
                answered = msgspec.json.decode(body, type=Answered)
            except msgspec.DecodeError:
                raise error_of(418, b"", url=self.address.url) from None
            if "now" in answered:
                self._offset = msgspec.json.decode(answered["now"], type=datetime) - self._clock.now()
            return answered
        asked_to_wait = _seconds(response.headers.get("Retry-After"))
        error = error_of(response.status, body, retry_after=asked_to_wait, url=self.address.url)
        if isinstance(error, TooMany) and asked_to_wait is not None:
            raise _Unanswered(error, never_left=True, wait=asked_to_wait)
        if response.status in AWAY:
            raise _Unanswered(error, wait=asked_to_wait or 0.0)
        raise error

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> AsyncIterator[Any]:
        """A stream of bytes that does not end by itself; StoreUnavailable where there is none just now."""
        import aiohttp

        within = aiohttp.ClientTimeout(total=None, connect=CONNECT_WITHIN, sock_read=SILENCE)
        url = self._url(path + _query(query))
        try:
            async with self._opened().get(url, headers=headers, timeout=within, allow_redirects=False) as response:
                if response.status != 200:
                    raise error_of(response.status, await response.read(), url=self.address.url)
                yield response.content
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from None

    def _opened(self) -> ClientSession:
        self._process.check()
        if self._session is None:
            import aiohttp

            token = {"Authorization": f"Bearer {self.address.token}"} if self.address.token else {}
            # Long polls and streams have connections of their own: the pool must not make others wait for them.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(headers={**CLIENT, **token}, connector=connector)
        return self._session

    def _url(self, path: str) -> Any:
        from yarl import URL

        return URL(self.address.url + path, encoded=True)

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.address.url} cannot be reached ({_reason(error)})",
            field="url",
            fix="Check the address, and that `wakeful serve` runs there.",
        )

    def _broken_off(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.address.url} did not answer ({_reason(error)}): nobody knows whether it did what was asked",
            field="url",
            fix="Look before you repeat it; an alarm set with a key is set once.",
        )

    def _untrusted(self, error: Exception) -> InvalidConfig:
        return InvalidConfig(
            f"the certificate of {self.address.url} is not trusted ({_reason(error)})",
            field="url",
            fix="Name it as its certificate does; SSL_CERT_FILE names further authorities.",
        )


class _Unanswered(Exception):
    """No answer, or one that says it was not done. `never_left`: the server has not taken it."""

    def __init__(self, error: WakefulError, *, never_left: bool = False, wait: float = 0.0) -> None:
        super().__init__()
        self.error = error
        self.never_left = never_left
        self.wait = wait


def _query(query: Mapping[str, str] | None) -> str:
    said = {name: value for name, value in (query or {}).items() if value != ""}
    return "?" + urlencode(said) if said else ""


def _seconds(header: str | None) -> float | None:
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return "no answer in time"
    system = getattr(error, "os_error", None)
    return str(getattr(system, "strerror", "") or error or type(error).__name__)


# Refusals


def error_of(status: int, body: bytes, *, retry_after: float | None = None, url: str = "") -> WakefulError:
    """What the server refused, with its field and its fix; what does not speak as wakeful does is said to be that."""
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        told = {}
    if not isinstance(told.get("detail"), str) or not isinstance(told.get("code"), str):
        return _stranger(status, url)
    kind = _BY_CODE.get(told["code"]) or _BY_STATUS.get(status)
    if kind is None:
        kind = InvalidRequest if status < 500 else StoreUnavailable
    field, fix = str(told.get("field", "")), str(told.get("fix", ""))
    error = kind(_message(told["detail"], field, fix), field=field, fix=fix)
    if isinstance(repair := told.get("repair"), dict):
        error.repair = repair
    if isinstance(error, TooMany):
        error.retry_after = retry_after
    return error


def _message(detail: str, field: str, fix: str) -> str:
    """What is left of `str(error)` without the field before it and the fix behind it."""
    return detail.removeprefix(f"{field}: " if field else "").removesuffix(f" {fix}" if fix else "").removesuffix(".")


def _stranger(status: int, url: str) -> WakefulError:
    if status >= 500:
        return StoreUnavailable(f"{url} answered {status}", field="url", fix="Look at what stands before the server.")
    if 300 <= status < 400:
        return InvalidConfig(
            f"{url} answered {status} and sends us elsewhere", field="url", fix="Give the address it leads to."
        )
    return InvalidConfig(
        f"{url} answered {status}, and not as wakeful does", field="url", fix="Give the address of a `wakeful serve`."
    )


# Live events


class EventPlace:
    """What of a stream was seen: where to go on, and how often nothing came since."""

    def __init__(self) -> None:
        self.last_id = ""
        self.failures = 0


async def followed(
    connection: ServerConnection,
    clock: Clock,
    whats: Sequence[str],
    alarm_id: str,
    opened: asyncio.Event | None = None,
) -> AsyncIterator[LiveEvent]:
    """Events as they come. `what` is "reset" where some were missed: read again what you show.

    `opened` is set once the server listens on our behalf.
    """
    query, place = {"events": ",".join(whats), "alarm_id": alarm_id}, EventPlace()
    while True:
        resume = {"Last-Event-ID": place.last_id} if place.last_id else {}
        try:
            async with connection.stream("/v1/events", query, resume) as lines:
                if opened is not None:
                    opened.set()
                async for event in _told(lines, place, connection):
                    yield event
        except (StoreUnavailable, TooMany) as error:
            if place.failures == 0:
                log.warning("live events pause: %s", error.message)
        place.failures += 1
        await clock.sleep(backoff(place.failures - 1, base=FIRST_PAUSE, cap=LONGEST_PAUSE).total_seconds())


async def _told(lines: Any, place: EventPlace, connection: ServerConnection) -> AsyncIterator[LiveEvent]:
    """The events of one stream until it ends."""
    fields: dict[str, str] = {}
    async for raw in lines:
        line = raw.decode().rstrip("\r\n")
        if line:
            name, _, text = line.partition(": ")
            fields[name] = text
            continue
        place.failures = 0
        what, data, id = fields.get("event", ""), fields.get("data", ""), fields.get("id", "")
        fields = {}
        if what and what != "dropped":
            yield _event(what, data, connection)
            place.last_id = id or place.last_id  # only once it was taken


def _event(what: str, data: str, connection: ServerConnection) -> LiveEvent:
    if what != RESET:
        return msgspec.json.decode(data, type=LiveEvent)
    reason = str(msgspec.json.decode(data, type=dict[str, Any]).get("reason", ""))
    return LiveEvent(seq=0, at=connection.now(), what=RESET, alarm_id="", reason=reason)

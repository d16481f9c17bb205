"""Asking a server: one session, limits on every wait, and repeating what may be repeated.

What never left is asked again, and so is what the server says it did not take (429). Where an answer got lost, only
what does the same twice as once is asked again: reading, cancelling, a create with a key, a report.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Raw

from wakeful.clock import Clock
from wakeful.errors import InvalidConfig, OneProcess, StoreUnavailable, TooMany, WakefulError
from wakeful.remote.address import ServerAddress
from wakeful.remote.problems import error_of
from wakeful.rules.backoff import backoff, spread

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

CONNECT_WITHIN: Final = 10.0
ANSWER_WITHIN: Final = 45.0  # a server gives up after 30 seconds, and says so
SILENCE: Final = 45.0  # of a stream of events: something comes every 15 seconds
TRIES: Final = 4
FIRST_WAIT: Final = 0.2
LONGEST_WAIT: Final = 10.0  # what a server asks us to wait for longer than this is said to the caller instead
AWAY: Final = (502, 503, 504)
CLIENT: Final = {"X-Wakeful-Client": "python"}

Answered = dict[str, Raw]  # the fields of an answer, each still as it came


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

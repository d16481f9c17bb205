"""The servers a DSN names: connecting to one of them, each within its own time, and noticing when one falls silent.

A server that was killed refuses at once. One that froze, or whose machine is gone, accepts and never answers: it must
not hold up the way to the next. So each has a limit of its own, and one that was silent is tried last. A statement that
takes long says nothing by itself: where there is somewhere else to go, its server is asked on a new connection whether
it is there.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncpg
from msgspec import Struct

from wakeful.errors import StoreUnavailable

if TYPE_CHECKING:
    Direct = asyncpg.Connection[asyncpg.Record]

CONNECT_WITHIN: Final = 3.0  # to any of them
HOST_WITHIN: Final = 1.0  # to one of several
PROBE_WITHIN: Final = 1.5  # for an answer to whether it is there at all
_PORT: Final = 5432
# What one server says, or does not say, that the next may know better. Not a wrong password.
_NEXT: Final = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.exceptions.TargetServerAttributeNotMatched,
)


class Lost(StoreUnavailable):
    """The connection went away, with or without the work having been done."""


class Host(Struct, frozen=True):
    name: str
    port: int

    def __str__(self) -> str:
        if self.name.startswith("/"):
            return self.name
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


def hosts_of(dsn: str) -> list[Host]:
    """The servers a DSN names, in its order; none where it leaves that to the environment, or cannot be read."""
    try:
        parts = urlsplit(dsn)
        query = dict(parse_qsl(parts.query))
        named = [unquote(one) for one in parts.netloc.rpartition("@")[2].split(",")]
        if named == [""]:
            named = query.get("host", "").split(",")
        ports = [int(port) for port in query.get("port", "").split(",") if port] or [_PORT]
        return [_host(one, ports[min(at, len(ports) - 1)]) for at, one in enumerate(named) if one]
    except ValueError:
        return []  # the driver says what is wrong with it


def _host(named: str, port: int) -> Host:
    if named.startswith("/"):
        return Host(named, port)
    if named.startswith("["):
        name, _, said = named[1:].partition("]")
        said = said.removeprefix(":")
    else:
        name, _, said = named.partition(":")
    return Host(name, int(said) if said else port)


class Hosts:
    """Connects to one of the servers, the one that answered last before the others."""

    def __init__(self, dsn: str, *, hide: str = "") -> None:
        self._dsn = dsn
        self._hide = hide
        self._named = hosts_of(dsn)
        self._last: Host | None = None
        self._silent: set[Host] = set()
        self._connections: weakref.WeakKeyDictionary[Direct, Host] = weakref.WeakKeyDictionary()
        self.trouble = ""  # why nobody could be connected to, when that was tried last

    @property
    def several(self) -> bool:
        return len(self._named) > 1

    async def connect(self, **options: Any) -> Direct:
        """A connection to the first server that is fit. Lost, or StoreUnavailable where one was waited for in vain."""
        try:
            connection = await (self._any(options) if self.several else self._only(options))
        except StoreUnavailable as error:
            self.trouble = error.message
            raise
        self.trouble = ""
        return connection

    async def _only(self, options: dict[str, Any]) -> Direct:
        try:
            return await asyncpg.connect(self._dsn, **{**options, "timeout": CONNECT_WITHIN})
        except OSError as error:
            where = str(self._named[0]) if self._named else "the server named by the environment"
            raise self._failed([(where, error)], CONNECT_WITHIN) from error

    async def _any(self, options: dict[str, Any]) -> Direct:
        failed: list[tuple[str, Exception]] = []
        within = min(HOST_WITHIN, CONNECT_WITHIN / len(self._named))
        for host in self._in_order():
            try:
                connection = await self._to(host, within, options)
            except _NEXT as error:
                failed.append((str(host), error))
                if isinstance(error, TimeoutError):
                    self._silent.add(host)
            else:
                self._last = host
                self._silent.discard(host)
                self._connections[connection] = host
                return connection
        raise self._failed(failed, within) from failed[-1][1]

    def _in_order(self) -> list[Host]:
        return sorted(self._named, key=lambda host: (host in self._silent, host != self._last))

    async def _to(self, host: Host, within: float, options: dict[str, Any]) -> Direct:
        wanted = {**_wanted(self._dsn), **options, "timeout": within}
        connection: Direct = await asyncpg.connect(self._dsn, host=host.name, port=host.port, **wanted)
        return connection

    def _failed(self, failed: list[tuple[str, Exception]], within: float) -> StoreUnavailable:
        why = "; ".join(f"{where}: {self._why(error, within)}" for where, error in failed)
        # Who waited long for one is told so; what refused at once may be there a moment later.
        kind = StoreUnavailable if any(isinstance(error, TimeoutError) for _, error in failed) else Lost
        return kind(f"cannot connect to PostgreSQL at {why}")

    def _why(self, error: Exception, within: float) -> str:
        match error:
            case TimeoutError():
                return f"no answer within {within:g} s"
            case ConnectionRefusedError():
                return "connection refused"
            case FileNotFoundError():
                return "there is no such socket"
            case asyncpg.exceptions.TargetServerAttributeNotMatched():
                return "it is read-only, or does not match target_session_attrs"
        said = str(error).strip() or "the connection was closed"
        return said.replace(self._hide, "***") if self._hide else said

    async def let_go_of_the_silent(self, **options: Any) -> None:
        """Ask every server there are connections to whether it is there, and end those to one that is not."""
        asked = set(self._connections.values())
        answers = await asyncio.gather(*(self._answers(host, options) for host in asked))
        for host, is_there in zip(asked, answers, strict=True):
            if not is_there:
                self._silent.add(host)
                for connection in [one for one, at in self._connections.items() if at == host]:
                    connection.terminate()

    async def _answers(self, host: Host, options: dict[str, Any]) -> bool:
        options = {**options, "target_session_attrs": "any"}
        try:
            connection = await self._to(host, PROBE_WITHIN, options)
        except OSError:
            return False
        except (asyncpg.PostgresError, asyncpg.InterfaceError):
            return True  # too many connections, or starting up: somebody said so
        try:
            # Behind pgbouncer only a statement gets as far as the server.
            await connection.execute("select 1", timeout=PROBE_WITHIN)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        finally:
            connection.terminate()
        return True


def _wanted(dsn: str) -> dict[str, Any]:
    """Of several servers the one that takes writes, unless the DSN or the environment says otherwise."""
    said = "PGTARGETSESSIONATTRS" in os.environ
    with suppress(ValueError):
        said = said or "target_session_attrs" in dict(parse_qsl(urlsplit(dsn).query))
    return {} if said else {"target_session_attrs": "read-write"}

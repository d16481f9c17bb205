"""The connections to PostgreSQL: a pool that costs no round trip of its own, and what its errors mean to a caller.

Nothing here hangs: connecting, waiting for a connection and every statement have a limit. A connection that is lost is
opened again and the work repeated, a few times; so all work handed in here must be safe to repeat. Where the DSN names
several servers, one that falls silent is left for the next within seconds.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

from wakeful.clock import SystemClock, stopwatch
from wakeful.errors import InvalidConfig, OneProcess, StoreBusy, StoreUnavailable
from wakeful.store.batching import StoreRefused
from wakeful.store.records import Page, too_slow

try:
    import asyncpg
except ImportError as missing:
    raise InvalidConfig("PostgreSQL needs the package asyncpg.", fix="pip install 'wakeful[postgres]'") from missing

from wakeful.store.postgres.hosts import CONNECT_WITHIN, Hosts, Lost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asyncpg.pool import PoolConnectionProxy

    from wakeful.store.postgres.hosts import Direct

    Record = asyncpg.Record
    Connection = Direct | PoolConnectionProxy[Record]
    _Connection = asyncpg.Connection[Record]
else:
    _Connection = asyncpg.Connection

KEPT_FOR: Final = 5.0  # seconds
EACH_TIME: Final = "force_custom_plan"
_ONCE: Final = "force_generic_plan"


class PlanningConnection(_Connection):
    """A connection that prepares plans: some statements are planned each time, others once every KEPT_FOR seconds.

    Lists and searches are planned each time: their filters vary, and their plan must fit the tables as they are. The
    statements that a worker repeats (claim, settle, create, what is due next) use generic plans: their plan does not
    depend on their values, and planning took most of the server's time for small batches. A generic plan depends on the
    size of the tables: one made while a table was empty would read all of it later. So it is replaced after KEPT_FOR.

    Any connection of the pool runs both kinds; `plan_cache_mode` is set when it changes over. Behind pgbouncer nothing
    is set: the session is shared.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._keeps: bool | None = False  # None: asked for, and no answer came
        self._planned = stopwatch()  # since when: plans made before that are gone

    async def keep_plans(self, wanted: bool) -> None:
        """See to it that the statements that follow are planned so."""
        said = []
        if wanted != self._keeps:
            said.append(f"set plan_cache_mode = {_ONCE if wanted else EACH_TIME}")
        if wanted and (now := stopwatch()) - self._planned > KEPT_FOR:
            said.append("discard plans")
            self._planned = now
        if said:
            self._keeps = None
            await self.execute("; ".join(said))
            self._keeps = wanted


LOCK_WAIT: Final = "100ms"  # of a batch: the neighbours of a locked row do not wait for it
LONG_LOCK_WAIT: Final = "5s"  # of a row on its own
ANSWER_WITHIN: Final = 8.0
SUSPECT_AFTER: Final = 1.5  # seconds that work takes before its server is asked whether it is there
_CHECK_EVERY: Final = 0.25
_GIVE_UP_WITHIN: Final = 1.0  # on a connection whose statement was given up: then it is closed instead of kept
_PAUSES: Final = (0.05, 0.4)  # before the second and the third try of something whose connection was lost
_SETTINGS: Final = {
    "application_name": "wakeful",
    "jit": "off",  # compiling costs more than any of our statements
    "plan_cache_mode": EACH_TIME,
    "random_page_cost": "1.1",
    "max_parallel_workers_per_gather": "0",  # starting them takes longer than any of our statements
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_ARRAYS: Final = (
    "bigint",
    "boolean",
    "integer",
    "interval",
    "json",
    "text",
    "timestamptz",
    "uuid",
)  # of these we send arrays
# Cardinality, data, constraints, checks of a view, limits (such as a value too long for its index), somebody's trigger.
_CONTENT: Final = {"21", "22", "23", "44", "54", "P0"}
_BUSY: Final = {"55P03", "40P01", "40001", "57014"}  # lock timeout, deadlock, serialization, cancelled
# Too many connections, and 25006: it became a standby. The next connection may find the new primary.
_LOST: Final = {"53300", "25006"}

T = TypeVar("T")


def lock_wait(alone: bool) -> str:
    return LONG_LOCK_WAIT if alone else LOCK_WAIT


def translated(error: Exception, *, hide: str = "") -> StoreUnavailable | InvalidConfig:
    """What a driver's error means, in our words. `hide`: a password that must not be shown."""
    said = str(error).strip() or type(error).__name__
    if hide:
        said = said.replace(hide, "***")
    match error:
        case StoreUnavailable() | InvalidConfig():
            return error
        case asyncpg.PostgresError():
            return _from_server(error.sqlstate or "", said)
        case asyncpg.exceptions.ClientConfigurationError():
            return InvalidConfig(f"PostgreSQL: {said}", field="database")
        case asyncpg.exceptions.DataError() | UnicodeError():
            return StoreRefused(f"PostgreSQL refuses this: {said}")
        case TimeoutError():
            return StoreUnavailable("PostgreSQL did not answer in time")
        case _:
            return Lost(f"PostgreSQL is not reachable: {said}")


def _from_server(state: str, said: str) -> StoreUnavailable:
    if state in _BUSY:
        return StoreBusy(f"PostgreSQL is busy: {said}")
    if state in _LOST or state[:2] == "08" or state[:3] == "57P":
        return Lost(f"PostgreSQL is not reachable: {said}")
    if state[:2] in _CONTENT:
        return StoreRefused(f"PostgreSQL refuses this: {said}")
    # Short of something, or broken: that may pass. A wrong password or a missing database stays until it is set right.
    by_machine = state[:2] in ("53", "58")
    return StoreUnavailable(
        f"PostgreSQL answered with an error: {said} ({state})",
        passing=by_machine or state[:2] == "XX",
        by_machine=by_machine,
    )


DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    UnicodeError,
)


class Database:
    def __init__(self, dsn: str, *, pool_size: int, pgbouncer: bool, read_within: float = 5.0) -> None:
        self._dsn = dsn
        self._pool_size = pool_size
        self._pgbouncer = pgbouncer
        self._pool: asyncpg.Pool[Record] | None = None
        self._opening = asyncio.Lock()
        self._closed = False
        self.process = OneProcess()
        self._password = _password_in(dsn)
        self._hosts = Hosts(dsn, hide=self._password)
        self._begun: dict[object, float] = {}  # work under way: since when
        self._watching: asyncio.Task[None] | None = None
        self._within = read_within
        # Lists, searches and counts take no more than these: claiming, settling and signing in find one free.
        self._long_reads = asyncio.Semaphore(max(1, pool_size // 2 - 1))

    async def close(self) -> None:
        self._closed = True
        if self.process.is_forked:
            return  # the connections are the parent's: a farewell on one would end it there
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None
        if self._pool is None:
            return
        pool, self._pool = self._pool, None
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                await pool.close()
        except (TimeoutError, *DRIVER_ERRORS):
            pool.terminate()

    async def fetch(self, sql: str, *args: Any, keep_plans: bool = False) -> list[Record]:
        return await self.run(lambda connection, again: connection.fetch(sql, *args), keep_plans=keep_plans)

    async def long_read(self, sql: str, *args: Any) -> list[Record]:
        """Fetch what may take long: beside others of its kind only, and no longer than is fair."""

        async def work(connection: Connection, again: bool) -> list[Record]:
            return await connection.fetch(sql, *args)

        return await self.run_long(work)

    async def long_page(self, sql: str, *args: Any, page: Callable[[], Page[Record]]) -> Page[Record]:
        """The same, row by row, until the page is full."""

        async def work(connection: Connection, again: bool) -> Page[Record]:
            filled = page()
            async with connection.transaction(readonly=True):
                rows = await connection.cursor(sql, *args)
                while some := await rows.fetch(filled.at_once):
                    if not all(map(filled.take, some)):
                        break
            return filled

        return await self.run_long(work)

    async def run_long(self, work: Callable[[Connection, bool], Awaitable[T]]) -> T:
        async def limited(connection: Connection, again: bool) -> T:
            try:
                async with asyncio.timeout(self._within):
                    return await work(connection, again)
            except TimeoutError:
                raise too_slow(self._within) from None

        self.process.check()
        async with self._long_reads:
            return await self.run(limited)

    async def run(self, work: Callable[[Connection, bool], Awaitable[T]], *, keep_plans: bool = False) -> T:
        """Do it on a connection. `again` tells the work that an earlier try may have been done and its answer lost.

        `keep_plans`: for statements that are repeated all day (plans.py).
        """
        for tried, pause in enumerate((*_PAUSES, None)):
            try:
                async with self.connection(keep_plans=keep_plans) as connection:
                    return await work(connection, tried > 0)
            except StoreUnavailable as error:
                lost = isinstance(error, Lost)
                if lost or isinstance(error.__cause__, TimeoutError):
                    await self._forget_connections()
                # Who waited long enough for an answer gets the error at once, without another try.
                if not lost or pause is None or self._closed:
                    raise
                await SystemClock().sleep(pause)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def connection(self, *, keep_plans: bool = False) -> AsyncIterator[PoolConnectionProxy[Record]]:
        with self.errors_translated():
            pool = await self._open()
            connection = await self._acquire(pool)
            self._begun[connection] = stopwatch()
            try:
                if not self._pgbouncer:  # whose sessions are not ours
                    await connection.keep_plans(keep_plans)  # type: ignore[attr-defined]  # PlanningConnection's
                yield connection
            finally:
                del self._begun[connection]
                await pool.release(connection, timeout=_GIVE_UP_WITHIN)

    async def _acquire(self, pool: asyncpg.Pool[Record]) -> PoolConnectionProxy[Record]:
        try:
            return await pool.acquire(timeout=CONNECT_WITHIN + 1)
        except TimeoutError:
            # Says nothing against the connections there are: they may only be busy.
            busy = f"all {self._pool_size} connections to PostgreSQL are in use, and none became free in time"
            raise StoreUnavailable(self._hosts.trouble or busy) from None

    @contextmanager
    def errors_translated(self) -> Iterator[None]:
        try:
            yield
        except DRIVER_ERRORS as error:
            raise translated(error, hide=self._password) from error

    async def listener(self) -> Direct:
        """A connection of one's own, outside the pool."""
        connection = await self._hosts.connect(**self._options())
        _notice_a_dead_peer(connection)
        return connection

    async def _open(self) -> asyncpg.Pool[Record]:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        self.process.check()
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._pool = await asyncpg.create_pool(
                        self._dsn,
                        min_size=0,
                        max_size=self._pool_size,
                        connect=self._connect,
                        connection_class=PlanningConnection,
                        init=_prepare_behind_pgbouncer if self._pgbouncer else _prepare,
                        reset=_nothing_to_reset,
                        **self._options(),
                    )
                    if self._hosts.several:
                        self._watching = asyncio.create_task(self._watch(), name="wakeful postgres watch")
        return self._pool

    async def _connect(self, *_: Any, **options: Any) -> Direct:
        return await self._hosts.connect(**options)

    async def _watch(self) -> None:
        """Look after work that takes long: slow is not silent, and a server that is silent ends it now, not later."""
        asked = stopwatch()
        while True:
            await SystemClock().sleep(_CHECK_EVERY)
            suspect = stopwatch() - SUSPECT_AFTER
            if asked < suspect and min(self._begun.values(), default=stopwatch()) < suspect:
                await self._hosts.let_go_of_the_silent(**self._options())
                asked = stopwatch()

    def _options(self) -> dict[str, Any]:
        limits = {"command_timeout": ANSWER_WITHIN}
        if self._pgbouncer:
            return {**limits, "statement_cache_size": 0}
        return {**limits, "server_settings": _SETTINGS}

    async def _forget_connections(self) -> None:
        # What broke one connection broke the others, also where the server only became a standby: better to connect
        # again, perhaps elsewhere, than to try them one by one.
        if self._pool is not None:
            await self._pool.expire_connections()


def _password_in(dsn: str) -> str:
    with suppress(ValueError):
        return unquote(urlsplit(dsn).password or "")
    return ""


async def _nothing_to_reset(connection: Connection) -> None:
    """No statement of ours leaves anything in a session, so giving a connection back needs no round trip."""


async def _prepare(connection: Connection) -> None:
    """Two things the driver has no option for. Leaky: without these attributes of it we do without."""
    # It looks up array types once, and turns the session's jit off and on around that: behind pgbouncer these could be
    # two sessions, and neither is ours.
    caps = getattr(connection, "_server_caps", None)
    if caps is not None:
        connection._server_caps = caps._replace(jit=False)  # type: ignore[union-attr]
    _notice_a_dead_peer(connection)


async def _prepare_behind_pgbouncer(connection: Connection) -> None:
    """The driver looks up the types of our parameters: all at once and now, with jit off in that transaction.

    No setting of ours reaches a session there, and compiling the look-up takes ten times as long as the look-up. Left
    to itself it would come with the first claim, and with every connection anew.
    """
    await _prepare(connection)
    async with connection.transaction():
        await connection.execute("set local jit = off")
        casts = ", ".join(f"${at}::{kind}[]" for at, kind in enumerate(_ARRAYS, 1))
        await connection.fetch(f"select {casts}", *([None] * len(_ARRAYS)))


def _notice_a_dead_peer(connection: Connection) -> None:
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 10_000)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

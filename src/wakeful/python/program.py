"""What `wakeful.open` returns, whether the alarms are in a database or on a server: the verbs, handlers and `run`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from wakeful.python.verbs import TransactionVerbs, Verbs
from wakeful.settings import Settings

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from wakeful.service.live import LiveEvent
    from wakeful.targets.handler import HandlerFunction

log = logging.getLogger("wakeful.client")

F = TypeVar("F", bound="HandlerFunction")
W = TypeVar("W", bound="Wakeful")


class Wakeful(Verbs, Protocol):
    """The alarms of one owner, as a program holds them.

    >>> async with wakeful.open("wakeful.db") as alarms:
    ...     alarm = await alarms.set("tomorrow at 9am", "Check the grant portal")

    `LocalWakeful` keeps them in a database, `RemoteWakeful` asks a server. What needs the database itself raises
    InvalidRequest on a server: `within`, `for_owner`, `check_targets` and `asgi`.
    """

    @property
    def settings(self) -> Settings:
        """The settings that were in force when it was opened; of a server its address and its zone."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    async def close(self) -> None:
        """Close all that was opened. `async with` does this."""

    def for_owner(self, owner: str) -> Verbs:
        """Return the same verbs for another owner, for a program that keeps alarms of several owners."""

    def within(self, connection: Any) -> AbstractAsyncContextManager[TransactionVerbs]:
        """The verbs that set and change alarms, inside your own transaction on this connection."""

    def events(self, *whats: str, alarm_id: str = "", opened: asyncio.Event | None = None) -> AsyncIterator[LiveEvent]:
        """Follow what happens, as it happens: `async for event in alarms.events(…)`; all of it, or these kinds."""

    def handler(
        self, name: str, *, timeout: float = 900, concurrency: int | None = None, reports: bool = False
    ) -> Callable[[F], F]:
        """Register a function, async or plain, as the target `name` in this process."""

    def declare(self, *names: str) -> None:
        """Name targets that handlers of other processes serve, for a process that only sets alarms."""

    async def run(self, *, signals: bool = True) -> None:
        """Deliver alarms as they become due, until cancelled; then finish or release the deliveries in flight."""

    async def run_due(self) -> int:
        """Deliver what is due now and return how many, for tests and for programs with their own loop."""

    async def check_targets(self) -> None:
        """Raise InvalidConfig if a target cannot work: a table that is missing or has no unique key."""

    def running(self) -> AbstractAsyncContextManager[Self]:
        """Dispatch in the background for as long as the block lasts."""

    def lifespan(self, app: object = None) -> AbstractAsyncContextManager[None]:
        """For Starlette and FastAPI: open with the application, dispatch while it serves, then close."""

    def asgi(self) -> Starlette:
        """Return the HTTP API as an ASGI application, to serve or to mount in your own."""


@asynccontextmanager
async def running(alarms: W) -> AsyncIterator[W]:
    """Dispatch in the background for as long as the block lasts.

    >>> async with alarms.running():
    ...     alarm = await alarms.set("in 5 seconds", "Check the grant portal")

    A dispatcher that ends before the block does is logged at once, and its error is raised at the end.
    """
    dispatching = asyncio.create_task(alarms.run(signals=False), name="wakeful")
    dispatching.add_done_callback(_tell_if_broken)
    try:
        yield alarms
    finally:
        dispatching.cancel()
        await asyncio.wait((dispatching,))
    if not dispatching.cancelled():
        dispatching.result()


@asynccontextmanager
async def lifespan(alarms: Wakeful, app: object = None) -> AsyncIterator[None]:
    """For Starlette and FastAPI: open the store with the application, dispatch while it serves, then close.

    >>> from starlette.applications import Starlette
    >>> app = Starlette(lifespan=wakeful.open("wakeful.db").lifespan)
    """
    async with alarms, running(alarms):
        yield


def _tell_if_broken(dispatching: asyncio.Task[None]) -> None:
    if not dispatching.cancelled() and (error := dispatching.exception()) is not None:
        log.error("the dispatcher has ended: %s: %s", type(error).__name__, error)

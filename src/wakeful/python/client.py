"""The Python client: all verbs (service/alarms.py), the handlers of this process, and the dispatcher."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import nullcontext
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from msgspec.structs import replace

from wakeful._version import __version__
from wakeful.clock import Clock, SystemClock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.ids import Ids
from wakeful.model.alarm import INBOX
from wakeful.python.program import F, lifespan, running
from wakeful.rules.users import Users
from wakeful.runtime.metrics import Metrics
from wakeful.runtime.os_signals import ending_run
from wakeful.service import Alarms, Caller, Service
from wakeful.settings import Settings
from wakeful.settings.values import users_of
from wakeful.store import Store, Worker
from wakeful.store.maintenance import adopt_newer_rules
from wakeful.targets.inbox import Inbox

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.routing import BaseRoute

    from wakeful.dispatcher import Dispatcher, DispatcherHealth, MakeFeature, ServedTarget
    from wakeful.service.live import LiveEvent
    from wakeful.targets import Target

log = logging.getLogger("wakeful.client")


@runtime_checkable
class Checked(Protocol):
    """A target that can check at startup whether it will work."""

    async def check(self, database: str) -> None: ...


async def check_target(name: str, target: Target, settings: Settings) -> None:
    """InvalidConfig, with its place in the settings, if a target cannot work."""
    if not isinstance(target, Checked):
        return
    try:
        await target.check(settings.db)
    except InvalidRequest as error:
        field = f"targets.{name}.{error.field}".rstrip(".")
        raise settings.located(InvalidConfig(error.message, field=field, fix=error.fix)) from None


@runtime_checkable
class Reachable(Protocol):
    """A target that can tell whether its receiver is there, without delivering anything."""

    async def reach(self) -> str: ...


class LocalWakeful(Alarms):
    """The alarms of one owner in one store.

    >>> async with wakeful.open("wakeful.db") as alarms:
    ...     alarm = await alarms.set("tomorrow at 9am", "Check the grant portal")
    """

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings,
        targets: Mapping[str, ServedTarget],
        clock: Clock | None = None,
        via: str = "python",
        task_target: Callable[[], ServedTarget] | None = None,
        features: Callable[[], Iterable[MakeFeature]] = tuple,
        declared: Mapping[str, Users] | None = None,
    ) -> None:
        self.settings = settings
        self._store = store
        self._clock = clock or SystemClock()
        self._served: dict[str, ServedTarget] = dict(targets)
        self._declared = dict(declared or {})  # served by other processes, and who may use them
        self._task_target = task_target
        self._features = features
        self._implied = ""  # the target that tasks have where nobody has named one: a handler of that name replaces it
        self._dispatcher: Dispatcher | None = None
        self._run: asyncio.Task[object] | None = None
        self.metrics = Metrics(version=__version__, store="postgres" if "://" in settings.db else "sqlite")
        service = Service(
            store,
            clock=self._clock,
            settings=settings,
            targets=self._served,
            declared=self._declared,
            metrics=self.metrics,
        )
        # Whoever is here holds the database: no limits.
        super().__init__(service, Caller(owner=settings.owner, via=via, by=via, limited=False, remote=False))
        for served in self._served.values():
            if isinstance(served.target, Inbox):
                served.target.arriving = self.service.inbox_signal.ring

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:  # then nobody calls __aexit__, and connections would stay open
            await self.close()
            raise
        return self

    async def _open(self) -> None:
        """Open the database. After a failure that passes it can be called again, until `close`."""
        try:
            await self._store.migrate()
        except InvalidConfig as error:
            raise self.settings.located(error) from None
        await adopt_newer_rules(self._store.maintenance)
        name = self.settings.tasks_target
        if name not in self._served and self._task_target is not None and await self._store.tasks.table():
            self._served[name] = self._task_target()
            self._implied = name

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the targets and the store. `async with` does this.

        >>> await alarms.close()
        """
        if (run := self._run) is not None and run is not asyncio.current_task():
            run.cancel()  # else its deliveries could not be settled any more, and waited for their leases to end
            await asyncio.wait((run,))
        for served in self._served.values():
            await served.target.close()
        await self._store.close()

    def for_owner(self, owner: str) -> Alarms:
        """Return the same verbs for another owner, for a program that keeps alarms of several owners.

        >>> (await alarms.for_owner("eve").set("in 1 hour", "Stretch")).owner_did
        'eve'
        """
        return Alarms(self.service, replace(self.caller, owner=owner))

    async def events(
        self, *whats: str, alarm_id: str = "", opened: asyncio.Event | None = None
    ) -> AsyncIterator[LiveEvent]:
        """Follow what happens, as it happens: `async for event in alarms.events(…)`. All of it, unless kinds are named.

        >>> following = alarms.events("fired", "failed")

        A hint for those who show alarms: whoever is woken by one sets a target, or reads the inbox. `opened` is set
        once nothing is missed any more: what `recent_events` returns after that joins up with what follows.
        """
        from wakeful.service.live import Live
        from wakeful.service.watch import check_whats

        check_whats(*whats)
        live = Live(self._store, self._clock, self.settings.tick)
        async with live.subscribed(self.settings.owner, whats, alarm_id) as subscription:
            if opened is not None:
                opened.set()
            while not subscription.dropped.is_set():
                yield await subscription.next()

    # Serve

    def handler(
        self, name: str, *, timeout: float = 900, concurrency: int | None = None, reports: bool = False
    ) -> Callable[[F], F]:
        """Register a function, async or plain, as the target `name` in this process.

        >>> @alarms.handler("ops")
        ... async def ops(wake: wakeful.Wake) -> str:
        ...     return f"read {wake.message}"

        What it returns is the result of the fire; an exception is a failure, which is retried. With `reports` it may
        return None and report later with `completed` or `delivery_failed`.
        """

        from wakeful.dispatcher import ServedTarget
        from wakeful.targets.handler import Handler

        if not isinstance(name, str):
            raise InvalidRequest(
                "a handler needs the name of its target", field="handler", fix='Write @alarms.handler("NAME").'
            )

        def register(function: F) -> F:
            if name == INBOX or (name in self._served and name != self._implied):
                raise InvalidRequest(f"the target {name!r} exists already", field="handler", fix="Choose another name.")
            if name == self._implied:
                self._implied = ""
            target = Handler(function, timeout=timeout, reports=reports)
            room = target.room(self.settings.total_concurrency) if concurrency is None else concurrency
            self._served[name] = ServedTarget(target, room, breaks=False, users=users_of(self.settings, name))
            return function

        return register

    def declare(self, *names: str) -> None:
        """Name targets that handlers of other processes serve, for a process that only sets alarms.

        Without it a target is known once a process that serves it has run on this database.

        >>> alarms.declare("ops")
        >>> (await alarms.set("tomorrow at 9am", "Check the grant portal", target="ops")).target
        'ops'
        """
        self._declared |= dict.fromkeys(names, Users())

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher, created on first use: handlers are registered before it runs."""
        if self._dispatcher is None:
            from wakeful.dispatcher import Dispatcher

            now = self._clock.now()
            worker = Worker(
                id=Ids().new(now),
                host=socket.gethostname(),
                pid=os.getpid(),
                version=__version__,
                started_at=now,
                seen_at=now,
            )
            base = self.settings.public_url or self.settings.local_url
            self._dispatcher = Dispatcher(
                self._store,
                self._served,
                worker=worker,
                settings=self.settings,
                clock=self._clock,
                report_url=base.rstrip("/") + "/v1/fires/{fire_id}/report",
                metrics=self.metrics,
                features=self._features(),
            )
        return self._dispatcher

    async def run(self, *, signals: bool = True) -> None:
        """Deliver alarms as they become due, until cancelled; then finish or release the deliveries in flight.

        >>> running = asyncio.create_task(alarms.run())
        >>> running.cancel()
        True

        The first SIGTERM ends the program in the same way, with status 0; a second one ends it at once. That is so in
        the main thread, where the program has no handler of its own for it. With `signals=False` no signal is handled.
        """
        self._run = asyncio.current_task()
        try:
            with ending_run() if signals else nullcontext():
                await self.check_targets()
                await self.dispatcher.run()
        finally:
            self._run = None

    async def check_targets(self) -> None:
        """Raise InvalidConfig if a target cannot work: a table that is missing, a program that cannot be executed.

        >>> await alarms.check_targets()
        """
        for name, served in self._served.items():
            await check_target(name, served.target, self.settings)

    running = running
    lifespan = lifespan

    async def run_due(self) -> int:
        """Deliver what is due now and return how many, for tests and for programs with their own loop.

        >>> await alarms.run_due()
        0
        """
        return await self.dispatcher.run_due()

    def asgi(self) -> Starlette:
        """Return the HTTP API as an ASGI application, to serve or to mount in your own.

        >>> app = alarms.asgi()
        """
        from wakeful import dashboard
        from wakeful.http import did, health, websocket
        from wakeful.http.app import application
        from wakeful.http.endpoint import Context
        from wakeful.http.envelope import Envelope
        from wakeful.http.security.auth import Auth
        from wakeful.http.sse import LiveContext, OpenConnections
        from wakeful.service.live import Live

        auth = Auth(self._store, self.settings, self._clock)
        extra = [*did.routes(auth, self._store, self.settings, self._clock), *_mcp_routes(self.service, self.settings)]
        watching = health.routes(
            self._store, self.metrics, lease=self.settings.lease, targets=self._served, heartbeat=self._pulse
        )
        live = Live(self._store, self._clock, self.settings.tick)
        context = Context(self.service, self._store, self.settings)
        open_connections = OpenConnections(auth, self.service.inbox_signal, self._clock)
        followed = LiveContext(context, live, auth, open_connections)
        link = dashboard.SignInLink(self._store, self.settings.owner, self._clock)
        pages = dashboard.routes(context, followed, link)
        extra += [*watching, *websocket.routes(followed), *pages]
        app = application(self.service, self._store, self.settings, auth=auth, extra=extra)
        app.state.sign_in_link = link  # `serve` prints it
        if self.settings.chronos_envelope:
            app.add_middleware(Envelope)
        app.add_middleware(health.RequestMetrics, metrics=self.metrics)  # outermost: refusals count too
        return app

    def _pulse(self) -> DispatcherHealth | None:
        return None if self._dispatcher is None else self._dispatcher.health


def has_mcp() -> bool:
    """Return whether MCP can be served: its package is optional, and takes a second to import."""
    return find_spec("mcp") is not None


def _mcp_routes(service: Service, settings: Settings) -> list[BaseRoute]:
    if not has_mcp():
        return []
    from wakeful.mcp import http

    return http(service, settings)

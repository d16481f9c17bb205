"""The long-running process: the dispatcher, the HTTP API or only health and metrics, and an orderly shutdown.

The first SIGTERM or SIGINT stops accepting and claiming, answers what was accepted and lets deliveries in flight
finish; the second ends the process at once. Nothing is lost by that: leases expire.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import math
import os
import pkgutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette

from wakeful import schedule
from wakeful._version import __version__
from wakeful.errors import InvalidConfig, StoreUnavailable
from wakeful.http import health
from wakeful.http.app import with_middleware
from wakeful.http.http_server import HttpServer
from wakeful.http.security.auth import Auth, is_loopback
from wakeful.http.security.connection import Connection, ConnectionLimiter, raise_limit, room
from wakeful.http.websocket import MESSAGE_LIMIT
from wakeful.process.processes import ParentLink
from wakeful.python.client import LocalWakeful, Reachable, has_mcp
from wakeful.runtime import systemd
from wakeful.runtime.logs import log_to_stderr, shown
from wakeful.runtime.os_signals import handling_signals, stopped_by_signals
from wakeful.service.tasks import USUAL_TABLE
from wakeful.store.sqlite.file import begin_anew, expect

if TYPE_CHECKING:  # a worker shows no pages, and loads nothing for them
    from wakeful.dashboard import SignInLink

__all__ = ["log_to_stderr", "run_process", "serve", "shown", "stay", "tune_interpreter", "work"]

log = logging.getLogger("wakeful.server")

TURN: Final = 0.00005
SEND_BUFFER: Final = 128 * 1024  # bytes; Linux makes twice as much of it
LATER: Final = (
    "encodings.idna",
    *(f"wakeful.schedule.{module.name}" for module in pkgutil.iter_modules(schedule.__path__)),
)
# Seconds after which a thread that computes lets the event loop go on, each time the loop has waited for something. By
# Python's own 5 ms a rare rule that is worked out in a thread delays every wake by a multiple of that.
SWITCH: Final = 0.001
FIRST_WAIT, LONGEST_WAIT = 0.25, 15.0  # seconds between two tries to open a database that is away at the start


def run_process(main: Coroutine[Any, Any, None]) -> None:
    """Run a long-lived process, on uvloop where there is one. Commands and the library do without: it loads slowly."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    sys.setswitchinterval(SWITCH)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


async def stay(
    alarms: LocalWakeful,
    run: Callable[[LocalWakeful], Awaitable[None]],
    *,
    create: bool = False,
    parent: ParentLink | None = None,
) -> None:
    """Open the database as soon as it can be reached, and run until told to stop.

    Create: an empty file is made also where there has been a database that is gone. Parent: who else tells it to stop.
    """
    file, tells = _file(alarms.settings.db), parent is None or parent.announces
    if file is not None and create:
        begin_anew(file)
    # Without a gap: from the first try to open the database until it is closed.
    with handling_signals() as handler, parent.heard(handler) if parent else contextlib.nullcontext():
        telling = parent.say_alive(alarms.service.clock, lambda: is_alive(alarms)) if parent else _tell_systemd(alarms)
        alive = asyncio.create_task(telling, name="wakeful watchdog")
        try:
            if await _opened(alarms):
                if file is not None:
                    expect(file)
                async with _telling_of_targets(alarms) if tells else contextlib.nullcontext():
                    await run(alarms)
        finally:
            alive.cancel()
            await alarms.close()


async def _tell_systemd(alarms: LocalWakeful) -> None:
    """Say again and again that this process is alive. A loop that stands still says nothing, and is restarted.

    So is one whose dispatcher does not run any more. A database that is away does not call for a restart: waiting for
    it is what this process does.
    """
    while (interval := systemd.watchdog_interval()) is not None:
        if is_alive(alarms):
            systemd.notify(systemd.ALIVE)
        await alarms.service.clock.sleep(interval)


def is_alive(alarms: LocalWakeful) -> bool:
    """Whether this process is as it should be: the loop of its dispatcher, if it has one, runs."""
    pulse = alarms._pulse()
    return pulse is None or not pulse.stuck


def _file(db: str) -> str | None:
    return None if "://" in db else os.path.abspath(db)


async def _opened(alarms: LocalWakeful) -> bool:
    """Open the database, waiting for it if that can help, else raise. False: told to stop meanwhile."""
    stopped, wait = asyncio.Event(), FIRST_WAIT
    with stopped_by_signals(stopped.set):
        while not stopped.is_set():
            opening = asyncio.ensure_future(alarms._open())
            await _unless(stopped, opening)
            if opening.cancelled():
                break
            error = opening.exception()
            if error is None:
                return True
            if not isinstance(error, StoreUnavailable) or not error.passing:
                raise error
            log.warning("cannot start yet, trying again in %.2f s: %s", wait, error)
            await _unless(stopped, asyncio.ensure_future(alarms.service.clock.sleep(wait)))
            wait = min(wait * 2, LONGEST_WAIT)
    return False


async def _unless(stopped: asyncio.Event, doing: asyncio.Future[Any]) -> None:
    """Until it is done, or given up because of a stop."""
    stop = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((doing, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))


async def serve(
    alarms: LocalWakeful, *, ready: Callable[[str], None] | None = None, parent: ParentLink | None = None
) -> None:
    """Dispatch and answer HTTP until told to stop. `ready` is called with the address once connections are accepted.

    With a parent, other processes listen at the same port, and one of them says where that is.
    """
    await _prepare(alarms)
    await _tell_of_tokens(alarms)
    with await _listen(alarms, "port", is_shared=parent is not None) as listener:
        # With port 0 the real one is known only now, and report URLs must name it.
        alarms.settings = replace(alarms.settings, port=listener.getsockname()[1])
        async with _telling_apart(alarms, parent):
            await _serve_at(listener, alarms, ready, parent)


async def _serve_at(
    listener: socket.socket, alarms: LocalWakeful, ready: Callable[[str], None] | None, parent: ParentLink | None
) -> None:
    url = alarms.settings.local_url
    app = alarms.asgi()
    place = await _dashboard(alarms, app.state.sign_in_link, parent)
    server = HttpServer(_config(alarms, app))
    tune_interpreter(alarms)
    await alarms.dispatcher.announce()
    answering = asyncio.create_task(server.serve(sockets=[listener]), name="wakeful http")

    def stop() -> None:
        server.stop()
        alarms.service.inbox_signal.stop()  # who waits at an inbox is answered now
        alarms.dispatcher.stop()

    if parent is None or parent.announces:
        _announce(f"wakeful {__version__} on {url}, store {shown(alarms.settings.db)}")
        if place is not None:
            _announce(place)
        for line in _places(url):
            log.info(line)
    systemd.notify(systemd.READY, f"STATUS=serving on {url}")
    if ready is not None:
        ready(url)  # the socket is listening: a client that connects now waits a moment at most
    await _both(alarms, answering, stop)


@contextlib.asynccontextmanager
async def _telling_apart(alarms: LocalWakeful, parent: ParentLink | None) -> AsyncIterator[None]:
    """Health and metrics of one of several processes, at a port of its own if there is one."""
    if parent is None or not alarms.settings.metrics_port:
        yield
        return
    with await _listen(alarms, "metrics_port") as listener:
        server = HttpServer(_config(alarms, _window(alarms)))
        answering = asyncio.create_task(server.serve(sockets=[listener]), name="wakeful window")
        try:
            yield
        finally:
            server.stop()
            await answering


async def work(alarms: LocalWakeful, *, ready: Callable[[], None] | None = None) -> None:
    """Dispatch until told to stop; with the setting `metrics_port`, also serve health and metrics."""
    await _prepare(alarms)
    listener = await _listen(alarms, "metrics_port") if alarms.settings.metrics_port else None
    tune_interpreter(alarms)
    _announce(f"wakeful {__version__} worker, store {shown(alarms.settings.db)}")
    systemd.notify(systemd.READY, "STATUS=dispatching")
    if listener is None:
        with stopped_by_signals(alarms.dispatcher.stop):
            if ready is not None:
                ready()
            await alarms.dispatcher.run()
        return
    with listener:
        server = HttpServer(_config(alarms, _window(alarms)))
        answering = asyncio.create_task(server.serve(sockets=[listener]), name="wakeful window")

        def stop() -> None:
            server.stop()
            alarms.dispatcher.stop()

        log.info("metrics at %s/metrics", _url(alarms.settings.host, alarms.settings.metrics_port))
        if ready is not None:
            ready()
        await _both(alarms, answering, stop)


async def _prepare(alarms: LocalWakeful) -> None:
    """What comes before the first delivery: checks that may refuse to start, and warnings."""
    await alarms.check_targets()
    await alarms.service.calendars.read()
    await _direct_rows(alarms)
    await _tell_of_tasks(alarms)


async def _direct_rows(alarms: LocalWakeful) -> None:
    """Send rows that another program inserts without a target to the default target, where the settings name one."""
    name = alarms.settings.sql_target
    if not name:
        return
    try:
        before = await alarms._store.maintenance.use_default_target(name)
    except StoreUnavailable as error:
        log.warning(
            "rows inserted in SQL without a target may not go to %r: the default of the column cannot be set (%s). "
            "To set it, as the tables' owner: `wakeful db migrate`",
            name,
            error,
        )
        return
    if before != name:
        log.info("rows inserted in SQL without a target go to %r from now on, not to %r", name, before)


@contextlib.asynccontextmanager
async def _telling_of_targets(alarms: LocalWakeful) -> AsyncIterator[None]:
    """Warn of targets that cannot be reached, while the start goes on: nothing that is due waits for that."""

    async def tell(name: str, target: Reachable) -> None:
        if trouble := await target.reach():
            log.warning(
                "the target %r cannot be reached: %s. Its wakes are retried; check its URL (for the router `wake_url`)",
                name,
                trouble,
            )

    asking = [
        asyncio.create_task(tell(name, served.target), name="wakeful target")
        for name, served in alarms._served.items()
        if isinstance(served.target, Reachable)
    ]
    try:
        yield
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def _tell_of_tasks(alarms: LocalWakeful) -> None:
    """Warn about a table of tasks that is not connected: its tasks would never run."""
    if await alarms.service.tasks.unwatched():
        log.warning(
            "the table %s of this database is not connected: its tasks do not run. "
            "To connect it: `wakeful db scheduled-tasks`",
            USUAL_TABLE,
        )


async def _tell_of_tokens(alarms: LocalWakeful) -> None:
    """Warn if no valid token is left, so that every request would be refused."""
    settings = alarms.settings
    if settings.did_auth or await alarms.service.has_tokens() or not is_loopback(settings.host):
        return
    if not await Auth(alarms._store, settings, alarms.service.clock).is_open():
        log.warning(
            "no valid token is left, and %s: every request is refused. To create one: `wakeful token new --owner NAME`",
            "public_url is set" if settings.public_url else "a server that once had a token keeps asking for one",
        )


async def _dashboard(alarms: LocalWakeful, link: SignInLink, parent: ParentLink | None) -> str | None:
    """Where the dashboard is, with a link that signs in where a token is needed and only this machine is served.

    Not with `public_url`: there the output is likely kept where more people read it than may act.
    """
    settings = alarms.settings
    if not settings.dashboard:
        return None
    if settings.public_url or not is_loopback(settings.host) or not await alarms.service.has_tokens():
        return f"dashboard: {settings.public_url or settings.local_url}/"
    secret = link.offer(*parent.sign_in) if parent else link.offer()
    return f"dashboard: {settings.local_url}/login?once={secret} (signs you in once, within 10 minutes)"


def _window(alarms: LocalWakeful) -> Starlette:
    """Return `/healthz`, `/readyz` and `/metrics` behind the same middleware as the full API."""
    store = alarms._store  # its own: what is told is how this process's dispatcher finds it
    routes = health.routes(
        store,
        alarms.metrics,
        lease=alarms.settings.lease,
        targets=alarms._served,
        heartbeat=lambda: alarms.dispatcher.health,
    )
    app = with_middleware(routes, alarms.settings, auth=Auth(store, alarms.settings, alarms.service.clock))
    app.add_middleware(health.RequestMetrics, metrics=alarms.metrics)
    return app


def tune_interpreter(alarms: LocalWakeful) -> None:
    """Tune the interpreter for a long-running process.

    While something is being delivered, threads take turns every 50 µs instead of every 5 ms: the thread that writes to
    the database and the event loop then work side by side, and a plain function that computes for long in a thread of
    its own makes no alarm late. When nothing is, taking turns so often only costs. Garbage is looked for less often,
    and never again among what is loaded by now: it stays to the end. What is otherwise imported at its first use is
    imported now: later there may be no descriptor left to read it with; there may be as many as the system allows.
    """
    raise_limit()
    for name in LATER:
        import_module(name)
    calm = sys.getswitchinterval()
    alarms.dispatcher.on_busy = lambda busy: sys.setswitchinterval(TURN if busy else calm)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


async def _both(alarms: LocalWakeful, answering: asyncio.Task[None], stop: Callable[[], None]) -> None:
    """Run the dispatcher and the server together. When one ends, for whatever reason, so does the other."""
    dispatching = asyncio.create_task(alarms.dispatcher.run(), name="wakeful dispatcher")
    try:
        with stopped_by_signals(stop):
            await asyncio.wait((answering, dispatching), return_when=asyncio.FIRST_COMPLETED)
            stop()
            await asyncio.wait((answering, dispatching))
    finally:  # also when this was cancelled: the end is as orderly
        stop()
        await asyncio.gather(answering, dispatching)


def _config(alarms: LocalWakeful, app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="on",
        http=Connection.among(
            ConnectionLimiter(room(alarms.settings, raise_limit()), alarms.settings.connections_per_address)
        ),
        ws="websockets-sansio",
        ws_max_size=MESSAGE_LIMIT,
        ws_per_message_deflate=False,  # its windows would be most of what an idle socket costs
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(alarms.settings.stop_within.total_seconds()),
    )


async def _listen(
    alarms: LocalWakeful, setting: Literal["port", "metrics_port"], *, is_shared: bool = False
) -> socket.socket:
    settings, port = alarms.settings, getattr(alarms.settings, setting)
    try:
        found = socket.getaddrinfo(settings.host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InvalidConfig(f"{settings.host!r} is not an address: {error}", field="host") from None
    is_local = all(ipaddress.ip_address(place[0]).is_loopback for *_, place in found)
    if not is_local and not await alarms.service.has_tokens():
        raise InvalidConfig(
            f"{settings.host} can be reached from other machines, and there is no token yet, so anyone could use it",
            field="host",
            fix="Create one first: wakeful token new --owner NAME. Or bind to 127.0.0.1.",
        )
    family, _, _, _, place = found[0]
    try:
        listener = socket.create_server(place[:2], family=family, backlog=2048, reuse_port=is_shared)
    except OSError as error:
        raise InvalidConfig(
            f"cannot listen on {_url(settings.host, port)}: {os.strerror(error.errno or 0)}",
            field=setting,
            fix="Stop the program that listens there, or give another port.",
        ) from None
    # Inherited by every connection; asyncio sets it only where it made the socket itself. Without it an answer in two
    # pieces waits 40 ms for the other side to acknowledge the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Likewise: what waits in the kernel for somebody who does not read has a bound, and they are noticed soon.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    return listener


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _places(url: str) -> list[str]:
    """Where the API and MCP are; the dashboard is announced by itself, with its link to sign in."""
    mcp = f"MCP at {url}/mcp" if has_mcp() else 'no MCP; to add it: pip install "wakeful[mcp]"'
    return [f"API at {url}/v1, described at {url}/openapi.json", mcp]


def _announce(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

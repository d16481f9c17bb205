"""Several `serve` processes on one port: a parent starts them, starts another for one that ends, and stops them all.

The parent is one thread without an event loop, because it forks. It keeps the port without listening; each process
listens there for itself (SO_REUSEPORT), and the kernel spreads the connections. The first process starts alone: what is
wrong with the settings is said once, and the tables are brought up to date once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from types import FrameType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from wakeful.clock import Clock, SystemClock, stopwatch
from wakeful.errors import InvalidConfig
from wakeful.runtime import systemd
from wakeful.runtime.os_signals import SIGNALS, SignalHandler, end_at_once
from wakeful.settings import Settings

log = logging.getLogger("wakeful.server")

FIRST_WAIT, LONGEST_WAIT = 0.25, 15.0  # seconds before another is started for one that ended
STEADY_AFTER: Final = 60.0  # seconds: one that lived as long did not end because of how it began
_Handlers = dict[int, Callable[[int, FrameType | None], object] | int | None]
LINK_LASTS: Final = timedelta(minutes=10)


def serve_together(settings: Settings, run: Callable[[Settings, ParentLink], None]) -> int:
    """Run `settings.processes` of `run`, each in a process of its own, until told to stop; return the exit status."""
    check_together(settings)
    with reserved(settings) as place:
        settings = replace(settings, port=place.getsockname()[1])
        ended = Parent(settings.processes, place, settings.local_url).run()
    if isinstance(ended, int):
        return ended
    # This is one of the processes. Each tells at a port of its own how it is: the one they share is answered by any.
    metrics_port = settings.metrics_port and settings.metrics_port + ended.number
    run(replace(settings, metrics_port=metrics_port), ended)
    return 0


def check_together(settings: Settings) -> None:
    if "://" not in settings.db:
        wrong = InvalidConfig(
            f"{settings.processes} processes need PostgreSQL, and this database is a SQLite file",
            field="processes",
            fix="Give 1, or a postgresql://… database.",
        )
        raise settings.located(wrong)
    if settings.metrics_port + settings.processes > 65_536:
        fix = "Give a lower one: each process takes the next."
        raise InvalidConfig(f"there are not {settings.processes} ports from there on", field="metrics_port", fix=fix)
    if not hasattr(socket, "SO_REUSEPORT"):
        fix = "Give 1, and start one server on each port."
        raise InvalidConfig("this system cannot share a port between processes", field="processes", fix=fix)


def reserved(settings: Settings) -> socket.socket:
    """Bind the port without listening: it is ours from now on, also where 0 takes a free one."""
    try:
        family, _, _, _, place = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InvalidConfig(f"{settings.host!r} is not an address: {error}", field="host") from None
    try:
        with _bound(family, place[:2], shared=False) as probe:  # fails also where others share the port
            place = probe.getsockname()
        return _bound(family, place[:2], shared=True)
    except OSError as error:
        raise InvalidConfig(
            f"cannot listen on {settings.local_url}: {os.strerror(error.errno or 0)}",
            field="port",
            fix="Stop the program that listens there, or give another port.",
        ) from None


def _bound(family: int, place: tuple[Any, ...], *, shared: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(place)
    except OSError:
        bound.close()
        raise
    return bound


class _Process(Struct):
    """One place among the processes, and who has it now."""

    number: int
    pid: int = 0  # 0: nobody
    line: socket.socket | None = None
    is_ready: bool = False
    started: float = 0.0
    seen: float = 0.0  # when it last said something
    failures: int = 0  # in a row
    starts_at: float | None = None


class Parent:
    def __init__(self, count: int, place: socket.socket, url: str) -> None:
        self._processes = [_Process(number) for number in range(count)]
        self._place = place
        self._url = url
        self._sign_in: tuple[str, datetime] = (secrets.token_urlsafe(32), SystemClock().now() + LINK_LASTS)
        self._alive_every = systemd.watchdog_interval()
        self._alive_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._is_announced = False
        self._stopping = False
        self._status = 0

    def run(self) -> int | ParentLink:
        """Return the exit status; in each process that it starts, the link to its parent."""
        before = self._take_signals()
        try:
            self._processes[0].starts_at = stopwatch()
            while not self._stopping or any(one.pid for one in self._processes):
                for one in self._processes:
                    if (link := self._started_if_due(one)) is not None:
                        return link
                self._watch()
                self._wait()
                self._reap()
            return self._status
        finally:
            self._give_back(before)

    # Signals wake the selector; nothing else happens in their handlers

    def _take_signals(self) -> _Handlers:
        for end in (self._woken, self._waker):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        return {number: signal.signal(number, lambda *_: None) for number in (*SIGNALS, signal.SIGCHLD)}

    def _give_back(self, before: _Handlers) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        for process in self._processes:
            if process.line is not None:
                process.line.close()
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def _wait(self) -> None:
        moments = [one.starts_at for one in self._processes if one.starts_at is not None and not one.pid]
        moments += [self._alive_at] if self._alive_every is not None else []
        timeout = max(0.0, min(moments) - stopwatch()) if moments else None
        for key, _ in self._selector.select(timeout):
            if key.fileobj is self._woken:
                for number in self._woken.recv(4096):
                    if number in SIGNALS:
                        self._told(signal.Signals(number))
            else:
                self._hear(key.data)

    def _told(self, number: signal.Signals) -> None:
        what = STOP_AT_ONCE if self._stopping else STOP
        if not self._stopping:
            systemd.notify(systemd.STOPPING)
            log.info("%s: stopping %d processes", number.name, sum(one.pid > 0 for one in self._processes))
        self._stop(what)

    def _stop(self, what: bytes) -> None:
        self._stopping = True
        for one in self._processes:
            one.starts_at = None
            if one.line is not None:
                with contextlib.suppress(OSError):  # it has just ended
                    one.line.send(what)

    def _hear(self, one: _Process) -> None:
        assert one.line is not None
        said = b""
        with contextlib.suppress(ConnectionError):
            said = one.line.recv(4096)
        if not said:
            self._selector.unregister(one.line)
            return
        one.seen = stopwatch()
        if READY in said:
            one.is_ready = True
            self._one_is_ready()

    def _one_is_ready(self) -> None:
        for other in self._processes:
            if not other.pid and other.starts_at is None and not self._stopping:
                other.starts_at = stopwatch()
        if not self._is_announced and all(one.is_ready for one in self._processes):
            self._is_announced = True
            log.info("%d processes are ready on %s", len(self._processes), self._url)
            systemd.notify(systemd.READY, f"STATUS={len(self._processes)} processes on {self._url}")

    # Processes

    def _started_if_due(self, one: _Process) -> ParentLink | None:
        """Start one whose time has come; the link to its parent in the new process, None in this one."""
        if one.pid or one.starts_at is None or stopwatch() < one.starts_at:
            return None
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        if (pid := os.fork()) == 0:
            ours.close()
            for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):  # its parent speaks to systemd
                os.environ.pop(name, None)
            is_first = one.number == 0 and not one.started
            return ParentLink(
                theirs,
                number=one.number,
                announces=is_first,
                sign_in=self._sign_in,
                alive_every=self._alive_every,
            )
        theirs.close()
        ours.setblocking(False)
        one.pid, one.line, one.is_ready, one.starts_at = pid, ours, False, None
        one.started = one.seen = stopwatch()
        self._selector.register(ours, selectors.EVENT_READ, one)
        return None

    def _reap(self) -> None:
        for one in self._processes:
            if not one.pid:
                continue
            pid, status = os.waitpid(one.pid, os.WNOHANG)
            if pid:
                self._ended(one, os.waitstatus_to_exitcode(status))

    def _ended(self, one: _Process, code: int) -> None:
        lived, pid, was_ready = stopwatch() - one.started, one.pid, one.is_ready
        self._forget(one)
        status = code if code >= 0 else 128 - code
        if self._stopping:
            self._status = self._status or status
            return
        if not self._is_announced and not was_ready:
            # It has said why. The settings are the same for all, and so would be the end.
            self._status = status or 1
            self._stop(STOP)
            return
        one.failures = 0 if lived >= STEADY_AFTER else one.failures + 1
        wait = min(FIRST_WAIT * 2 ** max(0, one.failures - 1), LONGEST_WAIT)
        one.starts_at = stopwatch() + wait
        how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
        log.error("process %d %s: another is started in %.2f s", pid, how, wait)

    def _forget(self, one: _Process) -> None:
        if one.line is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(one.line)
            one.line.close()
        one.pid, one.line, one.is_ready = 0, None, False

    def _watch(self) -> None:
        """Tell systemd that we are alive; one of the processes that stands still is ended, the others serve on."""
        if self._alive_every is None or stopwatch() < self._alive_at:
            return
        self._alive_at = stopwatch() + self._alive_every
        systemd.notify(systemd.ALIVE)
        for one in self._processes:
            if one.pid and stopwatch() - one.seen > 2 * self._alive_every:
                log.error("process %d stands still and is ended", one.pid)
                os.kill(one.pid, signal.SIGKILL)


# The line between one of several `serve` processes and the parent that started it (see serve_processes.py).
#
# The process says that it is ready, and that it is alive; the parent tells it to stop. Its end says that the parent
# died.

READY: Final = b"r"
ALIVE: Final = b"a"
STOP: Final = b"s"
STOP_AT_ONCE: Final = b"k"


class ParentLink:
    """The end of the process; what else its parent hands down: one sign-in link for all, and who prints it."""

    def __init__(
        self,
        line: socket.socket,
        *,
        number: int,
        announces: bool,
        sign_in: tuple[str, datetime],
        alive_every: float | None,
    ) -> None:
        line.setblocking(False)
        self._line = line
        self.number = number  # among the processes, from 0
        self.announces = announces
        self.sign_in = sign_in  # its secret, and until when it is good
        self._alive_every = alive_every

    def ready(self, url: str) -> None:
        self._say(READY)

    async def say_alive(self, clock: Clock, is_alive: Callable[[], bool]) -> None:
        while self._alive_every is not None:
            if is_alive():
                self._say(ALIVE)
            await clock.sleep(self._alive_every)

    @contextlib.contextmanager
    def heard(self, handler: SignalHandler) -> Iterator[None]:
        """Stop when the parent says so, or is gone."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._line.fileno(), self._hear, handler)
        try:
            yield
        finally:
            loop.remove_reader(self._line.fileno())

    def _hear(self, handler: SignalHandler) -> None:
        said = b""
        with contextlib.suppress(ConnectionError):
            said = self._line.recv(64)
        if STOP_AT_ONCE in said:
            end_at_once("the parent process was told to stop again", 128 + signal.SIGTERM)
        if not said:
            asyncio.get_running_loop().remove_reader(self._line.fileno())
        handler.ask("the parent process stops" if said else "the parent process is gone")

    def _say(self, what: bytes) -> None:
        with contextlib.suppress(OSError):  # a parent that is gone is noticed by reading
            self._line.send(what)

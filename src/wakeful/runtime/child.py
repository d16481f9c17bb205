"""Run a program as a child process: in a session of its own, with a time limit and bounded output.

It blocks, and is called in a thread. When it returns, the child and everything in its process group have ended. What
leaves the group (`setsid`) is out of reach.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from subprocess import PIPE, Popen, TimeoutExpired
from typing import IO, Final, Literal

from msgspec import Struct

from wakeful.clock import nap, stopwatch

log = logging.getLogger("wakeful.child")

GRACE: Final = 5.0  # seconds between SIGTERM and SIGKILL
_KILLED_WITHIN: Final = 5.0  # seconds after SIGKILL; longer only in a system call that hangs
_EVERY: Final = 0.05  # seconds between two checks for the exit, the time limit and a stop
_CHUNK: Final = 65_536  # bytes
_FAST: Final = 1_000_000  # bytes of output that are read as fast as they come; after that a flood is slowed down
_PAUSE: Final = 0.002  # seconds after each chunk of a flood: the event loop and other children need the processor
_REST: Final = 1_000_000  # bytes that are still read after the exit
How = Literal["exited", "late", "stopped"]
_running: set[int] = set()  # the process groups of children


class Program(Struct, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    env: Mapping[str, bytes]
    cwd: str | None = None
    timeout: float  # seconds
    out_limit: int  # bytes that are kept of stdout, and of stderr: the last ones
    err_limit: int


class Ended(Struct, frozen=True):
    """`status`: as in `subprocess`, so the negative number of a signal that ended it. `how`: what ended the run."""

    how: How
    status: int
    out: str
    err: str


class Stop:
    """Asks a run to end. Asked twice, it ends at once, without the grace."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self) -> None:
        self.asked += 1


def run_program(program: Program, stdin: bytes, stop: Stop) -> Ended:
    """Run it to its end; OSError if it cannot be started."""
    if stop.asked:
        return Ended("stopped", 0, "", "")
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # every exit status would be 0
        raise OSError("this process ignores SIGCHLD, and would not learn the exit status")
    with _file_of(stdin) as source:
        process = Popen(
            program.argv,
            stdin=source,
            stdout=PIPE,
            stderr=PIPE,
            cwd=program.cwd,
            env=program.env,
            start_new_session=True,
        )
    _running.add(process.pid)
    output = _Output(process, program)
    try:
        how = _watch(process, output, stop, stopwatch() + program.timeout)
    finally:
        _end_group(process, output, stop)
        output.close()
        _running.discard(process.pid)
    status = -signal.SIGKILL if process.returncode is None else process.returncode
    return Ended(how, status, output.out.text(), output.err.text())


def learn_of_exits() -> None:
    """Undo an ignored SIGCHLD, which is inherited from whoever started this process."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def kill_all() -> None:
    """End all children at once, for a process that ends without unwinding."""
    for group in tuple(_running):
        _signal(group, signal.SIGKILL)


def _file_of(data: bytes) -> IO[bytes]:
    """The input as a file without a name: nobody has to feed a pipe, and a child may read it late, or not at all."""
    made = open(os.memfd_create("wake"), "w+b") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()  # noqa: SIM115
    made.write(data)
    made.seek(0)
    return made


def _watch(process: Popen[bytes], output: _Output, stop: Stop, ends: float) -> How:
    while process.poll() is None:
        if stop.asked:
            return "stopped"
        if (left := ends - stopwatch()) <= 0:
            return "late"
        output.read(min(left, _EVERY))
    return "exited"


def _end_group(process: Popen[bytes], output: _Output, stop: Stop) -> None:
    """End whatever is left of the group: the child itself if it still runs, and what it started and left behind."""
    group = process.pid
    _signal(group, signal.SIGTERM)
    ends = stopwatch() + GRACE
    while _is_there(process) and stopwatch() < ends and stop.asked < 2:
        output.read(_EVERY / 5)
    if _is_there(process):
        _signal(group, signal.SIGKILL)
    ends = stopwatch() + _KILLED_WITHIN
    while _is_there(process):
        if stopwatch() >= ends:
            log.error("process group %d does not end after SIGKILL: it hangs in the kernel", group)
            break
        output.read(_EVERY / 5)
    output.read_rest()


def _is_there(process: Popen[bytes]) -> bool:
    """Whether any process of the group is left."""
    if process.poll() is None:
        return True
    with suppress(ChildProcessError):
        # Orphans of the group are ours to reap where this process is the first one of a container.
        while os.waitpid(-process.pid, os.WNOHANG)[0]:
            pass
    return _signal(process.pid, 0)


def _signal(group: int, number: int) -> bool:
    """Whether there is such a group. A group id is not given to others as long as a process of the group is left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # a program that runs as another user (setuid)
        return True
    return True


class _Tail:
    """The last bytes of a stream, however long it is."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._kept += chunk
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def text(self) -> str:
        """As UTF-8, without line breaks at its end; `…` stands for what was left out before it."""
        if self.total <= self._limit:
            return self._kept.decode("utf-8", "replace").rstrip("\r\n")
        data = bytes(self._kept[-self._limit :])
        starts = next((at for at, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)  # not inside a character
        return "…" + data[starts:].decode("utf-8", "replace").rstrip("\r\n")


class _Output:
    """Reads both streams of a child as they come, so that it never waits for a reader."""

    def __init__(self, process: Popen[bytes], program: Program) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._streams = (process.stdout, process.stderr)
        self.out, self.err = _Tail(program.out_limit), _Tail(program.err_limit)
        self._selector = selectors.DefaultSelector()
        for stream, tail in zip(self._streams, (self.out, self.err), strict=True):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream.fileno(), selectors.EVENT_READ, tail)

    def read(self, seconds: float) -> bool:
        """Read what there is, after waiting for so long at most; whether anything was read."""
        if not self._selector.get_map():
            with suppress(TimeoutExpired):
                self._process.wait(seconds)
            if self._process.returncode is not None:
                nap(min(seconds, _PAUSE))  # others of its group are left
            return False
        read = [self._take(key.fd, key.data) for key, _ in self._selector.select(seconds)]
        if self.out.total + self.err.total > _FAST:
            nap(_PAUSE)
        return any(read)

    def read_rest(self) -> None:
        """Read what the pipes still hold. A process that has left the group may hold them open, or go on writing."""
        most = self.out.total + self.err.total + _REST
        while self._selector.get_map() and self.out.total + self.err.total < most and self.read(0):
            pass

    def close(self) -> None:
        self._selector.close()
        for stream in self._streams:
            stream.close()

    def _take(self, fd: int, tail: _Tail) -> bool:
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(fd)
        tail.add(chunk)
        return bool(chunk)

"""Commands of the command line, each in a process that is forked from one which has imported wakeful.

Importing it uses more processor time than most commands do. Otherwise a command runs as a shell starts it: in a process
of its own with its own environment, folder and files, and it ends as the interpreter ends. A command for which
variables differ that the interpreter reads when it starts gets an interpreter of its own.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

PROGRAM: Final = [sys.executable, "-m", "wakeful.cli"]
READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_")  # beginnings of variables
IMPORTED: Final = ("wakeful.process.application", "wakeful.python.client", "wakeful.remote", "wakeful.targets.inbox")
STORES: Final = ("wakeful.store.sqlite", "wakeful.store.postgres")
TIMEOUT: Final = 60.0  # seconds; only bounds a wait
_LARGEST: Final = 200_000  # bytes of a request: arguments and environment

Files = tuple[int, int, int]  # stdin, stdout and stderr


class Command:
    """One that runs; the parts of `subprocess.Popen` that tests use."""

    def __init__(
        self, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], files: Files, new_session: bool = False
    ) -> None:
        self._reply, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps([list(args), str(cwd), dict(env), new_session]).encode()
        with theirs:
            socket.send_fds(_server(), [request], [*files, theirs.fileno()])
        self.args = args
        self.pid = int(self._reply.recv(100))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._reply.settimeout(timeout)
            try:
                self.returncode = int(self._reply.recv(100))
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0) from None
            self._reply.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    args: Sequence[str], *, cwd: Path, env: Mapping[str, str], files: Files, new_session: bool = False
) -> Command | subprocess.Popen[bytes]:
    if not _differs(env):
        return Command(args, cwd=cwd, env=env, files=files, new_session=new_session)
    stdin, stdout, stderr = files
    return subprocess.Popen(
        [*PROGRAM, *args],
        cwd=cwd,
        env=dict(env),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=new_session,
    )


def run(
    args: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str], input: str = "", timeout: float = TIMEOUT
) -> subprocess.CompletedProcess[str]:
    """One command to its end, and what it wrote."""
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(input.encode())
        stdin.seek(0)
        files = (stdin.fileno(), stdout.fileno(), stderr.fileno())
        command = start(args, cwd=cwd or Path.cwd(), env=env, files=files)
        try:
            code = command.wait(timeout)
        finally:
            command.kill()
            command.wait()
        said = [_text(file) for file in (stdout, stderr)]
    return subprocess.CompletedProcess([*PROGRAM, *args], code, *said)


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode().replace("\r\n", "\n"))


def _differs(env: Mapping[str, str]) -> bool:
    return _read_at_start(env) != _read_at_start(os.environ)


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}


@cache
def _server() -> socket.socket:
    """The other end is a process that ends when this one does: nobody else has this end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.commands", str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=Path(__file__).parents[1], pass_fds=[theirs.fileno()])
    atexit.register(process.wait)
    atexit.register(ours.close)  # is called first
    return ours


def _serve(requests: socket.socket) -> None:
    """Fork for each request: a process that waits for the command, and the command."""
    from wakeful.cli import COMMANDS

    commands = {module for section in COMMANDS.values() for module, _ in section.values()}
    for name in (*IMPORTED, *STORES, *(f"wakeful.cli.{command}" for command in sorted(commands))):
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks for the end of those that wait
    while True:
        request, files, *_ = socket.recv_fds(requests, _LARGEST, 4)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _fork_command(socket.socket(fileno=files[3]))
            _run_command(json.loads(request), files[:3])
            return
        for file in files:
            os.close(file)


def _fork_command(reply: socket.socket) -> None:
    """Returns in the command's process alone."""
    pid = os.fork()
    if pid:
        reply.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        reply.send(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    reply.close()


def _run_command(request: Any, files: list[int]) -> None:
    args, cwd, env, new_session = request
    if new_session:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    sys.path[0] = cwd
    sys.argv[1:] = args
    sys.stdin, sys.stdout, sys.stderr = _reopened(sys.stdin), _reopened(sys.stdout), _reopened(sys.stderr)
    runpy.run_module("wakeful.cli", run_name="__main__", alter_sys=True)


def _reopened(stream: Any) -> Any:
    """For the file that has its number now: streams remember what kind of file theirs was."""
    number: int = stream.fileno()
    lines = 1 if number == 2 or os.isatty(number) else -1
    return os.fdopen(number, "w" if number else "r", lines, stream.encoding, stream.errors)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))

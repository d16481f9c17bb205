"""A real pgbouncer in transaction mode before a cluster's socket, as a process; needs Debian's package.

It may be killed and frozen like any other process: `process.kill()`, `process.send_signal(SIGSTOP)`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.ports import free_port
from wakeful.clock import nap, stopwatch

_START_WITHIN = 60.0


class Pgbouncer:
    def __init__(self, sockets: Path, folder: Path, *, pool_size: int = 20) -> None:
        """`sockets`: the directory of the cluster's socket; `folder`: for the configuration and the log."""
        found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert found is not None, "install Debian's pgbouncer"
        self.port = free_port()
        self.dsn = f"postgresql://postgres:@127.0.0.1:{self.port}/postgres"
        self.log = folder / "pgbouncer.log"
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={sockets} user=postgres\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = transaction\ndefault_pool_size = {pool_size}\n"
        )
        # It will not run as root, and must be let in where the cluster's own user keeps its socket.
        user = pwd.getpwuid(sockets.stat().st_uid).pw_name
        as_whom = ["-u", user] if os.getuid() == 0 else []
        self._command = [found, *as_whom, str(config)]
        self.start()

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        ends_at = stopwatch() + _START_WITHIN
        while not _answers(self.port):
            assert self.process.poll() is None, self.log.read_text()
            assert stopwatch() < ends_at, "pgbouncer does not listen"
            nap(0.02)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def before(sockets: Path, folder: Path) -> Iterator[Pgbouncer]:
    bouncer = Pgbouncer(sockets, folder)
    try:
        yield bouncer
    finally:
        bouncer.stop()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False

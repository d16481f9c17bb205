"""pgbouncer before a PostgreSQL, in transaction mode: it dies, and comes back."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from tests import leftovers
from tests.ports import free_port

from .postgres import Cluster
from .server import home, leave, until, whose
from .session import Session

_CONFIG = """\
[databases]
postgres = host=127.0.0.1 port={to} dbname=postgres user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {home}/users
pool_mode = transaction
max_client_conn = 200
default_pool_size = 20
; Its default is to refuse everybody for 15 s after it could not reach the server once.
server_login_retry = 1
server_connect_timeout = 3
"""


def _binary() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


def available() -> bool:
    return _binary() is not None


class Bouncer:
    def __init__(self, folder: Path, cluster: Cluster) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.dsn = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._log = folder / "pgbouncer.log"
        self._cluster = cluster
        self._home = home("wkpb")
        self._child: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, folder: Path, cluster: Cluster) -> Bouncer:
        bouncer = cls(folder, cluster)
        try:
            bouncer.start_again()
        except BaseException:
            bouncer.close()
            raise
        return bouncer

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def session(self, *, application: str = "fault") -> Session:
        return Session(self.port, application=application)

    def start_again(self) -> None:
        assert self._child is None, "it runs already"
        binary = _binary()
        assert binary is not None, "pgbouncer is missing: apt-get install pgbouncer"
        self._write()
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                [binary, str(self._home / "ini")],
                **whose(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        leftovers.watch("process", self._child.pid)
        until(self._answers, "pgbouncer answers")

    def follow(self) -> None:
        """To whichever server is the cluster's primary now."""
        assert self._child is not None
        self._write()
        self._child.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        if self._child is None:
            return
        self._child.kill()
        self._child.wait()
        leftovers.forget("process", self._child.pid)
        self._child = None

    def freeze(self) -> None:
        assert self._child is not None
        self._child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._child is not None
        self._child.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        leave(self._home)

    def _write(self) -> None:
        """Readable for the user it runs as; there is nothing secret in it."""
        for name, text in (
            ("users", '"postgres" ""\n'),
            ("ini", _CONFIG.format(to=self._cluster.port, port=self.port, home=self._home)),
        ):
            path = self._home / name
            path.write_text(text)
            path.chmod(0o644)

    def _answers(self) -> bool:
        assert self._child is not None
        if self._child.poll() is not None:
            raise RuntimeError(f"pgbouncer does not start: {self.log[-2000:]}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
            return True
        return False

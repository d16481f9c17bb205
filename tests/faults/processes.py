"""wakeful's own processes as a service manager runs them: started, watched, started again when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec
import psutil
from msgspec import Struct

from tests import leftovers

WAKEFUL: Final = "wakeful"
# Whichever version is first on the path: the command line has moved since the older one.
LAUNCH: Final = """
try:
    from wakeful.cli import main
except ModuleNotFoundError:
    from wakeful.doors.cli import main
main()
"""
ROOT: Final = Path(__file__).parents[2]
START_WITHIN: Final = 120.0


CROWD: Final = 3.0  # programs that want to run, for each processor: then nothing is said about how long things take


def crowd() -> float:
    """How many programs want each processor of this machine."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def too_busy(trouble: Exception) -> str:
    """What took too long on a machine that has other work, which says nothing about wakeful; "" for any other error."""
    many = crowd()
    if many <= CROWD or not isinstance(trouble, TimeoutError | subprocess.TimeoutExpired):
        return ""
    return f"machine too busy, {many:.0f} programs for each processor: {trouble}"


class Exit(Struct, frozen=True):
    """An end nobody asked for."""

    at: float
    name: str
    status: int


class Kept:
    """One process that is to run, and what it is started with."""

    def __init__(self, name: str, args: list[str], folder: Path, environ: Mapping[str, str]) -> None:
        self.name, self.args, self.folder = name, args, folder
        self.environ = dict(environ)
        self.wanted = True  # whether it is started again when it ends
        self.log: IO[bytes] = (folder / f"{name}.log").open("ab")
        self.child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self.child is not None and self.child.poll() is None

    @property
    def pid(self) -> int:
        assert self.child is not None
        return self.child.pid

    def start(self) -> None:
        self.child = subprocess.Popen(
            self.args,
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            start_new_session=True,  # Ctrl-C is for the harness; it ends them itself
        )
        leftovers.watch("process", self.child.pid)

    def send(self, number: signal.Signals) -> None:
        if self.running:
            self.child_.send_signal(number)

    def end(self, number: signal.Signals, *, within: float = 20.0) -> int:
        """Signal it and wait; what does not go is killed."""
        if self.child is None:
            return 0
        self.send(number)
        try:
            status = self.child.wait(within)
        except subprocess.TimeoutExpired:
            self.child.kill()
            status = self.child.wait()
        leftovers.forget("process", self.child.pid)
        return status

    @property
    def child_(self) -> subprocess.Popen[bytes]:
        assert self.child is not None
        return self.child


def python_environ(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process that runs this code: nothing of the caller's own settings."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    paths = [str(ROOT / "src"), str(ROOT)]
    return environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"} | dict(extra or {})


class Keeper:
    """Starts what is to run, and starts it again when it ends without having been asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: dict[str, Kept] = {}
        self.exits: list[Exit] = []
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keeper", daemon=True)

    @property
    def pids_file(self) -> Path:
        return self.folder / "pids.json"

    def add(self, name: str, module: str, *args: str, environ: Mapping[str, str], again: bool = True) -> Kept:
        """`again`: whether it is started anew whenever it ends."""
        command = [sys.executable, *(("-c", LAUNCH) if module == WAKEFUL else ("-m", module)), *args]
        kept = self.kept[name] = Kept(name, command, self.folder, environ)
        kept.wanted = again
        with self._lock:
            kept.start()
            self._note_pids()
        return kept

    def watch(self) -> None:
        self._thread.start()

    def kill(self, name: str) -> None:
        """SIGKILL; the keeper notices."""
        self.kept[name].send(signal.SIGKILL)

    def restart(self, name: str, *, number: signal.Signals, environ: Mapping[str, str] | None = None) -> None:
        """End it by a signal, wait for that, start it anew; with another environment if one is given."""
        kept = self.kept[name]
        kept.wanted = False
        kept.end(number)
        with self._lock:
            if environ is not None:
                kept.environ = dict(environ)
            kept.start()
            self._note_pids()
            kept.wanted = True

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM, *, within: float = 20.0) -> None:
        self.kept[name].wanted = False
        self.kept[name].end(number, within=within)

    def start(self, name: str) -> None:
        with self._lock:
            self.kept[name].start()
            self._note_pids()
            self.kept[name].wanted = True

    def close(self) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        for kept in self.kept.values():
            kept.wanted = False
            with suppress(OSError, psutil.Error):
                kept.send(signal.SIGCONT)
            kept.end(signal.SIGKILL)
            kept.log.close()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            with self._lock:
                for kept in self.kept.values():
                    if kept.wanted and not kept.running:
                        self._again(kept)

    def _again(self, kept: Kept) -> None:
        self.exits.append(Exit(time.time(), kept.name, kept.child_.returncode))
        leftovers.forget("process", kept.pid)
        kept.start()
        self._note_pids()

    def _note_pids(self) -> None:
        pids = {name: kept.pid for name, kept in self.kept.items() if kept.child is not None}
        new = self.pids_file.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(pids))
        new.rename(self.pids_file)


def wait_until(true: Callable[[], bool], what: str, *, within: float = START_WITHIN, each: float = 0.05) -> None:
    end = time.monotonic() + within
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within:.0f} s: {what}")
        time.sleep(each)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False

"""Ends what a run of the tests started, however the run ends, also by kill -9: servers, mounts and folders.

A child process reads from a pipe what there is to end, and ends it when the pipe closes. The kernel closes the pipe
however the run dies. (`PR_SET_PDEATHSIG` would not do: it is sent when the *thread* that started a child ends.)
Whatever inherits the variable `RUN` from the environment of a run is ended too; a PostgreSQL server overwrites its
environment and is watched by its process id.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

RUN = "TEST_RUN_OF_WAKEFUL"  # an environment variable: the id of the run
GUARD = str(Path(__file__).resolve())  # in the command line of such a child process
Kind = Literal["run", "process", "mount", "folder"]  # in the order they are ended

_lock = threading.Lock()
_children: dict[int, subprocess.Popen[str]] = {}  # by the id of the process that started it: a fork needs its own


def watch_run() -> None:
    """Watch everything that this process will start, unless the run that started this process watches it already."""
    if RUN not in os.environ:
        os.environ[RUN] = secrets.token_hex(8)
        watch("run", os.environ[RUN])


def watch(kind: Kind, what: int | str) -> None:
    """From now on to be ended with this process. A process is ended with all its children."""
    _tell(["watch", kind, what])


def forget(kind: Kind, what: int | str) -> None:
    """It has been ended already: its id may belong to somebody else soon."""
    _tell(["forget", kind, what])


def _tell(order: list[Any]) -> None:
    with _lock:
        child = _children.get(os.getpid())
        if child is None:
            child = _children[os.getpid()] = subprocess.Popen(
                [sys.executable, "-P", GUARD],
                stdin=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if name != RUN},
            )
            atexit.register(_end, os.getpid(), child)
        assert child.stdin is not None
        child.stdin.write(json.dumps(order) + "\n")
        child.stdin.flush()


def _end(pid: int, child: subprocess.Popen[str]) -> None:
    if pid == os.getpid():
        child.communicate()


def end_run(run: str) -> None:
    """Every process that inherited the id of the run, and its children; again until none is found: they may fork."""
    import psutil

    while found := [process.pid for process in psutil.process_iter(["environ"]) if _belongs_to(process, run)]:
        for pid in found:
            end_process(pid)


def _belongs_to(process: Any, run: str) -> bool:
    environ: dict[str, str] = process.info["environ"] or {}  # empty for a zombie and for another user's process
    return environ.get(RUN) == run


def end_process(pid: int) -> None:
    """A process and all its children, frozen or not, but not the guards among them: each ends what it was told of."""
    import psutil  # here, so that the guard itself starts quickly

    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        top.suspend()  # so that it has no more children than those we see
        for process in [*top.children(recursive=True), top]:
            with suppress(psutil.NoSuchProcess):
                if GUARD not in process.cmdline():
                    process.kill()


def end_shared_memory(data: Path) -> None:
    """What a killed PostgreSQL leaves in the kernel, under the number in its last note; a successor would clear it."""
    with suppress(FileNotFoundError, NotADirectoryError):
        lines = (data / "postmaster.pid").read_text().splitlines()
        if len(lines) > 6 and lines[6].split():
            subprocess.run(["ipcrm", "-m", lines[6].split()[-1]], check=False, stderr=subprocess.DEVNULL)


def end_mount(path: str) -> None:
    # Lazily: a process that still has a file open there must not keep it.
    subprocess.run(["umount", "--lazy", path], check=False, stderr=subprocess.DEVNULL)


def end_folder(path: str) -> None:
    for note in Path(path).glob("*/postmaster.pid"):
        end_shared_memory(note.parent)
    shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with its parent and not before
    watched: dict[Kind, list[Any]] = {"run": [], "process": [], "mount": [], "folder": []}
    for line in sys.stdin:
        try:
            verb, kind, what = json.loads(line)
        except ValueError:
            continue  # the run died in the middle of a line
        if verb == "watch":
            watched[kind].append(what)
        elif what in watched[kind]:
            watched[kind].remove(what)
    endings: dict[Kind, Callable[[Any], None]] = {
        "run": end_run,
        "process": end_process,
        "mount": end_mount,
        "folder": end_folder,
    }
    for kind, end in endings.items():
        for what in watched[kind]:
            end(what)


if __name__ == "__main__":
    main()

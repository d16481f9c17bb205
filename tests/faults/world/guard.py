"""Cleans up after this process, also after a kill -9 of it: no server, no mount and no socket folder stays behind.

One child for all worlds of a process. It is told what there is to end, and does it when its pipe ends, which the kernel
sees to however we die. (A death signal by prctl would not do: it comes when the *thread* that started a child ends, and
worlds are called from threads that come and go.)
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

Kind = Literal["process", "mount", "folder"]  # in the order they are ended

_lock = threading.Lock()
_children: dict[int, subprocess.Popen[str]] = {}  # by the id of the process that started it: a fork needs its own


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
                [sys.executable, __file__], stdin=subprocess.PIPE, text=True, start_new_session=True
            )
            atexit.register(_end, os.getpid(), child)
        assert child.stdin is not None
        child.stdin.write(json.dumps(order) + "\n")
        child.stdin.flush()


def _end(pid: int, child: subprocess.Popen[str]) -> None:
    if pid == os.getpid():
        child.communicate()


def end_process(pid: int) -> None:
    """A process and all its children, frozen or not."""
    import psutil  # here, so that the guard itself starts quickly

    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        top.suspend()  # so that it has no more children than those we see
        for process in [*top.children(recursive=True), top]:
            with suppress(psutil.NoSuchProcess):
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
    watched: dict[Kind, list[Any]] = {"process": [], "mount": [], "folder": []}
    for line in sys.stdin:
        verb, kind, what = json.loads(line)
        if verb == "watch":
            watched[kind].append(what)
        elif what in watched[kind]:
            watched[kind].remove(what)
    endings: dict[Kind, Callable[[Any], None]] = {"process": end_process, "mount": end_mount, "folder": end_folder}
    for kind, end in endings.items():
        for what in watched[kind]:
            end(what)


if __name__ == "__main__":
    main()

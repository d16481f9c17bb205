"""A wall clock that is set while a process runs, as on a machine whose operator or time service does that.

By libfaketime, for a child that is started with `environ`. Only the wall clock: what counts on (time.monotonic, timers,
timeouts) goes on as before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .server import home, leave

_PLACES = ("usr/lib/*/faketime/libfaketimeMT.so.1", "usr/lib64/faketime/libfaketimeMT.so.1")

# libfaketime 0.9.10 hands a negative time to the kernel for a sleep to a moment of the monotonic clock, which is how
# Python sleeps since 3.11. Waiting for nothing comes to the same.
# And a wait for the interpreter asks it for the time, which with many threads and the short interval of a server leaves
# no time for anything else: so they ask for it more rarely.
_SITE = """\
import select, sys, time
time.sleep = lambda seconds: select.select([], [], [], seconds) and None
sys.setswitchinterval(0.05)
sys.setswitchinterval = lambda interval: None
"""


def _library() -> Path | None:
    return next((path for place in _PLACES for path in Path("/").glob(place)), None)


def available() -> bool:
    return _library() is not None


class FakeTime:
    """`environ` is that which it was given (ours, if none), and what makes the difference."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        library = _library()
        assert library is not None, "libfaketime is missing: apt-get install faketime"
        base = os.environ if environ is None else environ
        self._home = home("wkft")  # where also a server of another user can read it
        (self._home / "sitecustomize.py").write_text(_SITE)
        self._seconds = 0.0
        self._write()
        self.environ: dict[str, str] = {
            **base,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(self._home), base.get("PYTHONPATH", "")])),
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._home / "offset"),
            "FAKETIME_CACHE_DURATION": "0",  # it looks at the file again with each second, not at each call
            # It has had both names.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",  # a file's times are those written down
        }

    @classmethod
    def start(cls, environ: Mapping[str, str] | None = None) -> FakeTime:
        return cls(environ)

    def jump(self, seconds: float) -> None:
        """Forward, or back if negative, for every process that was started with `environ`: when the second is over.

        So two jumps, one after the other, are a second apart.
        """
        self._seconds += seconds
        self._write()
        time.sleep(1.02 - time.time() % 1)

    def close(self) -> None:
        leave(self._home)
        # What it leaves of a process that was killed, ours or somebody else's.
        for left in Path("/dev/shm").glob("*faketime_s*_[0-9]*"):
            pid = left.name.rpartition("_")[2]
            if pid.isdecimal() and not Path("/proc", pid).exists():
                with suppress(FileNotFoundError):
                    left.unlink()

    def _write(self) -> None:
        new = self._home / "new"
        new.write_text(f"{self._seconds:+.3f}\n")
        new.chmod(0o644)
        new.replace(self._home / "offset")  # nobody reads half of it

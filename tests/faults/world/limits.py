"""A process that may open no more files, or write none any longer.

Lower the limit of one that runs, and give it back; or begin with it. Only the soft limit is touched, so that it can be
given back. Python ignores the signal that comes with a file's limit: a write fails with EFBIG.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_WHICH = {"files": resource.RLIMIT_NOFILE, "file_size": resource.RLIMIT_FSIZE}


@contextmanager
def open_files(pid: int, limit: int) -> Iterator[None]:
    """It can have no descriptor with this number or a higher one: those that it has, it keeps."""
    with _lowered(pid, resource.RLIMIT_NOFILE, limit):
        yield


@contextmanager
def no_more_files(pid: int) -> Iterator[None]:
    """No new file and no new connection: every number below the limit is taken or it is 0."""
    with _lowered(pid, resource.RLIMIT_NOFILE, 0):
        yield


@contextmanager
def file_size(pid: int, bytes: int) -> Iterator[None]:
    """It can write no file beyond this size: EFBIG, as on a disk that is full for it alone."""
    with _lowered(pid, resource.RLIMIT_FSIZE, bytes):
        yield


def command(args: list[str], *, files: int | None = None, file_size: int | None = None) -> list[str]:
    """The command that runs another one within limits from its first moment."""
    limits = [f"{name}={value}" for name, value in (("files", files), ("file_size", file_size)) if value is not None]
    return [sys.executable, "-P", __file__, *limits, "--", *args]


@contextmanager
def _lowered(pid: int, which: int, limit: int) -> Iterator[None]:
    before = resource.prlimit(pid, which)
    resource.prlimit(pid, which, (limit, before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it did not survive this
            resource.prlimit(pid, which, before)


def main(args: list[str]) -> None:
    split = args.index("--")
    for name, _, value in (arg.partition("=") for arg in args[:split]):
        resource.setrlimit(_WHICH[name], (int(value), resource.getrlimit(_WHICH[name])[1]))
    os.execvp(args[split + 1], args[split + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])

"""A small disk of one's own that can be full: a mount in memory, which needs root."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests import leftovers


@cache
def available() -> bool:
    """Whether this process may mount, which root may not in every container."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        if _mount(Path(folder), 1).returncode:
            return False
        leftovers.end_mount(folder)
    return True


class SmallDisk:
    """`path`, open to every user. For PostgreSQL's data choose a folder its user can get into: server.home."""

    def __init__(self, path: Path, mb: int) -> None:
        self.path = path
        self._filler = path / "filler"
        self._mb = mb

    @classmethod
    def start(cls, folder: Path, mb: int) -> SmallDisk:
        path = folder / "disk"
        path.mkdir(parents=True)
        leftovers.watch("mount", str(path))
        done = _mount(path, mb)
        if done.returncode:
            leftovers.forget("mount", str(path))
            raise RuntimeError(f"cannot mount: {done.stderr}")
        return cls(path, mb)

    def fill(self) -> None:
        """To the last byte: whoever needs more gets ENOSPC."""
        file = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            _write_until_full(file, bytes(1 << 20))  # the last write is a short one
        finally:
            os.close(file)

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        leftovers.end_mount(str(self.path))
        leftovers.forget("mount", str(self.path))


def _write_until_full(file: int, piece: bytes) -> None:
    try:
        while True:
            os.write(file, piece)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _mount(path: Path, mb: int) -> subprocess.CompletedProcess[str]:
    options = f"size={mb}m,mode=1777"
    return subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, text=True, check=False
    )

"""An older wakeful, out of this repository's history, to run beside the newer one."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
PREVIOUS = "5c35f4d"


def available(commit: str = PREVIOUS) -> bool:
    """Whether the history is there: a shallow clone or an archive has none."""
    try:
        return _git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0
    except FileNotFoundError:
        return False


def checkout(commit: str, folder: Path) -> dict[str, str]:
    """Its source, unpacked into the folder. Gives the environment in which this Python runs that wakeful."""
    done = _git("archive", "--format=tar", commit, "src")
    if done.returncode:
        raise RuntimeError(f"git archive {commit}: {done.stderr.decode()}")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    # Before everything else, an installed wakeful too.
    return {**os.environ, "PYTHONPATH": str(folder / "src")}


def _git(*args: str) -> subprocess.CompletedProcess[bytes]:
    # Our own repository also where it belongs to somebody else, as in a container.
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *args]
    return subprocess.run(command, capture_output=True, check=False)

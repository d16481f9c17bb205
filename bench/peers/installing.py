"""Each peer in an environment of its own under .bench/, at the version pinned in pins/."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.contestants import Contestant

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".bench"  # git ignores it
PINS = Path(__file__).parent / "pins"
WITHIN = 300.0  # seconds
_ADDRESS = re.compile(r"( from)? \S+://\S+")
DRIVERS = Path(__file__).parent / "drivers"


class NotInstalled(Exception):
    """Why a peer cannot be measured here."""


def pins(peer: Contestant) -> Path:
    """For node the versions of the peer and its driver only: a lock of npm's would hold addresses."""
    return PINS / f"{peer.name}{'.json' if peer.kind == 'node' else '.lock'}"


def installed(peer: Contestant) -> Path:
    """The environment of a peer. Made when it is missing, or was made from other pins."""
    place = CACHE / peer.name
    wanted = hashlib.sha256(pins(peer).read_bytes()).hexdigest()
    stamp = place / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return place
    if peer.kind == "node":
        missing = [name for name in ("node", "npm") if shutil.which(name) is None]
        if missing:
            raise NotInstalled(f"no {missing[0]}")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for command in _from_npm(peer, place) if peer.kind == "node" else _from_pip(peer, place):
        _run(command, place)
    stamp.write_text(wanted)
    return place


def _run(command: list[str], place: Path) -> None:
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=WITHIN)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{Path(command[0]).name} was not done after {WITHIN:.0f} s") from None
    if done.returncode:
        said = _ADDRESS.sub("", last_line(done.stderr))
        raise NotInstalled(said or f"{Path(command[0]).name} ended with {done.returncode}")


def _from_pip(peer: Contestant, place: Path) -> list[list[str]]:
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile", "--retries", "1"]
    # Everything is pinned. Left to itself, pip looks for the newest of what is asked for with an extra, and fails.
    return [[sys.executable, "-m", "venv", str(place)], [*pip, "--no-deps", "--require-hashes", "-r", str(pins(peer))]]


def _from_npm(peer: Contestant, place: Path) -> list[list[str]]:
    shutil.copy(pins(peer), place / "package.json")
    return [
        [
            "npm",
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
            "--ignore-scripts",
            "--fetch-retries=1",
        ]
    ]


def command(contestant: Contestant, place: Path | None) -> tuple[list[str], dict[str, str]]:
    """How its driver is called, and what the environment must say."""
    if contestant.kind == "node":
        assert place is not None
        return ["node", str(DRIVERS / contestant.driver)], {"NODE_PATH": str(place / "node_modules")}
    python = sys.executable if place is None else str(place / "bin" / "python")
    path = str(ROOT) if place is not None else f"{ROOT}:{ROOT / 'src'}"
    return [python, "-m", f"bench.peers.drivers.{contestant.driver}"], {"PYTHONPATH": path}


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if not line.startswith("WARNING")]
    return (errors or lines or [""])[-1]

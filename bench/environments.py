"""Packages of others, pinned, each in an environment of its own that git ignores."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

Kind = Literal["python", "node"]
WITHIN = 300.0  # seconds
_ADDRESS = re.compile(r"( from)? \S+://\S+")


class NotInstalled(Exception):
    """Why an environment cannot be made here."""


def environment(kind: Kind, pins: Path, place: Path) -> Path:
    """The folder of an environment. Made when it is missing, or was made from other pins."""
    wanted = hashlib.sha256(pins.read_bytes()).hexdigest()
    stamp = place / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return place
    if kind == "node":
        missing = [name for name in ("node", "npm") if shutil.which(name) is None]
        if missing:
            raise NotInstalled(f"no {missing[0]}")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for command in _from_npm(pins, place) if kind == "node" else _from_pip(pins, place):
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


def _from_pip(pins: Path, place: Path) -> list[list[str]]:
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile", "--retries", "1"]
    # Everything is pinned. Left to itself, pip looks for the newest of what is asked for with an extra, and fails.
    return [[sys.executable, "-m", "venv", str(place)], [*pip, "--no-deps", "--require-hashes", "-r", str(pins)]]


def _from_npm(pins: Path, place: Path) -> list[list[str]]:
    shutil.copy(pins, place / "package.json")
    options = ["--silent", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--fetch-retries=1"]
    return [["npm", "install", *options]]


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if not line.startswith("WARNING")]
    return (errors or lines or [""])[-1]

"""The package in clients/typescript, built in a folder of its own with the pinned compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from bench.environments import environment

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "clients" / "typescript"
COMPILER: Final = ROOT / ".agents" / "typescript"  # git ignores it
SOURCES: Final = shutil.ignore_patterns("node_modules", "dist")
WITHIN: Final = 300.0  # seconds for a command; only bounds a wait


def built(place: Path) -> Path:
    """Return a copy of the package with its `dist`, made at `place`."""
    installed = environment("node", SOURCE / "package.json", COMPILER)
    shutil.copytree(SOURCE, place, ignore=SOURCES)
    (place / "node_modules").symlink_to(installed / "node_modules")
    run(place, "node", "node_modules/typescript/bin/tsc")
    return place


def run(folder: Path, *command: str, input: str = "", environ: dict[str, str] | None = None) -> str:
    """Run a program to its end and return what it wrote; AssertionError where it failed."""
    done = subprocess.run(
        command, cwd=folder, env=environ, input=input, capture_output=True, text=True, check=False, timeout=WITHIN
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout

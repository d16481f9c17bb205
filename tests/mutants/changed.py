"""Which mutants a change concerns: those in a source file it changed; of many, some that the source tree draws."""

from __future__ import annotations

import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from .faults import FAULTS, Several, Sql

SINCE: Final = "24 hours ago"
MOST: Final = 40  # take about two minutes on two cores


@cache
def chosen(root: Path) -> tuple[frozenset[str], int]:
    """Those to run, the same as long as the sources are, and how many more are concerned."""
    changed, sources = files(root), _git(root, "rev-parse", "HEAD:src")
    concerned = [fault for fault in FAULTS if concerns(fault, changed)]
    drawn = sorted(concerned, key=lambda fault: sha256(f"{sources} {fault}".encode()).digest())
    return frozenset(drawn[:MOST]), len(drawn[MOST:])


def files(root: Path) -> frozenset[str]:
    """What was changed since the last tag or in the last 24 hours, whichever is less, committed or not."""
    base = _base(root)
    listed = _git(root, "diff", "--name-only", base) if base else _git(root, "ls-files")
    return frozenset(listed.split("\n"))


def concerns(fault: str, changed: frozenset[str]) -> bool:
    return not changed.isdisjoint(_places(fault))


def _base(root: Path) -> str:
    """The newer of the last tag and the last commit that is a day old; empty where there is neither."""
    tag = _git(root, "describe", "--tags", "--abbrev=0")
    old = _git(root, "rev-list", "-1", f"--before={SINCE}", "HEAD")
    return tag if tag and (not old or _git(root, "merge-base", "--is-ancestor", old, tag, code=True) == "0") else old


def _places(fault: str) -> list[str]:
    found = FAULTS[fault]
    if not isinstance(found, Sql):
        sources = found.sources if isinstance(found, Several) else (found,)
        paths = ["src/" + source.module.replace(".", "/") for source in sources]
        return [path + end for path in paths for end in (".py", "/__init__.py")]
    named = Path(__file__).parents[2].glob(f"src/wakeful/store/sql/*{found.dialect}.sql")
    statements = [f"-- name: {name}\n" for name in found.statements]
    return [
        f"src/wakeful/store/sql/{file.name}" for file in named if any(name in file.read_text() for name in statements)
    ]


def _git(root: Path, *args: str, code: bool = False) -> str:
    """What git prints; empty where it fails, or where there is no git or no repository."""
    try:
        done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return str(done.returncode) if code else done.stdout.strip() if done.returncode == 0 else ""

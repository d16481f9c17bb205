"""`scripts/setup` where something is not as it should be: it says what, and leaves nothing half made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.newcomer.packages import ROOT

FILES = ("scripts/setup", "scripts/serve", "pyproject.toml", "requirements.lock", "requirements-serve.lock")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    for file in FILES:
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def executable(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def served(tree: Path, python: Path) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": "/usr/bin:/bin", "PYTHON": str(python)}
    return subprocess.run(
        [tree / "scripts" / "serve"], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_an_old_python_is_named_and_nothing_is_made(tree: Path) -> None:
    old = executable(tree / "old-python", 'case "$1" in --version) echo "Python 3.9.1" ;; *) exit 1 ;; esac')
    done = served(tree, old)
    assert done.returncode == 2
    assert "is not Python 3.11 or newer (Python 3.9.1)" in done.stderr
    assert "PYTHON=" in done.stderr
    assert not (tree / ".venv").exists()


def test_no_python_at_all_is_said_too(tree: Path) -> None:
    done = served(tree, tree / "none")
    assert done.returncode == 2
    assert "is not Python 3.11 or newer" in done.stderr


def test_an_environment_that_was_left_half_made_is_made_anew(tree: Path) -> None:
    """What stands in for Python writes down how it was called; a real installation is what scripts/release tries."""
    (tree / ".venv" / "bin").mkdir(parents=True)  # without pip: it was stopped in the middle
    said = tree / "said"
    inner = f'echo inside "$@" >> {said}'
    python = executable(
        tree / "python",
        f'echo "$@" >> {said}\nif [ "$2" = venv ]; then\n'
        f"printf '#!/bin/sh\\n%s\\n' '{inner}' > .venv/bin/python; cp .venv/bin/python .venv/bin/pip\n"
        f"cp .venv/bin/python .venv/bin/wakeful; chmod +x .venv/bin/*; fi",
    )
    done = served(tree, python)
    assert done.returncode == 0, done.stderr
    lines = said.read_text().splitlines()
    assert "-m venv .venv" in lines
    assert any("--require-hashes -r requirements-serve.lock --quiet" in line for line in lines)
    assert lines[-1] == "inside serve"
    said.unlink()
    assert served(tree, python).returncode == 0
    assert said.read_text().splitlines() == ["inside serve"]  # the second time nothing is installed

"""What a command of the shell imports: importing is nearly all of the time that it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interfaces.pty_world import environ, piped

# Other people's packages, and those of our own that only a process that delivers or serves needs.
HEAVY = (
    "aiohttp",
    "asyncpg",
    "importlib.resources",
    "mcp",
    "opentelemetry",
    "prometheus_client",
    "pydantic",
    "rich",
    "starlette",
    "httptools",
    "uvicorn",
    "uvloop",
    "wakeful.seeds",
    "wakeful.dispatcher",
    "wakeful.http",
    "wakeful.runtime.logs",
    "wakeful.mcp",
    "wakeful.remote.client",
    "wakeful.process.server",
    "wakeful.store.copying",
    "wakeful.store.postgres",
    "wakeful.python.sync",
    "wakeful.targets.handler",
    "wakeful.targets.sending",
    "wakeful.targets.webhook",
    "wakeful.transfer",
)
TARGETS = """
[targets.hook]
kind = "webhook"
url = "http://127.0.0.1:9/"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wakeful.toml").write_text(TARGETS)
    piped("at", "2030-01-01T09:00:00Z", "Look", "--key", "first", "--db", "w.db", cwd=tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["ls", "--db", "w.db"],
        ["ls", "--json", "--db", "w.db"],
        ["show", "first", "--db", "w.db"],
        ["why", "first", "--db", "w.db"],
        ["at", "in 5 days", "Look again", "--to", "hook", "--db", "w.db"],
        ["every", "day at 9am", "Look again", "--to", "hook", "--db", "w.db"],
        ["cancel", "first", "--db", "w.db"],
        ["ls", "--no-such-option"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_an_ordinary_command_imports_nothing_heavy(folder: Path, command: list[str]) -> None:
    loaded = _imported_by(folder, *command)
    assert "click" in loaded
    assert [name for name in loaded if name in HEAVY or name.startswith(tuple(f"{one}." for one in HEAVY))] == []


def test_help_needs_no_database_and_no_loop(folder: Path) -> None:
    loaded = _imported_by(folder, "--help")
    assert {"asyncio", "msgspec", "apsw", "wakeful.model", "wakeful.rules", "wakeful.settings"}.isdisjoint(loaded)


def test_who_may_use_a_target_is_known_without_building_it(folder: Path) -> None:
    (folder / "wakeful.toml").write_text(TARGETS + 'owners = ["ada"]\n')
    set_it = ("at", "in 5 days", "Look again", "--to", "hook", "--db", "w.db")
    piped(*set_it, "--owner", "ada", cwd=folder)
    _, said = piped(*set_it, "--owner", "bob", cwd=folder, code=2)
    assert "hook" in said
    _, said = piped("at", "in 5 days", "Look again", "--to", "hoko", "--db", "w.db", cwd=folder, code=2)
    assert "hoko" in said


def _imported_by(folder: Path, *command: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "wakeful", *command],
        cwd=folder,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}

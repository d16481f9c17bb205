"""The examples run as their readme says: real processes on loopback, in a directory of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port

EXAMPLES = Path(__file__).parents[1] / "examples"
WITHIN = 60


@pytest.fixture
def environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("WAKEFUL_", "AGENT_"))}


@pytest.fixture
def agent_port() -> int:
    return free_port()


@pytest.fixture
def server(tmp_path: Path, environ: dict[str, str], agent_port: int) -> Iterator[str]:
    """The address of a `wakeful serve` with the example's settings, but for the port of the agent."""
    config = (EXAMPLES / "agent" / "wakeful.toml").read_text()
    assert ":8787" in config
    settings = tmp_path / "wakeful.toml"
    settings.write_text(config.replace(":8787", f":{agent_port}"))
    settings.chmod(0o600)  # it holds a secret, and what others can read is warned about first
    command = [sys.executable, "-m", "wakeful.cli", "serve", "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r" on (http://127\.0\.0\.1:\d+), ", said)
        assert found is not None, said
        yield found[1]
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=WITHIN)
        assert process.returncode == 0, rest
    finally:
        process.kill()
        process.communicate()


def test_the_agent_sets_an_alarm_over_mcp_is_woken_by_webhook_and_reports(
    tmp_path: Path, environ: dict[str, str], server: str, agent_port: int
) -> None:
    environ |= {"WAKEFUL_URL": server, "AGENT_PORT": str(agent_port)}
    for _ in range(2):  # the second time the key is taken, and its alarm is replaced
        done = subprocess.run(
            [sys.executable, EXAMPLES / "agent" / "agent.py"],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=WITHIN,
        )
        assert done.returncode == 0, done.stderr
        assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["set", "woken", "reported", "why"]
        assert "woken: Check the grant portal {'page': 3}" in done.stdout
        assert "reported: completed, looked at page 3: 3 new grants" in done.stdout


def test_the_readme_shows_the_settings_the_agent_takes() -> None:
    code, readme = ((EXAMPLES / "agent" / name).read_text() for name in ("agent.py", "README.md"))
    for name in re.findall(r'environ\.get\("(\w+)"', code):
        assert f"`{name}`" in readme

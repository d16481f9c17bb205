"""The recipes of docs/agents/command.md, as they stand there, with programs that play the agents."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.commands import PROGRAM
from tests.interfaces.pty_world import environ, piped
from tests.interfaces.test_command_target import the_fire, until

PAGE = Path(__file__).parents[2] / "docs" / "agents" / "command.md"
RECIPES = {
    name: block
    for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name in tomllib.loads(block)["targets"]
}
# Each refuses to work unless it is called as the real one wants it, and answers from its prompt.
PLAYERS = {
    "claude": """
        [ "$1" = -p ] || exit 2
        case "$2" in "") ;; --resume=*) echo "resumed ${2#--resume=}";; *) exit 2;; esac
        read -r first && echo "claude read: $first"
    """,
    "codex": """
        [ "$*" = "exec --skip-git-repo-check -" ] || exit 2
        echo thinking >&2
        read -r first && echo "codex read: $first"
    """,
    "my-agent": """
        [ "$1" = --ask ] && [ "$MY_AGENT_KEY" = s3cret ] && [ -z "$OTHER_KEY" ] || exit 2
        read -r first && echo "my-agent read: $first"
    """,
}


@pytest.fixture
def agents(tmp_path: Path) -> dict[str, str]:
    """The environment in which they are installed."""
    (tmp_path / "bin").mkdir()
    for name, script in PLAYERS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}")
        (tmp_path / "bin" / name).chmod(0o755)
    usual = environ()
    return {
        "PATH": f"{tmp_path / 'bin'}:{usual['PATH']}",
        "HOME": str(tmp_path),
        "MY_AGENT_KEY": "s3cret",
        "OTHER_KEY": "x",
    }


def test_no_recipe_is_longer_than_ten_lines() -> None:
    assert set(RECIPES) == {"claude", "codex", "agent"}
    assert max(len(block.splitlines()) for block in RECIPES.values()) <= 10


@pytest.mark.parametrize(
    ("name", "conversation", "answer"),
    [
        ("claude", "", "claude read: List my mail"),
        ("claude", "s-1 $(x)", "resumed s-1 $(x)\nclaude read: List my mail"),
        ("codex", "", "codex read: List my mail"),
        ("agent", "", "my-agent read: List my mail"),
    ],
)
def test_an_alarm_wakes_the_agent_and_its_answer_is_the_result(
    tmp_path: Path, agents: dict[str, str], name: str, conversation: str, answer: str
) -> None:
    (tmp_path / "wakeful.toml").write_text(f"db = {json.dumps(str(tmp_path / 'w.db'))}\n{RECIPES[name]}")
    piped("at", "1s", "List my mail", "--to", name, "--conversation", conversation, cwd=tmp_path)
    worker = subprocess.Popen([*PROGRAM, "worker"], cwd=tmp_path, env=environ(**agents), stderr=subprocess.DEVNULL)
    try:
        until(lambda: the_fire(tmp_path).get("status") in {"completed", "retrying", "failed"})
    finally:
        worker.terminate()
        worker.wait()
    assert (the_fire(tmp_path).get("result"), the_fire(tmp_path)["status"]) == (answer, "completed")


def test_the_line_for_a_shell_wakes_the_agent_too(tmp_path: Path, agents: dict[str, str]) -> None:
    [line] = re.findall(r"^wakeful (wait --exec .*)$", PAGE.read_text(), re.MULTILINE)
    ours = agents | {"WAKEFUL_DB": str(tmp_path / "w.db")}
    piped("at", "1s", "List my mail", cwd=tmp_path, env=ours)
    worker = subprocess.Popen([*PROGRAM, "worker"], cwd=tmp_path, env=environ(**ours), stderr=subprocess.DEVNULL)
    try:
        command = line.replace("--exec", "--exec --count 1").split()
        assert piped(*command, cwd=tmp_path, env=ours)[0].endswith("\tcompleted\tclaude read: List my mail\n")
    finally:
        worker.terminate()
        worker.wait()

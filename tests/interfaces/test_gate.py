"""`only_if` at the interfaces, and the checks of a settings file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client

from tests.interfaces.mcp_world import Agent, door
from tests.interfaces.world import serving
from wakeful.cli import main
from wakeful.errors import InvalidConfig
from wakeful.process.application import build_targets
from wakeful.settings import load
from wakeful.settings.tables import CheckSettings

CHECKS = {"one": CheckSettings(sql="select 1"), "two": CheckSettings(sql="select 2")}
KNOWN = "Known are: one, two."


async def test_over_http_and_for_an_agent(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), checks=CHECKS) as visit:
        made = await visit.set(when="every hour", policy={"only_if": "one"})
        assert made["policy"] == {"only_if": "one"}
        body = {"wake_message": "x", "when": "every hour", "policy": {"only_if": "three"}}
        refused = await visit("POST", "/v1/alarms", body)
        assert refused.told == (400, "invalid_request", "policy.only_if")
        assert refused.json["fix"] == KNOWN
        async with Client(door(visit.alarms)) as client:
            agent = Agent(client)
            told = await agent("alarm_set", when="every hour", wake_message="x", policy={"only_if": "two"})
            assert told["alarm"]["policy"] == {"only_if": "two"}
            assert KNOWN in await agent.refused("alarm_set", **body)


def test_on_the_command_line(tmp_path: Path) -> None:
    config = tmp_path / "wakeful.toml"
    config.write_text(
        f'db = "{tmp_path}/w.db"\n[checks.one]\nurl = "https://example.org"\n[checks.two]\nsql = "select 2"\n'
    )

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, ["--config", str(config), "every", "hour", "look", *words])

    made = run("--only-if", "one", "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["policy"] == {"only_if": "one"}
    refused = run("--only-if", "three")
    assert refused.exit_code == 2
    assert f"--only-if: there is no check 'three'. {KNOWN}" in refused.stderr


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("[checks.a]\n", "checks.a", "Give url, or sql"),
        ('[checks.a]\nurl = "https://e.org"\nsql = "select 1"\n', "checks.a", "Give url, or sql"),
        ('[checks.a]\nurl = "https://e.org"\nchanged = "body"\n', "checks.a.changed", "JSON pointer"),
        ('[checks.a]\nsql = "select 1"\ntimeout = "2m"\n', "checks.a.timeout", "at most 60 s"),
        ('[checks.a]\nsql = "select 1"\ntimeout = "soon"\n', "checks.a.timeout", "at most 60 s"),
        ('[checks.a]\nurl = "ftp://e.org"\n', "checks.a.url", "http"),
        ('[checks.a]\nurl = "https://e.org"\nheaders = { host = "x" }\n', "checks.a.headers", "wakeful itself"),
        ('[checks.a]\nurl = "https://e.org"\nallow_private = ["ten"]\n', "checks.a.allow_private", "networks"),
        ('[checks."a b"]\nsql = "select 1"\n', "checks", "not a name of a check"),
        ('[checks.a]\nuri = "https://e.org"\n', "checks", "uri"),
    ],
)
def test_a_check_that_cannot_be_looked_at_stops_the_start(tmp_path: Path, text: str, field: str, said: str) -> None:
    file = tmp_path / "wakeful.toml"
    file.write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        build_targets(load(file, environ={}))
    assert refused.value.field == field
    assert said in str(refused.value)


def test_what_a_check_sends_is_not_logged(tmp_path: Path) -> None:
    file = tmp_path / "wakeful.toml"
    file.write_text('[checks.a]\nurl = "https://e.org/?key=1"\nheaders = { authorization = "Bearer ${TOKEN}" }\n')
    settings = load(file, environ={"TOKEN": "s3cret-word"})
    assert {"https://e.org/?key=1", "Bearer s3cret-word"} <= set(settings.secrets)
    assert settings.checks["a"].headers == {"authorization": "Bearer s3cret-word"}

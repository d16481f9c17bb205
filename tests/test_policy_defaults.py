"""What an alarm does when its caller did not say: as the settings have it, whichever door it came through."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client

from tests.interfaces.mcp_world import Agent, door
from tests.interfaces.world import serving
from tests.seeds.conftest import Gateway, clock, gateway
from wakeful.cli import main
from wakeful.errors import InvalidConfig
from wakeful.model.alarm import NEW_POLICY, Policy
from wakeful.process.application import build_targets, open_local
from wakeful.settings import FOREVER, Settings, load
from wakeful.settings.values import default_policy
from wakeful.testing import ManualClock

__all__ = ["clock", "gateway"]

SAID: dict[str, Any] = {
    "backoff_base": "5s",
    "backoff_cap": "1d",
    "exact_backoff": True,
    "catch_up": "skip",
    "grace": "10s",
    "overlap": "allow",
    "auto_pause_after": 3,
}
MEANT = Policy(
    backoff_base=5,
    backoff_cap=86_400,
    exact_backoff=True,
    catch_up="skip",
    grace=10,
    overlap="allow",
    auto_pause_after=3,
    on_silence="again",
)
SHOWN = {
    "backoff_base": 5,
    "backoff_cap": 86_400,
    "exact_backoff": True,
    "catch_up": "skip",
    "grace": 10,
    "overlap": "allow",
    "auto_pause_after": 3,
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(flags={**SAID, "db": str(tmp_path / "wakeful.db")}, environ={})


def test_settings_that_say_nothing_are_the_policy_of_a_new_alarm() -> None:
    assert default_policy(Settings()) is NEW_POLICY


async def test_from_python(tmp_path: Path) -> None:
    async with open_local(tmp_path / "wakeful.db", **SAID) as alarms:
        assert (await alarms.set("in 1 hour", "x")).policy == MEANT
        said = await alarms.set("in 1 hour", "x", policy={"backoff_base": 30, "expires": "1h"})
        assert said.policy == Policy(
            backoff_base=30,
            backoff_cap=86_400,
            exact_backoff=True,
            catch_up="skip",
            grace=10,
            overlap="allow",
            auto_pause_after=3,
            expires=3600,
            on_silence="again",
        )
        given = await alarms.set("in 1 hour", "x", policy=Policy(grace=7))
        assert given.policy == Policy(grace=7, on_silence="again"), "a whole policy is taken at its word"
        edited = (await alarms.update(said.id, policy={"backoff_cap": "1m"})).alarm
        assert (edited.policy.backoff_base, edited.policy.backoff_cap, edited.policy.expires) == (
            30,
            60,
            3600,
        )
        edited = (await alarms.update(said.id, policy={"backoff_base": None, "expires": None})).alarm
        assert (edited.policy.backoff_base, edited.policy.backoff_cap, edited.policy.expires) == (
            5,
            60,
            None,
        )


async def test_over_http_and_mcp(settings: Settings) -> None:
    given = {name: getattr(settings, name) for name in SAID}
    async with serving(settings.db, **given) as visit:
        made = await visit.set()
        assert made["policy"] == SHOWN
        path = f"/v1/alarms/{made['id']}"
        changed = await visit("PATCH", path, {"policy": {"backoff_base": 30}})
        assert changed.json["policy"] == SHOWN | {"backoff_base": 30}
        many = await visit("POST", "/v1/alarms/batch", {"alarms": [{"wake_message": "x", "when": "in 1 hour"}]})
        assert many.json["results"][0]["alarm"]["policy"] == SHOWN
        async with Client(door(visit.alarms)) as client:
            told = await Agent(client)("alarm_set", when="in 1 hour", wake_message="y")
        assert (await visit.alarms.get(told["alarm"]["id"])).policy == MEANT


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{name} = {json.dumps(value)}" for name, value in SAID.items()]
    (tmp_path / "wakeful.toml").write_text("\n".join(lines))
    for command in (("at", "1h", "x"), ("every", "hour", "x")):
        made = CliRunner().invoke(main, [*command, "--json"], catch_exceptions=False)
        policy = json.loads(made.stdout)["policy"]
        policy.pop("anchor", None)
        assert policy == SHOWN


async def test_for_tasks_in_sql(gateway: Gateway) -> None:
    await gateway.connect()
    await gateway.stop()
    gateway._wakeful = await open_local(gateway.db, clock=gateway.clock, **SAID).__aenter__()
    await gateway.add("once", next_run=gateway.at(3600))
    await gateway.add("often", cron="60000")
    await gateway.pass_time()
    assert [alarm.policy for alarm in await gateway.alarms("once")] == [MEANT]
    [often] = await gateway.alarms("often")
    assert (often.policy.anchor is not None, often.policy.backoff_base) == (True, 5)


@pytest.mark.parametrize(
    ("name", "value"), [("catch_up", "two"), ("overlap", "maybe"), ("auto_pause_after", -1), ("backoff_base", "soon")]
)
def test_a_default_that_cannot_be_stops_the_start(name: str, value: Any) -> None:
    with pytest.raises(InvalidConfig) as raised:
        load(flags={name: value}, environ={})
    assert raised.value.field == name


@pytest.mark.parametrize(("retention", "left"), [("forever", 1), ("90d", 0)])
async def test_what_is_kept_forever_is_not_purged(tmp_path: Path, retention: str, left: int) -> None:
    time = ManualClock()
    async with open_local(tmp_path / "wakeful.db", clock=time, retention=retention) as alarms:
        await alarms.cancel((await alarms.set("in 1 hour", "x")).id)
        await time.advance(86_400 * 365 * 50)
        await alarms.dispatcher._upkeep._purge(time.now())
        assert len(await alarms.find()) == left


def test_forever_is_said_in_every_place_a_setting_is(tmp_path: Path) -> None:
    (tmp_path / "wakeful.toml").write_text('retention = "forever"')
    assert load(tmp_path / "wakeful.toml", environ={}).retention == FOREVER
    assert load(environ={"WAKEFUL_RETENTION": "forever"}).retention == FOREVER
    with pytest.raises(InvalidConfig, match="or forever"):
        load(environ={"WAKEFUL_RETENTION": "always"})


@pytest.mark.parametrize(
    "text",
    [
        "port = " + "9" * 5000,
        "port = " + "[" * 5000,
        "[targets.hook]\nkind = 'webhook'\nurl = 1",
        "[targets.hook]\nkind = 'webhook'\nurl = 'http://127.0.0.1:1/'\nheaders = 'x'",
        "[targets.hook]\nkind = 'router'\nurl = 'http://127.0.0.1:1/'\ntoken = 5",
    ],
    ids=["digits", "brackets", "url", "headers", "token"],
)
def test_a_settings_file_with_nonsense_in_it_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "wakeful.toml").write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        build_targets(load(tmp_path / "wakeful.toml", environ={}))
    assert refused.value.field in ("config", "targets.hook", "targets.hook.url")


@pytest.mark.parametrize("name", ["pgbouncer", "port", "lease", "owner", "timezone"])
def test_a_variable_that_is_not_utf_8_is_refused_by_name(name: str) -> None:
    """Python hands such bytes over as halves of characters, which nothing can be made of."""
    value = os.fsdecode(b"\xff\xfe")
    with pytest.raises(InvalidConfig) as refused:
        load(environ={f"WAKEFUL_{name.upper()}": value})
    assert refused.value.field == name
    str(refused.value).encode()

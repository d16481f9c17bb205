"""An owner's own settings through every door: set at one, they count at all."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from mcp import Client

import wakeful
from tests.interfaces.mcp_world import Agent, door
from tests.interfaces.world import Visitor
from wakeful.cli import main

BERLIN = "Europe/Berlin"


async def test_over_http(visit: Visitor) -> None:
    told = (await visit("GET", "/v1/settings")).json
    usual = {"timezone": "UTC", "date_order": "", "working_days": "mon-fri", "calendar": "", "own": [], "calendars": []}
    assert {name: told[name] for name in usual} == usual
    assert (await visit("PATCH", "/v1/settings", {"timezone": BERLIN})).json["own"] == ["timezone"]
    assert (await visit.set(when="every day at 9am"))["timezone"] == BERLIN
    assert (await visit("POST", "/v1/preview", {"when": "tomorrow at 9am"})).json["timezone"] == BERLIN
    refused = await visit("PATCH", "/v1/settings", {"timezone": "nowhere", "working_days": "sun-thu"})
    assert refused.told[:2] == (400, "invalid_request")
    assert "timezone" in refused.told[2]
    assert (await visit("PATCH", "/v1/settings", {"timezone": None})).json["own"] == []


async def test_an_agent_says_it_once(visit: Visitor) -> None:
    async with Client(door(visit.alarms)) as client:
        agent = Agent(client)
        told = await agent("alarm_update", id="me", timezone=BERLIN)
        assert told["summary"].startswith("Times without a timezone are in Europe/Berlin, your zone, from now on.")
        assert (await agent("alarm_set", when="every day at 9am", wake_message="x"))["alarm"]["timezone"] == BERLIN
        [tool] = [one for one in (await client.list_tools()).tools if one.name == "alarm_set"]
        assert tool.input_schema["properties"]["timezone"]["description"].endswith("Default: Europe/Berlin.")
        assert "only a timezone is yours" in await agent.refused("alarm_update", id="me", when="9am")
        assert "Nowhere" in await agent.refused("alarm_update", id="me", timezone="Nowhere/Land")


async def test_a_program_elsewhere_and_one_without_a_loop(visit: Visitor, tmp_path: Path) -> None:
    async with wakeful.open(visit.url) as elsewhere:
        found = await elsewhere.set_owner_settings(timezone=BERLIN, working_days="sun-thu")
        assert found == await visit.alarms.owner_settings() == await elsewhere.owner_settings()
        assert found.own == ["timezone", "working_days"]
        await elsewhere.set_owner_settings(working_days="")
        assert (await visit.alarms.owner_settings()).own == ["timezone"]
    with wakeful.open_sync(tmp_path / "w.db") as alarms:
        assert alarms.set_owner_settings(timezone=BERLIN).timezone == alarms.owner_settings().timezone == BERLIN


def test_on_the_command_line(tmp_path: Path) -> None:
    db = ["--db", str(tmp_path / "w.db")]
    run = CliRunner().invoke
    assert run(main, ["settings", *db]).exit_code == 6  # looking makes no database
    made = run(main, ["settings", "--timezone", BERLIN, "--json", *db])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["own"] == ["timezone"]
    assert "Europe/Berlin" in run(main, ["settings", *db]).stdout
    for words in (["every", "day at 9am", "x"], ["preview", "every day at 9am"]):
        told = run(main, [*words, "--json", *db])
        assert json.loads(told.stdout)["timezone"] == BERLIN, told.output
        told = run(main, [*words, "--json", "--tz", "Asia/Tokyo", *db])
        assert json.loads(told.stdout)["timezone"] == "Asia/Tokyo", told.output
    refused = run(main, ["settings", "--working-days", "someday", "--db", str(tmp_path / "other.db")])
    assert refused.exit_code == 2
    assert "--working-days" in refused.stderr
    assert not (tmp_path / "other.db").exists()
    back = run(main, ["settings", "--timezone", "", "--json", *db])
    assert json.loads(back.stdout)["own"] == []

"""Budgets at the interfaces: what a series costs is said when it is set, and a report may say what its work cost."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client

import wakeful
from tests.interfaces.mcp_world import Agent, door
from tests.interfaces.world import Visitor, serving
from wakeful.cli import main
from wakeful.errors import InvalidConfig
from wakeful.model.requests import PolicyRequest
from wakeful.rules.budget import Allowance, Charge
from wakeful.settings import load
from wakeful.settings.tables import BudgetSettings
from wakeful.targets.webhook import _answered
from wakeful.testing import store_of

OFTEN = "It wakes 288 times a day."


async def cost_of_today(visit: Visitor, owner: str = "local") -> int:
    charge = Charge((Allowance("owner", owner, "day", 1),), datetime.now(UTC))
    return sum(count.cost for count in await store_of(visit.alarms).access.spent(charge))


async def test_over_http(visit: Visitor) -> None:
    assert (await visit.set(when="every 5 minutes"))["notes"] == [OFTEN]
    assert "notes" not in await visit.set(when="every day at 9am", timezone="UTC")
    assert "notes" not in await visit.set()
    alarm = await visit.set(when="in 1 second", target="agent", policy={"wakes_per_day": 3, "cost_per_day": 0.5})
    assert alarm["policy"] == {"wakes_per_day": 3, "cost_per_day": 0.5}
    wake = await visit.agent.wakes.get()
    path = f"/v1/fires/{wake.fire_id}/report"
    refused = await visit("POST", path, {"outcome": "completed", "cost": -1})
    assert refused.told[:2] == (400, "invalid_request")
    assert "cost" in refused.told[2]
    for _ in range(2):
        assert (await visit("POST", path, {"outcome": "completed", "cost": 0.12})).status == 200
    assert await cost_of_today(visit) == 120_000


async def test_an_agent_is_told_too(visit: Visitor) -> None:
    async with Client(door(visit.alarms)) as client:
        await _as_an_agent(visit, Agent(client))


async def _as_an_agent(visit: Visitor, agent: Agent) -> None:
    told = await agent("alarm_set", when="every 5 minutes", wake_message="look", target="inbox")
    assert OFTEN in told["notes"]
    told = await agent("alarm_set", when="every 5 minutes", wake_message="l", policy={"wakes_per_day": 24})
    assert "Its budget allows 24 wakes a day: the others are skipped." in told["notes"]
    await visit.set(when="in 1 second", target="agent")
    wake = await visit.agent.wakes.get()
    await agent("alarm_report", fire_id=wake.fire_id, outcome="completed", cost=0.25)
    assert await cost_of_today(visit) == 250_000


async def test_a_program_elsewhere_hears_the_same_and_once(visit: Visitor) -> None:
    asked = wakeful.CreateRequest(wake_message="look", when="every 5 minutes", policy=PolicyRequest(wakes_per_day=24))
    async with wakeful.open(visit.url) as elsewhere:
        for alarms in (elsewhere, visit.alarms):
            made = await alarms.create(asked)
            assert made.notes == [OFTEN, "Its budget allows 24 wakes a day: the others are skipped."]
            paused = await alarms.pause(made.alarm.id)
            assert paused.notes == []


async def test_from_python(visit: Visitor) -> None:
    await visit.alarms.set("in 1 second", "hello", target="agent")
    wake = await visit.agent.wakes.get()
    await visit.alarms.working(wake.fire_id, "half of it", cost=1)
    await visit.alarms.delivery_failed(wake.fire_id, "no", cost=0.5)
    assert await cost_of_today(visit) == 1_500_000


def test_on_the_command_line(tmp_path: Path) -> None:
    config = tmp_path / "wakeful.toml"
    config.write_text(f'db = "{tmp_path}/w.db"\n[budget.owners.local]\nowner_wakes_per_day = 100\n')
    run = CliRunner().invoke
    set_ = run(main, ["--config", str(config), "every", "5 minutes", "look", "--cost-per-day", "2.5", "--json"])
    assert set_.exit_code == 0, set_.output
    assert f"note: {OFTEN}" in set_.stderr
    assert "note: Its budget allows 100 wakes a day: the others are skipped." in set_.stderr
    assert json.loads(set_.stdout)["policy"] == {"cost_per_day": 2.5}
    for command in ("done", "fail"):
        assert "--cost NUMBER" in run(main, [command, "--help"]).output


@pytest.mark.parametrize(
    ("answer", "cost"),
    [({"cost": 0.5}, 0.5), ({}, 0.0), ({"cost": "a lot"}, 0.0), ({"cost": -1}, 0.0), ({"cost": True}, 0.0)],
    ids=str,
)
def test_the_answer_of_a_webhook_may_name_a_cost(answer: dict[str, Any], cost: float) -> None:
    outcome, _ = _answered({"outcome": "completed", "result": "ok", **answer})
    assert getattr(outcome, "cost", None) == cost


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("[budget]\nchain_wakes_per_our = 1\n", "budget", "chain_wakes_per_our"),
        ("[budget]\nrewakes_per_day = -1\n", "budget.rewakes_per_day", "Give 0 for none, or more"),
        ("[budget.owners.ada]\nowner_cost_per_day = nan\n", "budget.owners.ada.owner_cost_per_day", "not a limit"),
        ("[budget.owners.ada]\nwakes = 1\n", "budget", "wakes"),
    ],
)
def test_a_budget_that_is_not_one_stops_the_start(tmp_path: Path, text: str, field: str, said: str) -> None:
    file = tmp_path / "wakeful.toml"
    file.write_text(text)
    with pytest.raises(InvalidConfig) as refused:
        load(file, environ={})
    assert refused.value.field == field
    assert said in str(refused.value)
    assert "line 2" in str(refused.value) or "line 1" in str(refused.value)


async def test_an_agent_that_sets_alarms_out_of_its_wakes_over_http_is_stopped(tmp_path: Path) -> None:
    budget = BudgetSettings(chain_wakes_per_hour=0, chain_wakes_per_day=5)
    async with serving(str(tmp_path / "wakeful.db"), budget=budget) as visit, asyncio.timeout(60):
        await visit.set(when="in 1 second", target="agent")
        for _ in range(1 + 5):
            wake = await visit.agent.wakes.get()
            parent = {"parent_fire": wake.fire_id, "target": "agent"}
            made = await visit("POST", "/v1/alarms", {"wake_message": "again", "delay_seconds": 0.01, **parent})
            assert made.status == 201
        why = ""
        while "budget" not in why:
            why = (await visit("GET", f"/v1/alarms/{made.json['id']}/why")).json["summary"]
        assert "is used up: 5 wakes in one day" in why
        assert visit.agent.wakes.empty()
        events = (await visit("GET", "/v1/events/recent?events=budget_reached")).json["events"]
        assert [event["alarm_id"] for event in events] == [made.json["id"]]

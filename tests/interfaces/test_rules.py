"""A recurrence rule through every door: it is set, previewed, described and brought along by export and import."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from click.testing import CliRunner
from mcp import Client

import wakeful
from tests.interfaces.mcp_world import Agent, door
from tests.interfaces.world import serving
from wakeful.cli import main
from wakeful.process.application import build
from wakeful.settings import Settings

BERLIN = "Europe/Berlin"
RULE = "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9"
KEPT = f"{RULE};BYMINUTE=0"
WORDS = f"every 2 weeks on Tuesday at 09:00, {BERLIN}"
# As a calendar writes it, and longer than a phrase may be.
LONG = "\r\n".join(
    [
        f"DTSTART;TZID={BERLIN}:20270105T090000",
        "RRULE:FREQ=DAILY;INTERVAL=2",
        f"EXDATE:{','.join(f'202702{day:02}' for day in range(1, 29))}",
        "RDATE:20270301T120000,20270302T120000,20270303T120000",
    ]
)


def are_fortnights(local: list[str]) -> bool:
    days = [datetime.fromisoformat(moment).date() for moment in local]
    return {later - earlier for earlier, later in pairwise(days)} == {timedelta(days=14)}


async def test_python_sets_a_rule_and_says_when_it_fires(tmp_path: Path) -> None:
    async with wakeful.open(str(tmp_path / "w.db"), timezone="UTC") as alarms:
        understood = await alarms.parse(RULE, timezone=BERLIN)
        assert (understood.cron_expr, understood.description) == (KEPT, WORDS)
        alarm = await alarms.set(RULE, "x", timezone=BERLIN)
        assert (alarm.kind, alarm.cron_expr) == ("cron", KEPT)
        assert alarm.next_fire_at == understood.next(1)[0]
        long = await alarms.set(LONG, "x")
        assert (long.timezone, len(long.cron_expr) > 300) == (BERLIN, True)


async def test_http_sets_previews_and_shows_a_rule(tmp_path: Path) -> None:
    async with serving(db=str(tmp_path / "w.db")) as visit:
        shown = (await visit("POST", "/v1/preview", {"when": RULE, "timezone": BERLIN, "n": 3})).json
        assert (shown["kind"], shown["cron_expr"], shown["description"]) == ("cron", KEPT, WORDS)
        assert are_fortnights([fire["local"] for fire in shown["next"]])
        body = {"wake_message": "x", "kind": "cron", "cron_expr": RULE, "timezone": BERLIN}
        alarm = (await visit("POST", "/v1/alarms", body)).json
        assert alarm["cron_expr"] == KEPT
        assert (await visit("GET", f"/v1/alarms/{alarm['id']}")).json["next_fire_at"] == shown["next"][0]["utc"]
        assert (await visit.set(when=LONG))["timezone"] == BERLIN
        wrong = await visit("POST", "/v1/alarms", {"wake_message": "x", "cron_expr": "RRULE:FREQ=DAILY;BYHOUR=25"})
        assert wrong.told == (400, "invalid_schedule", "cron_expr")
        assert "BYHOUR" in wrong.text


async def test_an_agent_sets_a_rule_and_reads_it_in_words(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"), timezone=BERLIN)) as alarms:
        async with Client(door(alarms)) as client:
            agent = Agent(client)
            answer = await agent("alarm_set", when=RULE, wake_message="x")
            assert WORDS in json.dumps(answer)
            assert WORDS in json.dumps(await agent("alarm_list"))
            assert "BYHOUR" in await agent.refused("alarm_set", when="RRULE:FREQ=DAILY;BYHOUR=25", wake_message="x")


def test_the_command_line_sets_previews_exports_and_imports_a_rule(tmp_path: Path) -> None:
    def run(db: str, *args: str) -> str:
        result = CliRunner().invoke(main, args, env={"WAKEFUL_DB": str(tmp_path / db)}, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    assert WORDS in run("a.db", "preview", RULE, "--tz", BERLIN)
    [one, two] = [json.loads(run("a.db", "every", text, "x", "--tz", BERLIN, "--json")) for text in (RULE, LONG)]
    assert one["cron_expr"] == KEPT
    assert two["cron_expr"].startswith("DTSTART:20270105T090000 RRULE:FREQ=DAILY;INTERVAL=2 RDATE:")
    assert WORDS in run("a.db", "show", one["id"])
    (tmp_path / "alarms.jsonl").write_text(run("a.db", "export"), encoding="utf-8")
    run("b.db", "import", "file", str(tmp_path / "alarms.jsonl"))
    for alarm in (one, two):
        brought = json.loads(run("b.db", "show", alarm["id"], "--json"))
        assert (brought["cron_expr"], brought["next_fire_at"]) == (alarm["cron_expr"], alarm["next_fire_at"])

"""What was assumed, moved or doubted about a time is said by every door that sets, edits or previews."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client

import wakeful
from tests.dashboard.pages.desk import Desk
from tests.databases import database_of
from tests.interfaces.mcp_world import Agent, door
from tests.interfaces.world import Visitor, serving
from wakeful.cli import main
from wakeful.errors import InvalidSchedule
from wakeful.model.requests import CreateRequest
from wakeful.process.application import build
from wakeful.rules.wanted import request_of
from wakeful.settings import Settings
from wakeful.testing import ManualClock

BERLIN = "Europe/Berlin"
GAP = {"wake_message": "x", "when": "2099-03-29 02:30", "timezone": BERLIN}
MOVED = "02:30 does not exist on 2099-03-29 in Europe/Berlin: it fires at 03:00."
NOON = {"wake_message": "x", "when": "2099-03-28 12:00"}
ASSUMED = "No timezone was given: the time is in UTC. Give `timezone` if you meant another."
MONDAY = datetime(2030, 1, 7, 8, tzinfo=UTC)
WHICH = '"next friday" is Friday 11 January: for Friday 18 January say "friday 18 january".'
TWO_READINGS = "03/04/2099"


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path)) as visitor:
        yield visitor


async def test_over_http(visit: Visitor) -> None:
    made = (await visit("POST", "/v1/alarms", GAP)).json
    assert MOVED in made["notes"]
    assert ASSUMED in (await visit("POST", "/v1/alarms", NOON)).json["notes"]
    plain = (await visit("POST", "/v1/alarms", NOON | {"timezone": "UTC"})).json
    assert "notes" not in plain
    edited = (await visit("PATCH", f"/v1/alarms/{plain['id']}", {"when": GAP["when"], "timezone": BERLIN})).json
    assert MOVED in edited["notes"]
    assert (await visit("POST", "/v1/preview", {"when": GAP["when"], "timezone": BERLIN})).json["remarks"] == [MOVED]
    assert (await visit("POST", "/v1/preview", {"when": NOON["when"]})).json["remarks"] == [ASSUMED]
    assert (await visit("POST", "/v1/preview", {"when": "in 1 hour"})).json["remarks"] == []
    assert ASSUMED in (await visit("POST", "/v1/preview", {"when": "every day at 9am"})).json["remarks"]


@pytest.mark.parametrize("query", ["", "?all_or_none=true"])
async def test_over_http_of_many(visit: Visitor, query: str) -> None:
    body = {"alarms": [GAP, NOON, NOON | {"timezone": "UTC"}]}
    results = (await visit("POST", f"/v1/alarms/batch{query}", body)).json["results"]
    assert [result.get("notes") for result in results] == [[MOVED], [ASSUMED], None]


async def test_from_a_program_elsewhere(visit: Visitor) -> None:
    async with wakeful.open(visit.url) as alarms:
        await _from_python(alarms)


async def test_from_python(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "w.db") as alarms:
        await _from_python(alarms)


async def _from_python(alarms: wakeful.Wakeful) -> None:
    asked = [request_of(CreateRequest, GAP), request_of(CreateRequest, NOON)]
    made = await alarms.create(asked[0])
    assert MOVED in made.notes
    later = await alarms.details(made.alarm.id)
    assert MOVED not in later.notes  # it is said once: what is known of it later is the alarm itself
    moved = await alarms.update((await alarms.set("in 1 hour", "x")).id, when=GAP["when"], timezone=BERLIN)
    assert MOVED in moved.notes
    first, second = await alarms.create_many(asked)
    assert MOVED in first.notes
    assert ASSUMED in second.notes
    assert (await alarms.parse(GAP["when"], timezone=BERLIN)).remarks == (MOVED,)
    assert ASSUMED in (await alarms.parse("every day at 9am")).remarks


def test_from_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAKEFUL_DB", "wakeful.db")

    def run(*args: str) -> tuple[Any, str]:
        result = CliRunner().invoke(main, [*args, "--json"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout), result.stderr

    made, said = run("at", GAP["when"], "x", "--tz", BERLIN)
    assert f"note: {MOVED}\n" in said
    edited, said = run("edit", made["id"], "--when", "2099-03-29 02:15")
    assert "note: 02:15 does not exist on 2099-03-29" in said
    assert edited["changed"]
    assert run("preview", GAP["when"], "--tz", BERLIN)[0]["remarks"] == [MOVED]


async def test_over_mcp(tmp_path: Path) -> None:
    clock = ManualClock(MONDAY)
    async with build(Settings(db=str(tmp_path / "w.db")), clock=clock) as built, Client(door(built)) as client:
        agent = Agent(client)
        made = await agent("alarm_set", when="next friday at noon", wake_message="x", timezone="UTC")
        assert WHICH in made["notes"]
        many = await agent("alarm_set", alarms=[{"when": "next friday", "wake_message": "x", "timezone": "UTC"}])
        assert WHICH in many["notes"]
        plain = await agent("alarm_set", when="friday at noon", wake_message="x", timezone="UTC")
        assert WHICH not in plain.get("notes", [])
        edited = await agent("alarm_update", id=plain["alarm"]["id"], when="next friday at noon")
        assert WHICH in edited["notes"]
        paused = await agent("alarm_update", id=plain["alarm"]["id"], action="pause")
        assert WHICH not in paused.get("notes", [])


async def test_on_the_dashboard(visit: Visitor) -> None:
    desk = Desk(visit)
    shown = await desk.post("/new/preview", [("when", GAP["when"]), ("timezone", BERLIN)], fragment=True)
    assert MOVED in shown.text
    assert "No timezone was given" in (await desk.post("/new/preview", [("when", NOON["when"])], fragment=True)).text
    made = await desk.post("/new", list(GAP.items()))
    assert _said(made.headers["set-cookie"]) == f"The alarm is set. {MOVED}"
    found = await desk.alarms.set("2099-03-29 01:00", "x", timezone=BERLIN)
    fields = [("version", "1"), ("wake_message", "x"), ("label", ""), ("target", "inbox"), ("timezone", BERLIN)]
    fields += [("payload", "{}"), ("conversation_id", ""), ("when", GAP["when"])]
    preview = await desk.post(f"/alarms/{found.id}/edit", [*fields, ("step", "preview")])
    assert MOVED in preview.text
    saved = await desk.post(f"/alarms/{found.id}/edit", [*fields, ("step", "save")])
    assert _said(saved.headers["set-cookie"]) == f"Changed. {MOVED}"


def _said(cookie: str) -> str:
    return bytes.fromhex(cookie.partition("wakeful_said=")[2].partition(";")[0]).decode()


async def test_the_order_of_dates_that_is_set_counts_in_every_verb(tmp_path: Path) -> None:
    read = {"dmy": datetime(2099, 4, 3, 9, tzinfo=UTC), "mdy": datetime(2099, 3, 4, 9, tzinfo=UTC)}
    for order, expected in read.items():
        async with build(Settings(db=str(tmp_path / f"{order}.db"), date_order=order)) as alarms:
            made = await alarms.create(CreateRequest(wake_message="x", when=TWO_READINGS, timezone="UTC"))
            assert made.alarm.fire_at == expected
            first = "day" if order == "dmy" else "month"
            assert f"03/04/2099 was read {first} first" in made.notes[0]
            other = await alarms.set("in 1 hour", "x", timezone="UTC")
            assert (await alarms.snooze(other.id, until=TWO_READINGS)).alarm.next_fire_at == expected
            assert (await alarms.update(other.id, when=TWO_READINGS)).alarm.fire_at == expected
            assert (await alarms.parse(TWO_READINGS)).fire_at == expected
            again = await alarms.set(TWO_READINGS, "x", timezone="UTC", key="k")
            assert (await alarms.set(TWO_READINGS, "x", timezone="UTC", key="k")).id == again.id


async def test_without_an_order_both_readings_are_offered(visit: Visitor) -> None:
    refused = (await visit("POST", "/v1/alarms", NOON | {"when": TWO_READINGS})).json
    assert refused["code"] == "invalid_schedule"
    assert '"4 march 2099" (Wed 4 Mar 2099 09:00) or "3 april 2099" (Fri 3 Apr 2099 09:00)' in refused["fix"]


def test_the_shell_reads_dates_in_the_order_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAKEFUL_DB", "wakeful.db")
    refused = CliRunner().invoke(main, ["at", TWO_READINGS, "x", "--tz", "UTC"])
    assert refused.exit_code == 2
    monkeypatch.setenv("WAKEFUL_DATE_ORDER", "dmy")
    for command in (["at", TWO_READINGS, "x"], ["preview", TWO_READINGS]):
        told = json.loads(CliRunner().invoke(main, [*command, "--tz", "UTC", "--json"]).stdout)
        assert told["fire_at"].startswith("2099-04-03T09:00:00")
    monkeypatch.setenv("WAKEFUL_DATE_ORDER", "ymd")
    wrong = CliRunner().invoke(main, ["preview", TWO_READINGS, "--tz", "UTC"])
    assert "Accepted: dmy, mdy." in wrong.stderr


async def test_a_time_zone_is_accepted_in_any_case_and_kept_in_its_own(visit: Visitor) -> None:
    said = NOON | {"timezone": "europe/berlin"}
    made = (await visit("POST", "/v1/alarms", said)).json
    assert made["timezone"] == BERLIN
    assert (await visit("POST", "/v1/preview", {"when": "9am", "timezone": "EUROPE/BERLIN"})).json["timezone"] == BERLIN
    edited = (await visit("PATCH", f"/v1/alarms/{made['id']}", {"timezone": "asia/tokyo"})).json
    assert edited["timezone"] == "Asia/Tokyo"
    cron = {"wake_message": "x", "cron_expr": "CRON_TZ=asia/tokyo 0 9 * * *"}
    assert (await visit("POST", "/v1/alarms", cron)).json["cron_expr"] == "CRON_TZ=Asia/Tokyo 0 9 * * *"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PST", '"America/Los_Angeles"'),
        ("New York", '"America/New_York"'),
        ("EST", '"America/New_York"'),
        ("CST", '"America/Chicago" or "Asia/Shanghai"'),
        ("Europe/Berln", '"Europe/Berlin"'),
    ],
)
async def test_a_city_or_an_abbreviation_is_refused_with_the_zones_meant(
    name: str, meant: str, visit: Visitor, tmp_path: Path
) -> None:
    for path, body in (("/v1/alarms", NOON), ("/v1/preview", {"when": "9am"})):
        refused = (await visit("POST", path, body | {"timezone": name})).json
        assert (refused["field"], refused["fix"]) == ("timezone", f"Did you mean {meant}?")
    async with wakeful.open(tmp_path / "w.db") as alarms:
        with pytest.raises(InvalidSchedule, match="Did you mean") as refusal:
            await alarms.set("9am", "x", timezone=name)
        assert refusal.value.fix == f"Did you mean {meant}?"
        assert await alarms.find() == []
    shell = CliRunner().invoke(main, ["preview", "9am", "--tz", name])
    assert (shell.exit_code, f"Did you mean {meant}?" in shell.stderr) == (2, True)


async def test_an_alarm_that_has_a_zone_without_summer_time_keeps_it(tmp_path: Path) -> None:
    async with build(Settings(db=str(tmp_path / "w.db"), timezone="EST")) as alarms:
        alarm = await alarms.set("every day at 9am", "x")
        assert alarm.timezone == "EST"
        assert (await alarms.update(alarm.id, label="y")).alarm.timezone == "EST"


def test_the_setting_of_the_zone_is_read_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_TIMEZONE", "europe/berlin")
    assert wakeful.settings.load().timezone == BERLIN

"""Signals through every door: the same alarms hear them, and the wake carries the same payload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mcp import Client

import wakeful
from tests.interfaces.mcp_world import Agent, door
from tests.interfaces.world import Visitor
from wakeful.cli import main
from wakeful.errors import InvalidRequest


async def test_over_http(visit: Visitor) -> None:
    gone = await visit.set(policy={"unless": "built"})
    sooner = await visit.set(target="agent", policy={"or_when": "built"})
    assert sooner["policy"] == {"or_when": "built"}
    done = await visit("POST", "/v1/signals/built", b'{"payload": {"ok" : 1.50}}')
    assert done.status == 200, done.text
    told = done.json
    assert (told["cancelled"], told["fired"], told["in_flight"], "notes" in told) == (1, 1, 0, False)
    assert {one["id"]: one["status"] for one in told["alarms"]} == {gone["id"]: "cancelled", sooner["id"]: "active"}
    assert all("heard" not in one["policy"] for one in told["alarms"])
    wake = await visit.agent.wakes.get()
    assert b'"signal":{"name":"built","payload":{"ok" : 1.50}}' in wake.body
    nobody = (await visit("POST", "/v1/signals/nobody")).json
    assert (nobody["cancelled"], nobody["fired"], nobody["alarms"]) == (0, 0, [])
    assert "not kept for alarms that are set later" in nobody["notes"][0]
    for name, body, field in (("a%20b", None, "name"), ("built", {"payload": "x" * 20_000}, "payload")):
        refused = await visit("POST", f"/v1/signals/{name}", body)
        assert refused.told == (400, "invalid_request", field)
    assert (await visit("POST", "/v1/signals/built", {"pay": 1})).told[:2] == (400, "invalid_request")


async def test_an_agent_signals_and_reads_the_wake_from_its_inbox(visit: Visitor) -> None:
    async with Client(door(visit.alarms)) as client:
        agent = Agent(client)
        await agent("alarm_set", when="in 2 hours", wake_message="nag", key="nag", policy={"unless": "built"})
        await agent("alarm_set", when="in 8 hours", wake_message="look", key="look", policy={"or_when": "built"})
        done = await agent("alarm_signal", name="built", payload={"ok": True})
        assert done["summary"] == "1 cancelled, 1 fired at once."
        assert (done["cancelled"], done["fired"]) == (1, 1)
        assert {one["key"]: one["status"] for one in done["alarms"]} == {"nag": "cancelled", "look": "active"}
        [wake] = (await agent("alarm_inbox", wait=30))["wakes"]
        assert (wake["key"], wake["signal"], wake["signal_payload"]) == ("look", "built", {"ok": True})
        assert "not kept" in (await agent("alarm_signal", name="built"))["notes"][0]
        assert "name" in await agent.refused("alarm_signal", name="no such name")


async def test_a_program_elsewhere_does_the_same(visit: Visitor) -> None:
    async with wakeful.open(visit.url) as elsewhere:
        for alarms in (elsewhere, visit.alarms):
            gone = await alarms.set("in 1 hour", "x", policy={"unless": "built"})
            sooner = await alarms.set("in 1 hour", "x", policy={"or_when": "built"})
            done = await alarms.signal("built", {"n": 1})
            assert [one.id for one in done.cancelled] == [gone.id]
            assert [one.id for one in done.fired] == [sooner.id]
            assert done.in_flight == 0
            assert (await alarms.signal("nobody")).notes
            [taken] = await elsewhere.inbox(wait=30)
            assert taken.signal is not None
            assert (taken.signal.name, taken.signal.payload) == ("built", {"n": 1})
            await alarms.completed(taken.fire.id)
            with pytest.raises(InvalidRequest, match="not a name of a signal"):
                await alarms.signal("../alarms")


def test_on_the_command_line(tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(main, ["--db", str(tmp_path / "w.db"), *words])

    gone = json.loads(run("at", "in 2 hours", "nag", "--unless", "built", "--json").stdout)
    sooner = json.loads(run("every", "day at 5pm", "look", "--or-when", "built", "--json").stdout)
    told = run("signal", "built", "--payload", '{"ok": true}', "--json")
    assert told.exit_code == 0, told.output
    done = json.loads(told.stdout)
    assert [one["id"] for one in done["cancelled"]] == [gone["id"]]
    assert [one["id"] for one in done["fired"]] == [sooner["id"]]
    nobody = run("signal", "nobody")
    assert nobody.exit_code == 0
    assert "note: No active alarm of yours waits for this signal." in nobody.stderr
    wrong = run("signal", "built", "--payload", "{")
    assert wrong.exit_code == 2
    assert "payload: it is not JSON" in wrong.stderr


WATCH = {"when": "0 0 1 1 *", "policy": {"unless": "built"}, "timezone": "Europe/Berlin"}
BEAT = {"when": "in 1 hour", "policy": {"unless": "built", "rearm": "15m"}}


async def test_what_is_skipped_and_moved_is_said_over_http(visit: Visitor) -> None:
    watch = await visit.set(**WATCH)
    beat = await visit.set(**BEAT)
    assert watch["notes"][-1].startswith("A signal 'built' skips only the next fire, now that of ")
    assert beat["notes"] == ["Each signal 'built' moves this alarm to 15 minutes after it."]
    assert beat["policy"] == {"unless": "built", "rearm": 900}
    told = (await visit("POST", "/v1/signals/built")).json
    assert (told["cancelled"], told["fired"], told["skipped"], told["moved"]) == (0, 0, 1, 1)
    alarms = {one["id"]: one for one in told["alarms"]}
    skipped, moved = sorted(told["effects"], key=lambda one: one["effect"] == "moved")
    assert skipped == {"alarm_id": watch["id"], "effect": "skipped", "at": watch["next_fire_at"]}
    assert moved == {"alarm_id": beat["id"], "effect": "moved", "at": alarms[beat["id"]]["next_fire_at"]}
    [row] = (await visit("GET", f"/v1/alarms/{watch['id']}/fires")).json["fires"]
    assert (row["status"], row["reason"]) == ("skipped", "signalled")
    again = (await visit("POST", "/v1/signals/built")).json
    assert (again["skipped"], again["moved"]) == (0, 1)
    assert {one["effect"] for one in again["effects"]} == {"already_skipped", "moved"}
    assert "had been skipped already" in again["notes"][0]
    for policy in ({"rearm": "15m"}, {"unless_since": "1h"}):
        refused = await visit("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour", "policy": policy})
        assert refused.told == (400, "invalid_request", f"policy.{next(iter(policy))}")


async def test_what_is_skipped_and_moved_is_said_to_an_agent(visit: Visitor) -> None:
    async with Client(door(visit.alarms)) as client:
        agent = Agent(client)
        watch = await agent("alarm_set", wake_message="x", key="w", **WATCH)
        beat = await agent("alarm_set", wake_message="x", key="b", **BEAT)
        assert "skips only the next fire" in " ".join(watch["notes"])
        assert "Each signal 'built' moves this alarm to 15 minutes after it." in beat["notes"]
        done = await agent("alarm_signal", name="built")
        assert done["summary"] == "0 cancelled, 0 fired at once, 1 skipped, 1 moved."
        at = {one["alarm_id"]: (one["effect"], one["at"]) for one in done["effects"]}
        assert at[watch["alarm"]["id"]] == ("skipped", watch["alarm"]["next_fire_local"])
        assert at[beat["alarm"]["id"]][0] == "moved"
        assert "had been skipped already" in (await agent("alarm_signal", name="built"))["notes"][0]
        assert "policy.rearm" in await agent.refused(
            "alarm_set", wake_message="x", **WATCH | {"policy": BEAT["policy"]}
        )


async def test_what_is_skipped_and_moved_is_said_to_programs(visit: Visitor) -> None:
    async with wakeful.open(visit.url) as elsewhere:
        for number, alarms in enumerate((elsewhere, visit.alarms)):
            policy: Any = {"unless": f"built-{number}"}
            watch = await alarms.set(cron="0 0 1 1 *", wake_message="x", policy=policy | {"unless_since": "36500d"})
            beat = await alarms.set("in 1 hour", "x", policy=policy | {"rearm": "15m"})
            assert (beat.policy.rearm, watch.policy.unless_since) == (900, 36_500 * 86_400)
            done = await alarms.signal(f"built-{number}")
            at = {one.alarm.id: (one.effect, one.at) for one in done.alarms}
            [moved] = done.moved
            assert at == {watch.id: ("skipped", watch.next_fire_at), beat.id: ("moved", moved.next_fire_at)}
            assert [one.id for one in done.skipped] == [watch.id]
            assert "had been skipped already" in (await alarms.signal(f"built-{number}")).notes[0]


def test_what_is_skipped_and_moved_is_said_on_the_command_line(tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(main, ["--db", str(tmp_path / "w.db"), *words])

    watch = run("every", "0 0 1 1 *", "watch", "--unless", "built", "--unless-since", "36500d", "--json")
    beat = run("at", "in 1 hour", "beat", "--unless", "built", "--rearm", "15m", "--json")
    assert (watch.exit_code, beat.exit_code) == (0, 0), (watch.output, beat.output)
    assert "note: Each signal 'built' moves this alarm to 15 minutes after it." in beat.stderr
    at = json.loads(watch.stdout)["next_fire_at"]
    told = run("signal", "built")
    rows = {line.split("\t")[2]: line.split("\t")[1] for line in told.stdout.splitlines()}
    assert rows["watch"] == f"skips {at}"
    assert rows["beat"].startswith("moved to ")
    again = run("signal", "built")
    assert "already skipped" in again.stdout
    assert "had been skipped already" in again.stderr
    both = json.loads(run("signal", "built", "--json").stdout)
    assert {one["effect"] for one in both["effects"]} == {"already_skipped", "moved"}
    assert ([one["label"] for one in both["moved"]], both["skipped"]) == ([""], [])
    refused = run("every", "day at 5pm", "x", "--unless", "built", "--rearm", "15m")
    assert refused.exit_code == 2
    assert "--rearm: a signal moves an alarm that fires once" in refused.stderr

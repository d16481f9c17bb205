"""The token of a wake through every door: over HTTP, MCP, from Python and from the shell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import wakeful
from tests.acting import acting
from tests.databases import database_of
from tests.remote.world import command
from wakeful.model.alarm import Policy
from wakeful.rules.wake import Wake
from wakeful.store import EventQuery
from wakeful.testing import store_of

from .mcp_world import Agent
from .world import Visitor, serving

SET = {"wake_message": "check again", "when": "in 2 hours"}


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path), tick=timedelta(milliseconds=50)) as visitor:
        yield visitor


def bearer(wake: Wake) -> dict[str, str]:
    return {"authorization": f"Bearer {wake.token}"}


def is_child(alarm: Any, wake: Wake) -> bool:
    told = alarm if isinstance(alarm, dict) else {name: getattr(alarm, name) for name in alarm.__struct_fields__}
    return (told["owner_did"], told["parent_fire"], told["root_id"], told["generation"]) == (
        wake.owner_did,
        wake.fire_id,
        wake.alarm_id,
        1,
    )


async def test_over_http_the_server_fills_in_the_parent(visit: Visitor) -> None:
    await visit.token("ada")
    wake = await visit.fired("ada")
    for more in ({}, {"parent_fire": "another@1"}):
        answer = await visit("POST", "/v1/alarms", SET | more, headers=bearer(wake))
        assert answer.status == 201, answer.text
        assert is_child(answer.json, wake)
        assert answer.json["created_by"] == "ada"
    many = await visit("POST", "/v1/alarms/batch", {"alarms": [SET | {"parent_fire": ""}]}, headers=bearer(wake))
    assert is_child(many.json["results"][0]["alarm"], wake)
    listed = (await visit("GET", "/v1/alarms", headers=bearer(wake))).json["alarms"]
    assert len(listed) == 3
    gone = await visit("DELETE", f"/v1/alarms/{listed[0]['id']}", headers=bearer(wake))
    assert gone.json["status"] == "cancelled"
    [event] = [event for _, event in await store_of(visit.alarms).events(EventQuery(alarm_id=listed[0]["id"]))]
    assert (event.what, event.by) == ("cancelled", f"ada (wake {wake.fire_id})")


async def test_after_its_chain_is_cancelled_it_sets_nothing(visit: Visitor) -> None:
    wake, other = await visit.fired("ada"), await visit.fired("ada")
    assert (await visit("POST", "/v1/alarms", SET, headers=bearer(wake))).status == 201
    owners = await visit.token("ada")
    gone = await visit("DELETE", f"/v1/alarms?root_id={wake.alarm_id}", headers=owners)
    assert gone.json["cancelled"] == 1
    for place, body in (("/v1/alarms", SET), ("/v1/alarms/batch", {"alarms": [SET]})):
        refused = await visit("POST", place, body, headers=bearer(wake))
        assert refused.told == (401, "unauthorized", "Authorization")
        assert "its chain was cancelled" in refused.text
    assert (await visit("POST", "/v1/alarms", SET, headers=bearer(other))).status == 201


async def test_it_opens_no_more_where_no_token_is_needed(visit: Visitor) -> None:
    wake, theirs = await visit.fired(), await visit.set()
    assert (await visit("GET", f"/v1/alarms/{theirs['id']}")).status == 200
    assert (await visit("GET", f"/v1/alarms/{theirs['id']}", headers=bearer(wake))).status == 404
    assert (await visit("GET", "/v1/history", headers=bearer(wake))).told == (403, "forbidden", "Authorization")
    forged = {"authorization": bearer(wake)["authorization"][:-1]}
    assert (await visit("POST", "/v1/alarms", SET, headers=forged)).told == (401, "unauthorized", "Authorization")


async def test_a_series_says_its_end_and_a_report_renews_it(visit: Visitor) -> None:
    wake = await visit.fired()
    answer = await visit("POST", "/v1/alarms", SET | {"when": "every day at 9am"}, headers=bearer(wake))
    series = answer.json
    assert any(note.startswith(f"It ends at {series['policy']['ends_at'][:19]}") for note in series["notes"])
    refused = await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "completed", "renew": True})
    assert refused.told == (409, "conflict", "renew")
    child = Wake((await acting(visit.alarms.service, "local").fire(series["id"])).alarm)
    assert child.author == "agent"
    reporting = {"authorization": f"Bearer {wake.report_token}"}
    place = f"/v1/fires/{wake.fire_id}/report"
    assert (await visit("POST", place, {"outcome": "completed", "renew": False}, headers=reporting)).status == 200


async def test_the_inbox_hands_it_out_and_a_report_with_it_counts(visit: Visitor) -> None:
    await visit.set(when="in 1 second", delay_seconds=None)
    [wake] = (await visit("POST", "/v1/inbox?wait=60")).json["wakes"]
    assert (wake["author"], wake["parent_fire"], wake["generation"]) == ("owner", "", 0)
    said = {"authorization": f"Bearer {wake['token']}"}
    made = (await visit("POST", "/v1/alarms", SET, headers=said)).json
    assert made["parent_fire"] == wake["fire_id"]
    done = await visit("POST", f"/v1/fires/{wake['fire_id']}/report", {"outcome": "completed"}, headers=said)
    assert done.json["status"] == "completed"
    other = await visit.fired()
    refused = await visit("POST", f"/v1/fires/{other.fire_id}/report", {"outcome": "completed"}, headers=said)
    assert refused.status == 404


async def test_over_mcp_the_server_fills_in_the_parent(visit: Visitor) -> None:
    wake = await visit.fired()
    async with httpx2.AsyncClient(headers=bearer(wake), timeout=30) as http:
        async with Client(streamable_http_client(visit.url + "/mcp", http_client=http)) as client:
            agent = Agent(client)
            made = await agent("alarm_set", **SET, parent_fire="another@1", key="again")
            assert is_child(await acting(visit.alarms.service, "local").get(made["alarm"]["id"]), wake)
            assert len((await agent("alarm_list"))["alarms"]) == 1
            assert (await agent("alarm_cancel", id="again"))["cancelled"] == 1
            assert "can set alarms" in await agent.refused("alarm_history")
            done = await agent("alarm_report", fire_id=wake.fire_id, outcome="completed")
            assert done["fire"]["status"] == "completed"


async def test_an_agent_reads_whose_words_they_are_and_renews(visit: Visitor) -> None:
    wake = await visit.fired()
    body = SET | {"wake_message": "mine", "when": "in 2 minutes"}
    made = (await visit("POST", "/v1/alarms", body, headers=bearer(wake))).json
    verbs = acting(visit.alarms.service, "local")
    await verbs.update(made["id"], delay=0.001)
    async with httpx2.AsyncClient(timeout=30) as http:
        async with Client(streamable_http_client(visit.url + "/mcp", http_client=http)) as client:
            agent = Agent(client)
            [taken] = (await agent("alarm_inbox", wait=60))["wakes"]
            assert (taken["author"], taken["parent_fire"]) == ("agent", wake.fire_id)
            assert "token" not in taken
            text = await agent.refused("alarm_report", fire_id=taken["fire_id"], outcome="completed", renew=True)
            assert "has no end that a report can renew" in text


async def test_from_python_the_server_fills_in_the_parent(visit: Visitor) -> None:
    wake = await visit.fired()
    async with wakeful.open(visit.url, token=wake.token) as alarms:
        made = await alarms.set("in 2 hours", "check again", parent_fire="another@1")
        assert is_child(await acting(visit.alarms.service, "local").get(made.id), wake)
        assert [alarm.id for alarm in await alarms.find()] == [made.id]
        assert (await alarms.cancel(made.id)).alarm.status == "cancelled"
        with pytest.raises(wakeful.Forbidden):
            await alarms.agenda()


async def test_a_remote_handler_gets_it_and_sees_whose_words_they_are(visit: Visitor) -> None:
    await visit.set(when="in 1 second")
    async with wakeful.open(visit.url) as alarms:
        [taken] = await alarms.inbox(wait=60)
        assert (taken.author, taken.ends_at, taken.renewable) == ("owner", None, False)
        assert taken.token not in repr(taken)
        async with wakeful.open(visit.url, token=taken.token) as woken:
            made = await woken.set("every day at 9am", "look")
            assert made.policy.ends_at is not None
        assert (await alarms.get(made.id)).parent_fire == taken.fire.id


async def test_from_the_shell_the_server_fills_in_the_parent(visit: Visitor, tmp_path: Path) -> None:
    wake = await visit.fired()

    async def shell(*args: str, token: str = wake.token) -> tuple[int, str, str]:
        return await asyncio.to_thread(command, args, tmp_path, WAKEFUL_URL=visit.url, WAKEFUL_TOKEN=token)

    code, said, error = await shell("at", "2h", "check again", "--json")
    assert (code, error) == (0, "")
    assert is_child(await acting(visit.alarms.service, "local").get(json.loads(said)["id"]), wake)
    code, _, error = await shell("agenda")
    assert code != 0
    assert "the token of a wake can set alarms" in error
    code, _, error = await shell("done", wake.fire_id, "--renew", token="")
    assert "has no end that a report can renew" in error


@pytest.mark.parametrize("door", ["http", "mcp", "python", "shell"])
async def test_a_report_renews_through_every_door(visit: Visitor, tmp_path: Path, door: str) -> None:
    end = (await visit.alarms.service.now()).replace(microsecond=0) + timedelta(hours=1)
    policy = Policy(ends_at=end, renew_for=timedelta(days=90).total_seconds(), report_within=600)
    series = await visit.alarms.set(cron="@every 1s", wake_message="look", policy=policy)
    async with httpx2.AsyncClient(timeout=30) as http:
        async with Client(streamable_http_client(visit.url + "/mcp", http_client=http)) as client:
            agent = Agent(client)
            [wake] = (await agent("alarm_inbox", wait=60))["wakes"]
            assert (wake["renewable"], wake["ends_at"]) == (True, end.isoformat().replace("+00:00", "Z"))
            assert "unless a report with renew comes before" in (await agent("alarm_get", id=series.id))["why"]
            if door == "mcp":
                await agent("alarm_report", fire_id=wake["fire_id"], outcome="completed", renew=True)
    if door == "http":
        place = f"/v1/fires/{wake['fire_id']}/report"
        assert (await visit("POST", place, {"outcome": "working", "renew": True})).status == 200
    if door == "python":
        async with wakeful.open(visit.url) as alarms:
            await alarms.completed(wake["fire_id"], renew=True)
    if door == "shell":
        args = ("done", wake["fire_id"], "--renew")
        code, _, error = await asyncio.to_thread(command, args, tmp_path, WAKEFUL_URL=visit.url)
        assert (code, error) == (0, "")
    renewed = (await visit.alarms.get(series.id)).policy.ends_at
    assert renewed is not None
    assert renewed > end + timedelta(days=89)
    events = (await visit("GET", f"/v1/events/recent?events=renewed&alarm_id={series.id}")).json["events"]
    assert [event["reason"][:6] for event in events] == ["until "]


async def test_it_is_not_in_history_why_or_the_log(visit: Visitor, capfd: pytest.CaptureFixture[str]) -> None:
    wake = await visit.fired()
    await visit("POST", "/v1/alarms", SET, headers=bearer(wake))
    for path in ("history", f"alarms/{wake.alarm_id}", f"alarms/{wake.alarm_id}/why", f"fires/{wake.fire_id}"):
        answer = await visit("GET", f"/v1/{path}")
        assert (answer.status, wake.token[-43:] in answer.text) == (200, False)
    assert wake.token[-43:] not in "".join(capfd.readouterr())

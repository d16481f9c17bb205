"""What agents wish for, in the same words over HTTP and from a program elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import wakeful
from tests.databases import database_of
from tests.interfaces.world import Visitor, serving
from wakeful.errors import InvalidSchedule, NotFound
from wakeful.rules.wanted import request_of

SERIES = {"wake_message": "brief", "when": "every weekday at 9am", "timezone": "UTC", "idempotency_key": "brief"}


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with serving(**database_of(request, tmp_path)) as visitor:
        yield visitor


async def test_a_time_of_day_moves_a_series_and_its_policy_is_merged(visit: Visitor) -> None:
    await visit("POST", "/v1/alarms", SERIES | {"policy": {"max_fires": 9, "expires": "1h"}})
    moved = await visit("PATCH", "/v1/alarms/brief", {"when": "10am", "policy": {"expires": None, "jitter": 5}})
    assert (moved.json["kind"], moved.json["cron_expr"]) == ("cron", "0 10 * * 1-5")
    assert moved.json["policy"] == {"max_fires": 9, "jitter": 5}
    refused = await visit("PATCH", "/v1/alarms/brief", {"when": "tomorrow at 9am"})
    assert (refused.status, refused.json["code"]) == (400, "invalid_schedule")
    assert 'add the kind "once"' in refused.json["fix"]
    once = await visit("PATCH", "/v1/alarms/brief", {"when": "tomorrow at 9am", "kind": "once"})
    assert once.json["kind"] == "once"


async def test_answers_have_notes(visit: Visitor) -> None:
    made = await visit("POST", "/v1/alarms", {"wake_message": "x", "when": "4 march 2099"})
    assert any("No timezone was given" in note for note in made.json["notes"])
    plain = await visit("POST", "/v1/alarms", {"wake_message": "x", "when": "in 1 hour", "timezone": "UTC"})
    assert not any("No timezone" in note for note in plain.json.get("notes", ()))


async def test_each_of_many_has_its_notes(visit: Visitor) -> None:
    often = {"wake_message": "x", "when": "every 5 minutes", "idempotency_key": "often"}
    dated = {"wake_message": "x", "when": "every day at 9am"}
    for query in ("", "?all_or_none=true"):
        made = await visit("POST", f"/v1/alarms/batch{query}", {"alarms": [often, dated]})
        assert [one["notes"] for one in made.json["results"]] == [
            ["It wakes 288 times a day."],
            ["No timezone was given: the time is in UTC. Give `timezone` if you meant another."],
        ]
    assert (await visit("GET", "/v1/alarms/often")).json["notes"] == ["It wakes 288 times a day."]
    async with wakeful.open(visit.url) as alarms:
        asked = request_of(wakeful.CreateRequest, often | {"idempotency_key": "other"})
        [one] = await alarms.create_many([asked])
        assert one.notes == ["It wakes 288 times a day."]


async def test_a_key_whose_alarm_has_ended_is_not_a_silent_success(visit: Visitor) -> None:
    body = {"wake_message": "x", "when": "in 1 hour", "idempotency_key": "k"}
    first = (await visit("POST", "/v1/alarms", body)).json
    await visit("DELETE", "/v1/alarms/k")
    again = await visit("POST", "/v1/alarms", body)
    assert (again.status, again.json["deduped"], again.json["status"]) == (200, True, "cancelled")
    told = f"Alarm {first['id']} had this key and is cancelled: nothing was set."
    assert [note.partition(" Nothing will fire")[0] for note in again.json["notes"]] == [told]
    several = (await visit("POST", "/v1/alarms/batch", {"alarms": [body]})).json["results"]
    assert several[0]["notes"] == again.json["notes"]
    kept = await visit("POST", "/v1/alarms", body | {"on_conflict": "return"})
    assert kept.json["notes"] == again.json["notes"]
    assert (await visit("POST", "/v1/alarms", body | {"on_conflict": "replace"})).json["status"] == "active"


async def test_a_refusal_says_what_was_meant_for_programs_too(visit: Visitor) -> None:
    body = {"wake_message": "x", "when": "tomorrow at 9am", "timezone": "PST"}
    refused = await visit("POST", "/v1/alarms", body)
    assert refused.json["repair"] == {"timezone": "America/Los_Angeles"}
    assert (await visit("POST", "/v1/alarms", body | refused.json["repair"])).status == 201
    several = await visit("POST", "/v1/alarms/batch", {"alarms": [body]})
    assert several.json["results"][0]["problem"]["repair"] == {"timezone": "America/Los_Angeles"}
    bound = {"wake_message": "x", "when": "every day at 9am", "policy": {"ends_at": "on no day", "max_fires": 2}}
    assert "repair" not in (await visit("POST", "/v1/alarms", bound)).json
    async with wakeful.open(visit.url) as elsewhere:
        for alarms in (elsewhere, visit.alarms):
            with pytest.raises(InvalidSchedule) as unknown:
                await alarms.set("tomorrow at 9am", "x", timezone="PST")
            assert unknown.value.repair == {"timezone": "America/Los_Angeles"}


async def test_many_are_cancelled_in_one_call(visit: Visitor) -> None:
    for number in range(3):
        body = {"wake_message": f"grant {number}", "when": "in 1 hour", "idempotency_key": f"k{number}"}
        await visit("POST", "/v1/alarms", body)
    dry = await visit("POST", "/v1/alarms/cancel", {"text": "grant", "dry_run": True})
    assert (dry.json["cancelled"], dry.json["dry_run"], len(dry.json["alarms"])) == (0, True, 3)
    assert (await visit("POST", "/v1/alarms/cancel", {"ids": ["k0", "nobody"]})).status == 404
    assert (await visit("POST", "/v1/alarms/cancel", {})).json["field"] == "ids"
    assert (await visit("POST", "/v1/alarms/cancel", {"ids": ["k0"]})).json["cancelled"] == 1
    assert (await visit("POST", "/v1/alarms/cancel", {"text": "GRANT"})).json["cancelled"] == 2
    found = (await visit("GET", "/v1/alarms?key=k1")).json["alarms"]
    assert [alarm["status"] for alarm in found] == ["cancelled"]
    assert len((await visit("GET", "/v1/alarms?q=K2")).json["alarms"]) == 1


async def test_the_same_from_a_program_elsewhere(visit: Visitor) -> None:
    async with wakeful.open(visit.url) as alarms:
        brief = {"when": "every weekday at 9am", "wake_message": "brief", "idempotency_key": "brief"}
        wanted = brief | {"policy": {"max_fires": 9, "expires": "1h"}}
        made = await alarms.create(request_of(wakeful.CreateRequest, wanted))
        alarm = made.alarm
        assert any("No timezone" in note for note in made.notes)
        moved = (await alarms.update("brief", when="10am", policy={"expires": None})).alarm
        assert (moved.cron_expr, moved.policy.max_fires, moved.policy.expires) == (
            "0 10 * * 1-5",
            9,
            None,
        )
        with pytest.raises(InvalidSchedule):
            await alarms.update("brief", when="tomorrow at 9am")
        assert [one.id for one in await alarms.find(key="brief")] == [alarm.id]
        with pytest.raises(NotFound):
            await alarms.cancel_many(["brief", "nobody"])
        snoozed = await alarms.snooze("brief", until="2099-01-01T09:00:00Z")
        assert snoozed.alarm.next_fire_at.year == 2099
        assert [one.id for one in (await alarms.cancel_many(text="brief", dry_run=True)).alarms] == [alarm.id]
        assert (await alarms.get("brief")).status == "active"
        assert [one.status for one in (await alarms.cancel_many(["brief"])).alarms] == ["cancelled"]
        await alarms.set(delay=0.01, wake_message="work", conversation_id="c")
        [taken] = await alarms.inbox(wait=10, conversation_id="c")
        assert (taken.number, taken.previous, taken.next_fire_at) == (1, None, None)
        assert await alarms.inbox(done={taken.fire.id: "3 grants"}) == []
        assert (await alarms.agenda()).notes == []
        assert (await alarms.fire_of(taken.fire.id)).result == "3 grants"
        assert [entry.status for entry in await alarms.history(since="1h", status="completed")] == ["completed"]

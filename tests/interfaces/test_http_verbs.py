"""What an owner does to alarms and fires over HTTP, beyond setting and listing them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_of
from tests.interfaces.world import Answer, Visitor, serving

GOOD = {"wake_message": "x", "when": "in 1 hour"}


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    place = database_of(request, tmp_path)
    async with serving(**place) as visitor:
        yield visitor


async def test_a_manual_fire_is_told_as_one_of_its_alarm(visit: Visitor) -> None:
    id = (await visit.set(**GOOD, target="agent"))["id"]
    copy = (await visit("POST", f"/v1/alarms/{id}/fire")).json
    assert copy["manual_of"] == id
    async with asyncio.timeout(30):
        assert (await visit.agent.wakes.get()).alarm_id == copy["id"]
        await visit.alarms.dispatcher._all_down()
    [fire] = (await visit("GET", f"/v1/alarms/{id}/fires")).json["fires"]
    assert (fire["manual"], fire["alarm_id"], fire["status"]) == (True, copy["id"], "delivered")
    assert [one["id"] for one in (await visit("GET", "/v1/alarms")).json["alarms"]] == [id]
    told = (await visit("GET", "/v1/history")).json["history"]
    assert [(one["alarm_id"], one["status"], one.get("manual", False)) for one in told] == [
        (id, "delivered", True),
        (id, "pending", False),
    ]
    assert "It was fired by hand at" in (await visit("GET", f"/v1/alarms/{id}/why")).json["summary"]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def failed_fire(visit: Visitor) -> str:
    """A fire whose work is reported as failed for good."""
    await visit.alarms.set(delay=0.01, wake_message="work", target="agent", max_failures=0)
    async with asyncio.timeout(30):
        wake = await visit.agent.wakes.get()
        await visit.alarms.dispatcher._all_down()
    answer = await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "failed", "reason": "no"})
    assert answer.json["status"] == "failed"
    return wake.fire_id


# Batch


async def test_in_a_batch_a_key_with_another_request_is_refused_in_its_place(visit: Visitor) -> None:
    keyed = GOOD | {"idempotency_key": "k"}
    await visit("POST", "/v1/alarms", keyed)
    items = [
        keyed | {"label": "x"},
        keyed | {"idempotency_key": " k "},
        keyed | {"label": "x", "on_conflict": "return"},
    ]
    results = (await visit("POST", "/v1/alarms/batch", {"alarms": items})).json["results"]
    assert [result["status"] for result in results] == [409, 200, 200]
    assert (results[0]["problem"]["code"], results[0]["problem"]["field"]) == ("conflict", "idempotency_key")


async def test_a_batch_answers_for_each_item_and_a_bad_one_stops_no_other(visit: Visitor) -> None:
    items: list[Any] = [GOOD, {"when": "in 1 hour"}, 7, GOOD | {"when": "yesterday"}, GOOD | {"idempotency_key": "k"}]
    answer = await visit("POST", "/v1/alarms/batch", {"alarms": [*items, GOOD | {"idempotency_key": "k"}]})
    assert answer.status == 200
    results = answer.json["results"]
    statuses = [result["status"] for result in results]
    assert statuses[:4] == [201, 400, 400, 400]
    assert sorted(statuses[4:]) == [200, 201]
    assert results[1]["problem"]["field"] == "wake_message"
    assert results[3]["problem"]["code"] == "invalid_schedule"
    assert results[4]["alarm"]["id"] == results[5]["alarm"]["id"]
    assert {name: answer.json[name] for name in ("created", "deduped", "refused")} == {
        "created": 2,
        "deduped": 1,
        "refused": 3,
    }
    assert len((await visit("GET", "/v1/alarms")).json["alarms"]) == 2


async def test_of_all_or_none_the_one_at_fault_is_named(visit: Visitor) -> None:
    for bad, field in (({"when": "in 1 hour"}, "wake_message"), (GOOD | {"when": "yesterday"}, "when")):
        answer = await visit("POST", "/v1/alarms/batch?all_or_none=true", {"alarms": [GOOD, GOOD, bad]})
        assert (answer.status, answer.json["field"]) == (400, f"alarms[2].{field}")
    assert (await visit("GET", "/v1/stats")).json["total"] == 0


async def test_a_batch_holds_a_thousand_and_no_more(visit: Visitor) -> None:
    answer = await visit("POST", "/v1/alarms/batch", {"alarms": [GOOD] * 1000})
    assert (answer.status, answer.json["created"]) == (200, 1000)
    for wrong in ([GOOD] * 1001, []):
        assert (await visit("POST", "/v1/alarms/batch", {"alarms": wrong})).told == (400, "invalid_request", "alarms")
    assert (await visit("GET", "/v1/stats")).json["total"] == 1000


# Keys and likeness


async def test_the_key_may_come_in_the_header(visit: Visitor) -> None:
    headers = {"idempotency-key": '"k-1"'}
    first = await visit("POST", "/v1/alarms", GOOD, headers=headers)
    again = await visit("POST", "/v1/alarms", GOOD | {"idempotency_key": "k-1"}, headers={"idempotency-key": "k-1"})
    assert (first.status, again.status) == (201, 200)
    assert first.json["idempotency_key"] == "k-1"
    assert again.json["id"] == first.json["id"]
    other = await visit("POST", "/v1/alarms", GOOD | {"idempotency_key": "k-2"}, headers=headers)
    assert other.told == (400, "invalid_request", "idempotency_key")


async def test_an_alarm_like_another_is_made_and_the_other_named(visit: Visitor) -> None:
    body = {"wake_message": "water the plants", "when": "every day at 9am", "label": "plants"}
    first = await visit("POST", "/v1/alarms", body)
    assert "similar" not in first.json
    second = await visit("POST", "/v1/alarms", body)
    assert second.status == 201
    assert second.json["id"] != first.json["id"]
    assert second.json["similar"]["id"] == first.json["id"]
    assert second.json["similar"]["label"] == "plants"


# Edit


async def test_an_edit_changes_what_it_names_and_nothing_else(visit: Visitor) -> None:
    alarm = await visit.set(label="tea", payload={"n": 1})
    path = f"/v1/alarms/{alarm['id']}"
    answer = await visit("PATCH", path, {"wake_message": "coffee", "when": None})
    assert answer.status == 200
    assert answer.json | {"now": ""} == alarm | {"wake_message": "coffee", "version": 2, "now": "", "in_flight": False}
    assert answer.headers["etag"] == '"2"'
    moved = await visit("PATCH", path, {"fire_at": "2099-01-01T00:00:00Z", "payload": None, "policy": {"jitter": 0}})
    assert moved.json["next_fire_at"] == "2099-01-01T00:00:00Z"
    assert moved.json["payload"] is None
    series = await visit("PATCH", path, {"kind": "cron", "cron_expr": "0 9 * * 1-5", "timezone": "Europe/Berlin"})
    assert (series.json["kind"], series.json["cron_expr"]) == ("cron", "0 9 * * 1-5")
    later = await visit("PATCH", path, {"delay_seconds": 90})
    assert at(later.json["next_fire_at"]) - at(later.json["now"]) < timedelta(seconds=91)


async def test_an_edit_meant_for_another_version_is_refused(visit: Visitor) -> None:
    alarm = await visit.set()
    path = f"/v1/alarms/{alarm['id']}"
    assert (await visit("GET", path)).headers["etag"] == '"1"'
    for match, status in (('"1"', 200), ('"1"', 412), ("2", 200), ('W/"3"', 200), ("*", 200), ('"99"', 412)):
        answer = await visit("PATCH", path, {"label": "x"}, headers={"if-match": match})
        assert answer.status == status, match
    assert answer.told == (412, "stale_version", "version")
    for nonsense in ('"a"', '""', '"1", "2"', '"1', '"99999999999999999999"', "١"):
        answer = await visit("PATCH", path, {"label": "x"}, headers={"if-match": nonsense})
        assert answer.told == (400, "invalid_request", "If-Match"), nonsense


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid_request", "body"),
        ({"label": None}, "invalid_request", "body"),
        ({"colour": "red"}, "invalid_request", "colour"),
        ({"idempotency_key": "k"}, "invalid_request", "idempotency_key"),
        ({"wake_message": ""}, "invalid_request", "wake_message"),
        ({"label": "a\0b"}, "invalid_request", "label"),
        ({"payload": "a\0b"}, "invalid_request", "payload"),
        ({"target": "nowhere"}, "unknown_target", "target"),
        ({"when": "yesterday"}, "invalid_schedule", "when"),
        ({"when": "in 1 hour", "cron_expr": "* * * * *"}, "invalid_schedule", "when"),
        ({"kind": "once", "cron_expr": "* * * * *"}, "invalid_schedule", "kind"),
        ({"delay_seconds": 0}, "invalid_request", "delay_seconds"),
        ({"timezone": "Mars/Base"}, "invalid_schedule", "timezone"),
        ({"max_failures": -1}, "invalid_request", "max_failures"),
        ({"policy": {"jitter": "soon"}}, "invalid_request", "policy.jitter"),
    ],
    ids=str,
)
async def test_a_bad_edit_changes_nothing(visit: Visitor, body: dict[str, Any], code: str, field: str) -> None:
    alarm = await visit.set()
    path = f"/v1/alarms/{alarm['id']}"
    assert (await visit("PATCH", path, body)).told == (400, code, field)
    assert (await visit("GET", path)).json["version"] == 1


# Pause, resume, snooze, skip, fire


async def test_a_paused_alarm_says_why_and_goes_on_when_resumed(visit: Visitor) -> None:
    alarm = await visit.set()
    path = f"/v1/alarms/{alarm['id']}"
    paused = await visit("POST", f"{path}/pause", {"reason": "holiday"})
    assert (paused.status, paused.json["status"], paused.json["paused_reason"]) == (200, "paused", "holiday")
    assert "next_fire_at" not in paused.json
    resumed = await visit("POST", f"{path}/resume")
    assert (resumed.json["status"], resumed.json["next_fire_at"]) == ("active", alarm["next_fire_at"])
    assert (await visit("POST", f"{path}/pause")).json["status"] == "paused"
    assert (await visit("POST", f"{path}/pause", b"")).status == 200
    assert (await visit("POST", f"{path}/pause", {"reason": "a\0b"})).told == (400, "invalid_request", "reason")
    wrong = await visit("POST", f"{path}/pause", b"x", headers={"content-type": "text/plain"})
    assert wrong.told == (415, "unsupported_media_type", "Content-Type")


async def test_a_snooze_is_a_length_or_a_moment(visit: Visitor) -> None:
    alarm = await visit.set()
    path = f"/v1/alarms/{alarm['id']}/snooze"
    longer = await visit("POST", path, {"for": "3h"})
    assert at(longer.json["next_fire_at"]) - at(longer.json["now"]) > timedelta(hours=2.9)
    until = await visit("POST", path, {"until": "2099-01-01T02:00:00+02:00"})
    assert until.json["next_fire_at"] == "2099-01-01T00:00:00Z"
    for body in ({}, {"for": "1h", "until": "2099-01-01T00:00:00Z"}, {"for": "soon"}, {"for": "1s"}):
        assert (await visit("POST", path, body)).told == (400, "invalid_request", "for"), body
    assert (await visit("POST", path, {"until": "2099"})).told == (400, "invalid_request", "until")
    await visit("DELETE", f"/v1/alarms/{alarm['id']}")
    assert (await visit("POST", path, {"for": "1h"})).told == (409, "conflict", "id")


async def test_the_next_fire_of_a_series_is_skipped(visit: Visitor) -> None:
    alarm = await visit.set(when="every day at 9am")
    path, first = f"/v1/alarms/{alarm['id']}", at(alarm["next_fire_at"])
    skipped = await visit("POST", f"{path}/skip", {"at": alarm["next_fire_at"]})
    assert (skipped.status, skipped.json["in_flight"]) == (200, False)
    assert at(skipped.json["next_fire_at"]) == first + timedelta(days=1)
    again = await visit("POST", f"{path}/skip", {"at": alarm["next_fire_at"]})
    assert again.told == (409, "conflict", "at")
    assert (first + timedelta(days=1)).isoformat() in again.json["detail"]
    nothing: list[Any] = [None, b"", {}]
    for empty in nothing:
        before = at((await visit("GET", path)).json["next_fire_at"])
        after = await visit("POST", f"{path}/skip", empty)
        assert at(after.json["next_fire_at"]) == before + timedelta(days=1), empty
    assert (await visit("POST", f"{path}/skip", {"at": "whenever"})).told == (400, "invalid_request", "at")
    assert (await visit("POST", f"{path}/skip", {"to": "x"})).told == (400, "invalid_request", "to")
    fires = (await visit("GET", f"{path}/fires")).json["fires"]
    assert [(fire["status"], fire["reason"]) for fire in fires] == [("skipped", "requested")] * 4
    assert all(fire["result"].startswith("skipped on request by ") for fire in fires)


async def test_a_one_shot_is_not_skipped(visit: Visitor) -> None:
    alarm = await visit.set()
    answer = await visit("POST", f"/v1/alarms/{alarm['id']}/skip")
    assert answer.told == (409, "conflict", "id")
    assert answer.json["fix"] == "Cancel it, or snooze it."


async def test_firing_now_sends_a_copy_and_moves_nothing(visit: Visitor) -> None:
    alarm = await visit.set(target="agent")
    answer = await visit("POST", f"/v1/alarms/{alarm['id']}/fire")
    assert answer.status == 201
    assert answer.headers["location"] == f"/v1/alarms/{answer.json['id']}"
    assert answer.json["root_id"] == alarm["id"]
    async with asyncio.timeout(30):
        wake = await visit.agent.wakes.get()
    assert wake.alarm_id == answer.json["id"]
    assert (await visit("GET", f"/v1/alarms/{alarm['id']}")).json["next_fire_at"] == alarm["next_fire_at"]
    chain = (await visit("GET", f"/v1/alarms?root_id={alarm['id']}")).json["alarms"]
    assert [one["id"] for one in chain] == [answer.json["id"]]


async def test_a_chain_is_cancelled_and_nothing_else(visit: Visitor) -> None:
    alarm, other = await visit.set(), await visit.set()
    assert (await visit("DELETE", f"/v1/alarms?root_id={alarm['id']}")).json["cancelled"] == 1
    assert (await visit("GET", f"/v1/alarms/{other['id']}")).json["status"] == "active"
    assert (await visit("DELETE", "/v1/alarms?root_id=nope")).told == (404, "not_found", "root_id")


@pytest.mark.parametrize("verb", ["pause", "resume", "snooze", "skip", "fire", "why", "fires"])
async def test_verbs_of_what_is_not_there_are_not_found(visit: Visitor, verb: str) -> None:
    method = "GET" if verb in ("why", "fires") else "POST"
    body = {"for": "1h"} if verb == "snooze" else None
    for id in ("nope", "%00", "01a1dfba-b761-7000-8856-d5f2b52e48f7", "01a1dfba-b761-7000-8856-d5f2b52e48f7@1"):
        answer = await visit(method, f"/v1/alarms/{id}/{verb}", body)
        assert (answer.status, answer.json["code"]) == (404, "not_found")


# Why and retry


async def test_why_is_told_in_words_and_facts(visit: Visitor) -> None:
    alarm = await visit.set()
    why = (await visit("GET", f"/v1/alarms/{alarm['id']}/why")).json
    assert "It fires at" in why["summary"]
    assert why["facts"]
    assert at(why["now"]).tzinfo == UTC
    wake = await visit.fired()
    told = (await visit("GET", f"/v1/fires/{wake.fire_id}/why")).json
    assert any(wake.fire_id in fact for fact in told["facts"])
    assert (await visit("GET", f"/v1/fires/{alarm['id']}@1/why")).status == 404


async def test_a_failed_fire_is_tried_again(visit: Visitor) -> None:
    fire_id = await failed_fire(visit)
    answer = await visit("POST", f"/v1/fires/{fire_id}/retry")
    assert answer.status == 200
    assert answer.json["status"] in ("retrying", "delivered")  # the dispatcher may be faster than the answer
    async with asyncio.timeout(30):
        assert (await visit.agent.wakes.get()).fire_id == fire_id
        await visit.alarms.dispatcher._all_down()
    assert (await visit("POST", f"/v1/fires/{fire_id}/retry")).told == (409, "conflict", "fire_id")
    assert (await visit("POST", "/v1/fires/nope/retry")).status == 404


async def test_many_failed_fires_are_tried_again_by_the_filters_of_the_list(visit: Visitor) -> None:
    fires = {await failed_fire(visit) for _ in range(3)}
    await visit.fired()

    async def retried(query: str) -> Answer:
        return await visit("POST", f"/v1/fires/retry{query}")

    def counts(answer: Answer) -> tuple[int, int, int]:
        return answer.json["found"], answer.json["retried"], answer.json["refused"]

    assert counts(await retried("?target=inbox")) == (0, 0, 0)
    assert (await retried("?status=completed")).told == (400, "invalid_request", "status")
    assert (await retried("?limit=1001")).told == (400, "invalid_request", "limit")
    first = await retried("?limit=1&status=failed")
    assert counts(first) == (1, 1, 0)
    assert "next_cursor" in first.json
    assert counts(await retried("")) == (2, 2, 0)
    async with asyncio.timeout(30):
        assert {(await visit.agent.wakes.get()).fire_id for _ in range(3)} == fires

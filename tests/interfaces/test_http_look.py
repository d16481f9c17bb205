"""History, agenda, inbox and preview over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.databases import database_of
from tests.interfaces.world import Visitor, serving


@pytest.fixture(params=["sqlite", "postgres"])
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visitor]:
    place = database_of(request, tmp_path)
    async with serving(**place) as visitor:
        yield visitor


async def test_history_holds_what_happened_and_what_is_to_come(visit: Visitor) -> None:
    wake = await visit.fired()
    alarm = await visit.set(label="later")
    history = (await visit("GET", "/v1/history")).json["history"]
    assert [entry["id"] for entry in history] == [alarm["id"], wake.fire_id]
    [pending] = (await visit("GET", "/v1/history?status=pending&target=inbox&limit=1")).json["history"]
    assert (pending["alarm_id"], pending["status"], pending["label"]) == (alarm["id"], "pending", "later")
    assert (await visit("GET", "/v1/history?since=2099-01-01T00:00:00Z")).json["history"] == []
    assert (await visit("GET", "/v1/history?status=asleep")).told == (400, "invalid_request", "status")
    assert (await visit("GET", "/v1/history?limit=501")).told == (400, "invalid_request", "limit")


async def test_what_failed_is_listed(visit: Visitor) -> None:
    await visit.alarms.set(delay=0.01, wake_message="work", target="agent", max_failures=0)
    async with asyncio.timeout(30):
        wake = await visit.agent.wakes.get()
        await visit.alarms.dispatcher._all_down()
    assert (await visit("GET", "/v1/failed")).json["failed"] == []
    await visit("POST", f"/v1/fires/{wake.fire_id}/report", {"outcome": "failed", "reason": "no milk"})
    [entry] = (await visit("GET", "/v1/failed?limit=5")).json["failed"]
    assert (entry["id"], entry["status"], entry["error"]) == (wake.fire_id, "failed", "no milk")


async def test_the_agenda_merges_what_is_to_come(visit: Visitor) -> None:
    await visit.set(when="every hour", label="hourly")
    await visit.set(when="in 90 minutes", label="once")
    agenda = (await visit("GET", "/v1/agenda?hours=3")).json["agenda"]
    assert sorted(coming["at"] for coming in agenda) == [coming["at"] for coming in agenda]
    assert [coming["alarm"]["label"] for coming in agenda].count("hourly") == 3
    assert (await visit("GET", "/v1/agenda?hours=0")).json["agenda"] == []
    assert len((await visit("GET", "/v1/agenda?limit=2")).json["agenda"]) == 2
    for query in ("hours=-1", "hours=soon", "hours=nan", "hours=1e9", "hours=99999999"):
        assert (await visit("GET", f"/v1/agenda?{query}")).told == (400, "invalid_request", "hours")


async def test_a_preview_says_what_a_phrase_means(visit: Visitor) -> None:
    body = {"when": "every weekday at 9am", "timezone": "America/New_York", "n": 3}
    answer = await visit("POST", "/v1/preview", body)
    assert answer.status == 200
    shown = answer.json
    assert (shown["kind"], shown["cron_expr"], shown["timezone"]) == ("cron", "0 9 * * 1-5", "America/New_York")
    assert "9:00" in shown["description"] or "9am" in shown["description"] or "09:00" in shown["description"]
    assert len(shown["next"]) == 3
    for occurrence in shown["next"]:
        assert occurrence["utc"].endswith("Z")
        local = datetime.fromisoformat(occurrence["local"])
        assert (local.hour, local) == (9, datetime.fromisoformat(occurrence["utc"]))
    once = (await visit("POST", "/v1/preview", {"when": "2099-01-01T00:00:00Z"})).json
    assert (once["kind"], once["fire_at"], len(once["next"])) == ("once", "2099-01-01T00:00:00Z", 1)
    assert (await visit("GET", "/v1/alarms")).json["alarms"] == []
    for bad, code, field in (
        ({"when": "whenever"}, "invalid_schedule", "when"),
        ({"when": "in 1 hour", "timezone": "Mars/Base"}, "invalid_schedule", "timezone"),
        ({"when": "in 1 hour", "n": 0}, "invalid_request", "n"),
        ({"when": "in 1 hour", "n": 101}, "invalid_request", "n"),
        ({}, "invalid_request", "when"),
    ):
        assert (await visit("POST", "/v1/preview", bad)).told == (400, code, field)


async def test_the_inbox_hands_a_wake_out_once_until_its_report_is_due(visit: Visitor) -> None:
    assert (await visit("POST", "/v1/inbox")).json["wakes"] == []
    alarm = await visit.set(when=None, delay_seconds=0.01, payload={"n": 1}, conversation_id="c")
    [wake] = (await visit("POST", "/v1/inbox?wait=10&limit=5")).json["wakes"]
    assert (wake["alarm_id"], wake["message"], wake["payload"]) == (alarm["id"], "hello", {"n": 1})
    assert wake["report"]["url"] == f"{visit.url}/v1/fires/{wake['fire_id']}/report"
    assert datetime.fromisoformat(wake["report_by"]) > datetime.fromisoformat(wake["scheduled_for"])
    assert (wake["attempt"], wake["missed"]) == (1, 0)
    assert 0 <= wake["late_ms"] < 60_000
    assert (await visit("POST", "/v1/inbox")).json["wakes"] == []
    for verb, body in (("pause", {}), ("resume", None)):
        assert (await visit("POST", f"/v1/alarms/{alarm['id']}/{verb}", body)).status == 409  # it has fired
    headers = {"authorization": f"Bearer {wake['report']['token']}"}
    path = wake["report"]["url"].removeprefix(visit.url)
    answer = await visit("POST", path, {"outcome": "completed", "result": "done"}, headers=headers)
    assert (answer.status, answer.json["status"]) == (200, "completed")


async def test_cancelling_retracts_what_waits_and_says_of_what_was_fetched_that_it_is_in_flight(visit: Visitor) -> None:
    every_second = {"when": None, "cron_expr": "* * * * * *", "policy": {"overlap": "allow"}}
    alarm = await visit.set(**every_second)
    path = f"/v1/alarms/{alarm['id']}"
    assert (await visit("POST", "/v1/inbox?wait=10&limit=1")).json["wakes"]
    for method, verb, body in (("PATCH", "", {"label": "x"}), ("POST", "/pause", {}), ("POST", "/resume", None)):
        answer = await visit(method, path + verb, body)
        assert (answer.status, answer.json["in_flight"]) == (200, True)
    assert (await visit("POST", f"{path}/snooze", {"for": "1h"})).json["in_flight"]
    cancelled = (await visit("DELETE", path)).json
    assert (cancelled["status"], cancelled["in_flight"]) == ("cancelled", True)
    assert (await visit("POST", "/v1/inbox")).json["wakes"] == []


async def test_who_waits_at_the_inbox_is_answered_as_soon_as_something_comes(
    visit: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal, rung, waits = visit.alarms.service.inbox_signal, list[bool](), asyncio.Event()
    heard = signal.heard

    async def heard_only(owner: str, within: float) -> bool:
        waits.set()
        rung.append(await heard(owner, within if True in rung else 60.0))  # nothing is found by looking
        return rung[-1]

    monkeypatch.setattr(signal, "heard", heard_only)
    waiting = asyncio.create_task(visit("POST", "/v1/inbox?wait=50"))
    await waits.wait()
    await visit.set(when=None, delay_seconds=0.01)
    [wake] = (await waiting).json["wakes"]
    assert wake["message"] == "hello"
    assert rung[0]


async def test_an_inbox_with_nothing_in_it_answers_when_the_wait_is_over(visit: Visitor) -> None:
    started = asyncio.get_running_loop().time()
    assert (await visit("POST", "/v1/inbox?wait=0.3")).json["wakes"] == []
    assert asyncio.get_running_loop().time() - started >= 0.3
    for query in ("wait=61", "wait=-1", "wait=long", "limit=0", "limit=101"):
        field = query.partition("=")[0]
        assert (await visit("POST", f"/v1/inbox?{query}")).told == (400, "invalid_request", field)


async def test_looking_whether_there_is_an_inbox_takes_nothing_out(visit: Visitor) -> None:
    await visit.set(when=None, delay_seconds=0.01)
    answer = await visit("HEAD", "/v1/inbox?wait=5")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
    assert len((await visit("POST", "/v1/inbox?wait=10")).json["wakes"]) == 1


async def test_no_page_takes_wakes_out_of_the_inbox_of_an_open_server(visit: Visitor) -> None:
    await visit.set(when=None, delay_seconds=0.01)
    refused = await visit("GET", "/v1/inbox?wait=5")  # as an image does, in a browser that says nothing of whose it is
    assert refused.told == (403, "foreign_origin", "X-Wakeful-Client")
    assert "POST /v1/inbox" in refused.json["fix"]
    image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    for method in ("GET", "POST"):
        led = await visit(method, "/v1/inbox?wait=5", headers=image | {"x-wakeful-client": "1"})
        assert led.told == (403, "foreign_origin", "Sec-Fetch-Site")
    answer = await visit("GET", "/v1/inbox?wait=10", headers={"x-wakeful-client": "my-agent"})
    assert len(answer.json["wakes"]) == 1


async def test_with_a_token_the_inbox_answers_a_plain_get(visit: Visitor) -> None:
    ada = await visit.token("ada")
    await visit.alarms.for_owner("ada").set(delay=0.01, wake_message="hello")
    assert len((await visit("GET", "/v1/inbox?wait=10", headers=ada)).json["wakes"]) == 1


async def test_another_owners_inbox_stays_shut(visit: Visitor) -> None:
    await visit.alarms.for_owner("somebody").set(delay=0.01, wake_message="secret")
    assert (await visit("POST", "/v1/inbox?wait=0.5")).json["wakes"] == []


async def test_who_waits_at_the_inbox_is_answered_when_the_server_stops(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), stop_within=timedelta(seconds=60)) as visit:
        waiting = asyncio.create_task(visit("POST", "/v1/inbox?wait=60"))
        async with asyncio.timeout(60):
            while not any(visit.alarms.service.connections._taken.values()):  # it waits, and has a seat
                await visit("GET", "/healthz")
        visit.running.cancel()
        async with asyncio.timeout(30):
            answer = await waiting
        assert (answer.status, answer.json["wakes"]) == (200, [])

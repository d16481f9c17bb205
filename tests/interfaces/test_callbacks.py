"""What agent platforms say about a wake becomes its fire's report; whoever cannot prove it changes nothing."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.world import Answer, Visitor, serving
from wakeful.clock import SystemClock
from wakeful.model.alarm import Fire
from wakeful.targets.signing import key, sign
from wakeful.testing.receiver import Receiver

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
OTHER = "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXI="
JSON = {"content-type": "application/json"}


@pytest.fixture
async def platform() -> AsyncIterator[Receiver]:
    async with Receiver() as platform:
        yield platform


@pytest.fixture
async def visit(tmp_path: Path, platform: Receiver) -> AsyncIterator[Visitor]:
    base = platform.url.removesuffix("/wake")
    targets = {
        "graph": {"kind": "langgraph", "url": base, "assistant_id": "agent"},
        "agent-to-agent": {"kind": "a2a", "url": base},
        "session": {"kind": "openai_session", "url": base, "api_key": "k-1", "webhook_secret": SECRET},
        "other-project": {"kind": "openai_session", "url": base, "api_key": "k-2", "webhook_secret": OTHER},
    }
    for target in targets.values():
        target["allow_private"] = True  # type: ignore[assignment]
    async with serving(str(tmp_path / "w.db"), targets=targets) as visit:
        yield visit


async def woken(visit: Visitor, platform: Receiver, target: str, conversation: str = "sess_1") -> dict[str, Any]:
    """What the platform got for a wake, and the fire's id; its report is awaited."""
    count = len(platform.wakes)
    alarms = visit.alarms
    alarm = await alarms.set(
        delay=0.01, wake_message="check", target=target, conversation_id=conversation, max_failures=0
    )
    got = (await platform.wait_for(count + 1, timeout=60))[-1]
    await until(lambda fires: fires[0].status == "delivered", visit, alarm.id)
    return {"alarm": alarm.id, "got": got}


async def until(is_so: Callable[[list[Fire]], bool], visit: Visitor, alarm: str) -> Fire:
    async with asyncio.timeout(60):
        while not (fires := await visit.alarms.fires(alarm)) or not is_so(fires):
            await SystemClock().sleep(0.01)
    return fires[0]


async def fire(visit: Visitor, wake: dict[str, Any]) -> tuple[str, str]:
    found = (await visit.alarms.fires(wake["alarm"]))[0]
    return found.status, found.result


# LangGraph


def run(status: str, text: str = "") -> dict[str, Any]:
    return {"run_id": "r", "status": status, "values": {"messages": [{"type": "ai", "content": text}]}}


def path_of(address: str) -> str:
    return "/v1/" + address.partition("/v1/")[2]


async def test_the_end_of_a_run_is_the_report_of_its_fire(visit: Visitor, platform: Receiver) -> None:
    wake = await woken(visit, platform, "graph")
    webhook = path_of(wake["got"].json["webhook"])
    answer = await visit("POST", webhook, run("success", "3 grants"))
    assert (answer.status, answer.json["reported"]) == (200, 1)
    assert await fire(visit, wake) == ("completed", "3 grants")
    assert (await visit("POST", webhook, run("success", "3 grants"))).status == 200  # said again
    assert (await visit("POST", webhook, run("error"))).status == 409
    assert await fire(visit, wake) == ("completed", "3 grants")


async def test_a_run_that_failed_fails_its_fire(visit: Visitor, platform: Receiver) -> None:
    wake = await woken(visit, platform, "graph")
    await visit("POST", path_of(wake["got"].json["webhook"]), run("error") | {"error": {"message": "no key"}})
    status, result = await fire(visit, wake)
    assert status == "failed"
    assert "the run ended with error: no key" in result


async def test_a_run_may_bring_a_long_conversation_along(visit: Visitor, platform: Receiver) -> None:
    wake = await woken(visit, platform, "graph")
    body = run("success", "done")
    body["values"]["messages"][:0] = [{"type": "human", "content": "x" * 1_000_000}]
    webhook = path_of(wake["got"].json["webhook"])

    async def sent(said: dict[str, Any]) -> Answer:
        return await visit("POST", webhook, data=io.BytesIO(json.dumps(said).encode()), headers=JSON)

    assert (await sent(body)).status == 200
    assert (await sent(run("success", "x" * 5_000_000))).told[:2] == (413, "body_too_large")
    assert await fire(visit, wake) == ("completed", "done")


async def test_without_the_fires_own_token_nothing_is_reported(visit: Visitor, platform: Receiver) -> None:
    wake, another = await woken(visit, platform, "graph"), await woken(visit, platform, "graph", "sess_2")
    webhook, foreign = (path_of(one["got"].json["webhook"]) for one in (wake, another))
    path, _, token = webhook.partition("?token=")
    token_of_another = foreign.partition("?token=")[2]
    owners = await visit.token("local", "read", "write", "admin")
    for refused, headers in (
        (path, {}),
        (f"{path}?token=", {}),
        (f"{path}?token={token[:-1]}", {}),
        (f"{path}?token={token_of_another}", {}),
        (path, {"authorization": f"Bearer {token}"}),
        (path, owners),
        (path, {"x-a2a-notification-token": token}),
    ):
        answer = await visit("POST", refused, run("success"), headers=headers)
        assert answer.told == (401, "unauthorized", "token")
    assert (await fire(visit, wake))[0] == "delivered"


async def test_what_is_no_run_and_a_fire_that_is_not_there_are_refused(visit: Visitor, platform: Receiver) -> None:
    wake = await woken(visit, platform, "graph")
    webhook = path_of(wake["got"].json["webhook"])
    assert (await visit("POST", webhook, b"[]")).told == (400, "invalid_request", "body")
    nowhere = webhook.replace(wake["alarm"], "01900000-0000-7000-8000-000000000009")
    assert (await visit("POST", nowhere, run("success"))).status == 401
    assert (await visit("GET", webhook)).status == 405
    assert (await fire(visit, wake))[0] == "delivered"


# A2A


async def test_push_notifications_are_the_report_of_a_fire(visit: Visitor, platform: Receiver) -> None:
    platform.always(headers=JSON, body='{"result": {"task": {"id": "t", "status": {"state": "TASK_STATE_SUBMITTED"}}}}')
    wake = await woken(visit, platform, "agent-to-agent")
    push = wake["got"].json["params"]["configuration"]["taskPushNotificationConfig"]
    path, headers = path_of(push["url"]), {"X-A2A-Notification-Token": push["token"]}

    async def pushed(said: dict[str, Any]) -> Answer:
        return await visit("POST", path, said, headers=headers)

    def update(state: str) -> dict[str, Any]:
        return {"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{state}"}}}

    before = (await visit.alarms.fires(wake["alarm"]))[0].report_by
    assert (await pushed({"task": {"status": {"state": "TASK_STATE_SUBMITTED"}}})).json["reported"] == 0
    assert (await pushed(update("WORKING"))).json["reported"] == 1
    after = (await visit.alarms.fires(wake["alarm"]))[0].report_by
    assert before is not None
    assert after is not None
    assert after > before
    await pushed({"artifactUpdate": {"artifact": {"parts": [{"text": "3 grants"}]}}})
    assert (await visit("POST", path, update("COMPLETED"))).told == (401, "unauthorized", "token")
    assert await fire(visit, wake) == ("delivered", "3 grants")
    assert (await pushed(update("COMPLETED"))).status == 200
    assert await fire(visit, wake) == ("completed", "3 grants")
    assert (await pushed(update("WORKING"))).status == 409  # late


# OpenAI


async def told(visit: Visitor, type: str, session: str, secret: str = SECRET, *, age: int = 0) -> Answer:
    body = json.dumps({"id": "evt_1", "type": f"agent.session.{type}", "data": {"id": session}}).encode()
    at = int(SystemClock().now().timestamp()) - age
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(at),
        "webhook-signature": sign([key(secret)], "evt_1", at, body),
    }
    return await visit("POST", "/v1/callbacks/openai_session", body, headers=headers)


async def test_an_idle_session_has_done_what_it_was_woken_for(visit: Visitor, platform: Receiver) -> None:
    first, second = [await woken(visit, platform, "session", f"sess_{n}") for n in (1, 2)]
    assert (await told(visit, "in_progress", "sess_1")).json["reported"] == 1
    assert (await told(visit, "created", "sess_1")).json["reported"] == 0
    assert (await told(visit, "idle", "sess_1")).json["reported"] == 1
    assert await fire(visit, first) == ("completed", "The session is idle again.")
    assert (await fire(visit, second))[0] == "delivered"
    assert (await told(visit, "idle", "sess_1")).json["reported"] == 0
    assert (await told(visit, "failed", "sess_2")).json["reported"] == 1
    assert (await fire(visit, second))[0] == "failed"


async def test_a_wake_behind_many_of_other_sessions_is_found(
    visit: Visitor, platform: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.http.routes.callbacks._PAGE", 1)
    first, *_ = [await woken(visit, platform, "session", f"sess_{n}") for n in (1, 2, 3)]
    assert (await told(visit, "idle", "sess_1")).json["reported"] == 1
    assert (await fire(visit, first))[0] == "completed"


async def test_a_webhook_counts_for_the_project_that_signed_it(visit: Visitor, platform: Receiver) -> None:
    wake = await woken(visit, platform, "session")
    assert (await told(visit, "idle", "sess_1", OTHER)).json["reported"] == 0
    assert (await told(visit, "idle", "sess_1", "whsec_c29tZWJvZHkgZWxzZQ==")).status == 401
    assert (await told(visit, "idle", "sess_1", age=3600)).status == 401
    unsigned = await visit(
        "POST", "/v1/callbacks/openai_session", {"type": "agent.session.idle", "data": {"id": "sess_1"}}
    )
    assert unsigned.told == (401, "unauthorized", "webhook-signature")
    assert (await fire(visit, wake))[0] == "delivered"


# Which are served


async def test_they_are_in_the_openapi_document(visit: Visitor) -> None:
    paths = (await visit("GET", "/openapi.json")).json["paths"]
    found = {path for path in paths if "/callbacks/" in path}
    assert found == {
        "/v1/callbacks/langgraph/{fire_id}",
        "/v1/callbacks/a2a/{fire_id}",
        "/v1/callbacks/openai_session",
    }


async def test_without_such_a_target_there_is_no_such_route(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db")) as visit:
        assert (await visit("POST", "/v1/callbacks/openai_session", {})).status == 404
        assert (await visit("POST", "/v1/callbacks/langgraph/a@1?token=x", {})).status == 404

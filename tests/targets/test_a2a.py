"""An A2A agent: what is sent, what is never begun twice, and what its answers and push notifications mean."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.outcome import Completed, Delivered, Failed, Outcome
from wakeful.targets import Target
from wakeful.targets.a2a import A2A, report_of
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import TargetConformance, a_wake

JSON = {"content-type": "application/json"}


def result(**said: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": "1", "result": said})


def task(state: str, **more: Any) -> dict[str, Any]:
    return {"id": "task-1", "contextId": "c-1", "status": {"state": f"TASK_STATE_{state}"}} | more


def an_agent(receiver: Receiver, **settings: Any) -> A2A:
    given: dict[str, Any] = {"token": "planted-token", "allow_private": True, "timeout": 20} | settings
    if "card" not in given:
        given["url"] = receiver.url
    return A2A(clock=SystemClock(), **given)


@pytest.fixture
async def agent(receiver: Receiver) -> AsyncIterator[A2A]:
    receiver.always(headers=JSON, body=result(task=task("SUBMITTED")))
    target = an_agent(receiver)
    yield target
    await target.close()


class TestAsATarget(TargetConformance):
    @pytest.fixture
    def target(self, agent: A2A) -> Target:
        return agent


async def test_a_wake_is_a_message_in_the_context_of_its_conversation(agent: A2A, receiver: Receiver) -> None:
    wake = a_wake("Check the portal", conversation_id="c-1", payload_json='{"page":3}')
    assert await agent.deliver(wake) == Delivered("task task-1", awaits_report=True)
    [got] = receiver.wakes
    assert got.headers["authorization"] == "Bearer planted-token"
    assert got.headers["a2a-version"] == "1.0"
    push = {"url": f"https://wakeful.example/v1/callbacks/a2a/{wake.fire_id}", "token": wake.report_token}
    assert got.json == {
        "jsonrpc": "2.0",
        "id": wake.fire_id,
        "method": "SendMessage",
        "params": {
            "message": {
                "messageId": wake.fire_id,
                "role": "ROLE_USER",
                "contextId": "c-1",
                "parts": [{"text": wake.prompt}, {"data": {"page": 3}}],
                "metadata": {"fire_id": wake.fire_id, "alarm_id": wake.alarm_id},
            },
            "configuration": {
                "returnImmediately": True,
                "acceptedOutputModes": ["text/plain"],
                "taskPushNotificationConfig": push,
            },
        },
    }


@pytest.mark.parametrize("fields", [{}, {"conversation_id": "c-1", "isolated": True}])
async def test_without_a_conversation_or_apart_from_it_each_fire_has_a_context(
    agent: A2A, receiver: Receiver, fields: dict[str, Any]
) -> None:
    wake = a_wake(**fields)
    await agent.deliver(wake)
    message = receiver.wakes[0].json["params"]["message"]
    assert message["contextId"] == wake.fire_id
    assert message["parts"] == [{"text": wake.prompt}]


async def test_without_reports_no_push_is_asked_for_and_none_is_awaited(receiver: Receiver) -> None:
    receiver.always(headers=JSON, body=result(task=task("WORKING")))
    target = an_agent(receiver, reports=False)
    assert await target.deliver(a_wake()) == Delivered("task task-1")
    assert "taskPushNotificationConfig" not in receiver.wakes[0].json["params"]["configuration"]
    await target.close()


ARTIFACT = {"artifactId": "a", "parts": [{"text": "3 grants"}, {"data": {"n": 3}}]}
SAID = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "which page?"}]}}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (result(message={"parts": [{"text": "done"}]}), Completed("done")),
        (result(task=task("COMPLETED", artifacts=[ARTIFACT])), Completed('3 grants\n{"n":3}')),
        (result(task=task("FAILED")), Failed("the task was failed", answered=True)),
        (result(task=task("REJECTED")), Failed("the task was rejected", answered=True)),
        (result(task=task("CANCELED")), Failed("the task was canceled", answered=True)),
        (result(task=task("WORKING")), Delivered("task task-1", awaits_report=True)),
        (result(task=task("AUTH_REQUIRED")), Completed("Waits for authorization")),
        ("[]", Delivered("the answer was not understood", awaits_report=True)),
        ("what?", Delivered("the answer was not understood", awaits_report=True)),
        (result(task=7), Delivered("the answer was not understood", awaits_report=True)),
        (
            json.dumps({"error": {"code": -32601, "message": "Method not found"}}),
            Failed("the agent refused it: -32601 Method not found", retryable=False, answered=True),
        ),
        (
            json.dumps({"error": {"code": -32603, "message": "Internal error"}}),
            Failed("the agent refused it: -32603 Internal error", answered=True),
        ),
        (json.dumps({"error": {}}), Failed("the agent refused it: 0 ", retryable=False, answered=True)),
    ],
)
async def test_what_an_answer_means(agent: A2A, receiver: Receiver, answer: str, outcome: Outcome) -> None:
    receiver.answer(headers=JSON, body=answer)
    assert await agent.deliver(a_wake()) == outcome


async def test_an_agent_that_asks_has_done_its_turn(agent: A2A, receiver: Receiver) -> None:
    asking = task("INPUT_REQUIRED")
    asking["status"] |= SAID
    receiver.answer(headers=JSON, body=result(task=asking))
    assert await agent.deliver(a_wake()) == Completed("Waits for input: which page?")


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (422, False), (401, True), (429, True), (503, True)])
async def test_statuses(agent: A2A, receiver: Receiver, status: int, retryable: bool) -> None:
    receiver.answer(status, headers={"retry-after": "7"}, body="planted-token")
    outcome = await agent.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.retry_after) == (retryable, 7.0)
    assert "planted" not in outcome.error


# A second attempt


def listed(state: str, message: str = "") -> str:
    history = [{"messageId": message or a_wake().fire_id, "role": "ROLE_USER", "parts": []}]
    return result(tasks=[task(state, history=history, artifacts=[ARTIFACT])], pageSize=10)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (listed("WORKING"), Delivered("task task-1", awaits_report=True)),
        (listed("COMPLETED"), Completed('3 grants\n{"n":3}')),
    ],
)
async def test_a_task_that_this_fire_began_is_not_begun_again(
    agent: A2A, receiver: Receiver, found: str, outcome: Outcome
) -> None:
    receiver.answer(headers=JSON, body=found)
    assert await agent.deliver(a_wake(conversation_id="c-1", attempt=2)) == outcome
    [asked] = receiver.wakes
    assert asked.json["method"] == "ListTasks"
    assert asked.json["params"]["contextId"] == "c-1"


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (listed("FAILED"), 200),
        (listed("WORKING", "another@1"), 200),
        (result(tasks=[]), 200),
        (result(tasks=[7, {"history": 7}]), 200),
        (json.dumps({"error": {"code": -32601}}), 200),
        ("", 404),
    ],
)
async def test_a_task_that_failed_or_is_not_known_is_begun(
    agent: A2A, receiver: Receiver, found: str, status: int
) -> None:
    receiver.answer(status, headers=JSON, body=found)
    assert await agent.deliver(a_wake(attempt=2)) == Delivered("task task-1", awaits_report=True)
    assert [got.json["method"] for got in receiver.wakes] == ["ListTasks", "SendMessage"]


# The agent card


def card(url: str, binding: str = "JSONRPC", version: str = "1.0") -> str:
    return json.dumps(
        {"name": "r", "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": version}]}
    )


async def test_the_card_says_where_the_agent_is_and_is_read_once(receiver: Receiver) -> None:
    receiver.answer(headers=JSON, body=card(receiver.url.replace("/wake", "/a2a/v1")))
    receiver.always(headers=JSON, body=result(task=task("SUBMITTED")))
    target = an_agent(receiver, card=receiver.url.replace("/wake", "/.well-known/agent-card.json"))
    for _ in range(2):
        assert isinstance(await target.deliver(a_wake()), Delivered)
    assert [got.path for got in receiver.wakes] == ["/.well-known/agent-card.json", "/a2a/v1", "/a2a/v1"]
    await target.close()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (card("http://169.254.169.254/"), "another host"),
        (card("http://127.0.0.1:1/"), "another host"),
        (card("{url}", binding="GRPC"), "no JSON-RPC interface"),
        (card("{url}", version="0.3"), "no JSON-RPC interface"),
        ('{"name": "r"}', "no JSON-RPC interface"),
        ("[]", "not an agent card"),
    ],
)
async def test_a_card_that_leads_nowhere_is_a_failed_attempt(receiver: Receiver, said: str, error: str) -> None:
    receiver.answer(headers=JSON, body=said.replace("{url}", receiver.url))
    target = an_agent(receiver, card=receiver.url)
    outcome = await target.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert error in outcome.error
    assert outcome.retryable
    assert len(receiver.wakes) == 1
    await target.close()


async def test_a_card_that_is_away_is_a_failed_attempt(receiver: Receiver) -> None:
    receiver.answer(503)
    target = an_agent(receiver, card=receiver.url)
    outcome = await target.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert (outcome.error, outcome.unhealthy) == ("the agent card: HTTP 503", True)
    await target.close()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({}, "url"),
        ({"url": "http://a/", "card": "http://a/"}, "url"),
        ({"card": "ftp://a/"}, "url"),
        ({"url": "http://127.0.0.1/", "token": "a\nb"}, "headers"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], field: str) -> None:
    given: dict[str, Any] = settings
    with pytest.raises(InvalidConfig) as refused:
        A2A(clock=SystemClock(), **given)
    assert refused.value.field == field


# Push notifications


def pushed(said: Any, so_far: str = "") -> tuple[str, str] | None:
    report = report_of(json.dumps(said).encode(), so_far=so_far)
    return None if report is None else (report.outcome, report.result or report.reason)


def update(state: str, **more: Any) -> dict[str, Any]:
    status = {"state": f"TASK_STATE_{state}", "timestamp": "2026-11-18T08:43:58Z"} | more
    return {"statusUpdate": {"taskId": "task-1", "contextId": "c-1", "status": status}}


@pytest.mark.parametrize(
    ("said", "so_far", "report"),
    [
        ({"task": task("SUBMITTED")}, "", None),
        (update("WORKING"), "", ("working", "")),
        (update("COMPLETED"), "", ("completed", "")),
        (update("COMPLETED"), "3 grants", ("completed", "3 grants")),
        (update("COMPLETED", **SAID), "", ("completed", "which page?")),
        ({"task": task("COMPLETED", artifacts=[ARTIFACT])}, "old", ("completed", '3 grants\n{"n":3}')),
        (update("FAILED", **SAID), "3 grants", ("failed", "the task was failed: which page?")),
        (update("REJECTED"), "", ("failed", "the task was rejected")),
        (update("CANCELED"), "", ("failed", "the task was canceled")),
        (update("INPUT_REQUIRED", **SAID), "", ("completed", "Waits for input: which page?")),
        (update("AUTH_REQUIRED"), "", ("completed", "Waits for authorization")),
        (update("UNSPECIFIED"), "", None),
        ({"artifactUpdate": {"artifact": ARTIFACT}}, "", ("working", '3 grants\n{"n":3}')),
        ({"artifactUpdate": {"artifact": ARTIFACT}}, "one", ("working", 'one\n3 grants\n{"n":3}')),
        ({"artifactUpdate": {"artifact": ARTIFACT, "append": True}}, "one, ", ("working", 'one, 3 grants\n{"n":3}')),
        ({"message": {"parts": [{"text": "done"}]}}, "", ("completed", "done")),
        ({"statusUpdate": 7}, "", None),
        ([], "", None),
    ],
)
def test_what_a_push_notification_means(said: Any, so_far: str, report: tuple[str, str] | None) -> None:
    assert pushed(said, so_far) == report


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000])
def test_what_is_no_push_notification_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        report_of(body)

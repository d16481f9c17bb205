"""A session of OpenAI's Agents API: what is sent, and what its webhooks mean."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.outcome import Delivered, Failed, Outcome
from wakeful.targets.openai_session import OpenAISession, event_in, report_of
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import a_wake

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


def a_project(receiver: Receiver, **settings: Any) -> OpenAISession:
    url = receiver.url.replace("/wake", "/v1")
    given: dict[str, Any] = {
        "api_key": "planted-key",
        "webhook_secret": SECRET,
        "allow_private": True,
        "timeout": 20,
    } | settings
    return OpenAISession(url=url, clock=SystemClock(), **given)


@pytest.fixture
async def project(receiver: Receiver) -> AsyncIterator[OpenAISession]:
    receiver.always(202)
    target = a_project(receiver)
    yield target
    await target.close()


async def test_a_wake_is_a_message_in_the_session(project: OpenAISession, receiver: Receiver) -> None:
    wake = a_wake("Check the portal", conversation_id="sess_1", payload_json='{"page": 3}')
    assert await project.deliver(wake) == Delivered("HTTP 202", awaits_report=True)
    [got] = receiver.wakes
    assert got.path == "/v1/agents/sessions/sess_1/events"
    assert got.headers["authorization"] == "Bearer planted-key"
    assert got.headers["openai-beta"] == "agents=v1"
    assert got.headers["idempotency-key"] == wake.fire_id
    content = [{"type": "input_text", "text": wake.prompt}]
    message = {"type": "message", "role": "user", "content": content}
    assert got.json == {"events": [{"type": "agent.session.input.message", "input": [message]}]}


async def test_every_attempt_is_the_same_request(project: OpenAISession, receiver: Receiver) -> None:
    for attempt in (1, 2):
        await project.deliver(a_wake(conversation_id="sess_1", attempt=attempt, late_ms=attempt * 1000))
    first, second = receiver.wakes
    assert first.body == second.body
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


@pytest.mark.parametrize("id", ["", "..", "a/b", "a?b", "é", "x" * 201])
async def test_what_is_no_session_is_refused_and_nothing_is_sent(
    project: OpenAISession, receiver: Receiver, id: str
) -> None:
    outcome = await project.deliver(a_wake(conversation_id=id))
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert "not the id of a session" in outcome.error
    assert receiver.wakes == []


async def test_without_a_secret_no_report_is_awaited(receiver: Receiver) -> None:
    target = a_project(receiver, webhook_secret="")
    assert await target.deliver(a_wake(conversation_id="sess_1")) == Delivered("HTTP 200")
    await target.close()


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (409, False), (404, True), (429, True), (500, True)])
async def test_statuses(project: OpenAISession, receiver: Receiver, status: int, retryable: bool) -> None:
    receiver.answer(status, headers={"retry-after": "7"}, body="planted-key")
    outcome: Outcome = await project.deliver(a_wake(conversation_id="sess_1"))
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.retry_after) == (retryable, 7.0)
    assert "planted" not in outcome.error


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"api_key": ""}, "api_key"), ({"api_key": "a\nb"}, "headers"), ({"webhook_secret": "whsec_%"}, "secret")],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], field: str) -> None:
    given: dict[str, Any] = {"api_key": "k"} | settings
    with pytest.raises(InvalidConfig) as refused:
        OpenAISession(clock=SystemClock(), **given)
    assert refused.value.field == field


def event(type: str, **data: Any) -> bytes:
    data = {"id": "sess_1", "environment_type": "none", "environment_id": None} | data
    return json.dumps({"id": "evt_1", "object": "event", "created_at": 1750287018, "type": type, "data": data}).encode()


@pytest.mark.parametrize(
    ("type", "data", "outcome", "text"),
    [
        ("idle", {}, "completed", "The session is idle again."),
        ("failed", {}, "failed", "the session failed"),
        ("failed", {"error": {"code": "x"}}, "failed", 'the session failed: {"code":"x"}'),
        ("in_progress", {}, "working", ""),
        (
            "action_required",
            {"required_action": {"type": "function_call"}},
            "completed",
            "Waits for input: function_call",
        ),
        ("action_required", {}, "completed", "Waits for input: an action"),
    ],
)
def test_what_an_event_means(type: str, data: dict[str, Any], outcome: str, text: str) -> None:
    found = event_in(event(f"agent.session.{type}", **data))
    report = report_of(found)
    assert found.data.id == "sess_1"
    assert report is not None
    assert (report.outcome, report.result or report.reason) == (outcome, text)


@pytest.mark.parametrize("type", ["agent.session.created", "response.completed", "something.new"])
def test_other_events_say_nothing_about_a_wake(type: str) -> None:
    assert report_of(event_in(event(type))) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"type": "x", "data": {"id": 1}}'])
def test_what_is_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        event_in(body)

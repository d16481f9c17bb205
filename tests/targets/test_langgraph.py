"""Runs on a LangGraph server: what is sent, what is never started twice, and what its callback means."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec
import pytest

from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig, InvalidRequest
from wakeful.model.alarm import RESULT_LIMIT, HeardSignal, Policy
from wakeful.model.outcome import Completed, Delivered, Failed
from wakeful.targets import Target
from wakeful.targets.langgraph import LangGraph, report_of
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import NINE, TargetConformance, a_wake

NO_ANSWER = "The run ended without an answer: the graph may be interrupted, and wait for input."
THREAD = "7b1c8a52-0000-4000-8000-000000000001"


def a_server(receiver: Receiver, **settings: Any) -> LangGraph:
    url = receiver.url.removesuffix("/wake")
    given: dict[str, Any] = {
        "assistant_id": "agent",
        "api_key": "planted-key",
        "allow_private": True,
        "timeout": 20,
    } | settings
    return LangGraph(url=url, clock=SystemClock(), **given)


@pytest.fixture
async def server(receiver: Receiver) -> AsyncIterator[LangGraph]:
    receiver.always(body='{"run_id": "01a1edd0", "status": "pending"}', headers={"content-type": "application/json"})
    target = a_server(receiver)
    yield target
    await target.close()


class TestAsATarget(TargetConformance):
    @pytest.fixture
    def target(self, server: LangGraph) -> Target:
        return server


async def test_a_wake_starts_a_run_on_the_thread_of_its_conversation(server: LangGraph, receiver: Receiver) -> None:
    wake = a_wake("Check the portal", conversation_id=THREAD, payload_json='{"page": 3}')
    assert await server.deliver(wake) == Delivered("run 01a1edd0", awaits_report=True)
    [got] = receiver.wakes
    assert got.path == f"/threads/{THREAD}/runs"
    assert got.headers["x-api-key"] == "planted-key"
    assert got.headers["content-type"] == "application/json"
    callback = f"https://wakeful.example/v1/callbacks/langgraph/{wake.fire_id}?token={wake.report_token}"
    assert got.json == {
        "assistant_id": "agent",
        "input": {"messages": [{"role": "user", "content": wake.prompt}]},
        "multitask_strategy": "enqueue",
        "if_not_exists": "create",
        "metadata": {"fire_id": wake.fire_id, "alarm_id": wake.alarm_id},
        "webhook": callback,
    }


async def test_a_conversation_that_is_no_uuid_has_a_thread_of_its_owners(server: LangGraph, receiver: Receiver) -> None:
    for owner in ("ada", "ada", "bob"):
        await server.deliver(a_wake(conversation_id="s-1", owner_did=owner))
    ada, again, bob = (UUID(got.path.split("/")[2]) for got in receiver.wakes)
    assert ada == again == uuid5(NAMESPACE_URL, "wakeful:ada:s-1")
    assert ada != bob


@pytest.mark.parametrize("fields", [{}, {"conversation_id": THREAD, "isolated": True}])
async def test_without_a_conversation_or_apart_from_it_each_fire_has_a_thread(
    server: LangGraph, receiver: Receiver, fields: dict[str, Any]
) -> None:
    first, second = a_wake(**fields), a_wake(id="01900000-0000-7000-8000-000000000002", **fields)
    for wake in (first, second):
        await server.deliver(wake)
    paths = [got.path for got in receiver.wakes]
    assert len(set(paths)) == 2
    assert THREAD not in "".join(paths)


async def test_a_payload_that_says_so_resumes_an_interrupted_graph(server: LangGraph, receiver: Receiver) -> None:
    payload = '{"langgraph": {"resume": {"approved": false}}}'
    await server.deliver(a_wake(conversation_id=THREAD, payload_json=payload))
    heard = HeardSignal(name="bo", occurrence_at=NINE, payload_json='{"approved":true}')
    await server.deliver(a_wake(conversation_id=THREAD, payload_json=payload, policy=Policy(heard=heard)))
    waited, signalled = (got.json for got in receiver.wakes)
    assert waited["command"] == {"resume": {"approved": False}}
    assert signalled["command"] == {"resume": {"approved": True}}
    assert "input" not in waited


@pytest.mark.parametrize("payload", ["[1]", '"langgraph"', '{"langgraph": 1}', '{"resume": 1}', '{"langgraph": {}}'])
async def test_any_other_payload_is_a_message(server: LangGraph, receiver: Receiver, payload: str) -> None:
    await server.deliver(a_wake(conversation_id=THREAD, payload_json=payload))
    assert "input" in receiver.wakes[0].json
    assert "command" not in receiver.wakes[0].json


async def test_without_reports_there_is_no_callback_and_none_is_awaited(receiver: Receiver) -> None:
    target = a_server(receiver, reports=False)
    assert await target.deliver(a_wake()) == Delivered("a run")
    assert "webhook" not in receiver.wakes[0].json
    await target.close()


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (409, False), (422, False), (401, True), (404, True), (429, True), (503, True)],
)
async def test_what_would_be_refused_again_is_not_sent_again(
    server: LangGraph, receiver: Receiver, status: int, retryable: bool
) -> None:
    receiver.answer(status, headers={"retry-after": "7"}, body='{"detail": "planted-key is wrong"}')
    outcome = await server.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, outcome.retry_after) == (retryable, 7.0)
    assert outcome.unhealthy == (status in (429, 503))
    assert "planted" not in outcome.error


async def test_a_redirect_is_not_followed(server: LangGraph, receiver: Receiver) -> None:
    receiver.redirect("http://127.0.0.1:1/threads", 307)
    outcome = await server.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert "redirects are not followed" in outcome.error


# A second attempt


def runs(*found: tuple[str, str]) -> str:
    wake = a_wake()
    fires = {"mine": wake.fire_id, "other": "another@1"}
    return json.dumps(
        [
            {"run_id": f"run-{number}", "status": status, "metadata": {"fire_id": fires[whose]}}
            for number, (whose, status) in enumerate(found)
        ]
    )


async def second_attempt(server: LangGraph, receiver: Receiver, body: str, status: int = 200) -> tuple[Any, int]:
    """The outcome, and how many runs were started."""
    receiver.answer(status, headers={"content-type": "application/json"}, body=body)
    outcome = await server.deliver(a_wake(attempt=2))
    [listed, *started] = receiver.wakes
    assert listed.path.endswith("/runs")
    assert listed.body == b""
    return outcome, len(started)


@pytest.mark.parametrize("status", ["pending", "running"])
async def test_a_run_that_is_under_way_is_not_started_again(server: LangGraph, receiver: Receiver, status: str) -> None:
    found = await second_attempt(server, receiver, runs(("other", "success"), ("mine", status)))
    assert found == (Delivered("run run-1", awaits_report=True), 0)


async def test_a_run_that_ended_well_without_its_callback_is_completed(server: LangGraph, receiver: Receiver) -> None:
    outcome, started = await second_attempt(server, receiver, runs(("mine", "success")))
    assert (outcome, started) == (Completed("run run-0 ended: success"), 0)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (runs(("mine", "error")), 200),
        (runs(("mine", "timeout")), 200),
        (runs(("other", "running")), 200),
        ("[]", 200),
        ("what?", 200),
        ('{"detail": "no such thread"}', 404),
    ],
)
async def test_a_run_that_failed_or_never_began_is_started(
    server: LangGraph, receiver: Receiver, body: str, status: int
) -> None:
    outcome, started = await second_attempt(server, receiver, body, status)
    assert (outcome, started) == (Delivered("run 01a1edd0", awaits_report=True), 1)


async def test_nothing_is_started_while_nobody_knows_what_runs(server: LangGraph, receiver: Receiver) -> None:
    outcome, started = await second_attempt(server, receiver, "", 503)
    assert isinstance(outcome, Failed)
    assert (outcome.retryable, started) == (True, 0)


# Settings


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"assistant_id": ""}, "assistant_id"),
        ({"url": "http://127.0.0.1/?key=1"}, "url"),
        ({"url": "ftp://127.0.0.1/"}, "url"),
        ({"api_key": "a\r\nb: c"}, "headers"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], field: str) -> None:
    given: dict[str, Any] = {"url": "http://127.0.0.1/", "assistant_id": "agent"} | settings
    with pytest.raises(InvalidConfig) as refused:
        LangGraph(clock=SystemClock(), **given)
    assert refused.value.field == field


async def test_a_private_address_is_refused_unless_allowed(receiver: Receiver) -> None:
    target = a_server(receiver, allow_private=False)
    outcome = await target.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert receiver.wakes == []
    await target.close()


# What the callback means


def ended(status: str, **more: Any) -> bytes:
    return msgspec.json.encode({"run_id": "r", "status": status, "metadata": {}, "kwargs": {}} | more)


def state(*messages: Any) -> dict[str, Any]:
    return {"values": {"messages": list(messages), "other": {"deep": [1]}}}


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([{"type": "human", "content": "q"}, {"type": "ai", "content": "done"}], "done"),
        ([{"type": "ai", "content": "first"}, {"type": "tool", "content": "x"}], "first"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}, "b"]}], "a\nb"),
        ([{"type": "ai", "content": "an earlier turn"}, {"type": "human", "content": "q"}, 7], NO_ANSWER),
        ([{"role": "assistant", "content": "an earlier turn"}, {"role": "user", "content": "q"}], NO_ANSWER),
        ([], ""),
    ],
)
def test_success_completes_with_the_last_message_of_the_model(messages: list[Any], text: str) -> None:
    report = report_of(ended("success", **state(*messages)))
    assert (report.outcome, report.result) == ("completed", text)


@pytest.mark.parametrize("values", [None, [], "x", {"messages": "x"}, {"messages": []}])
def test_a_state_without_messages_completes_without_a_result(values: Any) -> None:
    assert report_of(ended("success", values=values)).result == ""


def test_a_long_answer_is_cut() -> None:
    report = report_of(ended("success", **state({"type": "ai", "content": "x" * 100_000})))
    assert len(report.result) == RESULT_LIMIT


@pytest.mark.parametrize("status", ["error", "timeout", "anything"])
def test_any_other_end_is_a_failure(status: str) -> None:
    report = report_of(ended(status, error={"error": "ValueError", "message": "no such page\n"}))
    assert report.outcome == "failed"
    assert report.reason == f"the run ended with {status}: ValueError: no such page\\n"


def test_an_interrupted_run_has_done_its_turn_and_says_what_it_waits_for() -> None:
    values = {"messages": [], "__interrupt__": [{"value": "approve?", "id": "1"}]}
    report = report_of(ended("interrupted", values=values))
    assert report.outcome == "completed"
    assert report.result == 'Waits for input: [{"value":"approve?","id":"1"}]'


@pytest.mark.parametrize("body", [b"", b"[]", b'{"status": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_run_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        report_of(body)

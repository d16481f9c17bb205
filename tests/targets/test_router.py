from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig
from wakeful.model.outcome import Delivered, Failed
from wakeful.targets import Target
from wakeful.targets.router import Router
from wakeful.testing.receiver import Receiver
from wakeful.testing.targets import TargetConformance, a_wake

from .conftest import RawServer


@pytest.fixture
async def router(receiver: Receiver) -> AsyncIterator[Router]:
    url = receiver.url.replace("/wake", "/internal/wake")
    router = Router(url=url, token="planted-token", timeout=20, clock=SystemClock())
    yield router
    await router.close()


class TestAsATarget(TargetConformance):
    @pytest.fixture
    def target(self, router: Router) -> Target:
        return router


async def test_the_router_gets_what_chronos_sent_and_the_rest_of_the_wake(router: Router, receiver: Receiver) -> None:
    wake = a_wake("Good  morning ", payload_json='{"page":  3}', conversation_id="c1")
    assert await router.deliver(wake) == Delivered("HTTP 200")
    [got] = receiver.wakes
    assert got.path == "/internal/wake"
    assert got.headers["authorization"] == "Bearer planted-token"
    assert got.headers["content-type"] == "application/json"
    chronos = {
        "user_id": "alice",
        "conversation_id": "c1",
        "message": "Good  morning ",
        "payload": {"page": 3},
        "alarm_id": wake.alarm_id,
        "origin": "wakeful",
    }
    assert chronos.items() <= got.json.items()
    assert b'"payload":{"page":  3}' in got.body
    assert got.json["fire_id"] == wake.fire_id
    assert {"owner_did", "label", "scheduled_for", "isolated", "report"} <= got.json.keys()


async def test_it_can_be_reached_where_somebody_listens_and_nothing_is_sent_for_that(
    router: Router, receiver: Receiver
) -> None:
    assert await router.reach() == ""
    await router.deliver(a_wake())
    assert len(receiver.wakes) == 1
    with socket.socket() as silent:  # it is bound and does not listen: nobody else can take its port
        silent.bind(("127.0.0.1", 0))
        away = Router(url=f"http://127.0.0.1:{silent.getsockname()[1]}/internal/wake", clock=SystemClock())
        assert (await away.reach()).startswith("could not connect")
        await away.close()


async def test_a_receiver_that_never_accepts_counts_as_out_of_reach_in_time() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:  # its queue is full: more wait for ever
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        slow = Router(url=f"http://127.0.0.1:{full.getsockname()[1]}/", timeout=0.2, clock=SystemClock())
        assert await slow.reach() == "no connection within 0.2 s"
        await slow.close()
        for one in waiting:
            one.close()


async def test_a_conversation_nobody_named_is_left_out(router: Router, receiver: Receiver) -> None:
    await router.deliver(a_wake(payload_json="[1,  2]"))
    assert "conversation_id" not in receiver.wakes[0].json
    assert b'"payload":[1,  2]' in receiver.wakes[0].body


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_any_2xx_confirms_whatever_the_body_says(router: Router, receiver: Receiver, status: int) -> None:
    receiver.answer(status, headers={"content-type": "application/json"}, body='{"outcome": "failed"}')
    assert await router.deliver(a_wake()) == Delivered(f"HTTP {status}")


async def test_a_confirmation_counts_before_its_body_has_ended(router: Router, receiver: Receiver) -> None:
    receiver.drip()
    async with asyncio.timeout(30):
        assert await router.deliver(a_wake()) == Delivered("HTTP 200")


async def test_an_error_quotes_the_first_300_bytes(router: Router, receiver: Receiver) -> None:
    receiver.answer(404, body="user not provisioned " + "x" * 1000)
    outcome = await router.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert outcome.error == "router returned 404: " + ("user not provisioned " + "x" * 1000)[:300]
    assert outcome.retryable


async def test_gone_ends_it(router: Router, receiver: Receiver) -> None:
    receiver.answer(410)
    assert await router.deliver(a_wake()) == Failed("router returned 410", retryable=False, answered=True)


async def test_the_token_never_turns_up_in_an_error(router: Router, receiver: Receiver) -> None:
    receiver.answer(401, body="bad token: Bearer planted-token")
    outcome = await router.deliver(a_wake())
    assert isinstance(outcome, Failed)
    assert "planted" not in outcome.error


async def test_the_token_does_not_follow_a_redirect(router: Router, receiver: Receiver, raw: RawServer) -> None:
    receiver.redirect(raw.url, 307)
    assert isinstance(await router.deliver(a_wake()), Failed)
    assert raw.connections == 0


def test_a_token_cannot_break_out_of_its_header() -> None:
    with pytest.raises(InvalidConfig):
        Router(url="http://127.0.0.1/internal/wake", token="x\r\ny: z", clock=SystemClock())

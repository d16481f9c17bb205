"""The router wake: every one is what the router wants, only its yes counts, and anything else climbs the ladder."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.acting import Draft, keep
from tests.dispatcher.conftest import World
from wakeful.clock import SystemClock
from wakeful.model.alarm import Alarm, Policy, fire_id
from wakeful.targets.router import Router as Target
from wakeful.testing import ManualClock

from .chronos_router import TOKEN, Router
from .chronos_world import DID, USER, store_on

LADDER = [30, 60, 120, 240, 480, 900, 900]


@pytest.fixture
async def router() -> AsyncIterator[Router]:
    async with Router() as router:
        yield router


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path, router: Router) -> AsyncIterator[World]:
    clock = ManualClock()
    async with store_on(request.param, request, tmp_path, clock) as store:
        world = World(store, clock)
        target = Target(url=router.url, token=TOKEN, timeout=20, clock=SystemClock())
        world.serve("router", target)
        yield world
        await target.close()


async def set_alarm(world: World, **given: Any) -> Alarm:
    """One in a minute, of an agent of Chronos."""
    timing = {} if "cron_expr" in given else {"delay": timedelta(minutes=1)}
    draft = Draft(**({"owner_did": DID, "wake_message": "wake up", "target": "router"} | timing | given))
    return (await keep(world.service, draft)).alarm


async def test_every_wake_is_what_the_router_wants(world: World, router: Router) -> None:
    agents = [DID, DID.upper().replace("DID:MATRIX", "did:matrix"), "did:matrix:bo:0123456789abcdef", "backup-service"]
    payloads = ['{"page":  3}', "{}", "null", '[1,  "☃"]', '"text"', '{"a":1,"a":2}']
    alarms: dict[str, Alarm] = {}
    for n in range(48):
        alarm = await set_alarm(
            world,
            owner_did=agents[n % 4],
            payload=payloads[n % 6],
            conversation_id="" if n % 3 else f"c{n}",
            wake_message=f"  two\n spaces ☃ {n} ",
            **({"cron_expr": "* * * * *"} if n % 2 else {}),
        )
        alarms[alarm.id] = alarm
    assert await world.run_due(timedelta(minutes=1)) == 48
    assert router.faults == []
    assert {wake["alarm_id"] for wake in router.wakes} == alarms.keys()
    assert len(router.wakes) == 48
    users = {agents[0]: USER, agents[1]: USER, agents[2]: "bo", agents[3]: "backup-service"}
    for wake, body in zip(router.wakes, router.bodies, strict=True):
        alarm = alarms[wake["alarm_id"]]
        assert wake["user_id"] == users[alarm.owner_did]
        assert wake["message"] == alarm.wake_message
        assert wake.get("conversation_id", "") == alarm.conversation_id
        assert f'"payload":{alarm.payload_json},'.encode() in body
        assert wake["origin"] == "wakeful"
        assert wake["fire_id"] == alarm.fire_id


async def test_the_router_of_these_tests_sees_a_wrong_token(world: World, router: Router) -> None:
    stranger = Target(url=router.url, token="another", timeout=20, clock=SystemClock())
    world.serve("stranger", stranger)
    alarm = await set_alarm(world, target="stranger")
    await world.run_due(60)
    await stranger.close()
    assert router.faults == ["wrong bearer: Bearer another"]
    assert (await world.read(alarm)).failure_count == 1


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226, 299])
async def test_any_2xx_confirms(world: World, router: Router, status: int) -> None:
    router.usual = status
    alarm = await set_alarm(world)
    await world.run_due(60)
    after = await world.read(alarm)
    assert (after.status, after.failure_count, after.last_error, after.claimed_at) == ("fired", 0, "", None)
    assert after.last_fired_at == world.clock.now()


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 422, 429, 451, 500, 502, 503, 504])
async def test_any_other_answer_but_gone_climbs_the_ladder(world: World, router: Router, status: int) -> None:
    router.statuses.append(status)
    alarm = await set_alarm(world)
    await world.run_due(60)
    after = await world.read(alarm)
    assert (after.status, after.failure_count, after.claimed_at, after.last_fired_at) == ("active", 1, None, None)
    assert str(status) in after.last_error
    assert 30 <= (after.next_fire_at - world.clock.now()).total_seconds() <= 33
    await world.run_due(33)
    assert (await world.read(alarm)).status == "fired"
    assert [wake["fire_id"] for wake in router.wakes] == [alarm.fire_id] * 2


async def test_gone_ends_it_at_once(world: World, router: Router) -> None:
    router.statuses.append(410)
    alarm = await set_alarm(world)
    await world.run_due(60)
    after = await world.read(alarm)
    assert (after.status, after.last_error) == ("failed", "router returned 410: said 410")
    assert await world.run_due(timedelta(days=1)) == 0


async def test_a_router_that_is_not_there_climbs_the_ladder_too(world: World) -> None:
    with socket.socket() as silent:  # it is bound and does not listen: nobody else can take its port
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/internal/wake"
        nobody = Target(url=url, token=TOKEN, timeout=20, clock=SystemClock())
        world.serve("nobody", nobody)
        alarm = await set_alarm(world, target="nobody")
        await world.run_due(60)
        await nobody.close()
    after = await world.read(alarm)
    assert (after.status, after.failure_count) == ("active", 1)
    assert after.last_error.startswith("could not connect")
    assert 30 <= (after.next_fire_at - world.clock.now()).total_seconds() <= 33


async def test_the_figures_of_the_ladder_and_its_end(world: World, router: Router) -> None:
    router.usual = 503
    alarm = await set_alarm(world, max_failures=len(LADDER))
    await world.run_due(60)
    for count, seconds in enumerate(LADDER, 1):
        after = await world.read(alarm)
        assert (after.status, after.failure_count) == ("active", count)
        wait = (after.next_fire_at - world.clock.now()).total_seconds()
        assert seconds <= wait <= seconds * 1.1
        assert await world.run_due(wait - 0.001) == 0
        assert await world.run_due(0.001) == 1
    after = await world.read(alarm)
    assert (after.status, after.last_error) == ("failed", "router returned 503: said 503")
    assert await world.run_due(timedelta(days=1)) == 0, "it is never tried again by itself"
    assert len(router.wakes) == len(LADDER) + 1
    assert len(set(router.bodies)) == 1


async def test_the_exact_ladder_has_no_spread(world: World, router: Router) -> None:
    router.usual = 503
    alarm = await set_alarm(world, max_failures=len(LADDER), policy=Policy(exact_backoff=True))
    await world.run_due(60)
    for seconds in LADDER:
        assert (await world.read(alarm)).next_fire_at == world.clock.now() + timedelta(seconds=seconds)
        assert await world.run_due(seconds) == 1


async def test_a_fire_is_on_record_only_after_the_router_has_said_yes(world: World, router: Router) -> None:
    alarm = await set_alarm(world)
    meanwhile: list[Any] = []

    async def look(wake: dict[str, Any]) -> None:
        found = await world.read(alarm)
        meanwhile.append((found.status, found.last_fired_at, found.claimed_at is not None, await world.fires(alarm)))

    router.before_answering = look
    await world.run_due(60)
    assert meanwhile == [("active", None, True, [])]
    assert [fire.status for fire in await world.fires(alarm)] == ["delivered"]


async def test_a_series_is_woken_again_at_its_next_instant_and_says_which(world: World, router: Router) -> None:
    alarm = await set_alarm(world, cron_expr="0 9 * * *", timezone="UTC", label="daily portfolio summary")
    for _ in range(3):
        await world.run_due(timedelta(days=1))
    after = await world.read(alarm)
    assert (after.status, after.fire_count) == ("active", 3)
    ids = [fire_id(alarm.id, alarm.occurrence_at + timedelta(days=n)) for n in range(3)]
    assert [wake["fire_id"] for wake in router.wakes] == ids
    assert {wake["label"] for wake in router.wakes} == {"daily portfolio summary"}

"""The key of report tokens changes while wakes are out: what they brought stays good for as long as it is needed."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from wakeful.dispatcher import ServedTarget
from wakeful.http.endpoint import Context
from wakeful.http.routes.fires import speaks_for
from wakeful.model.alarm import Event, Fire
from wakeful.model.outcome import Delivered, Outcome
from wakeful.python.client import LocalWakeful
from wakeful.rules.wake import Wake, report_token, reports_under
from wakeful.store import Store
from wakeful.testing import ManualClock, targets_of
from wakeful.testing.conformance.making import a_fire, added, an_alarm, change, settled

from .world import waking

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock, owner="ada")


async def rotated(store: Store, clock: ManualClock) -> None:
    await store.access.rotate_report_key(clock.now(), Event(at=clock.now(), what="rotated"))


async def a_fire_out(store: Store, clock: ManualClock, report_in: timedelta | None) -> Fire:
    alarm = an_alarm(clock, status="fired")
    await added(store, alarm)
    report_by = None if report_in is None else clock.now() + report_in
    fire = a_fire(alarm, started_at=clock.now(), delivered_at=clock.now(), report_by=report_by)
    assert await settled(store, change(alarm, fire)) == ["applied"]
    return fire


async def token_of(store: Store, fire: Fire) -> str:
    return report_token((await store.access.report_keys()).current, fire.id)


async def test_what_a_wake_brought_is_good_until_its_report_is_due(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    hall = Context(wake_me.service, store, wake_me.settings)
    fire = await a_fire_out(store, clock, 5 * HOUR)
    token = await token_of(store, fire)
    await rotated(store, clock)
    assert token != await token_of(store, fire)
    assert await speaks_for(hall, fire.id, token)
    assert await speaks_for(hall, fire.id, await token_of(store, fire))
    await clock.advance(5 * HOUR - MINUTE)
    await rotated(store, clock)  # the second retired key counts too
    assert await speaks_for(hall, fire.id, token)
    await clock.advance(MINUTE)
    assert not await speaks_for(hall, fire.id, token)
    assert await speaks_for(hall, fire.id, await token_of(store, fire))


async def test_one_whose_report_is_not_awaited_is_good_for_an_hour(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    hall = Context(wake_me.service, store, wake_me.settings)
    fire = await a_fire_out(store, clock, None)
    token = await token_of(store, fire)
    await rotated(store, clock)
    await clock.advance(HOUR - MINUTE)
    assert await speaks_for(hall, fire.id, token)
    await clock.advance(MINUTE)
    assert not await speaks_for(hall, fire.id, token)


async def test_an_old_key_makes_no_tokens_for_what_fires_later(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    hall = Context(wake_me.service, store, wake_me.settings)
    stolen = (await store.access.report_keys()).current
    await rotated(store, clock)
    await clock.advance(2 * MINUTE)
    fire = await a_fire_out(store, clock, 5 * HOUR)
    assert not await speaks_for(hall, fire.id, report_token(stolen, fire.id))


async def test_a_third_change_forgets_the_first_key(wake_me: LocalWakeful, store: Store, clock: ManualClock) -> None:
    hall = Context(wake_me.service, store, wake_me.settings)
    fire = await a_fire_out(store, clock, 5 * HOUR)
    token = await token_of(store, fire)
    for good in (True, True, False):
        await rotated(store, clock)
        assert await speaks_for(hall, fire.id, token) is good


def _fire(clock: ManualClock, **given: Any) -> Fire:
    return a_fire(an_alarm(clock), **given)


def test_an_attempt_that_is_not_on_record_yet_has_an_hour(clock: ManualClock) -> None:
    at = clock.now()
    assert reports_under(at, None, now=at + HOUR - MINUTE)
    assert not reports_under(at, None, now=at + HOUR)
    long_out = _fire(clock, started_at=at, report_by=at + 9 * HOUR)
    assert reports_under(at, long_out, now=at + 8 * HOUR)
    assert not reports_under(at - MINUTE, long_out, now=at)  # began when every process knew


class Agent:
    def __init__(self) -> None:
        self.wakes: list[Wake] = []

    async def deliver(self, wake: Wake) -> Outcome:
        self.wakes.append(wake)
        return Delivered()

    async def close(self) -> None: ...


async def test_a_worker_learns_of_a_new_key_within_a_tick(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    wake_me, agent = waking(store, clock, owner="ada"), Agent()
    targets_of(wake_me)["agent"] = ServedTarget(agent, 8)
    await wake_me.set(delay=1, wake_message="before", target="agent")
    await clock.advance(1)
    await wake_me.run_due()
    await rotated(store, clock)
    await wake_me.set(delay=1, wake_message="after", target="agent")
    await clock.advance(1)
    with caplog.at_level(logging.WARNING, "wakeful.dispatcher"):
        await wake_me.run_due()
    keys = await store.access.report_keys()
    before, after = agent.wakes
    assert before.report_token == report_token(keys.retired[0].key, before.fire_id)
    assert after.report_token == report_token(keys.current, after.fire_id)
    assert "the key of report tokens was changed" in caplog.text
    assert keys.current.hex() not in caplog.text

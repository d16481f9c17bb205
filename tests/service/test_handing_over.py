"""A wake is handed over to another target, and a payload gets longer while others change the alarm."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from wakeful.errors import Conflict, InvalidRequest, NotFound, UnknownTarget
from wakeful.python.client import LocalWakeful
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import waiting, waking

HELPER: Any = {"helper": {"kind": "inbox"}}


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock, targets=HELPER)


async def test_another_target_is_woken_in_place_of_the_one_that_has_the_wake(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await waiting(wake_me, clock, cron="0 9 * * *", payload={"page": 3}, key="k")
    [wake] = await wake_me.inbox()
    made = await wake_me.hand_over(wake.fire.id, "inbox")
    assert (made.alarm.target, json.loads(made.alarm.payload_json)) == ("inbox", {"page": 3})
    fire = await wake_me.fire_of(wake.fire.id)
    assert (fire.status, fire.result) == ("completed", f"handed over to 'inbox': alarm {made.alarm.id}")
    assert (await wake_me.get("k")).target == alarm.target
    with pytest.raises(Conflict):  # of a wake that has ended nothing is left to hand over
        await wake_me.delivery_failed(wake.fire.id)


async def test_asked_again_it_is_the_same_wake(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await waiting(wake_me, clock)
    [wake] = await wake_me.inbox()
    both = [await wake_me.hand_over(wake.fire.id, "inbox") for _ in range(2)]
    assert len({one.alarm.id for one in both}) == 1


async def test_an_unknown_target_or_a_foreign_wake_changes_nothing(wake_me: LocalWakeful, clock: ManualClock) -> None:
    await waiting(wake_me, clock)
    [wake] = await wake_me.inbox()
    with pytest.raises(UnknownTarget):
        await wake_me.hand_over(wake.fire.id, "nowhere")
    with pytest.raises(NotFound):
        await wake_me.for_owner("ben").hand_over(wake.fire.id, "inbox")
    assert (await wake_me.fire_of(wake.fire.id)).status == "delivered"
    assert len(await wake_me.find()) == 1


@pytest.mark.parametrize(
    ("before", "more", "after"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1, "b": [1]}, {"a": 2, "b": [2]}, {"a": 2, "b": [1, 2]}),
        ({"a": {"b": [1], "c": 1}}, {"a": {"b": [2]}}, {"a": {"b": [1, 2], "c": 1}}),
        ([1], [2, 3], [1, 2, 3]),
    ],
)
async def test_a_payload_gets_longer(wake_me: LocalWakeful, before: Any, more: Any, after: Any) -> None:
    alarm = await wake_me.set("in 1 hour", "x", payload=before)
    changed = await wake_me.append(alarm.id, more)
    assert json.loads(changed.alarm.payload_json) == after


@pytest.mark.parametrize(("before", "more"), [({"a": 1}, [1]), ([1], {"a": 1}), ("text", "more"), ({"a": 1}, 5)])
async def test_what_does_not_go_together_changes_nothing(wake_me: LocalWakeful, before: Any, more: Any) -> None:
    alarm = await wake_me.set("in 1 hour", "x", payload=before)
    with pytest.raises(InvalidRequest) as refused:
        await wake_me.append(alarm.id, more)
    assert refused.value.field == "payload"
    assert (await wake_me.get(alarm.id)).version == 1


async def test_of_several_that_append_at_once_none_is_lost(wake_me: LocalWakeful) -> None:
    alarm = await wake_me.set("in 1 hour", "x", payload={"items": []})
    await asyncio.gather(*(wake_me.append(alarm.id, {"items": [number]}) for number in range(5)))
    found = json.loads((await wake_me.get(alarm.id)).payload_json)
    assert sorted(found["items"]) == list(range(5))

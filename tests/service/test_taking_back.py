"""What an owner's change does to a wake that waits in the inbox, and what it says of one that is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.acting import Draft, acting, keep
from wakeful.model.alarm import Policy
from wakeful.model.requests import EditRequest
from wakeful.python.client import LocalWakeful
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import HOUR, ends, waiting, waking


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def test_a_cancel_retracts_what_waits(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock)
    cancelled = await wake_me.cancel(alarm.id)
    assert (cancelled.alarm.status, cancelled.in_flight) == ("cancelled", False)
    assert await wake_me.inbox() == []
    assert await ends(wake_me, alarm.id) == [("skipped", "cancelled")]
    assert "was skipped: the alarm was cancelled" in (await wake_me.why(alarm.id)).summary


async def test_a_cancel_retracts_the_wakes_of_earlier_occurrences(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock, cron="0 * * * *", policy=Policy(overlap="allow"))
    for _ in range(2):
        await clock.advance(HOUR)
        await wake_me.run_due()
    assert await ends(wake_me, alarm.id) == [("waiting", "")] * 3
    await wake_me.cancel(alarm.id)
    assert await wake_me.inbox() == []
    assert await ends(wake_me, alarm.id) == [("skipped", "cancelled")] * 3


async def test_what_was_fetched_is_not_retracted_but_the_cancel_says_so(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await waiting(wake_me, clock)
    [(_, fire)] = await wake_me.inbox()
    for _ in range(2):
        cancelled = await wake_me.cancel(alarm.id)
        assert (cancelled.alarm.status, cancelled.in_flight) == ("cancelled", True)
    assert (await wake_me.completed(fire.id, "read")).status == "completed"
    assert (await wake_me.get(alarm.id)).status == "cancelled"


async def test_what_was_fetched_before_a_cancel_does_not_wait_again(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock)
    await wake_me.inbox()
    await wake_me.cancel(alarm.id)
    await clock.advance(HOUR)
    await wake_me.run_due()
    assert await wake_me.inbox() == []
    assert await ends(wake_me, alarm.id) == [("timed_out", "cancelled")]
    assert not (await wake_me.cancel(alarm.id)).in_flight


async def test_another_time_or_a_replacement_takes_the_place_of_what_waits(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    series = await waiting(wake_me, clock, cron="0 * * * *")
    moved = await wake_me.update(series.id, cron="30 * * * *")
    assert (moved.alarm.awaiting, moved.in_flight) == (None, False)
    assert await wake_me.inbox() == []
    assert await ends(wake_me, series.id) == [("skipped", "superseded")]
    once = await waiting(wake_me, clock, key="k")
    await wake_me.set(delay=60, wake_message="instead", key="k", on_conflict="replace")
    assert await ends(wake_me, once.id) == [("skipped", "superseded")]
    await clock.advance(60)
    await wake_me.run_due()
    [(alarm, _)] = await wake_me.inbox()
    assert (alarm.id, alarm.wake_message) == (once.id, "instead")


async def test_other_words_are_what_the_waiting_wake_says(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock, cron="0 * * * *")
    await wake_me.update(alarm.id, wake_message="in other words")
    [(told, _)] = await wake_me.inbox()
    assert told.wake_message == "in other words"


async def test_resetting_retracts_what_waits_of_ones_own(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock)
    other = await waiting(wake_me, clock, owner="bob")
    assert await wake_me.reset() == 1
    assert await ends(wake_me, alarm.id) == [("skipped", "cancelled")]
    assert await acting(wake_me.service, "bob").inbox(), other.id


async def test_cancelling_a_chain_retracts_what_waits_of_it(wake_me: LocalWakeful, clock: ManualClock) -> None:
    root = await waiting(wake_me, clock)
    other = await waiting(wake_me, clock)
    assert await acting(wake_me.service, "local").cancel_chain(root.id) == 1
    assert [alarm.id for alarm, _ in await wake_me.inbox()] == [other.id]


@pytest.mark.parametrize("verb", ["update", "pause", "snooze", "cancel", "replace"])
@pytest.mark.parametrize("lease", ["none", "held", "run out", "from the future"])
async def test_every_change_says_whether_a_worker_has_the_alarm(
    wake_me: LocalWakeful, store: Store, clock: ManualClock, verb: str, lease: str
) -> None:
    changes: dict[str, Callable[[str], Awaitable[Any]]] = {
        "update": lambda id: acting(wake_me.service, "local").edit(id, EditRequest(label="x")),
        "pause": wake_me.pause,
        "snooze": lambda id: wake_me.snooze(id, "3h"),
        "cancel": wake_me.cancel,
        "replace": lambda id: keep(
            wake_me.service,
            Draft(owner_did="local", wake_message="y", delay=HOUR, idempotency_key="k"),
            on_conflict="replace",
        ),
    }
    alarm = await wake_me.set(delay=1, wake_message="x", key="k")
    await clock.advance(2)
    if lease != "none":
        claimed = await store.claim({"inbox": 1}, lease=wake_me.settings.lease)
        assert [one.id for one in claimed.alarms] == [alarm.id]
    if lease == "run out":  # its worker may only stand still, and send it when it goes on
        await clock.advance(wake_me.settings.lease)
    elif lease == "from the future":
        clock.set_back(HOUR)
    assert (await changes[verb](alarm.id)).in_flight is (lease != "none")


async def test_a_wake_in_its_readers_hands_is_in_flight_too(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock, cron="0 * * * *")
    assert not (await wake_me.pause(alarm.id)).in_flight
    assert not (await wake_me.resume(alarm.id)).in_flight
    [(_, fire)] = await wake_me.inbox()
    assert (await wake_me.pause(alarm.id)).in_flight
    assert (await wake_me.resume(alarm.id)).in_flight
    await wake_me.completed(fire.id)
    assert not (await wake_me.pause(alarm.id)).in_flight


async def test_a_fetch_beside_a_cancel_is_either_handed_out_or_retracted(
    wake_me: LocalWakeful, clock: ManualClock
) -> None:
    for _ in range(10):
        alarm = await waiting(wake_me, clock)
        handed, cancelled = await asyncio.gather(wake_me.inbox(), wake_me.cancel(alarm.id))
        assert cancelled.in_flight is bool(handed)
        assert await wake_me.inbox() == []

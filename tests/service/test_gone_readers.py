"""A wake is never leased to a reader who has gone: a call that is cancelled takes nothing, whenever that happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from wakeful.model.alarm import Change
from wakeful.python.client import LocalWakeful
from wakeful.service import inbox
from wakeful.service.notes import due_notes
from wakeful.store import Settled, Store
from wakeful.testing import ManualClock

from .world import ends, waiting, waking


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


class Gate:
    """Holds the first settlement, before or after it is written, until it is opened."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch, *, is_written: bool) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()
        self._settle, self._is_written = store.settle, is_written
        monkeypatch.setattr(store, "settle", self._held)

    async def _held(self, changes: Sequence[Change]) -> list[Settled]:
        answers: list[Settled] = await self._settle(changes) if self._is_written else []
        self.reached.set()
        await self.opened.wait()
        return answers or await self._settle(changes)


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("times", [1, 3])
async def test_who_leaves_while_the_lease_is_written_has_taken_nothing(
    wake_me: LocalWakeful,
    store: Store,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    is_written: bool,
    times: int,
) -> None:
    alarm = await waiting(wake_me, clock)
    gate = Gate(store, monkeypatch, is_written=is_written)
    reading = asyncio.create_task(wake_me.inbox(wait=50))
    async with asyncio.timeout(60):
        await gate.reached.wait()
        for _ in range(times):  # as a cancelled scope of anyio does
            reading.cancel()
            await asyncio.sleep(0)
        assert not reading.done(), "it ends when the wake is back"
        gate.opened.set()
        await asyncio.wait((reading,))
    assert reading.cancelled()
    assert await ends(wake_me, alarm.id) == [("waiting", "")]
    [taken] = await wake_me.inbox()
    assert (taken.alarm.id, taken.attempt) == (alarm.id, 1)
    await wake_me.completed(taken.fire.id, "done")
    assert await ends(wake_me, alarm.id) == [("completed", "")]


async def test_who_leaves_when_the_answer_is_ready_has_taken_nothing(
    wake_me: LocalWakeful, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = await waiting(wake_me, clock)
    reading = asyncio.create_task(wake_me.inbox())
    leased = inbox._leased  # the last that is done before the answer

    async def and_leaves(*wanted: Any) -> Any:
        found = await leased(*wanted)
        asyncio.get_running_loop().call_soon(reading.cancel)
        return found

    monkeypatch.setattr(inbox, "_leased", and_leaves)
    await asyncio.wait((reading,))
    assert reading.cancelled()
    assert await ends(wake_me, alarm.id) == [("waiting", "")]


async def test_who_leaves_while_the_next_fire_of_the_series_is_claimed_has_taken_nothing(
    wake_me: LocalWakeful, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = await waiting(wake_me, clock, cron="* * * * *")
    gate = Gate(store, monkeypatch, is_written=True)
    reading = asyncio.create_task(wake_me.inbox())
    async with asyncio.timeout(60):
        await gate.reached.wait()
        await clock.advance(60)
        [claimed] = (await store.claim({"inbox": 1}, lease=timedelta(minutes=2))).alarms
        assert claimed.id == alarm.id
        reading.cancel()
        gate.opened.set()
        await asyncio.wait((reading,))
    assert reading.cancelled()
    assert await ends(wake_me, alarm.id) == [("waiting", "")]


async def test_what_one_reader_leaves_goes_to_the_next_who_waits(
    wake_me: LocalWakeful, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = await waiting(wake_me, clock)
    gate = Gate(store, monkeypatch, is_written=True)
    leaving = asyncio.create_task(wake_me.inbox(wait=50))
    async with asyncio.timeout(60):
        await gate.reached.wait()
        staying = asyncio.create_task(wake_me.inbox(wait=50))
        leaving.cancel()
        gate.opened.set()
        [taken] = await staying
    assert (taken.alarm.id, taken.attempt) == (alarm.id, 1)


async def test_a_reader_who_leaves_is_not_counted_as_delivered(
    wake_me: LocalWakeful, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waiting(wake_me, clock)
    gate = Gate(store, monkeypatch, is_written=True)
    reading = asyncio.create_task(wake_me.inbox())
    await gate.reached.wait()
    reading.cancel()
    gate.opened.set()
    await asyncio.wait((reading,))
    assert ("delivered", "") not in wake_me.service.metrics._fires
    await wake_me.inbox()
    assert wake_me.service.metrics._fires["delivered", ""] == 1


async def test_a_report_that_came_first_is_not_taken_back(
    wake_me: LocalWakeful, store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reports a wake has it, wherever its id came from."""
    alarm = await waiting(wake_me, clock)
    settle, reported = store.settle, asyncio.Event()

    async def and_reports(changes: Sequence[Change]) -> list[Settled]:
        answers = await settle(changes)
        monkeypatch.setattr(store, "settle", settle)
        await wake_me.completed(changes[0].fires[0].id, "done")
        reported.set()
        await asyncio.sleep(0)
        return answers

    monkeypatch.setattr(store, "settle", and_reports)
    reading = asyncio.create_task(wake_me.inbox())
    await reported.wait()
    reading.cancel()
    await asyncio.wait((reading,))
    assert reading.cancelled()
    assert await ends(wake_me, alarm.id) == [("completed", "")]


async def test_an_empty_answer_says_who_has_the_wakes(wake_me: LocalWakeful, clock: ManualClock) -> None:
    assert (await wake_me.inbox()).notes == []
    alarms = [await waiting(wake_me, clock) for _ in range(2)]
    [first] = await wake_me.inbox(limit=1)
    assert first.fire.report_by is not None
    until = first.fire.report_by.isoformat()
    assert await due_notes(wake_me.service, wake_me.caller.owner, "inbox") == [
        f"1 wake is with a reader who took it before, until {until}: {first.fire.id}."
    ]
    assert (await wake_me.agenda()).notes == [], "what is due is another question"
    await clock.advance(1)
    await wake_me.inbox()
    assert (await wake_me.inbox()).notes == [
        f"2 wakes are with readers who took them before, the first until {until}: {first.fire.id}."
    ]
    for alarm in alarms:
        await wake_me.completed(alarm.id, "done")
    assert (await wake_me.inbox()).notes == []

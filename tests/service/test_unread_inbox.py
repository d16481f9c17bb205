"""Who sets an alarm for an inbox that nobody reads is told so."""

from __future__ import annotations

from datetime import timedelta

import pytest

from wakeful.model.requests import CreateRequest
from wakeful.python.client import LocalWakeful
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import HOUR, waiting, waking

DAY = timedelta(days=1)
ASKED = CreateRequest(wake_message="x", when="in 1 hour")


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def notes(wake_me: LocalWakeful, owner: str = "") -> list[str]:
    asked = wake_me.for_owner(owner) if owner else wake_me
    return [note for note in (await asked.create(ASKED)).notes if "Nobody has taken" in note]


async def test_an_inbox_with_a_wake_of_yesterday_is_not_read(wake_me: LocalWakeful, clock: ManualClock) -> None:
    wake = await waiting(wake_me, clock)
    await clock.advance(DAY - HOUR)
    assert await notes(wake_me) == []
    await clock.advance(2 * HOUR)
    [note] = await notes(wake_me)
    assert f"the inbox 'inbox' that waits there since {wake.next_fire_at.isoformat()}: is it read?" in note
    assert await notes(wake_me, owner="ben") == []
    assert len(await wake_me.inbox()) == 1
    await clock.advance(2)
    assert await notes(wake_me) == []

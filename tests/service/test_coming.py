"""What is shown of the time to come ends where the alarm does."""

from __future__ import annotations

import pytest

from wakeful.model.alarm import Policy
from wakeful.python.client import LocalWakeful
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import HOUR, waiting, waking


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def test_the_agenda_shows_no_more_fires_than_are_allowed(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await wake_me.set(cron="0 * * * *", wake_message="x", policy=Policy(max_fires=3, overlap="allow"))
    assert [at for at, _ in await wake_me.agenda()] == [alarm.next_fire_at + nth * HOUR for nth in range(3)]
    await clock.advance(HOUR)
    await wake_me.run_due()
    assert [at for at, _ in await wake_me.agenda()] == [alarm.next_fire_at + nth * HOUR for nth in (1, 2)]


async def test_why_promises_no_fire_after_the_last_one(wake_me: LocalWakeful, clock: ManualClock) -> None:
    alarm = await waiting(wake_me, clock, cron="0 * * * *", policy=Policy(max_fires=3, overlap="allow"))
    assert "After that at" in (await wake_me.why(alarm.id)).summary
    await clock.advance(HOUR)
    await wake_me.run_due()
    assert "After that at" not in (await wake_me.why(alarm.id)).summary

"""`doctor --audit` finds nothing whatever happened to alarms, and names each kind of row that cannot be right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.acting import Draft
from wakeful.model.alarm import Alarm, Change, Fire
from wakeful.python.client import LocalWakeful
from wakeful.service.diagnosis import Audit, Window, audited, problems
from wakeful.store import Store
from wakeful.testing import ManualClock

from .world import HOUR, waiting, waking

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
MONDAY = datetime(2026, 1, 5, 8, tzinfo=UTC)
LEASE = 2 * MINUTE


@pytest.fixture
def wake_me(store: Store, clock: ManualClock) -> LocalWakeful:
    return waking(store, clock)


async def audit(store: Store, keeps: timedelta | None = 30 * DAY) -> Audit:
    return await audited(store, lease=LEASE, patience=MINUTE, keeps=keeps)


async def written(store: Store, alarm: Alarm, *fires: Fire) -> None:
    """Rows as no verb leaves them."""
    change = Change(claim=alarm.claim, version=alarm.version, after=replace(alarm, version=alarm.version + 1))
    [answer] = await store.settle([replace(change, fires=fires, edited=True)])
    assert answer.what == "applied"


async def test_alarms_that_lived_through_everything_are_in_order(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    hourly = await wake_me.set("0 * * * *", "hourly")
    await waiting(wake_me, clock)
    [(_, fire)] = await wake_me.inbox()
    await wake_me.completed(fire.id, "done")
    await clock.advance(5 * HOUR)
    await wake_me.run_due()
    await wake_me.pause(hourly.id)
    await clock.advance(3 * HOUR)
    await wake_me.resume(hourly.id)
    await wake_me.skip(hourly.id)
    await clock.advance(2 * HOUR)
    await wake_me.run_due()
    await wake_me.snooze(hourly.id, "90m")
    await clock.advance(4 * HOUR)
    await wake_me.run_due()
    await wake_me.update(hourly.id, when="*/20 * * * *")
    await clock.advance(3 * HOUR)
    await wake_me.run_due()
    await clock.advance(5 * MINUTE)
    found = await audit(store)
    assert (found.alarms, found.first) == (2, [])
    assert found.fires > 4


async def test_a_report_that_is_not_the_end_of_its_fire_is_found(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    alarm = await waiting(wake_me, clock)
    [(_, fire)] = await wake_me.inbox()
    done = await wake_me.completed(fire.id, "done")
    await written(store, await wake_me.get(alarm.id), replace(done, status="timed_out"))
    found = await audit(store)
    assert dict(found.counts) == {"reports": 1}
    assert found.first[0].said.endswith("but is timed_out")


async def test_a_due_instant_that_nothing_accounts_for_is_found(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    alarm = await wake_me.set("0 * * * *", "hourly")
    first = alarm.next_fire_at
    await clock.advance(first - clock.now() + MINUTE)
    await wake_me.run_due()
    now = await wake_me.get(alarm.id)
    jumped = first + 4 * HOUR
    await written(store, replace(now, occurrence_at=jumped, next_fire_at=jumped))
    await clock.advance(6 * HOUR)
    found = await audit(store)
    assert dict(found.counts) == {"instants": 1}
    assert found.first[0].said == f"no fire on record for {(first + HOUR).isoformat()}, and 2 more"


async def test_a_one_shot_that_fired_without_a_fire_is_found(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    alarm = await wake_me.set("in 1 minute", "Tea")
    await clock.advance(HOUR)
    [claimed] = (await store.claim({"inbox": 1}, lease=LEASE)).alarms
    await written(store, replace(claimed, status="fired", claimed_at=None, unsettled=0))
    found = await audit(store)
    assert [(one.check, one.alarm_id) for one in found.first] == [("instants", alarm.id)]


async def test_fires_that_were_purged_are_not_missed(wake_me: LocalWakeful, store: Store, clock: ManualClock) -> None:
    await wake_me.set("0 * * * *", "hourly")
    for _ in range(30):
        await clock.advance(HOUR)
        await wake_me.run_due()
        for _, fire in await wake_me.inbox():
            await wake_me.completed(fire.id)
    assert await store.maintenance.purge(clock.now() - DAY) > 0
    assert (await audit(store, keeps=DAY)).first == []
    assert dict((await audit(store)).counts) == {"instants": 1}


async def test_a_lease_that_ended_long_ago_and_one_that_does_not_end_are_found(
    wake_me: LocalWakeful, store: Store, clock: ManualClock
) -> None:
    alarm = await wake_me.set("in 1 minute", "Tea")
    await clock.advance(HOUR)
    assert (await store.claim({"inbox": 1}, lease=LEASE)).alarms
    assert "longer than a delivery" in (await audit(store)).first[0].said
    await clock.advance(LEASE)
    assert (await audit(store)).first == []
    await clock.advance(2 * MINUTE)
    [problem] = (await audit(store)).first
    assert (problem.check, problem.alarm_id) == ("leases", alarm.id)
    assert "no worker has taken it over" in problem.said


def test_alarms_that_fired_elsewhere_before_are_in_order() -> None:
    """An importer keeps `created_at`, and none of the fires of before."""
    monday = Draft(when="0 * * * *", owner_did="ada", wake_message="hourly").alarm(id="a1", now=MONDAY)
    later = monday.next_fire_at + 10 * DAY
    alarm = replace(monday, claim=1, occurrence_at=later, next_fire_at=later)
    window = Window(now=later, since=alarm.created_at, lease=LEASE, patience=MINUTE)
    assert [one.check for one in problems(alarm, [], window)] == ["instants"]
    assert list(problems(replace(alarm, created_via="chronos"), [], window)) == []

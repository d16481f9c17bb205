"""Figures: what is counted in each step, what the bounds leave out, and whose it is."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from wakeful.alarm import Alarm, Fire
from wakeful.moments import whole_ms
from wakeful.store import Store
from wakeful.store.maintenance import OwnerBacklog, OwnerUse, Step, StepCount
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import DESK, LEASE, SECOND, a_fire, added, an_alarm, change, settled

HOUR = timedelta(hours=1)


def hours(first: datetime, count: int) -> list[Step]:
    return list(pairwise(first + number * HOUR for number in range(count + 1)))


async def with_fires(store: Store, alarm: Alarm, *fires: Fire) -> None:
    await added(store, alarm)
    await settled(store, change(alarm, *fires))


class TestFigures:
    async def test_what_the_database_is_and_how_large(self, store: Store, clock: ManualClock) -> None:
        before = await store.maintenance.storage()
        assert before.engine.startswith(("SQLite 3.", "PostgreSQL ", "memory"))
        assert before.size > 10_000 or before.engine == "memory"
        assert before.log >= 0

    async def test_fires_are_counted_in_the_step_they_were_due_in(self, store: Store, clock: ManualClock) -> None:
        first = whole_ms(clock.now())
        alarm = an_alarm(clock)
        moments = {0: "completed", 1: "completed", 3599: "failed", 3600: "timed_out", 7200: "delivered"}
        fires = [a_fire(alarm, scheduled_for=first + at * SECOND, status=status) for at, status in moments.items()]
        await with_fires(store, alarm, *fires)
        counts = await store.maintenance.fire_counts("ada", hours(first, 3), limit=100)
        assert [count.statuses for count in counts] == [
            {"completed": 2, "failed": 1},
            {"timed_out": 1},
            {"delivered": 1},
        ]
        assert [count.failed for count in counts] == [1, 1, 0]
        assert [count.count for count in await store.maintenance.fire_counts("bob", hours(first, 3), limit=100)] == [
            0,
            0,
            0,
        ]

    async def test_a_busy_step_is_counted_up_to_the_bound_and_its_failures_are_seen(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = whole_ms(clock.now())
        alarm = an_alarm(clock)
        fires = [a_fire(alarm, scheduled_for=first + number * SECOND, status="completed") for number in range(1, 8)]
        failed = [a_fire(alarm, scheduled_for=first + at * SECOND, status="failed") for at in (0, 8)]
        await with_fires(store, alarm, *fires, *failed)
        [count] = await store.maintenance.fire_counts("ada", hours(first, 1), limit=3)
        assert (count.count, count.failed) == (3, 2)

    async def test_the_latest_of_an_owner_and_of_all(self, store: Store, clock: ManualClock) -> None:
        first = whole_ms(clock.now())
        for owner in ("ada", "bob"):
            alarm = an_alarm(clock, owner_did=owner)
            fires = [
                a_fire(alarm, scheduled_for=first + at * SECOND, started_at=first + 9 * SECOND, last_error=f"no {at}")
                for at in range(3)
            ]
            await with_fires(store, alarm, *fires)
        own = await store.maintenance.latest_fires("ada", hours(first, 2), each=2)
        assert sorted((fire.owner_did, fire.error) for fire in own) == [("ada", "no 1"), ("ada", "no 2")]
        assert {(fire.target, fire.status, fire.started_at) for fire in own} == {
            (DESK, "delivered", first + 9 * SECOND)
        }
        everyone = await store.maintenance.latest_fires("", hours(first - HOUR, 2), each=100)
        assert sorted(fire.owner_did for fire in everyone) == ["ada"] * 3 + ["bob"] * 3
        assert len(await store.maintenance.latest_fires("", hours(first - HOUR, 2), each=4)) == 4

    async def test_how_many_changed_in_each_step(self, store: Store, clock: ManualClock) -> None:
        first = whole_ms(clock.now())
        alarm = an_alarm(clock)
        await with_fires(store, alarm, *(a_fire(alarm, scheduled_for=first - at * HOUR) for at in range(3)))
        for limit, last in ((100, 3), (2, 2)):
            counts = await store.maintenance.fire_counts("", hours(first - HOUR, 2), limit=limit)
            assert counts == [StepCount(0), StepCount(last)]

    async def test_who_waits_at_which_target(self, store: Store, clock: ManualClock) -> None:
        now = whole_ms(clock.now())
        await added(
            store,
            *(an_alarm(clock, due=-at) for at in (1, 2, 3)),
            an_alarm(clock, due=-9, owner_did="bob"),
            an_alarm(clock, due=60, owner_did="bob"),
            an_alarm(clock, due=-5, target="mail", owner_did="bob"),
        )
        assert await store.maintenance.backlog_by_owner(lease=LEASE, limit=100) == [
            OwnerBacklog(DESK, "ada", 3, now - 3 * SECOND),
            OwnerBacklog(DESK, "bob", 1, now - 9 * SECOND),
            OwnerBacklog("mail", "bob", 1, now - 5 * SECOND),
        ]
        [first, *_] = await store.maintenance.backlog_by_owner(lease=LEASE, limit=1)
        assert (first.owner, first.count) == ("bob", 1)
        await store.claim({DESK: 10}, lease=LEASE)
        assert [waiting.target for waiting in await store.maintenance.backlog_by_owner(lease=LEASE, limit=100)] == [
            "mail"
        ]

    async def test_owners_by_name_with_what_they_have(self, store: Store, clock: ManualClock) -> None:
        now = whole_ms(clock.now())
        alarm = an_alarm(clock, owner_did="bob", wake_message="x" * 10, payload_json="{}")
        await with_fires(store, alarm, a_fire(alarm, status="failed"))
        over = an_alarm(clock, owner_did="bob", status="cancelled", wake_message="x" * 10, payload_json="{}")
        await added(store, an_alarm(clock, owner_did="cyd"), over, an_alarm(clock, owner_did="ada"))
        found = await store.maintenance.owner_use(after="", limit=10, scan_limit=100, since=now - HOUR)
        assert [use.owner for use in found] == ["ada", "bob", "cyd"]
        assert found[1] == OwnerUse("bob", 2, 1, found[1].bytes, 1)
        assert found[1].bytes >= 24
        page = await store.maintenance.owner_use(after="", limit=2, scan_limit=100, since=now + HOUR)
        assert [(use.owner, use.failed) for use in page] == [("ada", 0), ("bob", 0)]
        [rest] = await store.maintenance.owner_use(after="bob", limit=2, scan_limit=100, since=now)
        assert rest.owner == "cyd"
        assert [
            use.alarms for use in await store.maintenance.owner_use(after="a", limit=9, scan_limit=1, since=now)
        ] == [1, 1, 1]
        assert await store.maintenance.owner_use(after="cyd", limit=2, scan_limit=100, since=now) == []

"""Counting, and reads of very much: figures, bounded counts, pages that say where to go on and leave nothing out."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.model.alarm import Alarm, Fire
from wakeful.moments import whole_ms
from wakeful.store import AlarmQuery, FireQuery, Stats, Store, Usage
from wakeful.store.maintenance import OwnerBacklog, OwnerUse, Step, StepCount
from wakeful.testing.conformance.making import (
    DESK,
    LEASE,
    MS,
    SECOND,
    a_fire,
    added,
    an_alarm,
    change,
    done,
    new_id,
    settled,
)
from wakeful.testing.manual_clock import ManualClock

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


DAY = timedelta(days=1)


class TestBoundedCounts:
    async def test_stats_count_no_further_than_asked_and_say_so(self, store: Store, clock: ManualClock) -> None:
        statuses = [*["active"] * 4, *["paused"] * 4, *["cancelled"] * 4]
        alarms = [an_alarm(clock, status=status, target=f"t{n}") for n, status in enumerate(statuses)]
        await added(store, *alarms)
        past = [a_fire(alarms[0], scheduled_for=clock.now() - n * SECOND, status="failed") for n in (4, 5)]
        latest = [a_fire(alarms[0], scheduled_for=clock.now() - n * SECOND, status="completed") for n in (1, 2, 3)]
        await settled(store, change(alarms[0], *past, *latest))
        for owner in ("ada", ""):
            counted: dict[str, Any] = {
                "total": 3,
                "pending": 3,
                "paused": 3,
                "cancelled": 3,
                "completed": 3,
                "failed": 0,
            }
            assert await store.stats(owner, most=3) == Stats(**counted, more=True)
            whole: dict[str, Any] = {
                "total": 12,
                "pending": 4,
                "paused": 4,
                "cancelled": 4,
                "completed": 3,
                "failed": 2,
            }
            assert await store.stats(owner, most=13) == Stats(**whole)
            assert (await store.stats(owner, most=12)).more  # there may be

    async def test_stats_say_so_where_only_the_fires_are_many(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        fires = [a_fire(alarm, scheduled_for=clock.now() + n * MS) for n in range(5)]
        await settled(store, change(alarm, *fires))
        assert (await store.stats("ada", most=5)).more
        assert not (await store.stats("ada", most=6)).more

    async def test_usage_can_be_asked_in_pieces(self, store: Store, clock: ManualClock) -> None:
        for number in range(7):
            status = "active" if number % 2 else "fired"
            await added(store, *(an_alarm(clock, status=status, wake_message="x" * number) for _ in range(2)))
            await added(store, an_alarm(clock, owner_did="bob", wake_message="xyz"))
            await clock.advance(1)
        whole = await store.usage("ada")
        alarms = size = pieces = 0
        cursor = None
        while True:
            part = await store.usage("ada", cursor=cursor, look_at=3)
            alarms, size, pieces = alarms + part.alarms, size + part.bytes, pieces + 1
            if (cursor := part.further) is None:
                break
        assert Usage(alarms, size) == whole
        assert pieces == 5

    async def test_a_count_in_pieces_is_the_same_count(self, store: Store, clock: ManualClock) -> None:
        for number in range(9):
            await added(store, an_alarm(clock, label="rare" if number in (0, 1, 8) else "often"))
            await clock.advance(1)
        for owner in ("ada", ""):
            for limit, found in ((10, 3), (3, 3), (2, 2)):
                assert await store.count(AlarmQuery(owner=owner, label="rare", limit=limit, look_at=2)) == found
        assert await store.count(FireQuery(owner="ada", target="nothing", look_at=2)) == 0


class TestAllOwners:
    @pytest.mark.parametrize("look_at", [1, 2, 5, 100])
    async def test_a_search_of_all_owners_alarms_goes_on_until_all_were_looked_at(
        self, store: Store, clock: ManualClock, look_at: int
    ) -> None:
        start, alarms = clock.now(), []
        for number in range(12):
            alarms.append(an_alarm(clock, label=f"say {number % 3}", owner_did=f"owner {number % 4}"))
            await added(store, alarms[-1])
            await clock.advance(1)
        wanted: list[tuple[dict[str, Any], list[Alarm]]] = [
            ({"label": "say 1"}, alarms[1::3]),
            ({"text": "SAY 2"}, alarms[2::3]),
            ({"since": start + 4 * SECOND, "until": start + 6 * SECOND}, alarms[4:6]),
            ({"statuses": ("paused",)}, []),
            ({"key": "nothing"}, []),
            ({}, alarms),
        ]
        for filters, fit in wanted:
            assert await _all_pages(store, AlarmQuery(look_at=look_at, limit=2, **filters)) == fit[::-1], filters

    async def test_their_order_is_that_of_their_ids_whatever_moment_they_were_made_at(
        self, store: Store, clock: ManualClock
    ) -> None:
        later, sooner = new_id(), "f47ac10b-58cc-4372-a567-0e02b2c3d479"  # imported with an id of another kind
        old = an_alarm(clock, id=sooner)
        await clock.advance(1)
        new = an_alarm(clock, id=later)
        await added(store, old, new)
        assert await _all_pages(store, AlarmQuery(limit=1)) == [old, new]
        assert await _all_pages(store, AlarmQuery(owner="ada", limit=1)) == [new, old]

    async def test_a_search_of_all_owners_fires_too(self, store: Store, clock: ManualClock) -> None:
        made = []
        for number in range(8):
            alarm = an_alarm(clock, owner_did=f"owner {number % 3}", target="rare" if number in (0, 5) else "often")
            fire = a_fire(alarm, owner_did=alarm.owner_did, target=alarm.target)
            await added(store, alarm)
            await settled(store, change(alarm, fire))
            made.append(fire)
            await clock.advance(1)
        query, pages = FireQuery(target="rare", look_at=3), 0
        seen: list[Fire] = []
        while True:
            page = await store.fires(query)
            seen += page
            pages += 1
            if page.further is None:
                break
            query = FireQuery(target="rare", look_at=3, cursor=page.further)
        assert (seen, pages) == ([made[5], made[0]], 3)


class TestPurgingMuch:
    async def test_what_may_not_go_does_not_keep_what_is_behind_it(self, store: Store, clock: ManualClock) -> None:
        unread = [an_alarm(clock) for _ in range(7)]
        await added(store, *unread)
        await settled(store, *(done(alarm, a_fire(alarm, status="waiting")) for alarm in unread))
        await clock.advance(1)
        cancelled = [an_alarm(clock, status="cancelled") for _ in range(3)]
        await added(store, *cancelled)
        before = clock.now() + DAY
        assert await store.maintenance.purge(before, limit=2) > 0
        while await store.maintenance.purge(before, limit=2):
            pass
        assert {alarm.id for alarm in await store.find(AlarmQuery())} == {alarm.id for alarm in unread}

    async def test_nothing_younger_goes(self, store: Store, clock: ManualClock) -> None:
        await added(store, *(an_alarm(clock, status="cancelled", label="old") for _ in range(3)))
        await clock.advance(10)
        await added(store, *(an_alarm(clock, status="cancelled", label="new") for _ in range(3)))
        while await store.maintenance.purge(clock.now() - 5 * SECOND, limit=2):
            pass
        assert [alarm.label for alarm in await store.find(AlarmQuery())] == ["new"] * 3


async def _all_pages(store: Store, query: AlarmQuery) -> list[Alarm]:
    found: list[Alarm] = []
    for _ in range(100):
        page = await store.find(query)
        found += page
        if page.further is None:
            return found
        query = replace(query, cursor=page.further)
    raise AssertionError("it never ends")

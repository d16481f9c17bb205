"""Where there is very much: a read looks at a bounded part of it, says where to go on, and leaves nothing out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.alarm import Alarm, Fire
from wakeful.store import AlarmQuery, FireQuery, Stats, Store, Usage
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import MS, SECOND, a_fire, added, an_alarm, change, done, new_id, settled

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
            assert await _all(store, AlarmQuery(look_at=look_at, limit=2, **filters)) == fit[::-1], filters

    async def test_their_order_is_that_of_their_ids_whatever_moment_they_were_made_at(
        self, store: Store, clock: ManualClock
    ) -> None:
        later, sooner = new_id(), "f47ac10b-58cc-4372-a567-0e02b2c3d479"  # imported with an id of another kind
        old = an_alarm(clock, id=sooner)
        await clock.advance(1)
        new = an_alarm(clock, id=later)
        await added(store, old, new)
        assert await _all(store, AlarmQuery(limit=1)) == [old, new]
        assert await _all(store, AlarmQuery(owner="ada", limit=1)) == [new, old]

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


async def _all(store: Store, query: AlarmQuery) -> list[Alarm]:
    found: list[Alarm] = []
    for _ in range(100):
        page = await store.find(query)
        found += page
        if page.further is None:
            return found
        query = replace(query, cursor=page.further)
    raise AssertionError("it never ends")

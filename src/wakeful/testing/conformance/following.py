"""Following along: what is new since a moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from wakeful.alarm import Alarm, Event, Fire
from wakeful.clock import Clock
from wakeful.ids import Ids
from wakeful.store import EventQuery, Followed, MovedFire, NewAlarm, Store
from wakeful.testing.clock import ManualClock
from wakeful.testing.conformance.making import MS, SECOND, a_fire, added, an_alarm, an_event, change, settled

_ids: Final = Ids()


def made(clock: Clock, **given: Any) -> Alarm:
    """An alarm whose id was made when it was created, as all are outside these tests."""
    return an_alarm(clock, id=_ids.new(clock.now()), **given)


def told(alarm: Alarm) -> NewAlarm:
    return NewAlarm(**{name: getattr(alarm, name) for name in NewAlarm.__struct_fields__})


def moved(fire: Fire, *, reason: str | None = None) -> MovedFire:
    given = {name: getattr(fire, name) for name in MovedFire.__struct_fields__}
    return MovedFire(**(given if reason is None else given | {"reason": reason}))


async def changes(store: Store, clock: Clock, *, owner: str = "", after: int = 0, limit: int = 100) -> Followed:
    return await store.changes(owner=owner, since=clock.now(), after_event=after, limit=limit)


class TestFollowing:
    async def test_an_empty_store_has_nothing_new(self, store: Store, clock: ManualClock) -> None:
        assert await changes(store, clock) == Followed([], [], [], 0)

    async def test_alarms_created_since_then_come_oldest_first(self, store: Store, clock: ManualClock) -> None:
        await added(store, made(clock))
        await clock.advance(SECOND)
        first, second = made(clock), made(clock)
        await added(store, second, first)
        assert (await changes(store, clock)).alarms == [told(first), told(second)]
        assert (await changes(store, clock, limit=1)).alarms == [told(first)]

    async def test_fires_changed_since_then_come_oldest_change_first(self, store: Store, clock: ManualClock) -> None:
        now = clock.now()
        old, second, first = made(clock), made(clock), made(clock)
        await added(store, old, second, first)
        for alarm, at in ((old, now - MS), (second, now + MS), (first, now)):
            await settled(store, change(alarm, a_fire(alarm, updated_at=at)))
        found = await changes(store, clock)
        assert [fire.alarm_id for fire in found.fires] == [first.id, second.id]
        assert [fire.alarm_id for fire in (await changes(store, clock, limit=1)).fires] == [first.id]

    async def test_a_fire_that_changed_again_is_there_once_as_it_is_now(self, store: Store, clock: ManualClock) -> None:
        alarm = made(clock)
        await added(store, alarm)
        await settled(store, change(alarm, a_fire(alarm)))
        await clock.advance(SECOND)
        assert (await changes(store, clock)).fires == []
        done = a_fire(alarm, status="completed", result="ok", updated_at=clock.now())
        await settled(store, change(alarm, done))
        assert (await changes(store, clock)).fires == [moved(done)]

    async def test_only_the_beginning_of_an_error_is_read(self, store: Store, clock: ManualClock) -> None:
        alarm = made(clock)
        await added(store, alarm)
        long = a_fire(alarm, status="failed", last_error="é" * 2000, updated_at=clock.now())
        await settled(store, change(alarm, long))
        assert (await changes(store, clock)).fires == [moved(long, reason="é" * 500)]

    async def test_events_are_followed_by_their_number(self, store: Store, clock: ManualClock) -> None:
        alarm = made(clock)
        await added(store, alarm)
        events = [an_event(alarm, what) for what in ("paused", "resumed", "cancelled")]
        await settled(store, change(alarm, events=events))
        found = await changes(store, clock)
        assert [event for _, event in found.events] == events
        (first, _), (second, _), (third, _) = found.events
        assert found.last_event == third
        assert [seq for seq, _ in (await changes(store, clock, after=first)).events] == [second, third]
        assert [seq for seq, _ in (await changes(store, clock, after=first, limit=1)).events] == [second]

    async def test_the_last_event_of_a_kind_is_found(self, store: Store, clock: ManualClock) -> None:
        alarm, other = made(clock), made(clock)
        await added(store, alarm, other)
        assert await _last_at(store, alarm.id) is None
        for what in ("paused", "resumed", "paused", "cancelled"):
            await clock.advance(SECOND)
            await settled(store, change(alarm, events=[an_event(alarm, what, at=clock.now())]))
        latest = clock.now()
        await settled(store, change(other, events=[an_event(other, "paused", at=latest)]))
        assert await _last_at(store, alarm.id) == latest - SECOND
        assert await _last_at(store, other.id) == latest
        assert await _last_at(store, "") is None

    async def test_what_somebody_did_is_found_since_a_moment(self, store: Store, clock: ManualClock) -> None:
        alarm, other = made(clock), made(clock, owner_did="bob")
        await added(store, alarm, other)
        events = []
        for what, by in (("fetched", "ada"), ("fetched", "ada"), ("paused", "ada"), ("fetched", "eve")):
            await clock.advance(SECOND)
            events.append(an_event(alarm, what, at=clock.now(), by=by))
            await settled(store, change(alarm, events=[events[-1]]))
        others = an_event(other, "fetched", at=clock.now(), by="ada")
        await settled(store, change(other, events=[others]))
        since = events[0].at
        assert await _done_by(store, "ada", "fetched", since=since, limit=9) == [events[0], events[1], others]
        assert await _done_by(store, "ada", "fetched", since=since, limit=2) == events[:2]
        assert await _done_by(store, "ada", "fetched", since=events[1].at, limit=9) == [events[1], others]
        assert await _done_by(store, "eve", "paused", since=since, limit=9) == []

    async def test_an_owner_sees_only_their_own(self, store: Store, clock: ManualClock) -> None:
        hers, his = made(clock), made(clock, owner_did="eve")
        await added(store, hers, his)
        for alarm in (hers, his):
            await settled(store, change(alarm, a_fire(alarm), events=[an_event(alarm)]))
        found = await changes(store, clock, owner="ada")
        assert found.alarms == [told(hers)]
        assert [fire.owner_did for fire in found.fires] == ["ada"]
        assert [event.owner_did for _, event in found.events] == ["ada"]
        everyones = await changes(store, clock)
        assert found.last_event == everyones.last_event
        assert [len(kind) for kind in (everyones.alarms, everyones.fires, everyones.events)] == [2, 2, 2]


async def _last_at(store: Store, alarm_id: str) -> datetime | None:
    """When an alarm was last paused."""
    found = await store.events(EventQuery(alarm_id=alarm_id, what="paused", latest=True, limit=1))
    return found[0][1].at if found else None


async def _done_by(store: Store, by: str, what: str, *, since: datetime, limit: int) -> list[Event]:
    return [event for _, event in await store.events(EventQuery(by=by, what=what, since=since, limit=limit))]

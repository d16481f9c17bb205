"""Upkeep: the schema (with a newer version's column too), the key of report tokens, workers, target states, purging."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from msgspec.structs import replace

from wakeful.errors import StoreUnavailable
from wakeful.model.alarm import Event
from wakeful.store import AlarmQuery, EventQuery, FireQuery, Store, TargetState, Worker
from wakeful.store.maintenance import IMPOSSIBLE
from wakeful.store.queries import OURS
from wakeful.testing.conformance.adding import TestAdding, TestKeys, TestWhatIsKept
from wakeful.testing.conformance.claiming import (
    TestBacklog,
    TestClaiming,
    TestLeases,
    TestNextDue,
    TestOwnersInTurn,
    TestSuspects,
)
from wakeful.testing.conformance.conditions import TestBudgets, TestChecks, TestSignals
from wakeful.testing.conformance.counting import TestAllOwners, TestBoundedCounts, TestFigures
from wakeful.testing.conformance.finding import (
    TestFinding,
    TestFires,
    TestFollowing,
    TestInbox,
    TestOverdue,
    TestOwners,
    TestPages,
    TestStats,
    TestUsage,
)
from wakeful.testing.conformance.making import (
    SECOND,
    Outbox,
    a_fire,
    added,
    an_alarm,
    an_event,
    change,
    claimed,
    done,
    one_claimed,
    settled,
)
from wakeful.testing.conformance.owning import TestDoor, TestOwnerSettings, TestSimilar, TestTokens
from wakeful.testing.conformance.settling import TestEditing, TestRows, TestSettling
from wakeful.testing.conformance.tasking import (
    TestTaskNews,
    TestTaskPlans,
    TestTaskRows,
    TestTasksAndTheirAlarms,
    TestTaskTables,
)
from wakeful.testing.manual_clock import ManualClock

DAY = timedelta(days=1)


class TestSchema:
    async def test_migrating_again_applies_nothing(self, store: Store) -> None:
        assert await store.migrate() == []

    async def test_the_store_goes_by_the_clock_it_was_given(self, store: Store, clock: ManualClock) -> None:
        await clock.advance(5)
        assert await store.now() == clock.now()


class TestInspecting:
    async def test_a_store_that_only_wakeful_wrote_to_is_sound(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        found = await store.maintenance.inspect(thorough=True)
        assert found.sound
        assert found.schema == found.known > 0
        assert set(found.impossible) == set(IMPOSSIBLE)
        assert found.size > 0 or found.engine == "memory"
        assert found.engine.startswith(("SQLite 3.", "PostgreSQL ", "memory"))

    async def test_rows_that_cannot_be_are_counted_by_what_is_wrong_with_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        now = await store.now()
        await added(
            store,
            an_alarm(clock, fire_at=None),
            an_alarm(clock, kind="cron", fire_at=None, cron_expr=""),
            an_alarm(clock, status="fired", fire_at=None),  # nothing more is expected of it
            an_alarm(clock, owner_did=""),
            an_alarm(clock, version=0),
            an_alarm(clock, claimed_at=now + 2 * DAY),
        )
        alarm = an_alarm(clock)
        await added(store, alarm)
        odd = [
            a_fire(alarm, owner_did="eve"),
            a_fire(alarm, scheduled_for=now + 2 * DAY, status="skipped", count=0),
        ]
        assert await settled(store, change(alarm, *odd)) == ["applied"]
        found = await store.maintenance.inspect(thorough=True)
        assert list(found.impossible.values()) == [2, 1, 1, 1, 0, 1, 1]
        assert not found.sound
        assert (await store.maintenance.inspect()).impossible == {}


class TestReportKeys:
    async def test_the_key_is_made_once(self, store: Store) -> None:
        found = await asyncio.gather(*(store.access.report_keys() for _ in range(8)))
        assert len({keys.current for keys in found}) == 1
        assert (len(found[0].current), found[0].retired) == (32, ())
        assert await store.access.report_keys() == found[0]

    async def test_a_new_key_retires_the_one_before_and_a_third_forgets_the_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        made, moments = [(await store.access.report_keys()).current], []
        for _ in range(3):
            await clock.advance(60)
            moments.append(clock.now())
            event = Event(at=clock.now(), what="rotated", by="cli")
            keys = await store.access.rotate_report_key(clock.now(), event)
            assert keys == await store.access.report_keys()
            assert [(old.key, old.retired_at) for old in keys.retired] == [*zip(made, moments, strict=True)][:-3:-1]
            made.append(keys.current)
        assert len(set(made)) == 4
        assert [(event.what, event.at, event.by) for _, event in await store.events(EventQuery())] == [
            ("rotated", at, "cli") for at in moments
        ]

    async def test_a_database_without_a_key_gets_one_to_retire(self, store: Store, clock: ManualClock) -> None:
        keys = await store.access.rotate_report_key(clock.now(), Event(at=clock.now(), what="rotated"))
        assert len({keys.current, *(old.key for old in keys.retired)}) == 2

    async def test_two_changes_at_once_are_one_after_the_other(self, store: Store, clock: ManualClock) -> None:
        first = (await store.access.report_keys()).current
        event = Event(at=clock.now(), what="rotated")
        both = await asyncio.gather(*(store.access.rotate_report_key(clock.now(), event) for _ in range(2)))
        keys = await store.access.report_keys()
        assert keys in both
        assert [old.key for old in keys.retired] == [next(k for k in both if k != keys).current, first]

    async def test_a_key_is_not_shown(self, store: Store) -> None:
        keys = await store.access.report_keys()
        assert repr(keys.current) not in repr(keys)
        assert keys.current.hex() not in repr(keys)


class TestWorkers:
    async def test_a_beat_writes_the_row_and_says_when_by_the_stores_clock(
        self, store: Store, clock: ManualClock
    ) -> None:
        worker = _worker("w1", clock.now())
        await store.maintenance.beat(worker)
        await clock.advance(30)
        await store.maintenance.beat(replace(worker, targets=("a", "b", "c")))
        assert await store.maintenance.workers() == [replace(worker, targets=("a", "b", "c"), seen_at=clock.now())]

    async def test_every_worker_is_on_record_by_when_it_started(self, store: Store, clock: ManualClock) -> None:
        start = clock.now()
        await store.maintenance.beat(_worker("late", start + SECOND))
        await store.maintenance.beat(_worker("early", start))
        await store.maintenance.beat(replace(_worker("stopped", start - SECOND), stopped_at=start))
        workers = await store.maintenance.workers()
        assert [worker.id for worker in workers] == ["stopped", "early", "late"]
        assert workers[0].stopped_at == start


class TestTargets:
    async def test_nothing_is_known_of_a_target_at_first(self, store: Store) -> None:
        assert await store.maintenance.target_states() == {}

    async def test_a_state_is_replaced_and_its_event_comes_with_it(self, store: Store, clock: ManualClock) -> None:
        paused = TargetState(
            target="desk", paused_at=clock.now(), paused_by="ops", paused_reason="moving ☃", updated_at=clock.now()
        )
        event = an_event(an_alarm(clock), "target paused", alarm_id="", by="ops", reason="moving ☃")
        await store.maintenance.set_target_state(paused, event=event)
        assert await store.maintenance.target_states() == {"desk": paused}
        assert [told for _, told in await store.events(EventQuery())] == [event]
        broken = TargetState(
            target="desk", breaker_opened_at=clock.now(), last_error="HTTP 500", updated_at=clock.now() + SECOND
        )
        await store.maintenance.set_target_state(broken)
        await store.maintenance.set_target_state(replace(broken, target="door"))
        assert await store.maintenance.target_states() == {"desk": broken, "door": replace(broken, target="door")}
        assert len(await store.events(EventQuery())) == 1


class TestEvents:
    async def test_events_come_in_order_and_can_be_followed(self, store: Store, clock: ManualClock) -> None:
        one, two = an_alarm(clock), an_alarm(clock, owner_did="bob")
        await added(store, one, two)
        for n in range(3):
            await settled(
                store, change(one, events=[an_event(one, f"a{n}")]), change(two, events=[an_event(two, f"b{n}")])
            )

        async def told(owner: str = "", alarm_id: str = "", after: int = 0, limit: int = 100) -> list[str]:
            events = await store.events(EventQuery(owner=owner, alarm_id=alarm_id, after=after, limit=limit))
            assert [seq for seq, _ in events] == sorted({seq for seq, _ in events})
            return [event.what for _, event in events]

        everything = await told()
        assert sorted(everything) == ["a0", "a1", "a2", "b0", "b1", "b2"]
        assert await told(owner="bob") == ["b0", "b1", "b2"]
        assert await told(alarm_id=one.id) == ["a0", "a1", "a2"]
        assert await told(limit=2) == everything[:2]
        seen = (await store.events(EventQuery(limit=4)))[-1][0]
        assert await told(after=seen) == everything[4:]

    async def test_every_field_of_an_event_comes_back(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        event = an_event(alarm, "paused", fire_id=alarm.fire_id, by="ops ☃", reason="it's late")
        await settled(store, change(alarm, events=[event]))
        [(_, told)] = await store.events(EventQuery())
        assert told == event


class TestPurging:
    async def test_one_owner_s_is_counted_and_purged_without_another_s(self, store: Store, clock: ManualClock) -> None:
        for owner in ("ann", "bob"):
            await added(store, an_alarm(clock, owner_did=owner))
            leased = await one_claimed(store)
            await settled(store, replace(done(leased), events=(an_event(leased),)))
        await clock.advance(10 * DAY)
        before = clock.now() - DAY
        assert await store.maintenance.count_old(before, owner="ann") == {
            "alarms": 1,
            "fires": 1,
            "events": 1,
            "tokens": 0,
        }
        assert await store.maintenance.count_old(before) == {"alarms": 2, "fires": 2, "events": 2, "tokens": 0}
        assert await store.maintenance.count_old(before - 20 * DAY) == {
            "alarms": 0,
            "fires": 0,
            "events": 0,
            "tokens": 0,
        }
        while await store.maintenance.purge(before, owner="ann"):
            pass
        assert [alarm.owner_did for alarm in await store.find(AlarmQuery())] == ["bob"]
        assert [fire.owner_did for fire in await store.fires(FireQuery())] == ["bob"]
        assert [event.owner_did for _, event in await store.events(EventQuery())] == ["bob"]

    async def test_what_is_finished_goes_with_its_fires_and_events(self, store: Store, clock: ManualClock) -> None:
        for _ in range(3):
            await added(store, an_alarm(clock))
            leased = await one_claimed(store)
            await settled(store, replace(done(leased), events=(an_event(leased),)))
        await clock.advance(10 * DAY)
        assert await _purged(store, clock.now() - DAY) == 9
        assert await store.find(AlarmQuery()) == []
        assert await store.fires(FireQuery()) == []
        assert await store.events(EventQuery()) == []

    async def test_nothing_goes_before_its_time(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock))
        await settled(store, done(await one_claimed(store)))
        assert await _purged(store, clock.now()) == 0  # strictly before
        assert await _purged(store, clock.now() + SECOND) == 2

    @pytest.mark.parametrize("status", ["active", "paused"])
    async def test_an_alarm_that_still_has_a_future_stays(self, store: Store, clock: ManualClock, status: str) -> None:
        alarm = an_alarm(clock, status=status)
        await added(store, alarm)
        await settled(store, change(alarm, a_fire(alarm, status="failed")))
        assert await _purged(store, clock.now() + DAY) == 0

    async def test_old_fires_of_a_series_go_and_the_series_stays(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock, kind="cron")
        await added(store, alarm)
        past = [a_fire(alarm, scheduled_for=clock.now() - n * DAY, status="completed") for n in (1, 2, 3)]
        await settled(store, change(alarm, *past, a_fire(alarm, status="retrying")))
        assert await _purged(store, clock.now() + DAY) == 3
        assert [fire.status for fire in await store.fires(FireQuery())] == ["retrying"]
        assert await store.get(alarm.id) == alarm

    async def test_a_retry_that_its_alarm_left_open_goes_with_it(self, store: Store, clock: ManualClock) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        await settled(store, done(alarm, a_fire(alarm, status="retrying")))
        assert await _purged(store, clock.now() + DAY) == 2
        assert await store.get(alarm.id) is None

    @pytest.mark.parametrize("pending", [{"status": "waiting"}, {"status": "delivered", "report_by": 1}])
    async def test_a_fire_somebody_still_waits_for_keeps_itself_and_its_alarm(
        self, store: Store, clock: ManualClock, pending: dict[str, object]
    ) -> None:
        alarm = an_alarm(clock)
        await added(store, alarm)
        if "report_by" in pending:
            pending = pending | {"report_by": clock.now()}
        await settled(store, done(alarm, a_fire(alarm, **pending)))
        assert await _purged(store, clock.now() + DAY) == 0
        assert await store.get(alarm.id) is not None

    async def test_at_most_so_many_go_at_once(self, store: Store, clock: ManualClock) -> None:
        alarms = [an_alarm(clock) for _ in range(10)]
        await added(store, *alarms)
        await settled(store, *(done(alarm) for alarm in await claimed(store)))
        first = await store.maintenance.purge(clock.now() + DAY, limit=4)
        assert 4 <= first <= 8
        assert first + await _purged(store, clock.now() + DAY) == 20

    async def test_a_key_is_free_again_when_its_alarm_is_gone(self, store: Store, clock: ManualClock) -> None:
        await added(store, an_alarm(clock, idempotency_key="k", status="cancelled"))
        [before] = await store.add([an_alarm(clock, idempotency_key="k")])
        assert before.deduped
        await _purged(store, clock.now() + DAY)
        [after] = await store.add([an_alarm(clock, idempotency_key="k")])
        assert not after.deduped


class TestClosing:
    async def test_closing_finishes_what_was_asked(self, store: Store, clock: ManualClock) -> None:
        calls = [asyncio.ensure_future(store.add([an_alarm(clock)])) for _ in range(20)]
        await asyncio.wait(calls[:1], timeout=0)
        await store.close()
        assert all(len(answer) == 1 for answer in await asyncio.gather(*calls))

    async def test_a_closed_store_says_so(self, store: Store, clock: ManualClock) -> None:
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailable):
            await store.add([an_alarm(clock)])
        with pytest.raises(StoreUnavailable):
            await store.find(AlarmQuery())


def _worker(id: str, started_at: datetime) -> Worker:
    return Worker(
        id=id,
        host="host ☃",
        pid=123,
        version="1.2.3",
        started_at=started_at,
        seen_at=started_at,
        targets=("a", "b"),
        handlers=("tidy",),
    )


async def _purged(store: Store, before: datetime) -> int:
    """How many rows go until nothing is left to go."""
    gone = 0
    while rows := await store.maintenance.purge(before, limit=7):
        gone += rows
    return gone


_REPEATED: Final = (
    *(TestAdding, TestKeys, TestWhatIsKept, TestBudgets, TestBacklog, TestClaiming, TestLeases, TestNextDue),
    *(TestSuspects, TestFigures, TestFinding, TestFires, TestInbox, TestOverdue, TestPages, TestStats, TestFollowing),
    *(TestOwnerSettings, TestDoor, TestSimilar, TestTokens, TestEditing, TestRows, TestSettling, TestSignals),
    *(TestTaskNews, TestTaskPlans, TestTasksAndTheirAlarms, TestOwnersInTurn, TestEvents, TestPurging),
    *(TestReportKeys, TestTargets, TestWorkers, TestChecks, TestUsage, TestOwners, TestAllOwners, TestBoundedCounts),
    *(TestTaskTables, TestTaskRows),
)


class _OneMoreColumn:
    @pytest.fixture(autouse=True)
    async def one_more_column(self, store: Store, outbox: Outbox) -> None:
        await store.maintenance.workers()  # it is open, and has read its tables as they were
        schema, dot, _ = outbox.table.rpartition(".")
        for table in OURS:
            # Only PostgreSQL has claims whose answers can get lost.
            with suppress(Exception) if table == "claim_tokens" else nullcontext():
                await outbox.run(f"alter table {schema}{dot}{table} add column one_more text not null default 'new'")


def _repeated(tests: type[Any]) -> type[Any]:
    return type(tests.__name__, (_OneMoreColumn, tests), {"__module__": __name__, "__doc__": tests.__doc__})


TestOneMoreColumn: Final = type(
    "TestOneMoreColumn",
    (),
    {"__module__": __name__, "__doc__": __doc__} | {tests.__name__: _repeated(tests) for tests in _REPEATED},
)

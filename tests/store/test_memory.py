"""The memory store keeps the contract of the others, and what it alone promises."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from wakeful.errors import InvalidRequest, StoreUnavailable
from wakeful.rules.task import TaskPlan
from wakeful.store import AlarmQuery, EventQuery, FireQuery, Store
from wakeful.store.memory import MemoryStore
from wakeful.store.memory.database import MemoryDatabase
from wakeful.testing import ManualClock
from wakeful.testing.conformance import *  # noqa: F403
from wakeful.testing.conformance.making import DESK, LEASE, a_fire, an_alarm, an_event, change, done

del TestOneMoreColumn  # noqa: F821 - it has no tables that a newer version could extend


class MemoryOutbox:
    table = "outbox"

    def __init__(self, database: MemoryDatabase) -> None:
        self._tables = database.other_tables

    async def rows(self) -> list[tuple[Any, ...]]:
        return self._tables.run("select fire_id, body from outbox")

    async def run(self, sql: str) -> None:
        self._tables.run(sql)


@pytest.fixture
def database() -> MemoryDatabase:
    return MemoryDatabase()


@pytest.fixture
async def store(database: MemoryDatabase, clock: ManualClock) -> AsyncIterator[Store]:
    store = MemoryStore(database, clock=clock)
    yield store
    await store.close()


@pytest.fixture
async def outbox(database: MemoryDatabase) -> MemoryOutbox:
    outbox = MemoryOutbox(database)
    await outbox.run("create table outbox (fire_id text primary key, body text not null)")
    return outbox


class TestTheDataOutlivesItsStores:
    async def test_what_a_killed_process_was_told_is_there_for_the_next(
        self, database: MemoryDatabase, clock: ManualClock
    ) -> None:
        killed, next_one = MemoryStore(database, clock=clock), MemoryStore(database, clock=clock)
        alarm = an_alarm(clock)
        await killed.add([alarm])
        [leased] = (await killed.claim({DESK: 1}, lease=LEASE)).alarms
        killed.abandon()
        for verb in (killed.get(alarm.id), killed.add([]), killed.tasks.table(), killed.maintenance.editions()):
            with pytest.raises(StoreUnavailable):
                await verb
        assert await next_one.get(alarm.id) == leased
        assert (await next_one.claim({DESK: 1}, lease=LEASE)).alarms == []
        await clock.advance(LEASE)
        assert [one.claim for one in (await next_one.claim({DESK: 1}, lease=LEASE)).alarms] == [2]

    async def test_every_open_store_hears_of_what_is_due_and_a_killed_one_does_not(
        self, database: MemoryDatabase, clock: ManualClock
    ) -> None:
        here, there, killed = (MemoryStore(database, clock=clock) for _ in range(3))
        killed.abandon()
        await here.add([an_alarm(clock)])
        assert [store.hints.is_set() for store in (here, there, killed)] == [True, True, False]

    async def test_a_verb_is_done_at_its_first_step(self, store: Store, clock: ManualClock) -> None:
        """Nothing waits inside: no verb of another task can come in between."""
        alarm = an_alarm(clock)
        for verb in (
            store.add([alarm]),
            store.claim({DESK: 1}, lease=LEASE),
            store.settle([done(replace(alarm, claim=1))]),
            store.find(AlarmQuery()),
            store.changes(owner="", since=clock.now(), after_event=0, limit=9),
            store.access.rotate_report_key(clock.now(), an_event(alarm)),
            store.tasks.news(limit=9),
        ):
            with pytest.raises(StopIteration):
                verb.__await__().__next__()
        assert (await store.find(AlarmQuery()))[0].status == "fired"

    async def test_the_keys_of_report_tokens_come_from_what_was_handed_in(self, clock: ManualClock) -> None:
        stores = [MemoryStore(MemoryDatabase(random_bytes=random.Random(7).randbytes), clock=clock) for _ in range(2)]
        assert await stores[0].access.report_keys() == await stores[1].access.report_keys()

    async def test_a_plan_that_is_refused_halfway_is_taken_back_as_a_whole(
        self, store: Store, clock: ManualClock, outbox: MemoryOutbox
    ) -> None:
        """The new alarm of a task cannot be kept: what was written of its former one before that is undone."""
        alarm, formers = an_alarm(clock, due=60, version=2), [an_event(an_alarm(clock), "former") for _ in range(2)]
        formers = [replace(former, alarm_id=alarm.id, reason=str(n)) for n, former in enumerate(formers)]
        await store.add([replace(alarm, version=1)])
        await store.settle([replace(change(replace(alarm, version=1), version=2), former=formers[0])])
        await store.tasks.connect("tasks")
        await outbox.run("insert into tasks (id, prompt) values ('t1', 'do it')")
        [news] = await store.tasks.news(limit=9)
        ended = change(alarm, a_fire(alarm), events=[an_event(alarm)], status="cancelled", version=3)
        bad = an_alarm(clock, label="\ud800")
        plan = TaskPlan(news=news, change=replace(ended, former=formers[1]), new=bad, alarm_id=bad.id, task=news.task)
        assert [answer.what for answer in await store.tasks.plan([plan])] == ["refused"]
        assert await store.find(AlarmQuery()) == [alarm]
        assert (await store.fires(FireQuery()), await store.events(EventQuery())) == ([], [])
        assert [event for _, event in await store.events(EventQuery(alarm_id=alarm.id, latest=True))] == formers[:1]
        assert [one.id for one in (await store.agenda(owner="ada", until=clock.now() + LEASE, limit=9))] == [alarm.id]

    async def test_a_callers_connection_is_refused(self, store: Store, clock: ManualClock) -> None:
        for refused in (store.within(object()), store.add([an_alarm(clock)], connection=object())):
            with pytest.raises(InvalidRequest, match="connection"):
                await refused

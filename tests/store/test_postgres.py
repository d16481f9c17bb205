"""What only PostgreSQL has: group commit across callers, locks, plans, hints between processes, its own clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from wakeful.errors import StoreBusy, StoreUnavailable
from wakeful.model.alarm import Alarm, Event, Row
from wakeful.store import AlarmQuery, Claim, EventQuery, FireQuery, Settled, Turn
from wakeful.store.postgres import PostgresStore, database

from .postgres_world import LEASE, World, completed, new_alarm


@pytest.fixture
async def world(pg_dsn: str, pg_migrated: str) -> AsyncIterator[World]:
    world = World(pg_dsn, pg_migrated)
    yield world
    await world.close()


@pytest.fixture
async def store(world: World) -> PostgresStore:
    store = world.store()
    await store.migrate()
    return store


@pytest.fixture
def long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a locked row still waits when its neighbours are through, however busy the machine is."""
    monkeypatch.setattr(database, "LONG_LOCK_WAIT", "120s")
    monkeypatch.setattr(database, "ANSWER_WITHIN", 120.0)


async def claim_all(store: PostgresStore, *, target: str = "t", slots: int = 1000) -> list[Alarm]:
    return (await store.claim({target: slots}, lease=LEASE)).alarms


async def transactions(world: World, table: str) -> int:
    return int(await world.value(f"select count(distinct xmin::text) from {world.schema}.{table}"))


async def test_concurrent_creates_share_a_few_transactions(world: World, store: PostgresStore) -> None:
    await asyncio.gather(*(store.add([new_alarm()]) for _ in range(64)))
    assert await world.value(f"select count(*) from {world.alarms}") == 64
    assert await transactions(world, "alarms") <= 32


async def test_concurrent_settlements_share_a_few_transactions(world: World, store: PostgresStore) -> None:
    await store.add([new_alarm() for _ in range(64)])
    alarms = await claim_all(store)
    answers = await asyncio.gather(*(store.settle([completed(alarm)]) for alarm in alarms))
    assert answers == [[Settled("applied")]] * 64
    assert await transactions(world, "fires") <= 32


async def test_what_one_caller_brings_in_bulk_goes_in_turns(world: World, store: PostgresStore) -> None:
    async with asyncio.TaskGroup() as tasks:
        bulk = tasks.create_task(store.add([new_alarm() for _ in range(3000)]))
        await tasks.create_task(store.add([new_alarm()]))
        assert not bulk.done()
    assert len(bulk.result()) == 3000


@pytest.mark.usefixtures("long_waits")
async def test_a_key_held_by_another_transaction_delays_nobody_but_itself(world: World, store: PostgresStore) -> None:
    holder = await world.connect()
    transaction = holder.transaction()
    await transaction.start()
    first = new_alarm(idempotency_key="k")
    await store.add([first], connection=holder)

    blocked = asyncio.create_task(store.add([new_alarm(idempotency_key="k")]))
    neighbours = asyncio.gather(*(store.add([new_alarm(idempotency_key=f"n{i}")]) for i in range(40)))
    async with asyncio.timeout(60):
        assert not any(added.deduped for [added] in await neighbours)
        # Not the next ones either, while it still waits.
        await store.add([new_alarm()])
    assert not blocked.done()

    await transaction.commit()
    [added] = await blocked
    assert added.deduped
    assert added.alarm.id == first.id


async def test_a_key_that_stays_locked_ends_as_busy(
    world: World, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LONG_LOCK_WAIT", "200ms")
    holder = await world.connect()
    async with holder.transaction():
        await store.add([new_alarm(idempotency_key="k")], connection=holder)
        with pytest.raises(StoreBusy):
            await store.add([new_alarm(idempotency_key="k")])


@pytest.mark.usefixtures("long_waits")
async def test_a_locked_alarm_delays_no_other_settlement(world: World, store: PostgresStore) -> None:
    await store.add([new_alarm() for _ in range(40)])
    alarms = await claim_all(store)
    holder = await world.connect()
    async with holder.transaction():
        await holder.fetch(f"select from {world.alarms} where id = $1 for update", alarms[7].id)
        tasks = [asyncio.create_task(store.settle([completed(alarm)])) for alarm in alarms]
        async with asyncio.timeout(60):
            await asyncio.wait({task for index, task in enumerate(tasks) if index != 7})
        assert not tasks[7].done()
    assert await asyncio.gather(*tasks) == [[Settled("applied")]] * 40


async def test_a_row_that_the_database_refuses_fails_alone(world: World, store: PostgresStore) -> None:
    alarms = [new_alarm(kind="weekly" if index == 5 else "once") for index in range(40)]
    answers = await asyncio.gather(*(store.add([alarm]) for alarm in alarms), return_exceptions=True)
    assert isinstance(answers[5], StoreUnavailable)
    assert [answer for answer in answers if isinstance(answer, BaseException)] == [answers[5]]
    assert await world.value(f"select count(*) from {world.alarms}") == 39


async def test_an_answer_with_unwritable_characters_still_settles(store: PostgresStore) -> None:
    await store.add([new_alarm(), new_alarm()])
    first, second = await claim_all(store)
    settled = await store.settle([completed(first, result="nul \0 half \ud800"), completed(second)])
    assert settled == [Settled("applied")] * 2
    [fire] = await store.fires(FireQuery(alarm_id=first.id))
    assert fire.result.startswith("nul")


async def test_a_cancelled_caller_takes_nobody_with_it(world: World, store: PostgresStore) -> None:
    tasks = [asyncio.create_task(store.add([new_alarm()])) for _ in range(20)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    answers = await asyncio.gather(*tasks[1:])
    assert len(answers) == 19
    await store.add([new_alarm()])


async def test_the_same_key_twice_in_one_call_gives_the_first(store: PostgresStore) -> None:
    first, second = new_alarm(idempotency_key="k"), new_alarm(idempotency_key="k")
    added = await store.add([first, second])
    assert [(one.alarm.id, one.deduped) for one in added] == [(first.id, False), (first.id, True)]


async def test_an_alarm_created_in_the_callers_transaction_lives_and_dies_with_it(
    world: World, store: PostgresStore
) -> None:
    caller = await world.connect()
    kept, dropped = new_alarm(), new_alarm()
    async with caller.transaction():
        await store.add([kept], connection=caller)
        assert await store.get(kept.id) is None
    transaction = caller.transaction()
    await transaction.start()
    await store.add([dropped], connection=caller)
    await transaction.rollback()
    assert await store.get(kept.id) == kept
    assert await store.get(dropped.id) is None


async def listening(world: World) -> PostgresStore:
    """A dispatcher's store in another process, as far as the database can tell."""
    other = world.store()
    await other.claim({}, lease=LEASE)
    async with asyncio.timeout(60):
        await other.hints.wait()  # said once, when it begins to listen
    other.hints.clear()
    return other


async def test_an_alarm_due_within_a_tick_is_hinted_to_other_processes(world: World, store: PostgresStore) -> None:
    other = await listening(world)
    await store.add([new_alarm(due_in=0)])
    async with asyncio.timeout(60):
        await other.hints.wait()


async def test_an_alarm_due_later_is_not_hinted(world: World, store: PostgresStore) -> None:
    await store.add([new_alarm(due_in=60)])
    assert not store.hints.is_set()
    await store.add([new_alarm(due_in=0)])
    assert store.hints.is_set()


async def test_the_callers_transaction_hints_when_it_commits(world: World, store: PostgresStore) -> None:
    other = await listening(world)
    caller = await world.connect()
    async with caller.transaction():
        await store.add([new_alarm(due_in=0)], connection=caller)
        # A later notification on the same channel would come after an earlier one: none came so far.
        assert not other.hints.is_set()
    async with asyncio.timeout(60):
        await other.hints.wait()


async def test_an_alarm_put_back_is_hinted(world: World, store: PostgresStore) -> None:
    await store.add([new_alarm()])
    [alarm] = await claim_all(store)
    other = await listening(world)
    change = replace(completed(alarm), after=replace(alarm, claimed_at=None, unsettled=0), fires=())
    await store.settle([change])
    async with asyncio.timeout(60):
        await other.hints.wait()


async def test_a_row_locked_by_someone_else_is_not_waited_for_by_a_claim(world: World, store: PostgresStore) -> None:
    older, newer = new_alarm(due_in=-20), new_alarm(due_in=-10)
    await store.add([older, newer])
    holder = await world.connect()
    async with holder.transaction():
        await holder.fetch(f"select from {world.alarms} where id = $1 for update", older.id)
        async with asyncio.timeout(60):
            assert [alarm.id for alarm in await claim_all(store)] == [newer.id]


async def test_nor_by_one_that_takes_owners_in_turn(world: World, store: PostgresStore) -> None:
    held, free = new_alarm(due_in=-20, owner_did="a"), new_alarm(due_in=-10, owner_did="b")
    await store.add([held, free])
    holder = await world.connect()
    async with holder.transaction():
        await holder.fetch(f"select from {world.alarms} where id = $1 for update", held.id)
        async with asyncio.timeout(60):
            answer = await store.claim({"t": 4}, lease=LEASE, turns={"t": Turn(2)})
            assert [alarm.id for alarm in answer.alarms] == [free.id]


async def test_many_workers_never_claim_the_same_alarm(world: World, store: PostgresStore) -> None:
    await store.add([new_alarm() for _ in range(600)])
    workers = [store, world.store(), world.store(), world.store()]

    async def work(worker: PostgresStore) -> list[str]:
        mine: list[str] = []
        while len(mine) <= 600 and (got := await claim_all(worker, slots=7)):
            mine += [alarm.id for alarm in got]
        return mine

    claimed = [id for ids in await asyncio.gather(*map(work, workers)) for id in ids]
    assert len(claimed) == len(set(claimed)) == 600


async def test_one_locked_row_does_not_let_the_other_leases_run_out(world: World, store: PostgresStore) -> None:
    await store.add([new_alarm(), new_alarm()])
    first, second = await claim_all(store)
    holder = await world.connect()
    async with holder.transaction():
        await holder.fetch(f"select from {world.alarms} where id = $1 for update", first.id)
        async with asyncio.timeout(60):
            assert await store.renew([Claim(first.id, first.claim), Claim(second.id, second.claim)]) == []
    renewed = await store.get(second.id)
    assert renewed is not None
    assert renewed.claimed_at is not None
    assert second.claimed_at is not None
    assert renewed.claimed_at > second.claimed_at


async def test_a_lease_that_was_given_back_stays_given_back(store: PostgresStore) -> None:
    await store.add([new_alarm()])
    [alarm] = await claim_all(store)
    free = replace(alarm, claimed_at=None, unsettled=0)
    await store.settle([replace(completed(alarm), after=free, fires=())])
    assert await store.renew([Claim(alarm.id, alarm.claim)]) == [Claim(alarm.id, alarm.claim)]
    assert await store.get(alarm.id) == free


async def test_the_databases_clock_judges(store: PostgresStore) -> None:
    claimed = await store.claim({"t": 1}, lease=LEASE)
    assert claimed.now.microsecond % 1000 == 0
    assert abs(await store.now() - claimed.now) < timedelta(seconds=5)


async def test_a_row_for_a_table_in_the_same_database_is_written_with_the_settlement(
    world: World, store: PostgresStore
) -> None:
    await world.sql(f'create table {world.schema}.messages (fire_id text primary key, "Body" text)')
    await store.add([new_alarm()])
    [alarm] = await claim_all(store)
    row = Row(f"{world.schema}.messages", {"fire_id": alarm.fire_id, "Body": "wake up"}, "fire_id")
    change = replace(completed(alarm), row=row)
    assert await store.settle([change]) == [Settled("applied")]
    repeated = replace(change, claim=change.after.claim)
    assert await store.settle([repeated]) == [Settled("applied")]
    assert [tuple(row) for row in await world.sql(f"select * from {world.schema}.messages")] == [
        (alarm.fire_id, "wake up")
    ]


async def test_a_row_is_turned_into_what_its_columns_are(world: World, store: PostgresStore) -> None:
    columns = "id text primary key, at timestamptz, isolated boolean, owner uuid, n bigint, payload jsonb"
    await world.sql(f"create table {world.schema}.typed ({columns})")
    await store.add([new_alarm()])
    [alarm] = await claim_all(store)
    values = {"id": alarm.fire_id, "at": "2030-01-01T00:00:00Z", "isolated": 1, "owner": alarm.id, "n": "7"}
    row = Row(f"{world.schema}.typed", values | {"payload": '{"a": 1}'}, "id")
    assert await store.settle([replace(completed(alarm), row=row)]) == [Settled("applied")]
    [found] = await world.sql(f"select isolated, n, payload ->> 'a' as a from {world.schema}.typed")
    assert tuple(found) == (True, 7, "1")


async def test_a_row_that_cannot_be_written_is_refused_alone_and_its_alarm_untouched(
    world: World, store: PostgresStore
) -> None:
    await world.sql(f"create table {world.schema}.messages (fire_id text primary key, n integer check (n < 3))")
    await store.add([new_alarm() for _ in range(4)])
    alarms = await claim_all(store)
    changes = [
        replace(completed(alarm), row=Row(f"{world.schema}.messages", {"fire_id": alarm.fire_id, "n": n}, "fire_id"))
        for n, alarm in enumerate(alarms)
    ]
    missing = replace(changes[0], row=Row("no.such", {"fire_id": "x"}, "fire_id"))
    [answer] = await store.settle([missing])
    assert answer.what == "refused"
    assert "no.such" in answer.error
    answers = await store.settle(changes)
    assert [answer.what for answer in answers] == ["applied", "applied", "applied", "refused"]
    assert await store.get(alarms[3].id) == alarms[3]
    assert await store.fires(FireQuery(alarm_id=alarms[3].id)) == []


async def test_an_edit_writes_the_owners_columns_and_a_settlement_does_not(store: PostgresStore) -> None:
    await store.add([new_alarm(label="before")])
    [alarm] = await claim_all(store)
    after = replace(alarm, label="after", version=alarm.version + 1)
    edit = replace(completed(alarm), after=after, fires=(), edited=True)
    assert await store.settle([replace(edit, edited=False, version=99), edit]) == [
        Settled("edited"),
        Settled("applied"),
    ]
    assert await store.settle([completed(alarm), replace(completed(alarm), claim=9)]) == [
        Settled("edited"),
        Settled("lost"),
    ]
    found = await store.get(alarm.id)
    assert found is not None
    assert (found.label, found.version) == ("after", 2)
    stale_words = replace(completed(after), after=replace(completed(after).after, label="never"))
    assert await store.settle([stale_words]) == [Settled("applied")]
    found = await store.get(alarm.id)
    assert found is not None
    assert (found.label, found.status) == ("after", "fired")


async def test_a_commit_is_on_disk_even_where_the_role_is_set_otherwise(own_world: World) -> None:
    role = own_world.schema
    await own_world.sql(f"create role {role} login superuser")
    await own_world.sql(f"alter role {role} set synchronous_commit = off")
    await own_world.sql(f"create table {own_world.schema}.seen (what text, value text)")
    await own_world.sql(
        f"create function {own_world.schema}.look() returns trigger language plpgsql as $$ begin"
        f" insert into {own_world.schema}.seen values (tg_op, current_setting('synchronous_commit'));"
        " return null; end $$"
    )
    await own_world.sql(
        f"create trigger look after insert or update on {own_world.alarms}"
        f" for each row execute function {own_world.schema}.look()"
    )
    lax = own_world.store(dsn=own_world.dsn_as(role))
    try:
        await lax.add([new_alarm()])
        [alarm] = await claim_all(lax)
        await lax.settle([completed(alarm)])
        [alarm] = await lax.find(AlarmQuery())
        await lax.settle([replace(completed(alarm), edited=True)])
        seen = await own_world.sql(f"select what, value from {own_world.schema}.seen")
        # The one between is the claim, which need not survive a crash of the server.
        assert [tuple(row) for row in seen] == [("INSERT", "on"), ("UPDATE", "off"), *[("UPDATE", "on")] * 3]
    finally:
        await lax.close()
        await own_world.sql(f"drop role {role}")


async def test_a_reader_who_follows_events_by_number_misses_none(world: World, store: PostgresStore) -> None:
    await store.add([new_alarm(), new_alarm()])
    changes = [
        replace(completed(alarm), events=(Event(at=alarm.created_at, what="seen", alarm_id=alarm.id),))
        for alarm in await claim_all(store)
    ]
    slow = await world.connect()
    transaction = slow.transaction()
    await transaction.start()
    await store._writes.settle(slow, changes[:1], now=None, alone=True, again=False)
    # The first has its number and is not committed. The second must not be seen before it.
    second = asyncio.create_task(store.settle(changes[1:]))
    await asyncio.wait({second}, timeout=0.5)
    assert await store.events(EventQuery()) == []
    await transaction.commit()
    await second
    assert [event.alarm_id for _, event in await store.events(EventQuery())] == [change.after.id for change in changes]


async def test_a_policy_with_fields_of_a_newer_version_is_read_as_far_as_it_is_known(
    world: World, store: PostgresStore
) -> None:
    """A worker of this version beside a newer one: one such alarm must not end its claims."""
    await store.add([new_alarm(), new_alarm()])
    await world.sql(f"""update {world.alarms} set policy = '{{"colour": "red", "max_fires": 3}}'""")
    assert [alarm.policy.max_fires for alarm in await claim_all(store)] == [3, 3]


async def test_a_large_call_in_a_callers_transaction_goes_over_its_one_connection(
    world: World, store: PostgresStore
) -> None:
    caller = await world.connect()
    alarms = [new_alarm() for _ in range(1100)]
    async with caller.transaction():
        added = await store.add(alarms, connection=caller)
        assert [one.alarm.id for one in added] == [alarm.id for alarm in alarms]
        assert (await store.stats()).total == 0
    assert (await store.stats()).total == 1100


async def test_the_query_of_a_check_leaves_nothing_set_in_its_session(world: World, store: PostgresStore) -> None:
    """The next statement on that connection is somebody else's: with no time limit it could block every worker."""
    for name in ("statement_timeout", "search_path", "application_name"):
        before = await store.access.check_rows(f"select current_setting('{name}')", within=30)
        await store.access.check_rows(f"select set_config('{name}', '12345', false)", within=30)
        seen = [await store.access.check_rows(f"select current_setting('{name}')", within=30) for _ in range(10)]
        assert seen == [before] * 10, name

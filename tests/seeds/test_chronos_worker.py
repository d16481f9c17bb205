"""The dispatch worker of Chronos: its tunables, its outcomes, and alarms that came over from its table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import wakeful
from tests.acting import acting
from tests.dispatcher.conftest import World
from tests.dispatcher.test_isolation import Tells, running
from wakeful.model.outcome import Delivered, Failed
from wakeful.seeds.chronos_import import ChronosTable, taken
from wakeful.settings import Settings, load
from wakeful.store import Claimed
from wakeful.store.sqlite import SqliteStore
from wakeful.testing import ManualClock
from wakeful.testing.receiver import RecordingTarget
from wakeful.transfer.takeover import go_through

from .chronos_world import DID, Chronos, an_alarm, chronos_in, store_on

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    clock = ManualClock()
    async with store_on(request.param, request, tmp_path, clock) as store:
        yield World(store, clock)


def test_the_tunables_have_chronoss_names_and_defaults() -> None:
    ours = Settings()
    assert (ours.tick, ours.lease) == (timedelta(seconds=1), timedelta(minutes=2))
    assert (ours.batch, ours.max_failures) == (500, 5)  # it begins with 100, and grows with the backlog
    given = {"WAKEFUL_TICK": "2s", "WAKEFUL_LEASE": "90s", "WAKEFUL_BATCH": "7", "WAKEFUL_MAX_FAILURES": "3"}
    ours = load(environ=given)
    assert (ours.tick, ours.lease, ours.batch, ours.max_failures) == (2 * MINUTE / 60, 90 * MINUTE / 60, 7, 3)


class Watched:
    """A store that remembers how many each claim asked for and got."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.asked: list[int] = []
        self.got: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, slots: Any, **more: Any) -> Claimed:
        claimed: Claimed = await self._store.claim(slots, **more)
        self.asked.append(max(slots.values()))
        self.got.append(len(claimed.alarms))
        return claimed


async def test_a_claim_takes_at_most_a_batch_oldest_first_and_the_rest_follows(world: World) -> None:
    alarms = [an_alarm(world.clock, due=-n) for n in range(1, 26)]
    await world.store.add(alarms)
    watched = Watched(world.store)
    world.store = watched
    assert await world.another(batch=10).run_due() == 25
    assert max(watched.asked) == 10
    assert watched.got == [10, 10, 5, 0]
    due = {alarm.fire_id: alarm.next_fire_at for alarm in alarms}
    told = [due[id] for id in world.desk.fire_ids]
    assert told == sorted(told)


@pytest.mark.parametrize("lease", [2 * MINUTE, 10 * MINUTE])
async def test_what_a_dead_worker_held_is_delivered_when_its_lease_is_over_and_not_before(
    world: World, lease: timedelta
) -> None:
    alarm = await world.set(1)
    await world.clock.advance(1)
    [held] = (await world.store.claim({"desk": 1}, lease=lease)).alarms  # and then that worker is gone
    assert held.id == alarm.id
    other = world.another(lease=lease)
    await world.clock.advance(lease - timedelta(milliseconds=1))
    assert await other.run_due() == 0
    await world.clock.advance(0.001)
    assert await other.run_due() == 1
    assert world.desk.fire_ids == [alarm.fire_id]


async def test_a_tick_finds_what_no_hint_told_of(tmp_path: Path) -> None:
    """Another process writes to the same file: there is no hint, and the next tick has it."""
    clock = ManualClock()
    ours, theirs = (SqliteStore(str(tmp_path / "wakeful.db"), clock=clock) for _ in range(2))
    await ours.migrate()
    world = World(ours, clock)
    tells = Tells(1)
    world.serve("tells", tells)
    async with running(world.another(tick=timedelta(seconds=5))):
        while clock.sleepers < 2:
            await ours.stats()  # a turn for the others, in a thread and back
        await theirs.add([an_alarm(clock, due=0, target="tells")])
        await clock.advance(4.9)
        assert not tells.enough.is_set()
        await clock.advance(0.1)
        await asyncio.wait_for(tells.enough.wait(), 60)
    await ours.close()
    await theirs.close()


async def test_an_alarm_that_does_not_say_has_the_configured_ceiling(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "wakeful.db", max_failures=2, owner=DID) as alarms:
        assert (await alarms.set("in 1 hour", "x")).max_failures == 2
        assert (await alarms.set("in 1 hour", "x", max_failures=9)).max_failures == 9


async def test_a_series_without_a_future_is_retired_and_stays_on_record(world: World) -> None:
    """After a success and after its last failure alike."""
    world.serve("bad", RecordingTarget(Failed("HTTP 500")))
    ends = {"ends_at": world.clock.now() + HOUR}
    good = await world.set(cron="0 * * * *", policy=ends)
    bad = await world.set(cron="0 * * * *", policy=ends, max_failures=0, target="bad")
    await world.run_due(HOUR)
    after = await world.read(good)
    assert (after.status, after.last_error, after.last_fired_at) == ("fired", "", world.clock.now())
    after = await world.read(bad)
    assert (after.status, after.last_error, after.claimed_at) == ("fired", "HTTP 500", None)
    assert await world.run_due(10 * DAY) == 0


async def test_a_series_that_failed_for_good_keeps_its_error_while_it_goes_on(world: World) -> None:
    world.desk.answer(Failed("HTTP 500"), Failed("HTTP 502"), Delivered())
    alarm = await world.set(cron="0 * * * *", max_failures=1)
    await world.run_due(HOUR)
    assert (await world.read(alarm)).failure_count == 1
    await world.run_due(MINUTE)
    after = await world.read(alarm)
    assert (after.status, after.failure_count, after.last_error) == ("active", 0, "HTTP 502")
    assert after.next_fire_at == alarm.next_fire_at + HOUR, "one bad fire does not wedge the series"
    await world.run_due(HOUR - MINUTE)
    assert (await world.read(alarm)).last_error == ""
    assert [fire.status for fire in await world.fires(alarm)] == ["delivered", "failed"]


# What came over goes on.


@pytest.fixture
def chronos(pg_dsn: str) -> Iterator[Chronos]:
    with chronos_in(pg_dsn) as chronos:
        yield chronos


@pytest.fixture
def rows(chronos: Chronos) -> dict[str, str]:
    """Rows of a Chronos that stopped at the new year of 2030, by what they are."""
    new_year = datetime(2030, 1, 1, tzinfo=UTC)

    def add(**given: Any) -> str:
        return chronos.add(updated_at=new_year, created_at=new_year - DAY, **given)

    return {
        "leased": add(fire_at=new_year, next_fire_at=new_year, claimed_at=new_year),
        "retry": add(fire_at=new_year, next_fire_at=new_year + MINUTE, failure_count=2, last_error="503"),
        "cron": add(kind="cron", cron_expr="0 9 * * *", next_fire_at=new_year + 9 * HOUR),
        "every": add(kind="cron", cron_expr="@every 90m", next_fire_at=new_year + 10 * MINUTE),
        "overdue": add(kind="cron", cron_expr="0 * * * *", next_fire_at=new_year - 5 * HOUR),
        "fired": add(fire_at=new_year, next_fire_at=new_year, status="fired", last_fired_at=new_year),
        "failed": add(fire_at=new_year, next_fire_at=new_year, status="failed", last_error="404", failure_count=5),
    }


@pytest.fixture
async def moved(rows: dict[str, str], chronos: Chronos, world: World) -> World:
    table = ChronosTable(chronos.dsn, table=chronos.table)
    now = world.clock.now()
    take = partial(taken, targets={"neo_chat": "desk"})
    found = await go_through(table, take, now=now, old_before=now, store=world.store)
    await table.close()
    assert (found.taken_over, found.left_count) == (len(rows), 0)
    return world


def delivered(world: World, id: str) -> list[datetime]:
    return [wake.scheduled_for for wake in world.desk.wakes if wake.alarm_id == id]


async def test_a_leased_row_is_due_again_at_once(moved: World, rows: dict[str, str]) -> None:
    await moved.run_due()
    assert delivered(moved, rows["leased"]) == [moved.clock.now()]


async def test_a_retry_goes_on_at_the_rung_it_was_on(moved: World, rows: dict[str, str]) -> None:
    moved.desk.answer(Delivered(), Delivered(), Failed("HTTP 500"))  # the two others that are due, then the retry
    await moved.run_due()
    await moved.run_due(MINUTE)
    after = await moved.store.get(rows["retry"])
    assert after is not None
    assert (after.failure_count, after.last_error) == (3, "HTTP 500")
    assert 120 <= (after.next_fire_at - moved.clock.now()).total_seconds() <= 132
    await moved.run_due(132)
    assert delivered(moved, rows["retry"]) == [datetime(2030, 1, 1, tzinfo=UTC)] * 2


async def test_series_go_on_in_their_rhythm_and_what_was_missed_is_one_wake(moved: World, rows: dict[str, str]) -> None:
    new_year = moved.clock.now()
    await moved.run_due()
    assert delivered(moved, rows["overdue"]) == [new_year - 5 * HOUR]
    [wake] = [wake for wake in moved.desk.wakes if wake.alarm_id == rows["overdue"]]
    assert wake.missed == 5
    for _ in range(2 * 24 * 6):
        await moved.run_due(10 * MINUTE)
    assert delivered(moved, rows["cron"]) == [new_year + 9 * HOUR, new_year + 33 * HOUR]
    every = delivered(moved, rows["every"])
    assert every[0] == new_year + 10 * MINUTE
    assert {later - earlier for earlier, later in pairwise(every)} == {90 * MINUTE}
    assert delivered(moved, rows["fired"]) == []


async def test_what_had_ended_stays_so_and_can_be_sent_once_more_by_hand(moved: World, rows: dict[str, str]) -> None:
    await moved.run_due(30 * DAY)
    for name in ("fired", "failed"):
        assert delivered(moved, rows[name]) == []
        copy = await acting(moved.service, DID).fire(rows[name])
        await moved.run_due()
        assert delivered(moved, copy.alarm.id) == [copy.alarm.occurrence_at]
        after = await moved.store.get(rows[name])
        assert after is not None
        assert after.status == name

"""Limits for agents: each holds, says what would be accepted, and leaves the machine's own owner alone."""

from __future__ import annotations

from asyncio import gather
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from random import Random
from string import ascii_letters
from typing import Any

import pytest

from tests.acting import Draft, acting, keep, keep_many
from wakeful.errors import Conflict, InvalidSchedule, NotFound, StoreUnavailable, TooMany, WakefulError
from wakeful.model.alarm import Alarm
from wakeful.model.requests import EditRequest, ReportRequest
from wakeful.process.application import LocalWakeful, build
from wakeful.service import Service
from wakeful.settings import Settings
from wakeful.store import Store
from wakeful.testing import ManualClock, store_of

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def limits() -> dict[str, Any]:
    return {}


@pytest.fixture
async def wakeful(tmp_path: Path, clock: ManualClock, limits: dict[str, Any]) -> AsyncIterator[LocalWakeful]:
    async with build(Settings(db=str(tmp_path / "w.db"), **limits), clock=clock) as wakeful:
        yield wakeful


@pytest.fixture
def service(wakeful: LocalWakeful) -> Service:
    return wakeful.service


def limited(**limits: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("limits", [limits])


def a_draft(owner: str = "ada", **given: Any) -> Draft:
    if not given.keys() & {"when", "delay", "cron_expr"}:
        given["delay"] = timedelta(hours=1)
    return Draft(owner_did=owner, **({"wake_message": "hello"} | given))


async def set_one(service: Service, owner: str = "ada", *, guarded: bool = True, **given: Any) -> Alarm:
    return (await keep(service, a_draft(owner, **given), limited=guarded)).alarm


def taught(error: WakefulError, field: str) -> None:
    assert error.field == field
    assert error.message
    assert error.fix


# Quota


@limited(quota_active=3)
async def test_an_owner_has_only_so_many_alarms_and_the_others_still_theirs(service: Service) -> None:
    mine = [await set_one(service) for _ in range(3)]
    with pytest.raises(TooMany) as refusal:
        await set_one(service)
    taught(refusal.value, "quota_active")
    assert refusal.value.retry_after is None
    await set_one(service, "eve")
    await set_one(service, guarded=False)
    await acting(service, "ada").cancel(mine[0].id)
    await acting(service, "ada").cancel(mine[1].id)
    await set_one(service)


@limited(quota_active=2)
async def test_paused_alarms_count_and_so_do_those_of_another_process(
    wakeful: LocalWakeful, clock: ManualClock
) -> None:
    elsewhere = Service(store_of(wakeful), clock=clock, settings=wakeful.settings)
    await set_one(wakeful.service)
    alarm = await set_one(elsewhere)
    await acting(elsewhere, "ada").pause(alarm.id)
    await clock.advance(60)  # until then each goes by what it has counted itself
    with pytest.raises(TooMany):
        await set_one(wakeful.service)


@limited(quota_active=5)
async def test_many_at_once_are_let_in_all_or_none(service: Service) -> None:
    with pytest.raises(TooMany):
        await keep_many(service, [a_draft() for _ in range(6)], limited=True)
    assert await acting(service, "ada").find() == []
    assert len(await keep_many(service, [a_draft() for _ in range(5)], limited=True)) == 5


class Counting:
    """A store that counts what it is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self._store, name)


async def test_many_at_once_cost_one_look_at_what_there_is(store: Store, clock: ManualClock) -> None:
    counting: Any = Counting(store)
    service = Service(counting, clock=clock, settings=Settings(quota_active=50))
    answers = await gather(*(set_one(service) for _ in range(80)), return_exceptions=True)
    assert sum(isinstance(answer, TooMany) for answer in answers) == 30
    assert counting.asked["usage"] == 1
    assert counting.asked["stats"] == 0


LONG = "".join(Random(1).choices(ascii_letters, k=2000))  # that no database makes much smaller


async def test_what_an_owner_keeps_has_a_weight_finished_or_not(store: Store, clock: ManualClock) -> None:
    service = Service(store, clock=clock, settings=Settings(quota_bytes=3000))
    first = await set_one(service, wake_message=LONG)
    await acting(service, "ada").cancel(first.id)
    with pytest.raises(TooMany) as refusal:
        await set_one(service, payload=f'"{LONG}"')
    taught(refusal.value, "quota_bytes")
    short = await set_one(service)
    with pytest.raises(TooMany):
        await acting(service, "ada", limited=True).edit(short.id, EditRequest(wake_message=LONG))
    await acting(service, "ada", limited=True).edit(short.id, EditRequest(label="renamed"))
    await set_one(service, "eve", wake_message=LONG)
    await set_one(service, wake_message=LONG, guarded=False)


# Creates a minute


@limited(creates_per_minute=3)
async def test_creates_are_counted_over_the_last_minute(service: Service, clock: ManualClock) -> None:
    for _ in range(3):
        await set_one(service)
        await clock.advance(10)
    with pytest.raises(TooMany) as refusal:
        await set_one(service)
    taught(refusal.value, "creates_per_minute")
    assert refusal.value.retry_after == 30
    await set_one(service, "eve")
    await clock.advance(30)
    await set_one(service)
    with pytest.raises(TooMany):
        await set_one(service)


@limited(creates_per_minute=3)
async def test_firing_by_hand_counts_as_a_create(service: Service) -> None:
    alarm = await set_one(service)
    for _ in range(2):
        await acting(service, "ada", limited=True).fire(alarm.id)
    with pytest.raises(TooMany):
        await acting(service, "ada", limited=True).fire(alarm.id)
    await acting(service, "ada").fire(alarm.id)


@limited(creates_per_minute=3)
async def test_more_than_a_minutes_worth_never_fits(service: Service) -> None:
    with pytest.raises(TooMany) as refusal:
        await keep_many(service, [a_draft() for _ in range(4)], limited=True)
    assert refusal.value.retry_after is None
    taught(refusal.value, "creates_per_minute")


@limited(creates_per_minute=1)
async def test_a_clock_that_is_set_back_locks_nobody_out(service: Service, clock: ManualClock) -> None:
    await set_one(service)
    clock.set_back(3600)
    await set_one(service)


async def test_owners_are_forgotten_when_there_are_too_many(
    service: Service, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeful.service.limits.OWNERS", 3)
    for number in range(10):
        await set_one(service, f"owner {number}")
        await clock.advance(61)
    assert len(service.limits._creates) <= 3
    assert len(service.limits._counts) <= 3


# How often


@pytest.mark.parametrize(
    "schedule",
    ["* * * * *", "@every 60s", "0 * * * * *", "@hourly", "0 9 * * 1-5", "5 0 0 1 1 *", "FREQ=MINUTELY"],
)
async def test_once_a_minute_is_often_enough(service: Service, schedule: str) -> None:
    await set_one(service, cron_expr=schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        *("@every 59s", "* * * * * *", "*/30 * * * * *", "0,1 0 9 * * *", "0,59 0 0 1 1 *"),
        *("FREQ=MINUTELY;BYSECOND=0,30", "RDATE:20990101T090000,20990101T090001"),
    ],
)
async def test_more_often_than_that_is_refused(service: Service, schedule: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        await set_one(service, cron_expr=schedule)
    taught(refusal.value, "cron_expr")
    await set_one(service, cron_expr=schedule, guarded=False)


@limited(min_interval=timedelta(hours=1))
@pytest.mark.parametrize(("schedule", "may"), [("0 * * * *", True), ("*/30 * * * *", False), ("0,59 8,9 * * *", False)])
async def test_the_shortest_gap_counts(service: Service, schedule: str, may: bool) -> None:
    if may:
        await set_one(service, cron_expr=schedule)
    else:
        with pytest.raises(InvalidSchedule):
            await set_one(service, cron_expr=schedule)


async def test_an_edit_does_not_go_round_it(service: Service) -> None:
    alarm = await set_one(service, cron_expr="@hourly")
    with pytest.raises(InvalidSchedule):
        await acting(service, "ada", limited=True).edit(alarm.id, EditRequest(cron_expr="* * * * * *"))
    fast = await set_one(service, cron_expr="@every 5s", guarded=False)
    edited = await acting(service, "ada", limited=True).edit(fast.id, EditRequest(label="other"))
    assert edited.alarm.label == "other"


# Chains


async def a_fire(wakeful: LocalWakeful, clock: ManualClock, alarm: Alarm) -> str:
    """The id of an alarm's next fire, which has happened."""
    fire_id = alarm.fire_id
    await clock.advance(alarm.next_fire_at - clock.now())
    await wakeful.run_due()
    return fire_id


async def test_an_alarm_set_by_a_wake_knows_where_it_comes_from(wakeful: LocalWakeful, clock: ManualClock) -> None:
    root = await set_one(wakeful.service)
    assert (root.parent_fire, root.root_id, root.generation) == ("", "", 0)
    first_fire = await a_fire(wakeful, clock, root)
    child = await set_one(wakeful.service, parent_fire=first_fire)
    assert (child.parent_fire, child.root_id, child.generation) == (first_fire, root.id, 1)
    second_fire = await a_fire(wakeful, clock, child)
    grandchild = await set_one(wakeful.service, parent_fire=second_fire)
    assert (grandchild.parent_fire, grandchild.root_id, grandchild.generation) == (second_fire, root.id, 2)
    assert await acting(wakeful.service, "ada").get(grandchild.id) == grandchild
    chain = await acting(wakeful.service, "ada").find(root_id=root.id)
    assert [alarm.id for alarm in chain] == [grandchild.id, child.id]
    again = await acting(wakeful.service, "ada", limited=False).fire(grandchild.id)
    assert (again.alarm.root_id, again.alarm.generation) == (root.id, 2)


async def test_a_wake_that_is_still_being_delivered_is_a_parent_already(
    wakeful: LocalWakeful, clock: ManualClock
) -> None:
    alarm = await set_one(wakeful.service)
    with pytest.raises(NotFound):
        await set_one(wakeful.service, parent_fire=alarm.fire_id)  # it has not begun
    await clock.advance(3600)
    [leased] = (await store_of(wakeful).claim({"inbox": 1}, lease=MINUTE)).alarms
    child = await set_one(wakeful.service, parent_fire=leased.fire_id)
    assert child.root_id == alarm.id


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_parent_that_is_unknown_or_another_owners_is_not_found(
    wakeful: LocalWakeful, clock: ManualClock, guarded: bool
) -> None:
    alarm = await set_one(wakeful.service, "eve")
    theirs = await a_fire(wakeful, clock, alarm)
    nobody = "01a1dfba-b761-7000-8856-d5f2b52e48f7@1893456000000"
    for fire_id in (theirs, nobody, f"{alarm.id}@1", alarm.id, "x", "@", "x@99999999999999"):
        with pytest.raises(NotFound) as refusal:
            await set_one(wakeful.service, parent_fire=fire_id, guarded=guarded)
        taught(refusal.value, "parent_fire")


@limited(chain_depth=3)
async def test_a_chain_has_an_end(wakeful: LocalWakeful, clock: ManualClock) -> None:
    alarm = root = await set_one(wakeful.service)
    for generation in range(1, 4):
        alarm = await set_one(wakeful.service, parent_fire=await a_fire(wakeful, clock, alarm))
        assert alarm.generation == generation
    last = await a_fire(wakeful, clock, alarm)
    with pytest.raises(Conflict) as refusal:
        await set_one(wakeful.service, parent_fire=last)
    taught(refusal.value, "parent_fire")
    assert root.id in refusal.value.fix
    assert (await set_one(wakeful.service, parent_fire=last, guarded=False)).generation == 4


async def test_a_wake_sets_nothing_that_fires_at_once(wakeful: LocalWakeful, clock: ManualClock) -> None:
    parent = await a_fire(wakeful, clock, await set_one(wakeful.service))
    with pytest.raises(InvalidSchedule) as refusal:
        await set_one(wakeful.service, parent_fire=parent, delay=timedelta(seconds=59))
    taught(refusal.value, "when")
    child = await set_one(wakeful.service, parent_fire=parent, delay=MINUTE)
    with pytest.raises(InvalidSchedule):
        await acting(wakeful.service, "ada", limited=True).edit(
            child.id, EditRequest(delay_seconds=timedelta(seconds=1).total_seconds())
        )
    await set_one(wakeful.service, parent_fire=parent, cron_expr="* * * * *")
    await set_one(wakeful.service, parent_fire=parent, delay=timedelta(seconds=1), guarded=False)
    await set_one(wakeful.service, delay=timedelta(seconds=1))


async def test_a_chain_is_cancelled_as_one(wakeful: LocalWakeful, clock: ManualClock) -> None:
    service = wakeful.service
    root = await set_one(service, cron_expr="@hourly")
    other = await set_one(service, delay=timedelta(days=9))
    fire = await a_fire(wakeful, clock, root)
    await acting(service, "ada").report(fire, ReportRequest(outcome="completed"))
    children = [await set_one(service, parent_fire=fire, delay=timedelta(days=1)) for _ in range(3)]
    await acting(service, "ada").pause(children[0].id)
    with pytest.raises(NotFound):
        await acting(service, "eve").cancel_chain(root.id)
    assert await acting(service, "ada").cancel_chain(root.id) == 4
    assert await acting(service, "ada").cancel_chain(root.id) == 0
    left = await acting(service, "ada").find(status=("active", "paused"))
    assert [alarm.id for alarm in left] == [other.id]


# Similar ones


async def test_what_is_set_twice_is_named(service: Service) -> None:
    first = await set_one(service, cron_expr="0 9 * * *")
    assert (await service.store.similar(first, among=9)) is None
    second = await set_one(service, cron_expr="0 9 * * *")
    assert (await service.store.similar(second, among=9)) == first
    await acting(service, "ada").cancel(first.id)
    assert (await service.store.similar(second, among=9)) is None


@limited(creates_per_minute=3)
async def test_creates_that_overtake_each_other_are_all_counted(service: Service, clock: ManualClock) -> None:
    now = clock.now()
    for ago in (0, 5, 1):
        service.limits.admit_retry("ada", now=now - timedelta(milliseconds=ago))
    with pytest.raises(TooMany):
        service.limits.admit_retry("ada", now=now - timedelta(milliseconds=9))


@pytest.mark.parametrize("error", [TooMany, StoreUnavailable])
async def test_what_cannot_be_read_for_an_answer_never_fails_what_was_set(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, error: type[WakefulError]
) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise error("not now")

    monkeypatch.setattr(store, "similar", refused)
    monkeypatch.setattr(store.maintenance, "workers", refused)
    counting: Any = Counting(store)
    service = Service(counting, clock=clock, settings=Settings(creates_per_minute=1000))
    await gather(*(set_one(service, cron_expr="0 9 * * *") for _ in range(200)))
    assert counting.asked["similar"] == counting.asked["add"] == 200

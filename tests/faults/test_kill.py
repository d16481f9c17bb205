"""kill -9 at named points and at any moment: nothing accepted is lost, what was in flight fires again under its id."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter

import pytest

from wakeful.rules.suspect import DEATHS_LIMIT

from .conftest import Scene, until

IN_FLIGHT = 8

# What each halting point makes of the alarm that was there: how often its target saw it in the end.
SEEN = {"claimed": 1, "delivering": 2, "settling": 2, "settled": 1}


@pytest.mark.parametrize("point", SEEN)
async def test_a_worker_killed_at_a_certain_point_loses_nothing(scene: Scene, point: str) -> None:
    before = await scene.add(*["plain"] * 5)
    victim = scene.start(halt=point)
    await until(scene.all_done, "the first ones fire")
    neighbours = await scene.add("plain", "plain", "plain")
    [halted] = await scene.add("halt")
    await victim.frozen()
    victim.kill()
    between = scene.hits()
    left = await scene.alarms()
    assert all(left[alarm.id].status == "fired" for alarm in before)
    assert (left[halted.id].status == "fired") == (point == "settled")

    scene.start()
    await until(scene.all_done, "the next worker takes over when the lease has ended")
    hits = scene.hits()
    assert [hits[alarm.fire_id] for alarm in before] == [1] * 5
    assert hits[halted.fire_id] == SEEN[point]
    for alarm in neighbours:  # they may have been in flight with it
        assert 1 <= hits[alarm.fire_id] <= 1 + between[alarm.fire_id]
    await _agrees(scene)


async def test_a_delivery_whose_worker_was_killed_is_the_next_ones_second_attempt(scene: Scene) -> None:
    [alarm] = await scene.add("gated")
    victim = scene.start()
    await until(lambda: len(scene.lines()) == 1, "it is in flight")
    victim.kill()
    scene.gate.touch()
    scene.start()
    await until(scene.all_done, "the next worker takes over when the lease has ended")
    assert [int(attempt) for _, attempt in scene.lines()] == [1, 2]
    [fire] = await scene.fires()
    assert (fire.alarm_id, fire.attempts) == (alarm.id, 2)
    assert [line.said.partition(":")[0] for line in fire.log] == ["no answer", "completed"]


async def _agrees(scene: Scene) -> None:
    """Every alarm has fired, has one completed fire, and was delivered under its id and no other."""
    alarms, fires = await scene.alarms(), await scene.fires()
    assert {alarm.status for alarm in alarms.values()} == {"fired"}
    assert {alarm.claimed_at for alarm in alarms.values()} == {None}
    assert sorted(fire.alarm_id for fire in fires) == sorted(alarms)
    assert {fire.status for fire in fires} == {"completed"}
    assert set(scene.hits()) == {fire.id for fire in fires}


async def test_workers_killed_at_any_moment_lose_nothing_and_repeat_only_what_was_in_flight(scene: Scene) -> None:
    chance = random.Random(20261115)
    alarms = await scene.add(*["brief"] * 300)
    leases: set[tuple[str, int]] = set()  # that were held when their worker was killed
    for _ in range(8):
        victim = scene.start(settings={"concurrency": IN_FLIGHT})
        await scene.more_lines(chance.randint(1, 30))
        await asyncio.sleep(chance.uniform(0, 0.05))
        victim.kill()
        leases |= {(id, alarm.claim) for id, alarm in (await scene.alarms()).items() if alarm.claimed_at is not None}

    scene.start(settings={"concurrency": IN_FLIGHT})
    await until(scene.all_done, "the last worker does what is left")
    hits, kept, cut_short = scene.hits(), await scene.alarms(), Counter(id for id, _ in leases)
    assert set(kept) == {alarm.id for alarm in alarms}
    for alarm in alarms:
        assert 1 <= hits[alarm.fire_id] <= 1 + cut_short[alarm.id]
        assert kept[alarm.id].status == "fired"
    # As many again may have come back and not be written yet.
    assert sum(hits.values()) <= 300 + len(leases) <= 300 + 8 * 2 * IN_FLIGHT


async def test_what_shared_its_batch_with_a_poison_is_not_condemned(scene: Scene) -> None:
    innocent = await scene.add(*["brief"] * 30)
    [poison] = await scene.add("poison")
    innocent += await scene.add(*["brief"] * 30)
    deaths = 0
    while not await scene.all_done():
        worker = scene.start()
        deaths += await worker.ended_or(scene.all_done)
    kept, hits = await scene.alarms(), scene.hits()
    assert (kept[poison.id].status, kept[poison.id].last_error[:11]) == ("failed", "worker died")
    assert {kept[alarm.id].status for alarm in innocent} == {"fired"}
    assert deaths == hits[poison.fire_id] == 2 + DEATHS_LIMIT


async def test_what_a_killed_worker_had_in_flight_is_in_flight_again_all_together(scene: Scene) -> None:
    """Not one by one: their receiver answers none before it has all of them."""
    alarms = await scene.add(*["gated"] * 500)
    victim = scene.start(settings={"concurrency": 512})
    await until(lambda: len(scene.lines()) == 500, "all are in flight")
    scene.start(settings={"concurrency": 512})
    victim.kill()
    await until(lambda: len(scene.lines()) == 1000, "the survivor has all of them in flight")
    scene.gate.touch()
    await until(scene.all_done, "they are delivered")
    assert scene.hits() == {alarm.fire_id: 2 for alarm in alarms}
    assert {alarm.status for alarm in (await scene.alarms()).values()} == {"fired"}


@pytest.mark.long
async def test_five_poisoned_among_three_hundred_take_few_workers_with_them_and_nobody_else(scene: Scene) -> None:
    messages = ["poison" if nr % 60 == 30 else "brief" for nr in range(300)]
    alarms = await scene.add(*messages)
    deaths = 0
    while not await scene.all_done():
        worker = scene.start(settings={"concurrency": 512})
        deaths += await worker.ended_or(scene.all_done)
        assert deaths <= 25
    kept = await scene.alarms()
    assert Counter((alarm.wake_message, kept[alarm.id].status) for alarm in alarms) == {
        ("poison", "failed"): 5,
        ("brief", "fired"): 295,
    }


async def test_workers_that_die_at_the_claim_condemn_nobody(scene: Scene) -> None:
    alarms = await scene.add(*["brief"] * 40, "halt")
    for _ in range(5):
        victim = scene.start(halt="claimed")
        await victim.frozen()
        victim.kill()
    scene.start()
    await until(scene.all_done, "the last worker does what is left")
    assert {alarm.status for alarm in (await scene.alarms()).values()} == {"fired"}
    assert set(scene.hits()) == {alarm.fire_id for alarm in alarms}


@pytest.mark.parametrize("halt", ["", "creating", "created"])
async def test_whatever_was_answered_is_there_after_a_kill(scene: Scene, halt: str) -> None:
    chance = random.Random(halt)
    answered: dict[str, str] = {}
    for _ in range(3):
        first = max((int(key) for key in answered), default=0)
        writer = scene.start(task="write", halt=halt, first_key=max(0, first - 10))
        if halt:
            await writer.frozen()
        else:
            await scene.more_lines(chance.randint(1, 200))
        writer.kill()
        for id, key in scene.lines():
            assert answered.setdefault(key, id) == id, "two alarms for one key"
    kept = await scene.alarms()
    assert set(answered.values()) <= set(kept)
    keys = [alarm.idempotency_key for alarm in kept.values()]
    assert len(keys) == len(set(keys))
    assert {alarm.status for alarm in kept.values()} == {"active"}


async def test_a_worker_told_to_stop_finishes_or_hands_back_what_is_in_flight(scene: Scene) -> None:
    finishing = await scene.add(*["gated"] * 10)
    hanging = await scene.add(*["hanging"] * 10)
    worker = scene.start()
    await until(lambda: len(scene.lines()) == 20, "all are in flight")
    worker.tell(signal.SIGTERM)
    scene.gate.touch()
    assert await worker.ended() == 0, worker.log

    left = await scene.alarms()
    assert {left[alarm.id].status for alarm in finishing} == {"fired"}
    for alarm in hanging:
        back = left[alarm.id]
        assert (back.status, back.claimed_at, back.unsettled, back.failure_count) == ("active", None, 0, 0)
        assert back.next_fire_at == alarm.next_fire_at
    assert {fire.alarm_id for fire in await scene.fires()} == {alarm.id for alarm in finishing}
    scene.start()
    await until(lambda: len(scene.lines()) == 30, "the next worker has them at once")
    assert Counter(int(attempt) for _, attempt in scene.lines()) == {1: 30}  # nothing was counted as tried

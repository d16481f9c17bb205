"""How many batches a group commit writes at a time, and what is in each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from wakeful.store import batching
from wakeful.store.batching import Elbowroom, GroupCommit


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch counts as slow, however busy the machine is."""
    monkeypatch.setattr(batching, "_SLOW", 60)


class Disk:
    """Takes batches, and says when each is written."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self._written: list[asyncio.Event] = []

    async def write(self, items: Sequence[int], *, alone: bool) -> list[int]:
        self.begun.append(list(items))
        self._written.append(asyncio.Event())
        await self._written[-1].wait()
        return [-item for item in items]

    async def begins(self, count: int) -> list[list[int]]:
        """The batches that are begun, so many of them."""
        for _ in range(20):  # turns of the event loop: more are begun by then, if any are
            await asyncio.sleep(0)
        assert len(self.begun) == count
        return self.begun

    def done(self, number: int) -> None:
        self._written[number].set()


def lane(disk: Disk, *, crowd: int = 0) -> GroupCommit[int, int]:
    return GroupCommit(disk.write, room=Elbowroom(8), crowd=crowd)


def all_at_once(lane: GroupCommit[int, int], numbers: Sequence[int]) -> list[asyncio.Task[list[int]]]:
    return [asyncio.create_task(lane.put([number])) for number in numbers]


async def test_a_crowd_is_written_in_halves() -> None:
    disk = Disk()
    puts = all_at_once(lane(disk, crowd=16), range(64))
    assert await disk.begins(2) == [[*range(32)], [*range(32, 64)]]
    disk.done(0)
    disk.done(1)
    assert await asyncio.gather(*puts) == [[-number] for number in range(64)]


async def test_a_crowd_is_not_halved_after_a_batch_that_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_SLOW", -1)
    disk = Disk()
    commit = lane(disk, crowd=16)
    first = all_at_once(commit, [1])
    await disk.begins(1)
    disk.done(0)
    await asyncio.gather(*first)
    puts = all_at_once(commit, range(64))
    assert (await disk.begins(2))[1] == [*range(64)]
    disk.done(1)
    await asyncio.gather(*puts)


async def test_the_half_that_is_back_does_not_wait_for_the_other() -> None:
    disk, numbers = Disk(), range(64)
    commit = lane(disk, crowd=16)
    first = all_at_once(commit, numbers)
    await disk.begins(2)
    disk.done(0)
    await asyncio.gather(*first[:32])
    again = all_at_once(commit, range(100, 132))
    assert (await disk.begins(3))[2] == [*range(100, 132)]
    disk.done(1)
    disk.done(2)
    await asyncio.gather(*first, *again)


@pytest.mark.parametrize("crowd", [0, 16])
async def test_few_share_one_batch(crowd: int) -> None:
    disk = Disk()
    puts = all_at_once(lane(disk, crowd=crowd), range(15))
    assert await disk.begins(1) == [[*range(15)]]
    disk.done(0)
    await asyncio.gather(*puts)


async def test_few_who_come_meanwhile_wait_for_the_batch_on_its_way() -> None:
    disk = Disk()
    commit = lane(disk, crowd=16)
    first = all_at_once(commit, [1])
    await disk.begins(1)
    later = all_at_once(commit, [2, 3])
    await disk.begins(1)
    disk.done(0)
    assert (await disk.begins(2))[1] == [2, 3]
    disk.done(1)
    await asyncio.gather(*first, *later)


async def test_a_large_call_is_one_batch_of_a_crowd() -> None:
    disk = Disk()
    commit = lane(disk, crowd=16)
    puts = [asyncio.create_task(commit.put(range(start, start + 100))) for start in range(0, 300, 100)]
    assert await disk.begins(1) == [[*range(300)]]
    disk.done(0)
    assert [len(answers) for answers in await asyncio.gather(*puts)] == [100] * 3

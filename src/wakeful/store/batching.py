"""Group commit: while one batch is being written the next one collects; a single item does not wait.

A row that the database refuses, or that another process has locked, neither fails its neighbours nor delays them for
long: the batch is split and retried beside the others, the neighbours soon, the refused row with longer waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeVar

from wakeful.clock import stopwatch
from wakeful.errors import OneProcess, StoreBusy, StoreUnavailable

BATCH: Final = 500
_SLOW: Final = 0.003  # seconds that a batch of a crowd takes: then it is not halved
WHOLE: Final = 32  # items that one caller has collected, and that go as they are: not many would join them
_PART: Final = 32  # a troubled batch goes on in parts of this size, then row by row

T = TypeVar("T")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
Item_contra = TypeVar("Item_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)


class StoreRefused(StoreUnavailable):
    """The database does not take what is in a row. Nothing of that statement was written."""


class Write(Protocol[Item_contra, Answer_co]):
    async def __call__(self, items: Sequence[Item_contra], *, alone: bool) -> Sequence[Answer_co]:
        """Write all or nothing. Refused or StoreBusy when one row is at fault; `alone`: now wait longer for locks."""
        ...


class Elbowroom:
    """How many rows may go their own way at once, so that the pool is never full of those that wait."""

    def __init__(self, pool_size: int) -> None:
        self.quick = asyncio.Semaphore(max(1, pool_size // 4))
        self.patient = asyncio.Semaphore(max(1, pool_size // 3))


class _Call(Generic[Answer]):
    """One caller's items: answered together, when the last of them is."""

    __slots__ = ("answers", "done", "error", "left")

    def __init__(self, size: int) -> None:
        self.answers: list[Answer] = []
        self.left = size
        self.error: BaseException | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def decided(self) -> None:
        self.left -= 1
        if self.left or self.done.done():  # done already: the caller was cancelled and no longer asks
            return
        if self.error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(self.error)


class _Unit(Generic[Item, Answer]):
    """Items that are written together or not at all."""

    __slots__ = ("answers", "call", "items")

    def __init__(self, items: Sequence[Item], call: _Call[Answer]) -> None:
        self.items = items
        self.call = call
        self.answers: Sequence[Answer] = ()

    def answer(self, answers: Sequence[Answer]) -> None:
        self.answers = answers
        self.call.decided()

    def fail(self, error: BaseException) -> None:
        self.call.error = self.call.error or error
        self.call.decided()


class GroupCommit(Generic[Item, Answer]):
    """One lane of writes.

    A call is written as a whole; or, where `apart` is given, item by item: then a call's items succeed and fail on
    their own, and two that `apart` gives the same key never share a batch. `crowd`: where so many wait, two batches are
    written at a time, each of half of them: while the callers of one half get ready again, the other is on its way.
    """

    def __init__(
        self,
        write: Write[Item, Answer],
        *,
        room: Elbowroom,
        apart: Callable[[Item], Hashable] | None = None,
        limit: int = BATCH,
        crowd: int = 0,
    ) -> None:
        self._write = write
        self._apart = apart
        self._room = room
        self._process = OneProcess()
        self._limit = limit
        self._waiting: deque[_Unit[Item, Answer]] = deque()
        self._crowd = crowd
        self._writing = 0  # lanes with a batch on its way
        self._is_slow = False  # the batch of a crowd before
        self._lanes: list[asyncio.Task[None]] = []
        self._aside: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def put(self, items: Sequence[Item]) -> list[Answer]:
        """The answers, in order. If something fails its error is raised, once everything else is decided."""
        self._process.check()  # else it would wait for a lane of the parent process
        if 0 < len(items) <= self._limit:
            return await self._turn(items)
        answers: list[Answer] = []
        # In turns: whoever brings 100,000 at once must not keep the others waiting behind all of them.
        for start in range(0, len(items), self._limit):
            answers += await self._turn(items[start : start + self._limit])
        return answers

    async def put_together(self, items: Sequence[Item]) -> list[Answer]:
        """The same for a batch that its caller has collected: nothing is done for each item, unless one is in trouble.

        The caller sees to it that no two have the same key.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        # As in a lane: a caller that is cancelled does not take the batch with it.
        return await asyncio.shield(self._go(self._together(items)))

    async def _together(self, items: Sequence[Item]) -> list[Answer]:
        try:
            return list(await self._write(items, alone=False))
        except (StoreRefused, StoreBusy):
            call, units = self._parted(items)
            self._isolate(units)
            return await _answers(call, units)

    async def close(self) -> None:
        """Finish what was accepted."""
        self._closed = True
        while tasks := [task for task in (*self._lanes, *self._aside) if not task.done()]:
            await asyncio.wait(tasks)

    async def _turn(self, items: Sequence[Item]) -> list[Answer]:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        call, units = self._parted(items)
        self._waiting.extend(units)
        self._lanes = [lane for lane in self._lanes if not lane.done()]
        if not self._lanes or self._is_to_be_halved():
            self._lanes.append(asyncio.create_task(self._run()))
        return await _answers(call, units)

    def _parted(self, items: Sequence[Item]) -> tuple[_Call[Answer], list[_Unit[Item, Answer]]]:
        parts = [items] if self._apart is None else [items[at : at + 1] for at in range(len(items))]
        call: _Call[Answer] = _Call(len(parts))
        return call, [_Unit(part, call) for part in parts]

    async def _run(self) -> None:
        # The lane is a task of its own: a caller that is cancelled takes nobody's batch with it.
        while batch := self._take():
            self._writing += 1
            began = stopwatch()
            try:
                await self._commit(batch)
            finally:
                self._writing -= 1
                self._is_slow = self._crowd > 0 and stopwatch() - began > _SLOW

    def _is_to_be_halved(self) -> bool:
        """Whether a crowd waits. Where a batch takes long no core is free, or the disk is what they wait for: then
        halves are only more to do.
        """
        return len(self._lanes) == 1 and 0 < self._crowd <= len(self._waiting) and not self._is_slow

    def _share(self) -> int:
        """How many of those that wait a lane may take: of a crowd no more than leaves as many to who takes next."""
        takers = len(self._lanes) - self._writing if self._crowd else 1
        return -(-len(self._waiting) // max(1, takers))

    def _take(self) -> list[_Unit[Item, Answer]]:
        taken: list[_Unit[Item, Answer]] = []
        later: list[_Unit[Item, Answer]] = []
        seen: set[Hashable] = set()
        size, share = 0, self._share()
        while self._waiting and size < self._limit and len(taken) < share:
            unit = self._waiting.popleft()
            if unit.call.done.done():
                continue  # cancelled before it began
            if self._apart is not None:
                key = self._apart(unit.items[0])
                if key in seen:
                    later.append(unit)
                    continue
                seen.add(key)
            taken.append(unit)
            size += len(unit.items)
        self._waiting.extendleft(reversed(later))
        return taken

    async def _commit(self, batch: list[_Unit[Item, Answer]], *, alone: bool = False) -> None:
        items = [item for unit in batch for item in unit.items]
        try:
            answers = await self._write(items, alone=alone)
        except (StoreRefused, StoreBusy) as error:
            if alone:
                batch[0].fail(error)
            else:
                self._isolate(batch)
        except BaseException as error:
            for unit in batch:
                unit.fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            assert len(answers) == len(items)
            in_order = iter(answers)
            for unit in batch:
                unit.answer(list(islice(in_order, len(unit.items))))

    def _isolate(self, batch: list[_Unit[Item, Answer]]) -> None:
        """Go on in smaller parts, beside the lane: the next batch does not wait for what is wrong with this one."""
        if len(batch) == 1:
            self._go(self._patiently(batch))
            return
        size = _PART if len(batch) > _PART else 1
        for start in range(0, len(batch), size):
            self._go(self._quickly(batch[start : start + size]))

    async def _quickly(self, batch: list[_Unit[Item, Answer]]) -> None:
        async with self._room.quick:
            await self._commit(batch)

    async def _patiently(self, batch: list[_Unit[Item, Answer]]) -> None:
        async with self._room.patient:
            await self._commit(batch, alone=True)

    def _go(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)
        return task


async def _answers(call: _Call[Answer], units: Sequence[_Unit[Any, Answer]]) -> list[Answer]:
    await call.done
    return [answer for unit in units for answer in unit.answers]

from __future__ import annotations

import asyncio

import pytest

from wakeful.targets.calls import Deadlines, Running


async def call(deadlines: Deadlines, begun: list[Running]) -> str:
    running = deadlines.begin()
    begun.append(running)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        if not running.is_only_late:
            raise
        return "late"
    finally:
        deadlines.end(running)
    return "done"


async def test_what_takes_too_long_is_ended_and_its_task_goes_on() -> None:
    deadlines, begun = Deadlines(0.02), list[Running]()
    calls = [asyncio.create_task(call(deadlines, begun)) for _ in range(3)]
    assert await asyncio.gather(*calls) == ["late"] * 3
    assert [task.cancelling() for task in calls] == [0, 0, 0]


async def test_what_somebody_cancelled_is_cancelled_also_where_it_is_late() -> None:
    deadlines, begun = Deadlines(60), list[Running]()
    for is_late in (False, True):
        task = asyncio.create_task(call(deadlines, begun))
        await asyncio.sleep(0)
        if is_late:
            begun[-1].late = True
            task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    deadlines.close()

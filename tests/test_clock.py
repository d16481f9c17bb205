"""The clock's own small parts: which loop runs, and how long something may take."""

from __future__ import annotations

import asyncio

import pytest

from wakeful.clock import Within, running_loop


def test_the_running_loop_is_the_one_that_runs_now() -> None:
    async def ask() -> bool:
        return running_loop() is asyncio.get_running_loop()

    assert asyncio.run(ask())
    assert asyncio.run(ask())  # another loop in the same thread
    assert asyncio.run(_in_a_thread(ask))
    with pytest.raises(RuntimeError):
        running_loop()


async def _in_a_thread(ask: object) -> bool:
    assert running_loop() is asyncio.get_running_loop()
    return await asyncio.to_thread(lambda: asyncio.run(ask()))  # type: ignore[operator]


async def test_what_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError), Within(0.01):
        await asyncio.sleep(30)
    await asyncio.sleep(0)  # and nothing is left of it


@pytest.mark.parametrize("seconds", [None, 30.0])
async def test_what_is_done_in_time_is_left_alone(seconds: float | None) -> None:
    with Within(seconds):
        await asyncio.sleep(0)
    with pytest.raises(ValueError, match="mine"), Within(seconds):
        raise ValueError("mine")


async def test_whoever_cancels_from_outside_is_heard() -> None:
    async def work() -> None:
        with Within(30):
            await asyncio.sleep(30)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

"""One line in the log for each wake, and a bound on how many."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from wakeful.model.outcome import Completed, Delivered, Failed, Snoozed
from wakeful.runtime.logs import FIRST, SPAN
from wakeful.targets.inbox import Inbox

from .conftest import World

LOGGER = "wakeful.dispatcher"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Without those about the clock, which is moved by hand here."""
    said = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    return [line for line in said if "clock moved" not in line]


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)


async def test_a_wake_is_a_line_without_what_it_says(world: World, caplog: pytest.LogCaptureFixture) -> None:
    alarm = await world.set(1)
    await world.run_due(1.25)
    id, _, moment = alarm.fire_id.partition("@")
    assert lines(caplog) == [f"{id[:13]}@{moment}: delivered to desk, 250 ms late, took 0 ms"]
    assert "wake up" not in caplog.text


async def test_a_wake_for_an_inbox_says_that_it_is_in_there(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("inbox", "agent"):
        world.serve(name, Inbox())
        await world.set(1, target=name)
    await world.run_due(1)
    said = sorted(line.partition(": ")[2] for line in lines(caplog))
    assert said == ["in the inbox agent, 0 ms late, took 0 ms", "in the inbox, 0 ms late, took 0 ms"]


async def test_what_a_target_did_is_said_as_done_by_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.desk.answer(Snoozed(timedelta(minutes=1)), Completed("ok"))
    await world.set(1)
    await world.run_due(1)
    await world.run_due(60)
    said = [line.partition(": ")[2] for line in lines(caplog)]
    assert said == ["snoozed by desk, 0 ms late, took 0 ms", "completed by desk, 0 ms late, took 0 ms"]


async def test_a_retry_says_which_attempt_it_is(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.desk.answer(Failed("HTTP 503"), Delivered())
    await world.set(1)
    await world.run_due(1)
    await world.run_due(40)
    assert [line.partition(": ")[2] for line in lines(caplog)] == [
        "HTTP 503",
        "delivered to desk, attempt 2, took 0 ms",
    ]


async def test_of_a_flood_the_first_are_written_and_the_others_counted(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(FIRST + 5):
        await world.set(1)
    while await world.run_due(1):
        pass
    assert len(lines(caplog)) == FIRST
    await world.set(1)
    await world.run_due(SPAN + 1)
    assert lines(caplog)[FIRST] == "… and 5 more wakes"
    assert "delivered to desk" in lines(caplog)[FIRST + 1]


@pytest.mark.parametrize("how", ["time", "stop"])
async def test_the_sum_comes_though_nothing_follows(world: World, caplog: pytest.LogCaptureFixture, how: str) -> None:
    for _ in range(FIRST + 5):
        await world.set(1)
    await world.clock.advance(1)
    running = asyncio.create_task(world.dispatcher.run())
    await world.clock.advance(1)
    assert len(world.desk.wakes) == FIRST + 5
    assert len(lines(caplog)) == FIRST
    if how == "time":
        await world.clock.advance(SPAN + 1)
        assert lines(caplog)[FIRST:] == ["… and 5 more wakes"]
    world.dispatcher.stop()
    await running
    assert lines(caplog)[FIRST:] == ["… and 5 more wakes"]


async def test_nothing_is_kept_where_nobody_reads_it(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, LOGGER)
    for _ in range(FIRST + 5):
        await world.set(1)
    while await world.run_due(1):
        pass
    caplog.set_level(logging.INFO, LOGGER)
    await world.set(1)
    await world.run_due(SPAN + 1)
    assert len(lines(caplog)) == 1

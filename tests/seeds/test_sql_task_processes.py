"""The SQL door with the real `wakeful worker`: what was changed while it was down, frozen or asleep is what counts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from tests import commands
from wakeful.process.application import open_local
from wakeful.testing import ManualClock

from .conftest import Gateway

PATIENCE = 60.0
AHEAD = (5, 30, 120)  # seconds until they fall due: the first in which this machine prepares everything
AHEAD_OF_START = (15, 60, 240)  # where a worker starts meanwhile


@pytest.fixture
def environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    return kept | {"WAKEFUL_TICK": "200ms", "WAKEFUL_LEASE": "5s"}


@pytest.fixture
async def door(gateway: Gateway, environ: dict[str, str]) -> Gateway:
    done = await asyncio.to_thread(commands.run, ["db", "scheduled-tasks", "--db", gateway.db], env=environ)
    assert done.returncode == 0, done.stderr
    return gateway


@contextmanager
def worker(gateway: Gateway, environ: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen([*commands.PROGRAM, "worker", "--db", gateway.db], env=environ, stderr=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


async def stopped(process: subprocess.Popen[bytes]) -> None:
    """In good order: what it has begun it ends, and more does not come."""
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0


async def frozen(process: subprocess.Popen[bytes], gateway: Gateway) -> None:
    """Not while it holds the file's lock: then nobody could change anything."""
    while True:
        process.send_signal(signal.SIGSTOP)
        try:
            await gateway.sql("update scheduled_tasks set prompt = prompt where id = ''")
            return
        except apsw.BusyError:
            process.send_signal(signal.SIGCONT)


async def until(true: Callable[[], Awaitable[bool]], what: str) -> None:
    ending = time.monotonic() + PATIENCE
    while not await true():
        assert time.monotonic() < ending, f"not within {PATIENCE:.0f} s: {what}"
        await asyncio.sleep(0.05)


def at(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def twenty(gateway: Gateway, due: datetime) -> None:
    for n in range(20):
        await gateway.add(f"t{n}", next_run=at(due), prompt=f"old {n}")


async def change(gateway: Gateway, due: datetime) -> None:
    """5 deleted, 5 paused, 2 reworded, 2 put off, 2 put forward; 4 stay as they are."""

    def some(first: int, last: int) -> str:
        return f"id in ({', '.join(repr(f't{n}') for n in range(first, last + 1))})"

    tomorrow, before = at(due + timedelta(days=1)), at(due - timedelta(seconds=1))
    for statement in (
        f"delete from scheduled_tasks where {some(0, 4)}",
        f"update scheduled_tasks set status = 'paused' where {some(5, 9)}",
        f"update scheduled_tasks set prompt = 'new' where {some(10, 11)}",
        f"update scheduled_tasks set next_run = '{tomorrow}' where {some(12, 13)}",
        f"update scheduled_tasks set next_run = '{before}' where {some(14, 15)}",
    ):
        await gateway.sql(statement)


SAID = ["new", "new", "old 14", "old 15", "old 16", "old 17", "old 18", "old 19"]
STATES = [("active", 2), ("done", 8), ("paused", 5)]


async def passed(moment: datetime) -> None:
    await asyncio.sleep(max(0, (moment - datetime.now(UTC)).total_seconds()) + 0.05)


def in_time(due: datetime) -> bool:
    """A worker takes what is due a moment ahead."""
    return datetime.now(UTC) < due - timedelta(seconds=1)


async def are_said(gateway: Gateway, many: int) -> bool:
    return len(await gateway.messages()) >= many


async def all_said(gateway: Gateway) -> None:
    await until(lambda: are_said(gateway, len(SAID)), "the messages")
    await until(lambda: nothing_queued(gateway), "the queue of changes")


async def nothing_queued(gateway: Gateway) -> bool:
    return await gateway.sql("select count(*) from task_changes") == [(0,)]


async def check(gateway: Gateway) -> None:
    assert sorted(await gateway.messages()) == SAID
    states = await gateway.sql("select status, count(*) from scheduled_tasks group by status order by status")
    assert states == STATES
    fires = await gateway.sql("select count(*) from fires where status in ('delivered', 'completed')")
    assert fires == [(len(SAID),)]


async def test_what_was_changed_while_the_worker_was_down_is_what_counts(
    door: Gateway, environ: dict[str, str], tmp_path: Path
) -> None:
    due = datetime.now(UTC).replace(microsecond=0)
    await twenty(door, due)
    async with open_local(door.db, clock=ManualClock(due - timedelta(hours=1))) as alarms:
        await alarms.run_due()  # plans them, an hour before they are due
    assert await door.sql("select count(*) from task_links") == [(20,)]
    assert await door.messages() == []
    await change(door, due)
    with worker(door, environ, tmp_path) as process:
        await all_said(door)
        await stopped(process)
    await check(door)


async def test_what_was_changed_while_the_worker_was_frozen_is_what_counts(
    door: Gateway, environ: dict[str, str], tmp_path: Path
) -> None:
    with worker(door, environ, tmp_path) as process:
        await door.add("first", next_run=at(datetime.now(UTC)), prompt="up")

        async def up() -> bool:
            return await door.messages() == ["up"]

        await until(up, "the worker")
        for seconds in AHEAD:
            for table in ("scheduled_tasks", "messages", "fires"):
                await door.sql(f"delete from {table}")
            due = datetime.now(UTC) + timedelta(seconds=seconds)
            await twenty(door, due)
            await until(lambda: nothing_queued(door), "the plans")
            await frozen(process, door)
            if in_time(due):
                break
            process.send_signal(signal.SIGCONT)
            await until(lambda: are_said(door, 20), "the messages of what was prepared too late")
        assert await door.messages() == []
        await change(door, due)
        await passed(due)
        process.send_signal(signal.SIGCONT)
        await all_said(door)
        await stopped(process)
    await check(door)


async def test_a_task_cancelled_beside_a_running_worker_is_never_said(
    door: Gateway, environ: dict[str, str], tmp_path: Path
) -> None:
    """Its tick is an hour: it does not learn of the cancels before the tasks are due."""
    environ |= {"WAKEFUL_TICK": "1h", "WAKEFUL_LEASE": "3h"}

    async def last() -> bool:
        return "do last" in await door.messages()

    for seconds in AHEAD_OF_START:
        await door.sql("delete from scheduled_tasks")
        await door.sql("delete from messages")
        soon = datetime.now(UTC) + timedelta(seconds=seconds)
        cancelled = [f"t{n}-{seconds}" for n in range(8)]
        for id in cancelled:
            await door.add(id, next_run=at(soon))
        await door.add(f"last-{seconds}", next_run=at(soon + timedelta(milliseconds=200)), prompt="do last")
        with worker(door, environ, tmp_path) as process:
            await until(lambda: nothing_queued(door), "the plans")
            async with open_local(door.db) as alarms:
                for id in cancelled:
                    await alarms.service.tasks.cancel(id, owner="main")
            if not in_time(soon):
                continue
            assert await door.messages() == []
            await passed(soon)
            await until(last, "the task that stands")
            await stopped(process)
            break
    assert await door.messages() == ["do last"]

"""`wakeful.agents.serve`: one function is woken by a server or a database, in a process of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

import wakeful
from tests.remote.world import environment, serving_process, until
from wakeful.errors import InvalidConfig, InvalidRequest, UnknownTarget

PROGRAM = """
import asyncio, pathlib, sys
import wakeful

at, gate = sys.argv[1], pathlib.Path(sys.argv[2])

async def on_wake(wake):
    print(wake.fire_id, wake.attempt, flush=True)
    while not gate.exists():
        await asyncio.sleep(0.01)
    return f"did {wake.message}"

wakeful.agents.serve(on_wake, at=at)
print("not reached")
"""


class Agent:
    """The program in a process of its own; it ends the work of a wake once its gate is open."""

    def __init__(self, at: str, gate: Path) -> None:
        self._gate = gate
        command = [sys.executable, "-c", PROGRAM, at, str(gate)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )

    async def woken(self) -> tuple[str, str]:
        """The fire's id and the number of the attempt."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), 60)
        fire_id, attempt = line.split()
        return fire_id, attempt

    def finish(self) -> None:
        self._gate.touch()

    def ended(self) -> tuple[int, str, str]:
        said, complained = self.process.communicate(timeout=60)
        return self.process.returncode, said, complained


@contextmanager
def agent(at: str, gate: Path) -> Iterator[Agent]:
    started = Agent(at, gate)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


@pytest.fixture(params=["server", "database"])
async def at(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "database":
        yield str(tmp_path / "w.db")
        return
    with serving_process(tmp_path, "--db", str(tmp_path / "w.db")) as server:
        yield server.url


@asynccontextmanager
async def serving(
    on_wake: Callable[[wakeful.Wake], Awaitable[object] | object],
    at: str,
    *,
    target: str = "inbox",
    concurrency: int = 8,
) -> AsyncIterator[None]:
    async def served() -> None:
        await wakeful.agents.serve(on_wake, at=at, target=target, concurrency=concurrency)

    task = asyncio.create_task(served())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled(), task.exception()


async def test_a_wake_whose_process_is_killed_comes_again_with_the_same_fire_id(at: str, tmp_path: Path) -> None:
    async with wakeful.open(at) as alarms:
        alarm = await alarms.set(delay=0.01, wake_message="x", policy={"report_within": 2})
        with agent(at, tmp_path / "never") as first:
            fire_id, attempt = await first.woken()
            first.process.kill()  # between the wake and its report
            first.ended()
        with agent(at, tmp_path / "gate") as second:
            again = await second.woken()
            second.finish()
            [fire] = await until(lambda: alarms.fires(alarm.id, status="completed"))
    assert (attempt, again) == ("1", (fire_id, "2"))
    assert (fire.id, fire.result, fire.attempts) == (fire_id, "did x", 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_wake_under_way_finish_and_ends_the_program_well(
    at: str, tmp_path: Path, number: signal.Signals
) -> None:
    async with wakeful.open(at) as alarms:
        alarm = await alarms.set(delay=0.01, wake_message="x")
        with agent(at, tmp_path / "gate") as woken:
            await woken.woken()
            woken.process.send_signal(number)
            woken.finish()
            assert await asyncio.to_thread(woken.ended) == (0, "", "")
        [fire] = await alarms.fires(alarm.id)
    assert (fire.status, fire.result) == ("completed", "did x")


async def test_it_can_be_awaited_and_ends_when_it_is_cancelled(at: str) -> None:
    seen: list[str] = []

    async def on_wake(wake: wakeful.Wake) -> str:
        seen.append(wake.prompt)
        return "read"

    async with wakeful.open(at) as alarms:
        async with serving(on_wake, at):
            alarm = await alarms.set(delay=0.01, wake_message="Check the portal", payload={"page": 3})
            [fire] = await until(lambda: alarms.fires(alarm.id, status="completed"))
    assert fire.result == "read"
    assert seen[0].startswith("Check the portal\n\n[Wake]\n")
    assert f"Fire id: {fire.id}" in seen[0]


async def test_each_fire_of_a_series_has_its_own_id_and_an_exception_and_a_snooze_count(at: str) -> None:
    seen: list[str] = []

    def on_wake(wake: wakeful.Wake) -> str:
        seen.append(wake.fire_id)
        if wake.message == "fail":
            raise ValueError("no such page")
        if wake.message == "snooze":
            raise wakeful.Snooze("15m")
        return wake.fire_id

    async with wakeful.open(at) as alarms:
        async with serving(on_wake, at):
            series = await alarms.set("every second", "x", policy={"max_fires": 2})
            failed = await alarms.set(delay=0.01, wake_message="fail")
            snoozed = await alarms.set(delay=0.01, wake_message="snooze")
            [gone] = await until(lambda: alarms.fires(failed.id, status="retrying"))
            assert gone.last_error == "ValueError: no such page"
            assert await until(lambda: alarms.fires(snoozed.id, status="snoozed"))

            async def both() -> list[wakeful.Fire]:
                fires = await alarms.fires(series.id, status="completed")
                return fires if len(fires) == 2 else []

            fires = await until(both)
    assert [fire.result for fire in fires] == [fire.id for fire in fires]
    assert {fire.id for fire in fires} < set(seen)


async def test_the_lease_is_renewed_while_the_function_runs(at: str) -> None:
    calls: list[str] = []
    go_on = asyncio.Event()

    async def on_wake(wake: wakeful.Wake) -> None:
        calls.append(wake.fire_id)
        await go_on.wait()

    async with wakeful.open(at) as alarms:
        async with serving(on_wake, at):
            alarm = await alarms.set(delay=0.01, wake_message="x", policy={"report_within": 3})
            [fire] = await until(lambda: alarms.fires(alarm.id, status="delivered"))

            async def is_renewed() -> bool:
                later = (await alarms.fire_of(fire.id)).report_by
                return later is not None and fire.report_by is not None and later > fire.report_by

            assert await until(is_renewed)
            go_on.set()
            assert (await until(lambda: alarms.fires(alarm.id, status="completed")))[0].attempts == 1
    assert len(calls) == 1


async def test_plain_functions_run_in_threads_and_no_more_at_once_than_is_said(at: str) -> None:
    lock, running, most = threading.Lock(), 0, 0
    both = threading.Barrier(2, timeout=60)  # two of them at once, or none gets on

    def on_wake(wake: wakeful.Wake) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait()
        with lock:
            running -= 1

    async with wakeful.open(at) as alarms:
        made = [await alarms.set(delay=0.01, wake_message=str(number)) for number in range(6)]
        async with serving(on_wake, at, concurrency=2):
            for alarm in made:
                await until(lambda id=alarm.id: alarms.fires(id, status="completed"))  # type: ignore[misc]
    assert most == 2


async def test_a_database_needs_no_configuration_for_a_target_with_a_name(tmp_path: Path) -> None:
    at = str(tmp_path / "w.db")
    async with wakeful.open(at) as alarms:
        alarms.declare("researcher")
        alarm = await alarms.set(delay=0.01, wake_message="x", target="researcher")
        async with serving(lambda wake: "found it", at, target="researcher"):
            [fire] = await until(lambda: alarms.fires(alarm.id, status="completed"))
    assert (fire.target, fire.result) == ("researcher", "found it")


async def test_what_cannot_be_served_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="not a function"):
        wakeful.agents.serve("on_wake", at="w.db")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="less than 1"):
        wakeful.agents.serve(print, at="w.db", concurrency=0)
    with pytest.raises(InvalidConfig, match="a token is for a server"):
        await wakeful.agents.serve(print, at=str(tmp_path / "w.db"), token="wk_x")
    with serving_process(tmp_path, "--db", str(tmp_path / "w.db")) as server:
        with pytest.raises(UnknownTarget, match="no inbox 'researcher'"):
            await wakeful.agents.serve(print, at=server.url, target="researcher")

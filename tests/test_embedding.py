"""wakeful inside somebody's program: a lifespan, plain scripts, processes that only set alarms, tests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

import wakeful
from wakeful.errors import InvalidRequest, UnknownTarget
from wakeful.process.application import open_local
from wakeful.testing.alarms_for_tests import SteppedWakeful, store_of


def test_an_application_opens_dispatches_and_closes(tmp_path: Path) -> None:
    alarms, fired = open_local(tmp_path / "wakeful.db"), asyncio.Event()

    @alarms.handler("ops")
    async def ops(wake: wakeful.Wake) -> str:
        fired.set()
        return "done"

    async def remind(request: Request) -> PlainTextResponse:
        alarm = await alarms.set(delay=0.01, wake_message="hello", target="ops")
        async with asyncio.timeout(30):
            await fired.wait()
        return PlainTextResponse(alarm.id)

    routes = [Route("/remind", remind), Mount("/wakeful", alarms.asgi())]
    with TestClient(Starlette(routes=routes, lifespan=alarms.lifespan), base_url="http://localhost") as client:
        id = client.get("/remind").text
        assert client.get(f"/wakeful/v1/alarms/{id}").json()["wake_message"] == "hello"
    with wakeful.open_sync(tmp_path / "wakeful.db") as again:  # stopped in good order: nothing is left in flight
        assert [
            worker.stopped_at is not None for worker in again.wait(store_of(again.asynchronous).maintenance.workers())
        ] == [True]


async def test_what_breaks_the_dispatcher_is_raised_where_it_runs(tmp_path: Path) -> None:
    async with open_local(tmp_path / "wakeful.db") as alarms:

        async def broken(*, signals: bool = True) -> None:
            raise RuntimeError("out of order")

        alarms.run = broken  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="out of order"):
            async with alarms.running():
                await asyncio.sleep(0)


async def test_a_handler_that_is_registered_while_it_runs_is_served(tmp_path: Path) -> None:
    async with open_local(tmp_path / "wakeful.db") as alarms:
        first, second = asyncio.Event(), asyncio.Event()

        @alarms.handler("first")
        async def one(wake: wakeful.Wake) -> None:
            first.set()

        async with alarms.running(), asyncio.timeout(60):
            await alarms.set(delay=0.01, wake_message="hello", target="first")
            await first.wait()

            @alarms.handler("second")
            async def two(wake: wakeful.Wake) -> None:
                second.set()

            await alarms.set(delay=0.01, wake_message="hello", target="second")
            await second.wait()


def test_a_plain_script_registers_handlers_while_it_dispatches(tmp_path: Path) -> None:
    """On the loop that serves them: another thread would change the table of targets under its hands."""
    with wakeful.open_sync(tmp_path / "wakeful.db", background=True) as alarms:
        threads: list[threading.Thread] = []
        registered, served = alarms.asynchronous.handler, threading.Event()

        def noted(*given: Any, **more: Any) -> Any:
            decorate = registered(*given, **more)

            def register(function: Any) -> Any:
                threads.append(threading.current_thread())
                return decorate(function)

            return register

        alarms.asynchronous.handler = noted  # type: ignore[method-assign]

        @alarms.handler("late")
        def late(wake: wakeful.Wake) -> None:
            served.set()

        alarms.set(delay=0.01, wake_message="hello", target="late")
        assert served.wait(60)
        assert [thread.name for thread in threads] == ["wakeful"]


async def test_a_clock_that_is_closed_while_it_runs_settles_what_is_in_flight(tmp_path: Path) -> None:
    begun, stopping = asyncio.Event(), asyncio.Event()
    async with open_local(tmp_path / "wakeful.db") as alarms:

        @alarms.handler("ops")
        async def ops(wake: wakeful.Wake) -> None:
            begun.set()
            await stopping.wait()

        stop = alarms.dispatcher.stop

        def stopped() -> None:
            stop()
            stopping.set()

        alarms.dispatcher.stop = stopped  # type: ignore[method-assign]
        alarm = await alarms.set(delay=0.01, wake_message="hello", target="ops")
        running = asyncio.create_task(alarms.run())
        async with asyncio.timeout(60):
            await begun.wait()
    assert running.cancelled()
    async with open_local(tmp_path / "wakeful.db") as again:
        found = await again.get(alarm.id)
        assert (found.status, found.claimed_at) == ("fired", None)


async def test_what_ran_once_runs_again(tmp_path: Path) -> None:
    async with open_local(tmp_path / "wakeful.db") as alarms:
        woken: asyncio.Queue[str] = asyncio.Queue()

        @alarms.handler("ops")
        async def ops(wake: wakeful.Wake) -> None:
            await woken.put(wake.message)

        for message in ("first", "second"):
            await alarms.set(delay=0.01, wake_message=message, target="ops")
            async with alarms.running(), asyncio.timeout(60):
                assert await woken.get() == message


async def test_an_error_of_the_block_is_raised_as_it_is(tmp_path: Path) -> None:
    async with open_local(tmp_path / "wakeful.db") as alarms:
        with pytest.raises(KeyError, match="mine"):
            async with alarms.running():
                raise KeyError("mine")


def test_a_plain_script_dispatches_in_the_background(tmp_path: Path) -> None:
    import threading

    fired = threading.Event()
    with wakeful.open_sync(tmp_path / "wakeful.db", background=True) as alarms:
        alarms.handler("ops")(lambda wake: fired.set())
        alarm = alarms.set(delay=0.01, wake_message="hello", target="ops")
        assert fired.wait(30)
    with wakeful.open_sync(tmp_path / "wakeful.db") as alarms:
        assert alarms.get(alarm.id).fire_count == 1


async def test_a_process_that_only_sets_alarms_declares_who_will_serve_them(tmp_path: Path) -> None:
    async with open_local(tmp_path / "wakeful.db") as alarms:
        with pytest.raises(UnknownTarget):
            await alarms.set("in 1 hour", "hello", target="ops")
        alarms.declare("ops")
        alarm = await alarms.set("in 1 hour", "hello", target="ops")
        assert alarm.target == "ops"
        assert await alarms.run_due() == 0  # it is not served here


async def test_a_handler_without_a_name_is_refused_at_once(tmp_path: Path) -> None:
    alarms = open_local(tmp_path / "wakeful.db")
    with pytest.raises(InvalidRequest, match=r'@alarms\.handler\("NAME"\)'):

        @alarms.handler  # type: ignore[arg-type]
        async def ops(wake: wakeful.Wake) -> str:
            return "never"

    await alarms.close()


def test_a_stepped_clock_delivers_while_time_passes(tmp_path: Path) -> None:
    with SteppedWakeful(tmp_path / "wakeful.db") as alarms:
        sent: list[str] = []
        alarms.handler("brief")(lambda wake: sent.append(wake.message))
        alarms.set("in 1 hour", "Morning brief", target="brief")
        alarms.advance("59m")
        assert sent == []
        alarms.advance("1m")
        assert sent == ["Morning brief"]


PLUGGED = """
def test_the_brief_is_sent(wakeful_alarms):
    sent = []
    wakeful_alarms.handler("brief")(lambda wake: sent.append(wake.message))
    wakeful_alarms.set("in 1 hour", "Morning brief", target="brief")
    wakeful_alarms.advance("1h")
    assert sent == ["Morning brief"]
"""


def test_the_fixture_works_without_a_plugin_for_asyncio(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(PLUGGED)
    plain = ["-p", "no:asyncio", "-p", "no:xdist", "-p", "no:cacheprovider"]
    if not entry_points(group="pytest11", name="wakeful"):  # pytest finds it by itself where wakeful is installed
        plain += ["-p", "wakeful.testing.plugin"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--rootdir",
        str(tmp_path),
        "-c",
        "/dev/null",
        *plain,
        str(tmp_path),
    ]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr

"""wakeful inside somebody's program: a lifespan, plain scripts, processes that only set alarms, tests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

import wakeful
from wakeful.errors import InvalidRequest, UnknownTarget
from wakeful.testing.stepped import SteppedWakeful


def test_an_application_opens_dispatches_and_closes(tmp_path: Path) -> None:
    clock, fired = wakeful.open(tmp_path / "wakeful.db"), asyncio.Event()

    @clock.handler("ops")
    async def ops(wake: wakeful.Wake) -> str:
        fired.set()
        return "done"

    async def remind(request: Request) -> PlainTextResponse:
        alarm = await clock.set(delay=0.01, wake_message="hello", target="ops")
        async with asyncio.timeout(30):
            await fired.wait()
        return PlainTextResponse(alarm.id)

    routes = [Route("/remind", remind), Mount("/wakeful", clock.asgi())]
    with TestClient(Starlette(routes=routes, lifespan=clock.lifespan), base_url="http://localhost") as client:
        id = client.get("/remind").text
        assert client.get(f"/wakeful/v1/alarms/{id}").json()["wake_message"] == "hello"
    with wakeful.open_sync(tmp_path / "wakeful.db") as again:  # stopped in good order: nothing is left in flight
        assert [worker.stopped_at is not None for worker in again.wait(again.clock.service.store.workers())] == [True]


async def test_what_breaks_the_dispatcher_is_raised_where_it_runs(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "wakeful.db") as clock:

        async def broken() -> None:
            raise RuntimeError("out of order")

        clock.run = broken  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="out of order"):
            async with clock.running():
                await asyncio.sleep(0)


async def test_an_error_of_the_block_is_raised_as_it_is(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "wakeful.db") as clock:
        with pytest.raises(KeyError, match="mine"):
            async with clock.running():
                raise KeyError("mine")


def test_a_plain_script_dispatches_in_the_background(tmp_path: Path) -> None:
    import threading

    fired = threading.Event()
    with wakeful.open_sync(tmp_path / "wakeful.db", background=True) as clock:
        clock.handler("ops")(lambda wake: fired.set())
        alarm = clock.set(delay=0.01, wake_message="hello", target="ops")
        assert fired.wait(30)
    with wakeful.open_sync(tmp_path / "wakeful.db") as clock:
        assert clock.get(alarm.id).fire_count == 1


async def test_a_process_that_only_sets_alarms_declares_who_will_serve_them(tmp_path: Path) -> None:
    async with wakeful.open(tmp_path / "wakeful.db") as clock:
        with pytest.raises(UnknownTarget):
            await clock.set("in 1 hour", "hello", target="ops")
        clock.declare("ops")
        alarm = await clock.set("in 1 hour", "hello", target="ops")
        assert alarm.target == "ops"
        assert await clock.run_due() == 0  # it is not served here


async def test_a_handler_without_a_name_is_refused_at_once(tmp_path: Path) -> None:
    clock = wakeful.open(tmp_path / "wakeful.db")
    with pytest.raises(InvalidRequest, match=r'@clock\.handler\("NAME"\)'):

        @clock.handler  # type: ignore[arg-type]
        async def ops(wake: wakeful.Wake) -> str:
            return "never"

    await clock.close()


def test_a_stepped_clock_delivers_while_time_passes(tmp_path: Path) -> None:
    with SteppedWakeful(tmp_path / "wakeful.db") as clock:
        sent: list[str] = []
        clock.handler("brief")(lambda wake: sent.append(wake.message))
        clock.set("in 1 hour", "Morning brief", target="brief")
        clock.advance("59m")
        assert sent == []
        clock.advance("1m")
        assert sent == ["Morning brief"]


PLUGGED = """
def test_the_brief_is_sent(wakeful_clock):
    sent = []
    wakeful_clock.handler("brief")(lambda wake: sent.append(wake.message))
    wakeful_clock.set("in 1 hour", "Morning brief", target="brief")
    wakeful_clock.advance("1h")
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

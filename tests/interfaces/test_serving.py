"""One process that stays, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.interfaces.world import serving
from wakeful.clock import SystemClock
from wakeful.errors import InvalidConfig
from wakeful.http import http_server
from wakeful.process.application import LocalWakeful, build
from wakeful.process.server import serve, shown, stay, work
from wakeful.settings import Settings


def a_clock(tmp_path: Path, **settings: str | int) -> LocalWakeful:
    given = {"db": str(tmp_path / "w.db"), "port": 0} | settings
    return build(Settings(**given))  # type: ignore[arg-type]  # each value has its setting's type


async def test_a_dispatcher_that_dies_takes_the_server_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dies(_: object) -> float:
        raise RuntimeError("a bug")

    monkeypatch.setattr("wakeful.dispatcher.Dispatcher._step", dies)
    async with a_clock(tmp_path) as alarms:
        running = asyncio.create_task(serve(alarms))
        done, _ = await asyncio.wait((running,), timeout=30)
        assert done, "it went on without a dispatcher"
        with pytest.raises(RuntimeError, match="a bug"):
            await running
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", alarms.settings.port)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
async def test_it_serves_on_every_name_of_loopback(tmp_path: Path, host: str) -> None:
    async with serving(str(tmp_path / "w.db"), host=host) as visit:
        assert (await visit("GET", "/healthz")).status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "no such name"])
async def test_it_refuses_to_serve_elsewhere(tmp_path: Path, host: str) -> None:
    async with a_clock(tmp_path, host=host) as alarms:
        with pytest.raises(InvalidConfig) as refusal:
            await serve(alarms)
        assert refusal.value.field == "host"


async def test_it_does_not_open_every_owners_alarms_to_everyone(tmp_path: Path) -> None:
    async with a_clock(tmp_path, owner="") as alarms:
        with pytest.raises(InvalidConfig) as refusal:
            await serve(alarms)
        assert refusal.value.field == "owner"


async def test_a_caller_who_never_ends_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "w.db"), stop_within=timedelta(milliseconds=100)) as visit:
        port = visit.alarms.settings.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /v1/alarms HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 100")
        visit.running.cancel()
        done, _ = await asyncio.wait((visit.running,), timeout=30)
        assert done
        writer.close()


async def test_a_stop_waits_for_no_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    class Watched(SystemClock):
        async def sleep(self, seconds: float) -> None:
            looks.append(seconds)
            await super().sleep(seconds)

    class Sleepless:  # what uvicorn knows as asyncio
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        async def sleep(self, seconds: float) -> None:
            raise AssertionError(f"uvicorn slept for {seconds} s")

    monkeypatch.setattr("uvicorn.server.asyncio", Sleepless())
    monkeypatch.setattr(http_server, "TICK", 3600.0)
    monkeypatch.setattr(http_server, "SystemClock", Watched)
    async with serving(str(tmp_path / "w.db")) as visit:
        assert (await visit("GET", "/healthz")).status == 200  # and its connection stays open
        visit.running.cancel()
        await asyncio.wait((visit.running,), timeout=60)
        assert visit.running.done()
    assert sum(looks) < http_server.LAST_CHECK  # an idle connection is closed at once: the next look sees it gone


async def test_a_server_has_said_whom_it_serves_before_it_answers(tmp_path: Path) -> None:
    def at_the_door(_: str) -> None:
        told.append(apsw.Connection(str(tmp_path / "w.db")).execute("select handlers, targets from workers").get)
        alarms.dispatcher.stop()

    told: list[Any] = []
    async with a_clock(tmp_path) as alarms, asyncio.timeout(30):
        await serve(alarms, ready=at_the_door)
    assert "inbox" in str(told[0])  # else its first answers would note that nobody serves the inbox


async def test_a_cancelled_worker_ends_in_good_order(tmp_path: Path) -> None:
    async with a_clock(tmp_path) as alarms:
        ready = asyncio.Event()
        working = asyncio.create_task(work(alarms, ready=ready.set))
        await ready.wait()
        await alarms.set("in 1 hour", "x")
        working.cancel()
        await asyncio.wait((working,))
        assert working.cancelled()


@pytest.mark.parametrize("run", [serve, work])
async def test_a_signal_between_opening_and_running_is_heard(
    tmp_path: Path, run: Callable[[LocalWakeful], Awaitable[None]]
) -> None:
    async def signalled(alarms: LocalWakeful) -> None:
        heard = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, heard.set)
        os.kill(os.getpid(), signal.SIGTERM)
        await heard.wait()
        await run(alarms)

    async with asyncio.timeout(60):
        await stay(a_clock(tmp_path), signalled)


async def test_a_worker_that_is_told_to_stop_returns(tmp_path: Path) -> None:
    async with a_clock(tmp_path) as alarms, asyncio.timeout(30):
        await work(alarms, ready=lambda: alarms.dispatcher.stop())


@pytest.mark.parametrize(
    ("db", "expected"),
    [
        ("wakeful.db", "wakeful.db"),
        ("postgresql://me:hunter2@db.example:5432/clock?password=hunter2", "postgresql://db.example:5432/clock"),
        ("postgresql:///clock?host=/tmp/pg", "postgresql:///clock"),
        ("postgresql://me:hun@ter2@db.example/clock", "postgresql://db.example/clock"),
    ],
)
def test_a_database_is_shown_without_its_password(db: str, expected: str) -> None:
    assert shown(db) == expected

"""What a worker tells about itself where it is asked to, and that it tells nothing where it is not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.ports import free_port
from wakeful.errors import InvalidConfig
from wakeful.http.security.auth import mint
from wakeful.process.application import LocalWakeful, build
from wakeful.process.server import work
from wakeful.settings import Settings
from wakeful.testing import store_of

WAKEFUL = [sys.executable, "-m", "wakeful.cli"]


@contextmanager
def worker(directory: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A real `wakeful worker`, from the line that says it is up."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
    command = [*WAKEFUL, "worker", "--db", "wakeful.db", *args]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=directory, env=environ)
    try:
        assert process.stderr is not None
        assert "worker, store wakeful.db" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


async def asked(port: int, path: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}{path}", headers=headers) as response:
            return response.status, await response.text()


async def test_a_worker_tells_how_it_is_and_nothing_else(tmp_path: Path) -> None:
    port = free_port()
    with worker(tmp_path, "--metrics-port", str(port)) as process:
        assert process.stderr is not None
        assert f"metrics at http://127.0.0.1:{port}/metrics" in process.stderr.readline()
        status, text = await asked(port, "/readyz")
        assert (status, json.loads(text)["dispatcher"]) == (200, "running")
        assert (await asked(port, "/healthz"))[0] == 200
        async with build(Settings(db=str(tmp_path / "wakeful.db"))) as alarms:
            await alarms.set(delay=0.001, wake_message="now")
            assert await alarms.inbox(wait=60)
        async with asyncio.timeout(60):
            while 'wakeful_fires_total{reason="",status="waiting"} 1.0' not in (await asked(port, "/metrics"))[1]:
                pass  # the row is written a moment before it is counted
        for path in ("/v1/alarms", "/v1/events", "/v1/ws", "/mcp", "/openapi.json", "/"):
            assert (await asked(port, path))[0] == 404
        assert (await asked(port, "/metrics", host="evil.example"))[0] == 421
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with pytest.raises(aiohttp.ClientConnectionError):
        await asked(port, "/healthz")


def test_a_worker_that_was_not_asked_to_listens_nowhere(tmp_path: Path) -> None:
    with worker(tmp_path) as process:
        assert not psutil.Process(process.pid).net_connections()


@asynccontextmanager
async def working(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[LocalWakeful, int]]:
    """The same in this process, for what needs the store at hand."""
    port = free_port()
    async with build(Settings(db=str(tmp_path / "w.db"), metrics_port=port, **settings)) as alarms:
        ready = asyncio.Event()
        running = asyncio.create_task(work(alarms, ready=ready.set))
        await asyncio.wait((asyncio.create_task(ready.wait()), running), return_when=asyncio.FIRST_COMPLETED)
        try:
            if running.done():
                await running
            yield alarms, port
        finally:
            running.cancel()
            await asyncio.wait((running,))


async def test_once_there_are_tokens_its_numbers_are_for_admins_too(tmp_path: Path) -> None:
    async with working(tmp_path, did_auth=True) as (alarms, port):
        held: dict[str, str] = {}
        for scope in ("write", "admin"):
            held[scope], token = mint("ops", [scope], now=await alarms.service.now())
            await store_of(alarms).access.add_token(token)
        assert (await asked(port, "/metrics"))[0] == 401
        assert (await asked(port, "/metrics", authorization=f"Bearer {held['write']}"))[0] == 403
        assert (await asked(port, "/metrics", authorization=f"Bearer {held['admin']}"))[0] == 200
        assert (await asked(port, "/readyz"))[0] == 200


async def test_it_opens_no_window_to_the_outside_while_there_is_no_token(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        async with working(tmp_path, host="0.0.0.0"):
            pass
    assert (refusal.value.field, "token new" in refusal.value.fix) == ("host", True)


async def test_a_port_that_is_taken_stops_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with build(Settings(db=str(tmp_path / "w.db"), metrics_port=taken.getsockname()[1])) as alarms:
            with pytest.raises(InvalidConfig) as refusal:
                await work(alarms)
            assert refusal.value.field == "metrics_port"


async def test_a_dispatcher_that_dies_takes_the_window_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dies(_: object) -> float:
        raise RuntimeError("a bug")

    monkeypatch.setattr("wakeful.dispatcher.Dispatcher._step", dies)
    async with build(Settings(db=str(tmp_path / "w.db"), metrics_port=free_port())) as alarms:
        with pytest.raises(RuntimeError, match="a bug"):
            async with asyncio.timeout(30):
                await work(alarms)
        with pytest.raises(aiohttp.ClientConnectionError):
            await asked(alarms.settings.metrics_port, "/healthz")

"""A real server that runs out of file descriptors: it says so in few words, loses nothing, and recovers by itself."""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.faults.conftest import until
from tests.interfaces.test_cli_processes import Start, start
from wakeful.testing.receiver import Receiver

__all__ = ["start"]


@contextmanager
def none_left(pid: int) -> Iterator[None]:
    """The process may open nothing more."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


class Server:
    """`wakeful serve`, its log in a file, and one connection to it that was open all the time."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._log = log
        self.port = 0

    @property
    def log(self) -> str:
        return self._log.read_text()

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log
        if " on http://127.0.0.1:" in self.log:
            self.port = int(self.log.partition("127.0.0.1:")[2].partition(",")[0])
        return self.port > 0

    def connect(self, until: ExitStack) -> Callable[..., tuple[int, Any]]:
        connection = until.enter_context(closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)))
        connection.connect()

        def ask(method: str, path: str, **body: Any) -> tuple[int, Any]:
            connection.request(method, path, json.dumps(body) if body else None, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        return ask


@pytest.fixture
def log(tmp_path: Path) -> Iterator[IO[str]]:
    with (tmp_path / "log").open("w") as stream:
        yield stream


async def test_a_server_without_descriptors_says_so_loses_nothing_and_recovers(
    start: Start, tmp_path: Path, log: IO[str]
) -> None:
    async with Receiver() as receiver:
        knocking = ExitStack()
        (tmp_path / "wakeful.toml").write_text(
            f'[targets.hook]\nkind = "webhook"\nurl = "{receiver.url}"\nallow_private = true\n'
        )
        server = Server(start("serve", "--port", "0", stderr=log), Path(log.name))
        await until(server.is_up, "it starts")
        ask = server.connect(knocking)
        assert ask("GET", "/readyz")[0] == 200
        status, hooked = ask("POST", "/v1/alarms", delay_seconds=2, wake_message="now", target="hook", max_failures=0)
        assert status == 201
        acknowledged = []
        with knocking:
            with none_left(server.pid):
                for _ in range(20):  # they wait to be accepted
                    knocking.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                for n in range(20):
                    status, alarm = ask("POST", "/v1/alarms", when="in 1 hour", wake_message=f"later {n}")
                    assert status in (201, 503)  # a thread that has not opened the file yet cannot do so now
                    acknowledged += [alarm["id"]] if status == 201 else []
                await until(
                    lambda: server.log.count("no connection can be accepted now") >= 5, "it says so, and tries again"
                )
            await until(lambda: len(receiver.wakes) == 1, "the wake waited for a descriptor")
        with ExitStack() as later:
            ask = server.connect(later)
            assert ask("GET", "/readyz")[0] == 200
            assert ask("POST", "/v1/alarms", when="in 1 hour", wake_message="again")[0] == 201
            for id in acknowledged:
                assert ask("GET", f"/v1/alarms/{id}")[1]["status"] == "active"
        server.process.send_signal(signal.SIGTERM)
        await until(lambda: server.process.poll() is not None, "it ends")
        assert server.process.returncode == 0
        assert [wake.headers["webhook-id"].partition("@")[0] for wake in receiver.wakes] == [hooked["id"]]
    assert "no connection can be accepted now, trying again in 1 s: Too many open files" in server.log
    assert "Logging error" not in server.log
    assert "more like this" not in server.log  # one a second, not thousands that had to be summed up
    assert len(server.log) < 100_000

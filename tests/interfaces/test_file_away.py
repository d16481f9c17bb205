"""`wakeful serve` and `worker` whose SQLite file is deleted, moved away, replaced, put back, or gone at the start."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.test_cli_processes import Start, line, run, start

__all__ = ["start"]


class Server:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        said = re.search(r" on (http://\S+),", line(process))
        assert said is not None
        self.url = said[1]

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def create(self) -> tuple[int, Any]:
        return self.ask("/v1/alarms", {"when": "in 1 hour", "wake_message": "x"})

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, err
        return err


def serving(start: Start, *more: str) -> Server:
    return Server(start("serve", "--port", "0", *more))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "wakeful.db"


def delete(file: Path) -> None:
    file.unlink()


def move(file: Path) -> None:
    file.rename(file.with_suffix(".kept"))


def replace(file: Path) -> None:
    shutil.copy(file, file.with_suffix(".copy"))
    file.rename(file.with_suffix(".kept"))
    file.with_suffix(".copy").rename(file)


def count(start: Start) -> int:
    return len(run(start, "ls", "--all")[0].splitlines())


@pytest.mark.parametrize("away", [delete, move, replace], ids=lambda away: away.__name__)
def test_nothing_is_accepted_while_the_file_is_away(start: Start, file: Path, away: Callable[[Path], None]) -> None:
    server = serving(start)
    assert server.create()[0] == 201
    away(file)
    for status, told in (server.create(), server.ask("/readyz"), server.ask("/healthz"), server.ask("/v1/alarms")):
        assert status == 503
        assert told["code"] == "store_unavailable"
        assert f"{file} " in told["detail"]
        assert "Put the same file back" in told["fix"]
    assert "CRITICAL wakeful.store: " in server.stop()


def test_once_it_is_back_everything_goes_on(start: Start, file: Path) -> None:
    server = serving(start)
    assert server.create()[0] == 201
    move(file)
    assert server.create()[0] == 503
    file.with_suffix(".kept").rename(file)
    assert server.create()[0] == 201
    while server.ask("/readyz")[0] != 200:
        assert server.process.poll() is None
    assert "wakeful.db is back" in server.stop()
    assert count(start) == 2


def test_the_dispatcher_notices_by_itself(start: Start, file: Path) -> None:
    worker = start("worker")
    assert "worker, store" in line(worker)
    delete(file)
    assert "CRITICAL wakeful.store: " in line(worker)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0


@pytest.mark.parametrize("command", ["serve", "worker"])
@pytest.mark.parametrize("traces", [True, False], ids=["under it", "while it was down, with all its traces"])
def test_no_empty_file_takes_its_place_at_the_next_start(start: Start, file: Path, command: str, traces: bool) -> None:
    server = serving(start)
    assert server.create()[0] == 201
    if traces:
        delete(file)
        assert server.create()[0] == 503
    server.stop()
    if not traces:
        for name in file.parent.glob("wakeful.db*"):
            name.unlink()
    for args in ((command,), ("at", "1h", "x"), ("ls",)):
        _, err = run(start, *args, code=6)
        assert f"error: {file} is gone" in err
        assert "`wakeful serve --create`" in err
        assert not file.exists()


def test_create_begins_with_an_empty_one(start: Start, file: Path) -> None:
    server = serving(start)
    assert server.create()[0] == 201
    delete(file)
    assert server.create()[0] == 503
    server.stop()
    server = serving(start, "--create")
    assert server.ask("/v1/alarms")[1]["alarms"] == []
    assert server.create()[0] == 201
    server.stop()
    server = serving(start, "--create")  # and does nothing where there is one
    assert len(server.ask("/v1/alarms")[1]["alarms"]) == 1
    server.stop()


def test_a_backup_put_in_its_place_is_taken_at_the_next_start_as_it_is(start: Start, file: Path) -> None:
    server = serving(start)
    assert server.create()[0] == 201
    server.stop()
    backup = file.with_suffix(".backup")
    shutil.copy(file, backup)
    server = serving(start)
    for _ in range(20):
        assert server.create()[0] == 201
    os.replace(backup, file)
    assert server.create()[0] == 503
    server.stop()
    server = serving(start)
    assert len(server.ask("/v1/alarms")[1]["alarms"]) == 1
    server.stop()

"""Real processes: how fast help comes, how serving starts and ends, what a terminal and a closed pipe see."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wakeful
from wakeful.settings import exposed

WAKEFUL = [sys.executable, "-m", "wakeful.cli"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, **more: Any) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("WAKEFUL_")}
        environ["WAKEFUL_DB"] = "wakeful.db"
        given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path, "env": environ}
        started.append(subprocess.Popen([*WAKEFUL, *args], text=True, **(given | more)))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def run(start: Start, *args: str, code: int = 0) -> tuple[str, str]:
    process = start(*args)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    return out, err


def line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


HEAVY = (
    "aiohttp",
    "starlette",
    "uvicorn",
    "apsw",
    "asyncpg",
    "msgspec",
    "asyncio",
    "wakeful.model",
    "wakeful.rules",
    "wakeful.settings",
)


@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    code = f"""
import sys
from wakeful.cli import main
try:
    main({args!r})
except SystemExit:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "wakeful" in done.stdout


def test_serve_says_where_answers_and_ends_with_0_on_sigterm(start: Start) -> None:
    process = start("serve", "--port", "0")
    said = re.fullmatch(
        rf"wakeful {wakeful.__version__} on http://127\.0\.0\.1:(\d+), store wakeful\.db\n", line(process)
    )
    assert said is not None
    with socket.create_connection(("127.0.0.1", int(said[1]))) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert client.makefile().readline() == "HTTP/1.1 200 OK\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_worker_delivers_what_the_command_line_sets_and_ends_with_0_on_sigint(start: Start) -> None:
    worker = start("worker")
    assert line(worker) == f"wakeful {wakeful.__version__} worker, store wakeful.db\n"
    run(start, "at", "in 1 second", "hello")
    while not (told := run(start, "history", "--status", "fired")[0]):
        assert worker.poll() is None
    assert told.split("\t")[1] == "waiting"
    worker.send_signal(signal.SIGINT)
    assert worker.wait(60) == 0


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["worker"]])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_process_that_stays_runs_on_uvloop_where_there_is_one(
    start: Start, tmp_path: Path, command: list[str], is_there: bool
) -> None:
    (tmp_path / "first").mkdir()
    if not is_there:
        (tmp_path / "first" / "uvloop.py").write_text("raise ImportError\n")
    path = os.pathsep.join(filter(None, (str(tmp_path / "first"), os.environ.get("PYTHONPATH"))))
    process = start(*command, env={**os.environ, "WAKEFUL_DB": "wakeful.db", "PYTHONPATH": path})
    assert f"wakeful {wakeful.__version__}" in line(process)
    assert ("/uvloop/" in Path(f"/proc/{process.pid}/maps").read_text()) == is_there
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


HANGS = """
import asyncio, sys
import wakeful
from wakeful.process.server import log_to_stderr, work

async def main():
    async with wakeful.open("wakeful.db", stop_within="60s") as alarms:
        @alarms.handler("slow")
        async def slow(wake):
            print("begun", flush=True)
            await asyncio.Event().wait()
        await alarms.set(delay=0.001, wake_message="x", target="slow")
        await work(alarms)

log_to_stderr("info")
asyncio.run(main())
"""


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    while "SIGTERM: stopping" not in line(process):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    process.communicate()


def test_what_callers_say_is_not_logged(start: Start) -> None:
    process = start("serve", "--port", "0", "--log-level", "debug")
    while (said := re.match(r"wakeful .* on http://127\.0\.0\.1:(\d+),", line(process))) is None:
        assert process.poll() is None
    port = int(said[1])
    body = '{"wake_message": "canary1", "when": "in 1 hour", "payload": {"token": "canary2"}, "label": "canary3"}'
    for path, sent in (("/v1/alarms", body), ("/v1/alarms", body[:-1]), ("/v1/fires/x@1/report?canary5=1", body)):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head += f"Authorization: Bearer canary4\r\nContent-Length: {len(sent)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall((head + sent).encode())
            assert client.makefile().read().startswith("HTTP/1.1 ")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert "SIGTERM: stopping" in err
    assert "canary" not in err


def test_a_settings_file_with_secrets_that_everyone_can_read_is_warned_about(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "wakeful.toml"
    file.write_text('wake_url = "http://127.0.0.1:1/internal/wake"\nwake_token = "canary"\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that it ends by itself
        serve = "serve", "--port", str(taken.getsockname()[1])
        file.chmod(0o644)
        _, warned = run(start, *serve, code=2)
        file.chmod(0o640)
        _, silent = run(start, *serve, code=2)
    assert "wakeful.toml holds secrets, and everyone on this machine can read it: chmod o-r wakeful.toml" in warned
    assert "canary" not in warned
    assert "holds secrets" not in silent


@pytest.mark.parametrize(
    ("text", "is_exposed"),
    [
        ('db = "postgresql://ada:canary@db/wakeful"', True),
        ('[targets.a]\nkind = "webhook"\nurl = "https://a.example"\nsecret = "canary"', True),
        ('[targets.a]\nkind = "webhook"\nurl = "https://a.example"', False),
        ('db = "here.db"', False),
        ("", False),
    ],
)
def test_what_counts_as_a_secret_in_a_settings_file(tmp_path: Path, text: str, is_exposed: bool) -> None:
    file = tmp_path / "wakeful.toml"
    file.write_text(text)
    file.chmod(0o604)
    assert exposed(file) == (str(file) if is_exposed else "")


def test_a_port_in_use_is_named(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _, err = run(start, "serve", "--port", str(port), code=2)
    assert f"error: --port: cannot listen on http://127.0.0.1:{port}: Address already in use." in err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_another_address_than_loopback_is_refused_without_tokens(start: Start, host: str) -> None:
    _, err = run(start, "serve", "--host", host, code=2)
    assert "there is no token yet" in err
    assert "Or bind to 127.0.0.1." in err


def test_a_closed_pipe_ends_quietly(start: Start) -> None:
    run(start, "at", "1h", "x" * 1000)
    process = start("ls", "--all")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(60) == 0


def test_a_terminal_sees_an_aligned_table(start: Start) -> None:
    run(start, "at", "2099-01-01T00:00:00Z", "one")
    mine, theirs = pty.openpty()
    process = start("ls", stdout=theirs)
    os.close(theirs)
    assert process.wait(60) == 0
    shown = re.sub("\x1b\\[[0-9;]*m", "", os.read(mine, 10_000).decode()).splitlines()
    os.close(mine)
    assert shown[0].split() == ["ID", "STATUS", "NEXT", "SCHEDULE", "TARGET", "MESSAGE"]
    assert shown[1].index("active") == shown[0].index("STATUS")

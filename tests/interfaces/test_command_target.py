"""A target of kind `command` in real processes: it is checked at the start, shown, and ended with whoever ran it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands import PROGRAM
from tests.interfaces.pty_world import environ, piped
from tests.leftovers import RUN
from tests.targets.test_command import DEAF, PID, is_running, number_in, python
from wakeful.clock import SystemClock, nap
from wakeful.errors import UnknownTarget
from wakeful.process.application import build
from wakeful.settings import Settings
from wakeful.store.memory import MemoryStore
from wakeful.targets.command import PASSED_ON

PATIENCE = 60.0  # seconds; a test waits for a condition
Serve = Callable[[], "subprocess.Popen[bytes]"]


def until(condition: Callable[[], bool]) -> None:
    clock = SystemClock()
    ends = clock.monotonic() + PATIENCE
    while not condition():
        assert clock.monotonic() < ends, "it did not happen in time"
        nap(0.02)


def configure(folder: Path, *argv: str, more: str = "") -> None:
    lines = (
        f"db = {json.dumps(str(folder / 'wakeful.db'))}",
        'stop_within = "1s"',
        "",
        "[targets.job]",
        'kind = "command"',
        f"argv = {json.dumps(argv)}",
        f"cwd = {json.dumps(str(folder))}",
        f"env = {json.dumps([*PASSED_ON, RUN])}",
        more,
    )
    (folder / "wakeful.toml").write_text("\n".join(lines))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Serve]:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen([*PROGRAM, "worker"], cwd=tmp_path, env=environ(SECRET_OF_OURS="s3"), stderr=log)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def the_fire(folder: Path) -> dict[str, str]:
    found = json.loads(piped("history", "--json", cwd=folder)[0])["history"]
    return {} if not found else dict(found[0])


def test_an_alarm_runs_the_program_and_its_output_is_the_result(tmp_path: Path, worker: Serve) -> None:
    configure(tmp_path, "/bin/sh", "-c", 'echo "done: $WAKEFUL_MESSAGE$SECRET_OF_OURS"')
    piped("at", "1s", "Water the plants", "--to", "job", cwd=tmp_path)
    worker()
    until(lambda: the_fire(tmp_path).get("status") == "completed")
    assert the_fire(tmp_path)["result"] == "done: Water the plants"


def test_exit_status_75_is_tried_again_and_a_final_one_is_not(tmp_path: Path, worker: Serve) -> None:
    configure(tmp_path, "/bin/sh", "-c", "echo busy >&2; exit $(cat status)", more="final_codes = [3]")
    (tmp_path / "status").write_text("75")
    piped("at", "1s", "first", "--to", "job", "--backoff-base", "1s", "--exact-backoff", cwd=tmp_path)
    worker()
    until(lambda: the_fire(tmp_path).get("status") == "retrying")
    assert the_fire(tmp_path)["error"] == "exit status 75 (try again later): busy"
    (tmp_path / "status").write_text("3")
    until(lambda: the_fire(tmp_path).get("status") == "failed")
    assert the_fire(tmp_path)["reason"] == "refused"
    assert the_fire(tmp_path)["error"] == "exit status 3: busy"


@pytest.mark.parametrize("signals", [1, 2])
def test_a_process_that_is_told_to_stop_ends_its_programs(tmp_path: Path, worker: Serve, signals: int) -> None:
    """After the first signal in good order, within `stop_within` and the grace; after the second at once."""
    configure(tmp_path, *python(PID + DEAF))
    piped("at", "1s", "Hang", "--to", "job", cwd=tmp_path)
    process = worker()
    until((tmp_path / "ready").exists)
    pid = number_in(tmp_path / "pid")
    process.send_signal(signal.SIGTERM)
    if signals == 2:
        until(lambda: b"stopping" in (tmp_path / "log").read_bytes())
        process.send_signal(signal.SIGTERM)
    process.wait(timeout=PATIENCE)
    assert process.returncode == (0 if signals == 1 else 128 + signal.SIGTERM)
    until(lambda: not is_running(pid))  # after the second signal nobody waits for the kernel
    assert the_fire(tmp_path).get("status") in (None, "pending", "retrying"), "it is not lost: it comes again"


def test_a_program_that_is_not_there_is_said_before_anything_is_served(tmp_path: Path) -> None:
    configure(tmp_path, "/no/such/agent")
    said = "wakeful.toml, line 6: /no/such/agent is not an executable file"
    assert said in piped("worker", cwd=tmp_path, code=2)[1]
    assert said in piped("target", "test", "job", cwd=tmp_path, code=2)[1]
    piped("at", "1h", "x", "--to", "job", cwd=tmp_path)  # who only sets alarms need not have the program
    found = [line.split("\t") for line in piped("doctor", cwd=tmp_path, code=1)[0].splitlines()]
    [failed] = [line for line in found if line[0] == "fail" and "agent" in line[2]]
    assert said in failed[2]
    assert "full path" in failed[3]


def test_it_is_listed_and_tried_like_other_targets(tmp_path: Path) -> None:
    configure(tmp_path, "/bin/sh", "-c", 'echo "$WAKEFUL_MESSAGE"; test "$WAKEFUL_MESSAGE" = fine')
    piped("at", "1h", "x", "--to", "job", cwd=tmp_path)
    assert "job\t" in piped("target", "ls", cwd=tmp_path)[0]
    tried = json.loads(piped("target", "test", "job", "--message", "fine", "--json", cwd=tmp_path)[0])
    assert (tried["outcome"], tried["result"]) == ("completed", "fine")
    tried = json.loads(piped("target", "test", "job", "--json", cwd=tmp_path, code=1)[0])
    assert (tried["outcome"], tried["error"]) == ("failed", "exit status 1")


def test_a_test_that_is_ended_ends_the_program(tmp_path: Path) -> None:
    configure(tmp_path, *python(PID + "open('ready', 'w'); import time; time.sleep(600)"))
    process = subprocess.Popen([*PROGRAM, "target", "test", "job"], cwd=tmp_path, env=environ())
    until((tmp_path / "ready").exists)
    process.terminate()
    process.wait(timeout=PATIENCE)
    assert not is_running(number_in(tmp_path / "pid"))


async def test_another_owner_cannot_use_it_and_is_not_told_of_it() -> None:
    target = {"kind": "command", "argv": ["/bin/true"]}
    clock = build(Settings(targets={"job": target}), store=MemoryStore())
    async with clock:
        with pytest.raises(UnknownTarget, match=r"Known names: inbox\.$"):
            await clock.for_owner("eve").set("in 1 hour", "x", target="job")
        assert (await clock.set("in 1 hour", "x", target="job")).target == "job"


def test_a_program_may_call_wakeful_itself(tmp_path: Path) -> None:
    call = f"{' '.join(PROGRAM)} --db wakeful.db at 1h 'from a wake' --json"
    configure(tmp_path, "/bin/sh", "-c", call)
    tried = json.loads(piped("target", "test", "job", "--json", cwd=tmp_path)[0])
    assert json.loads(tried["result"])["wake_message"] == "from a wake"


def test_an_exit_status_counts_also_where_wakeful_was_started_with_sigchld_ignored(tmp_path: Path) -> None:
    """It is inherited, and each program would seem to have exited with 0."""
    configure(tmp_path, "/bin/sh", "-c", "exit 3")
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", ignoring, *PROGRAM, "target", "test", "job", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environ(), capture_output=True, timeout=PATIENCE, check=False)
    assert json.loads(done.stdout)["error"] == "exit status 3"

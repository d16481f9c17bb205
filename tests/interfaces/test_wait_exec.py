"""`wakeful wait --exec`: a program for each wake of the inbox, without any configuration, and what is reported."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import PROGRAM
from tests.interfaces.pty_world import environ, piped
from tests.interfaces.test_command_target import until
from tests.remote.world import serving_process
from tests.targets.test_command import PID, is_running, number_in, python

Wait = Callable[..., "subprocess.Popen[str]"]
PROMPT = ("/bin/sh", "-c", 'read -r first; echo "read: $first"')


@pytest.fixture
def deliver(tmp_path: Path) -> Iterator[Path]:
    """A folder with a database on which somebody delivers."""
    piped("at", "1h", "Look at the mail", cwd=tmp_path, env=DB)
    worker = subprocess.Popen([*PROGRAM, "worker"], cwd=tmp_path, env=environ(**DB), stderr=subprocess.DEVNULL)
    yield tmp_path
    worker.terminate()
    worker.wait()


@pytest.fixture
def wait(tmp_path: Path) -> Iterator[Wait]:
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, **env: str) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [*PROGRAM, "wait", "--exec", *args]
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environ(**DB, **env), **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


DB = {"WAKEFUL_DB": "wakeful.db", "WAKEFUL_MIN_INTERVAL": "1s"}


def alarm(folder: Path, message: str, *more: str) -> str:
    set_ = piped("at", "1s", message, "--backoff-base", "1s", *more, "--json", cwd=folder, env=DB)[0]
    return str(json.loads(set_)["id"])


def fire_of(folder: Path, id: str) -> dict[str, Any]:
    found = json.loads(piped("show", id, "--json", cwd=folder, env=DB)[0])["fires"]
    return dict(found[0]) if found else {}


def line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n").split("\t")


def test_each_wake_is_run_and_reported_until_ctrl_c(deliver: Path, wait: Wait) -> None:
    waiting = wait("--stdin", "prompt", "--", *PROMPT)
    for message in ("Good morning", "Good evening"):
        id = alarm(deliver, message)
        assert line(waiting)[1:] == ["completed", f"read: {message}"]
        assert (fire_of(deliver, id)["status"], fire_of(deliver, id)["result"]) == ("completed", f"read: {message}")
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    assert waiting.returncode == 0


def test_a_failure_is_reported_and_the_wake_comes_again(deliver: Path, wait: Wait) -> None:
    first_fails = 'test "$WAKEFUL_ATTEMPT" = 2 || { echo "no network" >&2; exit 75; }'
    waiting = wait("--count", "2", "--json", "/bin/sh", "-c", first_fails)  # no -- is needed
    id = alarm(deliver, "Read")
    out, err = waiting.communicate(timeout=60)
    said = [json.loads(one) for one in out.splitlines()]
    assert [one["outcome"] for one in said] == ["failed", "completed"], err
    assert said[0]["error"] == "exit status 75 (try again later): no network"
    assert waiting.returncode == 1  # one failed
    assert fire_of(deliver, id)["status"] == "completed"


def test_it_gets_the_same_as_from_a_target_and_the_caller_s_own_environment(deliver: Path, wait: Wait) -> None:
    dump = python("import json, os, sys; print(json.dumps([json.load(sys.stdin), dict(os.environ)]))")
    waiting = wait("-n", "1", "--json", "--", *dump, MY_KEY="k", WAKEFUL_LAST_ERROR="of another wake")
    id = alarm(deliver, "Good morning", "--payload", '{"page": 3}', "--conversation", "c-1")
    said = json.loads(waiting.communicate(timeout=60)[0])
    wake, env = json.loads(said["result"])
    assert (wake["fire_id"], wake["alarm_id"], wake["payload"]) == (said["fire_id"], id, {"page": 3})
    assert wake["token"] == "[hidden]"
    ours = {name: value for name, value in env.items() if name.startswith("WAKEFUL_")}
    assert ours.pop("WAKEFUL_SCHEDULED_FOR")
    assert int(ours.pop("WAKEFUL_LATE_MS")) >= 0
    assert ours == DB | {
        "WAKEFUL_FIRE_ID": said["fire_id"],
        "WAKEFUL_ALARM_ID": id,
        "WAKEFUL_OWNER": "local",
        "WAKEFUL_TARGET": "inbox",
        "WAKEFUL_CONVERSATION_ID": "c-1",
        "WAKEFUL_MESSAGE": "Good morning",
        "WAKEFUL_PAYLOAD": '{"page": 3}',
        "WAKEFUL_AUTHOR": wake["author"],
        "WAKEFUL_ATTEMPT": "1",
        "WAKEFUL_NUMBER": "1",
        "WAKEFUL_MISSED": "0",
    }
    assert env["MY_KEY"] == "k"


def test_the_wake_of_a_series_says_which_one_it_is(deliver: Path, wait: Wait) -> None:
    waiting = wait("-n", "2", "--", "/bin/sh", "-c", 'echo "$WAKEFUL_FIRE_ID $WAKEFUL_NUMBER"')
    piped("every", "1", "second", "Look", cwd=deliver, env=DB)
    for number in (1, 2):
        fire, outcome, printed = line(waiting)
        assert (outcome, printed) == ("completed", f"{fire} {number}")


def test_the_lease_is_kept_while_the_program_runs(deliver: Path, wait: Wait) -> None:
    """It would run out after a second: then the wake would be handed out once more."""
    waiting = wait("-n", "1", "--", "/bin/sh", "-c", "echo run >> runs; while test ! -e go; do sleep 0.05; done")
    id = alarm(deliver, "Read", "--report-within", "1s")
    until((deliver / "runs").exists)
    second = wait("--for", "4s", "--", "/bin/sh", "-c", "echo run >> runs")
    second.communicate(timeout=60)
    assert second.returncode == 1, "none came"
    (deliver / "go").touch()
    waiting.communicate(timeout=60)
    assert (deliver / "runs").read_text() == "run\n"
    assert (fire_of(deliver, id)["status"], fire_of(deliver, id)["attempts"]) == ("completed", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_the_program_and_the_wake_is_not_lost(deliver: Path, wait: Wait, number: int) -> None:
    waiting = wait("--", *python(PID + "open('ready', 'w'); import time; time.sleep(600)"))
    id = alarm(deliver, "Hang", "--report-within", "2s")
    until((deliver / "ready").exists)
    waiting.send_signal(number)
    _, err = waiting.communicate(timeout=60)
    assert not is_running(number_in(deliver / "pid"))
    assert "was not finished: it comes again when its lease ends" in err
    assert waiting.returncode == 0
    assert line(wait("-n", "1", "--", *PROMPT))[1] == "completed"
    assert fire_of(deliver, id)["attempts"] == 2


def test_it_works_on_the_wakes_of_a_server(tmp_path: Path, wait: Wait) -> None:
    with serving_process(tmp_path, "--db", "server.db") as serving:
        ours = {"WAKEFUL_URL": serving.url}
        set_ = piped("at", "1s", "Good morning", "--json", cwd=tmp_path, env=ours)[0]
        argv = ("/bin/sh", "-c", 'echo "$WAKEFUL_ALARM_ID ${WAKEFUL_REPORT_TOKEN:-none}"')
        waiting = wait("-n", "1", "--url", serving.url, "--", *argv)
        assert line(waiting)[1:] == ["completed", f"{json.loads(set_)['id']} none"]


def test_a_program_that_takes_too_long_is_ended_and_reported_as_failed(deliver: Path, wait: Wait) -> None:
    waiting = wait("-n", "1", "--timeout", "1s", "--", "/bin/sleep", "600")
    alarm(deliver, "Hang")
    assert line(waiting)[1:] == ["failed", "it did not end within 1 s, and was ended"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("wait", "--exec"), "a program needs --exec"),
        (("wait", "--", "echo"), "a program needs --exec"),
        (("wait", "--exec", "/no/such/program"), "PROGRAM: /no/such/program is not an executable file"),
        (("wait", "-n", "101"), "101 is more than 100"),
        (("wait", "--exec", "--timeout", "soon", "echo"), "soon"),
    ],
)
def test_what_it_cannot_do_is_said_before_a_wake_is_taken(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    assert said in piped(*args, cwd=tmp_path, env=DB, code=2)[1]

"""The tests' own tools: lanes, the guard of the event loop, and what is left of a run that was interrupted."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests import durations, lanes, leftovers
from tests.loop_guard import LIMIT, LoopGuard

ROOT = Path(__file__).parent.parent
PATIENCE = 300.0  # a run starts two Pythons and a PostgreSQL
OF_THIS_RUN = (leftovers.RUN, "WAKEFUL_TEST_PG_DSN", "PYTEST_DEBUG_TEMPROOT", "PYTEST_XDIST_WORKER")
A_TEST_THAT_STAYS = """
import subprocess, sys, time
from pathlib import Path
def test_it(pg_dsn):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note = Path({path!r})
    note.with_suffix(".new").write_text(f"{{child.pid}} {{pg_dsn}}")
    note.with_suffix(".new").rename(note)
    time.sleep(600)
"""


def collected(*args: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {line for line in ran.stdout.splitlines() if "::" in line}


def test_each_lane_holds_the_one_before() -> None:
    places = (
        "tests/store/test_conformance.py",
        "tests/store/test_postgres_pgbouncer.py",
        "tests/interfaces/test_sse.py",
    )
    quick, usual, long = (collected(*lane, *places) for lane in (["--quick"], [], ["--long"]))
    assert quick < usual < long
    assert {name.partition("::")[0] for name in quick} == {"tests/store/test_conformance.py"}
    assert not [name for name in quick if "postgres" in name]
    assert [name for name in usual if "test_conformance" in name and "[postgres]" in name]
    assert not [name for name in usual if "test_sse" in name and "[postgres]" in name]


def test_every_place_of_a_lane_is_there() -> None:
    named = (lanes.QUICK, lanes.NOT_QUICK, lanes.LONG, (lanes.POOLED,), lanes.ABOVE_THE_STORE, lanes.BOTH_STORES)
    assert [place for places in named for place in places if not (lanes.TESTS / place).exists()] == []


@pytest.mark.parametrize(
    ("options", "number"),
    [
        (["-p", "no:xdist"], signal.SIGTERM),
        (["-n", "1"], signal.SIGINT),
        (["-n", "1"], signal.SIGTERM),
        (["-n", "1"], signal.SIGKILL),
    ],
)
def test_an_interrupted_run_leaves_no_process_and_no_data(
    tmp_path: Path, options: list[str], number: signal.Signals
) -> None:
    with _a_run_that_stays(tmp_path, options) as (run, child, folder):
        run.send_signal(number)
        run.wait(PATIENCE)
        _until(lambda: not psutil.pid_exists(child) and not _servers(folder) and not folder.exists())


def test_a_killed_process_of_a_run_leaves_no_process_and_no_data(tmp_path: Path) -> None:
    with _a_run_that_stays(tmp_path, ["-n", "1"]) as (run, child, folder):
        (worker,) = [one for one in psutil.Process(run.pid).children() if child in [its.pid for its in one.children()]]
        worker.kill()
        assert run.wait(PATIENCE) == pytest.ExitCode.TESTS_FAILED
        _until(lambda: not psutil.pid_exists(child) and not _servers(folder) and not folder.exists())


def test_processes_of_a_run_in_the_background_can_be_interrupted(tmp_path: Path) -> None:
    """What a shell starts in the background has that signal ignored, and so would all that it starts."""
    (tmp_path / "test_it.py").write_text(
        """
import signal, subprocess, sys
def test_it():
    asked = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT))"]
    assert "default_int_handler" in subprocess.run(asked, capture_output=True, text=True).stdout
"""
    )
    environ = {name: value for name, value in os.environ.items() if name not in OF_THIS_RUN}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir=."]
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command, "-n", "1", "."],
        cwd=tmp_path,
        env=environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def _a_run_that_stays(place: Path, options: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A run of its own in a test that started a process and a PostgreSQL, with what to look for when it has ended."""
    note = place / "note"
    (place / "test_stays.py").write_text(A_TEST_THAT_STAYS.format(path=str(note)))
    environ = {name: value for name, value in os.environ.items() if name not in OF_THIS_RUN}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir=."]
    run = subprocess.Popen([*command, *options, "."], cwd=place, env=environ | {"PYTHONPATH": str(ROOT)})
    try:
        _until(note.exists)
        child, dsn = note.read_text().split()
        folder = Path(dsn.partition("host=")[2]).parent
        assert psutil.pid_exists(int(child))
        assert _servers(folder)
        yield run, int(child), folder
    finally:
        run.kill()
        run.wait(PATIENCE)


def _servers(folder: Path) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(one.info["cmdline"] or [])]


def _until(true: object) -> None:
    assert callable(true)
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.05)


def _busy(seconds: float) -> None:
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        sum(range(100))


async def test_a_callback_that_holds_the_loop_is_found_with_its_stack() -> None:
    busy = compile("def busy():\n    hold(0.3)", "somewhere/server.py", "exec")
    names: dict[str, object] = {"hold": _HOLD}
    exec(busy, names)
    with LoopGuard(limit=LIMIT / 10).watching() as guard:  # so that no machine is too slow for it to be found
        asyncio.get_running_loop().call_soon(names["busy"])  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(guard.slow) == 1
    assert "somewhere/server.py" in guard.slow[0]


async def test_what_the_test_does_itself_and_what_only_waits_is_not_found() -> None:
    with LoopGuard().watching() as guard:
        asyncio.get_running_loop().call_soon(time.sleep, 2 * LIMIT)
        _busy(2 * LIMIT)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert guard.slow == []


def test_a_test_in_which_a_callback_was_slow_runs_again_and_fails_if_it_is_slow_three_times(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_protocol")
    (tmp_path / "test_slow.py").write_text(
        """
from tests.loop_guard import SlowCallback
ran = []
def test_once():
    ran.append("once")
    if ran == ["once"]:
        raise SlowCallback
def test_twice():
    ran.append("twice")
    if ran.count("twice") <= 2:
        raise SlowCallback
def test_always():
    raise SlowCallback
def test_wrong():
    ran.append("wrong")
    assert ran.count("wrong") > 1
"""
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir=.", "."]
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert not {"test_once", "test_twice"} & set(re.findall(r"\btest_\w+", done.stdout))


def test_durations_are_summed_by_directory_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "quick.xml").write_text(
        """<testsuites><testsuite time="1.2" timestamp="2026-11-19T17:00:00.1+00:00">
        <testcase classname="tests.rules.test_a.TestB" name="test_c[x|\ny]" time="1.5"/>
        <testcase classname="tests.test_runs" name="test_d" time="0.5"/></testsuite></testsuites>"""
    )
    found = durations.page([durations.read(tmp_path / "quick.xml")])
    assert "## ./scripts/test quick\n\n2026-11-19: 2 tests in 1 seconds, 2 seconds in all processes." in found
    assert "| rules | 1 | 2 | 75% |" in found
    assert "| tests/rules/test_a.py | 1 | 2 | 75% |" in found
    assert "| `tests/rules/test_a.py::test_c[x\\| y]` | 1.5 |" in found
    assert "| `tests/test_runs.py::test_d` | 0.5 |" in found


def test_durations_of_a_lane_leave_those_of_others_as_they_are() -> None:
    quick, usual = (durations.Run(lane, "2026-11-19", 60.0, []) for lane in ("quick", "usual"))
    again = durations.Run("usual", "2027-01-02", 70.0, [])
    both = durations.page([quick, usual])
    assert durations.page([usual], durations.page([quick])) == both
    assert durations.page([quick], durations.page([usual])) == both
    assert durations.page([again], both) == durations.page([quick, again])


_names: dict[str, object] = {}
exec(  # not of a file of the tests
    compile(
        "import time\ndef hold(seconds):\n    ends = time.thread_time() + seconds\n"
        "    while time.thread_time() < ends:\n        sum(range(100))",
        "somewhere/library.py",
        "exec",
    ),
    _names,
)
_HOLD = _names["hold"]
